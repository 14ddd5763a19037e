//! Records as the server stores them: plaintext in, sealed bytes out, and back.
#![forbid(unsafe_code)]

pub mod column;
pub mod column_order;
pub mod document;

pub use column::{COLUMN_CHECK_BYTES, ColumnSealer, ColumnSealers, column_check};
pub use column_order::{ColumnOrder, TermScheme};
pub use document::{DocumentSealer, IndexTerms, NotStorable, OpenDocument};
