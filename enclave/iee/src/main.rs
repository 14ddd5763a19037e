//! The enclave as a process: frames of [`arras_protocol::iee`] on standard input and output, and nothing else.
//!
//! Its sealing key is in a file, which it makes if there is none: a processor with enclaves would derive it from the measurement. So this
//! form protects against nobody who can read that file or this process's memory; it separates the code, not the machine. Its host
//! need not be able to read either. Once it has the key the process gives up what it does not need (the module `walls`).
#![forbid(unsafe_code)]

mod gramine;
mod walls;

use arras_iee::{Channels, Fault, Iee};
use arras_keys::Key;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::ExitCode;

/// What leaves out the walls: for debuggers. The enclave's evidence says so, and clients refuse it unless their policy allows that.
const DEBUG: &str = "--debug";

/// What comes before the folder with Gramine's files, where the program runs in SGX: `/dev/attestation`.
const GRAMINE: &str = "--gramine";

/// What comes before the name of the file with the sealing key.
const SEALING: &str = "--sealing-key";

/// The key in a file that only its owner may read; a new one if there is no file.
fn sealing_key(path: &Path) -> io::Result<Key> {
    if !path.try_exists()? {
        // Beside it, so that it is there whole or not at all.
        let new = path.with_extension("new");
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(Key::generate().expose())?;
        file.sync_all()?;
        fs::rename(new, path)?;
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()?;
    }
    let mut file = File::open(path)?;
    if file.metadata()?.permissions().mode() & 0o077 != 0 {
        return Err(io::Error::other("others than its owner may read it"));
    }
    let mut material = [0; Key::BYTES];
    file.read_exact(&mut material)?;
    Ok(Key::take_from(&mut material))
}

/// An ordinary process, behind its walls.
fn process(file: &Path, debug: bool) -> io::Result<()> {
    eprintln!(
        "Warning: this enclave is an ordinary process, its sealing key a file: nothing is protected from who has this machine."
    );
    let key = sealing_key(file).map_err(|error| io::Error::other(format!("{}: {error}", file.display())))?;
    if debug {
        eprintln!("Warning: the enclave runs without its walls.");
    } else {
        walls::build()?;
    }
    arras_iee::serve(Iee::new(key, Channels::Attested { debug }), |_| Ok(Vec::new()))
}

/// In SGX, under Gramine, which has no walls to build: so what is not the processor's own evidence does not vouch for it.
fn enclave(folder: &Path) -> io::Result<()> {
    // What a panic says would be among the frames.
    std::panic::set_hook(Box::new(|_| ()));
    let key = gramine::sealing_key(folder).map_err(|_| io::Error::other(Fault::NoSealingKey))?;
    let iee = Iee::new(key, Channels::Attested { debug: true });
    arras_iee::serve(iee, |binding| gramine::quote(folder, binding).map_err(|_| Fault::NoQuote))
}

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let given = arguments.len();
    arguments.retain(|argument| argument != DEBUG);
    let debug = arguments.len() < given;
    let said = |error: &io::Error| eprintln!("The enclave ends: {error}.");
    let ended = match &arguments[..] {
        [option, file] if option == SEALING => process(Path::new(file), debug).inspect_err(said),
        [option, folder] if option == GRAMINE && !debug => enclave(Path::new(folder)),
        _ => {
            eprintln!("Expected are {SEALING} FILE, without walls {DEBUG} too, or in SGX {GRAMINE} FOLDER.");
            return ExitCode::FAILURE;
        }
    };
    let Err(error) = ended else { return ExitCode::SUCCESS };
    let fault = error.get_ref().and_then(|inner| inner.downcast_ref::<Fault>());
    fault.map_or(ExitCode::FAILURE, |fault| ExitCode::from(fault.code()))
}
