//! The tables as the way to the database knows them.

use super::Requests;
use super::questions::{Question, array, lost};
use crate::catalog::{ASK_PLACES, COLUMNS, Catalog, Tables};
use crate::checks;
use crate::error::{SqlError, sqlstate};
use crate::pipeline::Asked;
use crate::plan::Planned;
use crate::replies;
use crate::rewriting::Rewriting;
use crate::session::BothWays;
use crate::session::reading::{Exchange, Reading, Rows};
use crate::text::behind_comments;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Prepared statements of a session that change tables, of which that is kept.
const PREPARED_CHANGES_MAX: usize = 1024;

/// How often the tables are read before a message, at most, where they change meanwhile.
const READINGS_MAX: usize = 3;

/// What a session has sent that changes tables, and when it could see them.
#[derive(Default)]
pub(super) struct Changes {
    /// Tables may have been made or changed by what was sent since they were looked at last.
    sent: bool,
    /// Which of them that are declared.
    unseen: Tables,
    /// Those that the last text changes.
    noted: BTreeSet<String>,
    /// What statements that are prepared change, by their names.
    prepared: BTreeMap<Vec<u8>, BTreeSet<String>>,
    /// How many times tables had been changed when it was last outside of a transaction for certain: what a snapshot may be of.
    snapshot: u64,
}

impl Changes {
    /// Does a prepared statement of this name change tables?
    pub(super) fn has_prepared(&self, name: &[u8]) -> bool {
        self.prepared.contains_key(name)
    }
}

/// Ends what a session was changing when it ends.
pub(super) struct Changing<'a>(pub(super) &'a BothWays, pub(super) &'a Rewriting);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.state().changes_end(u64::MAX, self.1);
    }
}

/// The tables as they were read.
pub(in crate::session) struct Known {
    /// How many times tables had been changed when the database was asked.
    asked: u64,
    /// How many of these times it shows, of declared ones.
    of: u64,
    catalog: Arc<Catalog>,
}

/// Is a text `SET TRANSACTION` alone? It comes before any query of its transaction, the proxy's own among them, and names no table.
pub(super) fn sets_transaction(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let text = behind_comments(text).trim_end();
    let text = text.strip_suffix(';').unwrap_or(text);
    let mut words = text.split_ascii_whitespace();
    let begins = ["set", "transaction"]
        .iter()
        .all(|word| words.next().is_some_and(|next| next.eq_ignore_ascii_case(word)));
    begins && !text.contains(';')
}

/// The word that a text begins with, behind comments.
pub(super) fn first_word(text: &str) -> &str {
    behind_comments(text).split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default()
}

/// Is a text one `LOCK`? It may come before the snapshot of its transaction is taken, which a question would take.
fn locks(text: &str) -> bool {
    let text = text.trim();
    first_word(text).eq_ignore_ascii_case("lock") && !text.strip_suffix(';').unwrap_or(text).contains(';')
}

/// Does a text begin as one that makes, changes or drops something?
pub(super) fn begins_with_a_change(text: &str) -> bool {
    let first = first_word(text);
    ["create", "alter", "drop", "do"].iter().any(|word| first.eq_ignore_ascii_case(word))
}

/// May a text of one statement change tables that it does not name: by code, or with what they belong to?
fn may_change_any(text: &str) -> bool {
    let first = first_word(text);
    let begins = |word: &str| first.eq_ignore_ascii_case(word);
    begins("do")
        || (begins("drop") && ["schema", "owned", "cascade"].iter().any(|word| holds_word(text, word)))
}

/// Is a word somewhere in a text, in letters of any case?
pub(super) fn holds_word(text: &str, word: &str) -> bool {
    text.as_bytes().windows(word.len()).any(|part| part.eq_ignore_ascii_case(word.as_bytes()))
}

