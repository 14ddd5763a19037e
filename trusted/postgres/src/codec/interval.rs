//! Intervals: how PostgreSQL reads those of whole units, and what it makes of a moment or a day and one.

use super::Datum;
use super::calendar::{DATES, DAY_MICROSECONDS, MOMENTS, months_after};
use crate::error::{SqlError, sqlstate};

/// An interval, as PostgreSQL keeps it: months and days are of different lengths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Interval {
    months: i32,
    days: i32,
    microseconds: i64,
}

/// What a number of a unit counts, and how many of them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Months(i32),
    Days(i32),
    Microseconds(i64),
}

const SECOND: i64 = 1_000_000;

/// Units and their names; none is written twice in an interval.
const UNITS: [(Unit, &[&str]); 11] = [
    (Unit::Microseconds(1), &["us", "usec", "usecs", "microsecond", "microseconds"]),
    (Unit::Microseconds(1_000), &["ms", "msec", "msecs", "millisecond", "milliseconds"]),
    (Unit::Microseconds(SECOND), &["s", "sec", "secs", "second", "seconds"]),
    (Unit::Microseconds(60 * SECOND), &["m", "min", "mins", "minute", "minutes"]),
    (Unit::Microseconds(3600 * SECOND), &["h", "hr", "hrs", "hour", "hours"]),
    (Unit::Days(1), &["d", "day", "days"]),
    (Unit::Days(7), &["w", "week", "weeks"]),
    (Unit::Months(1), &["mon", "mons", "month", "months"]),
    (Unit::Months(12), &["y", "yr", "yrs", "year", "years"]),
    (Unit::Months(120), &["decade", "decades", "dec", "decs"]),
    (Unit::Months(1200), &["c", "cent", "century", "centuries"]),
];

impl Interval {
    /// What a text says: whole numbers of units, and hours, minutes and seconds (`1 year 2 mons -3 days 04:05:06.5`, `2 weeks ago`).
    /// None: it is none, or one of the ways to write it that are not read here (parts of units, ISO 8601).
    pub(crate) fn read(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let (text, is_past) = match text.trim().strip_suffix("ago") {
            Some(rest) if rest.ends_with([' ', '\t', '\n']) => (rest.to_owned(), true),
            Some(_) => return None,
            None => (text, false),
        };
        let (mut found, mut seen, mut fields) = (Self::default(), Vec::new(), 0);
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let end =
                rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | ':' | '.')).unwrap_or(rest.len());
            let (number, behind) = rest.split_at(end);
            let behind = behind.trim_start();
            let end = behind.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(behind.len());
            let (name, behind) = behind.split_at(end);
            let unit = if name.is_empty() { Unit::Microseconds(SECOND) } else { unit_of(name)? };
            let is_clock = number.contains(':');
            // Behind a unit's name there is nothing, or room.
            if !(behind.is_empty() || behind.starts_with(char::is_whitespace)) {
                return None;
            }
            // Only seconds are said without their name, in the end or by a clock's colons.
            let is_whole = if name.is_empty() { is_clock || behind.is_empty() } else { !is_clock };
            let said = said_by(number, unit);
            let is_last_bare = name.is_empty() && !is_clock && is_past;
            if !is_whole || is_last_bare || said.iter().any(|unit| seen.contains(unit)) {
                return None;
            }
            seen.extend(said);
            fields += 1;
            found =
                if is_clock { found.plus_microseconds(clock(number)?)? } else { found.plus(number, unit)? };
            rest = behind.trim_start();
        }
        // With `IntervalStyle` of the SQL standard the one sign in front is that of all fields.
        let is_of_style =
            fields > 1 && text.trim_start().starts_with('-') && text.matches(['+', '-']).count() == 1;
        if fields == 0 || is_of_style {
            return None;
        }
        if is_past { found.negated() } else { Some(found) }
    }

    /// So many of one unit.
    pub(crate) fn of(number: &str, unit: &str) -> Option<Self> {
        Self::default().plus(number, unit_of(&unit.to_ascii_lowercase())?)
    }

    pub(crate) fn negated(self) -> Option<Self> {
        Some(Self {
            months: self.months.checked_neg()?,
            days: self.days.checked_neg()?,
            microseconds: self.microseconds.checked_neg()?,
        })
    }

    /// Is it the same wherever it begins? Days and months are counted in a time zone.
    pub(crate) fn is_of_clock(self) -> bool {
        self.months == 0 && self.days == 0
    }

    /// Its months, its days and the rest, alone.
    pub(crate) fn parts(self) -> [Self; 3] {
        [
            Self { months: self.months, ..Self::default() },
            Self { days: self.days, ..Self::default() },
            Self { microseconds: self.microseconds, ..Self::default() },
        ]
    }

    /// Months, days and microseconds, each from its highest byte.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&self.months.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.days.to_be_bytes());
        bytes[8..].copy_from_slice(&self.microseconds.to_be_bytes());
        bytes
    }

    /// What [`Self::to_bytes`] wrote.
    pub(crate) fn from_bytes(bytes: [u8; 16]) -> Self {
        let [m0, m1, m2, m3, d0, d1, d2, d3, rest @ ..] = bytes;
        Self {
            months: i32::from_be_bytes([m0, m1, m2, m3]),
            days: i32::from_be_bytes([d0, d1, d2, d3]),
            microseconds: i64::from_be_bytes(rest),
        }
    }

    fn plus(self, number: &str, unit: Unit) -> Option<Self> {
        if unit == Unit::Microseconds(SECOND) && number.contains('.') {
            return self.plus_microseconds(seconds(number)?);
        }
        let number: i64 = number.parse().ok()?;
        let times = |of: i32| i64::from(of).checked_mul(number).and_then(|found| i32::try_from(found).ok());
        match unit {
            Unit::Months(of) => Some(Self { months: self.months.checked_add(times(of)?)?, ..self }),
            Unit::Days(of) => Some(Self { days: self.days.checked_add(times(of)?)?, ..self }),
            Unit::Microseconds(of) => self.plus_microseconds(of.checked_mul(number)?),
        }
    }

    fn plus_microseconds(self, more: i64) -> Option<Self> {
        Some(Self { microseconds: self.microseconds.checked_add(more)?, ..self })
    }
}

