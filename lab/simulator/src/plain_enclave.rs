//! The enclave of boolean search as a process whose channels protect nothing: for the laboratory, which compares, and for tests of what is
//! around it. The enclave's own program (`arras-enclave`) has no such channels.
#![forbid(unsafe_code)]

use arras_iee::{Iee, serve};
use arras_keys::Key;
use arras_simulator::talking::channels;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// What comes before the name of the file with the sealing key.
const SEALING: &str = "--sealing-key";

fn run(sealing: &Path) -> io::Result<()> {
    if !sealing.exists() {
        std::fs::write(sealing, Key::generate().expose())?;
    }
    let mut material = <[u8; Key::BYTES]>::try_from(std::fs::read(sealing)?)
        .map_err(|_| io::Error::other(format!("{}: no key", sealing.display())))?;
    serve(Iee::new(Key::take_from(&mut material), channels()), |_| Ok(Vec::new()))
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args_os().skip(1).collect();
    let [option, sealing] = &arguments[..] else {
        eprintln!("Expected is {SEALING} FILE.");
        return ExitCode::FAILURE;
    };
    if option != SEALING {
        eprintln!("Expected is {SEALING} FILE.");
        return ExitCode::FAILURE;
    }
    eprintln!(
        "Warning: channels to clients are plain, and there are no walls: nothing is protected from anybody."
    );
    let Err(error) = run(Path::new(sealing)) else { return ExitCode::SUCCESS };
    eprintln!("The enclave ends: {error}.");
    ExitCode::FAILURE
}
