//! What the proxy knows of the database's tables: their columns as the application sees them, and how the encrypted ones
//! are laid out.
//!
//! An encrypted column `c` is stored as its sealed value, a `bytea` of the same name, and beside it the terms that its
//! operations need: `c$eq`, a `bytea` that equal values share, `c$ord`, by which they are ordered ([`Order::kind`]), and `c$text`, a
//! `bytea` that the words of a text are entered under.

mod check;
mod doubt;
mod order;
mod origin;
mod places;
mod reading;

pub use check::KeyCheck;
pub(crate) use check::of_other_keys;
pub(crate) use doubt::Columns;
use doubt::Doubt;
pub use doubt::{Tables, Taken};
pub(crate) use order::CIPHERTEXT_KEY_BYTES;
pub use order::Order;
pub use origin::{Origin, StatementDigest};
pub(crate) use places::{ASK_PLACES, declared_places, not_known};
pub use reading::COLUMNS;
pub(crate) use reading::is_part;

use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::moment::Moment;
use crate::rewrite::{Sensitive, Substrings};
use crate::schema::Schema;
use arras_service::columns::{Declared, Padding};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What ends the name of a column of equality terms.
pub const EQUALITY_SUFFIX: &str = "$eq";
/// What ends the name of a column of order labels.
pub const ORDER_SUFFIX: &str = "$ord";
/// What ends the name of a column of texts' names.
pub const TEXT_SUFFIX: &str = "$text";
/// What ends the names of columns of terms.
pub(crate) const SUFFIXES: [&str; 3] = [EQUALITY_SUFFIX, ORDER_SUFFIX, TEXT_SUFFIX];

/// The tables of a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// What is declared, also of tables that are not there yet.
    schema: Arc<Schema>,
    /// The tables that are there, by schema and name.
    tables: BTreeMap<(String, String), Arc<Table>>,
    /// Parts of declared tables that are not declared themselves, by schema and name; they are among the misfits.
    parts: BTreeSet<(String, String)>,
    /// Tables that are not declared and of which declared ones are parts; they are among the misfits.
    wholes: BTreeSet<(String, String)>,
    /// Has a declared table such parts, or is it partitioned?
    has_parts: bool,
    /// Tables that are not laid out as they should be, by schema and name, and what is wrong: statements that may name one are
    /// refused.
    misfits: BTreeMap<(String, String), SqlError>,
    /// Their names in small letters.
    misfit_names: Substrings,
    /// Views that read encrypted columns, by schema and name.
    views: BTreeSet<(String, String)>,
    /// Views over tables whose encrypted columns have defaults, by schema and name, and such a column.
    filled: BTreeMap<(String, String), String>,
    /// Names of tables and views whose statements are analysed.
    sensitive: Sensitive,
    /// Tables that may have other columns by now.
    doubted: Doubt,
    /// Are there views of the catalogue without terms ([`crate::shown`])?
    shown: bool,
    /// Does the database keep checks of columns ([`crate::checks`])?
    keeps_checks: bool,
    /// Does it tell where labels are stored?
    keeps_places: bool,
    /// Functions that take a row: `t.f` may be `f(t)`.
    of_rows: BTreeSet<String>,
    /// Names of relations that were there, or are declared.
    names: BTreeSet<String>,
}

impl Catalog {
    /// A catalogue of what is declared and the tables that are there.
    #[must_use]
    pub fn new(schema: Arc<Schema>, tables: impl IntoIterator<Item = Table>) -> Self {
        let key = |table: &Table| (table.schema.clone(), table.name.clone());
        let tables: BTreeMap<_, _> = tables.into_iter().map(|table| (key(&table), Arc::new(table))).collect();
        let encrypted = tables.values().filter(|table| table.is_encrypted()).map(|table| table.name.clone());
        let declared = schema.tables.keys().map(|(_, name)| name.clone());
        let sensitive = Sensitive::new(encrypted.chain(declared));
        let there = tables.keys().chain(schema.tables.keys()).map(|(_, name)| name.clone());
        let names = there.collect();
        Self { schema, tables, sensitive, names, ..Self::default() }
    }

    /// Was there a relation of that name, or is one declared; of whatever schema if none is written?
    pub(crate) fn knows(&self, schema: Option<&str>, name: &str) -> bool {
        let Some(schema) = schema else { return self.names.contains(name) };
        let key = (schema.to_owned(), name.to_owned());
        self.tables.contains_key(&key)
            || self.schema.tables.contains_key(&key)
            || self.misfits.contains_key(&key)
            || self.views.contains(&key)
    }

