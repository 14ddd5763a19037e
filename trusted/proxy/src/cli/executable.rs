//! The other executables of this repository, which this one starts.

use super::Failure;
use super::unlock::PASSPHRASE;
use std::path::{Path, PathBuf};

/// An executable: beside this one, or on the path. A checkout run by cargo builds it first, from `package`,
/// with these features of the packages (`package/feature`) beside the usual ones.
pub(super) fn find(name: &str, package: &str, features: &[&str]) -> Result<PathBuf, Failure> {
    let own = std::env::current_exe()?;
    let beside = own.with_file_name(name);
    if let Some(cargo) = std::env::var_os("CARGO") {
        build(Path::new(&cargo), &own, (name, package), features)?;
    }
    if beside.is_file() {
        return Ok(beside);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found =
        std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file());
    found.ok_or_else(|| {
        Failure::ServerProcess(format!(
            "{name} is neither beside {} nor on the path; build it with: cargo build --release -p {package}",
            own.display()
        ))
    })
}

/// `cargo run` builds this executable only: the others are built with the same profile, and with what this one's
/// dependencies were: the same features, and an environment without what `cargo run` put into it, which build scripts look at.
fn build(cargo: &Path, own: &Path, (name, package): (&str, &str), features: &[&str]) -> Result<(), Failure> {
    // The directory is named like the profile, but for that of development.
    let profile = own.parent().and_then(Path::file_name).filter(|profile| *profile != "debug");
    let mut command = std::process::Command::new(cargo);
    command.args(["build", "--package", env!("CARGO_PKG_NAME"), "--package", package, "--bin", name]);
    let own_features = cfg!(feature = "demo").then_some(concat!(env!("CARGO_PKG_NAME"), "/demo"));
    for feature in features.iter().copied().chain(own_features) {
        command.args(["--features", feature]);
    }
    for (variable, _) in std::env::vars_os() {
        let added = |start: &str| variable.to_str().is_some_and(|variable| variable.starts_with(start));
        if added("CARGO_PKG_") || added("CARGO_MANIFEST") {
            command.env_remove(&variable);
        }
    }
    command.env_remove(PASSPHRASE);
    if let Some(profile) = profile {
        command.arg("--profile").arg(profile);
    }
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(Failure::ServerProcess(format!("{name} does not build"))) }
}
