//! The keyring: the root keys of all versions, in one small file that a passphrase or a key file unlocks.
//!
//! *Format.* JSON, so that an administrator can see what it is. A header in the clear (format, how it is
//! unlocked, versions and when they were made), the roots sealed by AEAD with the header as associated data,
//! and a checksum that tells a damaged file from a wrong passphrase; security does not rest on the checksum.
//! What is sealed is the roots in the order of the header, 32 bytes each.
//!
//! *Rotation* adds a version: new data is sealed under the newest root, older roots stay to read what there is.
//!
//! *Absences.* An older copy of the file, put back, opens: a file alone cannot tell. Nothing is ever
//! overwritten in place.

use crate::error::KeyringError;
use crate::files::{self, from_hex, to_hex};
use crate::key::Key;
use crate::recovery::{self, Recovery};
use crate::unlock::{Cost, Passphrase, Unlock, read_key_file};
use arras_primitives::aead::{Aead, NONCE_BYTES};
use arras_primitives::hash::sha256;
use arras_primitives::wipe::wipe_stack;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// The format written and read here.
const FORMAT: u32 = 1;

/// Bytes of Argon2's salt.
const SALT_BYTES: usize = 16;

/// How the file is unlocked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Lock {
    Argon2id { cost: Cost, salt: String },
    KeyFile { salt: String },
    RecoveryCode { salt: String },
}

/// One root, without the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RootNote {
    version: u32,
    /// Seconds since 1970.
    made: u64,
}

/// What anybody may read; associated data of the seal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    arras_keyring: u32,
    unlock: Lock,
    roots: Vec<RootNote>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    header: Header,
    sealed: String,
    checksum: String,
}

/// Only the format: read first, so that a later format is named as such whatever else it holds.
#[derive(Deserialize)]
struct Probe {
    header: ProbeHeader,
}

#[derive(Deserialize)]
struct ProbeHeader {
    arras_keyring: u32,
}

/// An unlocked keyring.
pub struct Keyring {
    path: PathBuf,
    header: Header,
    /// In the order of the header's notes, versions rising; never empty.
    roots: Vec<Key>,
    lock: Key,
    checksum: String,
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keyring({}, {} versions)", self.path.display(), self.roots.len())
    }
}

impl Keyring {
    /// Makes a keyring with one random root, version 1. `now` is in seconds since 1970.
    ///
    /// # Errors
    /// [`KeyringError::Exists`] if there is a file at `path`; a key file that cannot be read; a file system
    /// that cannot be written.
    pub fn create(path: &Path, unlock: Unlock, now: u64) -> Result<Self, KeyringError> {
        Self::create_with_cost(path, unlock, Cost::DEFAULT, now)
    }

    /// [`Keyring::create`] with other costs of guessing a passphrase. A keyring cheaper than
    /// [`Cost::MINIMUM`] opens only by [`Keyring::open_with_minimum`].
    ///
    /// # Errors
    /// As [`Keyring::create`], and [`KeyringError::Cost`] for costs that Argon2 does not take.
    pub fn create_with_cost(path: &Path, unlock: Unlock, cost: Cost, now: u64) -> Result<Self, KeyringError> {
        let _wiped = StackWiped;
        let (note, lock) = new_lock(unlock, cost)?;
        let header =
            Header { arras_keyring: FORMAT, unlock: note, roots: vec![RootNote { version: 1, made: now }] };
        let roots = vec![Key::generate()];
        let (bytes, checksum) = encode(&header, &roots, &lock);
        files::create(path, &bytes)?;
        Ok(Self { path: path.to_path_buf(), header, roots, lock, checksum })
    }

    /// Opens a keyring.
    ///
    /// # Errors
    /// [`KeyringError`], one for each thing an administrator can do about it.
    pub fn open(path: &Path, unlock: Unlock) -> Result<Self, KeyringError> {
        Self::open_with_minimum(path, unlock, Cost::MINIMUM)
    }

