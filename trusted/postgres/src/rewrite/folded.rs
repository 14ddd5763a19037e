//! Constants that are computed of constants: `5 - 1`, `date '2020-01-08' - 7`.

use super::constant::{Constant, Written, constant};
use crate::column_type::ColumnType;
use crate::plan::{DerivedExpression, Source};
use crate::text::Lexemes;
use crate::values::{constant_value, kind_of_digits};
use sqlparser::ast::{BinaryOperator, Expr};

/// The constant that an operator makes of two; none if it makes none, or fails.
pub(super) fn folded(lexemes: &Lexemes, left: &Expr, op: &BinaryOperator, right: &Expr) -> Option<Constant> {
    let operator = super::select::operator_of(op)?;
    let (left, right) = (constant(lexemes, left)?, constant(lexemes, right)?);
    // The operator alone stands between them.
    (right.tokens.start == left.tokens.end + 1).then_some(())?;
    let tokens = left.tokens.start..right.tokens.end;
    let (left, right) = (said(&left)?, said(&right)?);
    let (text, kind) =
        constant_value(&DerivedExpression::Arithmetic(operator, Box::new(left), Box::new(right)))?;
    let is_of_digits = kind.is_number() && kind_of_digits(&text) == kind;
    let written = if kind.is_number() { Written::Number } else { Written::Any };
    let cast = (!is_of_digits).then(|| kind.name());
    Some(Constant { tokens, source: Source::Constant(Some(text)), written, cast })
}

/// What a constant says, if it is no parameter and not NULL; a string without a type is a text.
fn said(found: &Constant) -> Option<DerivedExpression> {
    let Source::Constant(Some(text)) = &found.source else { return None };
    Some(match (&found.cast, found.written) {
        (Some(_), _) => DerivedExpression::Constant(Some(text.clone()), found.cast_kind()?),
        (None, Written::Number) => DerivedExpression::Number(text.clone()),
        (None, Written::Any) => DerivedExpression::Constant(Some(text.clone()), ColumnType::Text),
        (None, Written::Boolean) => return None,
    })
}
