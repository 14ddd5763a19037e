//! Leakage of the B+ tree over each scheme: that of the scheme, and what the tree shows of the order of insertion.
//!
//! A snapshot of a tree holds stored ciphertexts, and value and row of each sealed beside it. Where the ciphertexts cannot
//! be compared with each other (Lewi-Wu, CLOZ) they show nothing, but their places show their order, and no more: a key of
//! each value, which is not stored, orders the entries of equal ones. Comparing takes the query ciphertexts, which whoever
//! watches sees with every operation, and the key with every one that finds an entry among equals; both are compared
//! with all that is stored.
//!
//! *What is sealed* is the same for the same value and row: who keeps copies, or watches, sees that an entry comes again
//! after its removal. Nothing else: a copy does not say which document an entry belongs to, nor which entries of two
//! indexes belong to one. That is seen by one who watches: an entry's step lies in one write with its document's step and
//! those of its entries in other indexes, and a search is followed by reads of the documents it found. It joins entries
//! with documents, for every protocol.
//!
//! *Which page* an entry is on is seen in a copy and with every operation ([`Pattern::AccessPattern`]); page numbers rise
//! with each split, so they say which page came later ([`Pattern::InsertionOrder`]).
//!
//! An attack that `arras lab attack` carries out is named first, then a colon.

use super::{KKNO_ACCESS, KKNO_VOLUME, LMP_AUXILIARY, LMP_ORDER, LMP_RANK, Leakage, Pattern};
use crate::ore::Scheme;
use crate::table::index;

pub(super) const FREQUENCY: &str =
    "nkw_frequency: frequency analysis (snapshot attacker with an auxiliary distribution)";
pub(super) const SORTING: &str =
    "nkw_sorting: the order of a dense column is its values (snapshot attacker who knows the domain)";
pub(super) const CUMULATIVE: &str =
    "nkw_cumulative: assignment by order and frequency (snapshot attacker with an auxiliary distribution)";
pub(super) const BY_HIGH_BITS: &str =
    "grubbs_bclo: approximate inverses of OPE ciphertexts (snapshot attacker with an auxiliary distribution)";
pub(super) const BY_DIFFERING_BIT: &str =
    "grubbs_clww: matching by first differing bits (snapshot attacker with an auxiliary distribution)";
pub(super) const BY_DIFFERING_BLOCK: &str =
    "grubbs_lewi_wu: matching by first differing blocks (persistent attacker with an auxiliary distribution)";
pub(super) const BINOMIAL: &str =
    "grubbs_binomial: likeliest value of each rank (snapshot attacker with an auxiliary distribution)";

/// The B+ tree over BCLO.
pub const BPLUS_BCLO: Leakage = Leakage {
    protocol: index::BPLUS_BCLO,
    snapshot: &[
        Pattern::Size,
        Pattern::InsertionOrder,
        Pattern::Frequency,
        Pattern::Order,
        Pattern::HighBits,
    ],
    search: &[
        Pattern::Limit,
        Pattern::Volume,
        Pattern::AccessPattern,
        Pattern::SearchPattern,
        Pattern::HighBits,
    ],
    update: &[Pattern::AccessPattern, Pattern::SearchPattern, Pattern::HighBits],
    attacks: &[
        FREQUENCY,
        SORTING,
        CUMULATIVE,
        BY_HIGH_BITS,
        KKNO_ACCESS,
        KKNO_VOLUME,
        LMP_ORDER,
        LMP_RANK,
        LMP_AUXILIARY,
    ],
};

/// The B+ tree over CLOZ.
pub const BPLUS_CLOZ: Leakage = Leakage {
    protocol: index::BPLUS_CLOZ,
    snapshot: &[Pattern::Size, Pattern::InsertionOrder, Pattern::Order],
    search: &[
        Pattern::Limit,
        Pattern::Volume,
        Pattern::AccessPattern,
        Pattern::SearchPattern,
        Pattern::Frequency,
        Pattern::DifferingBitEquality,
    ],
    update: &[
        Pattern::AccessPattern,
        Pattern::SearchPattern,
        Pattern::Frequency,
        Pattern::DifferingBitEquality,
    ],
    attacks: &[SORTING, BINOMIAL, KKNO_ACCESS, KKNO_VOLUME, LMP_ORDER, LMP_RANK, LMP_AUXILIARY],
};

