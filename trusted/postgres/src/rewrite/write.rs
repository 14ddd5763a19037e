//! Statements that write rows: an encrypted column's value becomes its sealed value and its terms.

use super::analysis::{Analysis, Reference};
use super::constant::{Constant, Written, constant};
use super::moment::{assigned_moment, constant_or_moment, of_moment};
use super::scope::{Relation, Scope};
use super::select::{Grouped, Mode, ResultColumn};
use super::spelling::condition_of_conflict;
use super::term::Term;
use crate::catalog::{Constant as Default, Encryption};
use crate::error::{SqlError, sqlstate};
use crate::plan::{Form, Piece, Source};
use crate::text::{fold, quoted};
use sqlparser::ast::{
    Assignment, AssignmentTarget, ConflictTarget, Delete, Expr, FromTable, Ident, ObjectName, OnConflict,
    OnConflictAction, SelectItem, Update, UpdateTableFromKind,
};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::parser::Parser;
use std::ops::Range;
use std::sync::Arc;

/// A column that a statement writes.
pub(super) type Target = Option<Arc<Encryption>>;

/// The forms of a value in the columns that an encrypted column is: the sealed value, then its terms.
pub(super) fn stored_forms(encryption: &Arc<Encryption>) -> Vec<(String, Form)> {
    let mut forms = vec![(String::new(), Form::Sealed(encryption.clone()))];
    forms.extend(encryption.terms().map(|term| {
        let form = match term {
            Term::Equality => Form::Equality(encryption.clone()),
            Term::Order => Form::Order(encryption.clone()),
            Term::Text => Form::Text(encryption.clone()),
        };
        (term.suffix().to_owned(), form)
    }));
    forms
}

/// Pieces with commas between them.
pub(super) fn listed(parts: Vec<Vec<Piece>>) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for (place, part) in parts.into_iter().enumerate() {
        if place > 0 {
            pieces.push(Piece::Text(", ".into()));
        }
        pieces.extend(part);
    }
    pieces
}

/// The names of the columns that a column is.
pub(super) fn stored_names(name: &str, encryption: Option<&Arc<Encryption>>) -> Vec<String> {
    let suffixes = encryption.map_or_else(
        || vec![String::new()],
        |found| stored_forms(found).into_iter().map(|(suffix, _)| suffix).collect(),
    );
    suffixes.iter().map(|suffix| quoted(&format!("{name}{suffix}"))).collect()
}

/// A constant as it is assigned to a column: digits behind a point are rounded for a column of whole numbers, a number is a text
/// for one of texts.
pub(super) fn assigned(value: &Constant, encryption: &Encryption) -> Constant {
    if let Some(found) = assigned_moment(value, encryption.kind) {
        return found;
    }
    let mut value = value.clone();
    let is_text = encryption.kind.is_text();
    if let (Written::Number, None, Source::Constant(Some(text)), true) =
        (value.written, &value.cast, &mut value.source, is_text)
        && let Some(shown) = crate::codec::number_text(text)
    {
        *text = shown;
        value.written = Written::Any;
        return value;
    }
    if let (Written::Number, None, Source::Constant(Some(text))) =
        (value.written, &value.cast, &mut value.source)
        && encryption.kind.is_integer()
        && let Some(rounded) = crate::codec::rounded(text)
    {
        *text = rounded.to_string();
    }
    value
}

