//! `UPDATE t SET c = CASE WHEN id = 1 THEN 5 ... END`: the server says by which branch a row goes, the proxy what is new.

use crate::catalog::Encryption;
use crate::codec::Datum;
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::plan::{Expression, Output, Piece, Source};
use crate::rewrite::analysis::Analysis;
use crate::rewrite::constant::{Constant, Written, cast_agrees};
use crate::rewrite::moment::constant_or_moment;
use crate::rewrite::scope::{Relation, Scope};
use crate::rewrite::select::{first_token, is_safe};
use crate::text::Lexemes;
use sqlparser::ast::{Assignment, AssignmentTarget, CaseWhen, Expr};
use std::ops::Range;
use std::sync::Arc;

/// The tokens of a `CASE` that begins at a token, and of its results, in their order.
fn results_of(lexemes: &Lexemes, case: usize) -> Option<(Range<usize>, Vec<Range<usize>>)> {
    let is = |at: usize, words: &[&str]| words.iter().any(|word| lexemes.is_word(at, word));
    let (mut depth, mut begun, mut results) = (0_usize, None, Vec::new());
    for at in case + 1..lexemes.list.len() {
        if is(at, &["case"]) {
            depth += 1;
        } else if depth > 0 {
            depth -= usize::from(is(at, &["end"]));
        } else if is(at, &["when", "else", "end"]) {
            results.extend(begun.take().map(|begun| begun..at));
            if is(at, &["end"]) {
                return Some((case..at + 1, results));
            }
            begun = is(at, &["else"]).then_some(at + 1);
        } else if is(at, &["then"]) {
            begun = Some(at + 1);
        }
    }
    None
}

/// The type of a cast that makes one of the column's kind.
fn cast_kind(name: &str, of: &Encryption) -> Option<ColumnType> {
    ColumnType::parse(name).filter(|_| cast_agrees(name, of.kind))
}