/// The units that a number says something of: a clock of all of a day's, parts of a second of what is less, too.
fn said_by(number: &str, unit: Unit) -> Vec<Unit> {
    let of_clock = [3600 * SECOND, 60 * SECOND, SECOND, 1_000, 1].map(Unit::Microseconds);
    match unit {
        _ if number.contains(':') => of_clock.to_vec(),
        unit if number.contains('.') && unit == Unit::Microseconds(SECOND) => of_clock[2..].to_vec(),
        unit => vec![unit],
    }
}

fn unit_of(name: &str) -> Option<Unit> {
    UNITS.iter().find(|(_, names)| names.contains(&name)).map(|(unit, _)| *unit)
}

/// Microseconds of `12.5`.
fn seconds(number: &str) -> Option<i64> {
    let (sign, digits) = sign_of(number);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 6 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let fraction: i64 = format!("{fraction:0<6}").parse().ok()?;
    whole.parse::<i64>().ok()?.checked_mul(SECOND)?.checked_add(fraction)?.checked_mul(sign)
}

/// Microseconds of `04:05` or `04:05:06.5`, behind a sign.
fn clock(text: &str) -> Option<i64> {
    let (sign, digits) = sign_of(text);
    let parts: Vec<&str> = digits.split(':').collect();
    let (hours, minutes, rest) = match parts[..] {
        [hours, minutes] => (hours, minutes, "0"),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return None,
    };
    let number = |digits: &str| {
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let (hours, minutes, rest) = (number(hours)?, number(minutes)?, seconds(rest)?);
    if minutes >= 60 || !(0..60 * SECOND).contains(&rest) {
        return None;
    }
    hours.checked_mul(3600 * SECOND)?.checked_add(minutes * 60 * SECOND + rest)?.checked_mul(sign)
}

fn sign_of(text: &str) -> (i64, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    }
}

fn out_of_range(what: &str) -> SqlError {
    SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, format!("{what} out of range"))
}

