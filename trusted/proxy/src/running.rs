//! What a running proxy says of itself, for `arras doctor`, which cannot open a data directory that is in use.
//!
//! It is a file in the data directory, closed to other users, made once the engine is open and taken away at the stop; after a
//! crash it stays, and means nothing while nobody has the directory open. It names the server's database (which the server
//! knows) and proves which keyring the proxy goes by: a hash, by which nothing can be unlocked.

use arras_keys::{Keyring, Purpose};
use arras_primitives::hash::sha256_framed;
use arras_storage::{RUNNING, private};
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Bytes of the salt of a proof.
const SALT_BYTES: usize = 16;

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// The process.
    pub process: u32,
    /// Where applications connect.
    pub listen: String,
    /// Where the server is.
    pub server: String,
    /// The server's database.
    pub database: [u8; 16],
    /// Why the proxy answers nothing any more, if so.
    pub halted: Option<String>,
    salt: [u8; SALT_BYTES],
    proof: [u8; 32],
}

fn proof(keyring: &Keyring, salt: &[u8; SALT_BYTES]) -> [u8; 32] {
    let (oldest, _) = keyring.versions().next().unwrap_or_default();
    let root = keyring.root(oldest).unwrap_or(keyring.current().1);
    sha256_framed(&[b"arras running proxy", salt, root.child(Purpose::ProxyRunning).expose()])
}

impl Running {
    /// What this process has to say of a server; it listens nowhere yet.
    #[must_use]
    pub fn new(keyring: &Keyring, server: &str, database: [u8; 16]) -> Self {
        let mut salt = [0; SALT_BYTES];
        rand::rng().fill_bytes(&mut salt);
        let process = std::process::id();
        let (listen, server) = (String::new(), server.to_owned());
        Self { process, listen, server, database, halted: None, salt, proof: proof(keyring, &salt) }
    }

    /// What the proxy that has `directory` open says; `None` if it says nothing that can be read.
    #[must_use]
    pub fn read(directory: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(directory.join(RUNNING)).ok()?).ok()
    }

    /// True if the proxy goes by this keyring.
    #[must_use]
    pub fn goes_by(&self, keyring: &Keyring) -> bool {
        self.proof == proof(keyring, &self.salt)
    }
}

/// The file, for as long as this is held.
#[derive(Debug)]
pub struct Noted {
    path: PathBuf,
}

impl Noted {
    /// Writes the file. The directory must be this process's alone.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn begin(directory: &Path, running: &Running) -> io::Result<Self> {
        let noted = Self { path: directory.join(RUNNING) };
        noted.say(running)?;
        Ok(noted)
    }

    /// Replaces what the file says.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn say(&self, running: &Running) -> io::Result<()> {
        let beside = self.path.with_extension("json.new");
        let mut file = private::file_options().write(true).create(true).truncate(true).open(&beside)?;
        file.write_all(&serde_json::to_vec(running)?)?;
        fs::rename(&beside, &self.path)
    }

    /// Takes away what a process that ended without a stop has left.
    pub fn forget(directory: &Path) {
        let _ = fs::remove_file(directory.join(RUNNING));
    }
}

impl Drop for Noted {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
