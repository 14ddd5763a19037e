//! A proxy with a server, and a host of boolean search with its enclave, spoken to over the attested channel.

use super::certified;
use super::forwarder::Forwarder;
use super::process::{Process, executable};
use super::system::{Making, System};
use arras_host::enclave::{measure, written};
use std::fs;
use std::io::Write;
use std::path::PathBuf;

/// A proxy with a server, and a host of boolean search with its enclave.
pub(crate) struct Texts {
    pub(crate) system: System,
    /// Between proxy and host.
    pub(crate) search: Forwarder,
    pub(crate) host: Option<Process>,
}

impl Texts {
    pub(crate) fn start() -> Self {
        Self::made(Making::default())
    }

    /// `making.tap` keeps what goes between proxy and host, too.
    pub(crate) fn made(making: Making) -> Self {
        let system = System::make(making);
        let search = Forwarder::start(making.tap);
        let mut file = fs::OpenOptions::new().append(true).open(system.configuration()).unwrap();
        writeln!(
            file,
            "\n[search]\nhost = \"{}\"\ncertificates = \"search-client\"\npolicy = \"search-client/policy.toml\"",
            search.address()
        )
        .unwrap();
        let mut texts = Self { system, search, host: None };
        certified::certify(&texts.client_folder());
        texts.start_host();
        texts.write_policy(&written(&measure(&executable("arras-enclave")).unwrap()));
        texts.system.start_server();
        texts.system.start_proxy();
        texts
    }

    /// The folder of what the proxy goes by.
    fn client_folder(&self) -> PathBuf {
        self.system.configuration().parent().unwrap().join("search-client")
    }

    /// Has the proxy speak to enclaves of one measurement, which this host has started.
    pub(crate) fn write_policy(&self, measurement: &str) {
        certified::write_policy(&self.client_folder(), &self.system.path("root.public"), measurement);
    }

    pub(crate) fn start_host(&mut self) {
        let host = certified::host(&self.system.path("search"), &self.system.path(""), &self.client_folder());
        let (host, address) = Process::start(host, &self.system.path("host.log"));
        self.search.lead_to(Some(address));
        self.host = Some(host);
    }

    /// Kills the host; the enclave ends with it.
    pub(crate) fn kill_host(&mut self) {
        self.search.lead_to(None);
        if let Some(host) = self.host.take() {
            host.kill();
        }
    }
}
