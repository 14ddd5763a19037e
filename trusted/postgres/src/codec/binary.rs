//! PostgreSQL's binary formats.

use super::{DAY_MICROSECONDS, Datum, Numeric};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};

/// Numbers of types that a client may send a value as.
const TEXT_TYPES: [u32; 4] = [25, 1043, 1042, 705];
const NUMERIC_POSITIVE: u16 = 0x0000;
const NUMERIC_NEGATIVE: u16 = 0x4000;
const NUMERIC_NAN: u16 = 0xC000;
const NUMERIC_INFINITY: u16 = 0xD000;
const NUMERIC_NEGATIVE_INFINITY: u16 = 0xF000;
/// What a `jsonb` begins with in binary.
const JSONB_VERSION: u8 = 1;

/// The type that a number of PostgreSQL's means, if a column can be of it.
pub(crate) fn type_of(oid: u32) -> Option<ColumnType> {
    [
        ColumnType::SmallInt,
        ColumnType::Integer,
        ColumnType::BigInt,
        ColumnType::Real,
        ColumnType::DoublePrecision,
        ColumnType::Numeric(None),
        ColumnType::Date,
        ColumnType::Timestamp,
        ColumnType::TimestampTz,
        ColumnType::Uuid,
        ColumnType::Boolean,
        ColumnType::Bytea,
        ColumnType::Json,
        ColumnType::Jsonb,
    ]
    .into_iter()
    .find(|kind| kind.oid() == oid)
}

impl Datum {
    /// Reads a binary value that the client sent as the type of number `oid` (0: the column's own).
    ///
    /// # Errors
    /// It is none, or of a type whose values the column does not take.
    pub(crate) fn from_binary(kind: ColumnType, oid: u32, bytes: &[u8]) -> Result<Self, SqlError> {
        if TEXT_TYPES.contains(&oid) {
            let text = std::str::from_utf8(bytes).map_err(|_| malformed(kind))?;
            return Self::from_text(kind, text);
        }
        let sent = if oid == 0 || oid == kind.oid() { Some(kind) } else { type_of(oid) };
        let mismatch = || {
            let message = format!("a parameter of type number {oid} is no value of type {}", kind.name());
            SqlError::new(sqlstate::DATATYPE_MISMATCH, message)
        };
        let sent = sent.ok_or_else(mismatch)?;
        let value = read(sent, bytes)?;
        if matches!(kind, ColumnType::Text | ColumnType::Varchar(_)) && sent.is_number() {
            // As PostgreSQL's own cast when a number is stored as a text.
            return Ok(Self::Text(value.to_text(sent)));
        }
        convert(value, kind).ok_or_else(mismatch)
    }

    /// A value of another type as one of this.
    pub(crate) fn converted(self, kind: ColumnType) -> Result<Self, SqlError> {
        convert(self, kind).ok_or_else(|| malformed(kind))
    }

    /// A value in binary.
    pub(crate) fn to_binary(&self, kind: ColumnType) -> Vec<u8> {
        match (self, kind) {
            #[allow(
                clippy::cast_possible_truncation,
                reason = "the column's range was checked when it was stored"
            )]
            (Self::Integer(number), ColumnType::SmallInt) => (*number as i16).to_be_bytes().to_vec(),
            #[allow(
                clippy::cast_possible_truncation,
                reason = "the column's range was checked when it was stored"
            )]
            (Self::Integer(number), ColumnType::Integer) => (*number as i32).to_be_bytes().to_vec(),
            (Self::Text(text), ColumnType::Jsonb) => [&[JSONB_VERSION], text.as_bytes()].concat(),
            (Self::Numeric(number), _) => numeric(number),
            _ => self.stored(),
        }
    }
}

