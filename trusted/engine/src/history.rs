//! One history on both sides: what this proxy knows of the server's, and whether it may go on.
//!
//! Neither side may be set back alone: the proxy's counters would be used twice, the server's answers would lack what
//! was acknowledged. What the server says at every greeting is compared with what this proxy knows before any call goes
//! out on the new connection; every write carries it too ([`arras_protocol::write::Request::acknowledged`]). A proxy that
//! finds a difference, or that another one has taken over from, is *halted* for the rest of its life: it answers no
//! query and sends no write.

use arras_protocol::hello::{self, Purpose};
use arras_protocol::{OperationId, Refusal};
use arras_schemes::random::Randomness;
use rand::Rng;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Why a proxy does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// The server's data directory is another one.
    #[error(
        "the server holds another database than this proxy's data directory belongs to; point the proxy at \
         the right server, or start it with an empty data directory"
    )]
    OtherDatabase,
    /// The server has writes this proxy's data directory does not know of.
    #[error(
        "the server's data is newer than the proxy's data directory (a restored backup, or another proxy's data): \
         restore both from the same time and run `arras restore`, or give the proxy and the server empty data \
         directories; then start the proxy again. `arras restore --accept` does not help here: which collections and \
         indexes the newer data has, under which names and counters, stands in the newer proxy's data alone"
    )]
    ProxyBehind,
    /// The server has lost acknowledged writes.
    #[error(
        "the server's data is older than what it acknowledged to this proxy (a restored backup, or a rollback); \
         nothing is answered, because acknowledged writes would be missing: put the server's newer data back, or \
         restore both sides from the same time and run `arras restore`, or give up the writes that the server lacks \
         with `arras restore --accept`; then start the proxy again"
    )]
    ServerBehind,
    /// Another proxy has taken the database over.
    #[error(
        "another proxy has taken this database over; this one has stopped. If that was not meant, stop the other \
         and start this one again"
    )]
    Fenced,
}

/// What a proxy knows of the history it shares with its server.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The marks are those of the proxy's own store: until then nothing can be compared.
    taken_up: bool,
    database: Option<[u8; 16]>,
    /// The newest write recorded to be sent.
    newest: Option<OperationId>,
    /// The greatest count of writes the server has told.
    acknowledged: u64,
    /// The generation of this process's lease.
    generation: Option<u64>,
}

/// The history of one process, shared by its connection and its engine.
#[derive(Debug)]
pub struct History {
    purpose: Wish,
    known: Mutex<Known>,
    halted: watch::Sender<Option<Halt>>,
}

#[derive(Clone, Copy, Debug)]
enum Wish {
    Observe,
    Hold { instance: [u8; 16], take_over: bool },
}

impl Default for History {
    fn default() -> Self {
        Self::new(false)
    }
}

impl History {
    /// A proxy that reads and writes. `take_over`: even if another one is connected, which is then fenced.
    #[must_use]
    pub fn new(take_over: bool) -> Self {
        let mut instance = [0; 16];
        Randomness::default().rng().fill_bytes(&mut instance);
        Self::named(instance, take_over)
    }

    /// The same, as a process of this name; no other ever has it.
    #[must_use]
    pub fn named(instance: [u8; 16], take_over: bool) -> Self {
        Self::wishing(Wish::Hold { instance, take_over })
    }

    /// A command that only looks at the server.
    #[must_use]
    pub fn observer() -> Self {
        Self::wishing(Wish::Observe)
    }

