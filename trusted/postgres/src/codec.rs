//! Values of encrypted columns: PostgreSQL's text and binary formats, and the bytes that are sealed, compared and ordered.
//!
//! A value has three encodings of ours. *Stored* bytes give back the very value (`1.00`, `-0`). *Canonical* bytes are equal
//! where PostgreSQL's `=` is true (`1.00` and `1.0`, `-0` and `0`). *Order keys*, compared as unsigned bytes, are in the order
//! of PostgreSQL's `<`: NaN above all numbers, text by its bytes (the collation "C"). All order keys of a column have one
//! length.

mod array;
mod binary;
mod calendar;
mod conversion;
mod field;
mod float;
mod interval;
mod json;
mod members;
mod numeric;
#[cfg(test)]
mod tests;
mod text;
mod truncated;
mod zone;

pub(crate) use array::{array_members, binary_members};
pub(crate) use binary::{Said, members_said_by, said_by, type_of};
pub(crate) use calendar::DAY_MICROSECONDS;
pub(crate) use conversion::{is_assigned, within};
pub(crate) use field::Field;
pub(crate) use interval::{Interval, days_after, moved};
pub(crate) use members::{Members, NotAnArray};
pub(crate) use numeric::Numeric;
pub(crate) use truncated::{Unit, rounded_moment, truncated};
pub(crate) use zone::Samples;
pub(crate) use zone::Zone;

use crate::catalog::Encryption;
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};

/// A number as PostgreSQL writes it.
pub(crate) fn number_text(digits: &str) -> Option<String> {
    Some(digits.parse::<Numeric>().ok()?.to_string())
}

/// The whole number that a decimal with digits behind its point, or with an exponent, is rounded to.
pub(crate) fn rounded(text: &str) -> Option<i64> {
    if !text.contains(['.', 'e', 'E']) {
        return None;
    }
    text.parse::<Numeric>().ok()?.rounded()
}

/// A value that is not NULL.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Datum {
    /// Of the three types of integers.
    Integer(i64),
    Real(f32),
    Double(f64),
    Numeric(Numeric),
    /// Also JSON.
    Text(String),
    Bytes(Vec<u8>),
    Uuid([u8; 16]),
    Boolean(bool),
    /// Days since the first of January 2000; the ends of the type are the infinities.
    Date(i32),
    /// Microseconds since that midnight; the ends of the type are the infinities.
    Timestamp(i64),
}

/// Kinds of numbers in an order key of a decimal: -infinity, finite, infinity, NaN.
const DECIMAL_RANKS: [u8; 4] = [0, 1, 2, 3];
/// Digits of a decimal whose order key has 8 bytes.
const SHORT_DIGITS: u16 = 18;
/// What stands for the length of a text that no column of the declaration can hold: behind all that it can.
const TOO_LONG: u16 = u16::MAX;

impl Datum {
    /// The bytes that are sealed.
    pub(crate) fn stored(&self) -> Vec<u8> {
        match self {
            Self::Integer(number) => number.to_be_bytes().to_vec(),
            Self::Real(number) => number.to_bits().to_be_bytes().to_vec(),
            Self::Double(number) => number.to_bits().to_be_bytes().to_vec(),
            Self::Numeric(number) => number.to_string().into_bytes(),
            Self::Text(text) => text.clone().into_bytes(),
            Self::Bytes(bytes) => bytes.clone(),
            Self::Uuid(bytes) => bytes.to_vec(),
            Self::Boolean(value) => vec![u8::from(*value)],
            Self::Date(days) => days.to_be_bytes().to_vec(),
            Self::Timestamp(moment) => moment.to_be_bytes().to_vec(),
        }
    }

