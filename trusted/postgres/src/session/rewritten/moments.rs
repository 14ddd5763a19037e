//! What moments hang on: when the transaction and the statement began, and the session's time zone.

mod turns;

use super::Requests;
use crate::error::SqlError;
use crate::plan::{Source, Value};
use crate::values::Asker;
use std::time::SystemTime;
use turns::Turns;

/// Statements that may change the time zone.
#[derive(Debug, Default)]
pub(super) struct ZoneChanges {
    /// Is one among those that were sent, or are about to be, for the message that is worked on?
    pub(super) are_sent: bool,
    /// Is the one prepared without a name one?
    unnamed: bool,
    /// Is one that was prepared under a name?
    named: bool,
    /// Is one that was prepared in SQL?
    in_sql: bool,
}

impl ZoneChanges {
    /// May one be prepared in the protocol?
    pub(super) fn may_be_prepared(&self) -> bool {
        self.unnamed || self.named
    }
}

impl Requests<'_> {
    /// A message came.
    pub(super) fn came(&mut self, kind: u8) {
        let are_executed = kind == b'E' && self.zone_changes.may_be_prepared();
        let were_sent = std::mem::replace(&mut self.zone_changes.are_sent, are_executed);
        let mut state = self.shared.state();
        // What was answered has said which zone it is.
        if were_sent && !state.pipeline.is_empty() {
            state.zone_doubted = Some(self.number);
        }
        if matches!(kind, b'Q' | b'P' | b'B' | b'E') {
            state.came = SystemTime::now();
        }
    }

    /// What of the session matters to some values: if there are moments among them, when what was sent is answered.
    ///
    /// # Errors
    /// The database is gone.
    pub(in crate::session) async fn asker_of(&mut self, values: &[Value]) -> Result<Asker, SqlError> {
        let has_moments = values.iter().any(|value| matches!(value.source, Source::Moment(_)));
        if has_moments && !self.shared.state().pipeline.is_empty() {
            self.answered().await?;
        }
        Ok(self.orders())
    }

    /// A text is sent by the next message.
    pub(super) fn note_turns(&mut self, text: &[u8]) {
        if let Ok(text) = std::str::from_utf8(text) {
            self.turn(Turns::of(text));
        }
    }

    /// A text is prepared by the next message, under a name or not.
    pub(super) fn note_prepared_turns(&mut self, text: &[u8], is_named: bool) {
        let turns = std::str::from_utf8(text).map(Turns::of).unwrap_or_default();
        self.turn(turns);
        match is_named {
            true => self.zone_changes.named |= turns.zone || turns.executes,
            false => self.zone_changes.unnamed = turns.zone || turns.executes,
        }
    }

    fn turn(&mut self, turns: Turns) {
        let mut state = self.shared.state();
        if turns.ends {
            state.began = Some(state.came);
        }
        let is_set_back = (turns.ends || turns.goes_back) && state.settings.set_zone();
        drop(state);
        self.zone_changes.in_sql |= turns.prepares_zone;
        let executes = turns.executes && self.zone_changes.in_sql;
        self.zone_changes.are_sent |= turns.zone || executes || is_set_back;
    }
}
