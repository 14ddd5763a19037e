//! Values of one type as those of another: PostgreSQL's casts.

use super::calendar::MOMENTS;
use super::{DAY_MICROSECONDS, Datum, Numeric, Zone, float, rounded_moment};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};

/// The first double that no 64 bits hold.
const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;

fn out_of_range(kind: ColumnType) -> SqlError {
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", kind.name()))
}

fn out(how: &str) -> SqlError {
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, format!("value out of range: {how}"))
}

fn mismatch(from: ColumnType, to: ColumnType) -> SqlError {
    let message = format!("a value of type {} does not become one of type {} here", from.name(), to.name());
    SqlError::new(sqlstate::DATATYPE_MISMATCH, message)
}

/// A moment of a zone where one without is asked for, or the reverse.
fn zoned(from: ColumnType, to: ColumnType) -> SqlError {
    mismatch(from, to)
        .hint("Send it as the column's type, or leave its type open; with TimeZone UTC, or a zone that the proxy knows, it is taken.")
}

/// Is a value of one type assigned to another without a cast?
pub(crate) fn is_assigned(from: ColumnType, to: ColumnType) -> bool {
    let is_json = |kind| matches!(kind, ColumnType::Json | ColumnType::Jsonb);
    from.plain() == to.plain()
        || to.is_text()
        || (from.is_number() && to.is_number())
        || (from.is_time() && to.is_time())
        || (is_json(from) && is_json(to))
}

/// A whole number within its type.
pub(crate) fn within(number: Option<i64>, kind: ColumnType) -> Result<Datum, SqlError> {
    let fits = |number: &i64| match kind {
        ColumnType::SmallInt => i16::try_from(*number).is_ok(),
        ColumnType::Integer => i32::try_from(*number).is_ok(),
        _ => true,
    };
    number.filter(fits).map(Datum::Integer).ok_or_else(|| out_of_range(kind))
}

fn whole(number: f64, kind: ColumnType) -> Result<Datum, SqlError> {
    let number = number.round_ties_even();
    let fits = (-TWO_TO_63..TWO_TO_63).contains(&number);
    #[allow(clippy::cast_possible_truncation, reason = "that it fits was looked at")]
    within(fits.then_some(number as i64), kind)
}

fn narrowed(number: f64) -> Result<Datum, SqlError> {
    #[allow(clippy::cast_possible_truncation, reason = "as PostgreSQL's own cast")]
    let narrow = number as f32;
    if narrow.is_infinite() && number.is_finite() {
        return Err(out("overflow"));
    }
    if narrow == 0.0 && number != 0.0 { Err(out("underflow")) } else { Ok(Datum::Real(narrow)) }
}

/// The decimal of as many digits as every such number has.
fn decimal(number: f64, scientific: &str) -> Result<Datum, SqlError> {
    let text = if number.is_finite() { scientific.to_owned() } else { float::text_64(number) };
    match Datum::from_text(ColumnType::Numeric(None), &text)? {
        Datum::Numeric(number) => Ok(Datum::Numeric(number.normalized())),
        other => Ok(other),
    }
}

