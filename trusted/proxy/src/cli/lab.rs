//! `arras lab`: becomes `arras-lab`. The lab holds both halves, so it is not part of this executable.

use super::search::STORES;
use super::unlock::PASSPHRASE;
use super::{Failure, executable};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// `arras bench`: `arras lab bench` by a shorter name.
pub(super) fn bench(mut arguments: Vec<OsString>) -> Result<(), Failure> {
    arguments.insert(0, "bench".into());
    run(&arguments)
}

pub(super) fn run(arguments: &[OsString]) -> Result<(), Failure> {
    if arguments.starts_with(&["bench".into(), "bisen".into()]) {
        // It starts these two, with every storage service.
        executable::find("arras-enclave", "arras-iee", &[])?;
        executable::find("arras-host", "arras-host", &STORES)?;
    }
    // A run over the network starts it.
    if arguments.iter().any(|argument| argument == "--server") {
        // With the protocols that only the laboratory runs.
        executable::find("arras-server", "arras-server", &["arras-server/process", "arras-server/lab"])?;
    }
    let program = executable::find("arras-lab", "arras-lab", &[])?;
    // Comes back only if it fails: the lab's exit code is this process's.
    let error = Command::new(&program).args(arguments).env_remove(PASSPHRASE).exec();
    Err(Failure::ServerProcess(format!("{}: {error}", program.display())))
}
