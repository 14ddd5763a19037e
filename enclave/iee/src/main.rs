//! The enclave as a process: frames of [`arras_protocol::iee`] on standard input and output, and nothing else.
//!
//! Its sealing key is in a file, which it makes if there is none: a processor with enclaves would derive it from the measurement. So this
//! form protects against nobody who can read that file or this process's memory; it separates the code, not the machine. Its host
//! need not be able to read either. Once it has the key the process gives up what it does not need (the module `walls`).
#![forbid(unsafe_code)]

mod walls;

use arras_iee::{Channels, Fault, Iee, SPILLED_MAX};
use arras_keys::Key;
use arras_protocol::codec::encode;
use arras_protocol::iee::{FRAME_BYTES_MAX, Incoming, Outgoing};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What allows channels without protection.
const PLAIN: &str = "--plain-channels";

/// What leaves out the walls: for debuggers. The enclave's evidence says so, and clients refuse it unless their policy allows that.
const DEBUG: &str = "--debug";

/// What comes before a number: most records of keywords that are spilled.
const SPILLED: &str = "--spilled-keywords";

/// What comes before the name of the file with the sealing key.
const SEALING: &str = "--sealing-key";

/// The key in a file that only its owner may read; a new one if there is no file.
fn sealing_key(path: &Path) -> io::Result<Key> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            // Beside it, so that it is there whole or not at all.
            let (new, key) = (path.with_extension("new"), Key::generate());
            let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
            file.write_all(key.expose())?;
            file.sync_all()?;
            fs::rename(new, path)?;
            File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()?;
            Ok(key)
        }
        Ok(mut file) => {
            if file.metadata()?.permissions().mode() & 0o077 != 0 {
                return Err(io::Error::other("others than its owner may read it"));
            }
            let mut material = [0; Key::BYTES];
            file.read_exact(&mut material)?;
            Ok(Key::take_from(&mut material))
        }
        Err(error) => Err(error),
    }
}

fn frame(input: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<bool> {
    // Between two frames the host may end the enclave.
    if input.fill_buf()?.is_empty() {
        return Ok(false);
    }
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::other(Fault::Malformed));
    }
    body.resize(length, 0);
    input.read_exact(body)?;
    Ok(true)
}

fn send(output: &mut impl Write, message: &Outgoing) -> io::Result<()> {
    let body = encode(message);
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    output.write_all(&length.to_le_bytes())?;
    output.write_all(&body)
}

fn run(sealing: &Path, channels: Channels, spilled_max: u64) -> io::Result<()> {
    let key = sealing_key(sealing);
    let key = key.map_err(|error| io::Error::other(format!("{}: {error}", sealing.display())))?;
    if channels != (Channels::Attested { debug: true }) {
        walls::build()?;
    }
    let mut input = BufReader::with_capacity(1 << 20, io::stdin().lock());
    let mut output = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    let mut iee = Iee::new(key, channels).with_bounds(usize::MAX, spilled_max);
    let mut body = Vec::new();
    while frame(&mut input, &mut body)? {
        let incoming = Incoming::decode(&body).map_err(|_| io::Error::other(Fault::Malformed))?;
        for message in iee.receive(incoming).map_err(io::Error::other)? {
            send(&mut output, &message)?;
        }
        output.flush()?;
    }
    Ok(())
}

/// Where the sealing key is, which channels there are, and how much may be spilled; nothing if the arguments do not say it.
fn arguments() -> Option<(PathBuf, Channels, u64)> {
    let walled = Channels::Attested { debug: false };
    let (mut channels, mut spilled_max, mut sealing) = (walled, SPILLED_MAX, None);
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.to_str()? {
            SEALING => sealing = arguments.next(),
            SPILLED => spilled_max = arguments.next()?.to_str()?.parse().ok()?,
            DEBUG if channels == walled => channels = Channels::Attested { debug: true },
            PLAIN if channels == walled => channels = Channels::Plain,
            _ => return None,
        }
    }
    Some((sealing?.into(), channels, spilled_max))
}

fn main() -> ExitCode {
    let Some((sealing, channels, spilled_max)) = arguments() else {
        eprintln!(
            "Expected are {SEALING} FILE and, if need be, {DEBUG} (no walls) or {PLAIN} (clients without protection, for tests), \
             and {SPILLED} N, for another number than {SPILLED_MAX}."
        );
        return ExitCode::FAILURE;
    };
    eprintln!(
        "Warning: this enclave is an ordinary process, its sealing key a file: nothing is protected from who has this machine."
    );
    match channels {
        Channels::Plain => {
            eprintln!("Warning: channels to clients are plain: nothing is protected on the way either.")
        }
        Channels::Attested { debug: true } => eprintln!("Warning: the enclave runs without its walls."),
        Channels::Attested { debug: false } => {}
    }
    let Err(error) = run(&sealing, channels, spilled_max) else { return ExitCode::SUCCESS };
    eprintln!("The enclave ends: {error}.");
    ExitCode::FAILURE
}
