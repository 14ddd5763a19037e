//! Leakage as values: each protocol states once, in code, what an attacker learns. The planner compares and
//! prints these; the documentation's table is made from them.
//!
//! *Beside the index.* What an index's protocol shows of a write is shown together with the document: its steps are in one
//! transaction with the document's, so who watches knows which entry is which document's, whatever the protocol. The values
//! below leave that out.

pub mod bisen;
pub mod bplus;
pub mod fh_ope;
pub mod mope;
pub mod sql;

pub use bisen::BISEN;

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
    /// The protocol's name.
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

/// Sealed documents read by scan: nothing beyond sizes.
pub const SCAN: Leakage = Leakage {
    protocol: "scan",
    snapshot: &[Pattern::Size],
    search: &[],
    update: &[Pattern::AccessPattern],
    attacks: &[],
};

/// EQunique (deterministic labels of unique values).
pub const UNIQUE: Leakage = Leakage {
    protocol: "eq_unique",
    snapshot: &[Pattern::Size],
    search: &[Pattern::AccessPattern, Pattern::SearchPattern],
    update: &[Pattern::AccessPattern, Pattern::SearchPattern],
    attacks: &["known-query attacks on the search pattern (persistent attacker with auxiliary queries)"],
};

/// ArxEq. An insertion shows nothing; a removal names its entry, and so the write that made it.
pub const ARX_EQ: Leakage = Leakage {
    protocol: "arx_eq",
    snapshot: &[Pattern::Size],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern, Pattern::WriteHistory],
    update: &[Pattern::AccessPattern],
    attacks: &[
        "count and leakage-abuse attacks on searched values (persistent attacker with auxiliary data)",
    ],
};

/// ArxRange with buckets.
pub const ARX_RANGE: Leakage = Leakage {
    protocol: "arx_range",
    // The last: circuits that a change left behind show what came since a tree's last search, and records beside a bucket
    // how much came since it was rewritten.
    snapshot: &[Pattern::Size, Pattern::Shape, Pattern::InsertionOrder],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::BucketRank],
    update: &[Pattern::Size, Pattern::BucketRank],
    attacks: &[KKNO_ACCESS, LMP_ORDER, LMP_RANK, LMP_AUXILIARY],
};

/// Kerschbaum-Tueno (IND-CPA-DS: order up to a rotation, hidden frequency). Searches of one array for the same bound, and
/// changes of the same entry, probe the same positions. Sealing is deterministic: an entry that is taken out and put in
/// again is the same bytes again.
pub const KERSCHBAUM_TUENO: Leakage = Leakage {
    protocol: "kerschbaum_tueno",
    snapshot: &[Pattern::Size, Pattern::CyclicOrder],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern],
    update: &[Pattern::AccessPattern, Pattern::SearchPattern],
    attacks: &[
        "nkw_sorting: the order of a dense column is its values, up to the unknown rotation (snapshot attacker who knows the domain)",
        "grubbs_binomial: likeliest value of each rank, up to the unknown rotation (snapshot attacker with an auxiliary distribution)",
        "the rotation from many range queries, as no range goes over the end of the domain (persistent attacker)",
        KKNO_ACCESS,
        KKNO_VOLUME,
        LMP_ORDER,
        LMP_RANK,
        LMP_AUXILIARY,
    ],
};

/// POPE (frequency-hiding partial order preserving): before the first search the number of elements alone;
/// searches show the order of labels and in which gap between labels the other elements lie. A change shows how many elements
/// it appends, a removal as many as an insertion. A search that meets removed entries, or such as came twice, has their
/// elements taken out: which of the elements inserted before belong to one of the entries that it was about, but for which to which
/// if they are several.
pub const POPE: Leakage = Leakage {
    protocol: "pope",
    snapshot: &[Pattern::Size, Pattern::InsertionOrder, Pattern::PartialOrder],
    search: &[
        Pattern::Volume,
        Pattern::AccessPattern,
        Pattern::SearchPattern,
        Pattern::WriteHistory,
        Pattern::PartialOrder,
    ],
    update: &[Pattern::Size],
    attacks: &[
        "nkw_sorting: what many searches of a dense column have sorted is its values (snapshot attacker who knows the domain)",
        "grubbs_binomial: likeliest value between two labels after many searches (snapshot attacker with an auxiliary distribution)",
        KKNO_ACCESS,
        LMP_ORDER,
        LMP_AUXILIARY,
    ],
};

/// Logarithmic-BRC over an encrypted multimap. A snapshot shows how many cells and blocks there are; with the basic
/// packing, and with the padding to the worst case, that is a function of the number of records. Changes read the newest
/// instance, the buffer, and write it anew: how many records it has shows whether a change was about an entry that another
/// of the last changes was about. A search shows the lengths of the lists of its cover, and, where an instance has nothing in
/// the range, of lists beside it: by these the client sees that nothing was denied.
pub const LOGARITHMIC_BRC: Leakage = Leakage {
    protocol: "logarithmic_brc",
    snapshot: &[Pattern::Size],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern],
    update: &[Pattern::Size, Pattern::SearchPattern],
    attacks: &[
        KKNO_VOLUME,
        "reconstruction from which lists many searches share (persistent attacker, known query distribution)",
    ],
};

/// Path ORAM with a B+ tree in it. A change shows that it is an insert or a removal and the tree's height; a search the
/// number of nodes it read at each level, and, if it has a limit, how many leaves the limit can need. Height and the
/// moment when the ORAM grows follow from the number of nodes, and how full nodes are depends on the order of insertion.
pub const PATH_ORAM: Leakage = Leakage {
    protocol: "path_oram",
    snapshot: &[Pattern::Size, Pattern::InsertionOrder],
    search: &[Pattern::Limit, Pattern::Volume],
    update: &[Pattern::InsertionOrder],
    attacks: &[KKNO_VOLUME],
};
