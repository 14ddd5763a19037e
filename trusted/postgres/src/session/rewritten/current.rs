//! Prepared statements as tables are now: defaults are written into what is rewritten as they were, and columns that a statement takes
//! by their places are named.

use super::super::programs;
use super::super::reading::{Reading, Statement};
use super::Requests;
use super::zones::prepared_may_need_zone;
use crate::catalog::Taken;
use crate::error::SqlError;
use crate::named::cached_plan;
use crate::pipeline::Asked;
use crate::plan::Rewritten;
use crate::session::physical::{close, parse, types_of};
use std::sync::Arc;

/// What of a statement stores something, or all of it.
fn stored(statement: &Statement) -> &Rewritten {
    statement.program.as_deref().and_then(programs::writes).unwrap_or(&statement.rewritten)
}

impl Requests<'_> {
    /// What a statement of a name is now, in the database, too; none if it goes on as the client wrote it.
    ///
    /// # Errors
    /// 0A000 in PostgreSQL's words for a plan that cannot go on, upon which drivers prepare the statement again; or as it is not known what
    /// columns a table has.
    pub(super) async fn current(
        &mut self,
        name: &[u8],
        statement: Arc<Statement>,
    ) -> Result<Option<Arc<Statement>>, SqlError> {
        {
            let state = self.shared.state();
            state.settings.require_readable()?;
            let program = statement.program.as_deref();
            state.settings.require_dates_of(program, &statement.rewritten.outputs)?;
        }
        self.learn_zone(|| prepared_may_need_zone(&statement)).await?;
        let of_read = statement.program.iter().flat_map(|_| &statement.rewritten.layouts);
        let layouts: Vec<&Taken> = of_read.chain(&stored(&statement).layouts).collect();
        if !layouts.is_empty() {
            let catalog = self.catalog().await?;
            let moved: Vec<&&Taken> = layouts.iter().filter(|taken| !taken.stands_in(&catalog)).collect();
            let in_doubt =
                layouts.iter().any(|taken| !taken.is_shown && catalog.is_doubted(&taken.table.name));
            if moved.iter().any(|taken| taken.is_shown) {
                return Err(cached_plan(
                    "Columns of the statement's table were changed since it was prepared.",
                ));
            }
            // In doubt it is refused as it is planned.
            if !moved.is_empty() || in_doubt {
                return self.planned_again(name, &statement).await;
            }
        }
        if !self.has_defaults(&statement).await? {
            return self.planned_again(name, &statement).await;
        }
        Ok(Some(statement))
    }

    /// Are the defaults which a statement stores those of today?
    async fn has_defaults(&mut self, statement: &Statement) -> Result<bool, SqlError> {
        let stored = &stored(statement).defaults;
        if stored.is_empty() {
            return Ok(true);
        }
        let catalog = self.catalog().await?;
        Ok(stored.iter().all(|(column, default)| catalog.default_of(*column) == default.as_ref()))
    }

    /// Prepares a statement of the protocol again, with parameters of the types that they had.
    async fn planned_again(
        &mut self,
        name: &[u8],
        statement: &Statement,
    ) -> Result<Option<Arc<Statement>>, SqlError> {
        let is_of_protocol = self.shared.state().names.statement(name).is_some();
        if !is_of_protocol {
            return Err(cached_plan(
                "Columns of the statement's table, or their defaults, were changed since PREPARE.",
            ));
        }
        let types = statement.known_types();
        let text = statement.texts.client.clone();
        let again = match self.plan(text.as_bytes(), !name.is_empty()).await? {
            Some((text, planned)) => self.prepared(name, text, planned, types.clone()).await?,
            None => None,
        };
        if let Some(again) = &again {
            again.take_shape(statement);
        }
        self.hidden_message(Asked::Close, |out| close(out, name));
        let number = self.number + 1;
        let undo = self.shared.state().names.prepare(name, again.clone().map(|again| (number, again)));
        match &again {
            Some(again) => {
                self.prepare_writes(again);
                let types = types_of(&again.rewritten, &again.types);
                parse(&mut self.out, name, &again.texts.sent, &types);
            }
            None => parse(&mut self.out, name, &text, &types),
        }
        self.sent(Asked::Parse, Reading::Hidden, undo);
        Ok(again)
    }
}
