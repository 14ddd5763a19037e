//! Leakage of frequency-hiding order-preserving encryption (FH-OPE; Kerschbaum, CCS 2015) as a term of a SQL column, whose tree and
//! labels the database keeps.
//!
//! *A copy* shows an order of the rows, by labels that no two rows share. Keys of equal values are at places among each other
//! that the proxy draws, so nothing in the order says where one value ends and the next begins. What the order of insertion says
//! stays (Maffei, Reinert and Schröder, CANS 2017, on what Kerschbaum's definition leaves open): new rows whose places do not
//! follow from those of the rows before are the likelier of equal values, and as a place is drawn along a path down the tree, the ends
//! of a long run of equal values grow faster than as much of its middle.
//!
//! *Who watches* sees where each new row comes, and which key goes with a row that goes. A constant that is compared with shows the
//! first or the last key of its value, `=` both, where rows have it: so which rows are equal to it, from then on.

use super::bplus::BINOMIAL;
use super::{KKNO_ACCESS, KKNO_VOLUME, LMP_AUXILIARY, LMP_ORDER, LMP_RANK, Leakage, Pattern};

/// A label for each row, in an order of the values.
pub const FH_OPE_TERM: Leakage = Leakage {
    protocol: "fh_ope_term",
    snapshot: &[Pattern::Size, Pattern::InsertionOrder, Pattern::Order],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern, Pattern::Frequency],
    update: &[Pattern::AccessPattern],
    attacks: &[BINOMIAL, KKNO_ACCESS, KKNO_VOLUME, LMP_ORDER, LMP_RANK, LMP_AUXILIARY],
};
