//! Leakage of mutable order-preserving encoding (Popa, Li and Zeldovich, S&P 2013), as an index of documents.
//!
//! *Order.* Nodes, labels and table are functions of the ranks of the values at the times when they came and went: the order of
//! what is stored, and with it part of the order in which it came (where nodes were split, where labels are close). Nothing of
//! distances, bits or magnitudes: ideal security for an order (IND-OCPA), in a copy and to one who watches.
//!
//! *Equality.* Entries of equal values lie under one ciphertext. In mOPE that is the same for ever: a value whose last document
//! goes stays in the tree, and when it comes back it is known again. In stOPE a value leaves the tree with its last
//! document, and comes back under a ciphertext and entry names that have nothing in common with those before.
//!
//! *What same-time security leaves.* Who watches sees the order of two values that are present at the same time. Of two that
//! never are, it sees what follows through others: if x is below y while both are there, and y below z while both are
//! there, then x is below z, though x went before z came; and through any chain of such pairs, lifetimes long past
//! among them. What no chain orders stays unordered: x went from between a and b, z came between a and b, and nothing tells which
//! of the two is greater, or that they are equal. A copy of the store shows the values present in it, and by the gaps between labels
//! that others stood between them.
//!
//! *Searches.* The bound of a range is sent as its stored neighbours; a constant that is not stored enters nothing. So who
//! watches learns its rank among what is stored then, and two constants of one gap are the same to it. Nodes that
//! are fetched show the same rank more coarsely.

use super::bplus::{CUMULATIVE, FREQUENCY, SORTING};
use super::{KKNO_ACCESS, KKNO_VOLUME, LMP_AUXILIARY, LMP_ORDER, LMP_RANK, Leakage, Pattern};
use crate::table::index;

/// mOPE.
pub const MOPE: Leakage = Leakage {
    protocol: index::MOPE,
    snapshot: &[Pattern::Size, Pattern::InsertionOrder, Pattern::Frequency, Pattern::Order],
    search: &[Pattern::Limit, Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern],
    update: &[Pattern::AccessPattern, Pattern::SearchPattern],
    attacks: &[FREQUENCY, SORTING, CUMULATIVE, KKNO_ACCESS, KKNO_VOLUME, LMP_ORDER, LMP_RANK, LMP_AUXILIARY],
};

/// stOPE. A write shows which present value it concerns; that a value was there before, and went, it does not.
pub const STOPE: Leakage = Leakage {
    protocol: index::STOPE,
    snapshot: &[Pattern::Size, Pattern::InsertionOrder, Pattern::Frequency, Pattern::Order],
    search: &[Pattern::Limit, Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern],
    update: &[Pattern::AccessPattern],
    attacks: &[FREQUENCY, SORTING, CUMULATIVE, KKNO_ACCESS, KKNO_VOLUME, LMP_ORDER, LMP_RANK, LMP_AUXILIARY],
};
