//! A proxy with a server, and a host of boolean search with its enclave, spoken to over the attested channel.

use super::forwarder::Forwarder;
use super::process::{Process, command, executable};
use super::system::{Making, System};
use arras_attestation::authority::Authority;
use arras_host::enclave::{measure, written};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

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
        texts.certify();
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

    /// Makes the administrator's authority, and the proxy's certificate.
    fn certify(&self) {
        let folder = self.client_folder();
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

    /// Has the proxy speak to enclaves of one measurement, which this host has started.
    pub(crate) fn write_policy(&self, measurement: &str) {
        let root = fs::read_to_string(self.system.path("root.public")).unwrap();
        let policy = format!(
            "administrator = \"administrator\"\n[[accept]]\nbackend = \"process\"\nroot = \"{}\"\nmeasurements = [\"{measurement}\"]\n",
            root.trim()
        );
        fs::write(self.client_folder().join("policy.toml"), policy).unwrap();
    }

    pub(crate) fn start_host(&mut self) {
        let mut host = command("arras-host", "info");
        host.args(["--listen", "127.0.0.1:0", "--administrator", "administrator", "--data-dir"]);
        host.arg(self.system.path("search"));
        host.arg("--authority").arg(self.client_folder().join("ca.pem"));
        host.arg("--development-root").arg(self.system.path("root"));
        host.arg("--enclave-argument=--sealing-key");
        host.arg("--enclave-argument").arg(self.system.path("sealing-key"));
        host.arg("--enclave").arg(executable("arras-enclave"));
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
