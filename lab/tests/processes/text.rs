//! `$text` over real processes: proxy, server, host and enclave.

mod crash;
mod declared;
mod model;
mod semantics;

use super::forwarder::Forwarder;
use super::process::{PATIENCE, Process, command, executable};
use super::system::{Making, System};
use arras_attestation::authority::Authority;
use arras_host::enclave::{measure, written};
use arras_lab::wire_client::{ClientError, WireClient};
use bson::{Document, doc};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The database of these tests.
const DATABASE: &str = "texts";

/// A proxy with a server, and a host of boolean search with its enclave.
struct Texts {
    system: System,
    search: Forwarder,
    host: Option<Process>,
}

impl Texts {
    fn start() -> Self {
        let system = System::make(Making::default());
        let search = Forwarder::start(false);
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
    fn write_policy(&self, measurement: &str) {
        let root = fs::read_to_string(self.system.path("root.public")).unwrap();
        let policy = format!(
            "administrator = \"administrator\"\n[[accept]]\nbackend = \"process\"\nroot = \"{}\"\nmeasurements = [\"{measurement}\"]\n",
            root.trim()
        );
        fs::write(self.client_folder().join("policy.toml"), policy).unwrap();
    }

    fn start_host(&mut self) {
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
    fn kill_host(&mut self) {
        self.search.lead_to(None);
        if let Some(host) = self.host.take() {
            host.kill();
        }
    }

    fn client(&self) -> Client {
        Client(self.system.client())
    }
}

/// An application.
struct Client(WireClient);

/// What a find returned: `_id`s, in order.
fn ids(documents: &[Document]) -> Vec<i32> {
    documents.iter().map(|document| document.get_i32("_id").unwrap()).collect()
}

impl Client {
    fn command(&mut self, mut command: Document) -> Result<Document, ClientError> {
        command.insert("$db", DATABASE);
        self.0.command(&command)
    }

    /// The code that a command is refused with.
    fn code(&mut self, command: Document) -> i32 {
        let refused = self.command(command).unwrap_err();
        refused.code().unwrap_or_else(|| panic!("{refused}"))
    }

    fn query(&mut self, mut command: Document) -> Result<Vec<Document>, ClientError> {
        command.insert("$db", DATABASE);
        self.0.query(&command)
    }

    fn create_index(
        &mut self,
        collection: &str,
        key: Document,
        options: Document,
    ) -> Result<Document, ClientError> {
        let mut index = doc! { "key": key, "name": "words" };
        index.extend(options);
        self.command(doc! { "createIndexes": collection, "indexes": [index] })
    }

    fn insert(&mut self, collection: &str, documents: Vec<Document>) {
        let count = documents.len() as i32;
        let reply = self.command(doc! { "insert": collection, "documents": documents }).unwrap();
        assert_eq!(reply.get_i32("n").unwrap(), count, "{reply}");
    }

    /// `_id`s of what a `$search` finds, ascending.
    fn found(&mut self, collection: &str, search: &str) -> Vec<i32> {
        let filter = doc! { "$text": { "$search": search } };
        let mut found = ids(&self.query(doc! { "find": collection, "filter": filter }).unwrap());
        found.sort_unstable();
        found
    }
}

/// Tries until what must come to be is there.
fn until(mut there: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !there() {
        assert!(Instant::now() < end, "it never came to be");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
