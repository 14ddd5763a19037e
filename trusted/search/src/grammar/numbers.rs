//! Ranges of dates and sizes as a query writes them.

use super::Mistake;
use crate::formula::{Number, Range};
use chrono::{DateTime, Days, Months, NaiveDate, NaiveDateTime, NaiveTime};

/// A second as a query writes it.
const SECOND: &str = "%Y-%m-%dT%H:%M:%S";

/// The first and the last number that a value stands for: a month is many seconds.
type Span = (i64, i64);

/// Reads `2001-01..2001-06`, `>=2001`, `10k..`, `<2M`, `500`.
pub(super) fn range(number: Number, text: &str) -> Result<Range, Mistake> {
    let wrong = || match number {
        Number::Date => Mistake::NoDate(shortened(text)),
        Number::Size => Mistake::NoSize(shortened(text)),
    };
    let span = |text: &str| {
        match number {
            Number::Date => date(text),
            Number::Size => size(text).map(|size| (size, size)),
        }
        .ok_or_else(wrong)
    };
    let (at_least, at_most) = if let Some((from, to)) = text.split_once("..") {
        let end = |text: &str| (!text.is_empty()).then(|| span(text)).transpose();
        let (from, to) = (end(from)?, end(to)?);
        if from.is_none() && to.is_none() {
            return Err(wrong());
        }
        (from.map(|span| span.0), to.map(|span| span.1))
    } else if let Some(value) = text.strip_prefix(">=") {
        (Some(span(value)?.0), None)
    } else if let Some(value) = text.strip_prefix("<=") {
        (None, Some(span(value)?.1))
    } else if let Some(value) = text.strip_prefix('>') {
        (Some(span(value)?.1.checked_add(1).ok_or_else(wrong)?), None)
    } else if let Some(value) = text.strip_prefix('<') {
        (None, Some(span(value)?.0 - 1))
    } else {
        let (first, last) = span(text.strip_prefix('=').unwrap_or(text))?;
        (Some(first), Some(last))
    };
    if at_least.zip(at_most).is_some_and(|(from, to)| from > to) {
        return Err(Mistake::Backwards);
    }
    Ok(Range { number, at_least, at_most })
}

/// What an error repeats of a value.
fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Bytes: a number, perhaps of 1024 (k), 1024 squared (M) or cubed (G).
fn size(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|it: char| it.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1 << 10,
        "m" | "mb" => 1 << 20,
        "g" | "gb" => 1 << 30,
        _ => return None,
    };
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    all_digits.then(|| digits.parse::<i64>().ok()?.checked_mul(unit)).flatten()
}

/// A year, month, day or second: its first and last second, in UTC.
fn date(text: &str) -> Option<Span> {
    if let Ok(second) = NaiveDateTime::parse_from_str(text, SECOND) {
        let seconds = second.and_utc().timestamp();
        return in_years(second.date()).then_some((seconds, seconds));
    }
    let parts: Vec<&str> = text.split('-').collect();
    let widths: &[usize] = &[4, 2, 2];
    let digits = |(part, width): (&&str, &usize)| {
        part.len() == *width && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    if parts.len() > widths.len() || !parts.iter().zip(widths).all(digits) {
        return None;
    }
    let numbers: Vec<u32> = parts.iter().filter_map(|part| part.parse().ok()).collect();
    let first_of = |month: u32, day: u32| {
        let year = i32::try_from(*numbers.first()?).ok()?;
        NaiveDate::from_ymd_opt(year, month, day).filter(|day| in_years(*day))
    };
    let (first, behind) = match *numbers.as_slice() {
        [_] => (first_of(1, 1)?, first_of(1, 1)?.checked_add_months(Months::new(12))?),
        [_, month] => (first_of(month, 1)?, first_of(month, 1)?.checked_add_months(Months::new(1))?),
        [_, month, day] => (first_of(month, day)?, first_of(month, day)?.checked_add_days(Days::new(1))?),
        _ => return None,
    };
    let start = |day: NaiveDate| day.and_time(NaiveTime::MIN).and_utc().timestamp();
    Some((start(first), start(behind) - 1))
}

/// Years that are written with four digits.
fn in_years(day: NaiveDate) -> bool {
    use chrono::Datelike as _;
    (1..=9999).contains(&day.year())
}

/// A time as a query writes it; the nearest one that it can write.
pub(crate) fn print_time(seconds: i64) -> String {
    // 0001-01-01T00:00:00 and 9999-12-31T23:59:59.
    let seconds = seconds.clamp(-62_135_596_800, 253_402_300_799);
    DateTime::from_timestamp(seconds, 0).map(|time| time.format(SECOND).to_string()).unwrap_or_default()
}
