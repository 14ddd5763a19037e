//! Leakage of ArxRange.

use super::{KKNO_ACCESS, LMP_AUXILIARY, LMP_ORDER, LMP_RANK, Leakage, Pattern};
use crate::table::index;

/// ArxRange with buckets.
pub const ARX_RANGE: Leakage = Leakage {
    protocol: index::ARX_RANGE,
    // The last: circuits that a change left behind show what came since a tree's last search, and records beside a bucket
    // how much came since it was rewritten.
    snapshot: &[Pattern::Size, Pattern::Shape, Pattern::InsertionOrder],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::BucketRank],
    update: &[Pattern::Size, Pattern::BucketRank],
    attacks: &[KKNO_ACCESS, LMP_ORDER, LMP_RANK, LMP_AUXILIARY],
};
