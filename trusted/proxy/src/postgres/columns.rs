//! The keys of the columns that a schema of tables declares.

use super::Postgres;
use crate::cli::Failure;
use arras_keys::{Key, Keyring};
use arras_postgres::{Rewriting, Schema};
use arras_records::ColumnSealers;
use arras_service::columns::{ColumnKeys, Columns, Declared, OrderEncoder};
use std::path::Path;
use std::sync::Arc;

/// The keys of columns, none of which has an order.
struct Unordered(ColumnSealers);

impl Columns for Unordered {
    fn keys(&self, column: [u8; 8]) -> Option<Arc<dyn ColumnKeys>> {
        self.0.get(column).map(|sealer| sealer as Arc<dyn ColumnKeys>)
    }

    fn encoder(&self, _: [u8; 8]) -> Option<Arc<dyn OrderEncoder>> {
        None
    }
}

/// Reads a schema of tables and derives the keys of its columns.
pub(super) fn rewriting(file: &Path, keyring: &Keyring, memory_bytes: usize) -> Result<Rewriting, Failure> {
    let text =
        std::fs::read_to_string(file).map_err(|source| Failure::Io { path: file.to_path_buf(), source })?;
    let schema =
        Schema::parse(&text, &file.to_string_lossy()).map_err(|error| Postgres::wrong(error.to_string()))?;
    if let Some(ordered) = schema.columns().find(|column| column.order.is_some()) {
        return Err(Postgres::wrong(format!(
            "{}: column {} asks for \"order\", which this proxy does not keep yet",
            file.display(),
            ordered.label
        )));
    }
    let declared: Vec<Declared> = schema
        .columns()
        .flat_map(|column| {
            // A column that is joined with others has the equality key of one of them.
            let ids = [Some(column.id), column.equality].into_iter().flatten();
            ids.map(|id| Declared { id, ..column.declared() })
        })
        .collect();
    let roots: Vec<(u32, &Key)> =
        keyring.versions().filter_map(|(version, _)| Some((version, keyring.root(version)?))).collect();
    let columns = Unordered(ColumnSealers::new(declared, &roots));
    Ok(Rewriting::new(Arc::new(schema), Arc::new(columns), memory_bytes))
}
