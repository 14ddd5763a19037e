//! A real `arras-server`: a process of its own, over the embedded store in a scratch directory.

use arras_proxy::certificates::{self, CertificateError};
use arras_proxy::connection::tls::{CertificatePaths, TlsError, client_config};
use arras_proxy::connection::{ConnectError, Connection, Settings};
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// How long one call may take: a first query may sort everything.
const DEADLINE: Duration = Duration::from_secs(600);

/// Why there is no server to measure.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// Certificates cannot be made.
    #[error(transparent)]
    Certificates(#[from] CertificateError),
    /// It does not answer.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The executable is nowhere to be found.
    #[error(
        "arras-server is neither beside {0} nor on the path; build it with: cargo build --release -p arras-server"
    )]
    NoExecutable(PathBuf),
    /// It does not start.
    #[error("{0}: does not start: {1}")]
    Start(PathBuf, io::Error),
    /// The operating system does not let it start.
    #[error(transparent)]
    System(#[from] io::Error),
    /// Certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A running server, ended and cleaned up after when dropped.
#[derive(Debug)]
pub struct ServerProcess {
    child: Child,
    /// The other end of its standard input, at whose end it stops.
    _stdin: Option<ChildStdin>,
    directory: TempDir,
    address: String,
}

impl ServerProcess {
    /// Starts a server on a free port and waits until it is ready.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn start() -> Result<Self, NetworkError> {
        let program = executable()?;
        let directory = tempfile::tempdir()?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let place = |name: &str| directory.path().join(name);
        certificates::create(&place("proxy"), &place("server"), now)?;
        let mut command = Command::new(&program);
        command.arg("--data-dir").arg(place("data")).arg("--certificates").arg(place("server"));
        command.args(["--listen", "127.0.0.1:0", "--stop-with-stdin"]).env("RUST_LOG", "warn");
        let failed = |error| NetworkError::Start(program.clone(), error);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
        let lines = BufReader::new(child.stdout.take().ok_or_else(|| failed(no_output()))?).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| line.strip_prefix("listening on ").map(|address| address.trim().to_owned()));
        let stdin = child.stdin.take();
        let mut server = Self { child, _stdin: stdin, directory, address: String::new() };
        server.address = address.ok_or_else(|| failed(no_output()))?;
        Ok(server)
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Connects to it.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub async fn connect(&self) -> Result<Connection, NetworkError> {
        let tls = client_config(&CertificatePaths::in_directory(&self.directory.path().join("proxy")))?;
        let settings = Settings { deadline: DEADLINE, ..Settings::new(self.address.clone(), tls) };
        Ok(Connection::open(settings).await?)
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn no_output() -> io::Error {
    io::Error::other("it ended before it listened")
}

/// The server's executable: beside this one (or, for a test, one directory up), or on the path.
fn executable() -> Result<PathBuf, NetworkError> {
    let own = std::env::current_exe()?;
    let mut candidates: Vec<PathBuf> =
        own.ancestors().skip(1).take(2).map(|directory| directory.join("arras-server")).collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    candidates.extend(std::env::split_paths(&path).map(|directory| directory.join("arras-server")));
    candidates.into_iter().find(|file| file.is_file()).ok_or(NetworkError::NoExecutable(own))
}
