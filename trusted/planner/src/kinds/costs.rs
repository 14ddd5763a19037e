//! What searches and insertions cost by each kind of index: estimates, whose constants are what `arras lab run` counts of
//! 10,000 records (docs/lab.md). Counted is what comes before the documents.

use super::Shape;
use crate::cost::{Cost, Statistics};
use crate::physical::TIE_BREAK_BYTES;

/// What is looked for in an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Values or ranges.
    pub values: u64,
    /// Entries that are found.
    pub found: u64,
}

/// A request's frame and head.
const HEAD_BYTES: u64 = 48;
/// A sealed key beside the sealed name of its row.
const ENTRY_BYTES: u64 = 48;
/// What a page of a tree holds.
const PAGE_BYTES: u64 = 4096;
/// Entries of a page.
const PAGE_ENTRIES: u64 = 64;
/// Bytes of a wire label.
const LABEL_BYTES: u64 = 16;

pub(super) fn unique(_: &Shape, _: &Statistics, search: Search) -> Cost {
    Cost { rounds: 1, sent_bytes: 16 * search.values, received_bytes: 17 * search.found, ..Cost::default() }
}

pub(super) fn arx_eq(_: &Shape, _: &Statistics, search: Search) -> Cost {
    // The covering set of so many counters: one token for each bit.
    let tokens = search.values * u64::from(64 - search.found.leading_zeros()).max(1);
    Cost { rounds: 1, sent_bytes: 17 * tokens, received_bytes: 16 * search.found, ..Cost::default() }
}

/// A label and what it leads to.
pub(super) fn hashed_insertion(_: &Shape, _: &Statistics) -> Cost {
    Cost { rounds: 1, sent_bytes: 40, ..Cost::default() }
}

fn key_bytes(shape: &Shape) -> u64 {
    (shape.key_bytes + TIE_BREAK_BYTES) as u64
}

/// Bytes of the circuits that one walk down the tree, below the client's cached top, uses up.
fn walk_bytes(shape: &Shape, statistics: &Statistics) -> u64 {
    let tuning = shape.tuning;
    let separators = statistics.document_count / tuning.bucket_factor.max(1);
    // A treap's expected depth: twice the natural logarithm; the cached top takes its own off.
    let below_top = (separators as f64 / tuning.top_nodes.max(1) as f64).max(1.0);
    let depth = (2.0 * below_top.ln()).ceil() as u64;
    // A gate is two ciphertexts a bit, a transition one label a bit for each of two children.
    depth * key_bytes(shape) * 8 * LABEL_BYTES * 4
}

/// Two walks down one tree, and the buckets between their ends.
pub(super) fn arx_range(shape: &Shape, statistics: &Statistics, search: Search) -> Cost {
    let walks = 2;
    let entry_bytes = key_bytes(shape) + 16;
    let bucket_entries = shape.tuning.bucket_factor.max(1);
    let buckets = search.found / bucket_entries + 2;
    Cost {
        rounds: 1,
        sent_bytes: walks * key_bytes(shape) * 8 * LABEL_BYTES,
        received_bytes: buckets * bucket_entries * entry_bytes,
        repair_bytes: walks * walk_bytes(shape, statistics),
        documents: 0,
    }
}

/// A walk, and its bucket there and back.
pub(super) fn arx_range_insertion(shape: &Shape, statistics: &Statistics) -> Cost {
    let bucket_bytes = shape.tuning.bucket_factor * (key_bytes(shape) + 20);
    Cost {
        rounds: 2,
        sent_bytes: key_bytes(shape) * 8 * LABEL_BYTES + bucket_bytes,
        received_bytes: bucket_bytes,
        repair_bytes: walk_bytes(shape, statistics),
        documents: 0,
    }
}

/// A query ciphertext for each end; the server walks by itself.
pub(super) fn bplus(query_bytes: usize, search: Search) -> Cost {
    Cost {
        rounds: 1,
        sent_bytes: HEAD_BYTES + 2 * query_bytes as u64,
        received_bytes: ENTRY_BYTES * search.found,
        ..Cost::default()
    }
}

pub(super) fn bplus_insertion(query_bytes: usize, stored_bytes: usize) -> Cost {
    let sent_bytes = HEAD_BYTES + ENTRY_BYTES + (query_bytes + stored_bytes) as u64;
    Cost { rounds: 1, sent_bytes, ..Cost::default() }
}

/// Levels of a tree whose nodes hold so many.
fn levels(entries: u64, of_node: u64) -> u64 {
    let (mut levels, mut reach) = (1, of_node);
    while reach < entries {
        (levels, reach) = (levels + 1, reach.saturating_mul(of_node));
    }
    levels
}

