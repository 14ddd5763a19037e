//! Dates and moments: the proleptic Gregorian calendar, ISO 8601 as PostgreSQL writes it.

use chrono::{Datelike as _, Days, NaiveDate};

/// Days from the first of January 2000 back to that of 1970.
const EPOCH_DAYS: i64 = 10_957;
pub(crate) const DAY_MICROSECONDS: i64 = 86_400_000_000;
/// PostgreSQL's first and last day, in days from 2000: 4714-11-24 BC, 5874897-12-31.
pub(super) const DATES: std::ops::RangeInclusive<i64> = -2_451_545..=2_145_031_948;
/// PostgreSQL's moments: from that first day to before the year 294277.
pub(super) const MOMENTS: std::ops::Range<i64> = -211_813_488_000_000_000..9_223_371_331_200_000_000;

/// Why a text is no date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotADate {
    /// It is not written as one.
    Format,
    /// No calendar has it.
    Field,
    /// The type does not hold it.
    Range,
    /// A moment without its offset.
    Offset,
}

/// Years after which the calendar begins anew, and their days. PostgreSQL's dates go further than [`NaiveDate`]'s.
const CYCLE: (i64, i64) = (400, 146_097);

/// The day from which PostgreSQL counts.
fn first() -> NaiveDate {
    NaiveDate::from_ymd_opt(2000, 1, 1).unwrap_or_default()
}

/// Days from 2000 of a day, if there is one; the year 0 is 1 BC.
pub(super) fn days_of(year: i64, month: i64, day: i64) -> Option<i64> {
    let (cycle, of_cycle) = ((year - 2000).div_euclid(CYCLE.0), (year - 2000).rem_euclid(CYCLE.0));
    let date = NaiveDate::from_ymd_opt(
        2000 + i32::try_from(of_cycle).ok()?,
        u32::try_from(month).ok()?,
        u32::try_from(day).ok()?,
    )?;
    Some(cycle * CYCLE.1 + (date - first()).num_days())
}

/// Year, month and day of days from 2000.
pub(super) fn day_of(days: i64) -> (i64, u32, u32) {
    let (cycle, of_cycle) = (days.div_euclid(CYCLE.1), days.rem_euclid(CYCLE.1));
    let date = first() + Days::new(of_cycle.unsigned_abs());
    (cycle * CYCLE.0 + i64::from(date.year()), date.month(), date.day())
}

/// Days from 2000 of the day so many months after another, or of the last before it that there is.
pub(super) fn months_after(days: i64, months: i64) -> Option<i64> {
    if months == 0 {
        return Some(days);
    }
    let (year, month, day) = day_of(days);
    let months = year.checked_mul(12)?.checked_add(i64::from(month) - 1)?.checked_add(months)?;
    let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
    (28..=day.max(28)).rev().find_map(|last| days_of(year, month, i64::from(last.min(day))))
}

fn number(text: &str, digits: std::ops::RangeInclusive<usize>) -> Result<i64, NotADate> {
    let fits = digits.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if fits { text.parse().map_err(|_| NotADate::Range) } else { Err(NotADate::Format) }
}

/// Days of `YYYY-MM-DD`, or of `YYYYMMDD`.
fn day(text: &str, before_christ: bool) -> Result<i64, NotADate> {
    let whole = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    let spelled = match (text.get(..4), text.get(4..6), text.get(6..)) {
        (Some(year), Some(month), Some(day)) if whole => format!("{year}-{month}-{day}"),
        _ => text.to_owned(),
    };
    let mut parts = spelled.split('-');
    let (Some(year), Some(month), Some(day), None) = (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(NotADate::Format);
    };
    let (year, month, day) = (number(year, 4..=7)?, number(month, 1..=2)?, number(day, 1..=2)?);
    if year == 0 {
        return Err(NotADate::Field);
    }
    let year = if before_christ { 1 - year } else { year };
    days_of(year, month, day).ok_or(NotADate::Field)
}

