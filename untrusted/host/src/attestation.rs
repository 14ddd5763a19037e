//! Evidence of the enclave that runs here, for its clients.

use crate::enclave::Measurement;
use crate::hexadecimal;
use arras_protocol::codec::encode;
use arras_protocol::evidence::{EVIDENCE_BYTES_MAX, Evidence, Statement};
use arras_storage::private;
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

/// What an enclave wants to have attested.
#[derive(Clone, Debug)]
pub struct Question {
    /// What it binds: its key, its clients' authority, its administrator.
    pub binding: [u8; 32],
    /// Whether it runs without its walls.
    pub debug: bool,
    /// Its security version.
    pub version: u32,
    /// The enclave's own quote of the binding, where it runs in SGX; else nothing.
    pub quote: Vec<u8>,
}

/// Bytes of report data, which quotes and reports take over as they are.
pub(crate) const DATA_BYTES: usize = 64;

/// Report data that bind something: zeros behind it.
pub(crate) fn report_data(binding: &[u8; 32]) -> [u8; DATA_BYTES] {
    let mut data = [0; DATA_BYTES];
    data.iter_mut().zip(binding).for_each(|(to, from)| *to = *from);
    data
}

/// Evidence, if clients read so much.
///
/// # Errors
/// Its bytes.
pub(crate) fn fits(evidence: Evidence) -> Result<Evidence, usize> {
    let bytes = encode(&evidence).len();
    if bytes > EVIDENCE_BYTES_MAX { Err(bytes) } else { Ok(evidence) }
}

/// Who vouches for enclaves on this machine.
pub trait Attester: Send + Sync + 'static {
    /// Evidence of the enclave that asks.
    ///
    /// # Errors
    /// What is behind it fails.
    fn attest(&self, question: &Question) -> io::Result<Evidence>;

    /// Whose word its evidence is, for whoever waits for it.
    fn source(&self) -> &'static str;
}

/// A key that signs what this host says of a process that it has measured. Whoever has this machine has the key, and can sign what
/// never ran: for trials, and for clients on the same machine.
pub struct DevelopmentRoot {
    pair: Ed25519KeyPair,
    measurement: Measurement,
}

impl DevelopmentRoot {
    /// For a program that was measured, by the key in a file (PKCS #8, DER), which is made if there is none. Beside it, under the ending
    /// `public`, is its public key as 64 hexadecimal digits.
    ///
    /// # Errors
    /// What the operating system says; the file is no key.
    pub fn open(path: &Path, measurement: Measurement) -> io::Result<Self> {
        let pkcs8 = match fs::read(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => make(path)?,
            read => read?,
        };
        let pair = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&pkcs8)
            .map_err(|_| io::Error::other(format!("{}: no key of a development root", path.display())))?;
        let public = hexadecimal::written(pair.public_key().as_ref());
        fs::write(path.with_extension("public"), public + "\n")?;
        Ok(Self { pair, measurement })
    }
}

fn make(path: &Path) -> io::Result<Vec<u8>> {
    let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
        .map_err(|_| io::Error::other("no key can be made"))?;
    // Beside it, so that it is there whole or not at all.
    let new = path.with_extension("new");
    let mut file = private::file_options().write(true).create(true).truncate(true).open(&new)?;
    file.write_all(pkcs8.as_ref())?;
    file.sync_all()?;
    fs::rename(new, path)?;
    fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()?;
    Ok(pkcs8.as_ref().to_vec())
}

impl Attester for DevelopmentRoot {
    fn attest(&self, question: &Question) -> io::Result<Evidence> {
        let Question { binding, debug, version, .. } = *question;
        let made =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_err(io::Error::other)?.as_secs();
        let statement = encode(&Statement { measurement: self.measurement, binding, made, debug, version });
        let signature = self.pair.sign(&Statement::signed(&statement)).as_ref().to_vec();
        Ok(Evidence::Process { statement: statement.into(), signature: signature.into() })
    }

    fn source(&self) -> &'static str {
        "the development root's word"
    }
}

/// For an enclave whose channels are plain: it asks for no evidence.
pub struct NoAttester;

impl Attester for NoAttester {
    fn attest(&self, _question: &Question) -> io::Result<Evidence> {
        Err(io::Error::other(
            "the enclave asks for evidence, and the host was given none of --development-root, --tpm-key, --tsm and --gramine",
        ))
    }

    fn source(&self) -> &'static str {
        "nobody's word"
    }
}

#[cfg(test)]
#[allow(clippy::panic, clippy::unwrap_used)]
mod tests {
    use super::*;
    use ring::signature::{ED25519, UnparsedPublicKey};

    #[test]
    fn a_root_is_made_once_and_signs_what_it_measured() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("development-root");
        let question = Question { binding: [5; 32], debug: true, version: 7, quote: Vec::new() };
        let evidence = DevelopmentRoot::open(&path, [1; 32]).unwrap().attest(&question).unwrap();
        let Evidence::Process { statement, signature } = evidence else { panic!("{evidence:?}") };
        let again = DevelopmentRoot::open(&path, [1; 32]).unwrap();
        let public = UnparsedPublicKey::new(&ED25519, again.pair.public_key().as_ref());
        public.verify(&Statement::signed(statement.as_slice()), signature.as_slice()).unwrap();
        let said: Statement = arras_protocol::codec::decode(statement.as_slice()).unwrap();
        assert_eq!((said.measurement, said.binding), ([1; 32], [5; 32]));
        assert_eq!((said.debug, said.version), (true, 7));
        assert_eq!(fs::read_to_string(path.with_extension("public")).unwrap().trim().len(), 64);
        fs::write(&path, "no key").unwrap();
        assert!(DevelopmentRoot::open(&path, [1; 32]).is_err());
    }
}
