//! `UPDATE t SET c = c + 1`: new values of encrypted columns from old ones, computed by the proxy.

mod branches;
mod types;

use super::analysis::{Analysis, Reference};
use super::constant::{Constant, Written};
use super::edits::compact;
use super::moment::constant_or_moment;
use super::of_time::of_time;
use super::scope::{Relation, Scope};
use super::select::first_token;
use super::write::stored_forms;
use crate::catalog::Encryption;
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::moment::OfTime;
use crate::plan::{
    Arithmetic, Computation, Expression, Form, Output, Outputs, Piece, Recompute, Rewritten, Source, Value,
    Verb,
};
use crate::text::{name_of, quoted};
use crate::values::kind_of;
use sqlparser::ast::{BinaryOperator, Expr, FunctionArguments, Ident, UnaryOperator};
use sqlparser::tokenizer::Token;
use std::ops::Range;
use std::sync::Arc;

/// What is read of each row, and what is computed of it.
#[derive(Debug, Default)]
pub(super) struct Computed {
    /// Texts of what is read, in order, and what it is.
    pub(super) read: Vec<(Vec<Piece>, Output)>,
    pub(super) computations: Vec<Computation>,
    /// The relation whose rows are read.
    relation: Option<Relation>,
    /// Does the statement write its rows one by one, whatever else it sets?
    pub(super) by_rows: bool,
    /// Does PostgreSQL come to what is looked at for some rows only?
    for_some: bool,
}

impl Computed {
    pub(super) fn is_empty(&self) -> bool {
        self.computations.is_empty()
    }

    pub(super) fn position_of(&mut self, text: Vec<Piece>, output: Output) -> usize {
        let known = self.read.iter().position(|(other, _)| *other == text);
        known.unwrap_or_else(|| {
            self.read.push((text, output));
            self.read.len() - 1
        })
    }

    /// Reads what may be another thing each time that it is read.
    fn read_again(&mut self, text: Vec<Piece>, output: Output) -> usize {
        self.read.push((text, output));
        self.read.len() - 1
    }

    /// The list of what is read, a comma behind each.
    pub(super) fn list(&self) -> Vec<Piece> {
        let comma = || Piece::Text(", ".into());
        self.read.iter().flat_map(|(text, _)| text.iter().cloned().chain([comma()])).collect()
    }
}

/// Is what says no type among these read as PostgreSQL reads it: not beside days or moments of another type than the column's?
fn are_of_one_time(parts: &[Expression], column: ColumnType) -> bool {
    let other = |part: &Expression| {
        let kind = kind_of(part);
        kind.is_time() && kind != column.plain()
    };
    let is_open = |part: &Expression| {
        matches!(part, Expression::Constant(_, _, None) | Expression::Parameter(_, _, None))
    };
    !(parts.iter().any(other) && parts.iter().any(is_open))
}

/// Is its type known without the column that is set?
fn has_own_type(expression: &Expression) -> bool {
    match expression {
        Expression::Read(..) | Expression::OfTime(..) | Expression::Moment(_) => true,
        Expression::Constant(_, of, cast) | Expression::Parameter(_, of, cast) => {
            cast.is_some_and(|cast| cast.plain() == of.kind.plain())
        }
        _ => false,
    }
}

