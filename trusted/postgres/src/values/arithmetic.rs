//! New values from old ones: arithmetic as PostgreSQL's on one type.

use super::{Inputs, datum};
use crate::catalog::Encryption;
use crate::codec::{Datum, Numeric};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Arithmetic, Computation, Expression, Source};

impl Computation {
    /// The value, as text; none is NULL. `inputs.read` is the row that was read.
    ///
    /// # Errors
    /// A parameter or a column is no value of its type; the result leaves its type, as PostgreSQL would say.
    pub fn evaluate(&self, inputs: Inputs<'_>) -> Result<Option<String>, SqlError> {
        let value = evaluate(&self.expression, &self.column, inputs)?;
        let assigned = |value| assigned(value, &self.column)?.storable(&self.column);
        value.map(|value| Ok(assigned(value)?.to_text(self.column.kind))).transpose()
    }
}

/// A result of a wider type as it is assigned to the column.
fn assigned(value: Datum, column: &Encryption) -> Result<Datum, SqlError> {
    match (value, column.kind) {
        (Datum::Numeric(number), kind) if kind.is_integer() => {
            number.rounded().map(Datum::Integer).ok_or_else(|| out_of_range(column))
        }
        (Datum::Double(number), ColumnType::Real) => {
            let rounded = number as f32;
            if rounded.is_infinite() && number.is_finite() {
                return Err(overflow());
            }
            if rounded == 0.0 && number != 0.0 {
                let underflow = "value out of range: underflow";
                return Err(SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, underflow));
            }
            Ok(Datum::Real(rounded))
        }
        (value, _) => Ok(value),
    }
}

/// A number in digits beside values of a column: `real` takes it as a double, whole numbers take it as a decimal if it is none.
fn number(text: &str, of: &Encryption, inputs: Inputs<'_>) -> Result<Option<Datum>, SqlError> {
    let kind = match of.kind {
        ColumnType::Real => ColumnType::DoublePrecision,
        kind if kind.is_integer() && text.contains(['.', 'e', 'E']) => ColumnType::Numeric(None),
        _ => return datum(&Source::Constant(Some(text.to_owned())), of, inputs),
    };
    Datum::from_text(kind, text).map(Some)
}

