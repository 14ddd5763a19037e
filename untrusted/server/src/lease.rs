//! Who may write: one proxy at a time, in generations that rise durably (see [`arras_protocol::hello`]).

use crate::backend::storage;
use arras_protocol::Refusal;
use arras_protocol::hello::Purpose;
use arras_storage::{Durability, Read, Storage, StorageError, Table, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The holder and its generation.
const LEASES: Table = Table("lease");
const HOLDER: &[u8] = b"holder";

/// The lease as it is stored. Generation 0: nobody has ever held it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Holder {
    instance: [u8; 16],
    generation: u64,
}

impl Holder {
    fn read(reader: &impl Read) -> Result<Self, StorageError> {
        let Some(bytes) = reader.get(LEASES, HOLDER)? else { return Ok(Self::default()) };
        let damaged = || StorageError::Damaged("the record of who holds the database".into());
        let (instance, generation) = bytes.as_ref().split_first_chunk::<16>().ok_or_else(damaged)?;
        let generation = u64::from_be_bytes(generation.try_into().map_err(|_| damaged())?);
        Ok(Self { instance: *instance, generation })
    }

    fn to_bytes(self) -> Vec<u8> {
        [self.instance.as_slice(), &self.generation.to_be_bytes()].concat()
    }
}

/// What a connection was granted by its hello.
#[derive(Debug, Default)]
pub struct Caller {
    /// The generation it holds; nothing for one that only looks.
    granted: OnceLock<u64>,
    /// It has ended: a hello that is granted only now holds nothing.
    has_ended: AtomicBool,
}

/// Who holds the database, and over how many connections.
#[derive(Clone, Copy, Debug)]
struct Live {
    holder: Holder,
    connections: usize,
}

/// The lease of a running server.
#[derive(Debug)]
pub(crate) struct Lease {
    live: Mutex<Live>,
    /// One grant at a time. Held during its commit, in which a connection may end without waiting.
    granting: Mutex<()>,
    /// The holder's generation again, to be read without waiting.
    generation: AtomicU64,
}

impl Lease {
    /// Takes up what is stored.
    pub(crate) fn open(reader: &impl Read) -> Result<Self, StorageError> {
        let holder = Holder::read(reader)?;
        let generation = AtomicU64::new(holder.generation);
        let live = Mutex::new(Live { holder, connections: 0 });
        Ok(Self { live, granting: Mutex::default(), generation })
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        // Nothing panics while it is held.
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The holder's generation.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Grants a connection what its hello asks for.
    pub(crate) fn grant<S: Storage>(
        &self,
        store: &S,
        caller: &Caller,
        purpose: Purpose,
    ) -> Result<(), Refusal> {
        let Purpose::Hold { instance, generation, take_over } = purpose else { return Ok(()) };
        if caller.granted.get().is_some() {
            return Err(Refusal::Malformed("a second hello on one connection".into()));
        }
        let _granting = self.granting.lock().unwrap_or_else(PoisonError::into_inner);
        let Live { holder, connections } = *self.live();
        match generation {
            Some(held) if held < holder.generation => return Err(Refusal::Fenced),
            // A later generation than this server ever gave: what it knew of it is gone.
            Some(held) if held > holder.generation => return Err(Refusal::SetBack),
            Some(_) if instance == holder.instance => {}
            Some(_) => return Err(Refusal::Fenced),
            // Its first hello again: the reply was lost.
            None if instance == holder.instance => {}
            None if connections > 0 && !take_over => return Err(Refusal::Leased),
            None => {
                let later = Holder { instance, generation: holder.generation.saturating_add(1) };
                let mut writer = store.write().map_err(storage)?;
                writer.put(LEASES, HOLDER, &later.to_bytes()).map_err(storage)?;
                writer.commit(Durability::Durable).map_err(storage)?;
                *self.live() = Live { holder: later, connections: 0 };
                self.generation.store(later.generation, Ordering::Release);
            }
        }
        let mut live = self.live();
        if !caller.has_ended.load(Ordering::Acquire) {
            live.connections += 1;
        }
        let _first = caller.granted.set(live.holder.generation);
        Ok(())
    }

    /// A connection has ended.
    pub(crate) fn ended(&self, caller: &Caller) {
        let mut live = self.live();
        caller.has_ended.store(true, Ordering::Release);
        if caller.granted.get() == Some(&live.holder.generation) {
            live.connections = live.connections.saturating_sub(1);
        }
    }

    /// Refuses a request of a connection whose proxy was fenced.
    pub(crate) fn admit(&self, caller: &Caller) -> Result<(), Refusal> {
        match caller.granted.get() {
            Some(granted) if *granted < self.generation() => Err(Refusal::Fenced),
            _ => Ok(()),
        }
    }
}

/// Under whose name a write comes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Writer<'s> {
    /// No connection: a test or a measurement in one process.
    InProcess,
    /// A connection.
    Connected(&'s Caller),
}

impl Writer<'_> {
    /// What a write that waits for its transaction takes along.
    pub(crate) fn author(self) -> Result<Author, Refusal> {
        match self {
            Self::InProcess => Ok(Author::InProcess),
            Self::Connected(caller) => match caller.granted.get() {
                Some(granted) => Ok(Author::Holder(*granted)),
                None => Err(Refusal::Malformed("a connection that only looks may not write".into())),
            },
        }
    }
}

/// Who wrote a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Author {
    /// A test or a measurement in one process.
    InProcess,
    /// A proxy that was granted the lease in this generation.
    Holder(u64),
}

impl Author {
    /// Refuses a write inside its own transaction if its author does not hold the lease there.
    pub(crate) fn check(self, transaction: &impl Read) -> Result<(), Refusal> {
        let Self::Holder(granted) = self else { return Ok(()) };
        let holder = Holder::read(transaction).map_err(storage)?;
        if holder.generation == granted { Ok(()) } else { Err(Refusal::Fenced) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use arras_storage::{Memory, Storage};

    fn holding(instance: u8) -> Purpose {
        Purpose::Hold { instance: [instance; 16], generation: None, take_over: false }
    }

    #[test]
    fn a_connection_that_ended_while_its_hello_was_granted_holds_nothing() {
        let store = Memory::new();
        let lease = Lease::open(&store.read().unwrap()).unwrap();
        let caller = Caller::default();
        lease.ended(&caller);
        lease.grant(&store, &caller, holding(1)).unwrap();
        lease.grant(&store, &Caller::default(), holding(2)).unwrap();
    }

    #[test]
    fn a_connection_holds_the_lease_until_it_ends() {
        let store = Memory::new();
        let lease = Lease::open(&store.read().unwrap()).unwrap();
        let caller = Caller::default();
        lease.grant(&store, &caller, holding(1)).unwrap();
        let refused = lease.grant(&store, &Caller::default(), holding(2));
        assert!(matches!(refused, Err(Refusal::Leased)), "{refused:?}");
        lease.ended(&caller);
        lease.grant(&store, &Caller::default(), holding(2)).unwrap();
    }
}
