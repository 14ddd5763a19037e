//! What is computed of a row's values and of sums, in PostgreSQL's types.

use super::arithmetic::{
    Typed, combine, digits, double, kind_of_arithmetic, kind_of_digits, negated, numeric,
};
use crate::catalog::{Encryption, Origin};
use crate::codec::{Datum, Numeric, Zone, days_after, within};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::moment::OfTime;
use crate::plan::{Arithmetic, Called, Compared, Derived, DerivedExpression, DerivedPart};
use std::cmp::Ordering;
use std::sync::Arc;

/// The value of an expression where its parts have these, in a session's time zone; none is NULL.
///
/// # Errors
/// A result leaves its type, something is divided by zero.
pub(super) fn computed(
    derived: &Derived,
    values: &[Option<Typed>],
    zone: Zone,
) -> Result<Option<Typed>, SqlError> {
    Computing { derived, values, zone }.value(&derived.expression)
}

/// That an expression of constants has a value.
///
/// # Errors
/// As of [`computed`].
pub(crate) fn check_constant(
    expression: &DerivedExpression,
    column: &Arc<Encryption>,
) -> Result<(), SqlError> {
    let Some(kind) = expression.kind(&[]) else { return Ok(()) };
    let derived = Derived { parts: Vec::new(), expression: expression.clone(), kind, column: column.clone() };
    computed(&derived, &[], Zone::Unknown).map(drop)
}

/// The text and the type of what is computed of constants alone; none if that is NULL, or fails.
pub(crate) fn constant_value(expression: &DerivedExpression) -> Option<(String, ColumnType)> {
    let kind = expression.kind(&[])?;
    let (id, label) = ([0; 8], String::new());
    let (max_bytes, equality, order, sum, text, check) = (None, None, None, false, None, None);
    let origin = Origin::Stored;
    let column =
        Arc::new(Encryption { id, label, kind, max_bytes, equality, order, sum, text, check, origin });
    let derived = Derived { parts: Vec::new(), expression: expression.clone(), kind, column };
    let Typed { datum, kind } = computed(&derived, &[], Zone::Unknown).ok()??;
    Some((datum.cast_to_text(kind), kind))
}

/// An expression's parts and their values.
struct Computing<'d> {
    derived: &'d Derived,
    values: &'d [Option<Typed>],
    zone: Zone,
}

fn truth(value: bool) -> Typed {
    Typed { datum: Datum::Boolean(value), kind: ColumnType::Boolean }
}

