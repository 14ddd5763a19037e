//! A TPM 2.0 in software (`swtpm`) for tests: on free ports of the loopback, gone with its handle.

use crate::private_redis::free_port_on;
use std::io;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long it may take to answer after its start, on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// The handle of the key that signs quotes.
pub const KEY: &str = "0x81010002";

/// A TPM with a key for quotes.
pub struct PrivateTpm {
    tpm: Child,
    port: u16,
    folder: TempDir,
}

impl PrivateTpm {
    /// Starts one, and makes a key for quotes (ECDSA, P-256, restricted, fixed to this TPM) under [`KEY`].
    ///
    /// # Errors
    /// `swtpm` or `tpm2-tools` is not installed, or fails.
    pub fn start() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("state"))?;
        let port = two_ports()?;
        let mut swtpm = Command::new("swtpm");
        swtpm.args(["socket", "--tpm2", "--flags", "not-need-init,startup-clear", "--tpmstate"]);
        swtpm.arg(format!("dir={}", folder.path().join("state").display()));
        swtpm.args(["--server", &format!("type=tcp,bindaddr=127.0.0.1,port={port}")]);
        swtpm.args(["--ctrl", &format!("type=tcp,bindaddr=127.0.0.1,port={}", port + 1)]);
        let tpm = swtpm.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let started = Self { tpm, port, folder };
        let end = Instant::now() + PATIENCE;
        while started.said("tpm2_getcap", &["properties-fixed"]).is_err() {
            if Instant::now() > end {
                return Err(io::Error::other("swtpm does not answer"));
            }
            sleep(Duration::from_millis(50));
        }
        started.make_key()?;
        Ok(started)
    }

    fn make_key(&self) -> io::Result<()> {
        let [ek, ak] = ["ek.context", "ak.context"];
        // No resource manager is between: what tools load stays until it is flushed.
        let flush = || self.said("tpm2_flushcontext", &["--transient-object"]);
        self.said("tpm2_createek", &["-c", ek, "-G", "ecc", "-u", "ek.public"])?;
        flush()?;
        let made =
            ["-C", ek, "-c", ak, "-G", "ecc", "-g", "sha256", "-s", "ecdsa", "-u", "ak.pem", "-f", "pem"];
        self.said("tpm2_createak", &made)?;
        flush()?;
        self.said("tpm2_evictcontrol", &["-C", "o", "-c", ak, KEY])?;
        flush().map(drop)
    }

    /// Where it is, as `TPM2TOOLS_TCTI` says it.
    #[must_use]
    pub fn tcti(&self) -> String {
        format!("swtpm:host=127.0.0.1,port={}", self.port)
    }

    /// The public half of the key for quotes, PEM.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn key(&self) -> io::Result<String> {
        std::fs::read_to_string(self.folder.path().join("ak.pem"))
    }

    /// What one of the TPM's tools prints.
    ///
    /// # Errors
    /// It is not installed, or fails: with what it says.
    pub fn said(&self, tool: &str, arguments: &[&str]) -> io::Result<Vec<u8>> {
        let mut command = Command::new(tool);
        command.args(arguments).env("TPM2TOOLS_TCTI", self.tcti()).current_dir(self.folder.path());
        let ended = command.stdin(Stdio::null()).output()?;
        if ended.status.success() {
            return Ok(ended.stdout);
        }
        Err(io::Error::other(format!("{tool}: {}", String::from_utf8_lossy(&ended.stderr))))
    }
}

impl Drop for PrivateTpm {
    fn drop(&mut self) {
        let _ = self.tpm.kill();
        let _ = self.tpm.wait();
    }
}

/// The first of two ports that nobody has: the tools look for the second themselves.
fn two_ports() -> io::Result<u16> {
    loop {
        let port = free_port_on(&[Ipv4Addr::LOCALHOST])?;
        let Some(next) = port.checked_add(1) else { continue };
        let free = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if free(port) && free(next) && TcpStream::connect((Ipv4Addr::LOCALHOST, next)).is_err() {
            return Ok(port);
        }
    }
}