/// Without the end that says so, and whether it does.
fn era(text: &str) -> (&str, bool) {
    let text = text.trim();
    match text.strip_suffix("BC").or_else(|| text.strip_suffix("bc")) {
        Some(rest) => (rest.trim_end(), true),
        None => (text, false),
    }
}

/// A date, in days from 2000. A time behind it is left out, as PostgreSQL does.
pub(super) fn date(text: &str) -> Result<i32, NotADate> {
    let (text, before_christ) = era(text);
    match text.to_ascii_lowercase().as_str() {
        "infinity" => return Ok(i32::MAX),
        "-infinity" => return Ok(i32::MIN),
        "epoch" => return i32::try_from(-EPOCH_DAYS).map_err(|_| NotADate::Range),
        _ => {}
    }
    let days = day(parts(text)?.date, before_christ)?;
    let fits = DATES.contains(&days);
    i32::try_from(days).ok().filter(|_| fits).ok_or(NotADate::Range)
}

pub(super) fn date_text(days: i32) -> String {
    match days {
        i32::MAX => "infinity".into(),
        i32::MIN => "-infinity".into(),
        days => {
            let (year, month, day) = day_of(i64::from(days));
            let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
            format!("{year:04}-{month:02}-{day:02}{era}")
        }
    }
}

/// A time without colons with them: `HHMM`, `HHMMSS[.ffffff]`.
fn with_colons(text: &str) -> Option<String> {
    let digits = text.split('.').next().unwrap_or_default();
    let (hours, rest) = text.split_at_checked(2).filter(|_| [4, 6].contains(&digits.len()))?;
    let (minutes, rest) = rest.split_at_checked(2).filter(|_| !text.contains(':'))?;
    let colon = if rest.is_empty() { "" } else { ":" };
    Some(format!("{hours}:{minutes}{colon}{rest}"))
}

