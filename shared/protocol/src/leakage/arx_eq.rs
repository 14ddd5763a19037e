//! Leakage of ArxEq.

use super::{Leakage, Pattern};
use crate::table::index;

/// ArxEq. An insertion shows nothing; a removal names its entry, and so the write that made it.
pub const ARX_EQ: Leakage = Leakage {
    protocol: index::ARX_EQ,
    snapshot: &[Pattern::Size],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern, Pattern::WriteHistory],
    update: &[Pattern::AccessPattern],
    attacks: &[
        "count and leakage-abuse attacks on searched values (persistent attacker with auxiliary data)",
    ],
};
