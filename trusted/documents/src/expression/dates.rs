//! Dates.

use super::calendar::{self, Moment, Zone};
use super::{Value, is_nullish, type_of};
use crate::error::location;
use crate::{QueryError, order};
use bson::{Bson, DateTime, doc};

fn operand(values: &[Value], offset: usize) -> Option<&Bson> {
    values.get(offset).and_then(Option::as_ref)
}

fn null() -> Result<Value, QueryError> {
    Ok(Some(Bson::Null))
}

fn int(value: i64) -> Result<Value, QueryError> {
    Ok(Some(i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)))
}

/// The instant of a date, timestamp or object id; none for null.
fn date(operator: &str, value: Option<&Bson>) -> Result<Option<DateTime>, QueryError> {
    match value {
        Some(Bson::DateTime(date)) => Ok(Some(*date)),
        Some(Bson::Timestamp(timestamp)) => Ok(Some(DateTime::from_millis(i64::from(timestamp.time) * 1000))),
        Some(Bson::ObjectId(id)) => Ok(Some(id.timestamp())),
        other if is_nullish(&other.cloned()) => Ok(None),
        other => Err(location!(
            16006,
            "can't convert from BSON type {} to Date in {operator}",
            type_of(&other.cloned())
        )),
    }
}

fn zone(value: Option<&Bson>) -> Result<Zone, QueryError> {
    match value {
        None => Ok(Zone::UTC),
        Some(Bson::String(text)) => {
            Zone::parse(text).ok_or_else(|| location!(40485, "unrecognized time zone identifier: \"{text}\""))
        }
        Some(other) => {
            Err(location!(40517, "timezone must evaluate to a string, found {}", order::type_name(other)))
        }
    }
}

fn part(operator: &str, values: &[Value], of: fn(Moment) -> i64) -> Result<Value, QueryError> {
    if matches!(operand(values, 1), Some(Bson::Null)) {
        return null();
    }
    match date(operator, operand(values, 0))? {
        Some(date) => int(of(Moment::at(date, zone(operand(values, 1))?))),
        None => null(),
    }
}

pub(super) fn year(values: &[Value]) -> Result<Value, QueryError> {
    part("$year", values, Moment::year)
}

pub(super) fn month(values: &[Value]) -> Result<Value, QueryError> {
    part("$month", values, Moment::month)
}

pub(super) fn day_of_month(values: &[Value]) -> Result<Value, QueryError> {
    part("$dayOfMonth", values, Moment::day)
}

pub(super) fn day_of_week(values: &[Value]) -> Result<Value, QueryError> {
    part("$dayOfWeek", values, Moment::day_of_week)
}

pub(super) fn day_of_year(values: &[Value]) -> Result<Value, QueryError> {
    part("$dayOfYear", values, Moment::day_of_year)
}

pub(super) fn hour(values: &[Value]) -> Result<Value, QueryError> {
    part("$hour", values, Moment::hour)
}

pub(super) fn minute(values: &[Value]) -> Result<Value, QueryError> {
    part("$minute", values, Moment::minute)
}

pub(super) fn second(values: &[Value]) -> Result<Value, QueryError> {
    part("$second", values, Moment::second)
}

pub(super) fn millisecond(values: &[Value]) -> Result<Value, QueryError> {
    part("$millisecond", values, Moment::millisecond)
}

pub(super) fn week(values: &[Value]) -> Result<Value, QueryError> {
    part("$week", values, Moment::week)
}

pub(super) fn iso_week(values: &[Value]) -> Result<Value, QueryError> {
    part("$isoWeek", values, |moment| moment.iso_week().1)
}

pub(super) fn iso_week_year(values: &[Value]) -> Result<Value, QueryError> {
    // The one part MongoDB returns as int64.
    let year = part("$isoWeekYear", values, |moment| moment.iso_week().0)?;
    Ok(year.map(|year| order::as_exact_i64(&year).map_or(Bson::Null, Bson::Int64)))
}

