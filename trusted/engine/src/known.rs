//! What the proxy knows of its indexes' entries without asking the server: the records of values, and the top of each
//! range index.

use super::Shared;
use super::channel::ServerChannel;
use super::collection::Collection;
use super::index::IndexPart;
use arras_planner::access::KeyBounds;
use arras_planner::cost::Entries;
use arras_planner::terms::equality_bytes;
use arras_protocol::IndexId;
use arras_storage::Storage;
use bson::Bson;
use std::sync::Arc;

/// Records of so many values are looked up; more values are taken to have as many entries each.
const VALUES_LOOKED_UP: usize = 64;

/// What is known of a collection's indexes.
pub(super) struct Known<'e, S: Storage, C> {
    pub(super) shared: &'e Shared<S, C>,
    parts: Vec<Arc<IndexPart>>,
    documents: u64,
}

impl<'e, S: Storage, C: ServerChannel> Known<'e, S, C> {
    pub(super) fn new(shared: &'e Shared<S, C>, collection: &Collection, documents: u64) -> Self {
        Self { shared, parts: collection.parts(), documents }
    }

    fn part(&self, index: IndexId) -> Option<&IndexPart> {
        self.parts.iter().find(|part| part.id == index).map(|part| &**part)
    }
}

impl<S: Storage, C> std::fmt::Debug for Known<'_, S, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Known")
    }
}

impl<S: Storage, C: ServerChannel> Entries for Known<'_, S, C> {
    fn of_terms(&self, index: IndexId, terms: &[Vec<Bson>]) -> Option<u64> {
        let half = Arc::clone(&self.part(index)?.half).equality()?;
        let every = terms.len().div_ceil(VALUES_LOOKED_UP).max(1);
        let sample = terms.iter().step_by(every);
        let values: Vec<Vec<u8>> = sample.map(|term| equality_bytes(term)).collect();
        // What cannot be read is said by the search itself.
        let found = half.on_record(&values, &*self.shared.local).ok()?;
        let entries = found.iter().fold(0_u64, |sum, value| sum.saturating_add(value.entries));
        let all = u128::from(entries) * terms.len() as u128 / values.len().max(1) as u128;
        Some(u64::try_from(all).unwrap_or(u64::MAX))
    }

    fn between(&self, index: IndexId, bounds: &KeyBounds) -> Option<u64> {
        let part = self.part(index)?;
        let range = Arc::clone(&part.half).range()?;
        let known = range.estimate(&bounds.lower, &bounds.upper, self.documents);
        known.or_else(|| part.sample.between(&bounds.lower, &bounds.upper, self.documents))
    }
}

#[cfg(test)]
mod tests;