/// A moment, in microseconds since 2000, and an interval: months first, to the end of a shorter one, then days, then the rest.
///
/// # Errors
/// 22008 if there is no such moment.
pub(crate) fn moved(moment: i64, by: Interval) -> Result<i64, SqlError> {
    let (days, of_day) = (moment.div_euclid(DAY_MICROSECONDS), moment.rem_euclid(DAY_MICROSECONDS));
    let found = || {
        let within = |moment: i64| MOMENTS.contains(&moment).then_some(moment);
        let at = |days: i64| within(days.checked_mul(DAY_MICROSECONDS)?.checked_add(of_day)?);
        let days = months_after(days, i64::from(by.months))?;
        at(days)?;
        within(at(days.checked_add(i64::from(by.days))?)?.checked_add(by.microseconds)?)
    };
    found().ok_or_else(|| out_of_range("timestamp"))
}

/// A day so many days later; none are too many.
///
/// # Errors
/// 22008 if there is no such day.
pub(crate) fn days_after(day: i32, by: Option<i64>) -> Result<Datum, SqlError> {
    let found = by.and_then(|by| i64::from(day).checked_add(by)).filter(|found| DATES.contains(found));
    let found = found.and_then(|found| i32::try_from(found).ok());
    found.map(Datum::Date).ok_or_else(|| out_of_range("date"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Option<(i32, i32, i64)> {
        Interval::read(text).map(|found| (found.months, found.days, found.microseconds))
    }

    #[test]
    fn intervals_are_read_as_postgresql_reads_them() {
        let hour = 3600 * SECOND;
        for (text, expected) in [
            ("1 day", (0, 1, 0)),
            ("1day", (0, 1, 0)),
            (" -3 Days ", (0, -3, 0)),
            ("1 year 2 mons -3 days +04:05:06.5", (14, -3, 4 * hour + 5 * 60 * SECOND + 6_500_000)),
            ("2 weeks ago", (0, -14, 0)),
            ("1 week 1 day", (0, 8, 0)),
            ("-1 day -12:00", (0, -1, -12 * hour)),
            ("02:00 ago", (0, 0, -2 * hour)),
            ("-00:30", (0, 0, -30 * 60 * SECOND)),
            ("1.5 seconds", (0, 0, 1_500_000)),
            ("90", (0, 0, 90 * SECOND)),
            ("1 day 12", (0, 1, 12 * SECOND)),
            ("3 h 2 m", (0, 0, 3 * hour + 120 * SECOND)),
        ] {
            assert_eq!(shown(text), Some(expected), "{text}");
        }
        for text in [
            "",
            "day",
            "1 day 2 days",
            "1.5 days",
            "1 fortnight",
            "P1D",
            "1 2",
            "1:60",
            "1 day -",
            "ago",
            "1 hour 01:00:00",
            "1 dayago",
            "5 ago",
            "1 day 5 ago",
            "1day2hours",
            "1 day-3 hours",
            "1 millisecond 1:2",
            "1.5 sec 5 ms",
            "-1 day 12:00",
            "-1 year 2 months",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }

    #[test]
    fn months_end_where_a_shorter_one_does() {
        let moment =
            |text| match Datum::from_text(crate::column_type::ColumnType::Timestamp(None), text).unwrap() {
                Datum::Timestamp(moment) => moment,
                other => panic!("{other:?}"),
            };
        for (from, by, to) in [
            ("2024-01-31 10:00", "1 month", "2024-02-29 10:00"),
            ("2023-01-31 10:00", "1 month 1 day", "2023-03-01 10:00"),
            ("2024-02-29 00:00", "-1 year", "2023-02-28 00:00"),
            ("2000-01-01 00:00", "-00:00:01", "1999-12-31 23:59:59"),
            ("1999-12-31 00:00", "2 months ago", "1999-10-31 00:00"),
        ] {
            assert_eq!(moved(moment(from), Interval::read(by).unwrap()).unwrap(), moment(to), "{from} {by}");
        }
        assert_eq!(moved(0, Interval::of("300000", "year").unwrap()).unwrap_err().sqlstate, "22008");
        let beyond = Interval::read("292300 years -100000 days").unwrap();
        assert_eq!(moved(0, beyond).unwrap_err().sqlstate, "22008");
        assert_eq!(days_after(i32::MAX - 10, Some(11)).unwrap_err().sqlstate, "22008");
    }
}
