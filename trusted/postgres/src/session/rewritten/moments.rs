//! What moments hang on: when the transaction and the statement began, and the session's time zone.

use super::Requests;
use crate::error::SqlError;
use crate::plan::{Source, Value};
use crate::text::{Lexemes, statements};
use crate::values::Asker;
use aho_corasick::AhoCorasick;
use std::sync::LazyLock;
use std::time::SystemTime;

/// One of these is in every text that ends a transaction or changes the time zone, as far as a text shows it.
const WORDS: [&str; 9] =
    ["commit", "end", "rollback", "abort", "prepare", "zone", "reset", "discard", "execute"];

/// Longer texts are not read for this: of the time zone they leave a doubt.
const READ_MAX: usize = 16 << 10;

static HOLDS_WORD: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(WORDS).ok());

/// What statements that were sent do to moments behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turns {
    /// A transaction ends, so that another may begin at once.
    ends: bool,
    /// The session may be in another time zone: what the database says of that comes when it waits again.
    zone: bool,
}

/// Statements that may change the time zone.
#[derive(Debug, Default)]
pub(super) struct ZoneChanges {
    /// Is one among those that were sent, or are about to be, for the message that is worked on?
    pub(super) are_sent: bool,
    /// Is the one prepared without a name one?
    unnamed: bool,
    /// Is one that was prepared under a name?
    named: bool,
}

impl ZoneChanges {
    /// May one be prepared?
    pub(super) fn may_be_prepared(&self) -> bool {
        self.unnamed || self.named
    }
}

impl Turns {
    /// Those of a text.
    fn of(text: &str) -> Self {
        if HOLDS_WORD.as_ref().is_some_and(|words| !words.is_match(text)) {
            return Self::default();
        }
        if text.len() > READ_MAX {
            return Self { ends: false, zone: true };
        }
        let found = statements(text).unwrap_or_default();
        let one =
            |statement: &Lexemes| Self { ends: ends(statement), zone: may_change_zone(statement, text) };
        found
            .iter()
            .map(one)
            .fold(Self::default(), |all, one| Self { ends: all.ends || one.ends, zone: all.zone || one.zone })
    }
}

/// Does a statement end a transaction?
fn ends(statement: &Lexemes) -> bool {
    let begins = |words: &[&str]| words.iter().any(|word| statement.is_word(0, word));
    // `ROLLBACK TO` a savepoint does not.
    let goes_back = || (1..statement.list.len()).any(|at| statement.is_word(at, "to"));
    let prepares = || {
        statement.is_word(0, "prepare") && statement.is_word(1, "transaction") && !statement.is_word(2, "as")
    };
    (begins(&["commit", "end", "rollback", "abort"]) && !goes_back()) || prepares()
}

/// May a statement give the session another time zone?
fn may_change_zone(statement: &Lexemes, text: &str) -> bool {
    let begins = |word: &str| statement.is_word(0, word);
    let own = text.get(statement.span()).unwrap_or_default().to_ascii_lowercase();
    match () {
        () if begins("set") => own.contains("time") && own.contains("zone"),
        () if begins("reset") || begins("discard") => own.contains("zone") || own.contains("all"),
        // It was prepared, and may be anything.
        () if begins("execute") || begins("explain") => own.contains("execute") || own.contains("set_config"),
        () => own.contains("set_config") && own.contains("zone"),
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
            true => self.zone_changes.named |= turns.zone,
            false => self.zone_changes.unnamed = turns.zone,
        }
    }

    fn turn(&mut self, turns: Turns) {
        let mut state = self.shared.state();
        if turns.ends {
            state.began = Some(state.came);
        }
        let goes_back = turns.ends && state.settings.set_zone();
        drop(state);
        self.zone_changes.are_sent |= turns.zone || goes_back;
    }
}

#[cfg(test)]
mod tests {
    use super::Turns;

    #[test]
    fn what_ends_a_transaction_is_known_wherever_it_stands() {
        for text in [
            "COMMIT",
            " commit and chain;",
            "END",
            "Rollback work",
            "abort",
            "PREPARE TRANSACTION 't'",
            "-- to; end\n /* a /* nested; */ one */ COMMIT AND CHAIN -- back to work",
            "COMMIT /* to */ AND CHAIN",
            "SELECT ';'; COMMIT",
        ] {
            assert!(Turns::of(text).ends, "{text}");
        }
        for text in [
            "ROLLBACK TO s",
            "rollback work to savepoint s",
            "ROLLBACK/**/TO s",
            "ROLLBACK TO\"s\"",
            "SELECT 1",
            "INSERT INTO commit VALUES (1)",
            "DO $$ BEGIN PERFORM 1; END $$",
            "SELECT ';end'",
            "SELECT 1 -- ;commit",
            "/* ; commit */ SELECT 1",
            "COMMENT ON TABLE t IS '; commit'",
            "PREPARE q (int)AS SELECT 'a transaction is'",
            "PREPARE transaction AS SELECT 1",
        ] {
            assert!(!Turns::of(text).ends, "{text}");
        }
    }

    #[test]
    fn what_may_change_the_time_zone_is_known() {
        for text in [
            "SET TimeZone = 'UTC'",
            " set local time zone 5",
            "RESET ALL",
            "DISCARD ALL",
            "SELECT set_config('timezone', 'x', false)",
            "(SELECT set_config('TimeZone', 'x', false))",
            "VALUES (set_config('TimeZone', 'x', false))",
            "EXECUTE z",
            "EXPLAIN ANALYZE EXECUTE z",
        ] {
            assert!(Turns::of(text).zone, "{text}");
        }
        for text in [
            "SET search_path = a",
            "SELECT now() AT TIME ZONE 'UTC'",
            "RESET search_path",
            "DISCARD PLANS",
            "SELECT 1 -- reset all",
        ] {
            assert!(!Turns::of(text).zone, "{text}");
        }
    }
}