/// A value of one number type as one of another, if it is the same number there.
fn convert(value: Datum, kind: ColumnType) -> Option<Datum> {
    Some(match (value, kind) {
        (value @ Datum::Integer(_), ColumnType::SmallInt | ColumnType::Integer | ColumnType::BigInt) => value,
        (Datum::Integer(number), ColumnType::Numeric(_)) => Datum::Numeric(Numeric::integer(number)),
        #[allow(clippy::cast_precision_loss, reason = "as PostgreSQL's own cast")]
        (Datum::Integer(number), ColumnType::DoublePrecision) => Datum::Double(number as f64),
        #[allow(clippy::cast_precision_loss, reason = "as PostgreSQL's own cast")]
        (Datum::Integer(number), ColumnType::Real) => Datum::Real(number as f32),
        (Datum::Real(number), ColumnType::DoublePrecision) => Datum::Double(f64::from(number)),
        (Datum::Double(number), ColumnType::Real) =>
        {
            #[allow(clippy::cast_possible_truncation, reason = "as PostgreSQL's own cast")]
            Datum::Real(number as f32)
        }
        // As PostgreSQL's own cast: the digits that every double has.
        (Datum::Double(number), ColumnType::Numeric(_)) => decimal(kind, &format!("{number:.14e}"))?,
        (Datum::Real(number), ColumnType::Numeric(_)) => decimal(kind, &format!("{number:.5e}"))?,
        (Datum::Numeric(number), ColumnType::DoublePrecision | ColumnType::Real) => {
            Datum::from_text(kind, &number.to_string()).ok()?
        }
        (Datum::Numeric(number), ColumnType::SmallInt | ColumnType::Integer | ColumnType::BigInt) => {
            Datum::Integer(i64::try_from(number.unscaled_at(0)?).ok()?)
        }
        (Datum::Date(days), ColumnType::Timestamp) => Datum::Timestamp(match days {
            i32::MIN => i64::MIN,
            i32::MAX => i64::MAX,
            days => i64::from(days) * DAY_MICROSECONDS,
        }),
        (value @ Datum::Real(_), ColumnType::Real)
        | (value @ Datum::Double(_), ColumnType::DoublePrecision)
        | (value @ Datum::Numeric(_), ColumnType::Numeric(_))
        | (
            value @ Datum::Text(_),
            ColumnType::Json | ColumnType::Jsonb | ColumnType::Text | ColumnType::Varchar(_),
        )
        | (value @ Datum::Bytes(_), ColumnType::Bytea)
        | (value @ Datum::Uuid(_), ColumnType::Uuid)
        | (value @ Datum::Boolean(_), ColumnType::Boolean)
        | (value @ Datum::Date(_), ColumnType::Date)
        | (value @ Datum::Timestamp(_), ColumnType::Timestamp | ColumnType::TimestampTz) => value,
        _ => return None,
    })
}

/// A decimal of as many digits as it has.
fn decimal(kind: ColumnType, text: &str) -> Option<Datum> {
    match Datum::from_text(ColumnType::Numeric(None), text).ok()? {
        Datum::Numeric(number) => Datum::from_text(kind, &number.normalized().to_string()).ok(),
        _ => None,
    }
}

/// The type by which a value of type `oid` is read, if it is another than the column's and its text would not do: a double for a
/// decimal, and a moment of a zone for a column without one, or the reverse, where the session's time zone is UTC.
///
/// # Errors
/// Such a moment, where it is not: which one it is says the server.
pub(crate) fn converted_by(oid: u32, kind: ColumnType, in_utc: bool) -> Result<Option<ColumnType>, SqlError> {
    let Some(sent) = type_of(oid) else { return Ok(None) };
    match (sent, kind) {
        (ColumnType::TimestampTz, ColumnType::Timestamp)
        | (ColumnType::Timestamp, ColumnType::TimestampTz) => {
            if in_utc {
                return Ok(Some(sent));
            }
            let message =
                format!("a value of type {} does not become one of type {} here", sent.name(), kind.name());
            let hint = "Send it as the column's type, or leave its type open; with TimeZone UTC it is taken.";
            Err(SqlError::new(sqlstate::DATATYPE_MISMATCH, message).hint(hint))
        }
        (ColumnType::Real | ColumnType::DoublePrecision, ColumnType::Numeric(_)) => Ok(Some(sent)),
        _ => Ok(None),
    }
}

