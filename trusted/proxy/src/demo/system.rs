//! The system under demonstration: `arras dev` as a child process, which runs the server as another.

use crate::cli::Failure;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The running system and its directory.
pub(crate) struct System {
    child: Child,
    directory: PathBuf,
    keep: bool,
    /// Where the proxy listens.
    pub(crate) address: String,
    /// Where the server writes down what it sees.
    pub(crate) transcript: PathBuf,
}

impl System {
    /// Starts both processes on an empty directory.
    pub(crate) fn start(keep: Option<PathBuf>) -> Result<Self, Failure> {
        let directory = match &keep {
            Some(path) if path.exists() => {
                return Err(Failure::Check(format!(
                    "{}: exists already; name a new directory",
                    path.display()
                )));
            }
            Some(path) => path.clone(),
            None => std::env::temp_dir().join(format!("arras-demo-{}", std::process::id())),
        };
        let failed = |source| Failure::Io { path: directory.clone(), source };
        std::fs::create_dir_all(&directory).map_err(failed)?;
        let log = std::fs::File::create(directory.join("log.txt")).map_err(failed)?;
        let transcript = directory.join("transcript.jsonl");
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&directory);
        command.arg("--transcript").arg(&transcript).stdout(Stdio::piped()).stdin(Stdio::null()).stderr(log);
        let mut child = command.spawn()?;
        let address = child.stdout.take().and_then(|stdout| {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.into_iter().find_map(|line| line.strip_prefix("listening on mongodb://").map(str::to_owned))
        });
        let system = Self {
            child,
            keep: keep.is_some(),
            address: address.clone().unwrap_or_default(),
            transcript,
            directory,
        };
        if address.is_none() {
            let log = std::fs::read_to_string(system.directory.join("log.txt")).unwrap_or_default();
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
        self.keep.then_some(self.directory.as_path())
    }

    /// Bytes on disk: the server's store, the proxy's.
    pub(crate) fn sizes(&self) -> (u64, u64) {
        (bytes_in(&self.directory.join("server")), bytes_in(&self.directory.join("proxy")))
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
        if !self.keep {
            let _ = std::fs::remove_dir_all(&self.directory);
        }
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
