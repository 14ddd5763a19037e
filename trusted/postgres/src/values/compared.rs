//! Values that columns are compared with: where they stand among what a column can hold. An integer may be beside `1.5`, a day
//! beside an hour: PostgreSQL compares both as the finer type, whose values stand between the column's own.

use super::Inputs;
use super::given::{Given, read, read_members};
use crate::catalog::Encryption;
use crate::codec::{DAY_MICROSECONDS, Datum, Numeric, Zone};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::plan::{Side, Value};

/// Whole numbers up to this one are each a `double precision` of their own.
const EXACT_DOUBLES: f64 = 9_007_199_254_740_992.0;
/// Behind the canonical bytes of what no value of the column equals: none of a number or a day is as long and ends so.
const NO_VALUE: [u8; 8] = [0; 8];

/// Where a value stands among those that a column can hold.
#[derive(Debug, PartialEq)]
pub(super) enum Standing<T> {
    /// Below all of them.
    BelowAll,
    /// It is one.
    At(T),
    /// Between this one and the next.
    Above(T),
    /// Above all of them.
    AboveAll,
}

impl<T> Standing<T> {
    fn map<U>(self, change: impl FnOnce(T) -> Result<U, SqlError>) -> Result<Standing<U>, SqlError> {
        Ok(match self {
            Self::BelowAll => Standing::BelowAll,
            Self::At(one) => Standing::At(change(one)?),
            Self::Above(one) => Standing::Above(change(one)?),
            Self::AboveAll => Standing::AboveAll,
        })
    }
}

impl Standing<Vec<u8>> {
    /// The key, or the one at the end that the value is beyond, and how it stands to that.
    pub(super) fn of_key(self, encryption: &Encryption) -> Result<(Vec<u8>, Standing<()>), SqlError> {
        Ok(match self {
            Self::At(key) => (key, Standing::At(())),
            Self::Above(key) => (key, Standing::Above(())),
            Self::BelowAll => (ends(encryption)?.0, Standing::BelowAll),
            Self::AboveAll => (ends(encryption)?.1, Standing::AboveAll),
        })
    }
}

/// Does a type have values between a column's?
pub(crate) fn is_finer(sent: ColumnType, kind: ColumnType) -> bool {
    match sent {
        ColumnType::Numeric(_) | ColumnType::Real | ColumnType::DoublePrecision => kind.is_integer(),
        ColumnType::Timestamp(_) | ColumnType::TimestampTz(_) => kind == ColumnType::Date,
        _ => false,
    }
}

