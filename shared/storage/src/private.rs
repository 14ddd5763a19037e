//! Directories and files that only their owner may use.
//!
//! Other users of the machine are not to read ciphertext and its history, and not to hold a lock that keeps a process
//! from starting. A directory is closed before anything in it is trusted: what a closed directory holds nobody else
//! reaches, whatever its own mode.

use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Permission bits of everybody but the owner.
const OTHERS: u32 = 0o077;
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

fn is_open_to_others(metadata: &Metadata) -> bool {
    metadata.permissions().mode() & OTHERS != 0
}

/// Makes a directory, and those above it that are missing, for their owner only; one that exists stays as it is.
///
/// # Errors
/// What the operating system says.
pub fn make_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(path)
}

/// Makes a directory as [`make_directory`] does and closes it to others if it exists. One that is open and holds other
/// things than `ours` is refused instead: others have been using it.
///
/// # Errors
/// What the operating system says, or the refusal with the command to run.
pub fn close_directory(path: &Path, ours: &[&str]) -> io::Result<()> {
    make_directory(path)?;
    let metadata = std::fs::metadata(path)?;
    if !is_open_to_others(&metadata) {
        return Ok(());
    }
    for entry in std::fs::read_dir(path)? {
        let name = entry?.file_name();
        if !ours.iter().any(|known| name == *known) {
            let mode = metadata.permissions().mode() & 0o7777;
            return Err(io::Error::other(format!(
                "mode {mode:04o} lets others in, and it holds {name:?}, which is not the database's; choose another \
                 directory, or run: chmod 700 {}",
                path.display()
            )));
        }
    }
    std::fs::set_permissions(path, Permissions::from_mode(DIRECTORY_MODE))
}

/// Closes a file to others if it is open to them; one that does not exist stays so.
///
/// # Errors
/// What the operating system says.
pub fn close_file(path: &Path) -> io::Result<()> {
    match std::fs::metadata(path) {
        Ok(metadata) if is_open_to_others(&metadata) => {
            std::fs::set_permissions(path, Permissions::from_mode(FILE_MODE))
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Options under which a file that is made is its owner's only.
#[must_use]
pub fn file_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.mode(FILE_MODE);
    options
}

/// Refuses a file with a secret that others may read or change.
///
/// # Errors
/// What the operating system says, or the refusal with the command to run.
pub fn require_closed(path: &Path) -> io::Result<()> {
    let metadata = File::open(path)?.metadata()?;
    if is_open_to_others(&metadata) {
        let mode = metadata.permissions().mode() & 0o7777;
        return Err(io::Error::other(format!(
            "mode {mode:04o} lets others in; run: chmod 600 {}",
            path.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).expect("is there").permissions().mode() & 0o7777
    }

    fn set(path: &Path, mode: u32) {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("may be changed");
    }

    fn directory(place: &Path, mode: u32) -> PathBuf {
        let path = place.join(format!("{mode:o}"));
        std::fs::create_dir(&path).expect("can be made");
        set(&path, mode);
        path
    }

    #[test]
    fn directories_are_made_closed_and_closed_where_they_are_open() {
        let place = tempfile::tempdir().expect("a directory");
        let made = place.path().join("a/b");
        close_directory(&made, &[]).expect("is made");
        assert_eq!((mode(&made), mode(&place.path().join("a"))), (0o700, 0o700));
        for open in [0o755, 0o711, 0o770, 0o777] {
            let path = directory(place.path(), open);
            std::fs::write(path.join("LOCK"), "").expect("is written");
            close_directory(&path, &["LOCK"]).expect("is closed");
            assert_eq!(mode(&path), 0o700);
        }
    }

    #[test]
    fn an_open_directory_that_others_may_be_using_is_refused_and_left_as_it_is() {
        let place = tempfile::tempdir().expect("a directory");
        let path = directory(place.path(), 0o1777);
        std::fs::write(path.join("somebody's"), "").expect("is written");
        let refused = close_directory(&path, &["LOCK"]).expect_err("is refused").to_string();
        assert!(refused.contains("1777") && refused.contains("chmod 700"), "{refused}");
        assert_eq!(mode(&path), 0o1777);
        let closed = directory(place.path(), 0o700);
        std::fs::write(closed.join("anything"), "").expect("is written");
        close_directory(&closed, &[]).expect("a closed one is left alone");
    }

    #[test]
    fn secrets_open_to_others_are_refused_with_the_command_to_run() {
        let place = tempfile::tempdir().expect("a directory");
        let path = place.path().join("server.key");
        std::fs::write(&path, "").expect("is written");
        for open in [0o640, 0o604, 0o620, 0o660, 0o644] {
            set(&path, open);
            let refused = require_closed(&path).expect_err("is refused").to_string();
            assert!(refused.contains(&format!("chmod 600 {}", path.display())), "{refused}");
        }
        close_file(&path).expect("is closed");
        assert_eq!(mode(&path), 0o600);
        require_closed(&path).expect("is closed");
        close_file(&place.path().join("none")).expect("nothing to close");
    }
}
