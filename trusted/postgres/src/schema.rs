//! The schema file: which columns are encrypted, and what must work on them.
//!
//! ```toml
//! [tables."public.accounts"]
//! balance = { id = "5f0c9d3e21b7a846", type = "numeric(12,2)", operations = ["equality", "order", "sum"] }
//! owner   = { id = "91b6c0d2ee4f7a35", type = "text", operations = ["unique"] }
//! opened  = { id = "0a4477c1d2e8f693", type = "date", operations = ["order"], order = "stope" }
//!
//! [tables."public.payments"]
//! payer   = { id = "c7d8102b9e5fa364", type = "text", join = "public.accounts.owner" }
//! memo    = { id = "3e1f5b6c7d809a2b", type = "text" }
//! ```
//!
//! A column's `id` is 8 bytes in hexadecimal, given once and for ever: its keys are derived from it. `docs/postgres.md`
//! explains each entry.

mod raw;
#[cfg(test)]
mod tests;

use crate::catalog::{Encryption, KeyCheck};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a schema file declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// By the table's schema and name: its encrypted columns by name.
    pub tables: BTreeMap<(String, String), BTreeMap<String, Arc<Encryption>>>,
}

/// A schema file is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct SchemaError {
    /// The file.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What is wrong and what is allowed.
    pub message: String,
}

impl Schema {
    /// Reads a schema. `file` is only named in errors.
    ///
    /// # Errors
    /// The text is wrong: [`SchemaError`] says where, and what is allowed there.
    pub fn parse(text: &str, file: &str) -> Result<Self, SchemaError> {
        raw::parse(text, file)
    }

    /// How a column is encrypted, if it is.
    #[must_use]
    pub fn column(&self, schema: &str, table: &str, column: &str) -> Option<&Arc<Encryption>> {
        self.tables.get(&(schema.to_owned(), table.to_owned()))?.get(column)
    }

    /// The schema with what the database is to keep of each column, by which another key or id is noticed.
    #[must_use]
    pub fn checked(mut self, check: impl Fn(&Encryption) -> KeyCheck) -> Self {
        for column in self.tables.values_mut().flat_map(BTreeMap::values_mut) {
            let check = Some(check(column));
            Arc::make_mut(column).check = check;
        }
        self
    }

    /// Every encrypted column.
    pub fn columns(&self) -> impl Iterator<Item = &Arc<Encryption>> {
        self.tables.values().flat_map(BTreeMap::values)
    }
}