pub(super) fn iso_day_of_week(values: &[Value]) -> Result<Value, QueryError> {
    part("$isoDayOfWeek", values, Moment::iso_day_of_week)
}

pub(super) fn to_parts(values: &[Value]) -> Result<Value, QueryError> {
    let Some(date) = date("$dateToParts", operand(values, 0))? else {
        return null();
    };
    let moment = Moment::at(date, zone(operand(values, 1))?);
    let narrow = |value: i64| i32::try_from(value).unwrap_or(i32::MAX);
    Ok(Some(Bson::Document(doc! {
        "year": narrow(moment.year()),
        "month": narrow(moment.month()),
        "day": narrow(moment.day()),
        "hour": narrow(moment.hour()),
        "minute": narrow(moment.minute()),
        "second": narrow(moment.second()),
        "millisecond": narrow(moment.millisecond()),
    })))
}

pub(super) fn from_parts(values: &[Value]) -> Result<Value, QueryError> {
    let mut parts = [0_i64, 1, 1, 0, 0, 0, 0];
    for (offset, part) in parts.iter_mut().enumerate() {
        match operand(values, offset) {
            None if offset > 0 => {}
            None | Some(Bson::Null | Bson::Undefined) => return null(),
            Some(value) => {
                *part = order::as_exact_i64(value).ok_or_else(|| {
                    location!(40515, "$dateFromParts requires integral parts, found {value}")
                })?;
            }
        }
    }
    let zone = zone(operand(values, 7))?;
    calendar::local_of(parts)
        .and_then(|local| zone.instant(local))
        .map(|date| Some(Bson::DateTime(date)))
        .ok_or_else(|| QueryError::overflow("$dateFromParts: the date is out of range"))
}

pub(super) fn from_string(values: &[Value]) -> Result<Value, QueryError> {
    let failed = |message: String| match operand(values, 3) {
        Some(fallback) => Ok(Some(fallback.clone())),
        None => Err(QueryError::conversion(message)),
    };
    match operand(values, 0) {
        _ if operand(values, 1).is_some() => Err(QueryError::unsupported("the format of $dateFromString")),
        Some(Bson::String(text)) => {
            let (zone, given) = (zone(operand(values, 2))?, operand(values, 2).is_some());
            match calendar::parse(text) {
                Some(written) if written.zone.is_some() && given => failed(format!(
                    "you cannot pass in a date/time string with GMT offset together with a timezone argument: '{text}'"
                )),
                Some(written) => match written.instant(zone) {
                    Some(date) => Ok(Some(Bson::DateTime(date))),
                    None => failed(format!("Error parsing date string '{text}'; it is out of range")),
                },
                None => failed(format!("Error parsing date string '{text}'")),
            }
        }
        other if is_nullish(&other.cloned()) => Ok(Some(operand(values, 4).cloned().unwrap_or(Bson::Null))),
        other => failed(format!(
            "$dateFromString requires that 'dateString' be a string, found: {}",
            type_of(&other.cloned())
        )),
    }
}

pub(super) fn to_string(values: &[Value]) -> Result<Value, QueryError> {
    let Some(date) = date("$dateToString", operand(values, 0))? else {
        return Ok(Some(operand(values, 3).cloned().unwrap_or(Bson::Null)));
    };
    let zone = zone(operand(values, 2))?;
    let moment = Moment::at(date, zone);
    let format = match operand(values, 1) {
        None if zone.is_utc() => "%Y-%m-%dT%H:%M:%S.%LZ",
        None => "%Y-%m-%dT%H:%M:%S.%L%z",
        Some(Bson::String(format)) => format,
        Some(Bson::Null) => return null(),
        Some(other) => {
            return Err(location!(
                18533,
                "$dateToString requires that 'format' be a string, found: {} with value {other}",
                order::type_name(other)
            ));
        }
    };
    formatted(moment, format).map(|text| Some(Bson::String(text)))
}