/// The B+ tree over CLWW.
pub const BPLUS_CLWW: Leakage = Leakage {
    protocol: index::BPLUS_CLWW,
    snapshot: &[
        Pattern::Size,
        Pattern::InsertionOrder,
        Pattern::Frequency,
        Pattern::Order,
        Pattern::DifferingBit,
    ],
    search: &[
        Pattern::Limit,
        Pattern::Volume,
        Pattern::AccessPattern,
        Pattern::SearchPattern,
        Pattern::DifferingBit,
    ],
    update: &[Pattern::AccessPattern, Pattern::SearchPattern, Pattern::DifferingBit],
    attacks: &[
        FREQUENCY,
        SORTING,
        CUMULATIVE,
        BY_DIFFERING_BIT,
        KKNO_ACCESS,
        KKNO_VOLUME,
        LMP_ORDER,
        LMP_RANK,
        LMP_AUXILIARY,
    ],
};

/// The B+ tree over FH-OPE. What moves when, in ciphertexts that give way, is a function of the ranks at which entries came:
/// it tells what their order of insertion tells, no more. A removal shows the ends of its value: how many have it,
/// and which ([`Pattern::Frequency`]); an insertion does not. Each change and search shows the index's
/// version, a count of its changes.
pub const BPLUS_FH_OPE: Leakage = Leakage {
    protocol: index::BPLUS_FH_OPE,
    snapshot: &[Pattern::Size, Pattern::InsertionOrder, Pattern::Order],
    search: &[
        Pattern::Limit,
        Pattern::Volume,
        Pattern::AccessPattern,
        Pattern::SearchPattern,
        Pattern::Frequency,
    ],
    update: &[Pattern::AccessPattern, Pattern::SearchPattern, Pattern::Frequency],
    attacks: &[BINOMIAL, KKNO_ACCESS, KKNO_VOLUME, LMP_ORDER, LMP_RANK, LMP_AUXILIARY],
};

/// The B+ tree over Lewi-Wu.
pub const BPLUS_LEWI_WU: Leakage = Leakage {
    protocol: index::BPLUS_LEWI_WU,
    snapshot: &[Pattern::Size, Pattern::InsertionOrder, Pattern::Order],
    search: &[
        Pattern::Limit,
        Pattern::Volume,
        Pattern::AccessPattern,
        Pattern::SearchPattern,
        Pattern::Frequency,
        Pattern::DifferingBlock,
    ],
    update: &[Pattern::AccessPattern, Pattern::SearchPattern, Pattern::Frequency, Pattern::DifferingBlock],
    attacks: &[
        SORTING,
        BINOMIAL,
        BY_DIFFERING_BLOCK,
        KKNO_ACCESS,
        KKNO_VOLUME,
        LMP_ORDER,
        LMP_RANK,
        LMP_AUXILIARY,
    ],
};

/// The B+ tree of the values: the baseline of cost, without security.
pub const BPLUS_PLAIN: Leakage = Leakage {
    protocol: index::PLAIN,
    snapshot: &[Pattern::InsertionOrder, Pattern::Plaintext],
    search: &[Pattern::Plaintext],
    update: &[Pattern::Plaintext],
    attacks: &["none is needed"],
};

/// Leakage of the B+ tree over a scheme.
#[must_use]
pub const fn bplus(scheme: Scheme) -> &'static Leakage {
    match scheme {
        Scheme::Bclo(_) => &BPLUS_BCLO,
        Scheme::Cloz(_) => &BPLUS_CLOZ,
        Scheme::Clww(_) => &BPLUS_CLWW,
        Scheme::FhOpe(_) => &BPLUS_FH_OPE,
        Scheme::LewiWu { .. } => &BPLUS_LEWI_WU,
        Scheme::Plain(_) => &BPLUS_PLAIN,
    }
}
