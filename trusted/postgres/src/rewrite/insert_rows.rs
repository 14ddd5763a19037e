//! `INSERT INTO t SELECT ...`: the rows of a query, which the proxy reads, opens, seals anew and writes.
//!
//! Sealed values are not copied as they are: that would show which rows are copies of which. Constants and parameters stay
//! with the proxy: it does not send in plaintext what it is to seal.

use super::analysis::Analysis;
use super::constant::{Constant, constant};
use super::edits::compact;
use super::insert::{Columns, items};
use super::moment::constant_or_moment;
use super::select::{Mode, ResultColumn, What};
use super::term::form_pieces;
use super::write::{Target, stored_forms};
use crate::catalog::{self, Encryption, Taken};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Form, Output, Outputs, Piece, Recompute, Rewritten, Source, Value, Verb};
use sqlparser::ast::{
    Expr, Insert, OnConflictAction, OnInsert, Query, Select, SelectItem, SetExpr, TableFactor, TableObject,
};
use sqlparser::tokenizer::Token;
use std::ops::Range;
use std::sync::Arc;

/// What a plain result is cast to that is stored as text, whatever it is: a constant of no type, too.
const TEXT: &str = "pg_catalog.text";

/// Where a value that is written comes from.
#[derive(Debug)]
enum Given {
    /// That column of the row that was read.
    Read(usize),
    Constant(Constant),
}

/// A column of the rows that are read: what it is, and the type that PostgreSQL gives it before it is stored.
#[derive(Debug)]
struct ReadColumn {
    output: Output,
    kind: Option<String>,
}

/// Rows that are read and written.
#[derive(Debug)]
pub(super) struct InsertedRows {
    /// Bytes of the text before the source.
    head: Range<usize>,
    /// The list of columns that the text lacks.
    list: String,
    /// The source's tokens.
    source: Range<usize>,
    reads: Vec<ReadColumn>,
    writes: Vec<(Target, Given)>,
}