fn formatted(moment: Moment, format: &str) -> Result<String, QueryError> {
    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        let offset = moment.offset_minutes;
        let sign = if offset < 0 { '-' } else { '+' };
        let piece = match characters.next() {
            Some('Y') => format!("{:04}", moment.year()),
            Some('m') => format!("{:02}", moment.month()),
            Some('d') => format!("{:02}", moment.day()),
            Some('H') => format!("{:02}", moment.hour()),
            Some('M') => format!("{:02}", moment.minute()),
            Some('S') => format!("{:02}", moment.second()),
            Some('L') => format!("{:03}", moment.millisecond()),
            Some('j') => format!("{:03}", moment.day_of_year()),
            Some('w') => moment.day_of_week().to_string(),
            Some('u') => moment.iso_day_of_week().to_string(),
            Some('U') => format!("{:02}", moment.week()),
            Some('V') => format!("{:02}", moment.iso_week().1),
            Some('G') => format!("{:04}", moment.iso_week().0),
            Some('B') => moment.month_name(),
            Some('b') => moment.month_name().chars().take(3).collect(),
            Some('z') => format!("{sign}{:02}{:02}", offset.abs() / 60, offset.abs() % 60),
            Some('Z') => offset.to_string(),
            Some('%') => "%".to_owned(),
            Some(other) => {
                return Err(location!(18536, "Invalid format character '%{other}' in format string"));
            }
            None => return Err(location!(18535, "Unmatched '%' at end of format string")),
        };
        out.push_str(&piece);
    }
    Ok(out)
}

/// A unit of date arithmetic: of the calendar, by the local clock, or of time that passes wherever one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Months(i64),
    Days(i64),
    Milliseconds(i64),
}

const DAY_MS: i64 = 86_400_000;

fn unit(operator: &str, value: Option<&Bson>) -> Result<Unit, QueryError> {
    Ok(match value {
        Some(Bson::String(name)) => match name.as_str() {
            "year" => Unit::Months(12),
            "quarter" => Unit::Months(3),
            "month" => Unit::Months(1),
            "week" => Unit::Days(7),
            "day" => Unit::Days(1),
            "hour" => Unit::Milliseconds(3_600_000),
            "minute" => Unit::Milliseconds(60_000),
            "second" => Unit::Milliseconds(1000),
            "millisecond" => Unit::Milliseconds(1),
            _ => {
                return Err(QueryError::failed_to_parse(format!("unknown time unit value: {name}")));
            }
        },
        other => {
            return Err(location!(
                5439013,
                "{operator} requires 'unit' to be a string, but got {}",
                type_of(&other.cloned())
            ));
        }
    })
}

fn step(operator: &str, values: &[Value], sign: i64) -> Result<Value, QueryError> {
    if values.iter().take(3).any(is_nullish) {
        return null();
    }
    let Some(date) = date(operator, operand(values, 0))? else {
        return null();
    };
    let unit = unit(operator, operand(values, 1))?;
    let amount = operand(values, 2)
        .and_then(order::as_exact_i64)
        .ok_or_else(|| location!(5166405, "{operator} expects integer amount of time units"))?;
    let zone = zone(operand(values, 3))?;
    let overflow = || location!(5166406, "{operator} overflowed");
    let amount = amount.checked_mul(sign).ok_or_else(overflow)?;
    moved(date, unit, amount, zone).map(|date| Some(Bson::DateTime(date))).ok_or_else(overflow)
}

/// A date so many units later; `None` if there is no such date.
fn moved(date: DateTime, unit: Unit, amount: i64, zone: Zone) -> Option<DateTime> {
    match unit {
        Unit::Milliseconds(length) => {
            let distance = amount.checked_mul(length)?;
            date.timestamp_millis().checked_add(distance).map(DateTime::from_millis)
        }
        Unit::Days(length) => {
            let distance = amount.checked_mul(length)?.checked_mul(DAY_MS)?;
            zone.instant(zone.local(date).checked_add(distance)?)
        }
        Unit::Months(length) => {
            zone.instant(Moment::at(date, zone).plus_months(amount.checked_mul(length)?)?)
        }
    }
}

pub(super) fn add(values: &[Value]) -> Result<Value, QueryError> {
    step("$dateAdd", values, 1)
}

