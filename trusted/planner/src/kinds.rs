//! The kinds of index there are: one row each, and all that the planner knows of a protocol.
//!
//! A kind's name is what `arras lab run`, schemas, `createIndexes` and catalogs call it. What leaks least for given
//! queries against a given adversary is found by [`choose`], which goes by [`candidates`]; `arras plan --compare` prints
//! them all.

mod choice;
mod costs;
mod leakage_table;
mod table;
#[cfg(test)]
mod tests;

pub use choice::{Candidate, Found, Need, OrderChoice, candidates, choose, obstacle};
pub use costs::Search;
pub use leakage_table::{leakage_table, with_leakage_table};
pub use table::ALL;
pub(crate) use table::{ARX_EQ, UNIQUE};

use crate::cost::{Cost, Statistics};
use crate::physical::KeyWidth;
use arras_protocol::leakage::Leakage;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A kind of index.
pub struct IndexKind {
    /// What it is called everywhere ([`arras_protocol::table::index`]); a catalog stores it.
    pub name: &'static str,
    /// What papers call it.
    pub title: &'static str,
    /// Which conditions it answers.
    pub serves: Serves,
    /// What an index of a shape leaks.
    pub leakage: fn(&Shape) -> Leakage,
    /// What a search costs until its entries are known; no document is fetched yet.
    pub cost: fn(&Shape, &Statistics, Search) -> Cost,
    /// What one insertion costs.
    pub insertion: fn(&Shape, &Statistics) -> Cost,
    /// Whether a field may have one.
    pub availability: Availability,
}

/// Whether a field of a proxy may have an index of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// It may, in every build.
    Available,
    /// It may, as whoever built this asked for the library that it brings.
    Asked,
    /// It may not, for this reason.
    Refused(&'static str),
}

/// Which conditions a kind of index answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// Equality on all its fields together; at most one document for each tuple of values.
    Unique,
    /// Equality on all its fields together.
    Equality,
    /// Equality on its first fields, then a range or the order of the next.
    Order(OrderedKeys),
}

/// What keys an index of an order has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderedKeys {
    /// The widths of one field's part.
    pub widths: &'static [KeyWidth],
    /// Most bytes of a whole key.
    pub bytes_max: usize,
    /// Most fields.
    pub fields_max: usize,
    /// A field of a declared type has no type tag in its key.
    pub typed: bool,
    /// It can keep sealed partial aggregates.
    pub aggregates: bool,
}

/// What of an index its leakage and its costs depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of a key; 0 for indexes that hash values.
    pub key_bytes: usize,
    /// The settings in force for it.
    pub tuning: Tuning,
}

/// Settings of range indexes that their costs depend on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// Mean entries a bucket.
    pub bucket_factor: u64,
    /// Separators the proxy keeps in the clear.
    pub top_nodes: u64,
}

impl Default for Tuning {
    /// The proxy's own defaults.
    fn default() -> Self {
        Self { bucket_factor: 32, top_nodes: 1024 }
    }
}

impl IndexKind {
    /// Whether a field may have one in this build.
    #[must_use]
    pub fn is_available(&self) -> bool {
        match self.availability {
            Availability::Available | Availability::Asked => true,
            Availability::Refused(_) => false,
        }
    }
}

impl fmt::Debug for IndexKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The kind of that name, whether or not a field may have one.
#[must_use]
pub fn kind_of(name: &str) -> Option<&'static IndexKind> {
    ALL.iter().copied().find(|kind| kind.name == name)
}

/// The kinds that give an order, available or not, in the table's order.
pub fn of_orders() -> impl Iterator<Item = OrderProtocol> {
    ALL.iter().copied().filter_map(OrderProtocol::of)
}

/// A kind of index that gives an order: what a field's `order` names.
#[derive(Clone, Copy)]
pub struct OrderProtocol {
    kind: &'static IndexKind,
    keys: OrderedKeys,
}

impl OrderProtocol {
    fn of(kind: &'static IndexKind) -> Option<Self> {
        match kind.serves {
            Serves::Order(keys) => Some(Self { kind, keys }),
            Serves::Unique | Serves::Equality => None,
        }
    }

    /// The one of that name, available or not.
    ///
    /// # Errors
    /// [`UnknownProtocol`]: there is none, in this build.
    pub fn named(name: &str) -> Result<Self, UnknownProtocol> {
        kind_of(name).and_then(Self::of).ok_or_else(|| UnknownProtocol { name: name.to_owned() })
    }

    /// What schemas, catalogs and `arras lab run` call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.kind.name
    }

    /// Its row in [`ALL`]: what it leaks and costs, and whether a field may have it.
    #[must_use]
    pub fn kind(self) -> &'static IndexKind {
        self.kind
    }

    /// Widths and fields that an index of it may have.
    #[must_use]
    pub fn keys(self) -> OrderedKeys {
        self.keys
    }
}

impl Default for OrderProtocol {
    /// ArxRange, which serves everything that an index of an order can serve.
    fn default() -> Self {
        Self { kind: &table::ARX_RANGE, keys: table::ARX_RANGE_KEYS }
    }
}

impl fmt::Debug for OrderProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for OrderProtocol {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for OrderProtocol {}

impl PartialOrd for OrderProtocol {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for OrderProtocol {
    fn cmp(&self, other: &Self) -> Ordering {
        self.name().cmp(other.name())
    }
}

impl Hash for OrderProtocol {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

/// A name that no order protocol of this build has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no protocol of this build that gives an order is called \"{name}\"; there are {}", names())]
pub struct UnknownProtocol {
    /// What was asked for, as it was spelled.
    pub name: String,
}

/// What a field's `order` may name, for messages.
#[must_use]
pub fn names() -> String {
    let quoted = of_orders()
        .filter(|protocol| protocol.kind.is_available())
        .map(|protocol| format!("\"{}\"", protocol.name()));
    quoted.collect::<Vec<_>>().join(", ")
}
