//! Statements that write rows: an encrypted column's value becomes its sealed value and its terms.

use super::analysis::{Analysis, Reference};
use super::constant::{Constant, constant};
use super::scope::{Relation, RelationColumn, Scope};
use super::select::{Grouped, Mode, ResultColumn};
use super::term::Term;
use crate::catalog::Encryption;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Form, Piece};
use crate::text::{fold, quoted};
use sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, Expr, FromTable, Ident, Insert, OnConflict,
    OnConflictAction, OnInsert, Query, SelectItem, SetExpr, TableObject, Update, UpdateTableFromKind,
};
use sqlparser::tokenizer::Token;
use std::sync::Arc;

/// A column that a statement writes.
type Target = Option<Arc<Encryption>>;

/// The forms of a value in the columns that an encrypted column is: the sealed value, then its terms.
pub(super) fn stored_forms(encryption: &Arc<Encryption>) -> Vec<(String, Form)> {
    let mut forms = vec![(String::new(), Form::Sealed(encryption.clone()))];
    forms.extend(encryption.terms().map(|term| {
        let form = match term {
            Term::Equality => Form::Equality(encryption.clone()),
            Term::Order => Form::Order(encryption.clone()),
        };
        (term.suffix().to_owned(), form)
    }));
    forms
}

/// The names of the columns that a column is.
pub(super) fn stored_names(name: &str, encryption: Option<&Arc<Encryption>>) -> Vec<String> {
    let suffixes = encryption.map_or_else(
        || vec![String::new()],
        |found| stored_forms(found).into_iter().map(|(suffix, _)| suffix).collect(),
    );
    suffixes.iter().map(|suffix| quoted(&format!("{name}{suffix}"))).collect()
}

