//! What becomes of a text.

use super::super::kept::may_be_closed_by;
use super::zones::planned_may_need_zone;
use super::{Requests, tables};
use crate::catalog::Catalog;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Action, Planned};
use crate::rewriting::Rewriting;
use crate::room::Share;
use std::sync::Arc;
use tokio::runtime::{Handle, RuntimeFlavor};

/// What every statement names that gives transactions an isolation level.
const ISOLATION: &[u8] = b"isolation";

/// Does work that takes time, which other sessions of this thread are not to wait for where there are other threads.
fn apart<T>(work: impl FnOnce() -> T) -> T {
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::MultiThread => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// Is it refused as it names a table or column that is not there?
fn names_nothing(planned: &Planned) -> bool {
    let codes = [sqlstate::UNDEFINED_COLUMN, sqlstate::UNDEFINED_TABLE];
    matches!(&planned.action, Action::Refused(error) if codes.contains(&error.sqlstate))
}

impl Requests<'_> {
    /// Plans a text; `is_long`: it takes time.
    fn plan_by(&self, text: &str, catalog: &Catalog, is_long: bool) -> Result<Vec<Planned>, SqlError> {
        let is_changed = self.is_changed();
        let state = self.shared.state();
        let plan = || crate::rewrite::plan_in(text, catalog, (&state.names.in_text(text), is_changed));
        if is_long { apart(plan) } else { plan() }
    }

    /// Room for a text that is read and takes some.
    pub(super) async fn room_to_read(
        &self,
        text: &str,
        catalog: &Catalog,
    ) -> Result<Option<Share>, SqlError> {
        let is_read = Rewriting::may_count(text)
            && crate::rewrite::is_read(text, catalog, &self.shared.state().names.in_text(text));
        if !is_read {
            return Ok(None);
        }
        self.behind.entered.unless_cancelled(self.rewriting.read(text)).await
    }

    /// Refuses what shows days and moments as the session does not ask for them.
    fn require_dates(&self, planned: &mut [Planned]) {
        let state = self.shared.state();
        for one in planned {
            if let Err(error) = state.settings.require_dates(&one.action) {
                (one.action, one.naming) = (Action::Refused(error), None);
            }
        }
    }

    /// Has what is named in SQL be known where a text may name it: when what names it is complete.
    async fn await_names(&mut self, text: &[u8]) -> Result<(), SqlError> {
        if !crate::rewrite::may_name(&String::from_utf8_lossy(text))
            || self.shared.state().pipeline.is_empty()
        {
            return Ok(());
        }
        self.answered().await
    }

    /// What becomes of a text; `None` if it goes on as it is. `kept`: under a name of the protocol.
    pub(super) async fn plan<'t>(
        &mut self,
        text: &'t [u8],
        kept: bool,
    ) -> Result<Option<(&'t str, Vec<Planned>)>, SqlError> {
        self.note_nothing();
        if may_be_closed_by(text) {
            self.may_keep = false;
        }
        self.await_names(text).await?;
        self.sees_the_past |= text.windows(ISOLATION.len()).any(|part| part.eq_ignore_ascii_case(ISOLATION));
        if tables::sets_transaction(text) {
            return Ok(None);
        }
        let mut catalog = self.catalog().await?;
        let Ok(text) = std::str::from_utf8(text) else {
            return Err(SqlError::new(sqlstate::CHARACTER_NOT_IN_REPERTOIRE, "the statement is not UTF-8"));
        };
        catalog = self.with_new_views(text, catalog).await?;
        catalog = self.with_new_parts(text, catalog).await?;
        if catalog.has_misfit_in(text) {
            // It may have been mended at the database, of which nothing is heard here.
            self.shared.state().changed_tables = true;
            catalog = self.catalog().await?;
        }
        if catalog.sensitive().may_be_in(text, false) && !tables::is_of_the_session(text) {
            // Read otherwise than PostgreSQL reads it, it might seem to name none.
            self.shared.state().settings.require_readable()?;
        }
        let room = self.room_to_read(text, &catalog).await?;
        let mut planned = self.plan_by(text, &catalog, room.is_some())?;
        if planned.iter().any(names_nothing) {
            // It may have been made at the database, of which nothing is heard here.
            self.shared.state().changed_tables = true;
            catalog = self.catalog().await?;
            if self.shared.state().changed_tables && self.has_sent_changes() {
                // It cannot be asked, and what is on its way may make what is named.
                Arc::make_mut(&mut catalog).doubt(crate::catalog::Tables::All);
            }
            planned = self.plan_by(text, &catalog, room.is_some())?;
        }
        // What is left waits for the database, and others' statements must not wait for that.
        drop(room);
        self.require_dates(&mut planned);
        self.learn_zone(|| planned_may_need_zone(text, &planned)).await?;
        self.note_changes(text, &planned, &catalog);
        self.note_prepares(&planned);
        self.names_in_sql |= planned.iter().any(|one| one.naming.is_some());
        for one in &mut planned {
            self.settle(text, one, kept).await;
        }
        let as_whole = |one: &Planned| {
            one.action == Action::Unchanged && one.naming.is_none() && one.span == (0..text.len())
        };
        if planned.iter().all(as_whole) {
            return Ok(None);
        }
        if !tables::is_of_the_session(text) {
            self.shared.state().settings.require_readable()?;
        }
        self.behind.require_orders(&planned)?;
        let unchanged = planned.iter().all(|one| one.action == Action::Unchanged);
        Ok((!unchanged).then_some((text, planned)))
    }
}
