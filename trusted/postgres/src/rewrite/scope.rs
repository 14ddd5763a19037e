//! The relations that an expression can name columns of.

use crate::catalog::{Encryption, Table};
use crate::column_type::ColumnType;
use std::sync::Arc;

/// A column of a relation, as the application sees it.
#[derive(Clone, Debug)]
pub(super) struct RelationColumn {
    pub(super) name: String,
    pub(super) encryption: Option<Arc<Encryption>>,
    /// Are its terms columns of the relation, too?
    pub(super) terms: bool,
    /// Is it one with a column of the same name before it (`USING`)?
    pub(super) merged: bool,
    /// Its type, if it is a plain column of a table and of a type that the proxy knows.
    pub(super) kind: Option<ColumnType>,
}

/// What a `FROM` names.
#[derive(Clone, Debug)]
pub(super) struct Relation {
    /// The name that columns are qualified with; none if it has none.
    pub(super) name: Option<String>,
    /// The schema of a table that is named without an alias.
    pub(super) schema: Option<String>,
    /// It is a query's result.
    pub(super) derived: bool,
    /// Are its columns, if they are known, all that it has, by these names?
    pub(super) certain: bool,
    /// The table that it is, if it is one that is there.
    pub(super) table: Option<Arc<Table>>,
    /// Its columns; none if they are not known: a function's, a table made by this transaction.
    pub(super) columns: Option<Vec<RelationColumn>>,
}

impl Relation {
    pub(super) fn of_table(table: &Arc<Table>, alias: Option<String>) -> Self {
        let column = |column: &crate::catalog::Column| RelationColumn {
            name: column.name.clone(),
            encryption: column.encryption.clone(),
            terms: true,
            merged: false,
            kind: ColumnType::parse(&column.stored).filter(|_| column.encryption.is_none()),
        };
        let schema = alias.is_none().then(|| table.schema.clone());
        let name = Some(alias.unwrap_or_else(|| table.name.clone()));
        let columns = Some(table.columns.iter().map(column).collect());
        Self { name, schema, derived: false, certain: true, table: Some(Arc::clone(table)), columns }
    }

    pub(super) fn unknown(name: Option<String>) -> Self {
        Self { name, schema: None, derived: false, certain: false, table: None, columns: None }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.encrypted().next().is_some()
    }

    pub(super) fn encrypted(&self) -> impl Iterator<Item = &RelationColumn> {
        self.columns.iter().flatten().filter(|column| column.encryption.is_some())
    }

    pub(super) fn column(&self, name: &str) -> Option<&RelationColumn> {
        self.columns.iter().flatten().find(|column| column.name == name)
    }
}

/// The relations of a query, and those of the query that it is in.
#[derive(Debug)]
pub(super) struct Scope<'p> {
    pub(super) relations: Vec<Relation>,
    pub(super) outer: Option<&'p Scope<'p>>,
}

/// What a name means.
#[derive(Debug)]
pub(super) enum Found<'s> {
    /// An encrypted column.
    Encrypted(&'s Relation, &'s RelationColumn),
    /// Nothing encrypted.
    Plain,
    /// No column of any relation in sight: an error of the statement's, a column that every table has.
    Nowhere,
    /// A row of a relation with encrypted columns.
    Row,
    /// Perhaps an encrypted column, perhaps one of a relation whose columns are not known.
    Uncertain,
    /// More than one column, an encrypted one among them.
    Ambiguous,
}

impl<'p> Scope<'p> {
    pub(super) fn new(outer: Option<&'p Scope<'p>>) -> Self {
        Self { relations: Vec::new(), outer }
    }

    pub(super) fn is_encrypted(&self) -> bool {
        self.relations.iter().any(Relation::is_encrypted)
    }

    /// Is there an encrypted column in sight?
    pub(super) fn sees_encrypted(&self) -> bool {
        std::iter::successors(Some(self), |scope| scope.outer).any(Self::is_encrypted)
    }

    /// Is an encrypted column in sight, and all else that is known for certain?
    pub(super) fn is_known(&self) -> bool {
        let scopes = || std::iter::successors(Some(self), |scope| scope.outer);
        let known = |relation: &Relation| relation.columns.is_some() && relation.certain;
        scopes().all(|scope| scope.relations.iter().all(known)) && self.sees_encrypted()
    }

    /// The relation of a name.
    pub(super) fn relation(&self, schema: Option<&str>, name: &str) -> Option<&Relation> {
        let named = |relation: &&Relation| {
            relation.name.as_deref() == Some(name)
                && schema.is_none_or(|schema| relation.schema.as_deref() == Some(schema))
        };
        let here = self.relations.iter().find(named);
        here.or_else(|| self.outer.and_then(|outer| outer.relation(schema, name)))
    }

    /// Is it the name of a column that stands for two (`USING`)?
    pub(super) fn merges(&self, name: &str) -> bool {
        let is_merged = |relation: &Relation| relation.column(name).is_some_and(|column| column.merged);
        let outside = || !self.knows(name) && self.outer.is_some_and(|outer| outer.merges(name));
        self.relations.iter().any(is_merged) || outside()
    }

    /// Is it the name of a column of a relation here that is known?
    pub(super) fn knows(&self, name: &str) -> bool {
        self.relations.iter().any(|relation| relation.column(name).is_some())
    }

    /// The type of the plain column that a name means, with a relation's before it or alone; none if it is not known.
    pub(super) fn plain_kind(&self, names: &[String]) -> Option<ColumnType> {
        let column = match names {
            [relation, name] => self.relation(None, relation)?.column(name)?,
            [schema, relation, name] => self.relation(Some(schema), relation)?.column(name)?,
            [name] => {
                self.relations.iter().all(|relation| relation.columns.is_some()).then_some(())?;
                let mut here = self.relations.iter().filter_map(|relation| relation.column(name));
                match (here.next(), here.next()) {
                    (Some(column), None) => column,
                    (None, _) => return self.outer?.plain_kind(names),
                    (Some(_), Some(_)) => return None,
                }
            }
            _ => return None,
        };
        column.kind
    }

    /// What a name without a qualifier means.
    pub(super) fn find(&self, name: &str) -> Found<'_> {
        let known = |relation| Some((relation, Relation::column(relation, name)?));
        let mut here = self.relations.iter().filter_map(known).filter(|(_, column)| !column.merged);
        if let Some((relation, column)) = here.next() {
            let more = here.next();
            let encrypted = |column: &RelationColumn| column.encryption.is_some();
            return match more {
                Some((_, other)) if encrypted(column) || encrypted(other) => Found::Ambiguous,
                Some(_) => Found::Plain,
                None if encrypted(column) => Found::Encrypted(relation, column),
                None => Found::Plain,
            };
        }
        let outside = self.outer.map_or(Found::Nowhere, |outer| outer.find(name));
        let unknown = self.relations.iter().any(|relation| relation.columns.is_none());
        match outside {
            Found::Plain | Found::Nowhere => match self.relation(None, name) {
                Some(relation) if relation.is_encrypted() => Found::Row,
                Some(_) => Found::Plain,
                None if unknown => Found::Plain,
                None => outside,
            },
            Found::Encrypted(..) if unknown => Found::Uncertain,
            Found::Encrypted(..) | Found::Row | Found::Uncertain | Found::Ambiguous => outside,
        }
    }
}
