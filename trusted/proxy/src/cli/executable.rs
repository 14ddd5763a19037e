//! The other executables of this repository, which this one starts.

use super::Failure;
use super::unlock::PASSPHRASE;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// An executable: beside this one, or on the path. A checkout run by cargo builds it first, from `package`,
/// with these of its features (`package/feature`), and none that are the default unless they are named.
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

/// This executable's own features: what is built beside it is built with them, so that nothing both need is compiled twice.
const OWN: [(&str, bool); 2] = [
    (concat!(env!("CARGO_PKG_NAME"), "/search"), cfg!(feature = "search")),
    (concat!(env!("CARGO_PKG_NAME"), "/demo"), cfg!(feature = "demo")),
];

/// `cargo run` builds this executable only: the others are built with the same profile, and with what this one's
/// dependencies were: the same features, and an environment without what `cargo run` put into it, which build scripts look at.
fn build(cargo: &Path, own: &Path, (name, package): (&str, &str), features: &[&str]) -> Result<(), Failure> {
    let mut command = std::process::Command::new(cargo);
    command.args(["build", "--package", env!("CARGO_PKG_NAME"), "--package", package, "--bin", name]);
    command.arg("--no-default-features");
    let own_features = OWN.iter().filter(|(_, is_on)| *is_on).map(|(feature, _)| *feature);
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
    if let Some(profile) = profile(own) {
        command.arg("--profile").arg(profile);
    }
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(Failure::ServerProcess(format!("{name} does not build"))) }
}

/// The profile by which cargo built an executable: its directory is named like it, but for that of development.
fn profile(executable: &Path) -> Option<&OsStr> {
    executable.parent().and_then(Path::file_name).filter(|profile| *profile != "debug")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_known_by_its_directory() {
        let of = |path: &'static str| profile(Path::new(path)).map(|profile| profile.to_str().unwrap_or("?"));
        assert_eq!(of("arras/target/debug/arras"), None);
        assert_eq!(of("arras/target/release/arras"), Some("release"));
        assert_eq!(of("arras/target/demo/arras"), Some("demo"));
    }
}