impl Computing<'_> {
    fn cast(&self, value: Typed, to: ColumnType) -> Result<Typed, SqlError> {
        Ok(Typed { datum: value.datum.cast(value.kind, to, self.zone)?, kind: to })
    }

    fn value(&self, expression: &DerivedExpression) -> Result<Option<Typed>, SqlError> {
        match expression {
            DerivedExpression::Part(position) => {
                let value = self.values.get(*position).and_then(Option::as_ref);
                Ok(value.map(|value| Typed { datum: value.datum.clone(), kind: value.kind }))
            }
            DerivedExpression::Number(text) => digits(text).map(Some),
            DerivedExpression::Constant(text, kind) => {
                let datum = text.as_deref().map(|text| Datum::cast_text(*kind, text)).transpose()?;
                Ok(datum.map(|datum| Typed { datum, kind: *kind }))
            }
            DerivedExpression::Arithmetic(operator, left, right) => {
                let (Some(left), Some(right)) = (self.value(left)?, self.value(right)?) else {
                    return Ok(None);
                };
                match days(*operator, &left, &right)? {
                    Some(value) => Ok(Some(value)),
                    None => combine(*operator, &left, &right, &self.derived.column).map(Some),
                }
            }
            DerivedExpression::Negated(inner) => {
                self.value(inner)?.map(|value| negated(value, &self.derived.column)).transpose()
            }
            DerivedExpression::Round(inner, to) => Ok(self.value(inner)?.map(|value| rounded(&value, *to))),
            DerivedExpression::Truncate(inner, to) => Ok(self.value(inner)?.map(|value| {
                let number = numeric(&value.datum).unwrap_or(Numeric::Nan);
                Typed { datum: Datum::Numeric(number.truncated_to(*to)), kind: ColumnType::Numeric(None) }
            })),
            DerivedExpression::Called(called, inner) => {
                self.value(inner)?.map(|value| call(*called, &value)).transpose()
            }
            DerivedExpression::Cast(inner, to) => {
                self.value(inner)?.map(|value| self.cast(value, *to)).transpose()
            }
            DerivedExpression::OfTime(how, inner) => self.of_time(*how, inner),
            DerivedExpression::Coalesce(_) | DerivedExpression::NullIf(..) | DerivedExpression::Case(..) => {
                self.chosen(expression)
            }
            DerivedExpression::Compared(..)
            | DerivedExpression::IsNull(_)
            | DerivedExpression::Is(..)
            | DerivedExpression::Not(_)
            | DerivedExpression::All(_) => Ok(self.condition(expression)?.map(truth)),
        }
    }

    /// One of several values, in the type of all.
    fn chosen(&self, expression: &DerivedExpression) -> Result<Option<Typed>, SqlError> {
        let found = match expression {
            DerivedExpression::Coalesce(list) => {
                let mut found = None;
                for one in list {
                    found = self.value(one)?;
                    if found.is_some() {
                        break;
                    }
                }
                found
            }
            DerivedExpression::NullIf(value, other) => {
                let (value, other) = (self.value(value)?, self.value(other)?);
                match (&value, &other) {
                    (Some(one), Some(other)) if compared(one, other) == Ordering::Equal => None,
                    _ => value,
                }
            }
            DerivedExpression::Case(list, otherwise) => {
                for (condition, value) in list {
                    if self.condition(condition)? == Some(true) {
                        return self.in_type_of(expression, self.value(value)?);
                    }
                }
                match otherwise {
                    Some(value) => self.value(value)?,
                    None => None,
                }
            }
            _ => None,
        };
        self.in_type_of(expression, found)
    }

    fn in_type_of(
        &self,
        expression: &DerivedExpression,
        value: Option<Typed>,
    ) -> Result<Option<Typed>, SqlError> {
        let Some(value) = value else { return Ok(None) };
        let kind = expression.kind(&self.derived.parts).unwrap_or(value.kind);
        self.cast(value, kind).map(Some)
    }

    fn of_time(&self, how: OfTime, inner: &DerivedExpression) -> Result<Option<Typed>, SqlError> {
        let Some(Typed { datum, kind }) = self.value(inner)? else { return Ok(None) };
        let made = how.value(datum, kind, self.zone)?;
        Ok(made.zip(how.kind(kind)).map(|(datum, kind)| Typed { datum, kind }))
    }

    /// The truth of a condition; none is unknown.
    fn condition(&self, expression: &DerivedExpression) -> Result<Option<bool>, SqlError> {
        match expression {
            DerivedExpression::Compared(how, left, right) => {
                let (Some(left), Some(right)) = (self.value(left)?, self.value(right)?) else {
                    return Ok(None);
                };
                Ok(Some(how.holds(compared(&left, &right))))
            }
            DerivedExpression::IsNull(inner) => Ok(Some(self.value(inner)?.is_none())),
            DerivedExpression::Is(truth, inner) => Ok(Some(self.condition(inner)? == Some(*truth))),
            DerivedExpression::Not(inner) => Ok(self.condition(inner)?.map(|truth| !truth)),
            DerivedExpression::All(list) => {
                let mut all = Some(true);
                for one in list {
                    match self.condition(one)? {
                        Some(false) => return Ok(Some(false)),
                        Some(true) => {}
                        None => all = None,
                    }
                }
                Ok(all)
            }
            other => Ok(match self.value(other)? {
                Some(Typed { datum: Datum::Boolean(truth), .. }) => Some(truth),
                _ => None,
            }),
        }
    }
}

impl Compared {
    fn holds(self, found: Ordering) -> bool {
        match self {
            Self::Equal => found.is_eq(),
            Self::NotEqual => found.is_ne(),
            Self::Less => found.is_lt(),
            Self::LessOrEqual => found.is_le(),
            Self::Greater => found.is_gt(),
            Self::GreaterOrEqual => found.is_ge(),
        }
    }
}

/// Where one value stands beside another that it may be compared with ([`comparable`]).
fn compared(one: &Typed, other: &Typed) -> Ordering {
    match (&one.datum, &other.datum) {
        (Datum::Integer(one), Datum::Integer(other)) => one.cmp(other),
        (Datum::Boolean(one), Datum::Boolean(other)) => one.cmp(other),
        (Datum::Date(one), Datum::Date(other)) => one.cmp(other),
        (Datum::Timestamp(one), Datum::Timestamp(other)) => one.cmp(other),
        (Datum::Uuid(one), Datum::Uuid(other)) => one.cmp(other),
        (Datum::Bytes(one), Datum::Bytes(other)) => one.cmp(other),
        (Datum::Text(one), Datum::Text(other)) => one.cmp(other),
        (left, right) => match (numeric(left), numeric(right)) {
            (Some(left), Some(right)) => left.compared(&right),
            _ => {
                let (left, right) = (double(left), double(right));
                // NaN is above all, and equal to itself.
                left.partial_cmp(&right).unwrap_or_else(|| left.is_nan().cmp(&right.is_nan()))
            }
        },
    }
}

