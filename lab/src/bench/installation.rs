//! A proxy and a server as processes, with data of their own.

use crate::wire_client::{ClientError, WireClient};
use std::io::{self, BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// How long a process may take to listen, and a reply to come.
pub(super) const PATIENCE: Duration = Duration::from_secs(600);

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// A process cannot be started, or ends.
    #[error("{what}: {source}")]
    Process {
        /// The program, or what it needs.
        what: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// A command failed.
    #[error("a command failed: {0}")]
    Client(#[from] ClientError),
}

/// A process that ends with its handle.
pub(super) struct Process {
    child: Child,
    /// Where it listens.
    pub(super) address: String,
}

impl Process {
    /// The operating system's number of it.
    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it and waits for its end.
    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sends on where a process says that it listens, and reads on so that it never waits for a reader.
fn watch(stream: impl io::Read + Send + 'static, send: mpsc::Sender<String>) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let marked =
                line.strip_prefix("listening on ").or_else(|| Some(line.split_once("listens on ")?.1));
            if let Some(address) = marked {
                let address = address.trim_start_matches("mongodb://").trim_start_matches("postgres://");
                let _ = send.send(address.to_owned());
            }
        }
    });
}

fn named(command: &Command) -> impl Fn(io::Error) -> ServiceError + use<> {
    let what = command.get_program().to_string_lossy().into_owned();
    move |source| ServiceError::Process { what: what.clone(), source }
}

impl Process {
    /// Starts one and waits until it listens.
    pub(super) fn start(mut command: Command) -> Result<Self, ServiceError> {
        let failed = named(&command);
        command.env("RUST_LOG", "warn").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(&failed)?;
        let mut process = Self { child, address: String::new() };
        let (send, address) = mpsc::channel();
        if let (Some(stdout), Some(stderr)) = (process.child.stdout.take(), process.child.stderr.take()) {
            watch(stdout, send.clone());
            watch(stderr, send);
        }
        let silent = |_| failed(io::Error::other("it does not listen"));
        process.address = address.recv_timeout(PATIENCE).map_err(silent)?;
        Ok(process)
    }
}

/// A proxy and its server.
pub(super) struct Installation {
    executables: PathBuf,
    proxy: Process,
    _server: Process,
    directory: TempDir,
}

impl Installation {
    /// Sets one up and starts it.
    pub(super) fn start(executables: &Path) -> Result<Self, ServiceError> {
        let of_directory = |source| ServiceError::Process { what: "a temporary directory".into(), source };
        let directory = tempfile::tempdir().map_err(of_directory)?;
        let path = |name: &str| directory.path().join(name);
        // The configuration names the server's port before the server has it.
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let listen = free.map_err(of_directory)?.to_string();
        let mut init = Command::new(executables.join("arras"));
        init.arg("init").arg(path("config")).arg("--key-file").arg(path("keyring.key"));
        init.args(["--listen", "127.0.0.1:0", "--data-dir", "../proxy", "--server", &listen]);
        init.stdout(Stdio::null());
        let failed = named(&init);
        if !init.status().map_err(&failed)?.success() {
            return Err(failed(io::Error::other("arras init failed")));
        }
        let mut server = Command::new(executables.join("arras-server"));
        server.args(["--listen", &listen, "--data-dir"]).arg(path("server"));
        server.arg("--certificates").arg(path("config/server"));
        let server = Process::start(server)?;
        let proxy = Self::proxy(executables, directory.path())?;
        Ok(Self { executables: executables.to_path_buf(), proxy, _server: server, directory })
    }

    fn proxy(executables: &Path, directory: &Path) -> Result<Process, ServiceError> {
        let mut proxy = Command::new(executables.join("arras"));
        proxy.arg("proxy").arg("--config").arg(directory.join("config/arras.toml"));
        Process::start(proxy)
    }

    /// Ends the proxy's process and starts another on its data.
    pub(super) fn restart_proxy(&mut self) -> Result<(), ServiceError> {
        self.proxy.end();
        self.proxy = Self::proxy(&self.executables, self.directory.path())?;
        Ok(())
    }

    /// Where clients connect.
    pub(super) fn address(&self) -> &str {
        &self.proxy.address
    }

    /// A new connection.
    pub(super) fn client(&self) -> Result<WireClient, ServiceError> {
        Ok(WireClient::connect(self.address(), PATIENCE)?)
    }

    /// Number of the proxy's process.
    pub(super) fn proxy_process(&self) -> u32 {
        self.proxy.id()
    }
}
