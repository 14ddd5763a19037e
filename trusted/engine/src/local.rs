//! The proxy's own store: catalog, counters, intents and epoch, durable and sealed under the keyring.
//!
//! Names are labels (deterministic AEAD tags), values AEAD ciphertexts bound to their table and name, so a
//! copy of the directory shows sizes only, in steps of 16 bytes. Records that indexes name themselves keep their names: labels
//! too, but for an index whose scheme keeps a tree, which are its ciphertexts, so that a copy shows how many there are and their codes.

use arras_keys::{Key, Purpose};
use arras_planner::kinds::UnknownProtocol;
use arras_primitives::aead::{Aead, NONCE_BYTES};
use arras_primitives::det_aead::DetAead;
use arras_protocol::{Protocol, codec, write};
use arras_schemes::padding;
use arras_schemes::random::Randomness;
use arras_storage::{Bytes, Direction, Durability, Read, Storage, StorageError, Table, Write};
use rand::Rng;
use serde::{Serialize, de::DeserializeOwned};
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::{AtomicU64, Ordering};

/// What keeps the proxy's store from being used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LocalError {
    /// The engine failed.
    #[error("the proxy's data directory: {0}")]
    Storage(#[from] StorageError),
    /// The keyring is another one.
    #[error("this keyring is not the one the proxy's data directory was made with")]
    WrongKeyring,
    /// A record does not open or parse.
    #[error("the proxy's data directory is damaged: a record of {0} does not open")]
    Damaged(&'static str),
    /// An index is by a protocol of another build.
    #[error(
        "the proxy's data directory: the index of {collection} on '{field}': {error}; start the version that made it, and drop it there"
    )]
    Protocol {
        /// Database and collection.
        collection: String,
        /// The ordered field.
        field: String,
        /// Which protocol.
        error: UnknownProtocol,
    },
    /// An index is by a protocol that this build was made without.
    #[error(
        "the proxy's data directory: the index of {collection} on '{field}' is by {protocol}: {reason}; start a build that has it, or \
         drop the index there"
    )]
    NotBuilt {
        /// Database and collection.
        collection: String,
        /// The ordered field.
        field: String,
        /// The protocol's name.
        protocol: &'static str,
        /// Why it is not there.
        reason: &'static str,
    },
}

impl LocalError {
    /// True if it is not known whether what was to be stored is: nobody could look.
    #[must_use]
    pub fn is_undecided(&self) -> bool {
        matches!(self, Self::Storage(StorageError::Undecided(_)))
    }
}

/// Records are padded to a multiple of this many bytes: a counter's size says nothing of its value.
const RECORD_STEP_BYTES: usize = 16;
/// Records that are removed in one transaction, where many are.
const REMOVED_AT_ONCE: usize = 4_000;

/// Facts about the store itself.
const META: Table = Table("each_write.meta");
/// Opens only under the right keyring.
const CHECK: &[u8] = b"check";
/// How many writes the server has acknowledged.
const ACKNOWLEDGED: &[u8] = b"acknowledged";

/// A record to write (or, without a value, to remove) in a transaction of the store.
#[derive(Debug)]
pub struct Change {
    table: Table,
    name: Vec<u8>,
    sealed: Option<Bytes>,
    /// What the record is to be if the write that this change goes with is not applied, where that is not what this
    /// change makes of it.
    undo: Option<Option<Bytes>>,
}

/// Records of one table as they are to be: names, and sealed values or none.
pub type Sealed = Vec<(Vec<u8>, Option<Vec<u8>>)>;

impl Change {
    /// The same change, taken back by `undo`, of the same record, if the write it goes with is not applied.
    #[must_use]
    pub fn or_else(mut self, undo: Self) -> Self {
        debug_assert!(self.table == undo.table && self.name == undo.name, "of the same record");
        self.undo = Some(undo.sealed);
        self
    }

    /// A change of a record that is sealed already.
    #[must_use]
    pub fn sealed(table: Table, name: Vec<u8>, sealed: Option<Vec<u8>>) -> Self {
        Self { table, name, sealed: sealed.map(Into::into), undo: None }
    }

    /// What takes it back, if it is of a record of this table.
    #[must_use]
    pub fn undo_in(&self, table: Table) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
        let undo = self.undo.as_ref().filter(|_| self.table == table)?;
        Some((self.name.clone(), undo.as_ref().map(|sealed| sealed.to_vec())))
    }

    /// The name of the record, if it is one of this table.
    #[must_use]
    pub fn name_in(&self, table: Table) -> Option<&[u8]> {
        (self.table == table).then_some(self.name.as_slice())
    }
}

/// The sealed store.
pub struct LocalStore<S> {
    store: S,
    names: DetAead,
    values: Aead,
    acknowledged: AtomicU64,
    random: Randomness,
}

impl<S> std::fmt::Debug for LocalStore<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LocalStore")
    }
}

impl<S: Storage> LocalStore<S> {
    /// Opens the store under a root `key`; a fresh one is marked with it.
    ///
    /// # Errors
    /// [`LocalError::WrongKeyring`] if the store was made under another key.
    pub fn open(store: S, key: &Key) -> Result<Self, LocalError> {
        Self::open_with(store, key, Randomness::default())
    }

