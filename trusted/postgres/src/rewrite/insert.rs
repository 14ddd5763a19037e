//! `INSERT`: the columns that it writes, where their values come from, and what columns hold that it does not name.

use super::analysis::Analysis;
use super::constant::Constant;
use super::moment::constant_or_moment;
use super::scope::{Relation, RelationColumn, Scope};
use super::select::{Mode, ResultColumn};
use super::write::{Target, listed, stored_names};
use crate::catalog::Encryption;
use crate::error::{SqlError, sqlstate};
use crate::plan::Piece;
use crate::text::fold;
use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Insert, OnInsert, Query, Select, SelectItem, SetExpr, TableObject, Values,
};
use sqlparser::tokenizer::Token;
use std::sync::Arc;

/// An encrypted column that an `INSERT` gives nothing, and the constant that it holds then.
pub(super) struct Missing {
    pub(super) name: String,
    pub(super) encryption: Arc<Encryption>,
    pub(super) default: Constant,
}

/// What an `INSERT` writes.
pub(super) struct Columns {
    /// Names and columns, in the order of the source's values.
    pub(super) targets: Vec<(String, Target)>,
    /// The text has no list of them: it belongs before its source.
    pub(super) unlisted: bool,
    pub(super) missing: Vec<Missing>,
}

impl Columns {
    /// The list of what is written, for a text without one.
    pub(super) fn list(&self) -> String {
        let given = self.targets.iter().flat_map(|(name, target)| stored_names(name, target.as_ref()));
        given.chain(self.missing_names()).collect::<Vec<_>>().join(", ")
    }

    pub(super) fn missing_names(&self) -> impl Iterator<Item = String> {
        self.missing.iter().flat_map(|column| stored_names(&column.name, Some(&column.encryption)))
    }
}

