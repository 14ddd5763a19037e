//! Leakage of Kerschbaum and Tueno's array.

use super::{KKNO_ACCESS, KKNO_VOLUME, LMP_AUXILIARY, LMP_ORDER, LMP_RANK, Leakage, Pattern};
use crate::table::index;

/// Kerschbaum-Tueno (IND-CPA-DS: order up to a rotation, hidden frequency). Searches of one array for the same bound, and
/// changes of the same entry, probe the same positions. Sealing is deterministic: an entry that is taken out and put in
/// again is the same bytes again.
pub const KERSCHBAUM_TUENO: Leakage = Leakage {
    protocol: index::KERSCHBAUM_TUENO,
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
