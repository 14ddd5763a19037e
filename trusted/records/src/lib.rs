//! Records as the server stores them: plaintext in, sealed bytes out, and back.
#![forbid(unsafe_code)]

pub mod column;
pub mod document;

pub use column::{ColumnSealer, ColumnSealers};
pub use document::{DocumentSealer, IndexTerms, NotStorable, OpenDocument};
