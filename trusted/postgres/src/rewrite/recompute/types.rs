//! The types of what is computed, as PostgreSQL finds them before it looks at a row.

use crate::catalog::Encryption;
use crate::codec::is_assigned;
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Arithmetic, Expression};
use crate::values::{common_kind, common_time, kind_of_digits, kind_of_operator, sign};

/// Why a value is not computed, or is none that may be assigned.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Misfit {
    /// There is no such operator.
    NoOperator(ColumnType, Arithmetic, ColumnType),
    /// It has no sign.
    NoSign(ColumnType),
    /// Two of several values have no type in common.
    Unmatched(&'static str, ColumnType, ColumnType),
    /// It is of a type that is not assigned to the column's.
    NotAssigned(ColumnType),
    /// PostgreSQL does something that the proxy does not.
    NotComputed,
}

impl Misfit {
    /// PostgreSQL's error for a value of a column; none if it has none.
    pub(super) fn error(&self, name: &str, of: &Encryption) -> Option<SqlError> {
        let mismatch = |message| Some(SqlError::new(sqlstate::DATATYPE_MISMATCH, message));
        let no_operator = |operator: String, of: &str| {
            let hint = format!(
                "No operator matches the given name and argument {of}. You might need to add explicit type casts."
            );
            let message = format!("operator does not exist: {operator}");
            Some(SqlError::new(sqlstate::UNDEFINED_FUNCTION, message).hint(hint))
        };
        match self {
            Self::NoOperator(left, operator, right) => {
                no_operator(format!("{} {} {}", left.name(), sign(*operator), right.name()), "types")
            }
            Self::NoSign(kind) => no_operator(format!("- {}", kind.name()), "type"),
            Self::Unmatched(what, one, other) => {
                mismatch(format!("{what} types {} and {} cannot be matched", one.name(), other.name()))
            }
            Self::NotAssigned(kind) => {
                let (column, kind) = (of.kind.plain().name(), kind.name());
                let message =
                    format!("column \"{name}\" is of type {column} but expression is of type {kind}");
                mismatch(message).map(|error| error.hint("You will need to rewrite or cast the expression."))
            }
            Self::NotComputed => None,
        }
    }
}

/// That a value may be assigned to a column without being cast.
///
/// # Errors
/// It may not, or is not computed as PostgreSQL does it.
pub(super) fn require_assignable(value: &Expression, to: ColumnType) -> Result<(), Misfit> {
    match found(value)? {
        Some(kind) if !is_assigned(kind, to) => Err(Misfit::NotAssigned(kind)),
        _ => Ok(()),
    }
}

/// The type of an expression; none if it says none, and is taken for what it stands beside.
fn found(value: &Expression) -> Result<Option<ColumnType>, Misfit> {
    Ok(match value {
        Expression::Read(_, of) | Expression::Assigned(_, of) => Some(of.kind.plain()),
        // The database sees to it that it is of the column's.
        Expression::Plain(_, of) => Some(of.kind.plain()),
        Expression::Parameter(_, _, cast) | Expression::Constant(_, _, cast) => cast.map(ColumnType::plain),
        Expression::Number(text, _) => Some(kind_of_digits(text)),
        Expression::Moment(moment) => Some(moment.kind()),
        Expression::Arithmetic(operator, left, right) => operation(*operator, found(left)?, found(right)?)?,
        Expression::Coalesce(parts) => in_common("COALESCE", parts)?,
        Expression::Chosen(_, parts) => in_common("CASE", parts)?,
        Expression::Negated(inner) => match found(inner)? {
            Some(kind) if !kind.is_number() => return Err(Misfit::NoSign(kind)),
            kind => kind,
        },
        Expression::OfTime(how, inner) => match found(inner)? {
            Some(kind) => how.kind(kind),
            None => None,
        },
        Expression::Cast(_, kind) => Some(kind.plain()),
        Expression::Upserted { new, .. } => found(new)?,
    })
}

/// The type of what an operator makes of two.
fn operation(
    operator: Arithmetic,
    left: Option<ColumnType>,
    right: Option<ColumnType>,
) -> Result<Option<ColumnType>, Misfit> {
    let are = |is: fn(ColumnType) -> bool| left.is_some_and(is) || right.is_some_and(is);
    if operator == Arithmetic::Concatenated {
        // Of two texts of JSON it makes one of both, not their letters one after the other.
        if are(|kind| matches!(kind, ColumnType::Json | ColumnType::Jsonb)) {
            return Err(Misfit::NotComputed);
        }
        if are(ColumnType::is_text) {
            return Ok(Some(ColumnType::Text));
        }
    }
    let (one, other) = match (left, right) {
        (None, None) => return Ok((operator == Arithmetic::Concatenated).then_some(ColumnType::Text)),
        (Some(one), Some(other)) => (one, other),
        (Some(one), None) | (None, Some(one))
            if operator == Arithmetic::Concatenated && one != ColumnType::Bytea =>
        {
            return Ok(Some(ColumnType::Text));
        }
        (Some(one), None) | (None, Some(one)) => (one, one),
    };
    match kind_of_operator(operator, one, other) {
        Some(kind) => Ok(Some(kind)),
        None if one.is_time() || other.is_time() => Err(Misfit::NotComputed),
        None => Err(Misfit::NoOperator(one, operator, other)),
    }
}

