//! Leakage of a column of a SQL database, by the terms that stand beside its sealed values.
//!
//! *Beside the terms.* Rows are the database's own: who has a copy sees which values are NULL, in what order rows were
//! written, and which rows lie in the columns that are not encrypted; who watches sees which rows a statement returns or
//! changes, and the statement, but for its constants. The values below leave that out where a term does not add to it.

use super::bplus::{BY_DIFFERING_BIT, BY_DIFFERING_BLOCK, BY_HIGH_BITS, CUMULATIVE, FREQUENCY, SORTING};
use super::{KKNO_ACCESS, KKNO_VOLUME, LMP_AUXILIARY, LMP_ORDER, LMP_RANK, Leakage, Pattern};

/// A sealed value alone: its length is what its type says, and lengths of texts are padded to steps. Rows that one statement gives one
/// constant have the same bytes.
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

/// A ciphertext that sorts as the value does, and is a function of it. Constants that are compared with go as such ciphertexts, too.
pub const SORTED_TERM: Leakage = Leakage {
    protocol: "sorted_term",
    snapshot: &[Pattern::Size, Pattern::Frequency, Pattern::Order, Pattern::HighBits],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern, Pattern::HighBits],
    update: &[Pattern::SearchPattern, Pattern::HighBits],
    attacks: &[
        FREQUENCY,
        SORTING,
        CUMULATIVE,
        BY_HIGH_BITS,
        KKNO_ACCESS,
        KKNO_VOLUME,
        LMP_ORDER,
        LMP_RANK,
        LMP_AUXILIARY,
    ],
};

/// A ciphertext that a function compares bit by bit, and is a function of the value. Constants that are compared with go as such
/// ciphertexts, too.
pub const COMPARED_TERM: Leakage = Leakage {
    protocol: "compared_term",
    snapshot: &[Pattern::Size, Pattern::Frequency, Pattern::Order, Pattern::DifferingBit],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern, Pattern::DifferingBit],
    update: &[Pattern::SearchPattern, Pattern::DifferingBit],
    attacks: &[
        FREQUENCY,
        SORTING,
        CUMULATIVE,
        BY_DIFFERING_BIT,
        KKNO_ACCESS,
        KKNO_VOLUME,
        LMP_ORDER,
        LMP_RANK,
        LMP_AUXILIARY,
    ],
};

const SORTING_BY_CONSTANTS: &str = "nkw_sorting: the order of a dense column is its values (persistent attacker who saw the constants and \
     knows the domain)";
const FREQUENCY_BY_CONSTANTS: &str = "nkw_frequency: frequency analysis (persistent attacker who saw the constants, with an auxiliary distribution)";
const CUMULATIVE_BY_CONSTANTS: &str = "nkw_cumulative: assignment by order and frequency (persistent attacker who saw the constants, \
     with an auxiliary distribution)";
const BINOMIAL_BY_CONSTANTS: &str = "grubbs_binomial: likeliest value of each rank (persistent attacker who saw the constants, with an \
     auxiliary distribution)";

/// The one side of a comparison, which shows nothing by itself, but that rows are copies: those that one statement gave one constant, or
/// that were copied with their terms, have the same bytes. Constants go as the other side, which is a function of the value and
/// is compared with all that is stored. A write compares nothing.
pub const SIDED_TERM: Leakage = Leakage {
    protocol: "sided_term",
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
    attacks: &[
        SORTING_BY_CONSTANTS,
        FREQUENCY_BY_CONSTANTS,
        CUMULATIVE_BY_CONSTANTS,
        BINOMIAL_BY_CONSTANTS,
        BY_DIFFERING_BLOCK,
        KKNO_ACCESS,
        KKNO_VOLUME,
        LMP_ORDER,
        LMP_RANK,
        LMP_AUXILIARY,
    ],
};

/// A random name beside a text, under which its words are kept by an enclave. Rows that one statement gives one
/// constant, or that were copied, have the same. The database is given the names that a search finds, those of rows that are gone among
/// them; what the host of the enclave sees of searches and updates is added.
pub const NAMED_TEXT: Leakage = Leakage {
    protocol: "named_text",
    snapshot: &[Pattern::Size],
    search: &[Pattern::Volume, Pattern::AccessPattern, Pattern::SearchPattern, Pattern::WriteHistory],
    update: &[Pattern::Size],
    attacks: &[super::KEYWORD_COUNTS],
};
