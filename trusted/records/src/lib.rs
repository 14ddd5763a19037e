//! Records as the server stores them: plaintext in, sealed bytes out, and back.
#![forbid(unsafe_code)]

pub mod document;

pub use document::{DocumentSealer, IndexTerms, NotStorable, OpenDocument};