impl Analysis<'_> {
    /// A column that is written, in a list of columns: it becomes the columns that it is.
    pub(super) fn target(&mut self, identifier: &Ident, relation: &Relation) -> Result<Target, SqlError> {
        let name = fold(&identifier.value, identifier.quote_style.is_some());
        let at = self.lexemes.position_of(identifier.span).unwrap_or(0);
        let Some(column) = relation.column(&name) else {
            if !relation.certain && !self.is_absent(&name) {
                // It may be there by now, and is not encrypted.
                self.understand(identifier);
                return Ok(None);
            }
            let message = format!(
                "column \"{name}\" of relation \"{}\" does not exist",
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

    /// A value that is stored in a column.
    pub(super) fn stored_value(
        &mut self,
        value: &Expr,
        target: Option<&Arc<Encryption>>,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        let Some(encryption) = target else { return self.expression(value, scope, "VALUES") };
        if let Some(found) = constant_or_moment(self.lexemes, value) {
            return self.replace_stored(&found, encryption);
        }
        if let Some(at) = self.default_at(value) {
            let pieces = listed(self.default_pieces(encryption)?);
            self.understand_tokens(at..at + 1);
            self.edits.replace(self.lexemes.bytes(at), pieces);
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
    pub(super) fn default_at(&self, value: &Expr) -> Option<usize> {
        let Expr::Identifier(name) = value else { return None };
        let at = self.lexemes.position_of(name.span)?;
        self.lexemes.is_word(at, "default").then_some(at)
    }

    /// The pieces of a column's default in all the columns that it is: sealed anew for each row.
    fn default_pieces(&mut self, encryption: &Arc<Encryption>) -> Result<Vec<Vec<Piece>>, SqlError> {
        match self.default_of(encryption)? {
            Some(default) => self.stored_pieces(&default, encryption),
            None => Ok(vec![vec![Piece::Text("DEFAULT".into())]; stored_forms(encryption).len()]),
        }
    }

    /// The constant that is a column's default.
    pub(super) fn default_of(&mut self, encryption: &Encryption) -> Result<Option<Constant>, SqlError> {
        self.defaults.insert(encryption.id, self.catalog.default_of(encryption.id).cloned());
        match self.catalog.default_of(encryption.id) {
            None => Ok(None),
            Some(Default::Opened(text)) => Ok(Some(Constant {
                tokens: 0..1,
                source: Source::Constant(Some(text.clone())),
                written: Written::Any,
                cast: None,
            })),
            Some(Default::Moment(moment)) => Ok(Some(of_moment(moment.clone(), 0..1))),
            Some(Default::Sealed(_)) => Err(SqlError::new(
                sqlstate::DATA_CORRUPTED,
                format!("the default of column {} was not sealed for it", encryption.label),
            )
            .hint("ALTER TABLE ... ALTER COLUMN ... SET DEFAULT sets another.")),
        }
    }

    /// The pieces of a value in all the columns that a column is.
    pub(super) fn stored_pieces(
        &mut self,
        value: &Constant,
        encryption: &Arc<Encryption>,
    ) -> Result<Vec<Vec<Piece>>, SqlError> {
        let value = &assigned(value, encryption);
        stored_forms(encryption).into_iter().map(|(_, form)| self.value_pieces(value, form)).collect()
    }

    pub(super) fn replace_stored(
        &mut self,
        value: &Constant,
        encryption: &Arc<Encryption>,
    ) -> Result<(), SqlError> {
        let pieces = listed(self.stored_pieces(value, encryption)?);
        let bytes = self.bytes(&value.tokens);
        self.edits.replace(bytes, pieces);
        Ok(())
    }

    pub(super) fn on_conflict(&mut self, conflict: &OnConflict, relation: &Relation) -> Result<(), SqlError> {
        if let Some(ConflictTarget::Columns(columns)) = &conflict.conflict_target {
            for identifier in columns {
                let name = fold(&identifier.value, identifier.quote_style.is_some());
                let at = self.lexemes.position_of(identifier.span).unwrap_or(0);
                match relation.column(&name).and_then(|column| column.encryption.clone()) {
                    Some(encryption) => {
                        let reference = Reference {
                            is_extreme: false,
                            qualified: false,
                            encryption,
                            column: name,
                            relation: relation.name.clone(),
                            terms: true,
                            tokens: at..at + 1,
                        };
                        let term = self.need(&reference, "ON CONFLICT", Some(Term::Equality))?;
                        self.replace_with_term(&reference, term);
                    }
                    None => {
                        self.require_column(identifier, relation)?;
                        self.understand(identifier);
                    }
                }
            }
        }
        self.condition_of_conflict(conflict, relation)?;
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

    /// `ON CONFLICT (c) WHERE ...`: the condition of an index, which compares no encrypted column with a value.
    fn condition_of_conflict(&mut self, conflict: &OnConflict, relation: &Relation) -> Result<(), SqlError> {
        let Some(ConflictTarget::Columns(columns)) = &conflict.conflict_target else { return Ok(()) };
        let first = columns.first().and_then(|name| self.lexemes.position_of(name.span));
        let open = first.and_then(|first| first.checked_sub(1));
        let Some(tokens) = open.and_then(|open| condition_of_conflict(self.lexemes, open)) else {
            return Ok(());
        };
        let list: Vec<_> = self.lexemes.tokens().drain(tokens.start + 1..tokens.end).collect();
        let parsed = Parser::new(&PostgreSqlDialect {}).with_tokens_with_locations(list).parse_expr();
        let values = self.edits.values.len();
        if let Ok(condition) = parsed {
            let scope = Scope { relations: vec![relation.clone()], outer: None };
            self.expression(&condition, &scope, "the condition of an index")?;
            if self.edits.values.len() == values {
                return Ok(());
            }
        }
        Err(self.unsupported(
            tokens.start,
            "the condition of the index that a conflict is of compares an encrypted column with a value, or is not understood".into(),
            "Use IS NOT NULL, or a condition on other columns.",
        ))
    }

    /// `SET c = 1`: an encrypted column is set with its terms.
    pub(super) fn assignments(
        &mut self,
        assignments: &[Assignment],
        relation: &Relation,
        scope: &Scope<'_>,
    ) -> Result<(), SqlError> {
        self.computed.by_rows = self.writes_by_rows(assignments, relation, scope)?;
        for assignment in assignments {
            let name = match &assignment.target {
                AssignmentTarget::ColumnName(name) => name,
                AssignmentTarget::Tuple(columns) => {
                    self.assign_row(columns, &assignment.value, relation, scope)?;
                    continue;
                }
            };
            let Some(identifier) = name.0.last().and_then(|part| part.as_ident()) else { continue };
            match self.encryption_of(identifier, relation) {
                Some(encryption) => {
                    self.assign(identifier, &assignment.value, &encryption, relation, scope)?
                }
                None => {
                    self.plain_target(name, relation)?;
                    self.expression(&assignment.value, scope, "SET")?;
                }
            }
        }
        Ok(())
    }

    /// How a column of what is changed is encrypted, if it is.
    pub(super) fn encryption_of(&self, identifier: &Ident, relation: &Relation) -> Target {
        let name = fold(&identifier.value, identifier.quote_style.is_some());
        relation.column(&name).and_then(|column| column.encryption.clone())
    }

    /// A plain column that is set.
    pub(super) fn plain_target(&mut self, name: &ObjectName, relation: &Relation) -> Result<(), SqlError> {
        // Of `SET c.field = 1` the first is the column.
        if let Some(column) = name.0.first().and_then(|part| part.as_ident()) {
            self.require_column(column, relation)?;
        }
        self.understand_name(name);
        Ok(())
    }

    /// That a column is one of what is changed. Sent on, what it is set to would be in the server's log.
    pub(super) fn require_column(&self, column: &Ident, relation: &Relation) -> Result<(), SqlError> {
        let name = fold(&column.value, column.quote_style.is_some());
        if !relation.certain || !relation.is_encrypted() || relation.column(&name).is_some() {
            return Ok(());
        }
        let table = relation.name.as_deref().unwrap_or("");
        let message = format!("column \"{name}\" of relation \"{table}\" does not exist");
        let at = self.lexemes.position_of(column.span).unwrap_or(0);
        Err(self.at(SqlError::new(sqlstate::UNDEFINED_COLUMN, message), at))
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
        let at = self.lexemes.position_of(identifier.span).unwrap_or(0);
        let tokens = self.tokens_of_assignment(at).map(|tokens| at + 2..tokens.end);
        let (texts, tokens) = self.assigned_texts((at, value, tokens), encryption, relation, scope)?;
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

    /// What is stored in the columns that a column is, and the tokens that it stands in the place of. Of the value the tokens are
    /// given where they are known; `at` is the column's.
    pub(super) fn assigned_texts(
        &mut self,
        (at, value, tokens): (usize, &Expr, Option<Range<usize>>),
        encryption: &Arc<Encryption>,
        relation: &Relation,
        scope: &Scope<'_>,
    ) -> Result<(Vec<Vec<Piece>>, Range<usize>), SqlError> {
        if encryption.hides_frequency() && !self.keeps_terms(value, encryption, relation, scope)? {
            return self.assigned_to_each((at, value, tokens), encryption, relation, scope);
        }
        if let Some(found) = constant_or_moment(self.lexemes, value) {
            return Ok((self.stored_pieces(&found, encryption)?, found.tokens));
        }
        if let Some(at) = self.default_at(value) {
            return Ok((self.default_pieces(encryption)?, at..at + 1));
        }
        // Of rows that are written one by one the server would look at all of a choice again for each.
        let is_chosen_before = self.computed.by_rows && self.is_choice_of_constants(value, encryption);
        if !is_chosen_before && self.only_chooses(value, encryption, scope)? {
            let Some(tokens) = tokens else {
                return self.assigned_computed((at, value, tokens), encryption, relation, scope);
            };
            self.require_steady(&tokens, encryption)?;
            let forms = stored_forms(encryption).into_iter();
            let texts = forms.map(|(_, form)| self.chosen_pieces(value, &tokens, &form, encryption, scope));
            return Ok((texts.collect::<Result<Vec<_>, _>>()?, tokens));
        }
        let reference =
            self.reference(value, scope)?.filter(|found| found.encryption.id == encryption.id && found.terms);
        let Some(reference) = reference else {
            return self.assigned_computed((at, value, tokens), encryption, relation, scope);
        };
        let terms = encryption.terms().map(|term| vec![Piece::Text(self.term_text(&reference, term))]);
        let sealed = vec![Piece::Text(self.source(&reference.tokens).to_owned())];
        Ok((std::iter::once(sealed).chain(terms).collect(), reference.tokens.clone()))
    }

    /// Of a column where each row has a term of its own: a value that is computed for each row, or by the proxy as if it were.
    fn assigned_to_each(
        &mut self,
        (at, value, tokens): (usize, &Expr, Option<Range<usize>>),
        encryption: &Arc<Encryption>,
        relation: &Relation,
        scope: &Scope<'_>,
    ) -> Result<(Vec<Vec<Piece>>, Range<usize>), SqlError> {
        if self.default_at(value).is_some() || !self.lexemes.is_word(0, "update") {
            return Err(self.one_for_many(at, encryption));
        }
        if let Some(found) = constant(self.lexemes, value) {
            self.check_constant(&found, encryption)?;
        }
        self.assigned_computed((at, value, tokens), encryption, relation, scope)
    }

    pub(super) fn update(&mut self, update: &Update, mode: Mode<'_>) -> Result<Vec<ResultColumn>, SqlError> {
        let mut scope = Scope::new(None);
        self.changed(|analysis| analysis.with_joins(&update.table, &mut scope))?;
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
        let mut scope = self.changed(|analysis| analysis.from(tables, None))?;
        if let Some(using) = &delete.using {
            using.iter().try_for_each(|table| self.with_joins(table, &mut scope))?;
        }
        if let Some(condition) = &delete.selection {
            self.expression(condition, &scope, "WHERE")?;
        }
        self.returning(delete.returning.as_deref(), &scope, mode)
    }

    pub(super) fn returning(
        &mut self,
        items: Option<&[SelectItem]>,
        scope: &Scope<'_>,
        mode: Mode<'_>,
    ) -> Result<Vec<ResultColumn>, SqlError> {
        let Some(items) = items else { return Ok(Vec::new()) };
        let around = std::mem::replace(&mut self.shows_results, matches!(mode, Mode::Top));
        let results = self.items(items, scope, &Grouped::default(), mode);
        self.shows_results = around;
        results
    }
}
