//! Ways to the documents a filter may match.

use crate::interval::{Edge, Interval};
use crate::physical::PhysicalIndex;
use arras_protocol::IndexId;
use bson::{Bson, Document};

/// A way to the documents a filter may match: those found include every match, and the store re-checks each.
/// A document may be found several times (by several terms or branches).
#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// Terms of an ArxEq index.
    Eq {
        /// One of the parts that the collection has.
        index: IndexId,
        /// The terms. None: nothing can match.
        values: Vec<Vec<Bson>>,
    },
    /// A range of an ArxRange index.
    Range(Box<RangeAccess>),
    /// Documents by `_id`.
    Rows {
        /// The ids. None: nothing can match.
        ids: Vec<Bson>,
    },
    /// Every document.
    Scan,
    /// What the enclave of boolean search finds for the query's `$text`.
    Text,
    /// What one of these finds.
    Union(Vec<Access>),
    /// Terms of an EQunique index.
    Unique {
        /// One of the parts that the collection has.
        index: IndexId,
        /// The terms. None: nothing can match.
        values: Vec<Vec<Bson>>,
    },
}

impl Access {
    /// The indexes it uses, each once.
    #[must_use]
    pub fn indexes(&self) -> Vec<IndexId> {
        let mut found = match self {
            Self::Eq { index, .. } | Self::Unique { index, .. } => vec![*index],
            Self::Range(range) => vec![range.index],
            Self::Rows { .. } | Self::Scan | Self::Text => Vec::new(),
            Self::Union(branches) => branches.iter().flat_map(Self::indexes).collect(),
        };
        found.sort();
        found.dedup();
        found
    }
}

/// A range of an ArxRange index: one value for each of its first fields, an interval of the field after them.
#[derive(Clone, Debug, PartialEq)]
pub struct RangeAccess {
    /// One of the parts that the collection has.
    pub index: IndexId,
    /// Values of the index's first fields; may be fewer than its equality fields.
    pub equal: Vec<Bson>,
    /// Values of the field after those.
    pub interval: Interval,
    /// Bounds keep their values in the key, as do all keys of the index: the search need not take in what
    /// only has the same key as an excluded bound.
    pub exact: bool,
    /// How the index's order serves the sort, if it does.
    pub order: Option<IndexOrder>,
}

/// How an index's order serves a sort.
///
/// Documents come in the order of their keys. Keys may lose part of a value, and the index may settle the first
/// keys of the sort only, so neighbours can be in the wrong order: the store sorts each *run* of documents with
/// equal [`RangeAccess::run`] before handing it on, and cuts by limit only after a run is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexOrder {
    /// From the upper end.
    pub descending: bool,
    /// Field of the index (from 0) the order starts at: those before are fixed by equality.
    pub first_field: usize,
    /// How many of the index's fields, from there, are in the order asked for.
    pub field_count: usize,
}

/// Inclusive bounds of a range search, in key bytes without tie-break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyBounds {
    /// Lowest key.
    pub lower: Vec<u8>,
    /// Highest key.
    pub upper: Vec<u8>,
}

impl RangeAccess {
    /// The keys to search for: every term in the range has its key among them, and if the access is `exact` no
    /// other term has. `None`: the range is empty.
    ///
    /// `index` is the index's description.
    #[must_use]
    pub fn key_bounds(&self, index: &PhysicalIndex) -> Option<KeyBounds> {
        let layout = index.layout()?;
        let key_bytes = index.key_bytes()?;
        let prefix = layout.key(&self.equal).bytes;
        let part = |value: &Bson| layout.part(value).bytes;
        let tag =
            self.interval.lower.value().or(self.interval.upper.value()).map(|value| layout.bracket(value));
        let filled = |middle: Vec<u8>, fill: u8| {
            let mut key = prefix.clone();
            key.extend(middle);
            key.resize(key_bytes, fill);
            key
        };
        let lower = match &self.interval.lower {
            Edge::Included(value) => filled(part(value), 0x00),
            Edge::Excluded(value) if self.exact => next(filled(part(value), 0xFF))?,
            Edge::Excluded(value) => filled(part(value), 0x00),
            Edge::Bracket => filled(tag.clone().unwrap_or_default(), 0x00),
            Edge::Unbounded => filled(Vec::new(), 0x00),
        };
        let upper = match &self.interval.upper {
            Edge::Included(value) => filled(part(value), 0xFF),
            Edge::Excluded(value) if self.exact => previous(filled(part(value), 0x00))?,
            Edge::Excluded(value) => filled(part(value), 0xFF),
            Edge::Bracket => filled(tag.unwrap_or_default(), 0xFF),
            Edge::Unbounded => filled(Vec::new(), 0xFF),
        };
        (lower <= upper).then_some(KeyBounds { lower, upper })
    }

    /// The part of an index key by which several ranges that serve one order are read side by side: entries that come in
    /// its order (or, from the upper end, against it) come in the order of the sort, but for runs.
    #[must_use]
    pub fn merge_key<'k>(&self, key: &'k [u8], index: &PhysicalIndex) -> &'k [u8] {
        let (Some(order), Some(layout)) = (self.order, index.layout()) else {
            return &[];
        };
        let start = order.first_field * layout.part_bytes;
        let end = start + order.field_count * layout.part_bytes;
        key.get(start..end.min(key.len())).unwrap_or_default()
    }

    /// Bytes that are equal for documents whose order the index does not settle: see [`IndexOrder`]. Documents
    /// with different bytes come in the order of the sort.
    ///
    /// The document must not have arrays on the index's fields (the index is not multikey if it serves a sort).
    #[must_use]
    pub fn run(&self, document: &Document, index: &PhysicalIndex) -> Vec<u8> {
        let (Some(order), Some(layout)) = (self.order, index.layout()) else {
            return Vec::new();
        };
        let mut run = Vec::new();
        for field in index.fields().iter().skip(order.first_field).take(order.field_count) {
            let mut value = Bson::Null;
            arras_documents::path::visit_index_values(document, field, &mut |found| {
                value = found.cloned().unwrap_or(Bson::Null);
            });
            run.extend(layout.part(&value).bytes);
        }
        run
    }
}

/// The next greater key of the same length.
fn next(mut key: Vec<u8>) -> Option<Vec<u8>> {
    for byte in key.iter_mut().rev() {
        *byte = byte.wrapping_add(1);
        if *byte != 0 {
            return Some(key);
        }
    }
    None
}

/// The next lower key of the same length.
fn previous(mut key: Vec<u8>) -> Option<Vec<u8>> {
    for byte in key.iter_mut().rev() {
        let was_zero = *byte == 0;
        *byte = byte.wrapping_sub(1);
        if !was_zero {
            return Some(key);
        }
    }
    None
}
