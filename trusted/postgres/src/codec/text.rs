//! PostgreSQL's text formats.

use super::calendar::{self, NotADate};
use super::numeric::NotNumeric;
use super::{Datum, Numeric, Zone, float};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
use crate::plan::hexadecimal;

fn out_of_range(name: &str, text: &str) -> SqlError {
    let message = format!("value \"{text}\" is out of range for type {name}");
    SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, message)
}

impl Datum {
    /// Reads the text of a value that is said to be of the type: an integer beyond it is none.
    ///
    /// # Errors
    /// As [`Self::from_text`].
    pub(crate) fn of_type(kind: ColumnType, text: &str) -> Result<Self, SqlError> {
        let value = Self::from_text(kind, text)?;
        let beyond = match (&value, kind) {
            (Self::Integer(number), ColumnType::SmallInt) => i16::try_from(*number).is_err(),
            (Self::Integer(number), ColumnType::Integer) => i32::try_from(*number).is_err(),
            _ => false,
        };
        if beyond { Err(out_of_range(&kind.name(), text)) } else { Ok(value) }
    }

    /// Reads the text of a value that is said to be of a type; a moment that says no offset by the clock of a session's zone.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn of_type_in(kind: ColumnType, text: &str, zone: Zone) -> Result<Self, SqlError> {
        let value = Self::of_type(kind, text);
        if !kind.is_zoned() || zone == Zone::Unknown {
            return value;
        }
        value.or_else(|error| match Self::of_type(ColumnType::Timestamp(None), text) {
            Ok(Self::Timestamp(clock)) => zone.moment(clock).map(Self::Timestamp).ok_or(error),
            // No calendar has it, whatever the zone.
            Err(other) if other.sqlstate == sqlstate::DATETIME_FIELD_OVERFLOW => Err(other),
            Ok(_) | Err(_) => Err(error),
        })
    }

    /// Reads a value's text.
    ///
    /// # Errors
    /// It is none of the type's: PostgreSQL's own error. Dates are read in ISO 8601 only.
    pub(crate) fn from_text(kind: ColumnType, text: &str) -> Result<Self, SqlError> {
        let name = || match kind {
            ColumnType::Numeric(_) => "numeric".to_owned(),
            ColumnType::Timestamp(_) => "timestamp".to_owned(),
            kind => kind.plain().name(),
        };
        let syntax = || {
            let message = format!("invalid input syntax for type {}: \"{text}\"", name());
            SqlError::new(sqlstate::INVALID_TEXT_REPRESENTATION, message)
        };
        let range = || match kind {
            ColumnType::Real | ColumnType::DoublePrecision => {
                let message = format!("\"{text}\" is out of range for type {}", kind.name());
                SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, message)
            }
            _ => out_of_range(&name(), text),
        };
        if text.contains('\0') {
            return Err(SqlError::new(
                sqlstate::CHARACTER_NOT_IN_REPERTOIRE,
                "invalid byte sequence for encoding \"UTF8\": 0x00",
            ));
        }
        let date = |error: NotADate| date_error(error, &name(), text);
        Ok(match kind {
            ColumnType::SmallInt | ColumnType::Integer | ColumnType::BigInt => {
                let digits = text.trim();
                let plain = digits.trim_start_matches(['-', '+']);
                if plain.is_empty()
                    || !plain.bytes().all(|byte| byte.is_ascii_digit())
                    || digits.len() > plain.len() + 1
                {
                    return Err(syntax());
                }
                Self::Integer(digits.parse().map_err(|_| range())?)
            }
            ColumnType::Real => {
                let number = real(text).ok_or_else(syntax)?;
                #[allow(clippy::cast_possible_truncation)]
                let narrow = text.trim().parse::<f32>().unwrap_or(number as f32);
                if is_lost(f64::from(narrow), text) { return Err(range()) } else { Self::Real(narrow) }
            }
            ColumnType::DoublePrecision => {
                let number = real(text).ok_or_else(syntax)?;
                if is_lost(number, text) { return Err(range()) } else { Self::Double(number) }
            }
            ColumnType::Numeric(_) => {
                Self::Numeric(text.parse::<Numeric>().map_err(|error| match error {
                    NotNumeric::Syntax => syntax(),
                    NotNumeric::Range => {
                        SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
                    }
                })?)
            }
            ColumnType::Text | ColumnType::Varchar(_) => Self::Text(text.to_owned()),
            ColumnType::Json | ColumnType::Jsonb => Self::Text(text.to_owned()),
            ColumnType::Bytea => Self::Bytes(bytes(text).ok_or_else(syntax)?),
            ColumnType::Uuid => Self::Uuid(uuid(text).ok_or_else(syntax)?),
            ColumnType::Boolean => Self::Boolean(boolean(text).ok_or_else(syntax)?),
            ColumnType::Date => Self::Date(calendar::date(text).map_err(date)?),
            ColumnType::Timestamp(_) => Self::Timestamp(calendar::moment(text, false).map_err(date)?),
            ColumnType::TimestampTz(_) => Self::Timestamp(calendar::moment(text, true).map_err(date)?),
        })
    }

    /// A value's text.
    pub(crate) fn to_text(&self, kind: ColumnType) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Real(number) => float::text_32(*number),
            Self::Double(number) => float::text_64(*number),
            Self::Numeric(number) => number.to_string(),
            Self::Text(text) => text.clone(),
            Self::Bytes(bytes) => format!("\\x{}", hexadecimal(bytes)),
            Self::Uuid(bytes) => {
                let digits = hexadecimal(bytes);
                let part = |range: std::ops::Range<usize>| digits.get(range).unwrap_or_default();
                [part(0..8), part(8..12), part(12..16), part(16..20), part(20..32)].join("-")
            }
            Self::Boolean(value) => if *value { "t" } else { "f" }.to_owned(),
            Self::Date(days) => calendar::date_text(*days),
            Self::Timestamp(moment) => calendar::moment_text(*moment, kind.is_zoned().then_some(0)),
        }
    }

    /// The same in a session's zone: by its clock where that is known, else by that of UTC.
    pub(crate) fn to_text_in(&self, kind: ColumnType, zone: Zone) -> String {
        match self {
            Self::Timestamp(moment) if kind.is_zoned() => {
                calendar::moment_text(*moment, Some(zone.ahead(*moment).unwrap_or_default()))
            }
            value => value.to_text(kind),
        }
    }
}

