//! The relations of a query: tables, queries, functions, and how they are joined.

use super::analysis::Analysis;
use super::mention::is_keyword;
use super::scope::{Relation, Scope};
use super::select::Mode;
use super::term::Term;
use crate::catalog::{Columns, Table, Taken};
use crate::error::{SqlError, sqlstate};
use crate::plan::Piece;
use crate::text::{fold, quoted};
use sqlparser::ast::{
    Expr, FunctionArg, Ident, Join, JoinConstraint, JoinOperator, ObjectName, TableAlias, TableFactor,
    TableWithJoins,
};
use std::sync::Arc;

impl Analysis<'_> {
    /// What a `FROM` names.
    pub(super) fn from<'p>(
        &mut self,
        tables: &[TableWithJoins],
        outer: Option<&'p Scope<'p>>,
    ) -> Result<Scope<'p>, SqlError> {
        let mut scope = Scope::new(outer);
        for table in tables {
            self.with_joins(table, &mut scope)?;
        }
        Ok(scope)
    }

    pub(super) fn with_joins(
        &mut self,
        table: &TableWithJoins,
        scope: &mut Scope<'_>,
    ) -> Result<(), SqlError> {
        let first = scope.relations.len();
        self.factor(&table.relation, scope)?;
        table.joins.iter().try_for_each(|join| self.join(join, first, scope))
    }

    fn join(&mut self, join: &Join, first: usize, scope: &mut Scope<'_>) -> Result<(), SqlError> {
        let joined = scope.relations.len();
        self.factor(&join.relation, scope)?;
        let (constraint, keeps_left) = match &join.join_operator {
            JoinOperator::Join(constraint)
            | JoinOperator::Inner(constraint)
            | JoinOperator::Left(constraint)
            | JoinOperator::LeftOuter(constraint)
            | JoinOperator::CrossJoin(constraint) => (constraint, true),
            JoinOperator::Right(constraint)
            | JoinOperator::RightOuter(constraint)
            | JoinOperator::FullOuter(constraint) => (constraint, false),
            // Not PostgreSQL's: names in it stay not understood.
            _ => return Ok(()),
        };
        match constraint {
            JoinConstraint::On(condition) => self.expression(condition, scope, "ON"),
            JoinConstraint::Using(columns) => columns
                .iter()
                .try_for_each(|column| self.using(column, first..joined, joined, keeps_left, scope)),
            JoinConstraint::Natural => self.natural(scope),
            JoinConstraint::None => Ok(()),
        }
    }

    fn natural(&self, scope: &Scope<'_>) -> Result<(), SqlError> {
        if !scope.is_encrypted() {
            return Ok(());
        }
        Err(self.unsupported(
            0,
            "a NATURAL JOIN of relations with encrypted columns is not rewritten".into(),
            "Write JOIN ... USING (columns).",
        ))
    }

    /// `USING (c)`: an encrypted column is joined by its equality terms, which share a name as the columns do.
    fn using(
        &mut self,
        column: &ObjectName,
        left: std::ops::Range<usize>,
        right: usize,
        keeps_left: bool,
        scope: &mut Scope<'_>,
    ) -> Result<(), SqlError> {
        let Some(identifier) = column.0.last().and_then(|part| part.as_ident()) else { return Ok(()) };
        let name = fold(&identifier.value, identifier.quote_style.is_some());
        let at = self.lexemes.position_of(identifier.span).unwrap_or(0);
        let encryption_in = |relations: &[Relation]| {
            relations
                .iter()
                .find_map(|relation| relation.column(&name))
                .map(|column| (column.encryption.clone(), column.terms))
        };
        let before = encryption_in(scope.relations.get(left).unwrap_or_default());
        let behind = encryption_in(scope.relations.get(right..).unwrap_or_default());
        match (before, behind) {
            (Some((Some(left), true)), Some((Some(right), true)))
                if left.equality.is_some() && left.equality == right.equality && keeps_left =>
            {
                let term = quoted(&format!("{name}{}", Term::Equality.suffix()));
                self.listed.get_or_insert_with(|| (left.label.clone(), at));
                self.edits.replace(self.lexemes.bytes(at), vec![Piece::Text(term)]);
            }
            (Some((Some(encryption), _)), _) | (_, Some((Some(encryption), _))) => {
                return Err(self.unsupported(
                    at,
                    format!("column {} is encrypted: USING cannot read it here", encryption.label),
                    "Join columns that share a key (join = ... in the schema file), by JOIN or LEFT JOIN.",
                ));
            }
            (Some((None, _)) | None, Some((None, _)) | None) => self.understand(identifier),
        }
        for relation in scope.relations.iter_mut().skip(right) {
            let same = relation.columns.iter_mut().flatten().filter(|column| column.name == name);
            same.for_each(|column| column.merged = true);
        }
        Ok(())
    }

    fn factor(&mut self, factor: &TableFactor, scope: &mut Scope<'_>) -> Result<(), SqlError> {
        match factor {
            TableFactor::Table { name, alias, args: None, .. } => {
                let relation = self.table(name, alias.as_ref())?;
                scope.relations.push(relation);
            }
            TableFactor::Table { name, alias, args: Some(arguments), .. } => {
                self.table_function(name, &arguments.args, alias.as_ref(), scope)?;
            }
            TableFactor::Function { name, args, alias, .. } => {
                self.table_function(name, args, alias.as_ref(), scope)?;
            }
            TableFactor::Derived { lateral, subquery, alias, .. } => {
                let inside = if *lateral { Some(&*scope) } else { scope.outer };
                let results = self.query(subquery, inside, Mode::Relation)?;
                let (name, renamed) = self.alias(alias.as_ref());
                if renamed && results.iter().any(|result| !result.is_plain()) {
                    return Err(self.renamed(alias.as_ref()));
                }
                let relation = self.relation_of(name, results, renamed);
                scope.relations.push(relation);
            }
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let before = scope.relations.len();
                self.with_joins(table_with_joins, scope)?;
                if alias.is_some() {
                    let inside = scope.relations.get(before..).unwrap_or_default();
                    if inside.iter().any(Relation::is_encrypted) {
                        return Err(self.renamed(alias.as_ref()));
                    }
                    let (name, _) = self.alias(alias.as_ref());
                    scope.relations.truncate(before);
                    scope.relations.push(Relation::unknown(name));
                }
            }
            TableFactor::UNNEST { alias, array_exprs, .. } => {
                self.expressions(array_exprs, scope, "unnest()")?;
                let (name, _) = self.alias(alias.as_ref());
                scope.relations.push(Relation::unknown(name));
            }
            // Names in it stay not understood.
            _ => scope.relations.push(Relation::unknown(None)),
        }
        Ok(())
    }

    fn table_function(
        &mut self,
        name: &ObjectName,
        arguments: &[FunctionArg],
        alias: Option<&TableAlias>,
        scope: &mut Scope<'_>,
    ) -> Result<(), SqlError> {
        let reader = format!("function {name}()");
        let list: Vec<&Expr> = arguments.iter().filter_map(super::expression::argument_of).collect();
        self.expressions(list, scope, &reader)?;
        self.understand_name(name);
        let (alias, _) = self.alias(alias);
        let own = name.0.last().and_then(|part| part.as_ident()).map(|part| part.value.to_lowercase());
        scope.relations.push(Relation::unknown(alias.or(own)));
        Ok(())
    }

    fn renamed(&self, alias: Option<&TableAlias>) -> SqlError {
        let at = alias.and_then(|alias| self.lexemes.position_of(alias.name.span)).unwrap_or(0);
        self.unsupported(
            at,
            "an alias that names columns anew, of a relation with encrypted columns, is not rewritten".into(),
            "Name columns with AS in a query: (SELECT c AS name FROM ...) AS alias.",
        )
    }

    /// An alias's name, and whether it names columns, too.
    fn alias(&mut self, alias: Option<&TableAlias>) -> (Option<String>, bool) {
        let Some(alias) = alias else { return (None, false) };
        self.understand(&alias.name);
        let name = fold(&alias.name.value, alias.name.quote_style.is_some());
        (Some(name), !alias.columns.is_empty())
    }

    /// A table, a view or a common table expression by name.
    pub(super) fn table(
        &mut self,
        name: &ObjectName,
        alias: Option<&TableAlias>,
    ) -> Result<Relation, SqlError> {
        let (renamed, has_columns) = self.alias(alias);
        let relation = self.table_named(name, renamed)?;
        if has_columns && relation.is_encrypted() {
            return Err(self.renamed(alias));
        }
        if has_columns {
            return Ok(Relation::unknown(relation.name));
        }
        Ok(relation)
    }

    /// Looks at what a statement changes: a table by its name, though there be a common table expression of that name.
    pub(super) fn changed<T>(
        &mut self,
        look: impl FnOnce(&mut Self) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        let outer = std::mem::replace(&mut self.changes, true);
        let found = look(self);
        self.changes = outer;
        found
    }

    pub(super) fn table_named(
        &mut self,
        name: &ObjectName,
        alias: Option<String>,
    ) -> Result<Relation, SqlError> {
        let parts: Vec<&Ident> = name.0.iter().filter_map(|part| part.as_ident()).collect();
        let names: Vec<String> =
            parts.iter().map(|part| fold(&part.value, part.quote_style.is_some())).collect();
        let first = parts.first().and_then(|part| self.lexemes.position_of(part.span)).unwrap_or(0);
        if parts.len() == 1
            && parts.iter().all(|part| part.quote_style.is_none())
            && is_keyword(self.lexemes, first)
        {
            // What was read as its alias may be the table.
            return Err(self.unsupported(
                first,
                "this use of a table is not understood".into(),
                "Write FROM table AS alias.",
            ));
        }
        if self.names_view(&names) {
            let last = parts.last().and_then(|part| self.lexemes.position_of(part.span));
            return Err(self.of_view(last.unwrap_or(first)));
        }
        let there = match &names[..] {
            [table] => self.catalog.table(None, table).cloned(),
            [schema, table] => self.catalog.table(Some(schema), table).cloned(),
            _ => None,
        };
        if let Some(there) = &there {
            self.watch_absent(there);
        }
        let relation = match &names[..] {
            [table] => {
                let of_this_name = |common: &&Relation| common.name.as_ref() == Some(table);
                let common = self.common.iter().rev().find(of_this_name).filter(|_| !self.changes);
                match (common, &there) {
                    (Some(common), _) => Relation { name: alias.or(Some(table.clone())), ..common.clone() },
                    // Which one is meant says a search path, which is the session's.
                    (None, _) if self.catalog.is_ambiguous(table) => {
                        return Err(self.declared_twice(table, first));
                    }
                    (None, Some(found)) => {
                        self.note_meant(found, first);
                        Relation::of_table(found, alias)
                    }
                    (None, None) if self.catalog.declares(table) => return Err(self.missing(name)),
                    (None, None) => Relation::unknown(alias.or(Some(table.clone()))),
                }
            }
            [schema, table] => match &there {
                Some(found) => Relation::of_table(found, alias),
                None if self.catalog.schema().tables.contains_key(&(schema.clone(), table.clone())) => {
                    return Err(self.missing(name));
                }
                None => Relation::unknown(alias.or(Some(table.clone()))),
            },
            // A name of three parts is understood if nothing encrypted has such a name.
            _ => return Ok(Relation::unknown(alias)),
        };
        self.understand_name(name);
        self.watch_relation(&relation);
        let certain = match &names[..] {
            _ if relation.derived => relation.certain,
            [table] => self.catalog.is_certain_of(None, table),
            [schema, table] => self.catalog.is_certain_of(Some(schema), table),
            _ => false,
        };
        Ok(Relation { certain, ..relation })
    }

    /// Notes which table a name without a schema means.
    fn note_meant(&mut self, found: &Arc<Table>, name: usize) {
        self.note_namesake(found);
        self.write_schema(found, name);
    }

    /// Writes the schema before the name of a table with encrypted columns: the server's search path, which anybody may change, has no
    /// say in which table gets values that are sealed for this one.
    fn write_schema(&mut self, found: &Table, name: usize) {
        if found.is_encrypted() {
            let at = self.lexemes.bytes(name).start;
            self.edits.insert_once(at, format!("{}.", quoted(&found.schema)));
        }
    }

    /// Notes that a name means a plain table for as long as the declared one that is called so is not there.
    fn note_namesake(&mut self, found: &Arc<Table>) {
        if !found.is_encrypted() && self.catalog.declares(&found.name) {
            let (table, columns) = (Arc::clone(found), Columns::Meaning);
            self.namesakes.push(Taken { table, columns, is_shown: false });
        }
    }

    /// Whether it is the name of a view that reads encrypted columns.
    fn names_view(&self, names: &[String]) -> bool {
        let is_common = |table: &str| {
            !self.changes && self.common.iter().any(|common| common.name.as_deref() == Some(table))
        };
        match names {
            [table] => self.catalog.is_view(None, table) && !is_common(table),
            [schema, table] => self.catalog.is_view(Some(schema), table),
            _ => false,
        }
    }

    /// A view reads encrypted columns.
    pub(super) fn of_view(&self, at: usize) -> SqlError {
        let name = self.text.get(self.lexemes.bytes(at)).unwrap_or_default();
        self.unsupported(
            at,
            format!(
                "{name} is a view that reads encrypted columns, which shows what the database holds of them"
            ),
            "Write the view's query in its place, or DROP VIEW.",
        )
    }

    /// A table's name is declared in several schemas, and it is not said which is meant.
    pub(super) fn declared_twice(&self, table: &str, at: usize) -> SqlError {
        self.unsupported(
            at,
            format!("tables called \"{table}\" are declared in more than one schema"),
            "Write the schema before the table's name.",
        )
    }

    /// A table that is declared is not there.
    fn missing(&self, name: &ObjectName) -> SqlError {
        let first = name.0.first().and_then(|part| part.as_ident());
        let at = first.and_then(|part| self.lexemes.position_of(part.span)).unwrap_or(0);
        let parts = name.0.iter().filter_map(|part| part.as_ident()).map(|part| part.value.as_str());
        let shown = parts.collect::<Vec<_>>().join(".");
        self.at(SqlError::new(sqlstate::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist")), at)
    }
}
