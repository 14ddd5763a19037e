//! New values from old ones: arithmetic as PostgreSQL's, in the types that it computes in.

use super::Inputs;
use super::derived::{days, kind_of_days};
use super::given::{Given, read};
use crate::catalog::Encryption;
use crate::codec::{Datum, Numeric, within};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::moment::{Moment, OfTime};
use crate::plan::{Arithmetic, Computation, Expression, Source};

/// A value, and the type that PostgreSQL has it in.
pub(super) struct Typed {
    pub(super) datum: Datum,
    pub(super) kind: ColumnType,
}

impl Computation {
    /// The value, as text; none is NULL. `inputs.read` is the row that was read.
    ///
    /// # Errors
    /// A parameter or a column is no value of its type; a result leaves its type, as PostgreSQL would say.
    pub fn evaluate(&self, inputs: Inputs<'_>) -> Result<Option<String>, SqlError> {
        let Some(value) = evaluate(&self.expression, &self.column, inputs)? else { return Ok(None) };
        let kind = self.column.kind;
        let value =
            value.datum.converted(value.kind, kind, inputs.asker.viewer.zone)?.storable(&self.column)?;
        Ok(Some(value.to_text(kind)))
    }
}

fn evaluate(
    expression: &Expression,
    column: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Option<Typed>, SqlError> {
    let value_of = |source: &Source, cast, of: &Encryption| read(source, cast, of, inputs);
    match expression {
        Expression::Read(position, of) => {
            let value = value_of(&Source::Read(*position), None, of)?;
            value.map(|value| beside(value, column, inputs)).transpose()
        }
        Expression::Parameter(number, of, cast) => {
            let value = value_of(&Source::Parameter(*number), *cast, of)?;
            value.map(|value| beside(value, of, inputs)).transpose()
        }
        Expression::Constant(text, of, cast) => {
            let value = value_of(&Source::Constant(Some(text.clone())), *cast, of)?;
            value.map(|value| beside(value, of, inputs)).transpose()
        }
        Expression::Plain(position, of) => {
            let kind = if of.kind.is_integer() { ColumnType::BigInt } else { of.kind };
            let value = value_of(&Source::Read(*position), None, of)?;
            Ok(value.map(|Given { datum, .. }| Typed { datum, kind }))
        }
        Expression::Number(text, of) => number(text, of, inputs).map(Some),
        Expression::Moment(moment) => moment_of(moment, inputs).map(Some),
        Expression::Arithmetic(operator, left, right) => arithmetic((left, *operator, right), column, inputs),
        Expression::OfTime(how, inner) => of_time(*how, inner, column, inputs),
        Expression::Coalesce(parts) => {
            for part in parts {
                if let Some(found) = evaluate(part, column, inputs)? {
                    return Ok(Some(in_type_of_all(found, parts)));
                }
            }
            Ok(None)
        }
        Expression::Chosen(position, among) => {
            let number = inputs.read.get(*position).and_then(Option::as_deref);
            let place = number.and_then(|digits| digits.parse::<usize>().ok()?.checked_sub(1));
            let Some(chosen) = place.and_then(|place| among.get(place)) else { return Ok(None) };
            Ok(evaluate(chosen, column, inputs)?.map(|found| in_type_of_all(found, among)))
        }
        Expression::Cast(inner, to) => {
            let Some(Typed { datum, kind }) = evaluate(inner, column, inputs)? else { return Ok(None) };
            Ok(Some(Typed { datum: datum.cast(kind, *to, inputs.asker.viewer.zone)?, kind: *to }))
        }
        Expression::Assigned(inner, of) => {
            let Some(Typed { datum, kind }) = evaluate(inner, of, inputs)? else { return Ok(None) };
            let datum = datum.converted(kind, of.kind, inputs.asker.viewer.zone)?.storable(of)?;
            Ok(Some(Typed { datum, kind: of.kind }))
        }
        Expression::Upserted { is_there, new, kept } => {
            let says =
                |position: usize| inputs.read.get(position).is_some_and(|said| said.as_deref() == Some("t"));
            if says(is_there + 1) {
                return Err(has_triggers(column));
            }
            evaluate(if says(*is_there) { new } else { kept }, column, inputs)
        }
        Expression::Negated(inner) => {
            evaluate(inner, column, inputs)?.map(|value| negated(value, column)).transpose()
        }
    }
}

fn arithmetic(
    (left, operator, right): (&Expression, Arithmetic, &Expression),
    column: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Option<Typed>, SqlError> {
    let has_days = kind_of_days(operator, kind_of(left), kind_of(right)).is_some();
    let side = if has_days { in_own_type } else { evaluate };
    let (left, right) = (side(left, column, inputs)?, side(right, column, inputs)?);
    let (Some(left), Some(right)) = (left, right) else { return Ok(None) };
    match days(operator, &left, &right)? {
        Some(found) => Ok(Some(found)),
        None => combine(operator, &left, &right, column).map(Some),
    }
}

fn of_time(
    how: OfTime,
    inner: &Expression,
    column: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Option<Typed>, SqlError> {
    let Some(Typed { datum, kind }) = in_own_type(inner, column, inputs)? else { return Ok(None) };
    let made = how.value(datum, kind, inputs.asker.viewer.zone)?;
    Ok(made.zip(how.kind(kind)).map(|(datum, kind)| Typed { datum, kind }))
}

/// A value that is a day or a moment, or is counted beside one: what is read is not one of the column that is set.
fn in_own_type(
    expression: &Expression,
    column: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Option<Typed>, SqlError> {
    match expression {
        Expression::Read(_, of) => evaluate(expression, of, inputs),
        Expression::Number(text, _) => digits(text).map(Some),
        other => evaluate(other, column, inputs),
    }
}

fn moment_of(moment: &Moment, inputs: Inputs<'_>) -> Result<Typed, SqlError> {
    let (datum, kind) = moment.value(inputs.asker.began, inputs.asker.viewer.zone)?;
    Ok(Typed { datum, kind })
}

/// One of several values, in the type of all.
fn in_type_of_all(found: Typed, among: &[Expression]) -> Typed {
    Typed { kind: among.iter().map(kind_of).fold(found.kind, common), ..found }
}

/// A number with the other sign.
pub(super) fn negated(value: Typed, column: &Encryption) -> Result<Typed, SqlError> {
    let Typed { datum, kind } = value;
    let datum = match datum {
        Datum::Integer(number) => within(number.checked_neg(), kind)?,
        Datum::Real(number) => Datum::Real(-number),
        Datum::Double(number) => Datum::Double(-number),
        Datum::Numeric(number) => Datum::Numeric(number.negated()),
        Datum::Text(_)
        | Datum::Bytes(_)
        | Datum::Uuid(_)
        | Datum::Boolean(_)
        | Datum::Date(_)
        | Datum::Timestamp(_) => return Err(no_operator("-", column)),
    };
    Ok(Typed { datum, kind })
}

/// A value beside others of a column's type: a number beside numbers is of its own, others are of the column's.
fn beside(given: Given, of: &Encryption, inputs: Inputs<'_>) -> Result<Typed, SqlError> {
    let Given { datum, kind } = given;
    if kind == of.kind || (kind.is_number() && of.kind.is_number()) {
        return Ok(Typed { datum, kind });
    }
    let datum = datum.converted(kind, of.kind, inputs.asker.viewer.zone)?;
    Ok(Typed { datum, kind: of.kind })
}

/// The type that two whole numbers have in common; of others, the first.
fn common(one: ColumnType, other: ColumnType) -> ColumnType {
    let width = |kind| match kind {
        ColumnType::SmallInt => Some(0),
        ColumnType::Integer => Some(1),
        ColumnType::BigInt => Some(2),
        _ => None,
    };
    match (width(one), width(other)) {
        (Some(first), Some(second)) if second > first => other,
        _ => one,
    }
}

/// The type that an expression has whatever its value.
pub(crate) fn kind_of(expression: &Expression) -> ColumnType {
    match expression {
        Expression::Read(_, of) => of.kind,
        Expression::Parameter(_, of, cast) | Expression::Constant(_, of, cast) => {
            cast.filter(|cast| cast.is_number() && of.kind.is_number()).unwrap_or(of.kind)
        }
        Expression::Plain(_, of) if of.kind.is_integer() => ColumnType::BigInt,
        Expression::Plain(_, of) => of.kind,
        Expression::Number(text, _) => kind_of_digits(text),
        Expression::Moment(moment) => moment.kind(),
        Expression::Arithmetic(operator, left, right) => {
            let (left, right) = (kind_of(left), kind_of(right));
            kind_of_days(*operator, left, right).unwrap_or_else(|| common(left, right))
        }
        Expression::OfTime(how, inner) => {
            let of = kind_of(inner);
            how.kind(of).unwrap_or(of)
        }
        Expression::Coalesce(parts) | Expression::Chosen(_, parts) => {
            parts.iter().map(kind_of).reduce(common).unwrap_or(ColumnType::Integer)
        }
        Expression::Negated(inner) => kind_of(inner),
        Expression::Cast(_, kind) => *kind,
        Expression::Assigned(_, of) => of.kind,
        Expression::Upserted { new, .. } => kind_of(new),
    }
}

/// The first type that holds a number in digits.
pub(crate) fn kind_of_digits(text: &str) -> ColumnType {
    match text.parse::<i64>() {
        Ok(number) if i32::try_from(number).is_ok() => ColumnType::Integer,
        Ok(_) => ColumnType::BigInt,
        Err(_) => ColumnType::Numeric(None),
    }
}

/// A number in digits, in the first type that holds it.
pub(super) fn digits(text: &str) -> Result<Typed, SqlError> {
    let kind = kind_of_digits(text);
    Ok(Typed { datum: Datum::from_text(kind, text)?, kind })
}

/// The same; beside texts, the text of it.
fn number(text: &str, of: &Encryption, inputs: Inputs<'_>) -> Result<Typed, SqlError> {
    let found = digits(text)?;
    if of.kind.is_number() {
        return Ok(found);
    }
    beside(Given { datum: found.datum, kind: found.kind }, of, inputs)
}

fn out(how: &str) -> SqlError {
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, format!("value out of range: {how}"))
}

/// What is inserted or updated in two steps is updated twice.
fn has_triggers(column: &Encryption) -> SqlError {
    let message = format!(
        "column {} is encrypted: ON CONFLICT DO UPDATE does not compute it in a table with triggers on UPDATE, which would run twice",
        column.label
    );
    SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
        .hint("Use UPDATE, and INSERT where it finds no row.")
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

/// Most bytes of what is joined of several values: a statement may join one with itself often.
const JOINED_BYTES_MAX: usize = 16 << 20;

fn may_join(one: usize, other: usize) -> Result<(), SqlError> {
    if one + other <= JOINED_BYTES_MAX {
        return Ok(());
    }
    Err(SqlError::new(
        "54000",
        format!("a result is longer than the proxy computes ({JOINED_BYTES_MAX} bytes)"),
    ))
}

pub(super) fn combine(
    operator: Arithmetic,
    left: &Typed,
    right: &Typed,
    column: &Encryption,
) -> Result<Typed, SqlError> {
    let no_operator = || no_operator(sign(operator), column);
    match (&left.datum, &right.datum, operator) {
        (Datum::Text(one), Datum::Text(other), Arithmetic::Concatenated) => {
            may_join(one.len(), other.len())?;
            return Ok(Typed { datum: Datum::Text(format!("{one}{other}")), kind: left.kind });
        }
        (Datum::Bytes(one), Datum::Bytes(other), Arithmetic::Concatenated) => {
            may_join(one.len(), other.len())?;
            return Ok(Typed { datum: Datum::Bytes([one.as_slice(), other].concat()), kind: left.kind });
        }
        (_, _, Arithmetic::Concatenated) => return Err(no_operator()),
        _ if !(left.kind.is_number() && right.kind.is_number()) => return Err(no_operator()),
        _ => {}
    }
    match (&left.datum, &right.datum) {
        (Datum::Integer(one), Datum::Integer(other)) => {
            let kind = common(left.kind, right.kind);
            let result = match operator {
                Arithmetic::Plus => one.checked_add(*other),
                Arithmetic::Minus => one.checked_sub(*other),
                Arithmetic::Over | Arithmetic::Modulo if *other == 0 => return Err(by_zero()),
                Arithmetic::Over => one.checked_div(*other),
                // Of what is divided by -1 nothing is left.
                Arithmetic::Modulo => Some(one.checked_rem(*other).unwrap_or(0)),
                Arithmetic::Times | Arithmetic::Concatenated => one.checked_mul(*other),
            };
            Ok(Typed { datum: within(result, kind)?, kind })
        }
        (Datum::Integer(_) | Datum::Numeric(_), Datum::Integer(_) | Datum::Numeric(_)) => {
            let (one, other) = (numeric(&left.datum), numeric(&right.datum));
            let (Some(one), Some(other)) = (one, other) else { return Err(no_operator()) };
            let result = match operator {
                Arithmetic::Plus => one.plus(&other),
                Arithmetic::Minus => one.plus(&other.negated()),
                Arithmetic::Over => one.over(&other).ok_or_else(by_zero)?,
                Arithmetic::Modulo => one.modulo(&other).ok_or_else(by_zero)?,
                Arithmetic::Times | Arithmetic::Concatenated => one.times(&other),
            };
            let overflow =
                || SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format");
            let result = result.kept().ok_or_else(overflow)?;
            Ok(Typed { datum: Datum::Numeric(result), kind: ColumnType::Numeric(None) })
        }
        _ if operator == Arithmetic::Modulo => Err(no_operator()),
        (Datum::Real(one), Datum::Real(other)) => {
            let (one, other) = (f64::from(*one), f64::from(*other));
            let result = compute(operator, one, other)? as f32;
            checked(operator, f64::from(result), one, other)?;
            Ok(Typed { datum: Datum::Real(result), kind: ColumnType::Real })
        }
        (one, other) => {
            let (one, other) = (double(one), double(other));
            let result = checked(operator, compute(operator, one, other)?, one, other)?;
            Ok(Typed { datum: Datum::Double(result), kind: ColumnType::DoublePrecision })
        }
    }
}

/// The type that arithmetic on two types of numbers gives; none if there is no such operator.
pub(crate) fn kind_of_arithmetic(
    operator: Arithmetic,
    left: ColumnType,
    right: ColumnType,
) -> Option<ColumnType> {
    let is_exact = |kind: ColumnType| kind.is_integer() || matches!(kind, ColumnType::Numeric(_));
    match (left, right) {
        _ if operator == Arithmetic::Concatenated || !left.is_number() || !right.is_number() => None,
        _ if left.is_integer() && right.is_integer() => Some(common(left, right)),
        _ if is_exact(left) && is_exact(right) => Some(ColumnType::Numeric(None)),
        _ if operator == Arithmetic::Modulo => None,
        (ColumnType::Real, ColumnType::Real) => Some(ColumnType::Real),
        _ => Some(ColumnType::DoublePrecision),
    }
}

fn by_zero() -> SqlError {
    SqlError::new("22012", "division by zero")
}

/// The operator as it is written.
pub(crate) fn sign(operator: Arithmetic) -> &'static str {
    match operator {
        Arithmetic::Plus => "+",
        Arithmetic::Minus => "-",
        Arithmetic::Times => "*",
        Arithmetic::Over => "/",
        Arithmetic::Modulo => "%",
        Arithmetic::Concatenated => "||",
    }
}

pub(super) fn numeric(datum: &Datum) -> Option<Numeric> {
    match datum {
        Datum::Integer(number) => Some(Numeric::integer(*number)),
        Datum::Numeric(number) => Some(number.clone()),
        _ => None,
    }
}

/// A number as a double has it.
pub(super) fn double(datum: &Datum) -> f64 {
    match datum {
        Datum::Integer(number) => *number as f64,
        Datum::Real(number) => f64::from(*number),
        Datum::Double(number) => *number,
        Datum::Numeric(_) => datum.to_text(ColumnType::Numeric(None)).parse().unwrap_or(f64::NAN),
        _ => f64::NAN,
    }
}

fn compute(operator: Arithmetic, left: f64, right: f64) -> Result<f64, SqlError> {
    Ok(match operator {
        Arithmetic::Plus => left + right,
        Arithmetic::Minus => left - right,
        Arithmetic::Over if right == 0.0 && !left.is_nan() => return Err(by_zero()),
        Arithmetic::Over => left / right,
        Arithmetic::Times | Arithmetic::Modulo | Arithmetic::Concatenated => left * right,
    })
}

/// A result that is infinite or zero where its operands do not say so has left its type.
fn checked(operator: Arithmetic, result: f64, left: f64, right: f64) -> Result<f64, SqlError> {
    let is_out = match operator {
        Arithmetic::Over => left.is_finite(),
        _ => left.is_finite() && right.is_finite(),
    };
    if result.is_infinite() && is_out {
        return Err(out("overflow"));
    }
    let lost = match operator {
        Arithmetic::Times => right != 0.0,
        Arithmetic::Over => right.is_finite(),
        _ => false,
    };
    if lost && result == 0.0 && left != 0.0 { Err(out("underflow")) } else { Ok(result) }
}