/// The type that several values have in common.
fn in_common(what: &'static str, parts: &[Expression]) -> Result<Option<ColumnType>, Misfit> {
    let mut kinds = Vec::with_capacity(parts.len());
    for part in parts {
        kinds.extend(found(part)?);
    }
    let Some(first) = kinds.first().copied() else { return Ok(None) };
    match common_kind(&kinds).or_else(|| common_time(&kinds)) {
        Some(kind) => Ok(Some(kind)),
        None => {
            let is_other = |kind: &&ColumnType| common_kind(&[first, **kind]).is_none();
            let other = kinds.iter().find(is_other).copied().unwrap_or(first);
            Err(Misfit::Unmatched(what, first, other))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use ColumnType::{Boolean, Bytea, Date, Integer, Json, Jsonb, Numeric, Text, Timestamp, Uuid, Varchar};

    fn cast(kind: ColumnType) -> Expression {
        Expression::Cast(Box::new(Expression::Coalesce(Vec::new())), kind)
    }

    fn open() -> Expression {
        Expression::Coalesce(Vec::new())
    }

    fn joined(operator: Arithmetic, left: Expression, right: Expression) -> Expression {
        Expression::Arithmetic(operator, Box::new(left), Box::new(right))
    }

    #[test]
    fn what_is_assigned_without_a_cast_is_what_postgresql_assigns() {
        let given = |kind| require_assignable(&cast(kind), Integer);
        for kind in [Boolean, Text, Varchar(None), Date, Bytea, Uuid, Json] {
            assert_eq!(given(kind), Err(Misfit::NotAssigned(kind)));
        }
        assert_eq!(given(Numeric(None)), Ok(()));
        assert_eq!(require_assignable(&cast(Integer), Boolean), Err(Misfit::NotAssigned(Integer)));
        assert_eq!(require_assignable(&cast(Text), Bytea), Err(Misfit::NotAssigned(Text)));
        assert_eq!(require_assignable(&cast(Text), Jsonb), Err(Misfit::NotAssigned(Text)));
        for kind in [Boolean, Integer, Date, Bytea, Jsonb] {
            assert_eq!(require_assignable(&cast(kind), Text), Ok(()), "{kind:?}");
        }
        for (from, to) in [(Date, Timestamp(None)), (Timestamp(None), Date), (Json, Jsonb), (Jsonb, Json)] {
            assert_eq!(require_assignable(&cast(from), to), Ok(()), "{from:?}");
        }
        assert_eq!(require_assignable(&open(), Uuid), Ok(()), "it says no type");
    }

    #[test]
    fn operators_are_those_of_the_types_on_both_sides() {
        let of = |operator, left: Expression, right: Expression| found(&joined(operator, left, right));
        for json in [Json, Jsonb] {
            assert_eq!(of(Arithmetic::Concatenated, cast(json), open()), Err(Misfit::NotComputed));
            assert_eq!(of(Arithmetic::Concatenated, cast(Text), cast(json)), Err(Misfit::NotComputed));
        }
        assert_eq!(of(Arithmetic::Concatenated, cast(Bytea), open()), Ok(Some(Bytea)));
        assert_eq!(of(Arithmetic::Concatenated, cast(Bytea), cast(Text)), Ok(Some(Text)));
        assert_eq!(of(Arithmetic::Concatenated, open(), cast(Integer)), Ok(Some(Text)));
        let none = |left, operator, right| Err(Misfit::NoOperator(left, operator, right));
        let both = of(Arithmetic::Concatenated, cast(Integer), cast(Date));
        assert_eq!(both, Err(Misfit::NotComputed));
        let plus = of(Arithmetic::Plus, cast(Integer), cast(Boolean));
        assert_eq!(plus, none(Integer, Arithmetic::Plus, Boolean));
        assert_eq!(of(Arithmetic::Plus, cast(Text), open()), none(Text, Arithmetic::Plus, Text));
        assert_eq!(of(Arithmetic::Plus, cast(Integer), open()), Ok(Some(Integer)));
        assert_eq!(of(Arithmetic::Minus, cast(Date), cast(Integer)), Ok(Some(Date)));
    }

    #[test]
    fn several_values_have_one_type() {
        let of = |parts: &[ColumnType]| {
            let parts = parts.iter().map(|kind| cast(*kind)).chain([open()]).collect();
            found(&Expression::Coalesce(parts))
        };
        assert_eq!(of(&[Integer, Numeric(None)]), Ok(Some(Numeric(None))));
        assert_eq!(of(&[Date, Timestamp(None)]), Ok(Some(Timestamp(None))));
        assert_eq!(of(&[Integer, Boolean]), Err(Misfit::Unmatched("COALESCE", Integer, Boolean)));
        assert_eq!(of(&[]), Ok(None));
    }
}
