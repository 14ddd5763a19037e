//! What a watched run shows its attacker, kept apart from what is true.

use super::observed::{Grain, Observed, Observer};
use super::span::{Estimates, Span};
use super::watched::{Watched, on_own_thread};
use super::{AttackFailure, AttackWatch, Target};
use crate::protocols::{Construction, ProtocolEntry};
use crate::queries::{self, RangeQuery};
use std::collections::BTreeMap;

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

/// A watched index, and what its attacker makes of it.
struct Observation {
    watched: Watched,
    observer: Observer,
    /// For each record the name it was inserted under.
    names: Vec<Option<Vec<u8>>>,
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
    on_own_thread(async || {
        let (watched, opening) = Watched::open(target, protocol).await?;
        let observer = Observer::new(&opening);
        let mut observation = Observation { watched, observer, names: Vec::new() };
        observation.construct(target, protocol.construction, watch).await?;
        // What the application asks is about the values there are, whatever the attacker takes them for.
        let span = Span::of(&target.values).ok_or(AttackFailure::Unreadable("no records"))?;
        let Span { least, greatest } = span;
        for query in queries::uniform(least, greatest, target.queries, target.seed) {
            watch.check()?;
            observation.search(query).await?;
        }
        observation.recording(&target.values).await
    })
}

impl Observation {
    async fn construct(
        &mut self,
        target: &Target,
        construction: Construction,
        watch: &AttackWatch<'_>,
    ) -> Result<(), AttackFailure> {
        let entry = |(record, value): (usize, &i64)| self.watched.entry(record, *value);
        let entries: Vec<_> = target.values.iter().enumerate().map(entry).collect();
        if construction == Construction::Bulk {
            self.names = vec![None; entries.len()];
            self.watched.insert(entries).await?;
            return Ok(());
        }
        for entry in entries {
            watch.check()?;
            self.names.push(Observer::inserted(&self.watched.insert(vec![entry]).await?));
        }
        Ok(())
    }

    async fn search(&mut self, query: RangeQuery) -> Result<(), AttackFailure> {
        self.observer.search(&self.watched.search(query).await?);
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
