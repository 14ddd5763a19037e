//! Prepared statements that store defaults: these are written into what is rewritten, as they were.

use super::super::reading::Statement;
use super::Requests;
use crate::error::{SqlError, sqlstate};

impl Requests<'_> {
    /// That the defaults which a statement stores are those of today.
    ///
    /// # Errors
    /// 0A000 in PostgreSQL's words for a plan that cannot go on, upon which drivers prepare the statement again.
    pub(super) async fn require_current(&mut self, statement: &Statement) -> Result<(), SqlError> {
        let program = statement.program.as_deref().and_then(super::programs::writes);
        let stored = program.unwrap_or(&statement.rewritten).defaults.clone();
        if stored.is_empty() {
            return Ok(());
        }
        let catalog = self.catalog().await?;
        if stored.iter().all(|(column, default)| catalog.default_of(*column).cloned() == *default) {
            return Ok(());
        }
        let message = "cached plan must not change result type";
        Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
            .detail("A default of the statement's table was changed since it was prepared.")
            .hint("Prepare the statement again."))
    }
}
