//! The proleptic Gregorian calendar, in UTC, at a fixed offset or in a time zone of the IANA database.
//!
//! Years, weeks and transitions are `chrono`'s. Its years end at 262,142 where BSON's go on for 292 million: the calendar
//! repeats every 400 years to the day of the week, so a local time is held as one of the years 1970 to 2369 and the cycles
//! it is away from them.

use bson::DateTime;
use chrono::{Datelike, MappedLocalTime, NaiveDate, NaiveDateTime, Offset, TimeZone, Timelike};
use chrono_tz::Tz;

const DAY_MS: i64 = 86_400_000;
const MINUTE_MS: i64 = 60_000;
const SECOND_MS: i64 = 1000;
const CYCLE_YEARS: i64 = 400;
const CYCLE_MONTHS: i64 = 12 * CYCLE_YEARS;
const CYCLE_DAYS: i64 = 146_097;
const CYCLE_MS: i64 = CYCLE_DAYS * DAY_MS;
/// The year that cycles are counted from.
const EPOCH_YEAR: i64 = 1970;
/// Years beyond are no instants that BSON can hold.
const YEARS_MAX: i64 = 300_000_000;

/// Where a clock hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Zone {
    /// So many minutes ahead of UTC.
    Offset(i64),
    /// By the transitions of a place.
    Named(Tz),
}

impl Zone {
    /// Coordinated universal time.
    pub(super) const UTC: Self = Self::Offset(0);

    /// Reads an offset such as `Z`, `UTC`, `+02:00`, `-0530`, `+05`, or a name of the IANA database.
    pub(super) fn parse(text: &str) -> Option<Self> {
        parse_offset(text).map(Self::Offset).or_else(|| text.parse().ok().map(Self::Named))
    }

    /// True if its clock is UTC's at any time.
    pub(super) fn is_utc(self) -> bool {
        self == Self::UTC
    }

    /// How far its clock is ahead of UTC at an instant, in milliseconds.
    fn ahead(self, utc_ms: i64) -> i64 {
        match self {
            Self::Offset(minutes) => minutes * MINUTE_MS,
            Self::Named(tz) => {
                let offset = tz.offset_from_utc_datetime(&near(utc_ms));
                i64::from(offset.fix().local_minus_utc()) * SECOND_MS
            }
        }
    }

    /// What its clock is ahead of UTC at an instant beyond whole hours, in milliseconds: the phase of its hours.
    pub(super) fn phase(self, date: DateTime) -> i64 {
        self.ahead(date.timestamp_millis()).rem_euclid(60 * MINUTE_MS)
    }

    /// The local time at an instant, in milliseconds since the local 1970-01-01.
    pub(super) fn local(self, date: DateTime) -> i64 {
        let utc_ms = date.timestamp_millis();
        utc_ms.saturating_add(self.ahead(utc_ms))
    }

    /// The instant of a local time, as MongoDB has it: the first of two, and where the clock is put forward past it, what it
    /// would have been by the clock before.
    pub(super) fn instant(self, local_ms: i64) -> Option<DateTime> {
        let ahead = match self {
            Self::Offset(minutes) => minutes * MINUTE_MS,
            Self::Named(tz) => match tz.offset_from_local_datetime(&near(local_ms)) {
                MappedLocalTime::Single(offset) | MappedLocalTime::Ambiguous(offset, _) => {
                    i64::from(offset.fix().local_minus_utc()) * SECOND_MS
                }
                // No clock is a day away from UTC.
                MappedLocalTime::None => self.ahead(local_ms.saturating_sub(DAY_MS)),
            },
        };
        local_ms.checked_sub(ahead).map(DateTime::from_millis)
    }
}

/// A time, or the nearest that `chrono` knows: no clock is put forward or back beyond.
fn near(ms: i64) -> NaiveDateTime {
    // A day each is left for the offset.
    let (first, last) = (chrono::DateTime::<chrono::Utc>::MIN_UTC, chrono::DateTime::<chrono::Utc>::MAX_UTC);
    let ms = ms.clamp(first.timestamp_millis() + 2 * DAY_MS, last.timestamp_millis() - 2 * DAY_MS);
    chrono::DateTime::from_timestamp_millis(ms).unwrap_or_default().naive_utc()
}