impl Datum {
    /// Reads the text of a value that is said to be of a type, or cast to it: with the type's digits or length.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn cast_text(kind: ColumnType, text: &str) -> Result<Self, SqlError> {
        Self::of_type(kind, text)?.cut(kind)
    }

    /// As a cast from one type to another makes it: rounded, or cut without a word.
    ///
    /// # Errors
    /// It is beyond the other type, or there is no such cast. One between moments with a zone and without needs the time zone UTC.
    pub(crate) fn cast(self, from: ColumnType, to: ColumnType, zone: Zone) -> Result<Self, SqlError> {
        self.converted(from, to, zone)?.cut(to)
    }

    /// As it is assigned to a type without digits or a length.
    ///
    /// # Errors
    /// As of [`Self::cast`], which does more.
    pub(crate) fn assigned(self, from: ColumnType, to: ColumnType, zone: Zone) -> Result<Self, SqlError> {
        if !is_assigned(from, to) {
            return Err(mismatch(from, to));
        }
        self.converted(from, to, zone)
    }

    /// With the digits or the length of its type.
    fn cut(self, kind: ColumnType) -> Result<Self, SqlError> {
        Ok(match (self, kind) {
            (Self::Numeric(number), ColumnType::Numeric(Some((precision, scale)))) => {
                Self::Numeric(number.fitted(precision, scale)?)
            }
            (Self::Text(mut text), ColumnType::Varchar(Some(length))) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                if let Some((end, _)) = text.char_indices().nth(length) {
                    text.truncate(end);
                }
                Self::Text(text)
            }
            (
                Self::Timestamp(moment),
                ColumnType::Timestamp(Some(digits)) | ColumnType::TimestampTz(Some(digits)),
            ) => Self::Timestamp(rounded_moment(moment, digits)),
            (value, _) => value,
        })
    }

    /// As another type has it, whatever that type's digits or length.
    ///
    /// # Errors
    /// As of [`Self::cast`].
    pub(crate) fn converted(self, from: ColumnType, to: ColumnType, zone: Zone) -> Result<Self, SqlError> {
        if from.plain() == to.plain() {
            return Ok(self);
        }
        Ok(match (self, to) {
            (Self::Timestamp(moment), ColumnType::Text | ColumnType::Varchar(_)) if from.is_zoned() => {
                zone.clock(moment).ok_or_else(|| zoned(from, to))?;
                Self::Text(Self::Timestamp(moment).to_text_in(from, zone))
            }
            // PostgreSQL writes it anew.
            (_, ColumnType::Text | ColumnType::Varchar(_)) if from == ColumnType::Jsonb => {
                return Err(mismatch(from, to));
            }
            (value, ColumnType::Text | ColumnType::Varchar(_)) => Self::Text(value.cast_to_text(from)),
            // What is read from a text is what the text says.
            (Self::Text(text), to) if from.is_text() => Self::of_type_in(to, &text, zone)?,
            (value @ Self::Text(_), ColumnType::Json | ColumnType::Jsonb) => value,
            (Self::Boolean(value), ColumnType::Integer) => Self::Integer(value.into()),
            (Self::Integer(number), ColumnType::Boolean) if from == ColumnType::Integer => {
                Self::Boolean(number != 0)
            }
            (Self::Date(days), to @ (ColumnType::Timestamp(_) | ColumnType::TimestampTz(_))) => {
                let clock = moment_of(days)?;
                let moment = if to.is_zoned() { zone.moment(clock) } else { Some(clock) };
                Self::Timestamp(moment.ok_or_else(|| zoned(from, to))?)
            }
            (Self::Timestamp(moment), to @ ColumnType::Date) => {
                let clock = if from.is_zoned() { zone.clock(moment) } else { Some(moment) };
                Self::Date(day_of(clock.ok_or_else(|| zoned(from, to))?))
            }
            (Self::Timestamp(moment), ColumnType::Timestamp(_)) => {
                Self::Timestamp(zone.clock(moment).ok_or_else(|| zoned(from, to))?)
            }
            (Self::Timestamp(clock), ColumnType::TimestampTz(_)) => {
                Self::Timestamp(zone.moment(clock).ok_or_else(|| zoned(from, to))?)
            }
            (value, to) if from.is_number() && to.is_number() => value.number_as(to)?,
            _ => return Err(mismatch(from, to)),
        })
    }

    /// A value as `text`: other than printed, a truth value is in full.
    pub(crate) fn cast_to_text(&self, kind: ColumnType) -> String {
        match self {
            Self::Boolean(value) => value.to_string(),
            value => value.to_text(kind),
        }
    }

    /// A number as one of another type.
    fn number_as(self, to: ColumnType) -> Result<Self, SqlError> {
        Ok(match (self, to) {
            (Self::Integer(number), to) if to.is_integer() => within(Some(number), to)?,
            (Self::Numeric(number), to) if to.is_integer() => {
                if !matches!(number, Numeric::Finite { .. }) {
                    let message = format!("cannot convert {number} to {}", to.name());
                    return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
                }
                within(number.rounded(), to)?
            }
            (Self::Real(number), to) if to.is_integer() => whole(f64::from(number), to)?,
            (Self::Double(number), to) if to.is_integer() => whole(number, to)?,
            (Self::Integer(number), ColumnType::Numeric(_)) => Self::Numeric(Numeric::integer(number)),
            #[allow(clippy::cast_precision_loss, reason = "as PostgreSQL's own cast")]
            (Self::Integer(number), ColumnType::DoublePrecision) => Self::Double(number as f64),
            #[allow(clippy::cast_precision_loss, reason = "as PostgreSQL's own cast")]
            (Self::Integer(number), ColumnType::Real) => Self::Real(number as f32),
            (Self::Real(number), ColumnType::DoublePrecision) => Self::Double(f64::from(number)),
            (Self::Double(number), ColumnType::Real) => narrowed(number)?,
            (Self::Double(number), ColumnType::Numeric(_)) => decimal(number, &format!("{number:.14e}"))?,
            (Self::Real(number), ColumnType::Numeric(_)) => {
                decimal(f64::from(number), &format!("{number:.5e}"))?
            }
            (Self::Numeric(number), to @ (ColumnType::DoublePrecision | ColumnType::Real)) => {
                Self::from_text(to, &number.to_string())?
            }
            (value, _) => value,
        })
    }

    /// A value of one type as one of another that it is compared as: of what the other type has between and beyond a column's
    /// values nothing is lost.
    ///
    /// # Errors
    /// The two are not compared.
    pub(crate) fn compared_as(self, from: ColumnType, to: ColumnType, zone: Zone) -> Result<Self, SqlError> {
        match (self, to) {
            (value @ Self::Integer(_), to) if to.is_integer() => Ok(value),
            // Beside a double a decimal is the nearest one: the digits that no other double is as near to are the decimal's.
            (Self::Double(number), ColumnType::Numeric(_)) => {
                Self::from_text(ColumnType::Numeric(None), &float::text_64(number))
            }
            (Self::Real(number), ColumnType::Numeric(_)) => {
                Self::from_text(ColumnType::Numeric(None), &float::text_64(f64::from(number)))
            }
            (value, to) => value.converted(from, to, zone),
        }
    }
}