/// Are values of two types compared, by their order or only by whether they are equal? The order of texts is their collation's.
fn comparable(how: Compared, one: ColumnType, other: ColumnType) -> bool {
    let equals = matches!(how, Compared::Equal | Compared::NotEqual);
    match (one, other) {
        (one, other) if one.is_number() && other.is_number() => true,
        (one, other) if one.is_text() && other.is_text() => equals,
        (ColumnType::Json | ColumnType::Jsonb, _) => false,
        (one, other) => one == other,
    }
}

/// Arithmetic on days; none of anything else.
pub(super) fn days(operator: Arithmetic, left: &Typed, right: &Typed) -> Result<Option<Typed>, SqlError> {
    let infinite = |day: i32| day == i32::MIN || day == i32::MAX;
    let moved = |day: i32, by: Option<i64>| {
        let datum = if infinite(day) { Datum::Date(day) } else { days_after(day, by)? };
        Ok(Some(Typed { datum, kind: ColumnType::Date }))
    };
    match (operator, &left.datum, &right.datum) {
        (Arithmetic::Plus, Datum::Date(day), Datum::Integer(by))
        | (Arithmetic::Plus, Datum::Integer(by), Datum::Date(day)) => moved(*day, Some(*by)),
        (Arithmetic::Minus, Datum::Date(day), Datum::Integer(by)) => moved(*day, by.checked_neg()),
        (Arithmetic::Minus, Datum::Date(one), Datum::Date(other)) => {
            if infinite(*one) || infinite(*other) {
                let message = "cannot subtract infinite dates";
                return Err(SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, message));
            }
            let kind = ColumnType::Integer;
            Ok(Some(Typed { datum: within(Some(i64::from(*one) - i64::from(*other)), kind)?, kind }))
        }
        _ => Ok(None),
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

fn call(called: Called, value: &Typed) -> Result<Typed, SqlError> {
    let kind = value.kind.plain();
    let fraction = |exact: &dyn Fn(&Numeric) -> Numeric, near: &dyn Fn(f64) -> f64| match &value.datum {
        Datum::Numeric(number) => Typed { datum: Datum::Numeric(exact(number)), kind },
        other => Typed { datum: Datum::Double(near(double(other))), kind: ColumnType::DoublePrecision },
    };
    let counted = |count: usize| {
        let count = i64::try_from(count).ok();
        Ok(Typed { datum: within(count, ColumnType::Integer)?, kind: ColumnType::Integer })
    };
    let one = Numeric::integer(1);
    let floor = |number: &Numeric| match number.truncated() {
        cut if number.is_negative() && cut.compared(number).is_ne() => cut.plus(&one.negated()),
        cut => cut,
    };
    match (called, &value.datum) {
        (Called::Absolute, Datum::Integer(number)) => {
            Ok(Typed { datum: within(number.checked_abs(), kind)?, kind })
        }
        (Called::Absolute, Datum::Real(number)) => Ok(Typed { datum: Datum::Real(number.abs()), kind }),
        (Called::Absolute, _) => Ok(fraction(
            &|number| if number.is_negative() { number.negated() } else { number.clone() },
            &f64::abs,
        )),
        (Called::Floor, _) => Ok(fraction(&floor, &f64::floor)),
        (Called::Ceiling, _) => Ok(fraction(&|number| floor(&number.negated()).negated(), &f64::ceil)),
        (Called::Truncated, _) => Ok(fraction(&Numeric::truncated, &f64::trunc)),
        (Called::Length, Datum::Text(text)) => counted(text.chars().count()),
        (Called::Length | Called::Bytes, Datum::Bytes(bytes)) => counted(bytes.len()),
        (Called::Bytes, Datum::Text(text)) => counted(text.len()),
        (Called::Upper | Called::Lower, Datum::Text(text)) if text.is_ascii() => {
            let is_upper = called == Called::Upper;
            let text = if is_upper { text.to_ascii_uppercase() } else { text.to_ascii_lowercase() };
            Ok(Typed { datum: Datum::Text(text), kind: ColumnType::Text })
        }
        (Called::Upper | Called::Lower | Called::Length | Called::Bytes, _) => Err(SqlError::new(
            sqlstate::FEATURE_NOT_SUPPORTED,
            "upper() and lower() of letters beyond ASCII go by the database's locale, which the proxy does not know",
        )
        .hint("Select the column, and do it in the application.")),
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

/// The type that values of several have in common; none if there is none, or it is not known which.
pub(crate) fn common_kind(kinds: &[ColumnType]) -> Option<ColumnType> {
    let [first, rest @ ..] = kinds else { return None };
    if rest.iter().all(|kind| kind == first) {
        return Some(*first);
    }
    // Each of the two types of texts is taken for the other.
    if kinds.iter().all(|kind| kind.is_text()) {
        return Some(first.plain());
    }
    let widest = kinds.iter().map(|kind| Some((rank(*kind)?, kind.plain())));
    let widest = widest.collect::<Option<Vec<_>>>()?.into_iter().max_by_key(|(rank, _)| *rank);
    widest.map(|(_, kind)| kind)
}

/// The type that days and moments of several types have in common; none if there are others among them.
pub(crate) fn common_time(kinds: &[ColumnType]) -> Option<ColumnType> {
    const WIDER: [ColumnType; 3] =
        [ColumnType::Date, ColumnType::Timestamp(None), ColumnType::TimestampTz(None)];
    let places = kinds.iter().map(|kind| WIDER.iter().position(|one| *one == kind.plain()));
    WIDER.get(places.collect::<Option<Vec<_>>>()?.into_iter().max()?).copied()
}

/// Does the proxy cast one type to another as PostgreSQL does?
fn casts(from: ColumnType, to: ColumnType) -> bool {
    match (from, to) {
        (from, to) if from.plain() == to.plain() => true,
        (from, to) if from.is_number() && to.is_number() => true,
        (from, to) if from.is_text() => to.is_text() || to.is_number() || to == ColumnType::Boolean,
        (ColumnType::Boolean, ColumnType::Integer) | (ColumnType::Integer, ColumnType::Boolean) => true,
        // By the session's clock, if it is known.
        (from, to) if from.is_time() && to.is_time() => true,
        (from, to) if to.is_text() => {
            from.is_number()
                || matches!(
                    from,
                    ColumnType::Boolean
                        | ColumnType::Uuid
                        | ColumnType::Date
                        | ColumnType::Timestamp(_)
                        | ColumnType::TimestampTz(_)
                        | ColumnType::Json
                )
        }
        _ => false,
    }
}

impl Called {
    /// The type of what the function makes of one; none if there is no such function.
    fn kind(self, of: ColumnType) -> Option<ColumnType> {
        match self {
            Self::Absolute => of.is_number().then_some(of.plain()),
            Self::Floor | Self::Ceiling | Self::Truncated => match of {
                ColumnType::Numeric(_) => Some(ColumnType::Numeric(None)),
                of => of.is_number().then_some(ColumnType::DoublePrecision),
            },
            Self::Upper | Self::Lower => of.is_text().then_some(ColumnType::Text),
            Self::Length | Self::Bytes => {
                (of.is_text() || of == ColumnType::Bytea).then_some(ColumnType::Integer)
            }
        }
    }
}

impl DerivedExpression {
    /// Is it computed of nothing that comes from the database?
    pub(crate) fn is_constant(&self) -> bool {
        match self {
            Self::Part(_) => false,
            Self::Number(_) | Self::Constant(..) => true,
            Self::Arithmetic(_, left, right) | Self::NullIf(left, right) | Self::Compared(_, left, right) => {
                left.is_constant() && right.is_constant()
            }
            Self::Coalesce(list) | Self::All(list) => list.iter().all(Self::is_constant),
            Self::Case(..) => false,
            Self::Negated(inner)
            | Self::Round(inner, _)
            | Self::Truncate(inner, _)
            | Self::Called(_, inner)
            | Self::OfTime(_, inner)
            | Self::Cast(inner, _)
            | Self::IsNull(inner)
            | Self::Is(_, inner)
            | Self::Not(inner) => inner.is_constant(),
        }
    }

    /// The type of its value, where it is computed of these parts; none if PostgreSQL has no such operator or function, or the
    /// proxy does not do what it does.
    pub(crate) fn kind(&self, parts: &[DerivedPart]) -> Option<ColumnType> {
        let kinds = |list: &[Self]| list.iter().map(|one| one.kind(parts)).collect::<Option<Vec<_>>>();
        match self {
            Self::Part(position) => parts.get(*position).map(|part| match part {
                DerivedPart::Fold(fold, encryption) => fold.kind(encryption.kind),
                DerivedPart::Count => ColumnType::BigInt,
                DerivedPart::Value(encryption) => encryption.kind,
                DerivedPart::Plain(kind) => *kind,
            }),
            Self::Number(text) => Some(kind_of_digits(text)),
            Self::Constant(_, kind) => Some(*kind),
            Self::Arithmetic(operator, left, right) => {
                kind_of_operator(*operator, left.kind(parts)?, right.kind(parts)?)
            }
            Self::Negated(inner) => inner.kind(parts).filter(|kind| kind.is_number()).map(ColumnType::plain),
            Self::Coalesce(list) => common_kind(&kinds(list)?),
            Self::NullIf(value, other) => {
                let (value, other) = (value.kind(parts)?, other.kind(parts)?);
                comparable(Compared::Equal, value, other).then_some(())?;
                Some(kind_of_first(value, other))
            }
            Self::Case(list, otherwise) => {
                // That of `ELSE` is the first among them.
                let values = otherwise.as_deref().into_iter().chain(list.iter().map(|(_, value)| value));
                let kind = common_kind(&values.map(|value| value.kind(parts)).collect::<Option<Vec<_>>>()?)?;
                let conditions = list.iter().map(|(condition, _)| condition.kind(parts));
                let are_truths = conditions.into_iter().all(|kind| kind == Some(ColumnType::Boolean));
                are_truths.then_some(if otherwise.is_none() { kind.plain() } else { kind })
            }
            Self::Round(inner, to) => match (inner.kind(parts)?, to) {
                (kind, _) if !kind.is_number() => None,
                (kind, None) if !matches!(kind, ColumnType::Numeric(_)) => Some(ColumnType::DoublePrecision),
                (ColumnType::Real | ColumnType::DoublePrecision, Some(_)) => None,
                _ => Some(ColumnType::Numeric(None)),
            },
            Self::Truncate(inner, _) => match inner.kind(parts)? {
                ColumnType::Real | ColumnType::DoublePrecision => None,
                kind => kind.is_number().then_some(ColumnType::Numeric(None)),
            },
            Self::Called(called, inner) => called.kind(inner.kind(parts)?),
            Self::OfTime(how, inner) => how.kind(inner.kind(parts)?),
            Self::Cast(inner, to) => inner.kind(parts).filter(|from| casts(*from, *to)).map(|_| *to),
            Self::Compared(how, left, right) => {
                let fits = comparable(*how, left.kind(parts)?, right.kind(parts)?);
                fits.then_some(ColumnType::Boolean)
            }
            Self::IsNull(inner) => inner.kind(parts).map(|_| ColumnType::Boolean),
            Self::Is(_, inner) | Self::Not(inner) => {
                inner.kind(parts).filter(|kind| *kind == ColumnType::Boolean)
            }
            Self::All(list) => {
                let kinds = kinds(list)?;
                kinds.iter().all(|kind| *kind == ColumnType::Boolean).then_some(ColumnType::Boolean)
            }
        }
    }
}

/// The type that a value has where it is compared with one of another.
fn kind_of_first(value: ColumnType, other: ColumnType) -> ColumnType {
    let is_near = |kind| matches!(kind, ColumnType::Real | ColumnType::DoublePrecision);
    match (value, other) {
        (ColumnType::Varchar(_), _) => ColumnType::Text,
        (value, other) if is_near(other) && value.is_number() && !is_near(value) => {
            ColumnType::DoublePrecision
        }
        (value, ColumnType::Numeric(_)) if value.is_integer() => ColumnType::Numeric(None),
        (value, _) => value,
    }
}

/// The type that an operator gives; none if there is no such operator.
pub(crate) fn kind_of_operator(
    operator: Arithmetic,
    left: ColumnType,
    right: ColumnType,
) -> Option<ColumnType> {
    match (operator, left, right) {
        (Arithmetic::Concatenated, ColumnType::Bytea, ColumnType::Bytea) => Some(ColumnType::Bytea),
        (Arithmetic::Concatenated, left, right) => {
            (left.is_text() && right.is_text()).then_some(ColumnType::Text)
        }
        (operator, left, right) => {
            kind_of_days(operator, left, right).or_else(|| kind_of_arithmetic(operator, left, right))
        }
    }
}

/// The same of days.
pub(super) fn kind_of_days(operator: Arithmetic, left: ColumnType, right: ColumnType) -> Option<ColumnType> {
    let is_day_count = |kind| matches!(kind, ColumnType::SmallInt | ColumnType::Integer);
    match (operator, left, right) {
        (Arithmetic::Plus | Arithmetic::Minus, ColumnType::Date, by) if is_day_count(by) => {
            Some(ColumnType::Date)
        }
        (Arithmetic::Plus, by, ColumnType::Date) if is_day_count(by) => Some(ColumnType::Date),
        (Arithmetic::Minus, ColumnType::Date, ColumnType::Date) => Some(ColumnType::Integer),
        _ => None,
    }
}
