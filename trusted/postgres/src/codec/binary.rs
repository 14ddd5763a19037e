//! PostgreSQL's binary formats.

use super::calendar::{DATES, MOMENTS};
use super::{Datum, Numeric};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};

/// Numbers of types that a client may send a value as.
const TEXT_TYPES: [u32; 4] = [25, 1043, 1042, 705];
/// The same of arrays of them.
const TEXT_ARRAYS: [u32; 4] = [1009, 1015, 1014, 1009];
const NUMERIC_POSITIVE: u16 = 0x0000;
const NUMERIC_NEGATIVE: u16 = 0x4000;
const NUMERIC_NAN: u16 = 0xC000;
const NUMERIC_INFINITY: u16 = 0xD000;
const NUMERIC_NEGATIVE_INFINITY: u16 = 0xF000;
/// What a `jsonb` begins with in binary.
const JSONB_VERSION: u8 = 1;

/// What a number of PostgreSQL's says of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Nothing.
    Open,
    /// It is a text.
    Text,
    /// It is of a type that a column can be of.
    Of(ColumnType),
    /// It is of another type.
    Other,
}

/// What is said by the number of a type.
pub(crate) fn said_by(oid: u32) -> Said {
    said(oid, ColumnType::oid, TEXT_TYPES)
}

/// What is said of an array's members by the number of its type.
pub(crate) fn members_said_by(oid: u32) -> Said {
    said(oid, ColumnType::array_oid, TEXT_ARRAYS)
}

/// The type of a parameter, or of its members, that a number of PostgreSQL's means.
pub(crate) fn type_of(oid: u32) -> Option<ColumnType> {
    [said_by(oid), members_said_by(oid)].into_iter().find_map(|said| match said {
        Said::Of(kind) => Some(kind),
        Said::Text => Some(ColumnType::Text),
        Said::Open | Said::Other => None,
    })
}

fn said(oid: u32, number: fn(ColumnType) -> u32, texts: [u32; 4]) -> Said {
    if oid == 0 {
        return Said::Open;
    }
    if texts.contains(&oid) {
        return Said::Text;
    }
    let found = [
        ColumnType::SmallInt,
        ColumnType::Integer,
        ColumnType::BigInt,
        ColumnType::Real,
        ColumnType::DoublePrecision,
        ColumnType::Numeric(None),
        ColumnType::Date,
        ColumnType::Timestamp(None),
        ColumnType::TimestampTz(None),
        ColumnType::Uuid,
        ColumnType::Boolean,
        ColumnType::Bytea,
        ColumnType::Json,
        ColumnType::Jsonb,
    ];
    found.into_iter().find(|kind| number(*kind) == oid).map_or(Said::Other, Said::Of)
}

impl Datum {
    /// Reads a binary value of a type.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn from_binary(kind: ColumnType, bytes: &[u8]) -> Result<Self, SqlError> {
        read(kind, bytes)
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

fn malformed(kind: ColumnType) -> SqlError {
    SqlError::new(
        sqlstate::INVALID_BINARY_REPRESENTATION,
        format!("incorrect binary data format in a value of type {}", kind.name()),
    )
}

/// A day or a moment that PostgreSQL has.
fn in_range(value: Datum) -> Result<Datum, SqlError> {
    let (is_one, name) = match value {
        Datum::Date(day) => (day == i32::MIN || day == i32::MAX || DATES.contains(&i64::from(day)), "date"),
        Datum::Timestamp(moment) => {
            (moment == i64::MIN || moment == i64::MAX || MOMENTS.contains(&moment), "timestamp")
        }
        _ => return Ok(value),
    };
    let range = || SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, format!("{name} out of range"));
    is_one.then_some(value).ok_or_else(range)
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
        | ColumnType::Timestamp(_)
        | ColumnType::TimestampTz(_)
        | ColumnType::Uuid
        | ColumnType::Bytea => in_range(Datum::from_stored(kind, bytes).map_err(|_| malformed(kind))?)?,
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
