//! `arras search`: becomes `arras-search`, which reads files and mail from anybody and needs none of this executable's keys.

use super::unlock::PASSPHRASE;
use super::{Failure, executable};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

pub(super) fn run(arguments: &[OsString]) -> Result<(), Failure> {
    // It starts these two.
    executable::find("arras-host", "arras-host", &[])?;
    executable::find("arras-enclave", "arras-iee", &[])?;
    let program = executable::find("arras-search", "arras-searcher", &[])?;
    // Comes back only if it fails: the search's exit code is this process's.
    let error = Command::new(&program).args(arguments).env_remove(PASSPHRASE).exec();
    Err(Failure::ServerProcess(format!("{}: {error}", program.display())))
}
