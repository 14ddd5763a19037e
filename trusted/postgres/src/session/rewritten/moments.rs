//! What moments hang on: when the transaction began, and the session's time zone.

use super::Requests;
use super::asked_parts::{begins_with, ends_transaction};
use crate::error::SqlError;
use crate::plan::{Source, Value};
use crate::text::behind_comments;
use crate::values::Asker;
use std::time::SystemTime;

/// May a statement give the session another time zone? Until it is done, none is known.
fn may_change_zone(statement: &str) -> bool {
    if !begins_with(statement, &["set", "reset", "discard", "select", "with", "do", "call"]) {
        return false;
    }
    let text = statement.to_ascii_lowercase();
    match begins_with(statement, &["reset", "discard"]) {
        true => text.contains("zone") || text.contains("all"),
        false if begins_with(statement, &["set"]) => text.contains("time") && text.contains("zone"),
        false => text.contains("set_config") && text.contains("zone"),
    }
}

/// Does a statement end a transaction, so that another may begin at once?
fn ends(statement: &str) -> bool {
    let statement = behind_comments(statement);
    let holds = |word: &str| statement.split_ascii_whitespace().any(|one| one.eq_ignore_ascii_case(word));
    // `ROLLBACK TO` a savepoint does not.
    (ends_transaction(statement) && !holds("to"))
        || (begins_with(statement, &["prepare"]) && holds("transaction") && !holds("as"))
}

impl Requests<'_> {
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

    /// A text is sent: if it ends a transaction, the next has begun.
    pub(super) fn note_end(&self, text: &[u8]) {
        let Ok(text) = std::str::from_utf8(text) else { return };
        if text.split(';').any(ends) {
            self.shared.state().began = Some(SystemTime::now());
        }
    }

    /// The same of one statement of a text, ahead of those behind it.
    pub(super) fn note_statement(&mut self, statement: &str) {
        if ends(statement) {
            self.shared.state().began = Some(SystemTime::now());
        }
        self.zone_in_doubt |= may_change_zone(statement);
    }
}

#[cfg(test)]
mod tests {
    use super::{ends, may_change_zone};

    #[test]
    fn what_ends_a_transaction_or_changes_the_zone_is_known() {
        for text in [
            "COMMIT",
            " commit and chain",
            "END",
            "Rollback work",
            "abort",
            "PREPARE TRANSACTION 't'",
            "-- to end with\n /* a /* nested */ one */ COMMIT",
        ] {
            assert!(ends(text), "{text}");
        }
        for text in
            ["ROLLBACK TO s", "rollback work to savepoint s", "SELECT 1", "INSERT INTO commit VALUES (1)"]
        {
            assert!(!ends(text), "{text}");
        }
        for text in [
            "SET TimeZone = 'UTC'",
            " set local time zone 5",
            "RESET ALL",
            "DISCARD ALL",
            "SELECT set_config('timezone', 'x', false)",
        ] {
            assert!(may_change_zone(text), "{text}");
        }
        for text in
            ["SET search_path = a", "SELECT now() AT TIME ZONE 'UTC'", "RESET search_path", "DISCARD PLANS"]
        {
            assert!(!may_change_zone(text), "{text}");
        }
    }
}
