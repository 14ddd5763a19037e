//! The tables in the course of a text, which is planned before any of it is run: as each of its statements leaves them.

use super::changed;
use super::foreseen::{self, After};
use crate::catalog::{Catalog, Tables};
use crate::text::{Lexemes, name_of};
use sqlparser::tokenizer::Token;
use std::borrow::Cow;

/// Savepoints of a text whose tables are kept.
const SAVEPOINTS_MAX: usize = 64;

/// The tables in the course of a text.
pub(super) struct Course<'c> {
    pub(super) catalog: Cow<'c, Catalog>,
    /// As they were when the transaction began, if that is known.
    begun: Option<Cow<'c, Catalog>>,
    /// As they were at the text's savepoints.
    savepoints: Vec<(String, Cow<'c, Catalog>)>,
    /// Those that the text does not have are of before it, with the tables as they were then.
    knows_earlier: bool,
}

impl<'c> Course<'c> {
    /// From the text's beginning on; `is_changed`: the transaction that is under way may have changed tables.
    pub(super) fn new(catalog: &'c Catalog, is_changed: bool) -> Self {
        let begun = (!is_changed).then_some(Cow::Borrowed(catalog));
        Self { catalog: Cow::Borrowed(catalog), begun, savepoints: Vec::new(), knows_earlier: !is_changed }
    }

    /// Behind a statement: what it makes, changes or drops may be another, but for what is foreseen. Of one that is not run nothing is: it
    /// may be too deep to be read, too. What it changes is given back.
    pub(super) fn leave(&mut self, text: &str, statement: &Lexemes, is_run: bool) -> Tables {
        let changed = changed::tables(statement);
        if changed.is_empty() {
            self.transaction(statement);
            return changed;
        }
        let mention = self.catalog.sensitive().mention(statement).filter(|_| is_run);
        match mention.and_then(|at| foreseen::after(text, statement, &self.catalog, at)) {
            Some(After::Same) => Tables::default(),
            Some(After::Is(table, is_whole)) => {
                let before = self.catalog.table(Some(&table.schema), &table.name);
                let is_same = before.map_or(is_whole, |before| {
                    before.columns.len() == table.columns.len() && before.is_like(&table, table.columns.len())
                });
                self.catalog.to_mut().set(table, is_whole);
                if is_same { Tables::default() } else { changed }
            }
            Some(After::Gone(keys)) => {
                keys.iter().for_each(|key| self.catalog.to_mut().remove(key));
                changed
            }
            None => {
                self.catalog.to_mut().doubt(changed.clone());
                if is_run { changed } else { Tables::default() }
            }
        }
    }

    /// A statement about the transaction: tables may be as they were before.
    fn transaction(&mut self, statement: &Lexemes) {
        let is = |at: usize, words: &[&str]| words.iter().any(|word| statement.is_word(at, word));
        let name = |at: usize| match statement.token(at) {
            Some(Token::Word(word)) => name_of(word),
            _ => String::new(),
        };
        let behind = |at: usize, word: &str| if statement.is_word(at, word) { at + 1 } else { at };
        if is(0, &["commit", "end"]) {
            self.begun = Some(self.catalog.clone());
            self.savepoints.clear();
        } else if is(0, &["savepoint"]) {
            if self.savepoints.len() == SAVEPOINTS_MAX {
                self.savepoints.clear();
                self.knows_earlier = false;
            }
            self.savepoints.push((name(1), self.catalog.clone()));
        } else if is(0, &["release"]) {
            let name = name(behind(1, "savepoint"));
            let place = self.savepoints.iter().rposition(|(other, _)| *other == name);
            self.savepoints.truncate(place.unwrap_or(0));
        } else if is(0, &["rollback", "abort"]) {
            let to = if is(1, &["work", "transaction"]) { 2 } else { 1 };
            if is(to, &["to"]) {
                self.roll_back_to(&name(behind(to + 1, "savepoint")));
            } else {
                self.set_back(self.begun.clone());
                self.savepoints.clear();
            }
        }
    }

    fn roll_back_to(&mut self, name: &str) {
        let place = self.savepoints.iter().rposition(|(other, _)| other == name);
        let kept = place.and_then(|place| self.savepoints.get(place)).map(|(_, catalog)| catalog.clone());
        self.savepoints.truncate(place.map_or(0, |place| place + 1));
        let earlier = || self.begun.clone().filter(|_| self.knows_earlier);
        let kept = kept.or_else(earlier);
        self.set_back(kept);
    }

    fn set_back(&mut self, to: Option<Cow<'c, Catalog>>) {
        match to {
            Some(catalog) => self.catalog = catalog,
            None => self.catalog.to_mut().doubt(Tables::All),
        }
    }
}