    /// Tables may be others by now: what is not in it may be there.
    pub(crate) fn doubt(&mut self, tables: Tables) {
        self.doubted.extend(tables);
    }

    /// May a table of that name have other columns by now?
    pub(crate) fn is_doubted(&self, name: &str) -> bool {
        self.doubted.holds(name)
    }

    /// Is it known which columns the table of a name has: no other has the name, and it is as it was?
    pub(crate) fn is_certain_of(&self, schema: Option<&str>, name: &str) -> bool {
        !self.is_doubted(name) && (schema.is_some() || self.keys_of(name).count() == 1)
    }

    /// The tables of a name that are there, by schema and name.
    pub(crate) fn keys_of(&self, name: &str) -> impl Iterator<Item = &(String, String)> {
        self.tables.keys().filter(move |(_, table)| table == name)
    }

    /// Is it the name of a function that takes a row?
    pub(crate) fn takes_rows(&self, name: &str) -> bool {
        self.of_rows.contains(name)
    }

    /// Has statements refused that may name tables, each for what was found first.
    pub(crate) fn refuse(&mut self, misfits: impl IntoIterator<Item = ((String, String), SqlError)>) {
        let known = self.misfits.len();
        for (table, wrong) in misfits {
            self.misfits.entry(table).or_insert(wrong);
        }
        if self.misfits.len() > known {
            let names: Vec<String> = self.misfits.keys().map(|(_, name)| name.clone()).collect();
            self.misfit_names = names.iter().map(|name| name.to_lowercase()).collect();
            self.names.extend(names.iter().cloned());
            self.sensitive = std::mem::take(&mut self.sensitive).with(names);
        }
    }

    /// Is a table there once for both?
    #[cfg(test)]
    pub(crate) fn shares(&self, other: &Self, name: &str) -> bool {
        let table = |of: &Self| of.tables.values().find(|table| table.name == name).map(Arc::as_ptr);
        table(self).is_some() && table(self) == table(other)
    }

    /// Has what is equal to something of another catalogue in common with it.
    pub(crate) fn share_with(&mut self, other: &Self) {
        for (key, table) in &mut self.tables {
            if let Some(same) = other.tables.get(key).filter(|same| *same == table) {
                *table = Arc::clone(same);
            }
        }
        if self.sensitive == other.sensitive {
            self.sensitive = other.sensitive.clone();
        }
        if self.misfit_names == other.misfit_names {
            self.misfit_names = other.misfit_names.clone();
        }
    }

    /// The catalogue with views that read encrypted columns.
    pub(crate) fn with_views_of(mut self, views: BTreeSet<(String, String)>) -> Self {
        let names: Vec<String> = views.iter().map(|(_, name)| name.clone()).collect();
        self.names.extend(names.iter().cloned());
        Self { sensitive: self.sensitive.with(names), views, ..self }
    }

    /// The catalogue with views over tables whose encrypted columns have defaults.
    pub(crate) fn with_filled(self, filled: BTreeMap<(String, String), String>) -> Self {
        let names = filled.keys().map(|(_, name)| name.clone());
        Self { sensitive: self.sensitive.also_read(names), filled, ..self }
    }

    /// An encrypted column whose default a row gets that is inserted through the view of that name: PostgreSQL's, a sealed value without
    /// its terms.
    pub(crate) fn filled_by_default(&self, schema: Option<&str>, name: &str) -> Option<&str> {
        let is_it = |(of, view): &(String, String)| view == name && schema.is_none_or(|schema| of == schema);
        self.filled.iter().find(|(key, _)| is_it(key)).map(|(_, column)| column.as_str())
    }

    /// Is there a view of that name that reads encrypted columns? Without a schema a declared table's name means the table.
    pub(crate) fn is_view(&self, schema: Option<&str>, name: &str) -> bool {
        let is_table = |key: &(String, String)| key.1 == name && !self.views.contains(key);
        match schema {
            None if self.schema.tables.keys().any(is_table) => false,
            _ => self.views.iter().any(|(of, view)| view == name && schema.is_none_or(|schema| of == schema)),
        }
    }

    /// Is it the name of such a view, and of no table that is declared or does not fit?
    pub(crate) fn is_only_view(&self, name: &str) -> bool {
        let is_view = |key: &&(String, String)| self.views.contains(*key);
        self.views.iter().any(|(_, view)| view == name)
            && !self.declares(name)
            && self.misfits.keys().filter(|(_, table)| table == name).all(|key| is_view(&key))
    }