    /// The same, with nonces from `random`.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(store: S, key: &Key, random: Randomness) -> Result<Self, LocalError> {
        let local = Self {
            store,
            names: DetAead::new(key.child(Purpose::ProxyStoreSlotNames).expose()),
            values: Aead::new(key.child(Purpose::ProxyStoreSeal).expose()),
            acknowledged: AtomicU64::new(0),
            random,
        };
        let marked = local.store.read()?.get(META, CHECK)?;
        match marked {
            Some(sealed) => {
                local.values.open(CHECK, &sealed).map_err(|_| LocalError::WrongKeyring)?;
            }
            None => {
                let sealed = local.values.seal(&local.nonce(), CHECK, CHECK);
                let mut writer = local.store.write()?;
                writer.put(META, CHECK, &sealed)?;
                writer.commit(Durability::Durable)?;
            }
        }
        Ok(local)
    }

    /// A change that sets a record.
    pub fn set<T: Serialize>(&self, table: Table, name: &[u8], value: &T) -> Change {
        let name = self.label(table, name);
        self.set_as_named(table, name, value)
    }

    /// A change that removes a record.
    pub fn unset(&self, table: Table, name: &[u8]) -> Change {
        Change { table, name: self.label(table, name), sealed: None, undo: None }
    }

    /// A change that sets a record whose name is a pseudorandom one already and is kept as it is.
    pub fn set_as_named<T: Serialize>(&self, table: Table, name: Vec<u8>, value: &T) -> Change {
        let value = padding::pad(codec::encode(value), RECORD_STEP_BYTES);
        let sealed = self.values.seal(&self.nonce(), &associated(table, &name), &value);
        Change { table, name, sealed: Some(sealed.into()), undo: None }
    }

    /// A change that removes a record set by [`Self::set_as_named`].
    pub fn unset_as_named(&self, table: Table, name: Vec<u8>) -> Change {
        Change { table, name, sealed: None, undo: None }
    }

    /// A record set by [`Self::set_as_named`].
    ///
    /// # Errors
    /// [`LocalError`] if the engine fails or the record does not open.
    pub fn get_as_named<T: DeserializeOwned>(
        &self,
        table: Table,
        name: &[u8],
    ) -> Result<Option<T>, LocalError> {
        let sealed = self.store.read()?.get(table, name)?;
        sealed.map(|sealed| self.open_record(table, name, &sealed)).transpose()
    }

    /// Records set by [`Self::set_as_named`], in the order of their names.
    ///
    /// # Errors
    /// [`LocalError`] if the engine fails or a record does not open.
    pub fn get_many_as_named<T: DeserializeOwned>(
        &self,
        table: Table,
        names: &[Vec<u8>],
    ) -> Result<Vec<Option<T>>, LocalError> {
        let mut sealed = Vec::with_capacity(names.len());
        self.store.read()?.get_many(table, &mut names.iter().cloned(), &mut |record| {
            sealed.push(record);
            ControlFlow::Continue(())
        })?;
        let opened = names
            .iter()
            .zip(sealed)
            .map(|(name, sealed)| sealed.map(|sealed| self.open_record(table, name, &sealed)).transpose());
        opened.collect()
    }

    /// Visits the records set by [`Self::set_as_named`] whose names start with `prefix`, by name.
    ///
    /// # Errors
    /// [`LocalError`] if the engine fails or a record does not open.
    pub fn each_as_named<T: DeserializeOwned>(
        &self,
        table: Table,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], T),
    ) -> Result<(), LocalError> {
        let mut outcome = Ok(());
        self.store.read()?.scan(
            table,
            (Bound::Included(prefix), Bound::Unbounded),
            Direction::Ascending,
            &mut |name, sealed| {
                if !name.starts_with(prefix) {
                    return ControlFlow::Break(());
                }
                match self.open_record(table, name, sealed) {
                    Ok(record) => {
                        visit(name, record);
                        ControlFlow::Continue(())
                    }
                    Err(error) => {
                        outcome = Err(error);
                        ControlFlow::Break(())
                    }
                }
            },
        )?;
        outcome
    }

    /// Removes the records set by [`Self::set_as_named`] whose names start with `prefix`, some at a time: nobody waits long to write,
    /// and a crash may leave some.
    ///
    /// # Errors
    /// [`LocalError`] if the engine fails.
    pub fn remove_as_named(&self, table: Table, prefix: &[u8]) -> Result<(), LocalError> {
        loop {
            let mut writer = self.store.write()?;
            let removed = writer.delete_prefix(table, prefix, REMOVED_AT_ONCE)?;
            writer.commit(Durability::Relaxed)?;
            if removed < REMOVED_AT_ONCE as u64 {
                return Ok(());
            }
        }
    }

    /// What the names of the records set by [`Self::set_as_named`] begin with: each first `length` bytes once.
    ///
    /// # Errors
    /// [`LocalError`] if the engine fails.
    pub fn beginnings_as_named(&self, table: Table, length: usize) -> Result<Vec<Vec<u8>>, LocalError> {
        let reader = self.store.read()?;
        let (mut found, mut from) = (Vec::new(), Some(Vec::new()));
        while let Some(begin) = from.take() {
            reader.scan(
                table,
                (Bound::Included(&begin), Bound::Unbounded),
                Direction::Ascending,
                &mut |name, _| {
                    let beginning = name.get(..length).unwrap_or(name).to_vec();
                    // Behind every name that begins so.
                    from = Some([beginning.as_slice(), &[u8::MAX; 64]].concat());
                    found.push(beginning);
                    ControlFlow::Break(())
                },
            )?;
        }
        Ok(found)
    }

    /// Notes how many writes the server has acknowledged. Recorded with every later change, so with the strike of the
    /// write whose acknowledgement it is: what is struck, and so not sent again, the server is known to have.
    pub fn acknowledged(&self, commits: u64) {
        self.acknowledged.fetch_max(commits, Ordering::AcqRel);
    }

    /// How many writes the server had acknowledged when this was last recorded.
    ///
    /// # Errors
    /// [`LocalError`] if the engine fails or the record does not open.
    pub fn acknowledged_before(&self) -> Result<u64, LocalError> {
        Ok(self.get(META, ACKNOWLEDGED)?.unwrap_or(0))
    }

    /// Removes every record of some tables, and notes that the server has acknowledged so many writes and no more.
    ///
    /// # Errors
    /// [`LocalError`] if the engine fails; nothing changed then.
    pub fn forget(&self, tables: &[Table], commits: u64) -> Result<(), LocalError> {
        let mut writer = self.store.write()?;
        for table in tables {
            writer.delete_prefix(*table, &[], usize::MAX)?;
        }
        self.acknowledged.store(commits, Ordering::Release);
        let mark = self.set(META, ACKNOWLEDGED, &commits);
        writer.put(META, &mark.name, mark.sealed.as_deref().unwrap_or_default())?;
        Ok(writer.commit(Durability::Durable)?)
    }

    /// Applies changes, all or nothing.
    ///
    /// # Errors
    /// [`LocalError::Storage`]; nothing changed, unless it [is undecided](LocalError::is_undecided).
    pub fn apply<'c>(
        &self,
        changes: impl IntoIterator<Item = &'c Change>,
        durability: Durability,
    ) -> Result<(), LocalError> {
        let mut writer = self.store.write()?;
        // Read while this is the only writer: strikes of writes that were under way together never lower it.
        let acknowledged = self.acknowledged.load(Ordering::Acquire);
        if acknowledged > 0 {
            let mark = self.set(META, ACKNOWLEDGED, &acknowledged);
            writer.put(META, &mark.name, mark.sealed.as_deref().unwrap_or_default())?;
        }
        for change in changes {
            match &change.sealed {
                Some(sealed) => writer.put_owned(change.table, &change.name, sealed.clone())?,
                None => drop(writer.delete(change.table, &change.name)?),
            }
        }
        Ok(writer.commit(durability)?)
    }

    /// A record.
    ///
    /// # Errors
    /// [`LocalError`] if the engine fails or the record does not open.
    pub fn get<T: DeserializeOwned>(&self, table: Table, name: &[u8]) -> Result<Option<T>, LocalError> {
        let name = self.label(table, name);
        let sealed = self.store.read()?.get(table, &name)?;
        sealed.map(|sealed| self.open_record(table, &name, &sealed)).transpose()
    }

    /// Every record of a table, in no order that means anything.
    ///
    /// # Errors
    /// [`LocalError`] if the engine fails or a record does not open.
    pub fn all<T: DeserializeOwned>(&self, table: Table) -> Result<Vec<T>, LocalError> {
        let mut records = Vec::new();
        self.store.read()?.scan(
            table,
            (Bound::Unbounded, Bound::Unbounded),
            Direction::Ascending,
            &mut |name, sealed| {
                records.push((name.to_vec(), sealed.to_vec()));
                ControlFlow::Continue(())
            },
        )?;
        records.iter().map(|(name, sealed)| self.open_record(table, name, sealed)).collect()
    }

    fn open_record<T: DeserializeOwned>(
        &self,
        table: Table,
        name: &[u8],
        sealed: &[u8],
    ) -> Result<T, LocalError> {
        let damaged = || LocalError::Damaged(table.0);
        let value = self.values.open(&associated(table, name), sealed).map_err(|_| damaged())?;
        let value = padding::unpad(&value).map_err(|_| damaged())?;
        // This proxy's own record, sealed: it may be a whole write.
        codec::decode_expanding(value, write::Write::REQUEST_EXPANSION).map_err(|_| damaged())
    }

    fn nonce(&self) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        self.random.rng().fill_bytes(&mut nonce);
        nonce
    }

    /// Where its nonces come from.
    pub fn randomness(&self) -> &Randomness {
        &self.random
    }

    fn label(&self, table: Table, name: &[u8]) -> Vec<u8> {
        self.names.tag(&[table.0.as_bytes()], name).to_vec()
    }
}

fn associated(table: Table, name: &[u8]) -> Vec<u8> {
    [table.0.as_bytes(), b"\0", name].concat()
}

#[cfg(test)]
mod tests;
