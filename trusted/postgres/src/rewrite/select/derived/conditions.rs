//! Conditions by which the proxy chooses: computed by it where they read what is encrypted, else by the server.

use super::super::first_token;
use super::{Gathered, within};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Compared, DerivedExpression, DerivedPart};
use crate::rewrite::analysis::Analysis;
use crate::rewrite::scope::Scope;
use crate::rewrite::spelling::is_symmetric;
use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};
use sqlparser::tokenizer::Token;
use std::ops::Range;

pub(super) fn compared_of(op: &BinaryOperator) -> Option<Compared> {
    Some(match op {
        BinaryOperator::Eq => Compared::Equal,
        BinaryOperator::NotEq => Compared::NotEqual,
        BinaryOperator::Lt => Compared::Less,
        BinaryOperator::LtEq => Compared::LessOrEqual,
        BinaryOperator::Gt => Compared::Greater,
        BinaryOperator::GtEq => Compared::GreaterOrEqual,
        _ => return None,
    })
}

fn not(condition: DerivedExpression) -> DerivedExpression {
    DerivedExpression::Not(Box::new(condition))
}

fn all(list: Vec<DerivedExpression>) -> DerivedExpression {
    DerivedExpression::All(list)
}

/// One of them, or more.
fn any(list: Vec<DerivedExpression>) -> DerivedExpression {
    not(all(list.into_iter().map(not).collect()))
}

/// Is it known whether values are equal? A plain column of texts may have a collation to which texts of other bytes are.
pub(super) fn are_sure(values: &[&DerivedExpression], gathered: &Gathered) -> bool {
    let is_text = |value: &&DerivedExpression| {
        matches!(value.kind(&gathered.parts), Some(ColumnType::Text | ColumnType::Varchar(_)))
    };
    let has_plain_text = gathered
        .parts
        .iter()
        .any(|part| matches!(part, DerivedPart::Plain(ColumnType::Text | ColumnType::Varchar(_))));
    !(has_plain_text && values.iter().any(is_text))
}

/// Can it be looked at for every row, also where PostgreSQL would not: does nothing in it fail?
pub(in crate::rewrite) fn is_safe(expression: &Expr) -> bool {
    match expression {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_) => true,
        Expr::BinaryOp { op, .. } => {
            let joins = matches!(op, BinaryOperator::And | BinaryOperator::Or);
            (joins || compared_of(op).is_some()) && within(expression).into_iter().all(is_safe)
        }
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => is_safe(expr),
        Expr::Nested(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsDistinctFrom(..)
        | Expr::IsNotDistinctFrom(..)
        | Expr::InList { .. }
        | Expr::Between { .. } => within(expression).into_iter().all(is_safe),
        Expr::Like { expr, pattern, .. } => is_safe(expr) && is_safe(pattern),
        _ => false,
    }
}

/// Are members of a list all written in one way, so that one by one they are read as they are together?
fn are_of_one_kind(list: &[Expr]) -> bool {
    fn kind(member: &Expr) -> Option<std::mem::Discriminant<Value>> {
        match member {
            Expr::Value(value) => Some(std::mem::discriminant(&value.value)),
            Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => kind(expr),
            _ => None,
        }
    }
    match list {
        [] | [_] => true,
        [first, rest @ ..] => kind(first).is_some() && rest.iter().all(|member| kind(member) == kind(first)),
    }
}

