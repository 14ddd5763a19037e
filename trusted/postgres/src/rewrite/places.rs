//! Columns that a statement takes by their places: what an `INSERT` or `COPY` without a list writes, and what a star shows.

use super::analysis::Analysis;
use super::scope::Relation;
use super::select::Mode;
use crate::catalog::{Columns, Taken};
use crate::error::SqlError;
use std::sync::Arc;

impl Analysis<'_> {
    /// Is a relation a table that is declared, or has encrypted columns?
    pub(super) fn is_declared(&self, relation: &Relation) -> bool {
        let declares = |table: &Arc<crate::catalog::Table>| {
            self.catalog.schema().tables.contains_key(&(table.schema.clone(), table.name.clone()))
        };
        relation.is_encrypted() || relation.table.as_ref().is_some_and(declares)
    }

    /// Is a relation a table that may have other columns by now?
    pub(super) fn is_doubted(&self, relation: &Relation) -> bool {
        relation.table.as_ref().is_some_and(|table| self.catalog.is_doubted(&table.name))
    }

    /// That a declared table's columns are where they were when it was looked at.
    ///
    /// # Errors
    /// 0A000: that is not known, and what is encrypted might be stored in a plain column.
    pub(super) fn require_places(&self, relation: &Relation, at: usize) -> Result<(), SqlError> {
        if !self.is_doubted(relation) || !self.is_declared(relation) {
            return Ok(());
        }
        let name = relation.table.as_ref().map_or("", |table| table.name.as_str());
        let message = format!("which columns \"{name}\" has, and in which order, is not known here");
        Err(self.unsupported(at, message, "Name the columns, as in INSERT INTO t (a, b).").detail(
            "They were changed, or are being changed, where this transaction or message cannot look.",
        ))
    }

    /// Is a relation a plain table in doubt? PostgreSQL knows its columns.
    pub(super) fn is_open(&self, relation: &Relation) -> bool {
        !relation.is_encrypted() && self.is_doubted(relation)
    }

    /// Takes the columns of a relation that a star stands for; `is_replaced`: by their names.
    pub(super) fn take_star(
        &mut self,
        relation: &Relation,
        (is_replaced, mode): (bool, Mode<'_>),
        at: usize,
    ) -> Result<(), SqlError> {
        let first = relation.encrypted().find_map(|column| column.encryption.as_ref());
        if let Some(encryption) = first {
            self.listed.get_or_insert_with(|| (encryption.label.clone(), at));
        }
        match mode {
            Mode::Top if is_replaced => self.take_places(relation, (None, true), at),
            Mode::Unread => Ok(()),
            Mode::Top | Mode::Relation | Mode::Term(..) | Mode::Plain => self.require_places(relation, at),
        }
    }

    /// Takes a declared table's columns by their places: so many, from the first, or all. `is_shown`: as a result.
    ///
    /// # Errors
    /// As [`Self::require_places`].
    pub(super) fn take_places(
        &mut self,
        relation: &Relation,
        (first, is_shown): (Option<usize>, bool),
        at: usize,
    ) -> Result<(), SqlError> {
        self.require_places(relation, at)?;
        if let Some(table) = relation.table.clone().filter(|_| self.is_declared(relation)) {
            let columns = first.map_or(Columns::All, Columns::First);
            self.layouts.push(Taken { table, columns, is_shown });
        }
        Ok(())
    }
}