impl Analysis<'_> {
    /// Takes the rows of a query for a table.
    pub(super) fn insert_rows(
        &mut self,
        insert: &Insert,
        source: &Query,
        columns: &Columns,
    ) -> Result<(), SqlError> {
        let start = self.start_of_source(insert);
        self.check_alone(insert, start)?;
        let overridden = if self.lexemes.is_word(start, "overriding") { start + 3 } else { start };
        let tokens = overridden..self.end_of_source(overridden);
        let results = self.query(source, None, Mode::Top)?;
        // The client is not shown what it selects.
        self.layouts.iter_mut().for_each(|taken| taken.is_shown = false);
        let select = match &*source.body {
            SetExpr::Select(select) => Some(&**select),
            _ => None,
        };
        let kept = self.kept_back(select, columns)?;
        if results.iter().any(|result| matches!(result.what, What::Rest)) {
            let what = columns.targets.iter().find_map(|(_, target)| target.as_ref());
            let label = what.map_or("", |encryption| encryption.label.as_str());
            return Err(self.unsupported(
                tokens.start,
                format!("values of {label} come with columns of a relation that is not known"),
                "Name the columns, of tables.",
            ));
        }
        if results.len() != columns.targets.len() {
            let error = match (columns.unlisted, results.len() > columns.targets.len()) {
                (_, true) => "INSERT has more expressions than target columns",
                (false, false) => "INSERT has more target columns than expressions",
                (true, false) => "INSERT of fewer columns than the table has names them",
            };
            return Err(self.at(SqlError::new(sqlstate::SYNTAX_ERROR, error), tokens.start));
        }
        let constants = (0..).zip(kept).filter_map(|(place, found)| found.map(|found| (place, found)));
        let constants: std::collections::BTreeMap<usize, Constant> = constants.collect();
        let (mut reads, mut writes) = (Vec::new(), Vec::new());
        for (place, (result, (name, target))) in results.iter().zip(&columns.targets).enumerate() {
            let given = match constants.get(&place) {
                Some(found) => Given::Constant(found.clone()),
                None => Given::Read(place),
            };
            if let Given::Read(_) = given {
                self.check_flow(result, name, target.as_deref(), (select, source, tokens.start))?;
            }
            let kind = self.kind_of(insert, name, target.as_deref());
            reads.push(ReadColumn { output: result.output(), kind });
            writes.push((target.clone(), given));
        }
        let missing = columns.missing.iter();
        writes.extend(
            missing.map(|column| (Some(column.encryption.clone()), Given::Constant(column.default.clone()))),
        );
        let head = self.lexemes.bytes(0).start..self.lexemes.bytes(tokens.start).start;
        let names: String = columns.missing_names().map(|name| format!(", {name}")).collect();
        let list = if columns.unlisted { format!("({}) ", columns.list()) } else { String::new() };
        if !columns.unlisted
            && !names.is_empty()
            && let Some(last) = insert.columns.last().and_then(|name| name.0.last()?.as_ident())
            && let Some(at) = self.lexemes.position_of(last.span)
        {
            self.edits.insert(self.lexemes.bytes(at).end, names);
        }
        self.inserted = Some(InsertedRows { head, list, source: tokens, reads, writes });
        Ok(())
    }

    /// Only a plain `INSERT` alone is run in steps.
    fn check_alone(&self, insert: &Insert, start: usize) -> Result<(), SqlError> {
        if !self.lexemes.is_word(0, "insert") {
            return Err(self.unsupported(
                start,
                "values of encrypted columns come from a query: the INSERT is a statement of its own".into(),
                "Run the INSERT by itself.",
            ));
        }
        if let Some(OnInsert::OnConflict(conflict)) = &insert.on
            && matches!(conflict.action, OnConflictAction::DoUpdate(_))
        {
            return Err(self.unsupported(
                start,
                "an INSERT of a query's rows into encrypted columns has no ON CONFLICT DO UPDATE".into(),
                "Use DO NOTHING, or INSERT ... VALUES.",
            ));
        }
        Ok(())
    }

    /// The token behind the source of an `INSERT`.
    fn end_of_source(&self, start: usize) -> usize {
        let mut depth = 0_usize;
        for (at, lexeme) in self.lexemes.list.iter().enumerate().skip(start) {
            match &lexeme.token.token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                _ if depth > 0 => {}
                _ if self.lexemes.is_word(at, "returning") => return at,
                _ if self.lexemes.is_word(at, "on") && self.lexemes.is_word(at + 1, "conflict") => return at,
                _ => {}
            }
        }
        self.lexemes.list.len()
    }

    /// The constants that encrypted columns are given: they are not sent with the query.
    fn kept_back(
        &mut self,
        select: Option<&Select>,
        columns: &Columns,
    ) -> Result<Vec<Option<Constant>>, SqlError> {
        let Some(select) = select.filter(|select| items(select).count() == select.projection.len()) else {
            return Ok(Vec::new());
        };
        let mut kept = Vec::new();
        for (value, (_, target)) in items(select).zip(&columns.targets) {
            let found = target.as_ref().and_then(|_| constant_or_moment(self.lexemes, value));
            if let Some(found) = &found {
                let bytes = self.bytes(&found.tokens);
                self.edits.replace(bytes, vec![Piece::Text("NULL".into())]);
            }
            kept.push(found);
        }
        Ok(kept)
    }

    /// Whether a result may be stored in a column.
    fn check_flow(
        &self,
        result: &ResultColumn,
        name: &str,
        target: Option<&Encryption>,
        (select, source, at): (Option<&Select>, &Query, usize),
    ) -> Result<(), SqlError> {
        if let What::Derived(summed) = &result.what {
            let as_sum = What::Fold(crate::plan::Fold::Sum, summed.column.clone());
            let as_sum = ResultColumn { name: result.name.clone(), what: as_sum };
            return match target {
                Some(to) if fits(summed.kind, to.kind) => Ok(()),
                Some(to) => Err(self.unfit(summed.kind, to, at)),
                None => self.check_flow(&as_sum, name, None, (select, source, at)),
            };
        }
        match (&result.what, target) {
            (What::Sealed(from, _) | What::Fold(_, from), None) => Err(self.unsupported(
                at,
                format!("column \"{name}\" is not encrypted: values of {} would be stored in plaintext", from.label),
                "Declare the column as encrypted.",
            )),
            (What::Sealed(from, _), Some(to)) if !fits(from.kind, to.kind) => Err(self.unfit(from.kind, to, at)),
            (What::Fold(fold, from), Some(to)) if !fits(fold.kind(from.kind), to.kind) => {
                Err(self.unfit(fold.kind(from.kind), to, at))
            }
            (What::Plain, Some(to)) if !select.is_some_and(|select| self.reads_tables(select, source)) => {
                Err(self.unsupported(
                    at,
                    format!(
                        "values of {} come from a query that is more than columns of tables: the server would see them \
                         before they are encrypted",
                        to.label
                    ),
                    "Insert them with VALUES or COPY.",
                ))
            }
            (What::Sealed(..) | What::Fold(..) | What::Derived(_) | What::Plain | What::Rest | What::Term, _) => {
                Ok(())
            }
        }
    }

    fn unfit(&self, from: ColumnType, to: &Encryption, at: usize) -> SqlError {
        let message = format!(
            "column {} is of type {}, and a value of type {} is not converted to it",
            to.label,
            to.kind.name(),
            from.name()
        );
        self.unsupported(at, message, "Convert it in the application.")
    }

    /// Is what a query gives of tables' own columns, which the server knows, and not of constants in its text?
    fn reads_tables(&self, select: &Select, source: &Query) -> bool {
        let is_table = |factor: &TableFactor| matches!(factor, TableFactor::Table { args: None, .. });
        let tables = select
            .from
            .iter()
            .all(|from| is_table(&from.relation) && from.joins.iter().all(|join| is_table(&join.relation)));
        let texts = self.texts_of_items(select);
        let of_columns = |(item, tokens): (&SelectItem, &Range<usize>)| match item {
            SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. } => {
                matches!(value, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
                    || constant(self.lexemes, value).is_some()
                    || !self.holds_constants(tokens.clone())
            }
            SelectItem::ExprWithAliases { .. } => !self.holds_constants(tokens.clone()),
            SelectItem::QualifiedWildcard(..) | SelectItem::Wildcard(_) => true,
        };
        source.with.is_none()
            && !select.from.is_empty()
            && tables
            && select.projection.len() == texts.len()
            && select.projection.iter().zip(&texts).all(of_columns)
    }

    /// The tokens of each result of a query, from its comma to the next.
    fn texts_of_items(&self, select: &Select) -> Vec<Range<usize>> {
        let Some(from) = self.place_of_from(select) else { return Vec::new() };
        let start = self.lexemes.position_of(select.select_token.0.span).map_or(from, |at| at + 1);
        let (mut texts, mut begun, mut depth) = (Vec::new(), start, 0_usize);
        for at in start..from {
            match self.lexemes.token(at) {
                Some(Token::LParen | Token::LBracket) => depth += 1,
                Some(Token::RParen | Token::RBracket) => depth = depth.saturating_sub(1),
                Some(Token::Comma) if depth == 0 => texts.push(std::mem::replace(&mut begun, at + 1)..at),
                _ => {}
            }
        }
        texts.push(begun..from);
        texts
    }

    /// Are there constants or parameters among some tokens?
    fn holds_constants(&self, tokens: Range<usize>) -> bool {
        let held = |at: usize| match self.lexemes.token(at) {
            Some(Token::Word(word)) if word.quote_style.is_some() => false,
            Some(Token::Word(_) | Token::Period) => false,
            token => token.is_some_and(is_constant),
        };
        tokens.into_iter().any(held)
    }

    /// What PostgreSQL makes of a plain result before it is stored. None: it is stored as its text says.
    fn kind_of(&mut self, insert: &Insert, name: &str, target: Option<&Encryption>) -> Option<String> {
        let kind = match target {
            Some(encryption) => encryption.kind.name(),
            None => {
                let TableObject::TableName(table) = &insert.table else { return None };
                let parts: Vec<String> = table
                    .0
                    .iter()
                    .filter_map(|part| part.as_ident())
                    .map(|part| crate::text::fold(&part.value, part.quote_style.is_some()))
                    .collect();
                let table = match &parts[..] {
                    [table] => self.catalog.table(None, table),
                    [schema, table] => self.catalog.table(Some(schema), table),
                    _ => None,
                };
                let table = Arc::clone(table?);
                let stored = table.column(name)?.stored.clone();
                let columns = catalog::Columns::Type(name.to_owned());
                self.layouts.push(Taken { table, columns, is_shown: false });
                stored
            }
        };
        // Too long a text is an error where it is stored, and cut where it is cast. Anything is stored as text: as it is cast, not as
        // it is printed, without a `char`'s padding.
        let is_text = kind.starts_with("character") || kind == "text";
        Some(if is_text { TEXT.to_owned() } else { kind })
    }

    /// The statements that an `INSERT` of a query's rows is.
    pub(super) fn insert_program(
        &mut self,
        rows: &InsertedRows,
        outputs: Outputs,
    ) -> Result<Recompute, SqlError> {
        let (mut shown, mut none, mut names) = (Vec::new(), Vec::new(), Vec::new());
        for (place, column) in rows.reads.iter().enumerate() {
            let name = format!("c{place}");
            let (cast, kind) = match (&column.output, &column.kind) {
                (Output::Sealed(_), _) => (String::new(), "NULL::bytea".to_owned()),
                (Output::Fold(..) | Output::Derived(_), _) => (String::new(), "NULL::bytea[]".to_owned()),
                (Output::Plain | Output::PlainRest, Some(kind)) if kind == TEXT => {
                    (format!("::{TEXT}"), "NULL".to_owned())
                }
                (Output::Plain | Output::PlainRest, Some(kind)) => {
                    (format!("::{kind}"), format!("NULL::{kind}"))
                }
                (Output::Plain | Output::PlainRest, None) => (String::new(), "NULL".to_owned()),
            };
            shown.push(format!("arras_rows.{name}{cast}"));
            none.push(kind);
            names.push(name);
        }
        let mut read = vec![Piece::Text(format!("SELECT {} FROM ((", shown.join(", ")))];
        read.extend(self.edits.pieces(self.text, self.bytes(&rows.source))?);
        // The other half gives no row, and PostgreSQL's conversions to the types of the columns that are written.
        read.push(Piece::Text(format!(
            ") UNION ALL SELECT {} WHERE false) AS arras_rows ({})",
            none.join(", "),
            names.join(", ")
        )));
        let mut write = self.edits.pieces(self.text, rows.head.clone())?;
        write.push(Piece::Text(format!("{}VALUES (", rows.list)));
        let mut comma = "";
        for (target, given) in &rows.writes {
            for piece in self.written_pieces(target, given)? {
                write.push(Piece::Text(std::mem::replace(&mut comma, ", ").into()));
                write.extend(piece);
            }
        }
        write.push(Piece::Text(") ".into()));
        let end = self.lexemes.list.len();
        if rows.source.end < end {
            write.extend(self.edits.pieces(self.text, self.bytes(&(rows.source.end..end)))?);
        }
        let statement = |pieces: Vec<Piece>, outputs: Outputs| {
            let (pieces, values) = compact(pieces, &self.edits.values);
            let parameters = self.parameter_types(&values);
            let locks = self.locks(&pieces, &values);
            let (defaults, layouts) = (self.defaults.clone(), self.layouts.clone());
            Rewritten { pieces, values, parameters, outputs, locks, defaults, layouts }
        };
        let read_outputs = rows.reads.iter().map(|column| column.output.clone());
        Ok(Recompute {
            verb: Verb::Insert,
            read: statement(read, Outputs::Columns(read_outputs.collect())),
            computed: Vec::new(),
            write: statement(write, outputs),
        })
    }

    /// A value in all the columns that a column is.
    fn written_pieces(&mut self, target: &Target, given: &Given) -> Result<Vec<Vec<Piece>>, SqlError> {
        let position = match (given, target) {
            (Given::Constant(found), Some(encryption)) => return self.stored_pieces(found, encryption),
            (Given::Constant(_), None) => return Ok(Vec::new()),
            (Given::Read(position), _) => *position,
        };
        let forms = match target {
            Some(encryption) => stored_forms(encryption).into_iter().map(|(_, form)| form).collect(),
            None => vec![Form::Plain],
        };
        let one = |form: Form| {
            let value = Value { source: Source::Read(position), form: form.clone(), sent_as: None, at: 0 };
            form_pieces(&form, self.edits.value(value))
        };
        Ok(forms.into_iter().map(one).collect())
    }
}