    /// What is wrong with a table of that name. A view is looked up where it is read.
    pub(crate) fn misfit(&self, name: &str) -> Option<&SqlError> {
        let is_it = |key: &(String, String)| key.1 == name && !self.views.contains(key);
        self.misfits.iter().find(|(key, _)| is_it(key)).map(|(_, error)| error)
    }

    /// May a text name one of them?
    pub(crate) fn has_misfit_in(&self, text: &str) -> bool {
        !self.misfits.is_empty() && self.misfit_names.are_in(&text.to_lowercase())
    }

    /// May a relation that is not declared be a part of a declared table?
    pub(crate) fn has_parts(&self) -> bool {
        self.has_parts
    }

    /// Is a relation known as a part of a declared table?
    pub(crate) fn knows_part(&self, relation: &(String, String)) -> bool {
        self.parts.contains(relation)
    }

    /// Is a relation declared, of whatever schema if none is written?
    pub(crate) fn declares_in(&self, schema: Option<&str>, name: &str) -> bool {
        match schema {
            None => self.declares(name),
            Some(schema) => self.schema.tables.contains_key(&(schema.to_owned(), name.to_owned())),
        }
    }

    /// What is wrong with tables, but for parts of declared ones and what these are parts of: what declared ones show is theirs.
    pub fn misfits(&self) -> impl Iterator<Item = &SqlError> {
        let passed_over = [&self.parts, &self.wholes, &self.views];
        let is_looked_at = move |table: &(String, String)| !passed_over.iter().any(|of| of.contains(table));
        self.misfits.iter().filter(move |(table, _)| is_looked_at(table)).map(|(_, error)| error)
    }

    /// The catalogue where the database has views of its own without terms.
    #[cfg(test)]
    pub(crate) fn with_views(self) -> Self {
        Self { shown: true, ..self }
    }

    /// The catalogue where the database has such functions.
    #[cfg(test)]
    pub(crate) fn with_functions_of_rows(mut self, names: impl IntoIterator<Item = &'static str>) -> Self {
        self.of_rows.extend(names.into_iter().map(str::to_owned));
        self
    }

    /// The catalogue with the defaults of its columns opened. One that cannot be opened stays sealed: it can be replaced.
    pub(crate) fn with_defaults(mut self, open: impl Fn(&Arc<Encryption>, &str) -> Option<Constant>) -> Self {
        for table in self.tables.values_mut() {
            let is_sealed = |column: &Column| matches!(column.default, Some(Constant::Sealed(_)));
            if !table.columns.iter().any(is_sealed) {
                continue;
            }
            for column in &mut Arc::make_mut(table).columns {
                if let (Some(encryption), Some(Constant::Sealed(sealed))) =
                    (&column.encryption, &column.default)
                    && let Some(opened) = open(encryption, sealed)
                {
                    column.default = Some(opened);
                }
            }
        }
        self
    }

    /// Are there views of the database's catalogue without terms?
    pub(crate) fn is_shown(&self) -> bool {
        self.shown
    }

    pub(crate) fn sensitive(&self) -> &Sensitive {
        &self.sensitive
    }

    /// A declared table is there, or has other columns; is that all that it has?
    pub(crate) fn set(&mut self, table: Table, is_certain: bool) {
        let key = (table.schema.clone(), table.name.clone());
        self.misfits.remove(&key);
        match is_certain {
            true => self.doubted.end(&key.1),
            false => self.doubted.extend(Tables::Of([key.1.clone()].into())),
        }
        self.tables.insert(key, Arc::new(table));
    }

    /// A table is not there any more.
    pub(crate) fn remove(&mut self, key: &(String, String)) {
        self.tables.remove(key);
        self.misfits.remove(key);
    }

