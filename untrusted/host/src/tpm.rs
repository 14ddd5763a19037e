//! A TPM 2.0: quotes of what the machine has booted, and a counter that a restored disk does not set back.
//!
//! Asked by `tpm2-tools` as programs: what there is of libraries needs C libraries to build with. `TPM2TOOLS_TCTI` says where the TPM is; without it the
//! tools find the machine's.

mod counter;
mod quote;

pub use counter::TpmCounter;
pub use quote::TpmQuotes;

use std::ffi::OsStr;
use std::io;
use std::process::{Command, Stdio};

/// What a tool prints when it is given arguments.
///
/// # Errors
/// It is not there, or fails: with a line of its own words.
fn run(tool: &str, arguments: &[&OsStr]) -> io::Result<Vec<u8>> {
    ended(tool, arguments, Stdio::piped())
}

/// Runs a tool; what it prints, if that is not to go elsewhere.
///
/// # Errors
/// As of [`run`].
fn ended(tool: &str, arguments: &[&OsStr], output: Stdio) -> io::Result<Vec<u8>> {
    let missing = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => {
            io::Error::other(format!("{tool} is not installed; it is one of tpm2-tools"))
        }
        _ => error,
    };
    let mut command = Command::new(tool);
    command.args(arguments).stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
    let ended = command.output().map_err(missing)?;
    if ended.status.success() {
        return Ok(ended.stdout);
    }
    let said = String::from_utf8_lossy(&ended.stderr);
    let why = said.lines().rev().find(|line| line.contains("tpm:")).or_else(|| said.lines().next_back());
    Err(io::Error::other(format!("{tool}: {}", why.unwrap_or("it says nothing").trim())))
}