    /// [`Keyring::open`] with another least cost. For tests and throw-away keyrings.
    ///
    /// # Errors
    /// As [`Keyring::open`].
    pub fn open_with_minimum(path: &Path, unlock: Unlock, minimum: Cost) -> Result<Self, KeyringError> {
        let _wiped = StackWiped;
        let file = parse(path, &files::read_private(path)?)?;
        let lock = open_lock(path, unlock, &file.header.unlock, minimum)?;
        let roots = unseal(path, &file, &lock)?;
        Ok(Self { path: path.to_path_buf(), header: file.header, roots, lock, checksum: file.checksum })
    }

    /// The newest version and its root: what new data is sealed under.
    ///
    /// # Panics
    /// Never: a keyring is not made or opened without a root.
    #[must_use]
    #[allow(clippy::expect_used, reason = "documented invariant of the fields")]
    pub fn current(&self) -> (u32, &Key) {
        let note = self.header.roots.last().expect("a keyring has a root");
        (note.version, self.roots.last().expect("a keyring has a root"))
    }

    /// The root of a version.
    #[must_use]
    pub fn root(&self, version: u32) -> Option<&Key> {
        self.header
            .roots
            .iter()
            .zip(&self.roots)
            .find(|(note, _)| note.version == version)
            .map(|(_, root)| root)
    }

    /// A keyring in no file, of one root that somebody may know: for simulations.
    #[cfg(feature = "lab")]
    #[must_use]
    pub fn simulated(root: Key) -> Self {
        let unlock = Lock::KeyFile { salt: String::new() };
        let header = Header { arras_keyring: FORMAT, unlock, roots: vec![RootNote { version: 1, made: 0 }] };
        let lock = Key::take_from(&mut [0; Key::BYTES]);
        Self { path: PathBuf::new(), header, roots: vec![root], lock, checksum: String::new() }
    }

    /// The versions, oldest first, and when each was made in seconds since 1970.
    pub fn versions(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.header.roots.iter().map(|note| (note.version, note.made))
    }

    /// Adds a random root as the newest version, durably, and returns its version. Older roots stay.
    ///
    /// # Errors
    /// [`KeyringError::Changed`] if another process changed the file meanwhile. After an error the keyring is
    /// as it was.
    pub fn rotate(&mut self, now: u64) -> Result<u32, KeyringError> {
        let _wiped = StackWiped;
        let (newest, _) = self.current();
        let version = newest
            .checked_add(1)
            .ok_or(KeyringError::Damaged { path: self.path.clone(), what: "no version number is left" })?;
        let mut header = self.header.clone();
        header.roots.push(RootNote { version, made: now });
        self.roots.push(Key::generate());
        let written = encode(&header, &self.roots, &self.lock);
        if let Err(error) = self.store(&written) {
            self.roots.pop();
            return Err(error);
        }
        (self.header, self.checksum) = (header, written.1);
        Ok(version)
    }

    /// Seals the same roots under another passphrase or key file.
    ///
    /// Copies of the old file still open with what unlocked them.
    ///
    /// # Errors
    /// As [`Keyring::rotate`] and [`Keyring::create_with_cost`].
    pub fn change_unlock(&mut self, unlock: Unlock, cost: Cost) -> Result<(), KeyringError> {
        let _wiped = StackWiped;
        let (note, lock) = new_lock(unlock, cost)?;
        let header = Header { unlock: note, ..self.header.clone() };
        let written = encode(&header, &self.roots, &lock);
        self.store(&written)?;
        (self.header, self.lock, self.checksum) = (header, lock, written.1);
        Ok(())
    }

    /// Writes a copy to `path`, sealed anew under what a person will have when the keyring is lost. It is a keyring itself:
    /// put in the keyring's place it opens with the recovery passphrase, or with the code as passphrase.
    ///
    /// # Errors
    /// [`KeyringError::Exists`] if there is a file at `path`; as [`Keyring::create_with_cost`].
    pub fn backup(&self, path: &Path, recovery: &Recovery, cost: Cost) -> Result<(), KeyringError> {
        let _wiped = StackWiped;
        let random = Key::generate();
        let salt: &[u8; SALT_BYTES] = random.expose_16();
        let (unlock, lock) = match recovery {
            Recovery::Passphrase(passphrase) => {
                (Lock::Argon2id { cost, salt: to_hex(salt) }, passphrase.stretch(cost, salt)?)
            }
            Recovery::Code(code) => (Lock::RecoveryCode { salt: to_hex(salt) }, code.lock(salt)),
        };
        let header = Header { unlock, ..self.header.clone() };
        files::create(path, &encode(&header, &self.roots, &lock).0)
    }

