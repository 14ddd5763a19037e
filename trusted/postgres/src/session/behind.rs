//! The database that a session is connected to, beside the one that keeps the orders of columns.

use super::Surroundings;
use crate::cancel::Entered;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Planned, Rewritten};

/// What a session is connected to.
#[derive(Clone, Copy)]
pub(super) struct Behind<'a> {
    /// The session, as it is cancelled by.
    pub(super) entered: &'a Entered,
    /// The database.
    database: &'a str,
    /// The one that keeps the orders of columns.
    keeping: &'a str,
}

impl Surroundings<'_> {
    pub(super) fn behind(&self) -> Behind<'_> {
        let upstream = self.upstream;
        let keeping = upstream.database().unwrap_or(upstream.user("postgres"));
        Behind { entered: self.entered, database: self.database, keeping }
    }
}

impl Behind<'_> {
    /// That what needs the order of a column is asked where that is kept.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn require_orders(&self, planned: &[Planned]) -> Result<(), SqlError> {
        if self.database == self.keeping || !planned.iter().any(needs_order) {
            return Ok(());
        }
        let (database, keeping) = (self.database, self.keeping);
        Err(SqlError::new(
            sqlstate::FEATURE_NOT_SUPPORTED,
            format!(
                "the orders of encrypted columns are kept in database \"{keeping}\", and this session is connected to \
                 \"{database}\""
            ),
        )
        .hint(format!("Connect to \"{keeping}\", or to a proxy whose upstream names \"{database}\".")))
    }
}

/// Is it about the labels of a column?
fn needs_order(planned: &Planned) -> bool {
    let rewritten = |rewritten: &Rewritten| {
        !rewritten.held().is_empty() || crate::is_named_in(&rewritten.extended_text())
    };
    planned.action.any(rewritten)
}
