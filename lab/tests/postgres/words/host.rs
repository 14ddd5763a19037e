//! A host of boolean search with its enclave, for a proxy in front of PostgreSQL.

use crate::dev::SearchHost;
use crate::forwarder::Forwarder;
use crate::process::{Process, command, executable};
use arras_attestation::authority::Authority;
use arras_host::enclave::{measure, written};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// The host, and what stands between the proxy and it.
pub(crate) struct Host {
    folder: TempDir,
    pub(crate) way: Forwarder,
    process: Option<Process>,
}

impl Host {
    /// Starts one on the embedded store.
    pub(crate) fn start() -> Self {
        Self::tapped(false)
    }

    /// The same; what goes over the way to it is kept, if it is to be.
    pub(crate) fn tapped(tap: bool) -> Self {
        let (folder, way) = (tempfile::tempdir().unwrap(), Forwarder::start(tap));
        let mut host = Self { folder, way, process: None };
        host.certify();
        host.restart();
        let root = fs::read_to_string(host.path("root.public")).unwrap();
        let measurement = written(&measure(&executable("arras-enclave")).unwrap());
        let policy = format!(
            "administrator = \"administrator\"\n[[accept]]\nbackend = \"process\"\nroot = \"{}\"\nmeasurements = [\"{measurement}\"]\n",
            root.trim()
        );
        fs::write(host.path("client/policy.toml"), policy).unwrap();
        host
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// As a proxy is told of it.
    pub(crate) fn told(&self) -> SearchHost {
        SearchHost { address: self.way.address(), folder: self.path("client") }
    }

    fn certify(&self) {
        let folder = self.path("client");
        fs::create_dir(&folder).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        let (authority, _) = Authority::create(now).unwrap();
        let (certificate, private) = authority.issue("administrator", now).unwrap();
        fs::write(folder.join("ca.pem"), authority.certificate()).unwrap();
        fs::write(folder.join("administrator.pem"), certificate).unwrap();
        let key = folder.join("administrator.key");
        fs::write(&key, private.as_bytes()).unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    }

    /// Starts it on what it had.
    pub(crate) fn restart(&mut self) {
        let mut host = command("arras-host", "info");
        host.args(["--listen", "127.0.0.1:0", "--administrator", "administrator", "--data-dir"]);
        host.arg(self.path("data"));
        host.arg("--authority").arg(self.path("client/ca.pem"));
        host.arg("--development-root").arg(self.path("root"));
        host.arg("--enclave-argument=--sealing-key");
        host.arg("--enclave-argument").arg(self.path("sealing-key"));
        host.arg("--enclave").arg(executable("arras-enclave"));
        let (process, address) = Process::start(host, &self.path("log"));
        self.way.lead_to(Some(address));
        self.process = Some(process);
    }

    /// Kills it; the enclave ends with it.
    pub(crate) fn kill(&mut self) {
        self.way.lead_to(None);
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }

    /// Where it keeps what it has.
    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }
}

/// Copies a folder, which is not there yet.
pub(crate) fn copy(from: &Path, to: &Path) {
    assert!(std::process::Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
}