    /// Checks that the backup at `path` opens with what a person typed, and that it holds every root of this keyring.
    ///
    /// # Errors
    /// [`KeyringError::OtherDeployment`] if it holds other roots, [`KeyringError::Incomplete`] if it lacks some; as
    /// [`Keyring::open`].
    pub fn verify_backup(&self, path: &Path, typed: Passphrase, minimum: Cost) -> Result<(), KeyringError> {
        let backup = Self::open_with_minimum(path, Unlock::Passphrase(typed), minimum)?;
        let mut lacking = 0;
        for (note, root) in self.header.roots.iter().zip(&self.roots) {
            match backup.root(note.version) {
                None => lacking += 1,
                Some(copy) if bool::from(copy.expose().ct_eq(root.expose())) => {}
                Some(_) => return Err(KeyringError::OtherDeployment { path: path.to_path_buf() }),
            }
        }
        match lacking {
            0 => Ok(()),
            lacking if lacking == self.roots.len() => {
                Err(KeyringError::OtherDeployment { path: path.to_path_buf() })
            }
            lacking => Err(KeyringError::Incomplete { path: path.to_path_buf(), lacking }),
        }
    }

    /// Replaces the file if it is still the one that was read.
    fn store(&self, (bytes, _): &(Vec<u8>, String)) -> Result<(), KeyringError> {
        let _held = files::lock_parent(&self.path)?;
        let stored = parse(&self.path, &files::read_private(&self.path)?)?;
        if stored.checksum != self.checksum {
            return Err(KeyringError::Changed { path: self.path.clone() });
        }
        files::sweep(&self.path)?;
        files::replace(&self.path, bytes)
    }
}

/// When it is dropped, what the calls since have left on the stack is overwritten: a cipher's key schedule is moved on its
/// way into the cipher, and begins with the key itself.
struct StackWiped;

impl Drop for StackWiped {
    fn drop(&mut self) {
        wipe_stack();
    }
}

/// Makes the key that seals a new file, and the note of how to get it again.
fn new_lock(unlock: Unlock, cost: Cost) -> Result<(Lock, Key), KeyringError> {
    let random = Key::generate();
    let salt: &[u8; SALT_BYTES] = random.expose_16();
    match unlock {
        Unlock::Passphrase(passphrase) => {
            let lock = passphrase.stretch(cost, salt)?;
            Ok((Lock::Argon2id { cost, salt: to_hex(salt) }, lock))
        }
        Unlock::KeyFile(path) => {
            let lock = read_key_file(&path)?.derive(&[b"keyring seal", salt]);
            Ok((Lock::KeyFile { salt: to_hex(salt) }, lock))
        }
    }
}

/// Gets the key that seals the file.
fn open_lock(path: &Path, unlock: Unlock, note: &Lock, minimum: Cost) -> Result<Key, KeyringError> {
    let salt = |text: &str| match from_hex(text) {
        Some(salt) if salt.len() == SALT_BYTES => Ok(salt),
        _ => Err(damaged(path, "salt")),
    };
    let wrong = |needed, given| KeyringError::WrongKind { path: path.to_path_buf(), needed, given };
    match (unlock, note) {
        (Unlock::Passphrase(passphrase), Lock::Argon2id { cost, salt: text }) => {
            if !cost.is_at_least(minimum) {
                return Err(KeyringError::Cost("weaker than the least allowed".into()));
            }
            if !Cost::MAXIMUM.is_at_least(*cost) {
                return Err(damaged(path, "passphrase cost"));
            }
            passphrase.stretch(*cost, &salt(text)?)
        }
        (Unlock::KeyFile(file), Lock::KeyFile { salt: text }) => {
            Ok(read_key_file(&file)?.derive(&[b"keyring seal", &salt(text)?]))
        }
        (Unlock::Passphrase(typed), Lock::RecoveryCode { salt: text }) => {
            recovery::open(&typed, &salt(text)?).ok_or_else(|| KeyringError::Code {
                path: path.to_path_buf(),
                groups: recovery::GROUPS,
                letters: recovery::LETTERS,
            })
        }
        (Unlock::KeyFile(_), Lock::Argon2id { .. }) => Err(wrong("a passphrase", "a key file")),
        (Unlock::KeyFile(_), Lock::RecoveryCode { .. }) => Err(wrong("a recovery code", "a key file")),
        (Unlock::Passphrase(_), Lock::KeyFile { .. }) => Err(wrong("a key file", "a passphrase")),
    }
}