/// The bytes of a column's equality term that a compared value has; bytes that no stored one has, if it is none of the column's. None
/// is NULL.
pub(super) fn equality_bytes(
    value: &Value,
    encryption: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Option<Vec<u8>>, SqlError> {
    let Some(datum) = sent(value, encryption, inputs)? else { return Ok(None) };
    equality_of(datum, encryption.kind).map(Some)
}

/// The same of an array's members.
pub(super) fn equality_members(
    value: &Value,
    encryption: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Option<Vec<Option<Vec<u8>>>>, SqlError> {
    let Some(list) = read_members(value, encryption, inputs)? else { return Ok(None) };
    let one = |given: Given| equality_of(compared(given, encryption.kind, inputs)?, encryption.kind);
    list.into_iter().map(|given| given.map(one).transpose()).collect::<Result<_, _>>().map(Some)
}

fn equality_of(datum: Datum, kind: ColumnType) -> Result<Vec<u8>, SqlError> {
    let itself = datum.canonical();
    if matches!(kind, ColumnType::Numeric(_)) {
        // No decimal of the column has these bytes if it is none itself.
        return Ok(itself);
    }
    Ok(match standing(datum, kind)? {
        Standing::At(one) => one.canonical(),
        Standing::BelowAll | Standing::Above(_) | Standing::AboveAll => [&itself[..], &NO_VALUE].concat(),
    })
}

/// Where a value that is compared by order stands among the order keys. None is NULL.
pub(super) fn order_standing(
    value: &Value,
    encryption: &Encryption,
    inputs: Inputs<'_>,
) -> Result<Option<Standing<Vec<u8>>>, SqlError> {
    let Some(datum) = sent(value, encryption, inputs)? else { return Ok(None) };
    standing(datum, encryption.kind)?.map(|datum| datum.order_key(encryption)).map(Some)
}

/// The order key to compare with by a side's operator, where keys themselves are compared.
///
/// # Errors
/// The value is beyond the column's type, and all keys are of values that it can hold.
pub(super) fn compared_key(
    standing: Standing<Vec<u8>>,
    side: Side,
    encryption: &Encryption,
) -> Result<Vec<u8>, SqlError> {
    let (nothing_below, nothing_above) = ends(encryption)?;
    let beyond = || {
        let (label, name) = (&encryption.label, encryption.kind.name());
        let message =
            format!("column {label} is of type {name}, and what it is compared with is no value of it");
        SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, message)
            .hint("Compare with a value of the column's type.")
    };
    let has_room = encryption.kind != ColumnType::BigInt;
    match (standing, side) {
        (Standing::At(key), _) | (Standing::Above(key), Side::LessOrEqual | Side::Greater) => Ok(key),
        (Standing::Above(key), Side::Less | Side::GreaterOrEqual)
            if key.iter().any(|byte| *byte < u8::MAX) =>
        {
            Ok(successor(key))
        }
        // No day is the one before the infinite one.
        (Standing::Above(_), _) if encryption.kind == ColumnType::Date => {
            Datum::Date(i32::MAX - 1).order_key(encryption)
        }
        (Standing::BelowAll, _) if has_room => Ok(nothing_below),
        (Standing::Above(_) | Standing::AboveAll, _) if has_room => Ok(nothing_above),
        (Standing::BelowAll | Standing::Above(_) | Standing::AboveAll, _) => Err(beyond()),
    }
}

/// Keys below and above those of all values that are stored, but of `bigint`, which has one for each of 64 bits.
fn ends(encryption: &Encryption) -> Result<(Vec<u8>, Vec<u8>), SqlError> {
    Ok(match encryption.kind {
        ColumnType::Numeric(_) => (
            Datum::Numeric(Numeric::NegativeInfinity).order_key(encryption)?,
            Datum::Numeric(Numeric::Infinity).order_key(encryption)?,
        ),
        _ => {
            let bytes = encryption.order_key_bytes();
            (vec![0; bytes], vec![u8::MAX; bytes])
        }
    })
}

fn successor(mut key: Vec<u8>) -> Vec<u8> {
    for byte in key.iter_mut().rev() {
        let carries;
        (*byte, carries) = byte.overflowing_add(1);
        if !carries {
            break;
        }
    }
    key
}

/// The value as it was sent: of the column's type, or of a finer one.
fn sent(value: &Value, encryption: &Encryption, inputs: Inputs<'_>) -> Result<Option<Datum>, SqlError> {
    let Some(given) = read(&value.source, value.sent_as, encryption, inputs)? else { return Ok(None) };
    compared(given, encryption.kind, inputs).map(Some)
}

fn compared(Given { datum, kind }: Given, column: ColumnType, inputs: Inputs<'_>) -> Result<Datum, SqlError> {
    let zone = inputs.asker.viewer.zone;
    // Elsewhere a day begins at another moment of each zone, and what clocks say is not in the order of what they mean.
    let is_known = !kind.is_zoned() || zone.is_utc();
    let zone = if is_known { zone } else { Zone::Unknown };
    if is_known && is_finer(kind, column) { Ok(datum) } else { datum.compared_as(kind, column, zone) }
}

fn standing(datum: Datum, kind: ColumnType) -> Result<Standing<Datum>, SqlError> {
    Ok(match (datum, kind) {
        (Datum::Numeric(number), kind) if kind.is_integer() => whole(&number),
        (Datum::Real(number), kind) if kind.is_integer() => whole_double(f64::from(number), kind)?,
        (Datum::Double(number), kind) if kind.is_integer() => whole_double(number, kind)?,
        (Datum::Numeric(number), ColumnType::Numeric(Some((_, scale)))) => decimal(number, scale),
        (Datum::Timestamp(i64::MIN), ColumnType::Date) => Standing::At(Datum::Date(i32::MIN)),
        (Datum::Timestamp(i64::MAX), ColumnType::Date) => Standing::At(Datum::Date(i32::MAX)),
        (Datum::Timestamp(moment), ColumnType::Date) => {
            let days = i32::try_from(moment.div_euclid(DAY_MICROSECONDS));
            match (days, moment.rem_euclid(DAY_MICROSECONDS)) {
                (Ok(days), 0) => Standing::At(Datum::Date(days)),
                (Ok(days), _) => Standing::Above(Datum::Date(days)),
                // PostgreSQL's moments end long before its days do.
                (Err(_), _) => Standing::AboveAll,
            }
        }
        (datum, _) => Standing::At(datum),
    })
}

fn whole(number: &Numeric) -> Standing<Datum> {
    match number {
        Numeric::NegativeInfinity => Standing::BelowAll,
        Numeric::Infinity | Numeric::Nan => Standing::AboveAll,
        Numeric::Finite { .. } => {
            let (floor, is_exact) = number.floor(0);
            match i64::try_from(floor) {
                Ok(floor) if is_exact => Standing::At(Datum::Integer(floor)),
                Ok(floor) => Standing::Above(Datum::Integer(floor)),
                Err(_) if number.is_negative() => Standing::BelowAll,
                Err(_) => Standing::AboveAll,
            }
        }
    }
}

fn whole_double(number: f64, kind: ColumnType) -> Result<Standing<Datum>, SqlError> {
    if number.is_finite() && number.abs() >= EXACT_DOUBLES && kind == ColumnType::BigInt {
        let message = format!(
            "{number} of double precision is compared with bigint, whose values it does not tell apart"
        );
        return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
            .hint("Compare with a bigint or a numeric."));
    }
    let number = format!("{number}").parse().unwrap_or(Numeric::Nan);
    Ok(whole(&number))
}