fn date_error(error: NotADate, name: &str, text: &str) -> SqlError {
    let wrong = || format!("invalid input syntax for type {name}: \"{text}\"");
    match error {
        NotADate::Format => SqlError::new(sqlstate::INVALID_DATETIME_FORMAT, wrong())
            .hint("A value of an encrypted column is written in ISO 8601: 2024-05-31 23:59:59.5+02:00."),
        NotADate::Field => SqlError::new(
            sqlstate::DATETIME_FIELD_OVERFLOW,
            format!("date/time field value out of range: \"{text}\""),
        ),
        NotADate::Range => {
            SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, format!("{name} out of range: \"{text}\""))
        }
        NotADate::Offset => SqlError::new(sqlstate::INVALID_DATETIME_FORMAT, wrong())
            .detail("The time zone of the session is not known to the proxy.")
            .hint("Write the offset from UTC: 2024-05-31 23:59:59+00."),
    }
}

fn real(text: &str) -> Option<f64> {
    let text = text.trim();
    let plain = text.trim_start_matches(['-', '+']).to_ascii_lowercase();
    let fits = matches!(plain.as_str(), "nan" | "inf" | "infinity") || has_digits(text);
    if fits { text.parse().ok() } else { None }
}

/// Is it a number in digits, not the name of one?
fn has_digits(text: &str) -> bool {
    let plain = text.trim().trim_start_matches(['-', '+']);
    plain.starts_with(|c: char| c.is_ascii_digit() || c == '.')
}

/// Is what was read of digits infinite, or nothing though they say more?
fn is_lost(number: f64, text: &str) -> bool {
    let mantissa = text.split(['e', 'E']).next().unwrap_or_default();
    let says_more = mantissa.bytes().any(|digit| matches!(digit, b'1'..=b'9'));
    has_digits(text) && (number.is_infinite() || (number == 0.0 && says_more))
}

fn boolean(text: &str) -> Option<bool> {
    let text = text.trim().to_ascii_lowercase();
    let begins = |word: &str, least: usize| text.len() >= least && word.starts_with(&text);
    if begins("true", 1) || begins("yes", 1) || text == "on" || text == "1" {
        Some(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || text == "0" {
        Some(false)
    } else {
        None
    }
}

fn hexadecimal_digits(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = digits.chars().map(|c| c.to_digit(16)).collect::<Option<_>>()?;
    let pair = |pair: &[u32]| match pair {
        [high, low] => u8::try_from(high * 16 + low).ok(),
        _ => None,
    };
    digits.chunks(2).map(pair).collect()
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let inside = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}')?,
        None => text,
    };
    let digits = inside.replace('-', "");
    let grouped = inside.split('-').all(|group| !group.is_empty() && group.len() % 4 == 0);
    if !grouped {
        return None;
    }
    hexadecimal_digits(&digits)?.try_into().ok()
}

/// Bytes in either of PostgreSQL's notations.
pub(super) fn bytes(text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        let digits: String = digits.chars().filter(|c| !c.is_whitespace()).collect();
        return hexadecimal_digits(&digits);
    }
    let mut found = Vec::new();
    let mut rest = text.as_bytes();
    loop {
        match rest {
            [] => return Some(found),
            [b'\\', b'\\', after @ ..] => {
                found.push(b'\\');
                rest = after;
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..] => {
                found.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
                rest = after;
            }
            [b'\\', ..] => return None,
            [byte, after @ ..] => {
                found.push(*byte);
                rest = after;
            }
        }
    }
}
