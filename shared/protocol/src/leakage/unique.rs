//! Leakage of labels of unique values.

use super::{Leakage, Pattern};
use crate::table::index;

/// Deterministic labels of unique values.
pub const UNIQUE: Leakage = Leakage {
    protocol: index::UNIQUE,
    snapshot: &[Pattern::Size],
    search: &[Pattern::AccessPattern, Pattern::SearchPattern],
    update: &[Pattern::AccessPattern, Pattern::SearchPattern],
    attacks: &["known-query attacks on the search pattern (persistent attacker with auxiliary queries)"],
};
