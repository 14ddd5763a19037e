//! Parts of declared tables that were made past the proxy: before a text goes on that names relations which are not declared, and before
//! a statement is bound that does, the database is asked whether one of them is such a part. Only names are sent.

use super::questions::{Question, array};
use super::{Requests, tables};
use crate::catalog::{Catalog, is_part};
use crate::error::{SqlError, sqlstate};
use crate::fields::{Bind, query};
use crate::rewrite::{Means, Relation, may_mean, means};
use crate::rewriting::Rewriting;
use crate::session::names::cut;
use crate::session::reading::Reading;
use crate::text::{name_of, statements};
use sqlparser::tokenizer::Token;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Prepared statements of a session of which it is kept for each what it means; of others, what they mean together.
const STATEMENTS_MAX: usize = 4096;
/// Relations that are kept of a session's prepared statements.
const RELATIONS_MAX: usize = 64 * 1024;

/// A table, by schema and name.
type Table = (String, String);

/// What the statements of a session mean that is not declared.
#[derive(Default)]
pub(super) struct Meant {
    /// Of the last text, with what it executes.
    last: BTreeSet<Relation>,
    /// May the last text end a transaction?
    may_end: bool,
    statements: BTreeMap<Box<[u8]>, BTreeSet<Relation>>,
    /// Of those that are too many.
    others: BTreeSet<Relation>,
    /// How many there are in these.
    kept: usize,
    /// Statements that were asked about since the client synchronised last, with none between them that is not among these and may end
    /// a transaction. What they mean is locked by them from then on.
    asked: BTreeSet<Box<[u8]>>,
    /// Statements that are being closed, and what turns true when the database says so.
    closing: Vec<(Box<[u8]>, Arc<AtomicBool>)>,
}

impl Meant {
    /// Does a prepared statement of this name mean relations that are to be asked about?
    pub(super) fn has(&self, name: &[u8]) -> bool {
        !self.others.is_empty() || (!self.statements.is_empty() && self.statements.contains_key(cut(name)))
    }

    /// A message comes.
    pub(super) fn before(&mut self, kind: u8, body: &[u8]) {
        let is_asked = |(_, statement): (&[u8], &[u8])| self.asked.contains(cut(statement));
        let may_end = match kind {
            b'S' | b'Q' => true,
            b'B' => !self.asked.is_empty() && !Bind::names(body).is_some_and(is_asked),
            _ => false,
        };
        if may_end {
            self.asked.clear();
        }
    }

    /// A statement is closed; how it is heard that it was, if it means something.
    pub(super) fn close(&mut self, name: &[u8]) -> Option<Reading> {
        if !self.statements.contains_key(cut(name)) || self.closing.len() >= STATEMENTS_MAX {
            return None;
        }
        let closed = Arc::new(AtomicBool::new(false));
        self.closing.push((cut(name).into(), Arc::clone(&closed)));
        Some(Reading::Closed(closed))
    }

    /// What the database has said is closed, and nothing was prepared under its name since, means nothing any more. `is_answered`:
    /// everything that was sent is.
    fn forget_closed(&mut self, is_answered: bool) {
        for (name, closed) in std::mem::take(&mut self.closing) {
            match closed.load(Ordering::Acquire) {
                true => self.forget(&name),
                false if is_answered => {}
                false => self.closing.push((name, closed)),
            }
        }
    }

    /// What a statement of this name means was asked about.
    fn has_asked(&mut self, name: &[u8]) {
        if self.asked.len() < STATEMENTS_MAX {
            self.asked.insert(cut(name).into());
        }
    }

    fn of(&self, name: &[u8]) -> BTreeSet<Relation> {
        self.statements.get(cut(name)).unwrap_or(&self.others).clone()
    }