fn malformed(kind: ColumnType) -> SqlError {
    SqlError::new(
        sqlstate::INVALID_BINARY_REPRESENTATION,
        format!("incorrect binary data format in a value of type {}", kind.name()),
    )
}

fn read(kind: ColumnType, bytes: &[u8]) -> Result<Datum, SqlError> {
    let wrong = |_| malformed(kind);
    Ok(match kind {
        ColumnType::SmallInt => Datum::Integer(i16::from_be_bytes(bytes.try_into().map_err(wrong)?).into()),
        ColumnType::Integer => Datum::Integer(i32::from_be_bytes(bytes.try_into().map_err(wrong)?).into()),
        ColumnType::Numeric(_) => Datum::Numeric(read_numeric(bytes).ok_or_else(|| malformed(kind))?),
        ColumnType::Boolean => match bytes {
            [byte] => Datum::Boolean(*byte != 0),
            _ => return Err(malformed(kind)),
        },
        ColumnType::Jsonb => match bytes {
            [JSONB_VERSION, text @ ..] => read(ColumnType::Json, text)?,
            _ => return Err(malformed(kind)),
        },
        ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Json => {
            let text = std::str::from_utf8(bytes).map_err(|_| malformed(kind))?;
            Datum::from_text(kind, text)?
        }
        // The others' binary form is what is stored.
        ColumnType::BigInt
        | ColumnType::Real
        | ColumnType::DoublePrecision
        | ColumnType::Date
        | ColumnType::Timestamp
        | ColumnType::TimestampTz
        | ColumnType::Uuid
        | ColumnType::Bytea => Datum::from_stored(kind, bytes).map_err(|_| malformed(kind))?,
    })
}

fn numeric(number: &Numeric) -> Vec<u8> {
    let (sign, scale) = match number {
        Numeric::Nan => (NUMERIC_NAN, 0),
        Numeric::Infinity => (NUMERIC_INFINITY, 0),
        Numeric::NegativeInfinity => (NUMERIC_NEGATIVE_INFINITY, 0),
        Numeric::Finite { unscaled, scale } => {
            let negative = *unscaled < dashu_int::IBig::ZERO;
            (if negative { NUMERIC_NEGATIVE } else { NUMERIC_POSITIVE }, *scale)
        }
    };
    let (groups, weight) = number.groups();
    let mut bytes = Vec::with_capacity(8 + 2 * groups.len());
    bytes.extend(u16::try_from(groups.len()).unwrap_or(u16::MAX).to_be_bytes());
    bytes.extend(weight.to_be_bytes());
    bytes.extend(sign.to_be_bytes());
    bytes.extend(u16::try_from(scale).unwrap_or(u16::MAX).to_be_bytes());
    groups.iter().for_each(|group| bytes.extend(group.to_be_bytes()));
    bytes
}

fn read_numeric(bytes: &[u8]) -> Option<Numeric> {
    let pairs: Vec<[u8; 2]> = bytes.chunks(2).map(|pair| pair.try_into().ok()).collect::<Option<_>>()?;
    let [count, weight, sign, scale, groups @ ..] = &pairs[..] else { return None };
    let groups: Vec<i16> = groups.iter().map(|pair| i16::from_be_bytes(*pair)).collect();
    if usize::from(u16::from_be_bytes(*count)) != groups.len() {
        return None;
    }
    let scale = u16::from_be_bytes(*scale);
    match u16::from_be_bytes(*sign) {
        NUMERIC_NAN => Some(Numeric::Nan),
        NUMERIC_INFINITY => Some(Numeric::Infinity),
        NUMERIC_NEGATIVE_INFINITY => Some(Numeric::NegativeInfinity),
        NUMERIC_POSITIVE => Numeric::from_groups(&groups, i16::from_be_bytes(*weight), false, scale),
        NUMERIC_NEGATIVE => Numeric::from_groups(&groups, i16::from_be_bytes(*weight), true, scale),
        _ => None,
    }
}
