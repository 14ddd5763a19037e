//! The system under demonstration: `arras dev` as a child process, which runs the server as another.

use crate::cli::{Failure, PASSPHRASE};
use arras_storage::private;
use std::fs::{DirBuilder, Permissions};
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Where the demonstration's data is: fresh, its owner's only, and under a name nobody could have taken before.
#[derive(Debug)]
enum Directory {
    Kept(PathBuf),
    Temporary(TempDir),
}

impl Directory {
    /// Makes `keep`, which must not exist (a link there counts as existing), or a directory under `temporary`.
    fn make(keep: Option<PathBuf>, temporary: &Path) -> Result<Self, Failure> {
        let Some(path) = keep else {
            let made = tempfile::Builder::new()
                .prefix("arras-demo-")
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(temporary);
            let failed = |source| Failure::Io { path: temporary.to_path_buf(), source };
            return made.map(Self::Temporary).map_err(failed);
        };
        if let Some(parent) = path.parent() {
            private::make_directory(parent)
                .map_err(|source| Failure::Io { path: parent.to_path_buf(), source })?;
        }
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => Ok(Self::Kept(path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(Failure::Check(format!("{}: exists already; name a new directory", path.display())))
            }
            Err(source) => Err(Failure::Io { path, source }),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Kept(path) => path,
            Self::Temporary(directory) => directory.path(),
        }
    }
}

/// The running system and its directory.
pub(crate) struct System {
    child: Child,
    directory: Directory,
    /// Where the proxy listens.
    pub(crate) address: String,
    /// Where the server writes down what it sees.
    pub(crate) transcript: PathBuf,
}

impl System {
    /// Starts both processes on an empty directory.
    pub(crate) fn start(keep: Option<PathBuf>) -> Result<Self, Failure> {
        let directory = Directory::make(keep, &std::env::temp_dir())?;
        let log_path = directory.path().join("log.txt");
        let log = private::file_options().write(true).create_new(true).open(&log_path);
        let log = log.map_err(|source| Failure::Io { path: log_path.clone(), source })?;
        let transcript = directory.path().join("transcript.jsonl");
        let mut command = Command::new(std::env::current_exe()?);
        // The demonstration's keyring is unlocked by a key file; a passphrase around here is another one's.
        command.env_remove(PASSPHRASE);
        command.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.path());
        command.arg("--transcript").arg(&transcript).stdout(Stdio::piped()).stdin(Stdio::null()).stderr(log);
        let mut child = command.spawn()?;
        let address = child.stdout.take().and_then(|stdout| {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.into_iter().find_map(|line| line.strip_prefix("listening on mongodb://").map(str::to_owned))
        });
        let system = Self { child, address: address.clone().unwrap_or_default(), transcript, directory };
        if address.is_none() {
            let log = std::fs::read_to_string(&log_path).unwrap_or_default();
            return Err(Failure::Check(format!("arras dev did not start:\n{}", log.trim())));
        }
        Ok(system)
    }

    /// Process id of the proxy.
    pub(crate) fn proxy(&self) -> u32 {
        self.child.id()
    }

    /// Directory, if it is kept.
    pub(crate) fn kept(&self) -> Option<&Path> {
        match &self.directory {
            Directory::Kept(path) => Some(path),
            Directory::Temporary(_) => None,
        }
    }

    /// Bytes on disk: the server's store, the proxy's.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        (bytes_in(&self.directory.path().join("server")), bytes_in(&self.directory.path().join("proxy")))
    }

    /// Stops both processes in order.
    pub(crate) fn stop(&mut self) {
        let terminated = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        if terminated.is_ok_and(|status| status.success()) {
            let _ = self.child.wait();
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.stop();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        // A temporary directory is taken away when its handle is dropped, after this.
    }
}

fn bytes_in(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(|data| data.is_file())
        .map(|data| data.len())
        .sum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn the_demonstrations_directory_is_fresh_private_and_not_to_be_foreseen() {
        let place = tempfile::tempdir().unwrap();
        let made = [(); 2].map(|()| Directory::make(None, place.path()).unwrap());
        assert_ne!(made[0].path(), made[1].path());
        let own = std::process::id().to_string();
        for directory in &made {
            assert_eq!(mode(directory.path()), 0o700);
            let name = directory.path().file_name().unwrap().to_string_lossy();
            assert!(name.len() >= "arras-demo-".len() + 6 && !name.contains(&own), "{name}");
        }
        let paths = made.each_ref().map(|directory| directory.path().to_path_buf());
        drop(made);
        assert!(paths.iter().all(|path| !path.exists()));
    }

    #[test]
    fn a_kept_directory_is_made_by_the_demonstration_or_not_used() {
        let place = tempfile::tempdir().unwrap();
        let kept = Directory::make(Some(place.path().join("new/kept")), place.path()).unwrap();
        assert_eq!(mode(kept.path()), 0o700);
        symlink(kept.path(), place.path().join("planted")).unwrap();
        symlink(place.path().join("nowhere"), place.path().join("dangling")).unwrap();
        for taken in ["new/kept", "planted", "dangling"] {
            let refused = Directory::make(Some(place.path().join(taken)), place.path()).unwrap_err();
            assert!(refused.to_string().contains("exists already"), "{refused}");
        }
    }
}
