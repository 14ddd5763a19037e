//! Leakage of a column of a SQL database, by the terms that stand beside its sealed values.
//!
//! *Beside the terms.* Rows are the database's own: who has a copy sees which values are NULL, in what order rows were
//! written, and which rows lie in the columns that are not encrypted; who watches sees which rows a statement returns or
//! changes, and the statement, but for its constants. The values below leave that out where a term does not add to it.

use super::bplus::FREQUENCY;
use super::{Leakage, Pattern};

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