    /// The value of stored bytes.
    ///
    /// # Errors
    /// They are no value of the type's: the column was of another type when they were stored.
    pub(crate) fn from_stored(kind: ColumnType, bytes: &[u8]) -> Result<Self, SqlError> {
        let wrong = || {
            SqlError::new(sqlstate::DATA_CORRUPTED, format!("a sealed value is none of type {}", kind.name()))
                .hint("Has the column's type been changed in the schema file?")
        };
        let text = || String::from_utf8(bytes.to_vec()).map_err(|_| wrong());
        let eight = || <[u8; 8]>::try_from(bytes).map_err(|_| wrong());
        let four = || <[u8; 4]>::try_from(bytes).map_err(|_| wrong());
        Ok(match kind {
            ColumnType::SmallInt | ColumnType::Integer | ColumnType::BigInt => {
                Self::Integer(i64::from_be_bytes(eight()?))
            }
            ColumnType::Real => Self::Real(f32::from_bits(u32::from_be_bytes(four()?))),
            ColumnType::DoublePrecision => Self::Double(f64::from_bits(u64::from_be_bytes(eight()?))),
            ColumnType::Numeric(_) => Self::Numeric(text()?.parse().map_err(|_| wrong())?),
            ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Json | ColumnType::Jsonb => {
                Self::Text(text()?)
            }
            ColumnType::Bytea => Self::Bytes(bytes.to_vec()),
            ColumnType::Uuid => Self::Uuid(bytes.try_into().map_err(|_| wrong())?),
            ColumnType::Boolean => match bytes {
                [0] => Self::Boolean(false),
                [1] => Self::Boolean(true),
                _ => return Err(wrong()),
            },
            ColumnType::Date => Self::Date(i32::from_be_bytes(four()?)),
            ColumnType::Timestamp(_) | ColumnType::TimestampTz(_) => {
                Self::Timestamp(i64::from_be_bytes(eight()?))
            }
        })
    }

    /// The bytes that equal values share.
    pub(crate) fn canonical(&self) -> Vec<u8> {
        match self {
            Self::Real(number) => float::ordered_32(*number).to_be_bytes().to_vec(),
            Self::Double(number) => float::ordered_64(*number).to_be_bytes().to_vec(),
            Self::Numeric(number) => number.normalized().to_string().into_bytes(),
            Self::Integer(_)
            | Self::Text(_)
            | Self::Bytes(_)
            | Self::Uuid(_)
            | Self::Boolean(_)
            | Self::Date(_)
            | Self::Timestamp(_) => self.stored(),
        }
    }

    /// The bytes whose order is the values'. A text that is longer than the column takes is ordered behind what begins as it
    /// does: it is compared with, never stored.
    ///
    /// # Errors
    /// A decimal of more digits than an order is kept of: its place is not known.
    pub(crate) fn order_key(&self, encryption: &Encryption) -> Result<Vec<u8>, SqlError> {
        Ok(match self {
            Self::Integer(number) | Self::Timestamp(number) => {
                (number.cast_unsigned() ^ (1 << 63)).to_be_bytes().to_vec()
            }
            Self::Date(days) => (days.cast_unsigned() ^ (1 << 31)).to_be_bytes().to_vec(),
            Self::Real(number) => float::ordered_32(*number).to_be_bytes().to_vec(),
            Self::Double(number) => float::ordered_64(*number).to_be_bytes().to_vec(),
            Self::Numeric(number) => decimal_key(number, encryption)?,
            Self::Text(text) => padded_key(text.as_bytes(), encryption),
            Self::Bytes(bytes) => padded_key(bytes, encryption),
            Self::Uuid(bytes) => bytes.to_vec(),
            Self::Boolean(value) => vec![u8::from(*value)],
        })
    }

    /// That the column may hold the value: what PostgreSQL checks when it stores one, and what the declaration says.
    ///
    /// # Errors
    /// It may not.
    pub(crate) fn storable(self, encryption: &Encryption) -> Result<Self, SqlError> {
        let kind = encryption.kind;
        let range =
            || SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, format!("{} out of range", kind.name()));
        let long = |what: String| SqlError::new(sqlstate::STRING_DATA_RIGHT_TRUNCATION, what);
        let value = match (self, kind) {
            (Self::Integer(number), ColumnType::SmallInt) if i16::try_from(number).is_err() => {
                return Err(range());
            }
            (Self::Integer(number), ColumnType::Integer) if i32::try_from(number).is_err() => {
                return Err(range());
            }
            (Self::Numeric(number), ColumnType::Numeric(Some((precision, scale)))) => {
                Self::Numeric(number.fitted(precision, scale)?)
            }
            (
                Self::Timestamp(moment),
                ColumnType::Timestamp(Some(digits)) | ColumnType::TimestampTz(Some(digits)),
            ) => Self::Timestamp(rounded_moment(moment, digits)),
            (Self::Text(mut text), ColumnType::Varchar(Some(length))) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                if let Some((end, _)) = text.char_indices().nth(length) {
                    // PostgreSQL cuts blanks without a word.
                    if text.get(end..).is_some_and(|rest| rest.chars().any(|c| c != ' ')) {
                        return Err(long(format!("value too long for type {}", kind.name())));
                    }
                    text.truncate(end);
                }
                Self::Text(text)
            }
            (Self::Text(text), ColumnType::Json | ColumnType::Jsonb) if !json::is_json(&text) => {
                let message = "invalid input syntax for type json";
                return Err(SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, message));
            }
            (value, _) => value,
        };
        let bytes = match &value {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        match encryption.max_bytes {
            Some(max) if bytes > usize::from(max) => {
                let label = &encryption.label;
                Err(long(format!("value too long for column {label}: {bytes} bytes, max_bytes = {max}")))
            }
            Some(_) | None => Ok(value),
        }
    }
}

