//! The proleptic Gregorian calendar in UTC or at a fixed offset.

use bson::DateTime;

const DAY_MS: i64 = 86_400_000;
const MINUTE_MS: i64 = 60_000;

/// A date taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) millisecond: i64,
    /// Of the offset from UTC, in minutes.
    pub(super) offset_minutes: i64,
    /// Days since 1970-01-01, local.
    days: i64,
}

impl Moment {
    /// The local time at an offset from UTC.
    pub(super) fn at(date: DateTime, offset_minutes: i64) -> Self {
        let local = date.timestamp_millis().saturating_add(offset_minutes * MINUTE_MS);
        let days = local.div_euclid(DAY_MS);
        let rest = local.rem_euclid(DAY_MS);
        let (year, month, day) = civil_from_days(days);
        Moment {
            year,
            month,
            day,
            hour: rest / 3_600_000,
            minute: rest / MINUTE_MS % 60,
            second: rest / 1000 % 60,
            millisecond: rest % 1000,
            offset_minutes,
            days,
        }
    }

    /// 1 for the first of January.
    pub(super) fn day_of_year(self) -> i64 {
        self.days - days_from_civil(self.year, 1, 1) + 1
    }

    /// 1 for Sunday.
    pub(super) fn day_of_week(self) -> i64 {
        (self.days + 4).rem_euclid(7) + 1
    }

    /// 1 for Monday.
    pub(super) fn iso_day_of_week(self) -> i64 {
        (self.days + 3).rem_euclid(7) + 1
    }

    /// Weeks begin on Sunday; days before the first Sunday are in week 0.
    pub(super) fn week(self) -> i64 {
        (self.day_of_year() + 7 - self.day_of_week()) / 7
    }

    /// ISO 8601 year and week: weeks begin on Monday, and belong to the year of their Thursday.
    pub(super) fn iso_week(self) -> (i64, i64) {
        let thursday = self.days + 4 - self.iso_day_of_week();
        let (year, _, _) = civil_from_days(thursday);
        (year, (thursday - days_from_civil(year, 1, 1)) / 7 + 1)
    }

    pub(super) fn iso_text(self) -> String {
        format!(
            "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z",
            self.year, self.month, self.day, self.hour, self.minute, self.second, self.millisecond
        )
    }
}

/// The instant of local parts at an offset; parts may lie outside their ranges and carry over. None if it is out
/// of the range of dates.
pub(super) fn instant(parts: [i64; 7], offset_minutes: i64) -> Option<DateTime> {
    let [year, month, day, hour, minute, second, millisecond] = parts;
    let months = year.checked_mul(12)?.checked_add(month.checked_sub(1)?)?;
    if months.abs() > 12 * 300_000_000 {
        return None;
    }
    let days = days_from_civil(months.div_euclid(12), months.rem_euclid(12) + 1, 1)
        .checked_add(day)?
        .checked_sub(1)?;
    let minutes = days
        .checked_mul(1440)?
        .checked_add(hour.checked_mul(60)?)?
        .checked_add(minute)?
        .checked_sub(offset_minutes)?;
    let millis =
        minutes.checked_mul(MINUTE_MS)?.checked_add(second.checked_mul(1000)?)?.checked_add(millisecond)?;
    Some(DateTime::from_millis(millis))
}

/// Days since 1970-01-01 of a date whose month is 1 to 12.
pub(super) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March here, so that the leap day is the last.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Days of a month.
pub(super) fn days_in_month(year: i64, month: i64) -> i64 {
    let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    days_from_civil(next.0, next.1, 1) - days_from_civil(year, month, 1)
}

/// Minutes of an offset such as `Z`, `UTC`, `+02:00`, `-0530`, `+05`.
pub(super) fn parse_offset(text: &str) -> Option<i64> {
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

/// Reads ISO 8601: a date, perhaps a time (`T` or a space), perhaps an offset.
pub(super) fn parse(text: &str) -> Option<DateTime> {
    let (date, rest) = match text.find(['T', 't', ' ']) {
        Some(position) => (text.get(..position)?, text.get(position + 1..)?),
        None => (text, ""),
    };
    let mut parts = date.splitn(3, '-');
    let mut number = |digits: usize| -> Option<i64> {
        let part = parts.next()?;
        (part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit())).then(|| part.parse().ok())?
    };
    let (year, month, day) = (number(4)?, number(2)?, number(2)?);
    if !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
        return None;
    }
    let (time, offset) = match rest.find(['Z', '+', '-']) {
        Some(position) => (rest.get(..position)?, parse_offset(rest.get(position..)?)?),
        None => (rest, 0),
    };
    let [hour, minute, second, millisecond] = parse_time(time.trim_end())?;
    instant([year, month, day, hour, minute, second, millisecond], offset)
}

fn parse_time(text: &str) -> Option<[i64; 4]> {
    if text.is_empty() {
        return Some([0; 4]);
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
    Some([hour, minute, second, digits.parse().ok()?])
}
