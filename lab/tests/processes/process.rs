//! A child process that never outlives its handle.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How long something that must happen may take before a test gives up: not a claim about speed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// An executable of this repository, built beside the test's own.
pub(crate) fn executable(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let directory = own.parent().and_then(Path::parent).unwrap();
    let path = directory.join(name);
    assert!(
        path.is_file(),
        "{} is missing; build it first: cargo build -p arras-proxy -p arras-server",
        path.display()
    );
    path
}

/// A command that starts one, with none of this test's own environment that could change what it does.
pub(crate) fn command(name: &str, log_level: &str) -> Command {
    let mut command = Command::new(executable(name));
    command
        .env_remove("CARGO")
        .env_remove("ARRAS_PASSPHRASE")
        .env("RUST_LOG", log_level)
        .stdin(Stdio::null());
    command
}

/// What became of a command.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command to its end; fails the test if it does not come.
pub(crate) fn run(mut command: Command) -> Ended {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let stdout = thread::spawn(move || std::io::read_to_string(stdout).unwrap_or_default());
    let stderr = thread::spawn(move || std::io::read_to_string(stderr).unwrap_or_default());
    let mut process = Process(child);
    let status = process.ended(PATIENCE);
    drop(process);
    let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
    let status = status.unwrap_or_else(|| panic!("{command:?} does not end\n{stderr}"));
    Ended { code: status.code(), stdout, stderr }
}

/// A running process.
pub(crate) struct Process(Child);

impl Process {
    /// Starts a command that says on standard output where it listens; its log is appended to `log`.
    pub(crate) fn start(command: Command, log: &Path) -> (Self, String) {
        Self::try_start(command, log).unwrap_or_else(|| {
            panic!("it does not start; its log:\n{}", std::fs::read_to_string(log).unwrap_or_default())
        })
    }

    /// The same; `None` if it ends instead.
    pub(crate) fn try_start(command: Command, log: &Path) -> Option<(Self, String)> {
        let (process, address) = Self::begin(command, log);
        let address = address.recv_timeout(PATIENCE).ok()?;
        Some((process, address))
    }

    /// Starts it without waiting; the address comes when it listens.
    pub(crate) fn begin(mut command: Command, log: &Path) -> (Self, mpsc::Receiver<String>) {
        let log: File = OpenOptions::new().create(true).append(true).open(log).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (send, address) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some(address) = line.strip_prefix("listening on ") {
                    let _ = send.send(address.trim_start_matches("mongodb://").to_owned());
                }
            }
        });
        (Self(child), address)
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Sends a signal by name.
    pub(crate) fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Its status, if it ends within `limit`.
    pub(crate) fn ended(&mut self, limit: Duration) -> Option<ExitStatus> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return Some(status);
            }
            if began.elapsed() > limit {
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Sends a process a signal by name.
pub(crate) fn signal(id: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &id.to_string()]).status().unwrap();
    assert!(sent.success(), "no process {id} to signal");
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
