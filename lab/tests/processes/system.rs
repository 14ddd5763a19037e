//! Proxy and server as an administrator sets them up, each started and ended by itself.

use super::forwarder::Forwarder;
use super::process::{self, PATIENCE, Process};
use arras_lab::wire_client::{ClientError, WireClient};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Small buckets and few top nodes: trees of circuits in collections of a hundred documents.
pub(crate) const SMALL_TREES: &str = "\n[range_indexes]\nbucket_factor = 4\ntop_nodes = 4\n";

/// What a system is made with.
#[derive(Clone, Copy)]
pub(crate) struct Making {
    /// `RUST_LOG` of both.
    pub(crate) log_level: &'static str,
    /// The server writes down everything it sees.
    pub(crate) transcript: bool,
    /// The bytes between proxy and server are kept.
    pub(crate) tap: bool,
    /// Added to the proxy's configuration.
    pub(crate) configuration: &'static str,
}

impl Default for Making {
    fn default() -> Self {
        Self { log_level: "info", transcript: false, tap: false, configuration: "" }
    }
}

/// An installation in a directory of its own.
pub(crate) struct System {
    directory: TempDir,
    making: Making,
    pub(crate) forwarder: Forwarder,
    pub(crate) server: Option<Process>,
    pub(crate) proxy: Option<Process>,
    address: String,
}

impl System {
    /// Sets up a system; nothing runs yet.
    pub(crate) fn make(making: Making) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let forwarder = Forwarder::start(making.tap);
        let system = Self { directory, making, forwarder, server: None, proxy: None, address: String::new() };
        let mut init = system.arras("init");
        init.arg(system.path("config")).arg("--key-file").arg(system.path("keyring.key"));
        init.args([
            "--listen",
            "127.0.0.1:0",
            "--data-dir",
            "../proxy",
            "--server",
            &system.forwarder.address(),
        ]);
        let ended = process::run(init);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let mut file = std::fs::OpenOptions::new().append(true).open(system.configuration()).unwrap();
        file.write_all(making.configuration.as_bytes()).unwrap();
        system
    }

    /// Sets up a system and starts both sides.
    pub(crate) fn start(making: Making) -> Self {
        let mut system = Self::make(making);
        system.start_server();
        system.start_proxy();
        system
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn configuration(&self) -> PathBuf {
        self.path("config/arras.toml")
    }

    /// A command of `arras`.
    pub(crate) fn arras(&self, subcommand: &str) -> Command {
        let mut command = process::command("arras", self.making.log_level);
        command.arg(subcommand).env("XDG_STATE_HOME", self.path("state"));
        command
    }

    pub(crate) fn proxy_command(&self) -> Command {
        let mut command = self.arras("proxy");
        command.arg("--config").arg(self.configuration());
        command
    }

    pub(crate) fn server_command(&self) -> Command {
        self.server_command_at("127.0.0.1:0", "server")
    }

    /// A server that listens elsewhere or has other data.
    pub(crate) fn server_command_at(&self, listen: &str, data: &str) -> Command {
        let mut command = process::command("arras-server", self.making.log_level);
        command.args(["--listen", listen, "--data-dir"]).arg(self.path(data));
        command.arg("--certificates").arg(self.path("config/server"));
        if self.making.transcript {
            command.arg("--transcript").arg(self.transcript());
            command.args(["--transcript-bytes", "1000000000"]);
        }
        command
    }

    pub(crate) fn start_server(&mut self) {
        let (server, address) = Process::start(self.server_command(), &self.server_log());
        self.forwarder.lead_to(Some(address));
        self.server = Some(server);
    }

    pub(crate) fn start_proxy(&mut self) {
        let (proxy, address) = Process::start(self.proxy_command(), &self.proxy_log());
        self.address = address;
        self.proxy = Some(proxy);
    }

    /// Starts the proxy without waiting until it listens.
    pub(crate) fn begin_proxy(&mut self) -> mpsc::Receiver<String> {
        let (proxy, address) = Process::begin(self.proxy_command(), &self.proxy_log());
        self.proxy = Some(proxy);
        address
    }

    pub(crate) fn kill_server(&mut self) {
        if let Some(server) = self.server.take() {
            server.kill();
        }
        self.forwarder.lead_to(None);
    }

    pub(crate) fn kill_proxy(&mut self) {
        if let Some(proxy) = self.proxy.take() {
            proxy.kill();
        }
    }

    /// Where applications connect.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// A connected application.
    pub(crate) fn client(&self) -> WireClient {
        WireClient::connect(&self.address, PATIENCE).unwrap()
    }

    pub(crate) fn transcript(&self) -> PathBuf {
        self.path("transcript.jsonl")
    }

    pub(crate) fn server_log(&self) -> PathBuf {
        self.path("server.log")
    }

    pub(crate) fn proxy_log(&self) -> PathBuf {
        self.path("proxy.log")
    }

    /// Both logs.
    pub(crate) fn logs(&self) -> String {
        let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
        read(self.server_log()) + &read(self.proxy_log())
    }

    /// Fails if either process has ever panicked.
    pub(crate) fn assert_no_panic(&self) {
        let logs = self.logs();
        let panics: Vec<&str> = logs.lines().filter(|line| line.contains("panicked")).collect();
        assert!(panics.is_empty(), "a process panicked: {panics:#?}");
    }
}

/// True for what a client is told when the server cannot be reached: MongoDB's HostUnreachable and NetworkTimeout, and
/// WriteConcernFailed of a write that will be completed.
pub(crate) fn is_unreachable(error: &ClientError) -> bool {
    matches!(error.code(), Some(6 | 64 | 89))
}

/// Tries until the proxy has the server again.
pub(crate) fn until_answered<T>(mut ask: impl FnMut() -> Result<T, ClientError>) -> T {
    let began = Instant::now();
    loop {
        match ask() {
            Ok(answer) => return answer,
            Err(error) => {
                assert!(is_unreachable(&error) && began.elapsed() < PATIENCE, "{error}");
            }
        }
        thread::sleep(Duration::from_millis(20));
    }
}

/// Every file below a directory.
pub(crate) fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// The random numbers of a test: the usual ones, or those of `ARRAS_TEST_SEED`. Printed, for a failure's sake.
pub(crate) fn seed() -> u64 {
    let chosen = std::env::var("ARRAS_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed = chosen.unwrap_or(0xa44a5);
    eprintln!("ARRAS_TEST_SEED={seed}");
    seed
}
