//! `arras-server` as a child process, for `arras dev`.

use super::unlock::PASSPHRASE;
use super::{Failure, executable};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};

/// How long the server may take to start.
const START: Duration = Duration::from_secs(30);
/// How long it may take to stop.
const STOP: Duration = Duration::from_secs(15);

/// How to run the server.
#[derive(Clone, Debug)]
pub(super) struct ServerCommand {
    /// Its executable.
    pub(super) program: PathBuf,
    /// Its database.
    pub(super) data_dir: PathBuf,
    /// Its certificates.
    pub(super) certificates: PathBuf,
    /// Where it writes down what it sees, and how many bytes of each message.
    pub(super) transcript: Option<(PathBuf, usize)>,
}

/// A running server.
pub(super) struct ServerProcess {
    child: Child,
    /// The other end of its standard input, at whose end it stops.
    _stdin: ChildStdin,
    /// Where it listens.
    pub(super) address: String,
}

/// The server's executable: see [`executable::find`].
pub(super) fn find() -> Result<PathBuf, Failure> {
    executable::find("arras-server", "arras-server", &["arras-server/process"])
}

impl ServerCommand {
    /// Starts the server on `listen` and waits until it is ready.
    pub(super) async fn start(&self, listen: &str) -> Result<ServerProcess, Failure> {
        let mut command = Command::new(&self.program);
        command.arg("--data-dir").arg(&self.data_dir).arg("--certificates").arg(&self.certificates);
        command.arg("--listen").arg(listen);
        if let Some((path, bytes)) = &self.transcript {
            command.arg("--transcript").arg(path).arg("--transcript-bytes").arg(bytes.to_string());
        }
        // A ctrl-C at the terminal is for the proxy, which then stops the server; and the server is not to outlive a
        // proxy that was killed.
        command
            .env_remove(PASSPHRASE)
            .arg("--stop-with-stdin")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let failed = |what: String| Failure::ServerProcess(format!("{}: {what}", self.program.display()));
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let stdout = child.stdout.take().ok_or_else(|| failed("has no output".into()))?;
        let stdin = child.stdin.take().ok_or_else(|| failed("has no input".into()))?;
        let mut lines = BufReader::new(stdout).lines();
        let ready = tokio::time::timeout(START, async {
            while let Ok(Some(line)) = lines.next_line().await {
                if let Some(address) = line.strip_prefix("listening on ") {
                    return Some(address.trim().to_owned());
                }
            }
            None
        });
        match ready.await {
            Ok(Some(address)) => Ok(ServerProcess { child, _stdin: stdin, address }),
            Ok(None) => Err(failed("did not start; its own message is above".into())),
            Err(_) => Err(failed(format!("was not ready within {} s", START.as_secs()))),
        }
    }
}

impl ServerProcess {
    /// Its process id, while it runs.
    pub(super) fn id(&self) -> Option<u32> {
        self.child.id()
    }

    /// Completes when the server has ended.
    pub(super) async fn ended(&mut self) {
        // Waiting for a child of one's own does not fail.
        let _ = self.child.wait().await;
    }

    /// Has the server finish what is under way and stop.
    pub(super) async fn stop(mut self) {
        if let Some(id) = self.child.id() {
            // SIGTERM through the shell's own tool: no unsafe code for one signal.
            let _ = Command::new("kill").args(["-TERM", &id.to_string()]).status().await;
        }
        if tokio::time::timeout(STOP, self.child.wait()).await.is_err() {
            let _ = self.child.kill().await;
        }
    }
}
