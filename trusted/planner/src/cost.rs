//! What a plan costs: an estimate for choosing between plans and for telling people, not a measurement.

use crate::access::{Access, KeyBounds};
use crate::physical::{PhysicalIndex, TIE_BREAK_BYTES};
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
    index: Option<&PhysicalIndex>,
    found: f64,
    statistics: &Statistics,
) -> Cost {
    let found = found.ceil() as u64;
    match access {
        Access::Rows { .. } | Access::Union(_) => Cost::default(),
        // One more request that finds the end.
        Access::Scan => Cost { rounds: 1, sent_bytes: 64, ..Cost::default() },
        Access::Unique { values, .. } => Cost {
            rounds: 1,
            sent_bytes: 16 * values.len() as u64,
            received_bytes: 17 * found,
            ..Cost::default()
        },
        Access::Eq { values, .. } => {
            // The covering set of `found` counters: one token for each bit.
            let tokens = values.len() as u64 * u64::from(64 - found.leading_zeros()).max(1);
            Cost { rounds: 1, sent_bytes: 17 * tokens, received_bytes: 16 * found, ..Cost::default() }
        }
        Access::Range(_) => {
            let key_bytes = index.and_then(PhysicalIndex::key_bytes).unwrap_or(12) + TIE_BREAK_BYTES;
            range_search(key_bytes as u64, found, statistics)
        }
    }
}

/// Cost of a search and what follows it.
pub(crate) fn then(search: Cost, fetch: Cost) -> Cost {
    Cost { rounds: search.rounds + fetch.rounds, ..search.plus(fetch) }
}

/// Two walks down one tree below the client's cached top, and the buckets between their ends.
fn range_search(key_bytes: u64, found: u64, statistics: &Statistics) -> Cost {
    let (bucket_entries, top_nodes) = (32, 1024);
    let bits = key_bytes * 8;
    let separators = statistics.document_count / bucket_entries;
    // A treap's expected depth: twice the natural logarithm; the cached top takes its own off.
    let below_top = (separators as f64 / f64::from(top_nodes)).max(1.0);
    let depth = (2.0 * below_top.ln()).ceil() as u64;
    let walks = 2;
    let label_bytes = 16;
    // A gate is two ciphertexts a bit, a transition one label a bit for each of two children.
    let circuit_bytes = bits * label_bytes * 4;
    let entry_bytes = key_bytes + 16;
    let buckets = found / bucket_entries + 2;
    Cost {
        rounds: 1,
        sent_bytes: walks * bits * label_bytes,
        received_bytes: buckets * bucket_entries * entry_bytes,
        repair_bytes: walks * depth * circuit_bytes,
        documents: 0,
    }
}