/// A decimal beside those of so many digits behind the point.
fn decimal(number: Numeric, scale: u16) -> Standing<Datum> {
    if !matches!(number, Numeric::Finite { .. }) {
        return Standing::At(Datum::Numeric(number));
    }
    let (floor, is_exact) = number.floor(scale);
    if i128::try_from(floor.clone()).is_err() {
        return if number.is_negative() { Standing::BelowAll } else { Standing::AboveAll };
    }
    let floor = Datum::Numeric(Numeric::Finite { unscaled: floor, scale: u32::from(scale) });
    if is_exact { Standing::At(floor) } else { Standing::Above(floor) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn number(text: &str) -> Datum {
        Datum::Numeric(text.parse().unwrap())
    }

    #[test]
    fn a_number_between_two_stands_above_the_lower_one() {
        let whole = |text: &str| standing(number(text), ColumnType::BigInt).unwrap();
        assert_eq!(whole("1.5"), Standing::Above(Datum::Integer(1)));
        assert_eq!(whole("-1.5"), Standing::Above(Datum::Integer(-2)));
        assert_eq!(whole("2.00"), Standing::At(Datum::Integer(2)));
        assert_eq!(whole("9223372036854775807.5"), Standing::Above(Datum::Integer(i64::MAX)));
        assert_eq!(whole("9223372036854775808"), Standing::AboveAll);
        assert_eq!(whole("-9223372036854775808.5"), Standing::BelowAll);
        assert_eq!(whole("NaN"), Standing::AboveAll);
        let cents = |text: &str| standing(number(text), ColumnType::Numeric(Some((12, 2)))).unwrap();
        assert_eq!(cents("-0.005"), Standing::Above(number("-0.01")));
        assert_eq!(cents("1.10"), Standing::At(number("1.10")));
        assert_eq!(cents("1e60"), Standing::AboveAll);
    }

    /// Equality is declared of decimals of any length, whose terms are stored so.
    #[test]
    fn a_decimal_is_equal_to_itself_whatever_digits_it_has() {
        for text in ["1e40", "1.005", "-1e60", "1.10"] {
            let kind = ColumnType::Numeric(Some((50, 2)));
            assert_eq!(equality_of(number(text), kind).unwrap(), number(text).canonical(), "{text}");
        }
        assert_ne!(equality_of(number("1.5"), ColumnType::BigInt).unwrap(), Datum::Integer(1).canonical());
    }

    #[test]
    fn a_moment_of_a_day_stands_above_it() {
        let day = |moment| standing(Datum::Timestamp(moment), ColumnType::Date).unwrap();
        assert_eq!(day(0), Standing::At(Datum::Date(0)));
        assert_eq!(day(-1), Standing::Above(Datum::Date(-1)));
        assert_eq!(day(i64::MAX), Standing::At(Datum::Date(i32::MAX)));
    }

    #[test]
    fn a_double_that_is_not_one_whole_number_is_no_bigint() {
        assert!(whole_double(1e16, ColumnType::BigInt).is_err());
        assert_eq!(
            whole_double(1e16, ColumnType::Integer).unwrap(),
            Standing::At(Datum::Integer(10_000_000_000_000_000))
        );
        assert_eq!(whole_double(-0.5, ColumnType::BigInt).unwrap(), Standing::Above(Datum::Integer(-1)));
        assert_eq!(whole_double(f64::NEG_INFINITY, ColumnType::BigInt).unwrap(), Standing::BelowAll);
    }

    #[test]
    fn a_key_that_is_followed_by_all_ones_carries() {
        assert_eq!(successor(vec![1, 255, 255]), vec![2, 0, 0]);
    }
}
