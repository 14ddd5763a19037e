//! The tables as the way to the database knows them.

use super::Requests;
use crate::catalog::{COLUMNS, Catalog};
use crate::error::{SqlError, sqlstate};
use crate::pipeline::Asked;
use crate::replies;
use crate::session::reading::{Exchange, Reading, Rows};
use std::sync::Arc;

impl Requests<'_> {
    /// The tables as they are now.
    pub(super) async fn catalog(&mut self) -> Result<Arc<Catalog>, SqlError> {
        let changes = self.rewriting.changes();
        let stale = self.shared.state().changed_tables;
        if let Some((known, catalog)) = &self.catalog {
            // What waits for more of the client's messages, or fails anyway, is read with what is known.
            let can_ask = self.shared.state().can_ask();
            if (*known == changes && !stale) || !can_ask {
                return Ok(Arc::clone(catalog));
            }
        }
        let mut rows = self.ask(&format!("SHOW default_transaction_isolation; {COLUMNS}")).await?;
        if let [Some(level)] = rows.first().map(Vec::as_slice).unwrap_or_default() {
            self.sees_the_past |= !level.starts_with("read ");
            rows.remove(0);
        }
        let catalog = Arc::new(self.rewriting.catalog(rows)?);
        self.catalog = Some((changes, Arc::clone(&catalog)));
        Ok(catalog)
    }

    /// Asks the database something of the proxy's own.
    async fn ask(&mut self, statement: &str) -> Result<Rows, SqlError> {
        let (exchange, answered) = Exchange::new(false);
        self.shared.state().changed_tables = false;
        self.sent(Asked::Query, Reading::Own(Box::new(exchange)), None);
        replies::message(&mut self.out, b'Q', |out| replies::string(out, statement.as_bytes()));
        let lost = || SqlError::new(sqlstate::CONNECTION_FAILURE, "the database did not answer the proxy");
        self.write().await.map_err(|_| lost())?;
        answered.await.map_err(|_| lost())?.map(|answer| answer.rows)
    }
}