impl Analysis<'_> {
    /// Is a column set to what the proxy computes of each row?
    pub(in crate::rewrite) fn writes_by_rows(
        &mut self,
        assignments: &[Assignment],
        relation: &Relation,
        scope: &Scope<'_>,
    ) -> Result<bool, SqlError> {
        if assignments.len() < 2 || !self.lexemes.is_word(0, "update") {
            return Ok(false);
        }
        for Assignment { target, value } in assignments {
            let AssignmentTarget::ColumnName(name) = target else { continue };
            let identifier = name.0.last().and_then(|part| part.as_ident());
            let encryption = identifier.and_then(|identifier| self.encryption_of(identifier, relation));
            let Some(encryption) = encryption else { continue };
            let is_copied = if encryption.hides_frequency() {
                self.keeps_terms(value, &encryption, relation, scope)?
            } else {
                constant_or_moment(self.lexemes, value).is_some()
                    || self.default_at(value).is_some()
                    || self.only_chooses(value, &encryption, scope)?
                    || self.reference(value, scope)?.is_some()
            };
            if !is_copied {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Is it a choice among constants that the proxy can make of each row's branch?
    pub(in crate::rewrite) fn is_choice_of_constants(&self, expression: &Expr, of: &Encryption) -> bool {
        let is_taken = |result: &Expr| {
            let is_of_kind = |found: &Constant| found.written != Written::Number || of.kind.is_number();
            let found = constant_or_moment(self.lexemes, result);
            found.is_some_and(|found| !found.is_cast_elsewhere() && is_of_kind(&found))
        };
        match expression {
            Expr::Nested(inner) => self.is_choice_of_constants(inner, of),
            Expr::Cast { expr, data_type, format: None, .. } => {
                cast_kind(&data_type.to_string(), of).is_some() && self.is_choice_of_constants(expr, of)
            }
            Expr::Case { conditions, else_result, .. } => {
                conditions.iter().map(|when| &when.result).chain(else_result.as_deref()).all(is_taken)
            }
            _ => false,
        }
    }

    /// A choice, the number of whose branch the server says of each row; none if it is no such choice.
    pub(super) fn computable_choice(
        &mut self,
        expression: &Expr,
        of: &Arc<Encryption>,
        scope: &Scope<'_>,
    ) -> Result<Option<Expression>, SqlError> {
        match expression {
            Expr::Nested(inner) => self.computable_choice(inner, of, scope),
            Expr::Cast { expr, data_type, format: None, .. } => {
                let Some(kind) = cast_kind(&data_type.to_string(), of) else { return Ok(None) };
                let chosen = self.computable_choice(expr, of, scope)?;
                Ok(chosen.map(|chosen| Expression::Cast(Box::new(chosen), kind)))
            }
            // What is read of a row that was to be inserted is read without parameters.
            Expr::Case { .. } if self.upsert.is_none() => self.computable_case(expression, of, scope),
            _ => Ok(None),
        }
    }

    fn computable_case(
        &mut self,
        expression: &Expr,
        of: &Arc<Encryption>,
        scope: &Scope<'_>,
    ) -> Result<Option<Expression>, SqlError> {
        let Expr::Case { operand, conditions, else_result, case_token, .. } = expression else {
            return Ok(None);
        };
        let start = self.lexemes.position_of(case_token.0.span);
        let Some((tokens, places)) = start.and_then(|start| results_of(self.lexemes, start)) else {
            return Ok(None);
        };
        let results: Vec<&Expr> =
            conditions.iter().map(|when| &when.result).chain(else_result.as_deref()).collect();
        if results.len() != places.len() {
            return Ok(None);
        }
        self.require_looked_at(operand.as_deref(), conditions)?;
        let mut values = Vec::with_capacity(results.len());
        for result in results {
            let found = constant_or_moment(self.lexemes, result);
            found.iter().try_for_each(|found| self.check_branch(found, of))?;
            if found.is_some_and(|found| found.source == Source::Constant(None)) {
                values.push(Expression::Coalesce(Vec::new()));
                continue;
            }
            let Some(value) = self.computable_for_some(result, of, scope)? else { return Ok(None) };
            // What PostgreSQL does not take beside the column's values.
            if matches!(value, Expression::Number(..)) && !of.kind.is_number() {
                return Ok(None);
            }
            values.push(value);
        }
        let branch = self.branch_number((operand.as_deref(), conditions), (tokens, &places), scope)?;
        let position = self.computed.read_again(branch, Output::Plain);
        Ok(Some(Expression::Chosen(position, values)))
    }

    /// What is computed of the rows that come to it.
    pub(super) fn computable_for_some(
        &mut self,
        expression: &Expr,
        of: &Arc<Encryption>,
        scope: &Scope<'_>,
    ) -> Result<Option<Expression>, SqlError> {
        let around = std::mem::replace(&mut self.computed.for_some, true);
        let found = self.computable(expression, of, scope);
        self.computed.for_some = around;
        found
    }

    /// That the server can say the branch of every row where PostgreSQL looks at some only: that no condition fails or does
    /// something besides.
    fn require_looked_at(&self, operand: Option<&Expr>, conditions: &[CaseWhen]) -> Result<(), SqlError> {
        let mut looked_at = conditions.iter().map(|when| &when.condition).chain(operand);
        match looked_at.find(|condition| self.computed.for_some && !is_safe(condition)) {
            None => Ok(()),
            Some(condition) => Err(self.unsupported(
                first_token(self.lexemes, condition),
                "a CASE that PostgreSQL looks at for some rows only has a condition that is more than comparisons".into(),
                "Write one CASE of all conditions, or compute in the application.",
            )),
        }
    }

    /// That a constant is one of the column's: PostgreSQL looks at it before a row is read.
    fn check_branch(&self, found: &Constant, of: &Encryption) -> Result<(), SqlError> {
        self.check_constant(found, of)?;
        match (&found.source, found.written, &found.cast) {
            (Source::Constant(Some(text)), Written::Any, None) => {
                let read = Datum::cast_text(of.kind, text);
                read.map(drop).map_err(|error| self.at(error, found.tokens.start))
            }
            _ => Ok(()),
        }
    }

    /// The text that says by which branch a row goes: the choice, among the numbers of its results.
    fn branch_number(
        &mut self,
        (operand, conditions): (Option<&Expr>, &[CaseWhen]),
        (tokens, results): (Range<usize>, &[Range<usize>]),
        scope: &Scope<'_>,
    ) -> Result<Vec<Piece>, SqlError> {
        let around = self.edits.take();
        let looked_at = conditions.iter().try_for_each(|when| match operand {
            Some(operand) => self.operand_of_case(operand, &when.condition, scope),
            None => self.expression(&when.condition, scope, "CASE"),
        });
        for (number, result) in results.iter().enumerate() {
            let bytes = self.bytes(result);
            self.edits.replace(bytes, vec![Piece::Text(format!("{}", number + 1))]);
        }
        // What is not read in a condition would be taken for understood with the whole choice.
        let unread = self.not_understood_in(tokens.clone());
        self.place_plain_parameters_in(tokens.clone());
        let pieces = self.edits.pieces(self.text, self.bytes(&tokens));
        self.edits.restore(around);
        self.understand_tokens(tokens);
        looked_at?;
        match unread {
            Some(at) => Err(self.refusal(at)),
            None => pieces,
        }
    }
}