/// Microseconds of `HH:MM[:SS[.ffffff]]`, rounded.
fn clock(text: &str) -> Result<i64, NotADate> {
    let spelled = with_colons(text).unwrap_or_else(|| text.to_owned());
    let mut parts = spelled.split(':');
    let (Some(hours), Some(minutes)) = (parts.next(), parts.next()) else { return Err(NotADate::Format) };
    let seconds = parts.next().unwrap_or("0");
    let (seconds, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
    if parts.next().is_some() {
        return Err(NotADate::Format);
    }
    let (hours, minutes, seconds) = (number(hours, 1..=2)?, number(minutes, 2..=2)?, number(seconds, 1..=2)?);
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) || fraction.len() > 18 {
        return Err(NotADate::Format);
    }
    let seven = format!("{fraction:0<7}");
    let seven: i64 = seven.get(..7).and_then(|digits| digits.parse().ok()).ok_or(NotADate::Format)?;
    let microseconds = (seven + 5) / 10;
    let total = ((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + microseconds;
    let exists = hours <= 24 && minutes < 60 && seconds <= 60 && total <= DAY_MICROSECONDS;
    if exists { Ok(total) } else { Err(NotADate::Field) }
}

/// The parts of an offset: hours, minutes, seconds.
fn parts_of_offset(text: &str) -> Result<Vec<&str>, NotADate> {
    if text.contains(':') {
        return Ok(text.split(':').collect());
    }
    match text.len() {
        0 => Err(NotADate::Format),
        1 | 2 => Ok(vec![text]),
        3 | 4 => {
            let (hours, minutes) = text.split_at_checked(text.len() - 2).ok_or(NotADate::Format)?;
            Ok(vec![hours, minutes])
        }
        _ => Err(NotADate::Field),
    }
}

/// Microseconds of an offset from UTC: `Z`, `GMT`, `+H`, `+HH`, `+HH:MM`, `+HHMM`.
fn offset(text: &str) -> Result<i64, NotADate> {
    if ["z", "utc", "gmt", "ut", "zulu"].iter().any(|name| text.eq_ignore_ascii_case(name)) {
        return Ok(0);
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').ok_or(NotADate::Format)?),
    };
    let parts = parts_of_offset(rest)?;
    let numbers: Vec<i64> = parts.into_iter().map(|part| number(part, 1..=2)).collect::<Result<_, _>>()?;
    let (hours, minutes, seconds) = match numbers[..] {
        [hours] => (hours, 0, 0),
        [hours, minutes] => (hours, minutes, 0),
        [hours, minutes, seconds] => (hours, minutes, seconds),
        _ => return Err(NotADate::Format),
    };
    if hours > 15 || minutes > 59 || seconds > 59 {
        return Err(NotADate::Field);
    }
    Ok(sign * ((hours * 60 + minutes) * 60 + seconds) * 1_000_000)
}

/// What a day, perhaps with a time, perhaps in a zone, is written of.
struct Parts<'t> {
    date: &'t str,
    /// Microseconds from midnight.
    of_day: i64,
    /// Those of the offset from UTC, if there is one.
    behind: Option<i64>,
}

fn parts(text: &str) -> Result<Parts<'_>, NotADate> {
    // A zone may follow the day itself.
    let alone = text
        .strip_suffix(['Z', 'z'])
        .filter(|date| date.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-'));
    let (date, time) = match alone {
        Some(date) => (date, "Z"),
        None => text.split_once(['T', 't', ' ']).map_or((text, ""), |(date, time)| (date, time.trim_start())),
    };
    let end = time.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.').unwrap_or(time.len());
    let (time, zone) = time.split_at(end);
    let (time, zone) = (time.trim(), zone.trim());
    let behind = if zone.is_empty() { None } else { Some(offset(zone)?) };
    let of_day = if time.is_empty() { 0 } else { clock(time)? };
    Ok(Parts { date, of_day, behind })
}

/// A moment, in microseconds from 2000. One in a zone must say its offset from UTC; one in none forgets it.
pub(super) fn moment(text: &str, in_zone: bool) -> Result<i64, NotADate> {
    let (text, before_christ) = era(text);
    match text.to_ascii_lowercase().as_str() {
        "infinity" => return Ok(i64::MAX),
        "-infinity" => return Ok(i64::MIN),
        "epoch" => return Ok(-EPOCH_DAYS * DAY_MICROSECONDS),
        _ => {}
    }
    let Parts { date, of_day, behind } = parts(text)?;
    let behind = match behind {
        None if in_zone => return Err(NotADate::Offset),
        Some(behind) if in_zone => behind,
        Some(_) | None => 0,
    };
    let moment = day(date, before_christ)?
        .checked_mul(DAY_MICROSECONDS)
        .and_then(|moment| moment.checked_add(of_day)?.checked_sub(behind))
        .ok_or(NotADate::Range)?;
    if MOMENTS.contains(&moment) { Ok(moment) } else { Err(NotADate::Range) }
}

/// `+02`, `+05:30`, `-00:00:36`.
fn offset_text(ahead: i64) -> String {
    let sign = if ahead < 0 { '-' } else { '+' };
    let (hours, minutes, seconds) = (ahead.abs() / 3_600, ahead.abs() / 60 % 60, ahead.abs() % 60);
    match (minutes, seconds) {
        (0, 0) => format!("{sign}{hours:02}"),
        (minutes, 0) => format!("{sign}{hours:02}:{minutes:02}"),
        (minutes, seconds) => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

/// A moment as text; one with a zone by the clock of one that is so many seconds ahead of UTC.
pub(super) fn moment_text(moment: i64, ahead: Option<i64>) -> String {
    match moment {
        i64::MAX => return "infinity".into(),
        i64::MIN => return "-infinity".into(),
        _ => {}
    }
    let clock = moment.saturating_add(ahead.unwrap_or_default().saturating_mul(1_000_000));
    let (days, of_day) = (clock.div_euclid(DAY_MICROSECONDS), clock.rem_euclid(DAY_MICROSECONDS));
    let (year, month, day) = day_of(days);
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    let (seconds, fraction) = (of_day / 1_000_000, of_day % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
    let fraction = if fraction == 0 {
        String::new()
    } else {
        format!(".{fraction:06}").trim_end_matches('0').to_owned()
    };
    let zone = ahead.map(offset_text).unwrap_or_default();
    format!("{year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds:02}{fraction}{zone}{era}")
}