/// Is a text one statement about the session or its transaction, whatever names it has within? It holds no semicolon but at its end.
pub(super) fn is_of_the_session(text: &str) -> bool {
    const WORDS: [&str; 12] = [
        "set",
        "reset",
        "discard",
        "show",
        "begin",
        "start",
        "commit",
        "end",
        "rollback",
        "abort",
        "savepoint",
        "release",
    ];
    let text = text.trim();
    let text = text.strip_suffix(';').unwrap_or(text);
    let first = first_word(text);
    !text.contains(';') && WORDS.iter().any(|word| first.eq_ignore_ascii_case(word))
}

impl Requests<'_> {
    /// The tables as they are now, with doubt of those of which that is not known.
    pub(super) async fn catalog(&mut self) -> Result<Arc<Catalog>, SqlError> {
        // What was on its way may have changed them meanwhile.
        for _ in 0..READINGS_MAX {
            if let Some(known) = self.known() {
                return Ok(known);
            }
            match self.read_catalog().await {
                // In a transaction that has failed nothing is read; what ends it is told by what was known.
                Err(error) if error.sqlstate == sqlstate::IN_FAILED_TRANSACTION && self.catalog.is_some() => {
                    break;
                }
                read => read?,
            }
            if self.catalog.as_ref().is_some_and(|known| self.behind(known).is_empty()) {
                break;
            }
        }
        Ok(self.catalog.as_ref().map(|known| self.in_doubt(known)).unwrap_or_default())
    }

    /// What is known of the tables; none if the database is to be asked.
    fn known(&mut self) -> Option<Arc<Catalog>> {
        let changes = self.rewriting.changes();
        let (stale, can_ask, is_outside) = {
            let state = self.shared.state();
            (state.changed_tables, state.can_ask(), state.is_outside())
        };
        if is_outside {
            self.changes.snapshot = changes;
        }
        let known = self.catalog.as_ref()?;
        let is_stale = stale || self.changes.sent || !self.changes.unseen.is_empty();
        let is_of_now = known.asked == changes && (known.of == changes || !is_outside);
        // What waits for more of the client's messages, or fails anyway, is read with what is known.
        ((is_of_now && !is_stale) || !can_ask).then(|| self.in_doubt(known))
    }

    /// Reads the tables; what was to be read of them still is, if that fails.
    async fn read_catalog(&mut self) -> Result<(), SqlError> {
        let sent = std::mem::take(&mut self.changes.sent);
        let unseen = std::mem::take(&mut self.changes.unseen);
        let was_changed = self.shared.state().changed_tables;
        let entered = self.behind.entered;
        let read = entered.done_there(self.ask_catalog()).await;
        if read.is_err() {
            self.changes.sent |= sent;
            self.changes.unseen.extend(unseen);
            self.shared.state().changed_tables |= was_changed;
        }
        read
    }

    async fn ask_catalog(&mut self) -> Result<(), SqlError> {
        let asked = self.rewriting.changes();
        let is_outside = self.shared.state().is_outside();
        let mut rows = self.ask(&format!("SHOW default_transaction_isolation; {COLUMNS}")).await?;
        if let [Some(level)] = rows.first().map(Vec::as_slice).unwrap_or_default() {
            self.sees_the_past |= !level.starts_with("read ");
            rows.remove(0);
        }
        let mut catalog = self.rewriting.catalog(rows);
        self.compare_checks(&mut catalog).await?;
        self.compare_places(&mut catalog).await?;
        let catalog = self.rewriting.catalogs.shared(catalog);
        // Read in the snapshot of a transaction, it is of its time.
        let of = if self.sees_the_past && !is_outside { asked.min(self.changes.snapshot) } else { asked };
        self.catalog = Some(Known { asked, of, catalog });
        Ok(())
    }

    /// Has statements refused on columns that were made under other keys.
    async fn compare_checks(&mut self, catalog: &mut Catalog) -> Result<(), SqlError> {
        if !catalog.keeps_checks() || catalog.checked().next().is_none() {
            return Ok(());
        }
        let rows = self.ask(checks::ASK).await?;
        let text =
            |row: Vec<Option<String>>| row.into_iter().collect::<Option<Vec<String>>>()?.try_into().ok();
        let kept: Vec<[String; 6]> = rows.into_iter().filter_map(text).collect();
        let missing = catalog.compare_checks(&kept);
        if !missing.is_empty() {
            let misfits = self.rewriting.enter_checks(missing).await;
            catalog.refuse(misfits);
        }
        Ok(())
    }

    /// Has statements refused on tables whose labels are not known to the database.
    async fn compare_places(&mut self, catalog: &mut Catalog) -> Result<(), SqlError> {
        if !catalog.keeps_places() || catalog.places().is_empty() {
            return Ok(());
        }
        let rows = self.ask(ASK_PLACES).await?;
        let text =
            |row: Vec<Option<String>>| row.into_iter().collect::<Option<Vec<String>>>()?.try_into().ok();
        let there: Vec<[String; 4]> = rows.into_iter().filter_map(text).collect();
        catalog.compare_places(&there, &self.rewriting.not_set_anew());
        Ok(())
    }

    /// Declared tables that have changed, or may have, since a catalogue was read.
    fn behind(&self, known: &Known) -> BTreeSet<String> {
        let state = self.shared.state();
        let own = state.changing.as_ref().map(|(_, names)| names);
        let mut behind = self.rewriting.tables.behind(known.of, own);
        if state.status == b'E' {
            behind.extend(own.into_iter().flatten().cloned());
        }
        behind
    }

    /// The tables once more, if a text names relations that were not known and are views or parts of tables: made by a function of the session's own, or
    /// by others at the database.
    pub(super) async fn with_new_views(
        &mut self,
        text: &str,
        catalog: Arc<Catalog>,
    ) -> Result<Arc<Catalog>, SqlError> {
        if is_of_the_session(text) || locks(text) || !crate::rewrite::may_name_unknown(text, &catalog) {
            return Ok(catalog);
        }
        // What goes on as it is needs no room: it is searched roughly where it is long, or might be read otherwise than PostgreSQL does.
        let is_readable = self.shared.state().settings.require_readable().is_ok();
        let goes_on = !catalog.sensitive().may_be_in(text, catalog.is_shown());
        let is_read = is_readable && !(goes_on && Rewriting::may_count(text));
        if !is_read && !goes_on {
            return Ok(catalog);
        }
        let names = {
            let _room = if is_read { self.room_to_read(text, &catalog).await? } else { None };
            crate::rewrite::unknown_relations(text, &catalog, is_read)
        };
        if names.is_empty() || !self.shared.state().can_ask() {
            return Ok(catalog);
        }
        let views = self.ask_of(Question::Views, &[array(names.iter().map(String::as_str))]).await?;
        if views.is_empty() {
            return Ok(catalog);
        }
        self.shared.state().changed_tables = true;
        self.catalog().await
    }

    /// A catalogue that was read, with doubt of those that may be others now.
    fn in_doubt(&self, known: &Known) -> Arc<Catalog> {
        let mut doubted = Tables::Of(self.behind(known));
        doubted.extend(self.changes.unseen.clone());
        if doubted.is_empty() {
            return Arc::clone(&known.catalog);
        }
        let mut catalog = Catalog::clone(&known.catalog);
        catalog.doubt(doubted);
        Arc::new(catalog)
    }

    /// Nothing is noted of the next text yet.
    pub(super) fn note_nothing(&mut self) {
        self.changes.noted.clear();
    }

    /// Has something been sent that may make what is not there?
    pub(super) fn has_sent_changes(&self) -> bool {
        self.changes.sent
    }

    /// May the transaction that is under way have changed tables?
    pub(super) fn is_changed(&self) -> bool {
        let state = self.shared.state();
        state.changing_tables || state.changing.is_some() || self.changes.sent
    }

    /// Notes what a text changes that is about to be sent.
    pub(super) fn note_changes(&mut self, text: &str, planned: &[Planned], catalog: &Catalog) {
        let takes_back = |word: &str| holds_word(text, word);
        let own = self.shared.state().changing.as_ref().map(|(_, names)| names.clone());
        if let (Some(own), true) = (own, ["rollback", "abort", "commit"].into_iter().any(takes_back)) {
            self.changes.sent = true;
            self.changes.unseen.extend(Tables::Of(own));
        }
        self.changes.sent |= begins_with_a_change(text);
        if may_change_any(text) {
            self.changes.unseen = Tables::All;
        }
        let mut changes = Tables::default();
        planned.iter().for_each(|one| changes.extend(one.changes.clone()));
        self.changes.sent |= !changes.is_empty();
        match changes.only(|name| catalog.sensitive().holds(name)) {
            Tables::All => self.changes.unseen = Tables::All,
            Tables::Of(names) => {
                self.changes.noted.clone_from(&names);
                self.begin_changes(names);
            }
        }
    }

    /// Keeps what the last text changes, which is prepared under a name.
    pub(super) fn keep_changes(&mut self, name: &[u8]) {
        self.changes.prepared.remove(name);
        let noted = std::mem::take(&mut self.changes.noted);
        if !name.is_empty() && !noted.is_empty() && self.changes.prepared.len() < PREPARED_CHANGES_MAX {
            self.changes.prepared.insert(name.to_vec(), noted);
        }
    }

    /// Notes what a prepared statement changes that is about to be bound.
    pub(super) fn note_prepared(&mut self, name: &[u8]) {
        if let Some(names) = self.changes.prepared.get(name).cloned() {
            self.begin_changes(names);
        }
    }

    /// Declared tables' columns are about to be changed.
    fn begin_changes(&mut self, names: BTreeSet<String>) {
        if names.is_empty() {
            return;
        }
        self.changes.unseen.extend(Tables::Of(names.clone()));
        let mut state = self.shared.state();
        let (last, changing) = state.changing.get_or_insert_default();
        *last = self.number + 1;
        for name in names {
            if !changing.contains(&name) {
                self.rewriting.changes_begin(&name);
                changing.insert(name);
            }
        }
    }

    /// Asks the database something of the proxy's own. Tables that had changed before are still to be read, if that fails.
    async fn ask(&mut self, statement: &str) -> Result<Rows, SqlError> {
        let was_changed = std::mem::take(&mut self.shared.state().changed_tables);
        let answer = self.answer(statement).await;
        self.shared.state().changed_tables |= was_changed && answer.is_err();
        answer
    }

    async fn answer(&mut self, statement: &str) -> Result<Rows, SqlError> {
        let (exchange, answered) = Exchange::new(false);
        self.sent(Asked::Query, Reading::Own(Box::new(exchange)), None);
        replies::message(&mut self.out, b'Q', |out| replies::string(out, statement.as_bytes()));
        self.write().await.map_err(|_| lost())?;
        answered.await.map_err(|_| lost())?.map(|answer| answer.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_the_session_alone_is_known() {
        for text in
            ["SET client_encoding = 'UTF8';", " rollback", "reset ALL", "Discard all", "SAVEPOINT clients"]
        {
            assert!(is_of_the_session(text), "{text}");
        }
        for text in [
            "SET a = 'x\\'; INSERT INTO t VALUES (1)",
            "settle",
            "",
            "SELECT 1",
            "INSERT INTO sets VALUES (1)",
        ] {
            assert!(!is_of_the_session(text), "{text}");
        }
    }

    #[test]
    fn what_changes_tables_is_known_behind_comments() {
        for text in ["DO $$ BEGIN END $$", "-- a; b\ndo 1", "/* /* c */ */ DROP SCHEMA s CASCADE"] {
            assert!(begins_with_a_change(text) && may_change_any(text), "{text}");
        }
        for text in ["-- DO 1", "/* DO */ SELECT 1", "done"] {
            assert!(!begins_with_a_change(text) && !may_change_any(text), "{text}");
        }
    }

    #[test]
    fn what_sets_a_transaction_s_level_alone_is_known() {
        assert!(sets_transaction(b" set  TRANSACTION isolation level serializable ; "));
        assert!(sets_transaction(b"/* of a tool */ SET TRANSACTION READ ONLY"));
        for other in
            ["SET TRANSACTION READ ONLY; SELECT 1", "SET x = 1", "SELECT 1", "", "set transactional = 1"]
        {
            assert!(!sets_transaction(other.as_bytes()), "{other}");
        }
    }
}