impl Analysis<'_> {
    /// `c = c + 1`: what is stored of a value that is computed, in the place of the value's tokens.
    pub(super) fn assigned_computed(
        &mut self,
        (at, value, tokens): (usize, &Expr, Option<Range<usize>>),
        encryption: &Arc<Encryption>,
        relation: &Relation,
        scope: &Scope<'_>,
    ) -> Result<(Vec<Vec<Piece>>, Range<usize>), SqlError> {
        let unable = || {
            self.unsupported(
                at,
                format!(
                    "column {} is encrypted: it is set to a constant, a parameter, or what +, -, *, || and coalesce make of \
                     those and columns of its own table",
                    encryption.label
                ),
                "Compute the value in the application.",
            )
        };
        let (false, Some(tokens)) = (self.computed_elsewhere(), tokens) else { return Err(unable()) };
        let refused = unable();
        let Some(expression) = self.computable(value, encryption, scope)? else { return Err(refused) };
        self.computed.relation = Some(relation.clone());
        let name = match self.lexemes.token(at) {
            Some(Token::Word(word)) => name_of(word),
            _ => String::new(),
        };
        if let Err(misfit) = types::require_assignable(&expression, encryption.kind) {
            let place = first_token(self.lexemes, value);
            let error = misfit.error(&name, encryption).map(|error| self.at(error, place));
            return Err(error.unwrap_or(refused));
        }
        let position = self.computed.computations.len();
        self.computed.computations.push(Computation { column: encryption.clone(), expression });
        if let Some(texts) = self.left_as_it_is((&name, position), encryption, relation) {
            return Ok((texts, tokens));
        }
        let at = self.lexemes.bytes(at).start;
        let stored = |(_, form): (String, Form)| {
            let source = Source::Computed(position);
            let number = self.edits.value(Value { source, form: form.clone(), sent_as: None, at });
            super::term::form_pieces(&form, number)
        };
        Ok((stored_forms(encryption).into_iter().map(stored).collect(), tokens))
    }

    /// Only a plain `UPDATE` alone is run in steps, and an `INSERT` that updates.
    fn computed_elsewhere(&self) -> bool {
        !self.lexemes.is_word(0, "update") && self.upsert.is_none()
    }

    /// The tokens of an assignment, from its column to the comma or word behind its value.
    pub(super) fn tokens_of_assignment(&self, start: usize) -> Option<Range<usize>> {
        let mut depth = 0_usize;
        for (at, lexeme) in self.lexemes.list.iter().enumerate().skip(start) {
            match lexeme.token.token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.checked_sub(1)?,
                Token::Comma if depth == 0 => return Some(start..at),
                _ if depth == 0
                    && ["where", "from", "returning"].iter().any(|word| self.is_clause(at, word)) =>
                {
                    return Some(start..at);
                }
                _ => {}
            }
        }
        Some(start..self.lexemes.list.len())
    }

    /// What the proxy computes, if it can; in the type of the column that is set.
    fn computable(
        &mut self,
        expression: &Expr,
        of: &Arc<Encryption>,
        scope: &Scope<'_>,
    ) -> Result<Option<Expression>, SqlError> {
        if let Some(found) = constant_or_moment(self.lexemes, expression) {
            return Ok(self.computable_constant(found, of));
        }
        match expression {
            Expr::Nested(inner) => self.computable(inner, of, scope),
            step if let Some(step) = of_time(self.lexemes, step) => self.computable_step(step, of, scope),
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                self.require_row_named(expression, scope)?;
                let found = self.reference(expression, scope)?;
                let reference = match found.map(|reference| self.excluded_read(reference)) {
                    Some(Ok(excluded)) => return Ok(excluded),
                    Some(Err(reference)) => Some(reference),
                    None => None,
                };
                if !self.reads_of_upsert(&names_of(expression)) {
                    return Ok(None);
                }
                Ok(match reference {
                    Some(reference) => self.encrypted_read(&reference),
                    None => self.plain_read(expression, of),
                })
            }
            Expr::BinaryOp { left, op, right } => {
                let operator = match op {
                    BinaryOperator::Plus => Arithmetic::Plus,
                    BinaryOperator::Minus => Arithmetic::Minus,
                    BinaryOperator::Multiply => Arithmetic::Times,
                    BinaryOperator::StringConcat => Arithmetic::Concatenated,
                    _ => return Ok(None),
                };
                let both = (self.computable(left, of, scope)?, self.computable(right, of, scope)?);
                let (Some(left), Some(right)) = both else { return Ok(None) };
                Ok(Some(Expression::Arithmetic(operator, Box::new(left), Box::new(right))))
            }
            Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                let inner = self.computable(expr, of, scope)?;
                Ok(inner.map(|inner| Expression::Negated(Box::new(inner))))
            }
            Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("coalesce") => {
                let FunctionArguments::List(list) = &function.args else { return Ok(None) };
                let mut parts = Vec::new();
                for (place, argument) in
                    list.args.iter().filter_map(super::expression::argument_of).enumerate()
                {
                    let part = match place {
                        0 => self.computable(argument, of, scope)?,
                        _ => self.computable_for_some(argument, of, scope)?,
                    };
                    let Some(part) = part else { return Ok(None) };
                    // Beside a `real`, digits are one here.
                    parts.push(match part {
                        Expression::Number(text, of)
                            if matches!(of.kind, ColumnType::Real | ColumnType::DoublePrecision) =>
                        {
                            Expression::Constant(text, of, None)
                        }
                        part => part,
                    });
                }
                Ok(are_of_one_time(&parts, of.kind).then_some(Expression::Coalesce(parts)))
            }
            _ => self.computable_choice(expression, of, scope),
        }
    }

    /// What is made of a day or a moment.
    fn computable_step(
        &mut self,
        (how, inner): (OfTime, &Expr),
        of: &Arc<Encryption>,
        scope: &Scope<'_>,
    ) -> Result<Option<Expression>, SqlError> {
        let inner = self.computable(inner, of, scope)?;
        // What says no type is none that PostgreSQL would find here, and a plain column may be of any.
        let made = inner.filter(has_own_type).map(|inner| Expression::OfTime(how, Box::new(inner)));
        Ok(made.filter(|made| kind_of(made).is_time()))
    }

    /// A constant or a parameter beside values of a column.
    pub(super) fn computable_constant(
        &mut self,
        found: Constant,
        of: &Arc<Encryption>,
    ) -> Option<Expression> {
        if found.is_cast_elsewhere() {
            return None;
        }
        let cast = found.cast_kind();
        match found.source {
            Source::Parameter(number) => {
                self.type_parameter(&found.source, cast.unwrap_or(of.kind).oid());
                Some(Expression::Parameter(number, of.clone(), cast))
            }
            Source::Constant(Some(text)) if found.written == Written::Number && found.cast.is_none() => {
                Some(Expression::Number(text, of.clone()))
            }
            Source::Constant(Some(text)) => Some(Expression::Constant(text, of.clone(), cast)),
            Source::Moment(moment) => Some(Expression::Moment(moment)),
            Source::Constant(None) | Source::Constants(_) | Source::Read(_) | Source::Computed(_) => None,
        }
    }

    fn encrypted_read(&mut self, reference: &Reference) -> Option<Expression> {
        let text = self.source(&reference.tokens).to_owned();
        let output = Output::Sealed(reference.encryption.clone());
        let position = self.computed.position_of(vec![Piece::Text(text)], output);
        Some(Expression::Read(position, reference.encryption.clone()))
    }

    /// A plain column of the row, as a value of the type of the column that is set.
    fn plain_read(&mut self, expression: &Expr, of: &Arc<Encryption>) -> Option<Expression> {
        let start = first_token(self.lexemes, expression);
        let width = match expression {
            Expr::CompoundIdentifier(parts) => 2 * parts.len() - 1,
            _ => 1,
        };
        let mut text = self.source(&(start..start + width)).to_owned();
        text = match of.kind.plain() {
            // As it is cast, not as it is printed: without a `char`'s padding, `true` in full.
            kind if kind.is_text() => format!("({text})::pg_catalog.text"),
            // What is of another type is not assigned, whatever its text.
            kind => format!("COALESCE({text}, NULL::{})", catalog_name(kind)),
        };
        let position = self.computed.position_of(vec![Piece::Text(text)], Output::Plain);
        Some(Expression::Plain(position, of.clone()))
    }

    /// Does a word begin a clause? That of `IS DISTINCT FROM` does not.
    pub(super) fn is_clause(&self, at: usize, word: &str) -> bool {
        let is_operator = at.checked_sub(1).is_some_and(|before| self.lexemes.is_word(before, "distinct"));
        self.lexemes.is_word(at, word) && !is_operator
    }

    /// The place of a word of the statement itself, not inside parentheses.
    pub(super) fn word_at(&self, word: &str) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, lexeme) in self.lexemes.list.iter().enumerate() {
            match lexeme.token.token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.saturating_sub(1),
                _ if depth == 0 && self.is_clause(at, word) => return Some(at),
                _ => {}
            }
        }
        None
    }

    /// The first query in parentheses among some tokens.
    pub(super) fn query_within(&self, tokens: Range<usize>) -> Option<usize> {
        let begins = |at: &usize| {
            matches!(self.lexemes.token(*at), Some(Token::LParen))
                && ["select", "table", "with"].iter().any(|word| self.lexemes.is_word(at + 1, word))
        };
        tokens.into_iter().find(begins).map(|at| at + 1)
    }

    /// The statements that an `UPDATE` with computed values is.
    pub(super) fn recompute(&mut self, outputs: Outputs) -> Result<Recompute, SqlError> {
        let relation = self.computed.relation.clone();
        if let (Some(upsert), Some(relation)) = (self.upsert.take(), &relation) {
            return self.upsert_program(&upsert, relation, outputs);
        }
        let end = self.lexemes.list.len();
        let returning = self.word_at("returning").unwrap_or(end);
        let condition = self.word_at("where").unwrap_or(returning);
        let set = self.word_at("set").unwrap_or(condition);
        if let Some(from) = self.word_at("from").filter(|from| *from < condition) {
            return Err(self.unsupported(
                from,
                "an UPDATE that computes with encrypted columns and has FROM is not rewritten".into(),
                "Use a sub-query in WHERE, or compute in the application.",
            ));
        }
        if let Some(at) = self.query_within(set..condition).or_else(|| self.query_within(returning..end)) {
            return Err(self.unsupported(
                at,
                "an UPDATE that is run row by row, as it computes with encrypted columns, has a sub-query which would see the rows \
                 that it has written"
                    .into(),
                "Read what the sub-query gives first, in the same transaction, or keep it to WHERE.",
            ));
        }
        let text_of = |from: usize, to: usize| {
            if from >= to { Ok(Vec::new()) } else { self.edits.pieces(self.text, self.bytes(&(from..to))) }
        };
        let name = relation.and_then(|relation| relation.name);
        let row = name.map(|name| format!("{}.", quoted(&name))).unwrap_or_default();
        let mut read = vec![Piece::Text("SELECT ".into())];
        read.extend(self.computed.list());
        read.push(Piece::Text(format!("{row}ctid, {row}tableoid FROM ")));
        read.extend(text_of(1, set)?);
        read.push(Piece::Text(" ".into()));
        read.extend(text_of(condition, returning)?);
        read.push(Piece::Text(" FOR NO KEY UPDATE".into()));
        let mut write = text_of(0, condition)?;
        let mut values = self.edits.values.clone();
        // Of a table that has parts, each has rows in that place.
        for (nth, (before, column, kind)) in
            [("WHERE", "ctid", "tid"), ("AND", "tableoid", "oid")].into_iter().enumerate()
        {
            values.push(Value {
                source: Source::Read(self.computed.read.len() + nth),
                form: Form::Plain,
                sent_as: None,
                at: 0,
            });
            write.push(Piece::Text(format!(" {before} {row}{column} = ")));
            write.push(Piece::Value(values.len() - 1));
            write.push(Piece::Text(format!("::{kind}")));
        }
        write.push(Piece::Text(" ".into()));
        write.extend(text_of(returning, end)?);
        let statement = |pieces: Vec<Piece>, outputs: Outputs| {
            let (pieces, values) = compact(pieces, &values);
            let parameters = self.parameter_types(&values);
            let locks = self.locks(&pieces, &values);
            let (defaults, layouts) = (self.defaults.clone(), self.layouts.clone());
            Rewritten { pieces, values, parameters, outputs, locks, defaults, layouts }
        };
        let read_outputs =
            self.computed.read.iter().map(|(_, output)| output.clone()).chain([Output::Plain, Output::Plain]);
        let read = statement(read, Outputs::Columns(read_outputs.collect()));
        let mut write = statement(write, outputs);
        // Held before either runs.
        write.locks.extend(read.held());
        Ok(Recompute { verb: Verb::Update, read, computed: self.computed.computations.clone(), write })
    }
}

/// A type's name, wherever the session looks for types.
fn catalog_name(kind: ColumnType) -> String {
    let name = kind.name();
    match kind {
        ColumnType::Date | ColumnType::Uuid | ColumnType::Bytea | ColumnType::Json | ColumnType::Jsonb => {
            format!("pg_catalog.{name}")
        }
        _ => name,
    }
}

/// The parts of a column's name.
fn names_of(expression: &Expr) -> Vec<&Ident> {
    match expression {
        Expr::Identifier(name) => vec![name],
        Expr::CompoundIdentifier(parts) => parts.iter().collect(),
        _ => Vec::new(),
    }
}