    /// What is declared.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The tables, by schema and name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.tables.values()
    }

    /// The table of a name. Without a schema every schema is searched, one with encrypted columns first: a search path may
    /// name any, and an encrypted table must not be missed.
    #[must_use]
    pub fn table(&self, schema: Option<&str>, name: &str) -> Option<&Arc<Table>> {
        if let Some(schema) = schema {
            return self.tables.get(&(schema.to_owned(), name.to_owned()));
        }
        let mut named = self.tables.values().filter(|table| table.name == name);
        let first = named.clone().find(|table| table.is_encrypted());
        first.or_else(|| named.clone().find(|table| table.schema == "public")).or_else(|| named.next())
    }

    /// The column of an id, if it is there.
    fn column_of(&self, id: [u8; 8]) -> Option<&Column> {
        let mut columns = self.tables.values().flat_map(|table| &table.columns);
        columns.find(|column| column.encryption.as_ref().is_some_and(|of| of.id == id))
    }

    /// Is the column of an id there?
    pub(crate) fn has(&self, id: [u8; 8]) -> bool {
        self.column_of(id).is_some()
    }

    /// The default of the column of an id.
    pub(crate) fn default_of(&self, id: [u8; 8]) -> Option<&Constant> {
        self.column_of(id)?.default.as_ref()
    }

    /// Are tables of that name declared, and there, in more than one schema?
    #[must_use]
    pub fn is_ambiguous(&self, name: &str) -> bool {
        let declared = self.schema.tables.keys().filter(|(_, table)| table == name);
        declared.filter(|key| self.tables.contains_key(*key)).nth(1).is_some()
    }

    /// Is a table of that name declared, there or not?
    #[must_use]
    pub fn declares(&self, name: &str) -> bool {
        self.schema.tables.keys().any(|(_, table)| table == name)
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The schema it is in.
    pub schema: String,
    /// Folded as PostgreSQL folds it, without quotes.
    pub name: String,
    /// Its columns as the application sees them, in their order.
    pub columns: Vec<Column>,
}

impl Table {
    /// Is any of its columns encrypted?
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.columns.iter().any(|column| column.encryption.is_some())
    }

    /// The column of a name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }
}

/// A column as the application sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Folded as PostgreSQL folds it, without quotes.
    pub name: String,
    /// How it is encrypted, if it is.
    pub encryption: Option<Arc<Encryption>>,
    /// What PostgreSQL calls the type of what is stored.
    pub stored: String,
    /// What an encrypted column holds where a statement gives it nothing. PostgreSQL keeps it sealed.
    pub default: Option<Constant>,
    /// Does PostgreSQL compute it from others?
    pub is_generated: bool,
}

/// A constant of an encrypted column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constant {
    /// As PostgreSQL keeps it: the constant of SQL that the sealed value is.
    Sealed(String),
    /// In the text format of the column's type.
    Opened(String),
    /// What hangs on when a transaction or a statement began. PostgreSQL keeps it sealed in an expression that cannot be computed.
    Moment(Moment),
}

/// How a column is encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// What its keys are derived from: given once, never again.
    pub id: [u8; 8],
    /// The table and the column, as messages name it: `accounts.balance`.
    pub label: String,
    /// What its values are.
    pub kind: ColumnType,
    /// Bytes of the longest text that it takes, if that is declared: what an order of texts needs.
    pub max_bytes: Option<u16>,
    /// Has it equality terms? The id that their key is derived from: columns joined with one another share it.
    pub equality: Option<[u8; 8]>,
    /// Has it terms of order, and of which scheme?
    pub order: Option<Order>,
    /// May its values be summed in the proxy?
    pub sum: bool,
    /// Are its texts found by their words? PostgreSQL's name of the configuration that they are read by.
    pub text: Option<&'static str>,
    /// What the database keeps of it, by which another key or id is noticed; none where no keys are.
    pub check: Option<KeyCheck>,
    /// Which values a sealed one may be. Of what a table has, those that are stored.
    pub origin: Origin,
}

impl Encryption {
    /// The column as what the server chooses of it and of what the statement of that text gives, for its results.
    pub(crate) fn chosen_in(&self, text: &str) -> Self {
        Self { origin: Origin::Chosen(StatementDigest::new(text, None)), ..self.clone() }
    }

    /// The column as the holder of keys is told of it.
    #[must_use]
    pub fn declared(&self) -> Declared {
        let padding = match (self.kind, self.max_bytes) {
            (ColumnType::Numeric(Some((precision, _))), _) => {
                // Sign, point and the zero before it; the longest name of what is no number.
                Padding::To((usize::from(precision) + 3).max("-Infinity".len()))
            }
            (ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Bytea, Some(most)) => {
                Padding::To(most.into())
            }
            (
                ColumnType::Numeric(None)
                | ColumnType::Text
                | ColumnType::Varchar(_)
                | ColumnType::Bytea
                | ColumnType::Json
                | ColumnType::Jsonb,
                _,
            ) => Padding::InSteps,
            (
                ColumnType::SmallInt
                | ColumnType::Integer
                | ColumnType::BigInt
                | ColumnType::Real
                | ColumnType::DoublePrecision
                | ColumnType::Date
                | ColumnType::Timestamp(_)
                | ColumnType::TimestampTz(_)
                | ColumnType::Uuid
                | ColumnType::Boolean,
                _,
            ) => Padding::None,
        };
        Declared { id: self.id, padding }
    }
}