    /// A statement of this name may be prepared; the one that had the name may still have it.
    ///
    /// # Errors
    /// 53200 if the session's statements mean too much to be kept.
    fn add(&mut self, name: &[u8], relations: &BTreeSet<Relation>) -> Result<(), SqlError> {
        if relations.is_empty() {
            return Ok(());
        }
        self.closing.retain(|(closing, _)| **closing != *cut(name));
        let is_known = self.statements.contains_key(cut(name));
        let kept = match is_known || name.is_empty() || self.statements.len() < STATEMENTS_MAX {
            true => self.statements.entry(cut(name).into()).or_default(),
            false => &mut self.others,
        };
        let new = relations.difference(kept).count();
        if self.kept + new > RELATIONS_MAX {
            let message = "the session's prepared statements name too many tables for the proxy";
            return Err(SqlError::new("53200", message).hint("DEALLOCATE some."));
        }
        self.kept += new;
        kept.extend(relations.iter().cloned());
        Ok(())
    }

    /// The prepared statement of this name is gone.
    fn forget(&mut self, name: &[u8]) {
        let relations = self.statements.remove(cut(name));
        self.kept = self.kept.saturating_sub(relations.map_or(0, |relations| relations.len()));
    }

    /// All are gone; the unnamed one stays.
    fn forget_all(&mut self) {
        self.statements.retain(|name, _| name.is_empty());
        self.others.clear();
        self.kept = self.statements.values().map(BTreeSet::len).sum();
    }
}

/// What nothing but the end of a transaction that has failed is told, in PostgreSQL's words.
fn has_failed() -> SqlError {
    let message = "current transaction is aborted, commands ignored until end of transaction block";
    SqlError::new(sqlstate::IN_FAILED_TRANSACTION, message)
}

/// Does a text begin with one of these words?
pub(super) fn begins_with(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| tables::first_word(text).eq_ignore_ascii_case(word))
}

/// May a text end a transaction?
fn may_end_transaction(text: &str) -> bool {
    const WORDS: [&str; 9] =
        ["commit", "end", "rollback", "abort", "prepare", "release", "savepoint", "call", "do"];
    text.split(';').any(|text| begins_with(text, &WORDS) || text.trim_start().starts_with(['-', '/']))
}

/// Does a text begin with the end of a transaction?
pub(super) fn ends_transaction(text: &str) -> bool {
    begins_with(text, &["commit", "end", "rollback", "abort"])
}

/// What a text closes that is nothing but a `DEALLOCATE` or a `DISCARD ALL`: one prepared statement, or all; none if it is another.
fn closed_by(text: &str) -> Option<Option<String>> {
    if !begins_with(text, &["deallocate", "discard"]) {
        return None;
    }
    let statements = statements(text).ok()?;
    let [statement] = statements.as_slice() else { return None };
    if statement.is_word(0, "discard") {
        return (statement.is_word(1, "all") && statement.list.len() == 2).then_some(None);
    }
    // PREPARE is a word before a name, or a name.
    let last = statement.list.len().checked_sub(1)?;
    let is_whole = last == 1 || (last == 2 && statement.is_word(1, "prepare"));
    match statement.token(last) {
        _ if !is_whole => None,
        _ if statement.is_word(last, "all") => Some(None),
        Some(Token::Word(word)) => Some(Some(name_of(word))),
        _ => None,
    }
}