    fn wishing(purpose: Wish) -> Self {
        Self { purpose, known: Mutex::default(), halted: watch::Sender::new(None) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Nothing panics while it is held.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the next greeting asks for.
    #[must_use]
    pub fn purpose(&self) -> Purpose {
        match self.purpose {
            Wish::Observe => Purpose::Observe,
            Wish::Hold { instance, take_over } => {
                let generation = self.known().generation;
                // Once it holds the lease it does not take it from another again.
                Purpose::Hold { instance, generation, take_over: take_over && generation.is_none() }
            }
        }
    }

    /// Takes up the marks of the proxy's own store, and compares them with what the server said when it was connected
    /// to.
    ///
    /// # Errors
    /// [`Halt`] if they do not belong together; the proxy is halted.
    pub fn take_up(
        &self,
        database: Option<[u8; 16]>,
        newest: Option<OperationId>,
        acknowledged: u64,
        server: &hello::Response,
    ) -> Result<(), Halt> {
        {
            let mut known = self.known();
            *known = Known { taken_up: true, database, newest, acknowledged, generation: known.generation };
        }
        self.greeted(server)
    }

    /// Compares what a server says at a greeting with what is known. Before any call goes out on the new connection.
    ///
    /// # Errors
    /// [`Halt`]; the proxy is halted.
    pub fn greeted(&self, server: &hello::Response) -> Result<(), Halt> {
        let compared = {
            let mut known = self.known();
            if !known.taken_up {
                Ok(())
            } else if known.database.is_some_and(|database| database != server.database) {
                Err(Halt::OtherDatabase)
            } else if server.commits < known.acknowledged {
                Err(Halt::ServerBehind)
            } else if server.newest > known.newest {
                Err(Halt::ProxyBehind)
            } else {
                Ok(())
            }
            .inspect(|()| {
                known.database = Some(server.database);
                if matches!(self.purpose, Wish::Hold { .. }) {
                    known.generation = Some(server.generation);
                }
            })
        };
        compared.map_err(|halt| self.halt(halt))
    }

    /// Notes that a write is recorded, and so may reach the server.
    pub fn recorded(&self, operation: OperationId) {
        let mut known = self.known();
        known.newest = known.newest.max(Some(operation));
    }

    /// Notes how many writes the server says it has applied; the greatest number so far.
    pub fn acknowledged(&self, commits: u64) -> u64 {
        let mut known = self.known();
        known.acknowledged = known.acknowledged.max(commits);
        known.acknowledged
    }

    /// Halts the proxy if a refusal says that it must not go on.
    pub fn refused(&self, refusal: &Refusal) -> Option<Halt> {
        match refusal {
            Refusal::Fenced => Some(self.halt(Halt::Fenced)),
            Refusal::SetBack => Some(self.halt(Halt::ServerBehind)),
            Refusal::Version { .. }
            | Refusal::Malformed(_)
            | Refusal::Limit(_)
            | Refusal::UnknownCollection
            | Refusal::UnknownIndex
            | Refusal::Conflict { .. }
            | Refusal::Stale { .. }
            | Refusal::OtherVersion { .. }
            | Refusal::Damaged(_)
            | Refusal::Finished
            | Refusal::Incomplete
            | Refusal::Storage(_)
            | Refusal::Undecided(_)
            | Refusal::Full(_)
            | Refusal::Leased
            | Refusal::Stopping => None,
        }
    }

    /// Halts the proxy; the first reason stays.
    fn halt(&self, halt: Halt) -> Halt {
        self.halted.send_if_modified(|halted| {
            let first = halted.is_none();
            if first {
                tracing::error!("{halt}");
                *halted = Some(halt);
            }
            first
        });
        self.halted().unwrap_or(halt)
    }

    /// Why this proxy does not go on, if so.
    #[must_use]
    pub fn halted(&self) -> Option<Halt> {
        *self.halted.borrow()
    }

    /// Completes when this proxy must not go on, with the reason.
    pub async fn halts(&self) -> Halt {
        let mut halted = self.halted.subscribe();
        loop {
            if let Some(halt) = *halted.borrow_and_update() {
                return halt;
            }
            // The sender lives as long as this does.
            let _ = halted.changed().await;
        }
    }

    /// Completes when another proxy has taken over: this one has nothing left to do.
    pub async fn fenced(&self) {
        let mut halted = self.halted.subscribe();
        // The sender lives as long as this does.
        let _ = halted.wait_for(|halted| *halted == Some(Halt::Fenced)).await;
    }
}

#[cfg(test)]
mod tests;
