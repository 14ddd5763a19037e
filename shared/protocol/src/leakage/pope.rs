//! Leakage of POPE.

use super::{KKNO_ACCESS, LMP_AUXILIARY, LMP_ORDER, Leakage, Pattern};
use crate::table::index;

/// POPE (frequency-hiding partial order preserving): before the first search the number of elements alone;
/// searches show the order of labels and in which gap between labels the other elements lie. A change shows how many elements
/// it appends, a removal as many as an insertion. A search that meets removed entries, or such as came twice, has their
/// elements taken out: which of the elements inserted before belong to one of the entries that it was about, but for which to which
/// if they are several.
pub const POPE: Leakage = Leakage {
    protocol: index::POPE,
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
