//! Leakage of a column of a SQL database, by the terms that stand beside its sealed values.
//!
//! *Beside the terms.* Rows are the database's own: who has a copy sees which values are NULL, in what order rows were
//! written, and which rows lie in the columns that are not encrypted; who watches sees which rows a statement returns or
//! changes, and the statement, but for its constants. The values below leave that out where a term does not add to it.

use super::bplus::{BCLO, BINOMIAL, CLWW, CUMULATIVE, FREQUENCY, LEWI_WU, SORTING};
use super::{KKNO_ACCESS, KKNO_VOLUME, LMP_AUXILIARY, LMP_ORDER, LMP_RANK, Leakage, Pattern};

/// A sealed value alone: its length is what its type says, and lengths of texts are padded to steps.
pub const SEALED_COLUMN: Leakage =
    Leakage { protocol: "sealed", snapshot: &[Pattern::Size], search: &[], update: &[], attacks: &[] };

/// A deterministic term: equal values share it, in every column of one key.
pub const EQUALITY_TERM: Leakage = Leakage {
    protocol: "equality_term",
    snapshot: &[Pattern::Size, Pattern::Frequency],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern],
    update: &[Pattern::SearchPattern],
    attacks: &[FREQUENCY],
};

/// A ciphertext of BCLO: a function of the value. Constants that are compared with go as such ciphertexts, too.
pub const BCLO_TERM: Leakage = Leakage {
    protocol: "bclo_term",
    snapshot: &[Pattern::Size, Pattern::Frequency, Pattern::Order, Pattern::HighBits],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern, Pattern::HighBits],
    update: &[Pattern::SearchPattern, Pattern::HighBits],
    attacks: &[
        FREQUENCY,
        SORTING,
        CUMULATIVE,
        BCLO,
        KKNO_ACCESS,
        KKNO_VOLUME,
        LMP_ORDER,
        LMP_RANK,
        LMP_AUXILIARY,
    ],
};

/// A ciphertext of CLWW: a function of the value. Constants that are compared with go as such ciphertexts, too.
pub const CLWW_TERM: Leakage = Leakage {
    protocol: "clww_term",
    snapshot: &[Pattern::Size, Pattern::Frequency, Pattern::Order, Pattern::DifferingBit],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern, Pattern::DifferingBit],
    update: &[Pattern::SearchPattern, Pattern::DifferingBit],
    attacks: &[
        FREQUENCY,
        SORTING,
        CUMULATIVE,
        CLWW,
        KKNO_ACCESS,
        KKNO_VOLUME,
        LMP_ORDER,
        LMP_RANK,
        LMP_AUXILIARY,
    ],
};

/// A right ciphertext of Lewi-Wu, which shows nothing by itself, and the left ones of constants, which are a function of the value
/// and are compared with all that is stored. A write compares nothing.
pub const LEWI_WU_TERM: Leakage = Leakage {
    protocol: "lewi_wu_term",
    snapshot: &[Pattern::Size],
    search: &[
        Pattern::Volume,
        Pattern::AccessPattern,
        Pattern::SearchPattern,
        Pattern::Frequency,
        Pattern::Order,
        Pattern::DifferingBlock,
    ],
    update: &[],
    attacks: &[SORTING, BINOMIAL, LEWI_WU, KKNO_ACCESS, KKNO_VOLUME, LMP_ORDER, LMP_RANK, LMP_AUXILIARY],
};
