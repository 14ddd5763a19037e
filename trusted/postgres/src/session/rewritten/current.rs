//! Prepared statements whose tables were changed since: what is rewritten holds columns and defaults as they were.

use super::super::reading::Statement;
use super::Requests;
use crate::error::{SqlError, sqlstate};
use std::sync::atomic::Ordering;

impl Requests<'_> {
    /// That a statement would be rewritten today as it was.
    ///
    /// # Errors
    /// 0A000 as PostgreSQL says it, upon which drivers prepare the statement again.
    pub(super) async fn require_current(&mut self, statement: &Statement) -> Result<(), SqlError> {
        let changes = self.rewriting.changes();
        if statement.planned.load(Ordering::Relaxed) == changes {
            return Ok(());
        }
        let again = match self.plan(statement.texts.client.as_bytes(), true).await? {
            Some((text, planned)) => self.prepared(text, planned, statement.types.clone())?,
            None => None,
        };
        let is_same =
            |again: &Statement| again.rewritten == statement.rewritten && again.program == statement.program;
        if again.is_some_and(|again| is_same(&again)) {
            statement.planned.store(changes, Ordering::Relaxed);
            return Ok(());
        }
        let message = "cached plan must not change result type";
        Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
            .detail("A table of the statement was changed since it was prepared.")
            .hint("Prepare the statement again."))
    }
}