impl Analysis<'_> {
    pub(super) fn insert(&mut self, insert: &Insert, mode: Mode<'_>) -> Result<Vec<ResultColumn>, SqlError> {
        let TableObject::TableName(name) = &insert.table else { return Ok(Vec::new()) };
        let alias = insert.table_alias.as_ref().map(|alias| {
            self.understand(&alias.alias);
            fold(&alias.alias.value, alias.alias.quote_style.is_some())
        });
        let relation = self.changed(|analysis| analysis.table_named(name, alias))?;
        let mut columns = None;
        if relation.is_encrypted() {
            let columns = columns.insert(self.insert_columns(insert, &relation)?);
            match &insert.source {
                Some(source) => self.insert_source(insert, source, columns)?,
                None => self.only_defaults(columns)?,
            }
        } else {
            insert.columns.iter().for_each(|column| self.understand_name(column));
            // One that is declared may have encrypted columns when it is run.
            if let (true, Some(source)) = (insert.columns.is_empty(), &insert.source) {
                let at = self.lexemes.position_of(insert.insert_token.0.span).unwrap_or(0);
                self.take_places(&relation, (width_of(source), false), at)?;
            }
            if let Some(source) = &insert.source {
                self.query(source, None, Mode::Plain)?;
            }
        }
        let scope = Scope { relations: vec![relation.clone()], outer: None };
        if let Some(OnInsert::OnConflict(conflict)) = &insert.on {
            self.upsert = self.upsert_of(insert, &relation, columns.as_ref());
            self.on_conflict(conflict, &relation)?;
        }
        self.returning(insert.returning.as_deref(), &scope, mode)
    }

    /// The columns that an `INSERT` into an encrypted table writes.
    fn insert_columns(&mut self, insert: &Insert, relation: &Relation) -> Result<Columns, SqlError> {
        let known: Vec<&RelationColumn> = relation.columns.iter().flatten().collect();
        let mut targets = Vec::new();
        if insert.columns.is_empty() {
            let width = match &insert.source {
                Some(source) => width_of(source).unwrap_or(known.len()),
                None => 0,
            };
            if width > 0 {
                let at = self.lexemes.position_of(insert.insert_token.0.span).unwrap_or(0);
                self.take_places(relation, (Some(width), false), at)?;
            }
            targets.extend(
                known.iter().take(width).map(|column| (column.name.clone(), column.encryption.clone())),
            );
        }
        for column in &insert.columns {
            let Some(identifier) = column.0.last().and_then(|part| part.as_ident()) else { continue };
            let name = fold(&identifier.value, identifier.quote_style.is_some());
            targets.push((name, self.target(identifier, relation)?));
        }
        let mut missing = Vec::new();
        for column in known {
            let Some(encryption) = column.encryption.clone() else { continue };
            if targets.iter().any(|(name, _)| *name == column.name) {
                continue;
            }
            if let Some(default) = self.default_of(&encryption)? {
                missing.push(Missing { name: column.name.clone(), encryption, default });
            }
        }
        Ok(Columns { targets, unlisted: insert.columns.is_empty(), missing })
    }

    /// `INSERT INTO t DEFAULT VALUES`.
    fn only_defaults(&mut self, columns: &Columns) -> Result<(), SqlError> {
        let is_it =
            |at: &usize| self.lexemes.is_word(*at, "default") && self.lexemes.is_word(at + 1, "values");
        let Some(at) = (0..self.lexemes.list.len()).find(is_it) else { return Ok(()) };
        if columns.missing.is_empty() {
            return Ok(());
        }
        let mut pieces = vec![Piece::Text(format!("({}) VALUES (", columns.list()))];
        pieces.extend(listed(self.missing_pieces(&columns.missing)?));
        pieces.push(Piece::Text(")".into()));
        let bytes = self.bytes(&(at..at + 2));
        self.edits.replace(bytes, pieces);
        Ok(())
    }

    /// The values of columns that are given none.
    pub(super) fn missing_pieces(&mut self, missing: &[Missing]) -> Result<Vec<Vec<Piece>>, SqlError> {
        let mut parts = Vec::new();
        for column in missing {
            parts.extend(self.stored_pieces(&column.default, &column.encryption)?);
        }
        Ok(parts)
    }

    /// The token that the source of an `INSERT` begins with.
    pub(super) fn start_of_source(&self, insert: &Insert) -> usize {
        let words = ["select", "values", "with", "table", "overriding"];
        let start = self.lexemes.position_of(insert.insert_token.0.span).unwrap_or(0);
        let mut depth = 0_usize;
        for (at, lexeme) in self.lexemes.list.iter().enumerate().skip(start + 1) {
            match &lexeme.token.token {
                Token::LParen
                    if depth == 0 && words.iter().take(4).any(|word| self.lexemes.is_word(at + 1, word)) =>
                {
                    return at;
                }
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                _ if depth == 0 && words.iter().any(|word| self.lexemes.is_word(at, word)) => return at,
                _ => {}
            }
        }
        self.lexemes.list.len()
    }

    fn insert_source(&mut self, insert: &Insert, source: &Query, columns: &Columns) -> Result<(), SqlError> {
        match &*source.body {
            SetExpr::Values(values) => self.insert_values(values, columns)?,
            SetExpr::Select(select) if self.gives_constants(select, columns) => {
                // What is stored takes more places than it had, where it has terms.
                if columns.targets.iter().flat_map(|(_, target)| target).any(|of| of.terms().next().is_some())
                {
                    self.check_order(source.order_by.as_ref(), select)?;
                    self.check_distinct(select)?;
                }
                self.query(source, None, Mode::Plain)?;
                for (value, (_, target)) in items(select).zip(&columns.targets) {
                    if let (Some(found), Some(encryption)) = (constant_or_moment(self.lexemes, value), target)
                    {
                        self.replace_stored(&found, encryption)?;
                    }
                }
            }
            _ if columns.missing.is_empty() && columns.targets.iter().all(|(_, target)| target.is_none()) => {
                self.query(source, None, Mode::Plain)?;
            }
            _ if self.insert_listed(source, columns)? => {}
            _ => return self.insert_rows(insert, source, columns),
        }
        if columns.unlisted {
            let at = self.start_of_source(insert);
            self.edits.insert(self.lexemes.bytes(at).start, format!("({}) ", columns.list()));
        } else if let Some(last) = insert.columns.last().and_then(|name| name.0.last()?.as_ident()) {
            let names: String = columns.missing_names().map(|name| format!(", {name}")).collect();
            let end = self.lexemes.position_of(last.span).map(|at| self.lexemes.bytes(at).end);
            if let (Some(end), false) = (end, names.is_empty()) {
                self.edits.insert(end, names);
            }
        }
        Ok(())
    }

    /// Numbers in `DISTINCT ON` and `GROUP BY` would count the terms beside a constant.
    fn check_distinct(&self, select: &Select) -> Result<(), SqlError> {
        let on = match &select.distinct {
            Some(Distinct::On(on)) => on.as_slice(),
            _ => &[],
        };
        let groups = match &select.group_by {
            GroupByExpr::Expressions(groups, _) => groups.as_slice(),
            GroupByExpr::All(_) => &[],
        };
        match on.iter().chain(groups).find(|item| matches!(item, Expr::Value(_))) {
            None => Ok(()),
            Some(item) => Err(self.unsupported(
                super::select::first_token(self.lexemes, item),
                "what is stored in encrypted columns is not grouped by a result's number".into(),
                "Name the column or the expression.",
            )),
        }
    }

    fn insert_values(&mut self, values: &Values, columns: &Columns) -> Result<(), SqlError> {
        let scope = Scope::new(None);
        for row in &values.rows {
            if row.content.len() > columns.targets.len() {
                let error =
                    SqlError::new(sqlstate::SYNTAX_ERROR, "INSERT has more expressions than target columns");
                let at = self.lexemes.position_of(row.opening_token.0.span).unwrap_or(0);
                return Err(self.at(error, at));
            }
            for (value, (_, target)) in row.content.iter().zip(&columns.targets) {
                self.stored_value(value, target.as_ref(), &scope)?;
            }
            let end = self.lexemes.position_of(row.closing_token.0.span);
            if let (Some(end), false) = (end, columns.missing.is_empty()) {
                let mut pieces = vec![Piece::Text(", ".into())];
                pieces.extend(listed(self.missing_pieces(&columns.missing)?));
                let start = self.lexemes.bytes(end).start;
                self.edits.replace(start..start, pieces);
            }
        }
        Ok(())
    }

    /// Does a query give constants and parameters to all encrypted columns? They are sealed where they stand.
    fn gives_constants(&self, select: &Select, columns: &Columns) -> bool {
        let sealed = |(value, (_, target)): (&Expr, &(String, Target))| match target {
            None => true,
            // Each row is to have its own.
            Some(encryption) if encryption.hides_frequency() => false,
            Some(_) => constant_or_moment(self.lexemes, value).is_some(),
        };
        columns.missing.is_empty()
            && items(select).count() == select.projection.len()
            && items(select).zip(&columns.targets).all(sealed)
    }
}

/// The results of a query that are expressions.
pub(super) fn items(select: &Select) -> impl Iterator<Item = &Expr> {
    select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => Some(value),
        SelectItem::ExprWithAliases { .. } | SelectItem::QualifiedWildcard(..) | SelectItem::Wildcard(_) => {
            None
        }
    })
}

/// How many columns the rows of an `INSERT`'s source have, if that shows.
fn width_of(source: &Query) -> Option<usize> {
    match &*source.body {
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        SetExpr::Select(select) => {
            let stars = items(select).count() < select.projection.len();
            if stars { super::insert_listed::width_of_star(source) } else { Some(select.projection.len()) }
        }
        _ => None,
    }
}