pub(super) fn is_constant(token: &Token) -> bool {
    matches!(
        token,
        Token::Number(..)
            | Token::Placeholder(_)
            | Token::SingleQuotedString(_)
            | Token::EscapedStringLiteral(_)
            | Token::UnicodeStringLiteral(_)
            | Token::DollarQuotedString(_)
            | Token::NationalStringLiteral(_)
            | Token::HexStringLiteral(_)
            | Token::SingleQuotedByteStringLiteral(_)
    )
}

/// Is a value of one type stored in another as its text says?
fn fits(from: ColumnType, to: ColumnType) -> bool {
    use ColumnType::{
        BigInt, Boolean, Bytea, Date, DoublePrecision, Integer, Json, Jsonb, Numeric, Real, SmallInt, Text,
        Timestamp, TimestampTz, Uuid, Varchar,
    };
    match from {
        SmallInt | Integer | BigInt => {
            matches!(
                to,
                SmallInt | Integer | BigInt | Real | DoublePrecision | Numeric(_) | Text | Varchar(_)
            )
        }
        Real => matches!(to, Real | DoublePrecision | Text | Varchar(_)),
        DoublePrecision => matches!(to, DoublePrecision | Text | Varchar(_)),
        Numeric(_) => matches!(to, Numeric(_) | Text | Varchar(_)),
        Text | Varchar(_) => matches!(to, Text | Varchar(_)),
        Date | Timestamp(_) | TimestampTz(_) | Uuid | Boolean | Bytea | Json | Jsonb => {
            to.plain() == from.plain()
        }
    }
}
