//! Of which tables it is not sure how they are, and what takes their columns by their places.

use super::{Catalog, Table};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Tables by their names, or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tables {
    /// Those of these names.
    Of(BTreeSet<String>),
    /// All.
    All,
}

impl Default for Tables {
    fn default() -> Self {
        Self::Of(BTreeSet::new())
    }
}

impl Tables {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self::Of(names) if names.is_empty())
    }

    pub(crate) fn holds(&self, name: &str) -> bool {
        match self {
            Self::Of(names) => names.contains(name),
            Self::All => true,
        }
    }

    pub(crate) fn extend(&mut self, others: Self) {
        match (&mut *self, others) {
            (Self::Of(names), Self::Of(others)) => names.extend(others),
            _ => *self = Self::All,
        }
    }

    /// Those of them that `is_meant`.
    pub(crate) fn only(self, is_meant: impl Fn(&str) -> bool) -> Self {
        match self {
            Self::Of(names) => Self::Of(names.into_iter().filter(|name| is_meant(name)).collect()),
            Self::All => Self::All,
        }
    }
}

/// Tables that may have other columns by now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Doubt {
    tables: Tables,
    /// None of them all the same: made since.
    certain: BTreeSet<String>,
}

impl Doubt {
    pub(super) fn extend(&mut self, tables: Tables) {
        self.certain.retain(|name| !tables.holds(name));
        self.tables.extend(tables);
    }

    pub(super) fn end(&mut self, name: &str) {
        match &mut self.tables {
            Tables::Of(names) => drop(names.remove(name)),
            Tables::All => drop(self.certain.insert(name.to_owned())),
        }
    }

    pub(super) fn holds(&self, name: &str) -> bool {
        self.tables.holds(name) && !self.certain.contains(name)
    }
}

/// What of a table's columns a statement takes that does not say so in its text.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Columns {
    /// The places of so many of them, from the first.
    First(usize),
    /// The places of all.
    All,
    /// The type of a plain one of a name.
    Type(String),
    /// None: that the table's name means it where no schema is said, as no declared table of the name is there.
    Meaning,
}

/// Columns of a table that a statement takes as they were when it was planned.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    pub(crate) table: Arc<Table>,
    pub(crate) columns: Columns,
    /// Was the client told of them, as a result?
    pub(crate) is_shown: bool,
}

impl Taken {
    /// Are the table's columns as they were?
    pub(crate) fn stands_in(&self, catalog: &Catalog) -> bool {
        catalog.table(Some(&self.table.schema), &self.table.name).is_some_and(|now| match &self.columns {
            Columns::First(first) => self.table.is_like(now, *first),
            Columns::All => {
                self.table.columns.len() == now.columns.len() && self.table.is_like(now, now.columns.len())
            }
            Columns::Type(name) => {
                let stored = |table: &Table| table.column(name).map(|column| column.stored.clone());
                stored(&self.table) == stored(now)
            }
            Columns::Meaning => {
                catalog.table(None, &self.table.name).is_some_and(|meant| meant.schema == now.schema)
            }
        })
    }
}

impl Table {
    /// Has it the same columns in its first places as another?
    pub(crate) fn is_like(&self, other: &Self, first: usize) -> bool {
        let id = |column: &super::Column| column.encryption.as_ref().map(|encryption| encryption.id);
        let (own, others) = (self.columns.iter().take(first), other.columns.iter().take(first));
        own.len() == others.len()
            && own.zip(others).all(|(one, other)| {
                one.name == other.name && id(one) == id(other) && one.is_generated == other.is_generated
            })
    }
}
