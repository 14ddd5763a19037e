//! What the texts that a client sends do to moments behind them: they end transactions, and change the time zone.

use super::super::asked_parts::begins_with;
use crate::text::{Lexemes, statements};
use aho_corasick::AhoCorasick;
use std::sync::LazyLock;

/// One of these is in every text that matters here, as far as a text shows it.
const WORDS: [&str; 11] = [
    "commit",
    "end",
    "rollback",
    "abort",
    "prepare",
    "zone",
    "reset",
    "discard",
    "execute",
    "set_config",
    "pg_settings",
];
/// Where in that list those begin that are about the time zone.
const OF_ZONE: usize = 5;

/// Longer texts are not read for this: one statement is known by how it begins, several leave a doubt.
const READ_MAX: usize = 16 << 10;

static WORDS_OF: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| AhoCorasick::builder().ascii_case_insensitive(true).build(WORDS).ok());

/// What statements do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turns {
    /// A transaction ends, so that another may begin at once.
    pub(super) ends: bool,
    /// It goes back to a savepoint.
    pub(super) goes_back: bool,
    /// The session may be in another time zone: what the database says of that comes when it waits again.
    pub(super) zone: bool,
    /// Something is prepared in SQL that does that when it is executed.
    pub(super) prepares_zone: bool,
    /// What was prepared in SQL is executed.
    pub(super) executes: bool,
}

impl Turns {
    /// Those of a text.
    pub(super) fn of(text: &str) -> Self {
        let Some(words) = WORDS_OF.as_ref().filter(|words| words.is_match(text)) else {
            return Self::default();
        };
        if text.len() > READ_MAX {
            let is_one = !text.trim_end().trim_end_matches(';').contains(';');
            let of_zone = || words.find_iter(text).any(|found| found.pattern().as_usize() >= OF_ZONE);
            return if is_one { Self::of_long(text) } else { Self { zone: of_zone(), ..Self::default() } };
        }
        let found = statements(text).unwrap_or_default();
        found.iter().map(|statement| Self::of_one(statement, text)).fold(Self::default(), |all, one| Self {
            ends: all.ends || one.ends,
            goes_back: all.goes_back || one.goes_back,
            zone: all.zone || one.zone,
            prepares_zone: all.prepares_zone || one.prepares_zone,
            executes: all.executes || one.executes,
        })
    }

    fn of_one(statement: &Lexemes, text: &str) -> Self {
        let begins = |words: &[&str]| words.iter().any(|word| statement.is_word(0, word));
        let has_to = || (1..statement.list.len()).any(|at| statement.is_word(at, "to"));
        let ends = begins(&["commit", "end", "rollback", "abort"]);
        let goes_back = ends && has_to();
        let prepares_transaction =
            begins(&["prepare"]) && statement.is_word(1, "transaction") && !statement.is_word(2, "as");
        let own = text.get(statement.span()).unwrap_or_default().to_ascii_lowercase();
        let prepares = begins(&["prepare"]);
        let zone = changes_zone(&own, |word| statement.is_word(0, word));
        Self {
            ends: (ends && !goes_back) || prepares_transaction,
            goes_back,
            zone: zone && !prepares,
            prepares_zone: zone && prepares,
            executes: begins(&["execute"]) || (begins(&["explain"]) && own.contains("execute")),
        }
    }

    /// The same of one long statement.
    fn of_long(text: &str) -> Self {
        let begin: String = text.chars().take(READ_MAX / 4).collect::<String>().to_ascii_lowercase();
        let own = crate::text::behind_comments(&begin);
        let has_to = || own.split(|letter: char| !letter.is_ascii_alphabetic()).nth(1) == Some("to");
        let begins = |word: &str| begins_with(text, &[word]);
        let ends = ["commit", "end", "rollback", "abort"].iter().any(|word| begins(word));
        let goes_back = ends && has_to();
        let holds = |word: &str| {
            let of = WORDS.iter().position(|one| *one == word);
            WORDS_OF.as_ref().is_some_and(|words| {
                words.find_iter(text).any(|found| Some(found.pattern().as_usize()) == of)
            })
        };
        let sets = ["set_config", "pg_settings"].iter().any(|word| holds(word));
        Self {
            ends: ends && !goes_back,
            goes_back,
            zone: sets || changes_zone(own, begins),
            prepares_zone: false,
            executes: begins("execute") || begins("explain"),
        }
    }
}

/// May a statement, in small letters, give the session another time zone?
fn changes_zone(own: &str, begins: impl Fn(&str) -> bool) -> bool {
    let of_settings = own.contains("set_config") || own.contains("pg_settings");
    match () {
        () if begins("set") => own.contains("time") && own.contains("zone"),
        () if begins("reset") || begins("discard") => own.contains("zone") || own.contains("all"),
        // What is named within it may be more.
        () if begins("do") => of_settings || own.contains("zone"),
        () => of_settings,
    }
}

#[cfg(test)]
mod tests {
    use super::{READ_MAX, Turns};

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
            "DO $$ BEGIN SET TimeZone = 'UTC'; END $$",
            "UPDATE pg_settings SET setting = 'UTC' WHERE name = 'TimeZone'",
            "SELECT set_config(name, 'UTC', false) FROM pg_settings",
        ] {
            assert!(Turns::of(text).zone, "{text}");
        }
        for text in [
            "SET search_path = a",
            "SELECT now() AT TIME ZONE 'UTC'",
            "RESET search_path",
            "DISCARD PLANS",
            "SELECT 1 -- reset all",
            "EXECUTE z",
            "DO $$ BEGIN PERFORM 1; END $$",
        ] {
            assert!(!Turns::of(text).zone, "{text}");
        }
    }

    #[test]
    fn what_is_prepared_in_sql_changes_the_zone_when_it_is_executed() {
        let prepared = Turns::of("PREPARE z AS SELECT set_config('TimeZone', 'UTC', false)");
        assert!(prepared.prepares_zone && !prepared.zone);
        for text in ["EXECUTE z", "explain analyze execute z"] {
            assert!(Turns::of(text).executes, "{text}");
        }
        assert!(!Turns::of("SELECT 'execute'").executes);
        assert!(Turns::of("ROLLBACK TO SAVEPOINT s").goes_back);
    }

    #[test]
    fn long_texts_are_known_by_how_they_begin() {
        let long = |begin: &str, end: &str| format!("{begin} {}{end}", "x ".repeat(READ_MAX));
        let turns = Turns::of(&long("INSERT INTO t (ended, said) VALUES ('the weekend')", ";"));
        assert_eq!(turns, Turns::default());
        assert!(Turns::of(&long("COMMIT AND CHAIN /*", "*/")).ends);
        assert!(Turns::of(&long("ROLLBACK TO s --", "")).goes_back);
        assert!(Turns::of(&long("SET TimeZone = 'UTC'; INSERT INTO t VALUES ('", "')")).zone);
        assert!(Turns::of(&long("SELECT set_config('TimeZone', 'UTC', false) --", "")).zone);
    }
}
