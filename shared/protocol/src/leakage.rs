//! Leakage as values: each protocol states once, in code, what an attacker learns. The planner compares and
//! prints these; the documentation's table is made from them.
//!
//! *Beside the index.* What an index's protocol shows of a write is shown together with the document: its steps are in one
//! transaction with the document's, so who watches knows which entry is which document's, whatever the protocol. The values
//! below leave that out.

pub mod arx_eq;
pub mod arx_range;
pub mod bisen;
pub mod bplus;
pub mod fh_ope;
pub mod kerschbaum_tueno;
pub mod logarithmic_brc;
pub mod mope;
pub mod path_oram;
pub mod pope;
pub mod sql;
pub mod unique;

pub use bisen::BISEN;
pub use unique::UNIQUE;

/// One thing an attacker learns. Ordered from the least to the most telling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pattern {
    /// Number and lengths of stored items.
    Size,
    /// The index's shape, a function of the set alone (history independent).
    Shape,
    /// Part of the order of insertion, in the shape of the index or in what is stored.
    InsertionOrder,
    /// How many items an operation asked for.
    Limit,
    /// How many items an operation returned.
    Volume,
    /// Which stored items an operation touched.
    AccessPattern,
    /// Which operations searched for the same value.
    SearchPattern,
    /// Which writes concerned a value that is now searched for.
    WriteHistory,
    /// Ranks, in buckets, of a range's bounds.
    BucketRank,
    /// Which stored items have equal values.
    Frequency,
    /// The order of some stored values: of those that searches have sorted.
    PartialOrder,
    /// The order of all stored values, but not which is the first.
    CyclicOrder,
    /// The order of all stored values.
    Order,
    /// Of three values, whether two pairs first differ in the same bit.
    DifferingBitEquality,
    /// For pairs of values, the first block of bits in which they differ.
    DifferingBlock,
    /// For pairs of values, the first bit in which they differ, and so that bit of each.
    DifferingBit,
    /// About the higher half of each value's bits, and so distances.
    HighBits,
    /// The values.
    Plaintext,
}

impl Pattern {
    /// The pattern in words, for plans and tables.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Size => "number and lengths of stored items",
            Self::Shape => "history-independent index shape",
            Self::InsertionOrder => "part of the order of insertion",
            Self::Limit => "the limit asked for",
            Self::Volume => "number of results",
            Self::AccessPattern => "which stored items are touched",
            Self::SearchPattern => "which queries look for the same value",
            Self::WriteHistory => "which writes concerned the value looked for",
            Self::BucketRank => "bucket ranks of the bounds",
            Self::Frequency => "which stored items have equal values",
            Self::PartialOrder => "the order of the stored values that searches have sorted",
            Self::CyclicOrder => "the order of all stored values but for where it begins",
            Self::Order => "the order of all stored values",
            Self::DifferingBitEquality => "which pairs of values first differ in the same bit",
            Self::DifferingBlock => "the first block of bits in which two values differ",
            Self::DifferingBit => "the first bit in which two values differ",
            Self::HighBits => "about the higher half of each value's bits",
            Self::Plaintext => "the values themselves",
        }
    }
}

/// What a protocol leaks: to an attacker with one copy of the store, and added by each operation to one who
/// watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leakage {
    /// Whose leakage it is: the name of an index ([`crate::table::index`]), or of another way to read.
    pub protocol: &'static str,
    /// Learned from one copy of the server's store.
    pub snapshot: &'static [Pattern],
    /// Added by each search to what a persistent attacker knows.
    pub search: &'static [Pattern],
    /// Added by each insert or removal.
    pub update: &'static [Pattern],
    /// Published attacks that apply, with what they need. What `arras lab attack` carries out begins with the attack's
    /// name and a colon.
    pub attacks: &'static [&'static str],
}

impl Leakage {
    /// The most telling pattern an operation adds: how two protocols are ranked.
    #[must_use]
    pub fn worst(&self) -> Option<Pattern> {
        self.snapshot.iter().chain(self.search).chain(self.update).copied().max()
    }
}

/// Kellaris, Kollios, Nissim and O'Neill's attacks (CCS 2016), Lacharité, Minaud and Paterson's (S&P 2018): the names
/// before the colons are those of the lab.
const KKNO_ACCESS: &str =
    "kkno_access: values from which items many searches return (persistent attacker, uniform queries)";
const KKNO_VOLUME: &str = "kkno_volume: how many records have each value, from how many results many searches have (persistent attacker, uniform queries)";
const LMP_ORDER: &str = "lmp_order: dense values from which items searches return (persistent attacker)";
const LMP_RANK: &str =
    "lmp_rank: dense values from which items searches return and in which order (persistent attacker)";
const LMP_AUXILIARY: &str = "lmp_auxiliary: about the values, from which items searches return (persistent attacker with an auxiliary distribution)";

/// Of searches for words.
const KEYWORD_COUNTS: &str = "count and leakage-abuse attacks on the keywords of searches, from how many entries they have (persistent attacker with auxiliary data)";

/// Sealed documents read by scan: nothing beyond sizes.
pub const SCAN: Leakage = Leakage {
    protocol: "scan",
    snapshot: &[Pattern::Size],
    search: &[],
    update: &[Pattern::AccessPattern],
    attacks: &[],
};