impl Encryption {
    /// Is it of decimals of few digits?
    fn has_short_decimals(&self) -> bool {
        matches!(self.kind, ColumnType::Numeric(Some((precision, _))) if precision <= SHORT_DIGITS)
    }

    /// Bytes of each of the column's order keys.
    #[must_use]
    pub fn order_key_bytes(&self) -> usize {
        let datum = match self.kind {
            ColumnType::SmallInt | ColumnType::Integer | ColumnType::BigInt => Datum::Integer(0),
            ColumnType::Real => Datum::Real(0.0),
            ColumnType::DoublePrecision => Datum::Double(0.0),
            ColumnType::Numeric(_) => Datum::Numeric(Numeric::Nan),
            ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Json | ColumnType::Jsonb => {
                Datum::Text(String::new())
            }
            ColumnType::Date => Datum::Date(0),
            ColumnType::Timestamp(_) | ColumnType::TimestampTz(_) => Datum::Timestamp(0),
            ColumnType::Uuid => Datum::Uuid([0; 16]),
            ColumnType::Boolean => Datum::Boolean(false),
            ColumnType::Bytea => Datum::Bytes(Vec::new()),
        };
        // None of these is refused: only decimals of too many digits are.
        datum.order_key(self).map_or(0, |key| key.len())
    }
}

/// A decimal as the number of its last digits, which the column's type says how many there are of.
fn decimal_key(number: &Numeric, encryption: &Encryption) -> Result<Vec<u8>, SqlError> {
    let [below, finite, above, nan] = DECIMAL_RANKS;
    let scale = match encryption.kind {
        ColumnType::Numeric(Some((_, scale))) => scale,
        _ => 0,
    };
    let (rank, digits) = match number {
        Numeric::NegativeInfinity => (below, 0),
        Numeric::Infinity => (above, 0),
        Numeric::Nan => (nan, 0),
        Numeric::Finite { .. } => {
            let Some(digits) = number.unscaled_at(scale) else {
                let label = &encryption.label;
                return Err(SqlError::new(
                    sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
                    format!(
                        "{number} cannot be compared with column {label} of type {}",
                        encryption.kind.name()
                    ),
                )
                .hint("Compare with a number of as many digits after the point as the column has."));
            };
            (finite, digits)
        }
    };
    if encryption.order_is_ciphertext() && encryption.has_short_decimals() {
        return Ok(short_decimal_key(rank, digits).to_be_bytes().to_vec());
    }
    let mut key = vec![rank];
    key.extend((digits.cast_unsigned() ^ (1 << 127)).to_be_bytes());
    Ok(key)
}

/// The same in 8 bytes, of 18 digits at most. A number of more, which is compared with and never stored, is ordered beyond all
/// that are.
fn short_decimal_key(rank: u8, digits: i128) -> u64 {
    let [below, finite, above, _] = DECIMAL_RANKS;
    let beyond = 10_i64.pow(u32::from(SHORT_DIGITS));
    let within = i64::try_from(digits).unwrap_or(if digits < 0 { -beyond } else { beyond });
    match rank {
        rank if rank == below => 0,
        rank if rank == finite => within.clamp(-beyond, beyond).cast_unsigned() ^ (1 << 63),
        rank if rank == above => u64::MAX - 1,
        _ => u64::MAX,
    }
}

/// Bytes filled up with zeros, and their number: so `a` is before `a` and a zero.
fn padded_key(bytes: &[u8], encryption: &Encryption) -> Vec<u8> {
    let width = usize::from(encryption.max_bytes.unwrap_or(0));
    let mut key: Vec<u8> = bytes.iter().copied().take(width).collect();
    key.resize(width, 0);
    let length = if bytes.len() > width { TOO_LONG } else { u16::try_from(bytes.len()).unwrap_or(TOO_LONG) };
    key.extend(length.to_be_bytes());
    key
}
