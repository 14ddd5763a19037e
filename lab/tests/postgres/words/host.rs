//! A host of boolean search with its enclave, for a proxy in front of PostgreSQL.

use crate::certified;
use crate::dev::SearchHost;
use crate::forwarder::Forwarder;
use crate::process::{Process, executable};
use arras_host::enclave::{measure, written};
use std::path::{Path, PathBuf};
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
        certified::certify(&host.path("client"));
        host.restart();
        let measurement = written(&measure(&executable("arras-enclave")).unwrap());
        certified::write_policy(&host.path("client"), &host.path("root.public"), &measurement);
        host
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// As a proxy is told of it.
    pub(crate) fn told(&self) -> SearchHost {
        SearchHost { address: self.way.address(), folder: self.path("client") }
    }

    /// Starts it on what it had.
    pub(crate) fn restart(&mut self) {
        let host = certified::host(&self.data(), self.folder.path(), &self.path("client"));
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
