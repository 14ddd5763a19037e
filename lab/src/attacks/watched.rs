//! A run whose server looks: what it stores and what it was asked.

use super::{AttackFailure, AttackWatch, Target};
use crate::channel::{Counting, Delaying, LabChannel, Link, ServerMeter};
use crate::protocols::{Making, ProtocolEntry};
use crate::queries::RangeQuery;
use arras_client::arx_range::RangeEntry;
use arras_protocol::{IndexId, ProtocolId, Refusal, RowId};
use arras_server::Backend;
use arras_server::listener::Handler;
use arras_storage::{Direction, Memory, Read, Storage, Table};
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A request as the server got it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) protocol: ProtocolId,
    pub(super) body: Vec<u8>,
}

/// The server's half; remembers what it is asked.
struct Watching {
    backend: Backend<Memory>,
    seen: Mutex<Vec<Seen>>,
}

impl Watching {
    fn count(&self) -> usize {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).len()
    }
}

impl Handler for Watching {
    fn handle(&self, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let seen = Seen { protocol, body: body.to_vec() };
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        self.backend.handle(protocol, body)
    }
}

/// Keys and values.
pub(super) type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// What the server has after a run.
pub(super) struct WatchedRun {
    server: Arc<Watching>,
    /// Name of the index.
    pub(super) index: IndexId,
    /// For each record, how many requests had come when it was inserted.
    inserted: Vec<usize>,
}

impl WatchedRun {
    /// Inserts the target's records one after the other and asks the queries.
    ///
    /// # Errors
    /// [`AttackFailure`].
    pub(super) fn new(
        target: &Target,
        protocol: &'static ProtocolEntry,
        queries: &[RangeQuery],
        watch: &AttackWatch<'_>,
    ) -> Result<Self, AttackFailure> {
        // A thread of its own: the caller may be one of an asynchronous runtime.
        std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                runtime.block_on(Self::run(target, protocol, queries, watch))
            });
            running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    async fn run(
        target: &Target,
        protocol: &'static ProtocolEntry,
        queries: &[RangeQuery],
        watch: &AttackWatch<'_>,
    ) -> Result<Self, AttackFailure> {
        let backend = Backend::open(Memory::new(), [7; 16])?;
        let server = Arc::new(Watching { backend, seen: Mutex::default() });
        let link = Link::Direct(Arc::clone(&server) as Arc<_>, ServerMeter::default());
        let channel: LabChannel = Counting::new(Delaying::new(link, Duration::ZERO));
        let domain = target.knowledge.numbers.domain();
        let making = Making {
            channel: Arc::new(channel),
            width: domain.width,
            page_bytes: target.page_bytes,
            records: target.values.len(),
            seed: target.seed,
        };
        let index = making.index();
        let made = protocol.make(making).await?;
        let key = |value: i64| domain.key(domain.plaintext(i128::from(value)).unwrap_or_default());
        let mut inserted = Vec::with_capacity(target.values.len());
        for (record, value) in target.values.iter().enumerate() {
            watch.check()?;
            let entry = RangeEntry { value: key(*value), row: row(record), sums: Vec::new() };
            made.index.insert(vec![entry]).await?;
            inserted.push(server.count());
        }
        for query in queries {
            watch.check()?;
            made.index.search(key(query.lower), key(query.upper)).await?;
        }
        Ok(Self { server, index, inserted })
    }

    /// The entries of a table that belong to the index, by key: what a thief of the store has. The index's name is cut
    /// off the keys.
    ///
    /// # Errors
    /// [`AttackFailure::Storage`].
    pub(super) fn table(&self, table: Table) -> Result<Entries, AttackFailure> {
        let mut entries = Vec::new();
        let reader = self.server.backend.store().read()?;
        let everything = (Bound::Unbounded, Bound::Unbounded);
        reader.scan(table, everything, Direction::Ascending, &mut |key, value| {
            if let Some(rest) = key.strip_prefix(self.index.as_bytes()) {
                entries.push((rest.to_vec(), value.to_vec()));
            }
            ControlFlow::Continue(())
        })?;
        Ok(entries)
    }

    /// For each record the requests that inserted it: what a server has that watched.
    pub(super) fn insertions(&self) -> Vec<Vec<Seen>> {
        let seen = self.server.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let mut from = 0;
        let requests = |until: &usize| seen[std::mem::replace(&mut from, *until)..*until].to_vec();
        self.inserted.iter().map(requests).collect()
    }
}

/// The row of a record. Attackers know rows as names without meaning; the number in it is for scoring.
fn row(record: usize) -> RowId {
    let mut bytes = [0; RowId::BYTES];
    bytes[RowId::BYTES - 8..].copy_from_slice(&(record as u64).to_be_bytes());
    RowId(bytes)
}

/// The record of a row.
pub(super) fn record(row: &[u8]) -> Option<usize> {
    row.last_chunk::<8>().and_then(|bytes| usize::try_from(u64::from_be_bytes(*bytes)).ok())
}