fn evaluate(
    expression: &Expression,
    column: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Option<Datum>, SqlError> {
    match expression {
        Expression::Read(index, of) => {
            let value = datum(&Source::Read(*index), of, inputs)?;
            // A column of another type joins in the type of the one that is set.
            if of.kind == column.kind {
                return Ok(value);
            }
            value.map(|value| Datum::from_text(column.kind, &value.to_text(of.kind))).transpose()
        }
        Expression::Parameter(number, of) => datum(&Source::Parameter(*number), of, inputs),
        Expression::Constant(text, of) => datum(&Source::Constant(Some(text.clone())), of, inputs),
        Expression::Number(text, of) => number(text, of, inputs),
        Expression::Arithmetic(operator, left, right) => {
            let left = evaluate(left, column, inputs)?;
            let right = evaluate(right, column, inputs)?;
            let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
            combine(*operator, &left, &right, column).map(Some)
        }
        Expression::Coalesce(parts) => {
            for part in parts {
                if let Some(value) = evaluate(part, column, inputs)? {
                    return Ok(Some(value));
                }
            }
            Ok(None)
        }
        Expression::Negated(inner) => {
            let Some(value) = evaluate(inner, column, inputs)? else { return Ok(None) };
            match value {
                Datum::Integer(number) => {
                    Ok(Some(Datum::Integer(number.checked_neg().ok_or_else(|| out_of_range(column))?)))
                }
                Datum::Real(number) => Ok(Some(Datum::Real(-number))),
                Datum::Double(number) => Ok(Some(Datum::Double(-number))),
                Datum::Numeric(number) => Ok(Some(Datum::Numeric(number.negated()))),
                Datum::Text(_)
                | Datum::Bytes(_)
                | Datum::Uuid(_)
                | Datum::Boolean(_)
                | Datum::Date(_)
                | Datum::Timestamp(_) => Err(no_operator("-", column)),
            }
        }
    }
}

fn out_of_range(column: &Encryption) -> SqlError {
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", column.kind.name()))
}

fn no_operator(operator: &str, column: &Encryption) -> SqlError {
    SqlError::new(
        sqlstate::FEATURE_NOT_SUPPORTED,
        format!(
            "the proxy does not compute {operator} on type {} of column {}",
            column.kind.name(),
            column.label
        ),
    )
    .hint("Compute the value in the application.")
}

fn combine(
    operator: Arithmetic,
    left: &Datum,
    right: &Datum,
    column: &Encryption,
) -> Result<Datum, SqlError> {
    let sign = match operator {
        Arithmetic::Plus => "+",
        Arithmetic::Minus => "-",
        Arithmetic::Times => "*",
        Arithmetic::Concatenated => "||",
    };
    let range = || out_of_range(column);
    let (left, right) = &as_wide(left, right);
    match (left, right, operator) {
        (Datum::Integer(left), Datum::Integer(right), _) => {
            let result = match operator {
                Arithmetic::Plus => left.checked_add(*right),
                Arithmetic::Minus => left.checked_sub(*right),
                Arithmetic::Times => left.checked_mul(*right),
                Arithmetic::Concatenated => return Err(no_operator(sign, column)),
            };
            result.map(Datum::Integer).ok_or_else(range)
        }
        (Datum::Numeric(left), Datum::Numeric(right), _) => Ok(Datum::Numeric(match operator {
            Arithmetic::Plus => left.plus(right),
            Arithmetic::Minus => left.plus(&right.negated()),
            Arithmetic::Times => left.times(right),
            Arithmetic::Concatenated => return Err(no_operator(sign, column)),
        })),
        (Datum::Double(left), Datum::Double(right), _) => {
            let result = real(operator, *left, *right).ok_or_else(|| no_operator(sign, column))?;
            let lost = result.is_infinite() && left.is_finite() && right.is_finite();
            if lost { Err(overflow()) } else { Ok(Datum::Double(result)) }
        }
        (Datum::Real(left), Datum::Real(right), _) => {
            let result = match operator {
                Arithmetic::Plus => left + right,
                Arithmetic::Minus => left - right,
                Arithmetic::Times => left * right,
                Arithmetic::Concatenated => return Err(no_operator(sign, column)),
            };
            let lost = result.is_infinite() && left.is_finite() && right.is_finite();
            if lost { Err(overflow()) } else { Ok(Datum::Real(result)) }
        }
        (Datum::Text(left), Datum::Text(right), Arithmetic::Concatenated) => {
            Ok(Datum::Text(format!("{left}{right}")))
        }
        (Datum::Bytes(left), Datum::Bytes(right), Arithmetic::Concatenated) => {
            Ok(Datum::Bytes([left.as_slice(), right].concat()))
        }
        _ => Err(no_operator(sign, column)),
    }
}

/// Two numbers in the wider type of theirs.
fn as_wide(left: &Datum, right: &Datum) -> (Datum, Datum) {
    let numeric = |number: &i64| Datum::Numeric(Numeric::integer(*number));
    let double = |number: &f32| Datum::Double(f64::from(*number));
    match (left, right) {
        (Datum::Integer(left), Datum::Numeric(_)) => (numeric(left), right.clone()),
        (Datum::Numeric(_), Datum::Integer(right)) => (left.clone(), numeric(right)),
        (Datum::Real(left), Datum::Double(_)) => (double(left), right.clone()),
        (Datum::Double(_), Datum::Real(right)) => (left.clone(), double(right)),
        _ => (left.clone(), right.clone()),
    }
}

fn real(operator: Arithmetic, left: f64, right: f64) -> Option<f64> {
    match operator {
        Arithmetic::Plus => Some(left + right),
        Arithmetic::Minus => Some(left - right),
        Arithmetic::Times => Some(left * right),
        Arithmetic::Concatenated => None,
    }
}

fn overflow() -> SqlError {
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}
