//! A store's certificates: its authority, and the administrator's, who is the one client.

use crate::failure::Failure;
use crate::host::{ADMINISTRATOR, Host};
use crate::store::failed;
use arras_attestation::authority::Authority;
use arras_attestation::channel::{Channel, Client, Credentials as Own};
use arras_attestation::evidence::DevelopmentRoot;
use arras_attestation::folder::{self, AUTHORITY};
use arras_attestation::policy::{Accepted, ReleasePolicy, Source};
use arras_primitives::hash::sha256;
use arras_schemes::bisen::channel::SECURITY_VERSION;
use arras_storage::private::file_options;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

/// The file with the authority's key.
pub(crate) const AUTHORITY_KEY: &str = "ca.key";
/// The file with the administrator's certificate.
const CERTIFICATE: &str = "administrator.pem";
/// The file with its key.
const PRIVATE: &str = "administrator.key";

/// How old the evidence may be, in seconds: the host is started with the command.
const MAX_AGE_SECONDS: u64 = 3600;

/// A certificate is renewed so long before it ends: it lasts two years.
const RENEWED_SECONDS: u64 = 365 * 24 * 60 * 60;

/// The certificates in a folder.
pub(crate) struct Credentials {
    folder: PathBuf,
}

impl Credentials {
    /// Makes an authority and the administrator's certificate, if they are not there.
    pub(crate) fn create(folder: &Path) -> Result<(), Failure> {
        if folder.join(AUTHORITY).exists() {
            return Ok(());
        }
        let (_, issued) = Authority::create(now()).map_err(certified)?;
        // The certificate comes last: what says that both are there.
        replace(&folder.join(AUTHORITY_KEY), &issued.1)?;
        replace(&folder.join(AUTHORITY), &issued.0)
    }

    /// Those of a folder; the administrator's certificate is made anew if it is not there, or old.
    pub(crate) fn of(folder: &Path) -> Result<Self, Failure> {
        let made = fs::metadata(folder.join(CERTIFICATE)).and_then(|file| file.modified());
        let age = made.ok().and_then(|made| made.elapsed().ok());
        if age.is_none_or(|age| age.as_secs() >= RENEWED_SECONDS) {
            let (authority, key) = (read(&folder.join(AUTHORITY))?, read(&folder.join(AUTHORITY_KEY))?);
            let authority = Authority::read(&authority, &key).map_err(certified)?;
            let issued = authority.issue(ADMINISTRATOR, now()).map_err(certified)?;
            replace(&folder.join(PRIVATE), &issued.1)?;
            replace(&folder.join(CERTIFICATE), &issued.0)?;
        }
        Ok(Self { folder: folder.into() })
    }

    /// A channel to the enclave that a host of this store has started: no other program is spoken to.
    pub(crate) fn channel(&self, host: &Host) -> Result<Channel, Failure> {
        let own = own(&self.folder, ADMINISTRATOR)?;
        let program = fs::read(&host.enclave).map_err(|error| failed(&host.enclave, &error))?;
        let root = DevelopmentRoot::read(&read(&host.root)?).map_err(certified)?;
        let accepted = Accepted {
            source: Source::Process { root },
            measurements: vec![sha256(&[&program]).to_vec()],
            version_min: SECURITY_VERSION,
            allow_debug: false,
        };
        let policy = ReleasePolicy {
            administrator: ADMINISTRATOR.into(),
            max_age_seconds: MAX_AGE_SECONDS,
            accept: vec![accepted],
        };
        Client::new(own, policy).and_then(|client| client.channel()).map_err(certified)
    }
}

/// What a folder has of a client.
pub(crate) fn own(folder: &Path, name: &str) -> Result<Own, Failure> {
    folder::credentials(folder, name).map_err(|error| Failure::Store { path: error.path, what: error.what })
}

pub(crate) fn certified(error: impl std::fmt::Display) -> Failure {
    Failure::Certificates(error.to_string())
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

pub(crate) fn read(path: &Path) -> Result<Zeroizing<String>, Failure> {
    fs::read_to_string(path).map(Zeroizing::new).map_err(|error| failed(path, &error))
}

/// Writes a file as a whole, readable by its owner only.
pub(crate) fn replace(path: &Path, text: &str) -> Result<(), Failure> {
    let new = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = file_options().write(true).create(true).truncate(true).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, path)
    };
    write().map_err(|error| failed(path, &error))
}