impl Requests<'_> {
    /// A message comes. A text that closes prepared statements closes what they mean, if nothing that was sent before it can have it
    /// passed over, and it is not refused.
    pub(super) fn meant_before(&mut self, kind: u8, body: &[u8]) {
        self.meant.before(kind, body);
        if !matches!(kind, b'P' | b'Q') || self.meant.kept == 0 {
            return;
        }
        let (is_first, status, is_readable) = {
            let state = self.shared.state();
            let is_first = state.pipeline.is_empty() && !state.pipeline.is_skipping();
            (is_first, state.status, state.settings.require_readable().is_ok())
        };
        self.meant.forget_closed(is_first);
        match (kind, status) {
            // Of what cannot be read, a DEALLOCATE is refused.
            _ if !is_first || !is_readable => {}
            (b'P', _) | (_, b'E') => {}
            _ => {
                let text = query(body).and_then(|text| std::str::from_utf8(text).ok());
                // Within a transaction a DISCARD fails.
                let text = text.filter(|text| status == b'I' || !begins_with(text, &["discard"]));
                match text.and_then(closed_by) {
                    Some(Some(name)) => self.meant.forget(name.as_bytes()),
                    Some(None) => self.meant.forget_all(),
                    None => {}
                }
            }
        }
    }

    /// The tables once more, if a text names parts of declared tables that were not known.
    ///
    /// # Errors
    /// 42P16 for a part of which the tables cannot be read now; 25P02 in a transaction that has failed, in which nothing can be asked.
    pub(super) async fn with_new_parts(
        &mut self,
        text: &str,
        catalog: Arc<Catalog>,
    ) -> Result<Arc<Catalog>, SqlError> {
        self.meant.last.clear();
        if !catalog.has_parts() || tables::is_of_the_session(text) || !may_mean(text, &catalog) {
            return Ok(catalog);
        }
        let Some(Means { relations, executes, prepares }) = self.means(text, &catalog).await? else {
            if self.sees_the_past && !self.shared.state().is_outside() {
                let message = "a statement that cannot be read is refused in a transaction of one snapshot: a part of a table may have been made since";
                return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
            }
            // What its names are is not known: they are looked for among all that there is.
            self.shared.state().changed_tables = true;
            return self.catalog().await;
        };
        let executed: BTreeSet<Relation> =
            executes.iter().flat_map(|name| self.meant.of(name.as_bytes())).collect();
        prepares.iter().try_for_each(|name| self.meant.add(name.as_bytes(), &relations))?;
        let all: BTreeSet<Relation> = relations.union(&executed).cloned().collect();
        self.meant.may_end = may_end_transaction(text);
        self.meant.last.clone_from(&all);
        if all.is_empty() {
            return Ok(catalog);
        }
        if self.has_failed().await? {
            return if ends_transaction(text) { Ok(catalog) } else { Err(has_failed()) };
        }
        let found = match self.parts_among(&all, &catalog).await {
            // It has failed meanwhile.
            Err(error) if error.sqlstate == sqlstate::IN_FAILED_TRANSACTION && ends_transaction(text) => {
                return Ok(catalog);
            }
            found => found?,
        };
        let is_executed = |(part, _): &&(Table, Table)| executed.iter().any(|(_, name)| *name == part.1);
        if let Some((part, whole)) = found.iter().find(is_executed) {
            return Err(is_part(part, whole));
        }
        let Some((part, whole)) = found.into_iter().find(|(part, _)| !catalog.knows_part(part)) else {
            return Ok(catalog);
        };
        self.shared.state().changed_tables = true;
        let catalog = self.catalog().await?;
        // In a pipeline they are not read, and a transaction may see them as they were.
        if catalog.knows_part(&part) { Ok(catalog) } else { Err(is_part(&part, &whole)) }
    }

    /// What a text means; none if it cannot be read.
    async fn means(&self, text: &str, catalog: &Catalog) -> Result<Option<Means>, SqlError> {
        if self.shared.state().settings.require_readable().is_err() {
            return Ok(None);
        }
        let _room = match Rewriting::may_count(text) {
            true => self.behind.entered.unless_cancelled(self.rewriting.read(text)).await?,
            false => None,
        };
        Ok(means(text, catalog).ok())
    }

    /// Keeps what the last text means, which is prepared under a name.
    ///
    /// # Errors
    /// 53200 if it cannot be kept.
    pub(super) fn keep_meant(&mut self, name: &[u8]) -> Result<(), SqlError> {
        let relations = std::mem::take(&mut self.meant.last);
        // What is passed over takes nothing's place.
        if name.is_empty() && !self.shared.state().pipeline.is_skipping() {
            self.meant.forget(name);
        }
        self.meant.asked.remove(cut(name));
        if !relations.is_empty() && !self.meant.may_end {
            self.meant.has_asked(name);
        }
        self.meant.add(name, &relations)
    }

    /// That nothing which a prepared statement means has become a part of a declared table.
    ///
    /// # Errors
    /// 42P16 if it has; 25P02 in a transaction that has failed.
    pub(super) async fn require_no_part(&mut self, name: &[u8]) -> Result<(), SqlError> {
        if !self.meant.has(name) || self.meant.asked.contains(cut(name)) {
            return Ok(());
        }
        let relations = self.meant.of(name);
        let catalog = self.catalog().await?;
        if relations.is_empty() || !catalog.has_parts() {
            return Ok(());
        }
        if self.has_failed().await? {
            return Err(has_failed());
        }
        if let Some((part, whole)) = self.parts_among(&relations, &catalog).await?.first() {
            self.shared.state().changed_tables = true;
            return Err(is_part(part, whole));
        }
        self.meant.has_asked(name);
        Ok(())
    }

    /// Has the transaction failed? If so, what was sent and may end it is waited for.
    async fn has_failed(&mut self) -> Result<bool, SqlError> {
        let is_under_way = {
            let state = self.shared.state();
            state.status == b'E' && !state.pipeline.is_empty()
        };
        if is_under_way {
            self.answered().await?;
        }
        Ok(self.shared.state().status == b'E')
    }

    /// Which of some relations are parts of declared tables, and of which.
    async fn parts_among(
        &mut self,
        relations: &BTreeSet<Relation>,
        catalog: &Catalog,
    ) -> Result<Vec<(Table, Table)>, SqlError> {
        let schemas = array(relations.iter().map(|(schema, _)| schema.as_deref().unwrap_or_default()));
        let names = array(relations.iter().map(|(_, name)| name.as_str()));
        let rows = self.ask_of(Question::Parts, &[schemas, names]).await?;
        let read = |row: Vec<Option<String>>| {
            let texts: Vec<String> = row.into_iter().collect::<Option<_>>()?;
            let [schema, name, of_schema, whole] = <[String; 4]>::try_from(texts).ok()?;
            Some(((schema, name), (of_schema, whole)))
        };
        let declares = |table: &Table| catalog.schema().tables.contains_key(table);
        let is_it = |(part, whole): &(Table, Table)| declares(whole) && !declares(part);
        Ok(rows.into_iter().filter_map(read).filter(is_it).collect())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_closes_prepared_statements_alone_is_known() {
        for (text, name) in [
            ("DEALLOCATE p", "p"),
            (" deallocate PREPARE P ; ", "p"),
            ("DEALLOCATE \"All\"", "All"),
            ("deallocate prepare", "prepare"),
        ] {
            assert_eq!(closed_by(text), Some(Some(name.to_owned())), "{text}");
        }
        for text in ["DEALLOCATE ALL", "deallocate prepare all;", "/* pool */ DISCARD ALL", "Discard all;"] {
            assert_eq!(closed_by(text), Some(None), "{text}");
        }
        for text in
            ["DISCARD PLANS", "SELECT 1; DEALLOCATE p", "DEALLOCATE p; SELECT 1", "DEALLOCATE", "dealt"]
        {
            assert_eq!(closed_by(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_meant_is_counted_once_and_forgotten_with_its_statement() {
        let relation = |number: usize| (None, format!("t{number}"));
        let of = |numbers: std::ops::Range<usize>| numbers.map(relation).collect::<BTreeSet<Relation>>();
        let mut meant = Meant::default();
        // Many times more than are kept, one after another, and more than are told apart.
        for number in 0..RELATIONS_MAX {
            let name = number.to_string();
            meant.add(name.as_bytes(), &of(0..2)).unwrap();
            meant.add(name.as_bytes(), &of(1..3)).unwrap();
            if number >= STATEMENTS_MAX / 2 {
                meant.forget(name.as_bytes());
            }
        }
        assert_eq!((meant.statements.len(), meant.kept), (STATEMENTS_MAX / 2, STATEMENTS_MAX / 2 * 3));
        assert!(meant.others.is_empty() && meant.has(b"0") && !meant.has(b"9999"));
        for number in 0..STATEMENTS_MAX {
            meant.add(number.to_string().as_bytes(), &of(0..3)).unwrap();
        }
        meant.add(b"one more", &of(0..5)).unwrap();
        assert!(meant.of(b"one more") == of(0..5) && meant.of(b"unknown") == of(0..5));
        assert_eq!(meant.add(b"0", &of(0..RELATIONS_MAX)).unwrap_err().sqlstate, "53200");
        meant.add(b"", &of(0..1)).unwrap();
        meant.forget_all();
        assert!(meant.kept == 1 && meant.has(b"") && !meant.has(b"0"));
        meant.add(b"0", &of(0..RELATIONS_MAX - 1)).unwrap();
    }
}
