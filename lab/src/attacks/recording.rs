//! Runs a protocol with an attacker at the server, and keeps what the attacker sees apart from what is true.

use super::observed::{Grain, Observed, Observer};
use super::span::{Estimates, Span};
use super::tape::{Recorder, Tape};
use super::{AttackFailure, AttackWatch, Target};
use crate::channel::{Counting, Delaying, LabChannel, Link, ServerMeter};
use crate::datasets::NumberType;
use crate::protocols::{Construction, Made, Making, ProtocolEntry};
use crate::queries::{self, RangeQuery};
use arras_client::arx_range::RangeEntry;
use arras_protocol::RowId;
use arras_server::Backend;
use arras_storage::Memory;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a watched run has shown.
#[derive(Clone, Debug)]
pub struct Recording {
    /// All that the attacker has.
    pub observed: Observed,
    /// For each record the item it is, or is part of; for scoring. `None` if it was never seen.
    truth: Vec<Option<u32>>,
}

impl Recording {
    #[cfg(test)]
    pub(super) fn of_items(observed: Observed, truth: Vec<Option<u32>>) -> Self {
        Self { observed, truth }
    }

    #[cfg(test)]
    pub(super) fn truth(&self) -> &[Option<u32>] {
        &self.truth
    }

    /// The estimate of each record, from those of the items.
    #[must_use]
    pub fn of_records(&self, items: &Estimates) -> Estimates {
        let of = |item: &Option<u32>| item.and_then(|item| items.get(item as usize).copied().flatten());
        self.truth.iter().map(of).collect()
    }
}

/// A watched index.
struct Watched {
    made: Made,
    tape: Tape,
    observer: Observer,
    /// For each record the name it was inserted under.
    names: Vec<Option<Vec<u8>>>,
    numbers: NumberType,
}

/// Runs a protocol on a thread of its own, asks it ranges that are uniform over all there are, and records what it
/// shows.
///
/// # Errors
/// [`AttackFailure`].
pub fn record(
    target: &Target,
    protocol: &'static ProtocolEntry,
    watch: &AttackWatch<'_>,
) -> Result<Recording, AttackFailure> {
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(recorded(target, protocol, watch))
        });
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

async fn recorded(
    target: &Target,
    protocol: &'static ProtocolEntry,
    watch: &AttackWatch<'_>,
) -> Result<Recording, AttackFailure> {
    let mut watched = Watched::make(target, protocol).await?;
    watched.construct(target, protocol.construction, watch).await?;
    let Span { least, greatest } = target.span();
    for query in queries::uniform(least, greatest, target.queries, target.seed) {
        watch.check()?;
        watched.search(query).await?;
    }
    watched.recording(&target.values).await
}

/// The row of the record at a place.
fn row(at: usize) -> RowId {
    let mut bytes = [0; RowId::BYTES];
    bytes[RowId::BYTES - 8..].copy_from_slice(&(at as u64).to_be_bytes());
    RowId(bytes)
}

impl Watched {
    async fn make(target: &Target, protocol: &'static ProtocolEntry) -> Result<Self, AttackFailure> {
        let backend = Arc::new(Backend::open(Memory::new(), [7; 16])?);
        let recorder = Recorder::new(backend);
        let tape = recorder.tape();
        let link = Link::Direct(Arc::new(recorder), ServerMeter::default());
        let channel: LabChannel = Counting::new(Delaying::new(link, Duration::ZERO));
        let making = Making {
            channel: Arc::new(channel),
            width: target.knowledge.numbers.domain().width,
            page_bytes: target.page_bytes,
            records: target.values.len(),
            seed: target.seed,
        };
        let made = protocol.make(making).await?;
        let observer = Observer::new(&tape.take());
        Ok(Self { made, tape, observer, names: Vec::new(), numbers: target.knowledge.numbers })
    }

    fn key(&self, value: i64) -> Vec<u8> {
        let domain = self.numbers.domain();
        domain.key(domain.plaintext(i128::from(value)).unwrap_or_default())
    }

    fn entry(&self, at: usize, value: i64) -> RangeEntry {
        RangeEntry { value: self.key(value), row: row(at), sums: Vec::new() }
    }

    async fn construct(
        &mut self,
        target: &Target,
        construction: Construction,
        watch: &AttackWatch<'_>,
    ) -> Result<(), AttackFailure> {
        let entries: Vec<_> =
            target.values.iter().enumerate().map(|(at, value)| self.entry(at, *value)).collect();
        if construction == Construction::Bulk {
            self.names = vec![None; entries.len()];
            self.made.index.insert(entries).await?;
            drop(self.tape.take());
            return Ok(());
        }
        for entry in entries {
            watch.check()?;
            self.made.index.insert(vec![entry]).await?;
            self.names.push(Observer::inserted(&self.tape.take()));
        }
        Ok(())
    }

    async fn search(&mut self, query: RangeQuery) -> Result<(), AttackFailure> {
        let query = self.numbers.clamp(query);
        self.made.index.search(self.key(query.lower), self.key(query.upper)).await?;
        self.observer.search(&self.tape.take());
        Ok(())
    }

    /// Tells which item each record is. Where its name was not its own (buckets), by further searches, one for each
    /// value, which the attacker does not see.
    async fn recording(mut self, values: &[i64]) -> Result<Recording, AttackFailure> {
        let number = |name: &Option<Vec<u8>>| name.as_ref().and_then(|name| self.observer.number_of(name));
        let mut truth: Vec<_> = self.names.iter().map(number).collect();
        let searches = self.observer.searches();
        let mut of_values: BTreeMap<i64, Option<u32>> = BTreeMap::new();
        if self.names.iter().all(Option::is_none) {
            for value in values {
                if !of_values.contains_key(value) {
                    self.search(RangeQuery { lower: *value, upper: *value }).await?;
                    of_values.insert(*value, self.observer.last_item());
                }
            }
            truth = values.iter().map(|value| of_values.get(value).copied().flatten()).collect();
        }
        let mut observed = self.observer.observed();
        observed.searches.truncate(searches);
        if observed.sight.items == Grain::Hidden {
            truth.fill(None);
        }
        Ok(Recording { observed, truth })
    }
}
