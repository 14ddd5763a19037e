//! In the place of `words` where this build has none: nothing is found by words.

use super::Postgres;
use crate::cli::Failure;
use crate::configuration::{NO_SEARCH, Search};
use arras_postgres::Schema;
use arras_postgres::words::{ColumnWords, Registered, WordTables};
use arras_service::columns::Columns;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

/// There are none.
pub(super) struct Words(Infallible);

impl Words {
    /// # Errors
    /// The schema declares a column that is found by words.
    pub(super) fn open(
        schema: &Schema,
        _: Option<&Search>,
        (_, _): (Arc<WordTables>, &Path),
    ) -> Result<Option<Self>, Failure> {
        match schema.columns().find(|column| column.text.is_some()) {
            None => Ok(None),
            Some(column) => Err(Postgres::wrong(format!("{}: {NO_SEARCH}", column.label))),
        }
    }

    pub(super) fn by_id(&self) -> BTreeMap<[u8; 8], Arc<ColumnWords>> {
        match self.0 {}
    }

    #[allow(clippy::unused_async, reason = "where there are words, the database is asked")]
    pub(super) async fn register(&mut self) -> Result<Vec<(Arc<ColumnWords>, Registered)>, Failure> {
        match self.0 {}
    }

    #[allow(
        clippy::unused_async,
        reason = "where there are words, it goes on for as long as the process runs"
    )]
    pub(super) async fn keep(self, _: Vec<(Arc<ColumnWords>, Registered)>, _: Arc<dyn Columns>) {
        match self.0 {}
    }
}