impl Analysis<'_> {
    /// Does `SYMMETRIC` stand before the first end of a `BETWEEN`?
    fn is_behind_symmetric(&self, low: &Expr) -> bool {
        // Parentheses and signs before the first value.
        let mut at = first_token(self.lexemes, low);
        while let Some(before) = at.checked_sub(1) {
            match self.lexemes.token(before) {
                Some(Token::LParen | Token::Minus | Token::Plus) => at = before,
                _ => return is_symmetric(self.lexemes, before),
            }
        }
        false
    }

    /// `CASE`, with an operand or without.
    pub(super) fn case_of(
        &mut self,
        expression: &Expr,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<DerivedExpression>, SqlError> {
        let Expr::Case { operand, conditions, else_result, case_token, .. } = expression else {
            return Ok(None);
        };
        let around = gathered.lazy;
        let mut at = self.lexemes.position_of(case_token.0.span).unwrap_or(0);
        let mut found = Vec::with_capacity(conditions.len());
        for when in conditions {
            let Some(tokens) = self.condition_tokens(at) else { return Ok(None) };
            at = tokens.end;
            let condition = match operand {
                Some(operand) => {
                    self.compared((operand, &when.condition), Compared::Equal, gathered, scope)?
                }
                None => self.truth_of(&when.condition, tokens, gathered, scope)?,
            };
            let Some(condition) = condition else { return Ok(None) };
            found.push(condition);
            gathered.lazy = true;
        }
        let results = conditions.iter().map(|when| &when.result).chain(else_result.as_deref());
        let results: Vec<&Expr> = results.collect();
        let settled = self.settled_all(&results, gathered, scope)?;
        gathered.lazy = around;
        let Some(mut settled) = settled else { return Ok(None) };
        let otherwise = else_result.as_ref().and_then(|_| settled.pop()).map(Box::new);
        Ok(Some(DerivedExpression::Case(found.into_iter().zip(settled).collect(), otherwise)))
    }

    /// The tokens between the next `WHEN` of a `CASE` and its `THEN`.
    fn condition_tokens(&self, from: usize) -> Option<Range<usize>> {
        let is = |at: usize, word: &str| self.lexemes.is_word(at, word);
        let (mut depth, mut start) = (0_usize, None);
        for at in from + 1..self.lexemes.list.len() {
            if is(at, "case") {
                depth += 1;
            } else if is(at, "end") {
                depth = depth.checked_sub(1)?;
            } else if depth == 0 && is(at, "when") {
                start = Some(at + 1);
            } else if depth == 0 && is(at, "then") && start.is_some() {
                return start.map(|start| start..at);
            }
        }
        None
    }

    /// A condition of `CASE`: the proxy's, or the server's where the proxy does not know how.
    fn truth_of(
        &mut self,
        condition: &Expr,
        tokens: Range<usize>,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<DerivedExpression>, SqlError> {
        let is_encrypted = self.column_within(condition, within, scope)?.is_some();
        let is_servers = !gathered.lazy || is_safe(condition);
        if is_encrypted || !is_servers {
            let marks = (self.edits.mark(), gathered.mark());
            match self.typed(condition, gathered, scope) {
                Ok(Some(found)) => return Ok(Some(found)),
                Ok(None) => {}
                Err(error) if error.sqlstate == sqlstate::FEATURE_NOT_SUPPORTED => {}
                Err(error) => return Err(error),
            }
            self.edits.back_to(marks.0);
            gathered.back_to(marks.1);
        }
        if !is_servers {
            return Ok(None);
        }
        self.gathered_condition(condition, tokens, gathered, scope).map(Some)
    }

    fn compared(
        &mut self,
        both: (&Expr, &Expr),
        how: Compared,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<DerivedExpression>, SqlError> {
        let Some((left, right)) = self.settled_both(both, gathered, scope)? else { return Ok(None) };
        let is_sure = are_sure(&[&left, &right], gathered);
        Ok(is_sure.then(|| DerivedExpression::Compared(how, Box::new(left), Box::new(right))))
    }

    /// A condition that the proxy looks at; none if it does not know how.
    pub(super) fn condition_of(
        &mut self,
        condition: &Expr,
        gathered: &mut Gathered,
        scope: &Scope<'_>,
    ) -> Result<Option<DerivedExpression>, SqlError> {
        let is = |truth: bool, inner: DerivedExpression| DerivedExpression::Is(truth, Box::new(inner));
        let found = match condition {
            Expr::BinaryOp { left, op: op @ (BinaryOperator::And | BinaryOperator::Or), right } => {
                let left = self.typed(left, gathered, scope)?;
                let around = std::mem::replace(&mut gathered.lazy, true);
                let right = self.typed(right, gathered, scope)?;
                gathered.lazy = around;
                let both = left.zip(right).map(|(left, right)| vec![left, right]);
                both.map(if *op == BinaryOperator::And { all } else { any })
            }
            Expr::BinaryOp { left, op, right } => {
                let Some(how) = compared_of(op) else { return Ok(None) };
                self.compared((left, right), how, gathered, scope)?
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => self.typed(expr, gathered, scope)?.map(not),
            Expr::IsNull(inner) => {
                let inner = self.typed(inner, gathered, scope)?;
                inner.map(|inner| DerivedExpression::IsNull(Box::new(inner)))
            }
            Expr::IsNotNull(inner) => {
                let inner = self.typed(inner, gathered, scope)?;
                inner.map(|inner| not(DerivedExpression::IsNull(Box::new(inner))))
            }
            Expr::IsTrue(inner) => self.typed(inner, gathered, scope)?.map(|inner| is(true, inner)),
            Expr::IsNotTrue(inner) => self.typed(inner, gathered, scope)?.map(|inner| not(is(true, inner))),
            Expr::IsFalse(inner) => self.typed(inner, gathered, scope)?.map(|inner| is(false, inner)),
            Expr::IsNotFalse(inner) => self.typed(inner, gathered, scope)?.map(|inner| not(is(false, inner))),
            // PostgreSQL reads members of several kinds as one type.
            Expr::InList { list, .. } if !are_of_one_kind(list) => None,
            Expr::InList { expr, list, negated } => {
                let mut found = Vec::with_capacity(list.len());
                for one in list {
                    let Some(one) = self.compared((expr, one), Compared::Equal, gathered, scope)? else {
                        return Ok(None);
                    };
                    found.push(one);
                }
                Some(if *negated { not(any(found)) } else { any(found) })
            }
            Expr::Between { low, .. } if self.is_behind_symmetric(low) => None,
            Expr::Between { expr, low, high, negated } => {
                let low = self.compared((expr, low), Compared::GreaterOrEqual, gathered, scope)?;
                let high = self.compared((expr, high), Compared::LessOrEqual, gathered, scope)?;
                let within = low.zip(high).map(|(low, high)| all(vec![low, high]));
                within.map(|within| if *negated { not(within) } else { within })
            }
            _ => None,
        };
        Ok(found)
    }
}
