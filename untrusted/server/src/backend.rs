//! The keyless halves over one store: a request of any protocol in, its encoded response out.

use crate::halves::{self, request};
use crate::lease::{Caller, Lease, Writer};
use crate::{hello, leftovers, write};
use arras_protocol::{Protocol, ProtocolId, Refusal, codec};
use arras_storage::{Bytes, Durability, Read, Storage, StorageError, Table, Write};
use std::ops::ControlFlow;

/// Facts about the store itself.
const META: Table = Table("meta");
const DATABASE_KEY: &[u8] = b"database";
const INCARNATION_KEY: &[u8] = b"incarnation";

/// Largest request that may be quick: of ten rows or labels.
const QUICK_BYTES_MAX: usize = 200;

/// The server's state: a store, and who it is.
#[derive(Debug)]
pub struct Backend<S> {
    store: S,
    identity: hello::Identity,
    lease: Lease,
    writes: write::Queue,
}

/// A storage failure as the proxy hears of it.
pub(crate) fn storage(error: StorageError) -> Refusal {
    match error {
        StorageError::Undecided(_) => Refusal::Undecided(error.to_string()),
        StorageError::Full(_) => Refusal::Full(error.to_string()),
        StorageError::Environment(_) | StorageError::Damaged(_) | StorageError::InUse => {
            Refusal::Storage(error.to_string())
        }
    }
}

/// Looks keys up in their order; each value is taken before the next key is asked for.
pub(crate) fn look_up(
    reader: &impl Read,
    table: Table,
    mut keys: impl Iterator<Item = Vec<u8>>,
    mut take: impl FnMut(Option<Bytes>) -> Result<ControlFlow<()>, Refusal>,
) -> Result<(), Refusal> {
    let mut failure = None;
    let looked_up = reader.get_many(table, &mut keys, &mut |value| {
        take(value).unwrap_or_else(|refusal| {
            failure = Some(refusal);
            ControlFlow::Break(())
        })
    });
    looked_up.map_err(storage)?;
    failure.map_or(Ok(()), Err)
}

impl<S: Storage> Backend<S> {
    /// Opens the server's state in `store`: names a new database (`fresh_name` must be random), or counts one
    /// more start of the one that is there.
    ///
    /// # Errors
    /// [`StorageError`] if the store fails or holds something else.
    pub fn open(store: S, fresh_name: [u8; 16]) -> Result<Self, StorageError> {
        let mut writer = store.write()?;
        let database = match writer.get(META, DATABASE_KEY)? {
            Some(bytes) => bytes
                .as_ref()
                .try_into()
                .map_err(|_| StorageError::Damaged("the database name is not 16 bytes".into()))?,
            None => fresh_name,
        };
        let incarnation = match writer.get(META, INCARNATION_KEY)? {
            Some(bytes) => u64::from_be_bytes(
                bytes
                    .as_ref()
                    .try_into()
                    .map_err(|_| StorageError::Damaged("the incarnation is not 8 bytes".into()))?,
            ),
            None => 0,
        }
        .saturating_add(1);
        writer.put(META, DATABASE_KEY, &database)?;
        writer.put(META, INCARNATION_KEY, &incarnation.to_be_bytes())?;
        let lease = Lease::open(&writer)?;
        writer.commit(Durability::Durable)?;
        let engine = store.engine();
        let identity = hello::Identity { database, incarnation, engine };
        Ok(Self { store, identity, lease, writes: write::Queue::default() })
    }

    /// The store, for measurements.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Answers one request of this process itself, which no lease binds.
    ///
    /// # Errors
    /// [`Refusal`]; a refused write changed nothing.
    pub fn handle(&self, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        self.answer(Writer::InProcess, protocol, body)
    }

    /// True for a look at single records: one document, or whether a few rows or labels are there.
    pub fn is_quick(protocol: ProtocolId, body: &[u8]) -> bool {
        type Documents = arras_protocol::documents::Documents;
        type Unique = arras_protocol::unique::Unique;
        if body.len() > QUICK_BYTES_MAX {
            return false;
        }
        match protocol {
            Documents::ID => match request::<Documents>(body) {
                Ok(arras_protocol::documents::Request::Read { rows, .. }) => rows.len() <= 1,
                Ok(
                    arras_protocol::documents::Request::Exist { .. }
                    | arras_protocol::documents::Request::Count { .. },
                ) => true,
                Ok(arras_protocol::documents::Request::Scan { .. }) | Err(_) => false,
            },
            Unique::ID => true,
            _ => false,
        }
    }

    /// What a write that goes in parts takes in memory while it is applied, in bytes, about: the parts it applies.
    pub fn held_beside(protocol: ProtocolId, body: &[u8]) -> usize {
        type WriteProtocol = arras_protocol::write::Write;
        if protocol != WriteProtocol::ID || body.len() > write::APPLYING_BYTES_MAX {
            return 0;
        }
        request::<WriteProtocol>(body).map_or(0, |request| write::held_beside(&request))
    }

    /// Answers one request of a connection, as far as its hello goes.
    ///
    /// # Errors
    /// [`Refusal`]; a refused write changed nothing.
    pub fn handle_for(&self, caller: &Caller, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        self.lease.admit(caller)?;
        self.answer(Writer::Connected(caller), protocol, body)
    }

    /// A connection has ended: what it held is free.
    pub fn ended(&self, caller: &Caller) {
        self.lease.ended(caller);
    }

    /// Removes some of what dropped collections and indexes have left; true if there is more to remove.
    ///
    /// # Errors
    /// [`Refusal`] if the store fails.
    pub fn sweep(&self) -> Result<bool, Refusal> {
        leftovers::sweep(&self.store)
    }

    fn answer(&self, writer: Writer<'_>, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        type Hello = arras_protocol::hello::Hello;
        type WriteProtocol = arras_protocol::write::Write;
        let store = &self.store;
        match protocol {
            Hello::ID => {
                let (identity, lease) = (&self.identity, &self.lease);
                let hello = request::<Hello>(body)?;
                Ok(codec::encode(&hello::answer(store, identity, lease, writer, &hello)?))
            }
            WriteProtocol::ID => {
                let write = request::<WriteProtocol>(body)?;
                Ok(codec::encode(&self.writes.answer(store, writer, write, body.len())?))
            }
            other => halves::answer(store, self.identity.incarnation, other, body),
        }
    }
}
