//! New data folders, kept to be copied: `initdb` takes most of the time of a small test.

use super::{INITDB, PostgresError};
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names a folder in which they are kept; without it, each is made anew.
const VARIABLE: &str = "ARRAS_POSTGRES_TEMPLATES";

/// Makes a new data folder at `data`: as a copy, if there is one of the same program and arguments, or by `initdb`.
pub(super) fn fill(data: &Path, initdb: &mut Command) -> Result<(), PostgresError> {
    let template =
        std::env::var_os(VARIABLE).and_then(|folder| named(Path::new(&folder), initdb.get_program()));
    if let Some(template) = &template
        && template.is_dir()
    {
        return copy(template, data);
    }
    run(initdb)?;
    template.map_or(Ok(()), |template| keep(data, &template))
}

/// Where a copy of what that program makes is kept.
fn named(folder: &Path, program: &OsStr) -> Option<PathBuf> {
    let file = std::fs::metadata(program).ok()?;
    let mut hasher = DefaultHasher::new();
    (program, file.len(), file.mtime(), INITDB, nix::unistd::geteuid().as_raw()).hash(&mut hasher);
    Some(folder.join(format!("{:016x}", hasher.finish())))
}

/// Keeps a copy, unless another process was first.
fn keep(data: &Path, template: &Path) -> Result<(), PostgresError> {
    let failed = |error| PostgresError::of(template.display(), error);
    let folder = template.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let begun = tempfile::tempdir_in(folder).map_err(failed)?;
    let whole = begun.path().join("data");
    copy(data, &whole)?;
    match std::fs::rename(&whole, template) {
        Err(_) if template.is_dir() => Ok(()),
        renamed => renamed.map_err(failed),
    }
}

/// A copy with the same owner, whose folder is not there yet.
fn copy(from: &Path, to: &Path) -> Result<(), PostgresError> {
    let mut command = Command::new("cp");
    command.arg("-a").arg(from).arg(to);
    run(&mut command)
}

fn run(command: &mut Command) -> Result<(), PostgresError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let ran = command.output().map_err(|error| PostgresError::of(&program, error))?;
    if ran.status.success() {
        return Ok(());
    }
    Err(PostgresError::of(program, String::from_utf8_lossy(&ran.stderr)))
}
