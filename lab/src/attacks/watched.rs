//! A protocol run with an attacker at the server.

use super::tape::{Exchange, Recorder, Tape};
use super::{AttackFailure, AttackWatch, Target};
use crate::channel::{Counting, Delaying, LabChannel, Link, ServerMeter};
use crate::datasets::NumberType;
use crate::protocols::{Made, Making, ProtocolEntry};
use crate::queries::RangeQuery;
use arras_protocol::{IndexId, RowId};
use arras_schemes::arx_range::RangeEntry;
use arras_server::Backend;
use arras_storage::{Direction, Memory, Read, Storage, Table};
use std::ops::{Bound, ControlFlow};
use std::sync::Arc;
use std::time::Duration;

/// An index whose server is watched: its store, and all that passes.
pub(super) struct Watched {
    backend: Arc<Backend<Memory>>,
    index: IndexId,
    made: Made,
    tape: Tape,
    numbers: NumberType,
}

impl Watched {
    /// Opens an empty index; also gives what passed for that.
    pub(super) async fn open(
        target: &Target,
        protocol: &'static ProtocolEntry,
    ) -> Result<(Self, Vec<Exchange>), AttackFailure> {
        let backend = Arc::new(Backend::open(Memory::new(), [7; 16])?);
        let recorder = Recorder::new(Arc::clone(&backend) as Arc<_>);
        let tape = recorder.tape();
        let link = Link::Direct(Arc::new(recorder), ServerMeter::default());
        let channel: LabChannel = Counting::new(Delaying::new(link, Duration::ZERO));
        let numbers = target.knowledge.numbers;
        let making = Making {
            channel: Arc::new(channel),
            width: numbers.domain().width,
            page_bytes: target.page_bytes,
            records: target.values.len(),
            seed: target.seed,
        };
        let index = making.index();
        let made = protocol.make(making).await?;
        let opening = tape.take();
        Ok((Self { backend, index, made, tape, numbers }, opening))
    }

    fn key(&self, value: i64) -> Vec<u8> {
        let domain = self.numbers.domain();
        domain.key(domain.plaintext(i128::from(value)).unwrap_or_default())
    }

    /// The entry of the record at a place.
    pub(super) fn entry(&self, record: usize, value: i64) -> RangeEntry {
        RangeEntry { value: self.key(value), row: row(record), sums: Vec::new() }
    }

    /// Inserts; what passed.
    pub(super) async fn insert(&self, entries: Vec<RangeEntry>) -> Result<Vec<Exchange>, AttackFailure> {
        self.made.index.insert(entries).await?;
        Ok(self.tape.take())
    }

    /// Searches; what passed.
    pub(super) async fn search(&self, query: RangeQuery) -> Result<Vec<Exchange>, AttackFailure> {
        let query = self.numbers.clamp(query);
        self.made.index.search(self.key(query.lower), self.key(query.upper)).await?;
        Ok(self.tape.take())
    }
}

/// Keys and values.
pub(crate) type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// What a server has that watched records being inserted one after the other, and then copied its store.
pub(crate) struct WatchedRun {
    watched: Watched,
    /// For each record what passed when it was inserted.
    pub(super) insertions: Vec<Vec<Exchange>>,
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
        on_own_thread(async || {
            let (watched, _) = Watched::open(target, protocol).await?;
            let mut insertions = Vec::with_capacity(target.values.len());
            for (record, value) in target.values.iter().enumerate() {
                watch.check()?;
                insertions.push(watched.insert(vec![watched.entry(record, *value)]).await?);
            }
            for query in queries {
                watch.check()?;
                watched.search(*query).await?;
            }
            Ok(Self { watched, insertions })
        })
    }

    /// The entries of a table that belong to the index, by key: what a thief of the store has. The index's name is cut
    /// off the keys.
    ///
    /// # Errors
    /// [`AttackFailure::Storage`].
    pub(crate) fn table(&self, table: Table) -> Result<Entries, AttackFailure> {
        let mut entries = Vec::new();
        let reader = self.watched.backend.store().read()?;
        let everything = (Bound::Unbounded, Bound::Unbounded);
        reader.scan(table, everything, Direction::Ascending, &mut |key, value| {
            if let Some(rest) = key.strip_prefix(self.watched.index.as_bytes()) {
                entries.push((rest.to_vec(), value.to_vec()));
            }
            ControlFlow::Continue(())
        })?;
        Ok(entries)
    }
}

/// Does asynchronous work on a thread of its own: the caller may be one of an asynchronous runtime.
pub(super) fn on_own_thread<T: Send>(
    work: impl AsyncFnOnce() -> Result<T, AttackFailure> + Send,
) -> Result<T, AttackFailure> {
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(work())
        });
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The row of a record: a name.
fn row(record: usize) -> RowId {
    let mut bytes = [0; RowId::BYTES];
    bytes[RowId::BYTES - 8..].copy_from_slice(&(record as u64).to_be_bytes());
    RowId(bytes)
}
