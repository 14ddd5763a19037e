//! A real Redis for measurements and tests: private servers on free ports of the loopback, gone with their handle.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long servers may take to answer after their start, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster speaks to itself at this distance from each of its ports.
const BUS: u16 = 10_000;

/// Ports that were given out: those of servers that have yet to start are as good as taken.
static PORTS: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Redis servers of one cluster, or one by itself.
pub struct PrivateRedis {
    servers: Vec<Child>,
    ports: Vec<u16>,
    options: &'static [&'static str],
    folder: TempDir,
}

impl PrivateRedis {
    /// Starts one server, whose writes are appended to a log each second, as Redis advises.
    ///
    /// # Errors
    /// It is not installed, or does not answer.
    pub fn start() -> io::Result<Self> {
        Self::servers(1, &[])
    }

    /// Starts a cluster of three masters.
    ///
    /// # Errors
    /// It is not installed, does not answer, or does not become a cluster.
    pub fn start_cluster() -> io::Result<Self> {
        let started = Self::servers(3, &["--cluster-enabled", "yes"])?;
        let mut create = Command::new("redis-cli");
        create
            .args(["--cluster", "create"])
            .args(started.ports.iter().map(|port| format!("127.0.0.1:{port}")));
        let created = create.args(["--cluster-replicas", "0", "--cluster-yes"]).output()?;
        if !created.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&created.stdout).into_owned()));
        }
        started.wait_for_cluster()?;
        Ok(started)
    }

    fn wait_for_cluster(&self) -> io::Result<()> {
        self.wait_for("the cluster", |port| cli(port, &["cluster", "info"]).contains("cluster_state:ok"))
    }

    fn servers(count: usize, options: &'static [&'static str]) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let ports = free_ports(count)?;
        let mut started = Self { servers: vec![], ports, options, folder };
        for port in started.ports.clone() {
            std::fs::create_dir(started.folder.path().join(port.to_string()))?;
            let server = started.server(port)?;
            started.servers.push(server);
        }
        started.wait_for("Redis", |port| cli(port, &["ping"]).contains("PONG"))?;
        Ok(started)
    }

    /// A server's process, on what it had written if it has run before.
    fn server(&self, port: u16) -> io::Result<Child> {
        let directory = self.folder.path().join(port.to_string());
        let port = port.to_string();
        let mut server = Command::new("redis-server");
        server.args(["--port", &port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
        server.arg("--dir").arg(directory).args(self.options).stdin(Stdio::null()).stdout(Stdio::null());
        server.spawn()
    }

    fn wait_for(&self, what: &str, ready: impl Fn(u16) -> bool) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        for &port in &self.ports {
            while !ready(port) {
                if Instant::now() > end {
                    return Err(io::Error::other(format!("{what} at port {port} does not answer")));
                }
                sleep(Duration::from_millis(20));
            }
        }
        Ok(())
    }

    /// The servers' addresses as URLs.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("redis://127.0.0.1:{port}")).collect()
    }

    /// Numbers of the servers' processes.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        self.servers.iter().map(Child::id).collect()
    }

    /// Kills the server at a place among [`PrivateRedis::urls`], as a lost machine would.
    ///
    /// # Errors
    /// There is none, or it cannot be killed.
    pub fn kill(&mut self, place: usize) -> io::Result<()> {
        let server = self.servers.get_mut(place).ok_or_else(|| io::Error::other("no such server"))?;
        server.kill()?;
        server.wait().map(drop)
    }

    /// Starts the server at a place again, which was killed; it has what it had written to its log.
    ///
    /// # Errors
    /// There is none, or it does not answer.
    pub fn start_again(&mut self, place: usize) -> io::Result<()> {
        let port = *self.ports.get(place).ok_or_else(|| io::Error::other("no such server"))?;
        let started = self.server(port)?;
        if let Some(server) = self.servers.get_mut(place) {
            *server = started;
        }
        self.wait_for("Redis", |port| cli(port, &["ping"]).contains("PONG"))?;
        if self.options.is_empty() { Ok(()) } else { self.wait_for_cluster() }
    }

    /// Halts the server at a place: it keeps its connections, and answers nothing.
    ///
    /// # Errors
    /// There is none, or it cannot be halted.
    pub fn halt(&self, place: usize) -> io::Result<()> {
        let server = self.servers.get(place).ok_or_else(|| io::Error::other("no such server"))?;
        Command::new("kill").args(["-STOP", &server.id().to_string()]).status().map(drop)
    }

    /// What a server says to a command.
    #[must_use]
    pub fn said(&self, place: usize, command: &[&str]) -> String {
        self.ports.get(place).map(|&port| cli(port, command)).unwrap_or_default()
    }
}

impl Drop for PrivateRedis {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// What a server says; nothing while it does not answer.
fn cli(port: u16, command: &[&str]) -> String {
    // Asked by hand first: the command line waits long for who is not there.
    if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
        return String::new();
    }
    let said = Command::new("redis-cli").args(["-p", &port.to_string()]).args(command).output();
    said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default()
}

/// A port that nobody has on any of these addresses.
pub(crate) fn free_port_on(addresses: &[Ipv4Addr]) -> io::Result<u16> {
    let mut given = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        if addresses.iter().all(|address| TcpListener::bind((*address, port)).is_ok()) && given.insert(port) {
            return Ok(port);
        }
    }
}

/// Ports that nobody has, nor what lies at the distance of a cluster's own talk.
fn free_ports(count: usize) -> io::Result<Vec<u16>> {
    let mut given = PORTS.lock().unwrap_or_else(PoisonError::into_inner);
    let mut held = Vec::new();
    while held.len() < count {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        // Of the higher of two ports that far apart the lower is as free as any.
        let Some(lower) = port.checked_sub(BUS).filter(|lower| *lower > 1024) else { continue };
        if let Ok(other) = TcpListener::bind((Ipv4Addr::LOCALHOST, lower))
            && given.insert(lower)
        {
            held.push((lower, listener, other));
        }
    }
    Ok(held.into_iter().map(|(port, ..)| port).collect())
}