/// A date taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    /// The local time in the cycle from 1970.
    local: NaiveDateTime,
    /// Cycles it is away from there.
    cycles: i64,
    /// How far the clock is ahead of UTC, in minutes.
    pub(super) offset_minutes: i64,
}

impl Moment {
    /// The local time of an instant.
    pub(super) fn at(date: DateTime, zone: Zone) -> Self {
        let local_ms = zone.local(date);
        let in_cycle = chrono::DateTime::from_timestamp_millis(local_ms.rem_euclid(CYCLE_MS));
        Self {
            local: in_cycle.unwrap_or_default().naive_utc(),
            cycles: local_ms.div_euclid(CYCLE_MS),
            offset_minutes: zone.ahead(date.timestamp_millis()).div_euclid(MINUTE_MS),
        }
    }

    pub(super) fn year(self) -> i64 {
        i64::from(self.local.year()) + self.cycles * CYCLE_YEARS
    }

    /// 1 for January.
    pub(super) fn month(self) -> i64 {
        i64::from(self.local.month())
    }

    /// Its name in English.
    pub(super) fn month_name(self) -> String {
        self.local.format("%B").to_string()
    }

    pub(super) fn day(self) -> i64 {
        i64::from(self.local.day())
    }

    pub(super) fn hour(self) -> i64 {
        i64::from(self.local.hour())
    }

    pub(super) fn minute(self) -> i64 {
        i64::from(self.local.minute())
    }

    pub(super) fn second(self) -> i64 {
        i64::from(self.local.second())
    }

    pub(super) fn millisecond(self) -> i64 {
        i64::from(self.local.and_utc().timestamp_subsec_millis())
    }

    /// 1 for the first of January.
    pub(super) fn day_of_year(self) -> i64 {
        i64::from(self.local.ordinal())
    }

    /// 1 for Sunday.
    pub(super) fn day_of_week(self) -> i64 {
        i64::from(self.local.weekday().number_from_sunday())
    }

    /// 1 for Monday.
    pub(super) fn iso_day_of_week(self) -> i64 {
        i64::from(self.local.weekday().number_from_monday())
    }

    /// Weeks begin on Sunday; days before the first Sunday are in week 0.
    pub(super) fn week(self) -> i64 {
        (self.day_of_year() + 7 - self.day_of_week()) / 7
    }

    /// ISO 8601 year and week: weeks begin on Monday, and belong to the year of their Thursday.
    pub(super) fn iso_week(self) -> (i64, i64) {
        let week = self.local.iso_week();
        (i64::from(week.year()) + self.cycles * CYCLE_YEARS, i64::from(week.week()))
    }

    pub(super) fn iso_text(self) -> String {
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            self.year(),
            self.month(),
            self.day(),
            self.hour(),
            self.minute(),
            self.second(),
            self.millisecond()
        )
    }

    /// The local time so many months later; the last day of a shorter month stands for days it does not have.
    pub(super) fn plus_months(self, months: i64) -> Option<i64> {
        let total = self.year().checked_mul(12)?.checked_add(self.month() - 1)?.checked_add(months)?;
        let (year, month) = (total.div_euclid(12), total.rem_euclid(12) + 1);
        let (first, days) = first_of(year, month)?;
        let day = self.day().min(i64::from(first.num_days_in_month()));
        let clock = i64::from(self.local.num_seconds_from_midnight()) * SECOND_MS + self.millisecond();
        (days + day - 1).checked_mul(DAY_MS)?.checked_add(clock)
    }
}

