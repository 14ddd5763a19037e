//! A host with an attested enclave, the administrator's authority, and clients with certificates.

use crate::client::Client;
use crate::process::{Process, command, executable};
use arras_attestation::authority::{Authority, certificate, private, serial};
use arras_attestation::channel::{Channel, Client as Attested, Credentials};
use arras_attestation::evidence::DevelopmentRoot;
use arras_attestation::policy::{Accepted, ReleasePolicy, Source};
use arras_host::enclave::{measure, written};
use arras_schemes::bisen::channel::{ClientChannel, SECURITY_VERSION};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// A folder for a host, and an authority; "ada" is the administrator.
pub(crate) struct Deployment {
    pub(crate) folder: TempDir,
    authority: Authority,
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

impl Deployment {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (authority, _) = Authority::create(now()).unwrap();
        fs::write(folder.path().join("ca.pem"), authority.certificate()).unwrap();
        Self { folder, authority }
    }

    /// Starts a host, and by it the enclave; its address.
    pub(crate) fn start(&self) -> (Process, String) {
        self.start_with(&[])
    }

    /// The same, with arguments for the enclave.
    pub(crate) fn start_with(&self, enclave_arguments: &[&str]) -> (Process, String) {
        self.begin(self.host(enclave_arguments))
    }

    /// The same, with so much memory for the enclave.
    pub(crate) fn start_in(&self, mebibytes: u32) -> (Process, String) {
        let mut host = self.host(&[]);
        host.args(["--enclave-memory", &mebibytes.to_string()]);
        self.begin(host)
    }

    pub(crate) fn begin(&self, host: Command) -> (Process, String) {
        Process::start(host, &self.folder.path().join("log"))
    }

    /// A host that vouches for the enclave by a development root.
    pub(crate) fn host(&self, enclave_arguments: &[&str]) -> Command {
        let mut host = self.unvouched(enclave_arguments);
        host.arg("--development-root").arg(self.folder.path().join("root"));
        host.arg("--authority").arg(self.folder.path().join("ca.pem"));
        host
    }

    /// A host that is yet to be told who vouches for the enclave.
    pub(crate) fn unvouched(&self, enclave_arguments: &[&str]) -> Command {
        let folder = self.folder.path();
        let mut host = command("arras-host", "info");
        let enclave = executable("arras-enclave");
        host.args(["--listen", "127.0.0.1:0", "--administrator", "ada", "--data-dir"])
            .arg(folder.join("data"));
        host.args(enclave_arguments.iter().map(|argument| format!("--enclave-argument={argument}")));
        host.args(["--enclave-argument=--sealing-key", "--enclave-argument"]).arg(folder.join("sealing-key"));
        host.args(["--measurement", &written(&measure(&enclave).unwrap())]).arg("--enclave").arg(enclave);
        host
    }

    /// A policy that accepts what [`Deployment::start`] starts.
    pub(crate) fn policy(&self) -> ReleasePolicy {
        let root = fs::read_to_string(self.folder.path().join("root.public")).unwrap();
        let accepted = Accepted {
            source: Source::Process { root: DevelopmentRoot::read(&root).unwrap() },
            measurements: vec![measure(&executable("arras-enclave")).unwrap().to_vec()],
            version_min: SECURITY_VERSION,
            allow_debug: false,
        };
        ReleasePolicy { administrator: "ada".into(), max_age_seconds: 3600, accept: vec![accepted] }
    }

    /// Writes what the command goes by: the administrator's certificate and key, and the policy.
    pub(crate) fn write_administrator(&self, folder: &Path) {
        let (certificate, private) = self.authority.issue("ada", now()).unwrap();
        let root = fs::read_to_string(self.folder.path().join("root.public")).unwrap();
        let measurement = written(&measure(&executable("arras-enclave")).unwrap());
        let policy = format!(
            "administrator = \"ada\"\n[[accept]]\nbackend = \"process\"\nroot = \"{}\"\nmeasurements = [\"{measurement}\"]\n",
            root.trim()
        );
        fs::create_dir(folder).unwrap();
        for (name, text) in [
            ("ca.pem", self.authority.certificate()),
            ("ada.pem", &certificate),
            ("ada.key", &private),
            ("policy.toml", &policy),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        fs::set_permissions(folder.join("ada.key"), fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// A client with a new certificate, and the certificate's serial number.
    pub(crate) fn client(&self, name: &str, policy: ReleasePolicy) -> (Attested, Vec<u8>) {
        certified(&self.authority, self.authority.certificate(), name, policy)
    }

    pub(crate) fn certified(&self, name: &str) -> Attested {
        self.client(name, self.policy()).0
    }

    pub(crate) fn connect(&self, address: &str, name: &str) -> Client {
        Client::open(address, &self.certified(name)).unwrap()
    }
}

/// A client with a certificate by one authority, which goes to enclaves of another's.
pub(crate) fn certified(by: &Authority, of: &str, name: &str, policy: ReleasePolicy) -> (Attested, Vec<u8>) {
    let issued = by.issue(name, now()).unwrap();
    let own = Credentials {
        authority: certificate(of).unwrap(),
        certificate: certificate(&issued.0).unwrap(),
        private: private(&issued.1).unwrap(),
    };
    let (serial, _) = serial(&own.certificate).unwrap();
    (Attested::new(own, policy).unwrap(), serial)
}

pub(crate) fn frame(stream: &mut TcpStream, message: &[u8]) {
    let length = u32::try_from(message.len()).unwrap();
    stream.write_all(&[&length.to_le_bytes()[..], message].concat()).unwrap();
}

pub(crate) fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// A channel whose messages a test sends itself.
pub(crate) fn open_by_hand(address: &str, client: &Attested) -> (TcpStream, Channel) {
    let (mut stream, mut channel) = (TcpStream::connect(address).unwrap(), client.channel().unwrap());
    loop {
        let flight = channel.flight();
        if !flight.is_empty() {
            frame(&mut stream, &flight);
        }
        if channel.is_open() {
            return (stream, channel);
        }
        let flight = read_frame(&mut stream).unwrap();
        channel.take(&flight).unwrap();
    }
}