/// At each level the client places the ends among a node's labels.
pub(super) fn buffer_tree(_: &Shape, statistics: &Statistics, search: Search) -> Cost {
    let levels = levels(statistics.document_count, PAGE_ENTRIES);
    Cost {
        rounds: 2 * levels + 1,
        sent_bytes: 2 * levels * HEAD_BYTES,
        received_bytes: 2 * levels * PAGE_BYTES / 2 + ENTRY_BYTES * search.found,
        ..Cost::default()
    }
}

/// An element into the root's buffer.
pub(super) fn buffer_tree_insertion(_: &Shape, _: &Statistics) -> Cost {
    Cost { rounds: 1, sent_bytes: HEAD_BYTES + ENTRY_BYTES, ..Cost::default() }
}

/// Entries of a node of a tree that the client walks.
const WALKED_ENTRIES: u64 = 96;
/// A ciphertext and its label, and of an inner node a child and its tag.
const WALKED_LEAF_BYTES: u64 = WALKED_ENTRIES * 24;
const WALKED_INNER_BYTES: u64 = WALKED_ENTRIES * 48;

/// The client, which keeps the upper levels, looks at the leaf of each end, then asks for what is between.
pub(super) fn walked_tree(_: &Shape, _: &Statistics, search: Search) -> Cost {
    Cost {
        rounds: 2,
        sent_bytes: 3 * HEAD_BYTES,
        received_bytes: 2 * WALKED_LEAF_BYTES + (ENTRY_BYTES + 8) * search.found,
        ..Cost::default()
    }
}

/// The leaf, and the nodes from it to the root as they become; first whether the entry is there, if occurrences are counted.
pub(super) fn walked_tree_insertion(_: &Shape, statistics: &Statistics, counts: bool) -> Cost {
    let above = levels(statistics.document_count, WALKED_ENTRIES) - 1;
    Cost {
        rounds: 2 + u64::from(counts),
        sent_bytes: HEAD_BYTES + ENTRY_BYTES + WALKED_LEAF_BYTES + above * WALKED_INNER_BYTES,
        received_bytes: WALKED_LEAF_BYTES,
        ..Cost::default()
    }
}

/// A token for each list of the range's cover.
pub(super) fn covered_lists(shape: &Shape, _: &Statistics, search: Search) -> Cost {
    let lists = 2 * u64::from(64 - search.found.leading_zeros()).min(8 * shape.key_bytes as u64).max(1);
    Cost {
        rounds: 1,
        sent_bytes: HEAD_BYTES + 16 * lists,
        received_bytes: ENTRY_BYTES * search.found,
        ..Cost::default()
    }
}

/// A place in the list of each node of the range tree above the value, in each instance it is merged into.
pub(super) fn covered_lists_insertion(shape: &Shape, statistics: &Statistics) -> Cost {
    let instances = u64::from(64 - statistics.document_count.leading_zeros());
    let lists = 8 * shape.key_bytes as u64 + 1;
    Cost { rounds: 1, sent_bytes: instances * lists * ENTRY_BYTES, ..Cost::default() }
}

/// Bytes of one access of an ORAM: a path of buckets of four blocks, there and back.
fn path_bytes(statistics: &Statistics) -> u64 {
    let nodes = (statistics.document_count / PAGE_ENTRIES).max(2);
    let height = u64::from(64 - nodes.leading_zeros());
    height * 4 * (PAGE_BYTES / 4)
}

/// The upper levels stay with the client; each leaf is an access.
pub(super) fn oram_tree(_: &Shape, statistics: &Statistics, search: Search) -> Cost {
    let accesses = 1 + search.found / PAGE_ENTRIES;
    let bytes = accesses.saturating_mul(path_bytes(statistics));
    Cost { rounds: 1, sent_bytes: bytes / 2, received_bytes: bytes / 2, ..Cost::default() }
}

pub(super) fn oram_tree_insertion(_: &Shape, statistics: &Statistics) -> Cost {
    let bytes = path_bytes(statistics);
    Cost { rounds: 1, sent_bytes: bytes / 2, received_bytes: bytes / 2, ..Cost::default() }
}

/// Two binary searches, of which every probe is a round.
pub(super) fn rotated_array(_: &Shape, statistics: &Statistics, search: Search) -> Cost {
    let probes = 2 * u64::from(64 - statistics.document_count.leading_zeros());
    Cost {
        rounds: probes,
        sent_bytes: probes * HEAD_BYTES / 2,
        received_bytes: probes * ENTRY_BYTES + ENTRY_BYTES * search.found,
        ..Cost::default()
    }
}

/// One binary search, and the array that rotates.
pub(super) fn rotated_array_insertion(_: &Shape, statistics: &Statistics) -> Cost {
    let probes = u64::from(64 - statistics.document_count.leading_zeros());
    Cost {
        rounds: probes + 1,
        sent_bytes: probes * HEAD_BYTES / 2 + ENTRY_BYTES,
        received_bytes: probes * ENTRY_BYTES,
        ..Cost::default()
    }
}
