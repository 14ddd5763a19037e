//! Leakage of Path ORAM with a B+ tree in it.

use super::{KKNO_VOLUME, Leakage, Pattern};
use crate::table::index;

/// Path ORAM with a B+ tree in it. A change shows that it is an insert or a removal and the tree's height; a search the
/// number of nodes it read at each level, and, if it has a limit, how many leaves the limit can need. Height and the
/// moment when the ORAM grows follow from the number of nodes, and how full nodes are depends on the order of insertion.
pub const PATH_ORAM: Leakage = Leakage {
    protocol: index::PATH_ORAM,
    snapshot: &[Pattern::Size, Pattern::InsertionOrder],
    search: &[Pattern::Limit, Pattern::Volume],
    update: &[Pattern::InsertionOrder],
    attacks: &[KKNO_VOLUME],
};
