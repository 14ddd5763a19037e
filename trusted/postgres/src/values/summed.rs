//! What is computed of sums and means, in PostgreSQL's types.

use super::arithmetic::{
    Typed, combine, digits, double, kind_of_arithmetic, kind_of_digits, negated, numeric,
};
use crate::codec::{Datum, Numeric};
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::plan::{Summed, SummedExpression, SummedPart};

/// The value of an expression where its parts have these; none is NULL.
///
/// # Errors
/// A result leaves its type, something is divided by zero.
pub(super) fn computed(summed: &Summed, values: &[Option<Typed>]) -> Result<Option<Typed>, SqlError> {
    evaluate(&summed.expression, summed, values)
}

fn evaluate(
    expression: &SummedExpression,
    summed: &Summed,
    values: &[Option<Typed>],
) -> Result<Option<Typed>, SqlError> {
    match expression {
        SummedExpression::Part(position) => {
            let value = values.get(*position).and_then(Option::as_ref);
            Ok(value.map(|value| Typed { datum: value.datum.clone(), kind: value.kind }))
        }
        SummedExpression::Number(text) => digits(text).map(Some),
        SummedExpression::Arithmetic(operator, left, right) => {
            let left = evaluate(left, summed, values)?;
            let right = evaluate(right, summed, values)?;
            let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
            combine(*operator, &left, &right, &summed.column).map(Some)
        }
        SummedExpression::Negated(inner) => {
            let value = evaluate(inner, summed, values)?;
            value.map(|value| negated(value, &summed.column)).transpose()
        }
        SummedExpression::Coalesce(list) => {
            let kind = expression.kind(&summed.parts);
            for one in list {
                if let Some(Typed { datum, kind: from }) = evaluate(one, summed, values)? {
                    let kind = kind.unwrap_or(from);
                    return Ok(Some(Typed { datum: datum.cast(from, kind, false)?, kind }));
                }
            }
            Ok(None)
        }
        SummedExpression::Round(inner, to) => {
            let value = evaluate(inner, summed, values)?;
            Ok(value.map(|value| rounded(&value, *to)))
        }
        SummedExpression::Cast(inner, to) => {
            let Some(Typed { datum, kind }) = evaluate(inner, summed, values)? else { return Ok(None) };
            Ok(Some(Typed { datum: datum.cast(kind, *to, false)?, kind: *to }))
        }
    }
}

/// As `round` does: a decimal away from zero of two that are as near, a double to the even one.
fn rounded(value: &Typed, to: Option<i32>) -> Typed {
    let exact = |digits| {
        let number = numeric(&value.datum).unwrap_or(Numeric::Nan);
        Typed { datum: Datum::Numeric(number.rounded_to(digits)), kind: ColumnType::Numeric(None) }
    };
    match (to, value.kind) {
        (Some(digits), _) => exact(digits),
        (None, ColumnType::Numeric(_)) => exact(0),
        (None, _) => {
            let datum = Datum::Double(double(&value.datum).round_ties_even());
            Typed { datum, kind: ColumnType::DoublePrecision }
        }
    }
}

/// The place of a type among those of numbers: one is taken for what stands behind it without being asked.
fn rank(kind: ColumnType) -> Option<u8> {
    Some(match kind {
        ColumnType::SmallInt => 0,
        ColumnType::Integer => 1,
        ColumnType::BigInt => 2,
        ColumnType::Numeric(_) => 3,
        ColumnType::Real => 4,
        ColumnType::DoublePrecision => 5,
        _ => return None,
    })
}

impl SummedExpression {
    /// The type of its value, where it is computed of these parts; none if PostgreSQL has no such operator or function.
    pub(crate) fn kind(&self, parts: &[SummedPart]) -> Option<ColumnType> {
        match self {
            Self::Part(position) => parts.get(*position).map(|part| match part {
                SummedPart::Fold(fold, encryption) => fold.kind(encryption.kind),
                SummedPart::Count => ColumnType::BigInt,
            }),
            Self::Number(text) => Some(kind_of_digits(text)),
            Self::Arithmetic(operator, left, right) => {
                kind_of_arithmetic(*operator, left.kind(parts)?, right.kind(parts)?)
            }
            Self::Negated(inner) => inner.kind(parts).map(ColumnType::plain),
            Self::Coalesce(list) => {
                let kinds = list.iter().map(|one| one.kind(parts)).collect::<Option<Vec<_>>>()?;
                if let [first, rest @ ..] = &kinds[..]
                    && rest.iter().all(|kind| kind == first)
                {
                    return Some(*first);
                }
                let widest = kinds.into_iter().map(|kind| Some((rank(kind)?, kind.plain())));
                let widest = widest.collect::<Option<Vec<_>>>()?.into_iter().max_by_key(|(rank, _)| *rank);
                widest.map(|(_, kind)| kind)
            }
            Self::Round(inner, to) => match (inner.kind(parts)?, to) {
                (kind, None) if !matches!(kind, ColumnType::Numeric(_)) => Some(ColumnType::DoublePrecision),
                (ColumnType::Real | ColumnType::DoublePrecision, Some(_)) => None,
                _ => Some(ColumnType::Numeric(None)),
            },
            Self::Cast(inner, to) => inner.kind(parts).map(|_| *to),
        }
    }
}
