//! What a store's folder has: `client`, the keyring with the key file that unlocks it, the authority and the administrator's certificate,
//! and the record of what was indexed; `server`, what the host keeps.

use crate::StorageArguments;
use crate::connection::Connection;
use crate::credentials::Credentials;
use crate::failure::Failure;
use crate::host::Host;
use crate::storage::Storage;
use arras_keys::{Keyring, Purpose, Unlock, create_key_file};
use arras_primitives::aead::Aead;
use arras_search::link::OpenError;
use arras_search::service::ServiceError;
use arras_storage::private;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The collection of a store.
pub(crate) const COLLECTION: &str = "files";

/// A store's folder.
pub(crate) struct Store {
    folder: PathBuf,
    /// Held as long as the store is used: the operating system lets it go with the process.
    _lock: File,
    /// Seals the record of what was indexed.
    pub(crate) aead: Aead,
}

impl Store {
    /// Opens a store, or makes one.
    pub(crate) fn create(folder: &Path, storage: &StorageArguments) -> Result<Self, Failure> {
        let client = folder.join("client");
        if !may_be_store(folder) {
            return Err(Failure::NotEmpty(folder.into()));
        }
        private::make_directory(&client).map_err(|error| failed(&client, &error))?;
        let lock = lock(&client.join("lock"))?;
        // The host has kept nothing yet, no counter either.
        let is_kept = |name: &std::ffi::OsStr| Path::new(name).extension().is_none_or(|end| end != "lock");
        let is_new = std::fs::read_dir(folder.join("server"))
            .map_or(true, |kept| !kept.flatten().any(|kept| is_kept(&kept.file_name())));
        Storage::ask(&client, storage, is_new)?;
        let key_file = client.join("keyring.key");
        if !key_file.exists() {
            create_key_file(&key_file)?;
        }
        if !client.join("keyring").exists() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
            Keyring::create(&client.join("keyring"), Unlock::KeyFile(key_file), now)?;
        }
        Credentials::create(&client)?;
        Self::opened(folder, lock)
    }

    /// Opens one that is there.
    pub(crate) fn existing(folder: &Path) -> Result<Self, Failure> {
        let client = folder.join("client");
        if !client.join("keyring").exists() {
            return Err(Failure::NoStore(folder.display().to_string()));
        }
        Self::opened(folder, lock(&client.join("lock"))?)
    }

    fn opened(folder: &Path, lock: File) -> Result<Self, Failure> {
        let client = folder.join("client");
        let keyring = Keyring::open(&client.join("keyring"), Unlock::KeyFile(client.join("keyring.key")))?;
        let (_, root) = keyring.current();
        let aead = Aead::new(root.child(Purpose::SearchJournalSeal).expose());
        Ok(Self { folder: folder.into(), _lock: lock, aead })
    }

    /// The record of what was indexed.
    pub(crate) fn journal(&self) -> PathBuf {
        self.folder.join("client/journal")
    }

    /// Starts host and enclave, and connects to them.
    pub(crate) fn start(&self) -> Result<(Host, Connection), Failure> {
        let storage = Storage::of(&self.folder.join("client"))?;
        let mut host = Host::start(&self.folder.join("server"), &storage)?;
        let channel = Credentials::of(&self.folder.join("client"))?.channel(&host)?;
        let connection = Connection::new(&host.address, channel).map_err(|error| match error {
            OpenError::Stream(error) => ServiceError::from(error).into(),
            OpenError::Channel(error) => Failure::Channel(error),
        });
        match connection {
            Ok(connection) => Ok((host, connection)),
            Err(failure) => Err(host.explained(failure)),
        }
    }

    /// Starts them for some work, whose failure is explained by the host's if that has ended.
    pub(crate) fn serving(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let (mut host, mut connection) = self.start()?;
        work(&mut connection).map_err(|failure| host.explained(failure))
    }
}

/// Whether a folder is a store, one that was begun, or one that may be made: nobody's files lie there.
fn may_be_store(folder: &Path) -> bool {
    let names = |folder: &Path| -> Vec<_> {
        std::fs::read_dir(folder).map_or(Vec::new(), |all| all.flatten().map(|one| one.file_name()).collect())
    };
    let client = folder.join("client");
    // The first that a store has is its lock.
    client.join("lock").is_file()
        || names(folder).iter().all(|name| name == "client" && client.is_dir() && names(&client).is_empty())
}

/// One process at a time uses a store.
fn lock(path: &Path) -> Result<File, Failure> {
    let open = || private::file_options().write(true).create(true).truncate(false).open(path);
    let file = open().map_err(|error| failed(path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => {
            Err(failed(path, &io::Error::other("another arras search uses this store")))
        }
        Err(TryLockError::Error(error)) => Err(failed(path, &error)),
    }
}

/// The failure of a file of the store.
pub(crate) fn failed(path: &Path, error: &io::Error) -> Failure {
    Failure::Store { path: path.into(), what: error.to_string() }
}