fn damaged(path: &Path, what: &'static str) -> KeyringError {
    KeyringError::Damaged { path: path.to_path_buf(), what }
}

/// Reads all that needs no secret.
fn parse(path: &Path, bytes: &[u8]) -> Result<File, KeyringError> {
    let probe: Probe = serde_json::from_slice(bytes).map_err(|_| damaged(path, "not a keyring"))?;
    let found = probe.header.arras_keyring;
    if found != FORMAT {
        return Err(KeyringError::UnknownFormat { path: path.to_path_buf(), found, known: FORMAT });
    }
    let file: File = serde_json::from_slice(bytes).map_err(|_| damaged(path, "fields"))?;
    if checksum(&header_bytes(&file.header), &file.sealed) != file.checksum {
        return Err(damaged(path, "checksum"));
    }
    if file.header.roots.is_empty() || !file.header.roots.is_sorted_by(|a, b| a.version < b.version) {
        return Err(damaged(path, "versions"));
    }
    Ok(file)
}

fn unseal(path: &Path, file: &File, lock: &Key) -> Result<Vec<Key>, KeyringError> {
    let sealed = from_hex(&file.sealed).ok_or_else(|| damaged(path, "sealed roots"))?;
    let opened = Aead::new(lock.expose())
        .open(&header_bytes(&file.header), &sealed)
        .map_err(|_| KeyringError::Locked { path: path.to_path_buf() })?;
    let mut opened = Zeroizing::new(opened);
    let (materials, rest) = opened.as_chunks_mut::<{ Key::BYTES }>();
    if !rest.is_empty() || materials.len() != file.header.roots.len() {
        return Err(damaged(path, "number of roots"));
    }
    Ok(materials.iter_mut().map(Key::take_from).collect())
}

/// The file's bytes and its checksum.
fn encode(header: &Header, roots: &[Key], lock: &Key) -> (Vec<u8>, String) {
    // Full size at once: a growing buffer would leave copies of roots behind.
    let mut plain = Zeroizing::new(Vec::with_capacity(roots.len() * Key::BYTES));
    for root in roots {
        plain.extend_from_slice(root.expose());
    }
    let random = Key::generate();
    let mut nonce = [0; NONCE_BYTES];
    nonce.copy_from_slice(&random.expose_16()[..NONCE_BYTES]);
    let associated = header_bytes(header);
    let sealed = to_hex(&Aead::new(lock.expose()).seal(&nonce, &associated, &plain));
    let checksum = checksum(&associated, &sealed);
    let file = File { header: header.clone(), sealed, checksum };
    let mut bytes = json(&file, true);
    bytes.push(b'\n');
    (bytes, file.checksum)
}

/// The header as one unambiguous string: fields in the order of their declaration, no white space.
fn header_bytes(header: &Header) -> Vec<u8> {
    json(header, false)
}

fn checksum(header: &[u8], sealed: &str) -> String {
    let header_len = (header.len() as u64).to_be_bytes();
    to_hex(&sha256(&[b"arras keyring checksum", &header_len, header, sealed.as_bytes()]))
}

#[allow(clippy::expect_used, reason = "numbers and strings always serialise")]
fn json<T: Serialize>(value: &T, pretty: bool) -> Vec<u8> {
    let written = if pretty { serde_json::to_vec_pretty(value) } else { serde_json::to_vec(value) };
    written.expect("numbers and strings always serialise")
}

#[cfg(test)]
mod tests;