impl Analysis<'_> {
    pub(super) fn insert(&mut self, insert: &Insert, mode: Mode<'_>) -> Result<Vec<ResultColumn>, SqlError> {
        let TableObject::TableName(name) = &insert.table else { return Ok(Vec::new()) };
        let alias = insert.table_alias.as_ref().map(|alias| {
            self.understand(&alias.alias);
            fold(&alias.alias.value, alias.alias.quote_style.is_some())
        });
        let relation = self.table_named(name, alias)?;
        let targets = self.insert_targets(insert, &relation)?;
        if let Some(source) = &insert.source {
            match &targets {
                Some(targets) => self.insert_source(insert, source, targets)?,
                None => self.query(source, None, Mode::Plain).map(drop)?,
            }
        }
        let scope = Scope { relations: vec![relation.clone()], outer: None };
        if let Some(OnInsert::OnConflict(conflict)) = &insert.on {
            self.on_conflict(conflict, &relation)?;
        }
        self.returning(insert.returning.as_deref(), &scope, mode)
    }

    /// The columns that an `INSERT` writes, and their list with the columns of terms in it. None: nothing is encrypted.
    fn insert_targets(
        &mut self,
        insert: &Insert,
        relation: &Relation,
    ) -> Result<Option<Vec<Target>>, SqlError> {
        if !relation.is_encrypted() {
            insert.columns.iter().for_each(|column| self.understand_name(column));
            return Ok(None);
        }
        if insert.columns.is_empty() {
            let columns: Vec<&RelationColumn> = relation.columns.iter().flatten().collect();
            let width = insert.source.as_ref().and_then(|source| width_of(source)).unwrap_or(columns.len());
            let written = columns.iter().take(width);
            let names: Vec<String> = written
                .clone()
                .flat_map(|column| stored_names(&column.name, column.encryption.as_ref()))
                .collect();
            if insert.source.is_none() {
                return Ok(Some(Vec::new()));
            }
            let at = self.start_of_source(insert);
            self.edits.insert(self.lexemes.bytes(at).start, format!("({}) ", names.join(", ")));
            return Ok(Some(written.map(|column| column.encryption.clone()).collect()));
        }
        let mut targets = Vec::new();
        for column in &insert.columns {
            let Some(identifier) = column.0.last().and_then(|part| part.as_ident()) else { continue };
            targets.push(self.target(identifier, relation)?);
        }
        Ok(Some(targets))
    }

    /// A column that is written, in a list of columns: it becomes the columns that it is.
    fn target(&mut self, identifier: &Ident, relation: &Relation) -> Result<Target, SqlError> {
        let name = fold(&identifier.value, identifier.quote_style.is_some());
        let at = self.lexemes.index_of(identifier.span).unwrap_or(0);
        let Some(column) = relation.column(&name) else {
            let message = format!(
                "column \"{name}\" of relation {} does not exist",
                relation.name.as_deref().unwrap_or("")
            );
            return Err(self.at(SqlError::new(sqlstate::UNDEFINED_COLUMN, message), at));
        };
        match &column.encryption {
            Some(encryption) => {
                let names = stored_names(&name, Some(encryption)).join(", ");
                self.edits.replace(self.lexemes.bytes(at), vec![Piece::Text(names)]);
            }
            None => self.understand(identifier),
        }
        Ok(column.encryption.clone())
    }

    /// The token that the source of an `INSERT` begins with.
    fn start_of_source(&self, insert: &Insert) -> usize {
        let words = ["select", "values", "with", "table", "overriding"];
        let start = self.lexemes.index_of(insert.insert_token.0.span).unwrap_or(0);
        let mut depth = 0_usize;
        for (at, lexeme) in self.lexemes.list.iter().enumerate().skip(start + 1) {
            match &lexeme.token.token {
                Token::LParen if depth == 0 && self.lexemes.is_word(at + 1, "select") => return at,
                Token::LParen => depth += 1,
                Token::RParen => depth = depth.saturating_sub(1),
                _ if depth == 0 && words.iter().any(|word| self.lexemes.is_word(at, word)) => return at,
                _ => {}
            }
        }
        self.lexemes.list.len()
    }

    fn insert_source(&mut self, insert: &Insert, source: &Query, targets: &[Target]) -> Result<(), SqlError> {
        if let SetExpr::Values(values) = &*source.body {
            let scope = Scope::new(None);
            for row in &values.rows {
                if row.content.len() > targets.len() {
                    let error = SqlError::new(
                        sqlstate::SYNTAX_ERROR,
                        "INSERT has more expressions than target columns",
                    );
                    let at = self.lexemes.index_of(row.opening_token.0.span).unwrap_or(0);
                    return Err(self.at(error, at));
                }
                for (value, target) in row.content.iter().zip(targets) {
                    self.stored_value(value, target.as_ref(), &scope)?;
                }
            }
            return Ok(());
        }
        if let SetExpr::Select(select) = &*source.body {
            // Constants and parameters among the results are sealed; anything else must be plain.
            let places: Vec<(&Expr, &Target)> = select
                .projection
                .iter()
                .zip(targets)
                .filter_map(|(item, target)| match item {
                    SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => {
                        Some((value, target))
                    }
                    SelectItem::ExprWithAliases { .. }
                    | SelectItem::QualifiedWildcard(..)
                    | SelectItem::Wildcard(_) => None,
                })
                .collect();
            let constants = select.projection.len() == places.len()
                && places
                    .iter()
                    .all(|(value, target)| target.is_none() || constant(self.lexemes, value).is_some());
            if constants {
                self.query(source, None, Mode::Plain)?;
                for (value, target) in places {
                    if let (Some(found), Some(encryption)) = (constant(self.lexemes, value), target) {
                        self.replace_stored(&found, encryption)?;
                    }
                }
                return Ok(());
            }
        }
        if targets.iter().all(Option::is_none) {
            return self.query(source, None, Mode::Plain).map(drop);
        }
        let label = targets
            .iter()
            .flatten()
            .map(|encryption| encryption.label.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        Err(self.unsupported(
            self.start_of_source(insert),
            format!("values of {label} come from a query: the server cannot encrypt them"),
            "Read the rows and insert them with VALUES or COPY.",
        ))
    }

    /// A value that is stored in a column.
    fn stored_value(
        &mut self,
        value: &Expr,
        target: Option<&Arc<Encryption>>,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        let Some(encryption) = target else { return self.expression(value, scope, "VALUES") };
        if let Some(found) = constant(self.lexemes, value) {
            return self.replace_stored(&found, encryption);
        }
        if let Some(at) = self.default_at(value) {
            let list = vec!["DEFAULT"; stored_forms(encryption).len()].join(", ");
            self.understand_tokens(at..at + 1);
            self.edits.replace(self.lexemes.bytes(at), vec![Piece::Text(list)]);
            return Ok(());
        }
        let at = super::select::first_token(self.lexemes, value);
        Err(self.unsupported(
            at,
            format!(
                "column {} is encrypted: what is stored there must be a constant or a parameter",
                encryption.label
            ),
            "Compute the value in the application.",
        ))
    }

    /// The token of `DEFAULT`, if an expression is that.
    fn default_at(&self, value: &Expr) -> Option<usize> {
        let Expr::Identifier(name) = value else { return None };
        let at = self.lexemes.index_of(name.span)?;
        self.lexemes.is_word(at, "default").then_some(at)
    }

    /// The pieces of a value in all the columns that a column is.
    fn stored_pieces(
        &mut self,
        value: &Constant,
        encryption: &Arc<Encryption>,
    ) -> Result<Vec<Vec<Piece>>, SqlError> {
        stored_forms(encryption).into_iter().map(|(_, form)| self.value_pieces(value, form)).collect()
    }

    fn replace_stored(&mut self, value: &Constant, encryption: &Arc<Encryption>) -> Result<(), SqlError> {
        let mut pieces = Vec::new();
        for (place, part) in self.stored_pieces(value, encryption)?.into_iter().enumerate() {
            if place > 0 {
                pieces.push(Piece::Text(", ".into()));
            }
            pieces.extend(part);
        }
        let bytes = self.bytes(&value.tokens);
        self.edits.replace(bytes, pieces);
        Ok(())
    }

    fn on_conflict(&mut self, conflict: &OnConflict, relation: &Relation) -> Result<(), SqlError> {
        if let Some(ConflictTarget::Columns(columns)) = &conflict.conflict_target {
            for identifier in columns {
                let name = fold(&identifier.value, identifier.quote_style.is_some());
                let at = self.lexemes.index_of(identifier.span).unwrap_or(0);
                match relation.column(&name).and_then(|column| column.encryption.clone()) {
                    Some(encryption) => {
                        let reference = Reference {
                            encryption,
                            column: name,
                            relation: relation.name.clone(),
                            terms: true,
                            tokens: at..at + 1,
                        };
                        let term = self.need(&reference, "ON CONFLICT", Some(Term::Equality))?;
                        self.replace_with_term(&reference, term);
                    }
                    None => self.understand(identifier),
                }
            }
        }
        match &conflict.action {
            OnConflictAction::DoNothing => Ok(()),
            OnConflictAction::DoUpdate(update) => {
                let excluded = Relation { name: Some("excluded".into()), schema: None, ..relation.clone() };
                self.watch_relation(&excluded);
                // Its columns are only named with its name before them.
                let inside = Scope { relations: vec![relation.clone()], outer: None };
                let around = Scope { relations: vec![excluded], outer: None };
                let both = Scope { relations: inside.relations, outer: Some(&around) };
                self.assignments(&update.assignments, relation, &both)?;
                update.selection.iter().try_for_each(|condition| self.expression(condition, &both, "WHERE"))
            }
        }
    }

    /// `SET c = 1`: an encrypted column is set with its terms.
    pub(super) fn assignments(
        &mut self,
        assignments: &[Assignment],
        relation: &Relation,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        for assignment in assignments {
            let AssignmentTarget::ColumnName(name) = &assignment.target else {
                // `SET (a, b) = (1, 2)`: encrypted names in it stay not understood.
                self.expression(&assignment.value, scope, "SET")?;
                continue;
            };
            let Some(identifier) = name.0.last().and_then(|part| part.as_ident()) else { continue };
            let folded = fold(&identifier.value, identifier.quote_style.is_some());
            match relation.column(&folded).and_then(|column| column.encryption.clone()) {
                Some(encryption) => {
                    self.assign(identifier, &assignment.value, &encryption, relation, scope)?
                }
                None => {
                    self.understand_name(name);
                    self.expression(&assignment.value, scope, "SET")?;
                }
            }
        }
        Ok(())
    }

    fn assign(
        &mut self,
        identifier: &Ident,
        value: &Expr,
        encryption: &Arc<Encryption>,
        relation: &Relation,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        let name = fold(&identifier.value, identifier.quote_style.is_some());
        let at = self.lexemes.index_of(identifier.span).unwrap_or(0);
        let (texts, tokens) = if let Some(found) = constant(self.lexemes, value) {
            (self.stored_pieces(&found, encryption)?, found.tokens)
        } else if let Some(at) = self.default_at(value) {
            let default = vec![Piece::Text("DEFAULT".into())];
            (vec![default; stored_forms(encryption).len()], at..at + 1)
        } else if self.only_chooses(value, encryption, scope)? {
            let Some(tokens) = self.tokens_of_assignment(at).map(|tokens| at + 2..tokens.end) else {
                return self.assign_computed(identifier, value, encryption, relation, scope);
            };
            let forms = stored_forms(encryption).into_iter();
            let texts = forms.map(|(_, form)| self.chosen_pieces(value, &tokens, &form, encryption, scope));
            (texts.collect::<Result<Vec<_>, _>>()?, tokens)
        } else {
            let reference = self
                .reference(value, scope)?
                .filter(|found| found.encryption.id == encryption.id && found.terms);
            let Some(reference) = reference else {
                return self.assign_computed(identifier, value, encryption, relation, scope);
            };
            let terms = encryption.terms().map(|term| vec![Piece::Text(self.term_text(&reference, term))]);
            let sealed = vec![Piece::Text(self.source(&reference.tokens).to_owned())];
            (std::iter::once(sealed).chain(terms).collect(), reference.tokens.clone())
        };
        let names = stored_names(&name, Some(encryption));
        let mut pieces = Vec::new();
        for (place, (column, value)) in names.iter().zip(texts).enumerate() {
            let comma = if place > 0 { ", " } else { "" };
            pieces.push(Piece::Text(format!("{comma}{column} = ")));
            pieces.extend(value);
        }
        self.understand_tokens(at..tokens.end);
        let bytes = self.lexemes.bytes(at).start..self.bytes(&tokens).end;
        self.edits.replace(bytes, pieces);
        Ok(())
    }

    pub(super) fn update(&mut self, update: &Update, mode: Mode<'_>) -> Result<Vec<ResultColumn>, SqlError> {
        let mut scope = Scope::new(None);
        self.with_joins(&update.table, &mut scope)?;
        let Some(relation) = scope.relations.first().cloned() else { return Ok(Vec::new()) };
        if let Some(UpdateTableFromKind::AfterSet(tables) | UpdateTableFromKind::BeforeSet(tables)) =
            &update.from
        {
            tables.iter().try_for_each(|table| self.with_joins(table, &mut scope))?;
        }
        self.assignments(&update.assignments, &relation, &scope)?;
        if let Some(condition) = &update.selection {
            self.expression(condition, &scope, "WHERE")?;
        }
        self.returning(update.returning.as_deref(), &scope, mode)
    }

    pub(super) fn delete(&mut self, delete: &Delete, mode: Mode<'_>) -> Result<Vec<ResultColumn>, SqlError> {
        let (FromTable::WithFromKeyword(tables) | FromTable::WithoutKeyword(tables)) = &delete.from;
        let mut scope = self.from(tables, None)?;
        if let Some(using) = &delete.using {
            using.iter().try_for_each(|table| self.with_joins(table, &mut scope))?;
        }
        if let Some(condition) = &delete.selection {
            self.expression(condition, &scope, "WHERE")?;
        }
        self.returning(delete.returning.as_deref(), &scope, mode)
    }

    fn returning(
        &mut self,
        items: Option<&[SelectItem]>,
        scope: &Scope<'_>,
        mode: Mode<'_>,
    ) -> Result<Vec<ResultColumn>, SqlError> {
        let Some(items) = items else { return Ok(Vec::new()) };
        self.items(items, scope, &Grouped::default(), mode)
    }
}

/// How many columns the rows of an `INSERT`'s source have, if that shows.
fn width_of(source: &Query) -> Option<usize> {
    match &*source.body {
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        SetExpr::Select(select) => {
            let stars = select
                .projection
                .iter()
                .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
            (!stars).then_some(select.projection.len())
        }
        _ => None,
    }
}
