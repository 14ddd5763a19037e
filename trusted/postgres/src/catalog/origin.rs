//! Which values a sealed one may be: those that are stored in its column, and those that a statement gives for its own results.

use crate::column_type::ColumnType;
use ring::digest::{Context, SHA256};

/// What the values are bound to that one statement gives for its own results: pseudo-random, of its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatementDigest([u8; 32]);

impl StatementDigest {
    /// Of a statement's text, and of what the values are: among which the server chooses, where no type is given, or beside which
    /// the proxy computes, of that type.
    #[must_use]
    pub fn new(text: &str, kind: Option<ColumnType>) -> Self {
        let mut context = Context::new(&SHA256);
        context.update(&kind.map_or(0, ColumnType::oid).to_be_bytes());
        context.update(text.as_bytes());
        let digest = context.finish();
        Self(digest.as_ref().first_chunk().copied().unwrap_or_default())
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(self) -> [u8; 32] {
        self.0
    }
}

/// Which values a sealed one may be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// One that is stored in the column.
    #[default]
    Stored,
    /// One that a statement gave for its own results: no value of the column, and of no other statement or session.
    Given(StatementDigest),
    /// Either, as the server chooses among both.
    Chosen(StatementDigest),
}
