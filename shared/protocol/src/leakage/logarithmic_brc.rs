//! Leakage of Logarithmic-BRC.

use super::{KKNO_VOLUME, Leakage, Pattern};
use crate::table::index;

/// Logarithmic-BRC over an encrypted multimap. A snapshot shows how many cells and blocks there are; with the basic
/// packing, and with the padding to the worst case, that is a function of the number of records. Changes read the newest
/// instance, the buffer, and write it anew: how many records it has shows whether a change was about an entry that another
/// of the last changes was about. A search shows the lengths of the lists of its cover, and, where an instance has nothing in
/// the range, of lists beside it: by these the client sees that nothing was denied.
pub const LOGARITHMIC_BRC: Leakage = Leakage {
    protocol: index::LOGARITHMIC_BRC,
    snapshot: &[Pattern::Size],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern],
    update: &[Pattern::Size, Pattern::SearchPattern],
    attacks: &[
        KKNO_VOLUME,
        "reconstruction from which lists many searches share (persistent attacker, known query distribution)",
    ],
};