/// Midnight of a day.
fn moment_of(days: i32) -> Result<i64, SqlError> {
    match days {
        i32::MIN => Ok(i64::MIN),
        i32::MAX => Ok(i64::MAX),
        // PostgreSQL's days end long behind its moments.
        days => i64::from(days)
            .checked_mul(DAY_MICROSECONDS)
            .filter(|moment| MOMENTS.contains(moment))
            .ok_or_else(|| {
                SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp")
            }),
    }
}

fn day_of(moment: i64) -> i32 {
    match moment {
        i64::MIN => i32::MIN,
        i64::MAX => i32::MAX,
        // A moment's day is always one.
        moment => i32::try_from(moment.div_euclid(DAY_MICROSECONDS)).unwrap_or(i32::MAX),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn cast(from: &str, text: &str, to: &str) -> Result<String, String> {
        let [from, to] = [from, to].map(|name| ColumnType::parse(name).unwrap());
        let value = Datum::cast_text(from, text).and_then(|value| value.cast(from, to, Zone::Utc));
        value.map(|value| value.to_text(to)).map_err(|error| error.sqlstate.to_string())
    }

    #[test]
    fn a_cast_rounds_cuts_and_checks_as_postgresql_s() {
        for (from, text, to, expected) in [
            ("numeric", "2.5", "int", "3"),
            ("numeric", "-2.5", "int", "-3"),
            ("float8", "2.5", "int", "2"),
            ("float8", "3.5", "smallint", "4"),
            ("real", "0.1", "float8", "0.10000000149011612"),
            ("real", "0.1", "numeric", "0.1"),
            ("float8", "0.5", "numeric", "0.5"),
            ("float8", "1e20", "numeric", "100000000000000000000"),
            ("float8", "Infinity", "numeric", "Infinity"),
            ("numeric", "5.555", "numeric(6,2)", "5.56"),
            ("text", "xyzw", "varchar(3)", "xyz"),
            ("boolean", "t", "text", "true"),
            ("int", "007", "text", "7"),
            ("text", " 7 ", "int", "7"),
            ("timestamp", "2024-01-01 10:00", "date", "2024-01-01"),
            ("date", "2024-01-01", "timestamp", "2024-01-01 00:00:00"),
            ("date", "-infinity", "timestamp", "-infinity"),
        ] {
            assert_eq!(cast(from, text, to).as_deref(), Ok(expected), "{text}::{from}::{to}");
        }
        for (from, text, to, expected) in [
            ("bigint", "70000", "smallint", "22003"),
            ("float8", "1e300", "real", "22003"),
            ("float8", "1e-300", "real", "22003"),
            ("float8", "9223372036854775808", "bigint", "22003"),
            ("numeric", "NaN", "int", "0A000"),
            ("numeric", "10", "numeric(2,1)", "22003"),
            ("text", "2.5", "int", "22P02"),
            ("date", "2024-01-01", "int", "42804"),
            ("jsonb", "{\"a\":1}", "text", "42804"),
        ] {
            assert_eq!(cast(from, text, to), Err(expected.into()), "{text}::{from}::{to}");
        }
    }

    #[test]
    fn a_zone_is_needed_only_where_one_is_lost_or_found() {
        let moment = Datum::Timestamp(0);
        let (with, without) = (ColumnType::TimestampTz(None), ColumnType::Timestamp(None));
        assert_eq!(moment.clone().converted(with, without, Zone::Unknown).unwrap_err().sqlstate, "42804");
        assert_eq!(moment.clone().converted(with, without, Zone::Utc).unwrap(), moment);
        assert_eq!(
            moment.clone().converted(without, ColumnType::Date, Zone::Unknown).unwrap(),
            Datum::Date(0)
        );
        assert!(Datum::Date(0).converted(ColumnType::Date, with, Zone::Unknown).is_err());
        assert!(moment.converted(with, ColumnType::Text, Zone::Unknown).is_err());
    }

    #[test]
    fn beside_a_decimal_a_double_is_all_its_digits() {
        let kind = ColumnType::Numeric(Some((6, 2)));
        let beside =
            |number: Datum, from| number.compared_as(from, kind, Zone::Unknown).unwrap().to_text(kind);
        assert_eq!(beside(Datum::Double(5.56), ColumnType::DoublePrecision), "5.56");
        assert_eq!(beside(Datum::Real(5.56), ColumnType::Real), "5.559999942779541");
    }
}