/// The first day of a month in the cycle from 1970, and days from the local 1970-01-01 to where it really is.
fn first_of(year: i64, month: i64) -> Option<(NaiveDate, i64)> {
    let months = year.checked_sub(EPOCH_YEAR)?.checked_mul(12)?.checked_add(month.checked_sub(1)?)?;
    if months.abs() > 12 * YEARS_MAX {
        return None;
    }
    let (cycles, in_cycle) = (months.div_euclid(CYCLE_MONTHS), months.rem_euclid(CYCLE_MONTHS));
    let year = i32::try_from(EPOCH_YEAR + in_cycle / 12).ok()?;
    let first = NaiveDate::from_ymd_opt(year, u32::try_from(in_cycle % 12 + 1).ok()?, 1)?;
    Some((first, cycles * CYCLE_DAYS + i64::from(first.to_epoch_days())))
}

/// The local time of year, month, day, hour, minute, second and millisecond, in milliseconds since the local 1970-01-01.
/// Parts may lie outside their ranges and carry over. None if it is out of the range of dates.
pub(super) fn local_of(parts: [i64; 7]) -> Option<i64> {
    let [year, month, day, hour, minute, second, millisecond] = parts;
    let (_, days) = first_of(year, month)?;
    let minutes = days
        .checked_add(day)?
        .checked_sub(1)?
        .checked_mul(1440)?
        .checked_add(hour.checked_mul(60)?)?
        .checked_add(minute)?;
    minutes.checked_mul(MINUTE_MS)?.checked_add(second.checked_mul(SECOND_MS)?)?.checked_add(millisecond)
}

/// Minutes of an offset such as `Z`, `UTC`, `+02:00`, `-0530`, `+05`.
fn parse_offset(text: &str) -> Option<i64> {
    if matches!(text, "Z" | "UTC" | "GMT" | "Etc/UTC") {
        return Some(0);
    }
    let sign = match text.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let digits: String = text.get(1..)?.chars().filter(|character| *character != ':').collect();
    let number: i64 = digits.parse().ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
    match digits.len() {
        2 => Some(sign * number * 60),
        4 => Some(sign * (number / 100 * 60 + number % 100)),
        _ => None,
    }
}

/// A time as a text says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// In milliseconds since the local 1970-01-01.
    local_ms: i64,
    /// Where it says how far the clock is ahead of UTC.
    pub(super) zone: Option<Zone>,
}

impl Written {
    /// The instant, by a clock in `zone` where the text names none.
    pub(super) fn instant(self, zone: Zone) -> Option<DateTime> {
        self.zone.unwrap_or(zone).instant(self.local_ms)
    }
}

/// Reads ISO 8601: a date, perhaps a time (`T` or a space), perhaps an offset.
pub(super) fn parse(text: &str) -> Option<Written> {
    let (date, rest) = match text.find(['T', 't', ' ']) {
        Some(position) => (text.get(..position)?, text.get(position + 1..)?),
        None => (text, ""),
    };
    let mut parts = date.splitn(3, '-');
    let mut number = |digits: usize| -> Option<u32> {
        let part = parts.next()?;
        (part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit())).then(|| part.parse().ok())?
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    let date = NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?;
    let (time, zone) = match rest.find(['Z', '+', '-']) {
        Some(position) => (rest.get(..position)?, Some(Zone::Offset(parse_offset(rest.get(position..)?)?))),
        None => (rest, None),
    };
    let local_ms = i64::from(date.to_epoch_days()) * DAY_MS + parse_time(time.trim_end())?;
    Some(Written { local_ms, zone })
}

/// Milliseconds of the day.
fn parse_time(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut fields = [0_i64; 3];
    let mut parts = clock.split(':');
    for (field, limit) in fields.iter_mut().zip([24, 60, 60]) {
        let Some(part) = parts.next() else { break };
        *field = part.parse().ok().filter(|value| (0..limit).contains(value) && part.len() == 2)?;
    }
    if parts.next().is_some() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    let [hour, minute, second] = fields;
    let millisecond: i64 = digits.parse().ok()?;
    Some(((hour * 60 + minute) * 60 + second) * SECOND_MS + millisecond)
}