pub(super) fn subtract(values: &[Value]) -> Result<Value, QueryError> {
    step("$dateSubtract", values, -1)
}

/// First day of weeks as days after Monday: MongoDB's default is Sunday.
fn week_start(operator: &str, value: Option<&Bson>) -> Result<i64, QueryError> {
    let Some(value) = value else { return Ok(6) };
    const DAYS: [&str; 7] = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];
    let name = value.as_str().unwrap_or_default().to_ascii_lowercase();
    let matches = |day: &&str| **day == name || (name.len() == 3 && day.starts_with(&name));
    let position = DAYS.iter().position(matches);
    position
        .and_then(|position| i64::try_from(position).ok())
        .ok_or_else(|| location!(5439015, "{operator} requires 'startOfWeek' to be a day of the week"))
}

/// What local days are counted from, in days after 1970-01-01, which was a Thursday, three days after Monday: weeks begin
/// where they are to.
fn first_day(length: i64, week_start: i64) -> i64 {
    if length == 7 { (3 - week_start).rem_euclid(7) } else { 0 }
}

/// Number of the unit an instant lies in, counted from a fixed point: boundaries crossed are differences.
fn ordinal(date: DateTime, unit: Unit, zone: Zone, week_start: i64) -> i64 {
    match unit {
        Unit::Months(length) => {
            let moment = Moment::at(date, zone);
            (moment.year() * 12 + moment.month() - 1).div_euclid(length)
        }
        Unit::Days(length) => {
            let days = zone.local(date).div_euclid(DAY_MS);
            (days + first_day(length, week_start)).div_euclid(length)
        }
        // An hour has its length where the clock is put forward or back, too.
        Unit::Milliseconds(length) => {
            date.timestamp_millis().saturating_add(zone.phase(date)).div_euclid(length)
        }
    }
}

pub(super) fn difference(values: &[Value]) -> Result<Value, QueryError> {
    if values.iter().take(3).any(is_nullish) {
        return null();
    }
    let unit = unit("$dateDiff", operand(values, 2))?;
    let zone = zone(operand(values, 3))?;
    let week_start = week_start("$dateDiff", operand(values, 4))?;
    match (date("$dateDiff", operand(values, 0))?, date("$dateDiff", operand(values, 1))?) {
        (Some(start), Some(end)) => {
            let count = ordinal(end, unit, zone, week_start)
                .checked_sub(ordinal(start, unit, zone, week_start))
                .ok_or_else(|| location!(5166308, "dateDiff overflowed"))?;
            Ok(Some(Bson::Int64(count)))
        }
        _ => null(),
    }
}

pub(super) fn truncate(values: &[Value]) -> Result<Value, QueryError> {
    if values.iter().take(2).any(is_nullish) {
        return null();
    }
    if operand(values, 2).is_some_and(|size| order::as_exact_i64(size) != Some(1)) {
        return Err(QueryError::unsupported("a binSize other than 1 of $dateTrunc"));
    }
    let Some(date) = date("$dateTrunc", operand(values, 0))? else {
        return null();
    };
    let unit = unit("$dateTrunc", operand(values, 1))?;
    let zone = zone(operand(values, 3))?;
    let week_start = week_start("$dateTrunc", operand(values, 4))?;
    let number = ordinal(date, unit, zone, week_start);
    let start = match unit {
        Unit::Months(length) => {
            let months = number * length;
            calendar::local_of([months.div_euclid(12), months.rem_euclid(12) + 1, 1, 0, 0, 0, 0])
                .and_then(|local| zone.instant(local))
        }
        Unit::Days(length) => (number * length - first_day(length, week_start))
            .checked_mul(DAY_MS)
            .and_then(|local| zone.instant(local)),
        Unit::Milliseconds(length) => number
            .checked_mul(length)
            .and_then(|begun| begun.checked_sub(zone.phase(date)))
            .map(DateTime::from_millis),
    };
    start.map(|date| Some(Bson::DateTime(date))).ok_or_else(|| QueryError::overflow("$dateTrunc overflowed"))
}
