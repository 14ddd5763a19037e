//! A passphrase typed at the terminal: not shown, and read into one place from which it is wiped.

use crate::cli::Failure;
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use zeroize::{Zeroize, Zeroizing};

/// Longest passphrase that is taken, in bytes; a terminal's line is no longer than its own buffer (4096).
const BYTES_MAX: usize = 4096;

/// The terminal without echo, until this is dropped.
struct Silent<'t> {
    terminal: &'t File,
    before: rustix::termios::Termios,
}

impl<'t> Silent<'t> {
    fn new(terminal: &'t File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent.local_modes.remove(LocalModes::ECHO | LocalModes::ECHONL);
        tcsetattr(terminal, OptionalActions::Now, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Silent<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Asks at the terminal; `variable` is what may be set instead.
pub(super) fn ask(prompt: &str, variable: &str) -> Result<Zeroizing<String>, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::Unlock(format!(
            "no terminal to ask for the passphrase: set {variable}, or use a key file"
        )));
    }
    let mut terminal = OpenOptions::new().read(true).write(true).open("/dev/tty")?;
    terminal.write_all(prompt.as_bytes())?;
    let typed = {
        let _silent = Silent::new(&terminal)?;
        read_line(&mut &terminal)
    };
    terminal.write_all(b"\n")?;
    typed
}

/// Reads up to the end of a line, byte by byte into memory of its full size: what a buffer leaves behind as it grows, or
/// keeps of its own, nobody would wipe.
pub(super) fn read_line(input: &mut impl Read) -> Result<Zeroizing<String>, Failure> {
    let mut line = Zeroizing::new(Vec::with_capacity(BYTES_MAX));
    let mut byte = Zeroizing::new([0; 1]);
    loop {
        match input.read(byte.as_mut_slice()) {
            Ok(0) if line.is_empty() => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
            Ok(0) => break,
            Ok(_) if matches!(byte[0], b'\n' | b'\r') => break,
            Ok(_) if line.len() == BYTES_MAX => {
                let what = format!("a passphrase of more than {BYTES_MAX} bytes is not taken");
                return Err(Failure::Unlock(what));
            }
            Ok(_) => line.push(byte[0]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    String::from_utf8(std::mem::take(&mut *line)).map(Zeroizing::new).map_err(|error| {
        error.into_bytes().zeroize();
        Failure::Unlock("the passphrase is not UTF-8".into())
    })
}
