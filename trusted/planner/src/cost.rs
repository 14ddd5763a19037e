//! What a plan costs: an estimate for choosing between plans and for telling people, not a measurement.

use crate::access::{Access, KeyBounds};
use crate::kinds::Search;
use crate::plan::IndexState;
use arras_protocol::IndexId;
use arras_protocol::limits::REPLY_BYTES_SOFT;
use bson::Bson;
use std::collections::BTreeMap;

pub use arras_service::explanation::Cost;

/// What is known of a collection's data. The default is a guess: 100,000 documents of 1 KiB.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// Documents in the collection.
    pub document_count: u64,
    /// Bytes of a sealed document, on average.
    pub document_bytes: u64,
    /// Distinct values of a field, where known.
    pub distinct_values: BTreeMap<String, u64>,
}

impl Default for Statistics {
    fn default() -> Self {
        Self { document_count: 100_000, document_bytes: 1024, distinct_values: BTreeMap::new() }
    }
}

impl Statistics {
    /// Part of the documents that have one given value of a field.
    pub(crate) fn equal_share(&self, field: &str) -> f64 {
        let guess = 100;
        let distinct = self.distinct_values.get(field).copied().unwrap_or(guess).max(1);
        1.0 / distinct as f64
    }
}

/// What is known of how many entries an index has, without asking the server for it.
pub trait Entries: std::fmt::Debug {
    /// Entries of these terms in an equality or unique index.
    fn of_terms(&self, index: IndexId, terms: &[Vec<Bson>]) -> Option<u64>;
    /// Entries between these keys in a range index; may be an estimate.
    fn between(&self, index: IndexId, bounds: &KeyBounds) -> Option<u64>;
}

/// Nothing is known.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unknown;

impl Entries for Unknown {
    fn of_terms(&self, _index: IndexId, _terms: &[Vec<Bson>]) -> Option<u64> {
        None
    }

    fn between(&self, _index: IndexId, _bounds: &KeyBounds) -> Option<u64> {
        None
    }
}

/// Part of the documents an interval of a field is taken to hold.
pub(crate) fn interval_share(closed: bool) -> f64 {
    if closed { 0.1 } else { 0.33 }
}

/// Cost of fetching so many documents.
pub(crate) fn fetch(documents: u64, statistics: &Statistics) -> Cost {
    let received_bytes = documents.saturating_mul(statistics.document_bytes);
    let replies = received_bytes.div_ceil(REPLY_BYTES_SOFT as u64).max(1);
    Cost {
        rounds: replies,
        sent_bytes: documents.saturating_mul(16),
        received_bytes,
        repair_bytes: 0,
        documents,
    }
}

/// Cost of finding `found` entries by one step of an access (not of a union), before any document is fetched.
pub(crate) fn search(
    access: &Access,
    state: Option<&IndexState>,
    found: f64,
    statistics: &Statistics,
) -> Cost {
    let values = match access {
        Access::Rows { .. } | Access::Union(_) => return Cost::default(),
        // Of the enclave's host: one question, and a page or so of names.
        Access::Text => {
            let received_bytes = (found.ceil() as u64).saturating_mul(20);
            return Cost { rounds: 1, sent_bytes: 1024, received_bytes, ..Cost::default() };
        }
        // One more request that finds the end.
        Access::Scan => return Cost { rounds: 1, sent_bytes: 64, ..Cost::default() },
        Access::Unique { values, .. } | Access::Eq { values, .. } => values.len() as u64,
        Access::Range(_) => 1,
    };
    let search = Search { values, found: found.ceil() as u64 };
    state.map_or_else(Cost::default, |state| {
        (state.index.kind().cost)(&state.index.shape(state.tuning), statistics, search)
    })
}

/// Cost of a search and what follows it.
pub(crate) fn then(search: Cost, fetch: Cost) -> Cost {
    Cost { rounds: search.rounds + fetch.rounds, ..search.plus(fetch) }
}
