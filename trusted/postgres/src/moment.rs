//! Values that hang on when a transaction or a statement began: `now()`, `current_date`, and what is computed of them. The proxy's
//! clock says when.

mod kept;
mod of_time;

use crate::codec::{Datum, Interval, Unit, Zone, days_after, moved, rounded_moment, truncated};
use crate::column_type::ColumnType;
use crate::error::{SqlError, sqlstate};
pub use of_time::OfTime;
use std::time::{Duration, SystemTime};

/// From the first of January 1970 to that of 2000.
const EPOCH: Duration = Duration::from_secs(946_684_800);

/// A moment in microseconds since 2000.
#[must_use]
pub fn microseconds(moment: SystemTime) -> i64 {
    let since = |start: SystemTime| moment.duration_since(start).map_err(|error| error.duration());
    match since(SystemTime::UNIX_EPOCH + EPOCH) {
        Ok(later) => i64::try_from(later.as_micros()).unwrap_or(i64::MAX - 1),
        Err(earlier) => i64::try_from(earlier.as_micros()).map_or(i64::MIN + 1, |earlier| -earlier),
    }
}

/// What a statement makes of the moment at which its transaction, or itself, began.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    start: Start,
    steps: Vec<Step>,
}

/// What it is that began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Start {
    /// `now()`.
    #[default]
    Transaction,
    /// `statement_timestamp()`.
    Statement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Cast(ColumnType),
    /// What a clock says at it, to be compared with what clocks said: that is in the order of moments in UTC alone.
    Compared,
    Plus(Interval),
    PlusDays(i32),
    /// `AT TIME ZONE 'UTC'`.
    InUtc,
    /// `date_trunc`.
    Truncated(Unit),
    /// To so many digits of a second.
    Rounded(u8),
}

/// When a transaction and its statement began, in microseconds since 2000.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Began {
    /// The transaction.
    pub transaction: i64,
    /// The statement.
    pub statement: i64,
}

impl Moment {
    /// `now()`.
    pub(crate) fn now() -> Self {
        Self::default()
    }

    /// `statement_timestamp()`.
    pub(crate) fn of_statement() -> Self {
        Self { start: Start::Statement, ..Self::default() }
    }

    /// The type that it is of, without digits.
    pub(crate) fn kind(&self) -> ColumnType {
        self.steps.iter().fold(ColumnType::TimestampTz(None), |kind, step| match step {
            Step::Cast(to) => *to,
            Step::Compared => ColumnType::Timestamp(None),
            Step::Plus(_) if kind == ColumnType::Date => ColumnType::Timestamp(None),
            Step::Plus(_) => kind,
            Step::PlusDays(_) => ColumnType::Date,
            Step::InUtc => ColumnType::Timestamp(None),
            // A day is taken for its first moment in the session's zone.
            Step::Truncated(_) if kind == ColumnType::Date => ColumnType::TimestampTz(None),
            Step::Truncated(_) | Step::Rounded(_) => kind,
        })
    }

    fn with(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }

    /// It as another type of days and moments; none if that is something else.
    pub(crate) fn cast_to(self, kind: ColumnType) -> Option<Self> {
        let plain = kind.plain();
        kind.is_time().then_some(())?;
        let cast = if self.kind() == plain { self } else { self.with(Step::Cast(plain)) };
        Some(match kind {
            ColumnType::Timestamp(Some(digits)) | ColumnType::TimestampTz(Some(digits)) => {
                cast.rounded(digits)
            }
            _ => cast,
        })
    }

    /// It as it is compared with values of another type.
    pub(crate) fn compared_as(self, kind: ColumnType) -> Option<Self> {
        match (self.kind(), kind) {
            (ColumnType::TimestampTz(_), ColumnType::Timestamp(_)) => Some(self.with(Step::Compared)),
            _ => self.cast_to(kind.plain()),
        }
    }

    pub(crate) fn plus(self, interval: Interval) -> Self {
        self.with(Step::Plus(interval))
    }

    /// So many days later, if it is a day.
    pub(crate) fn plus_days(self, days: i32) -> Option<Self> {
        (self.kind() == ColumnType::Date).then(|| self.with(Step::PlusDays(days)))
    }

    /// `AT TIME ZONE 'UTC'` of a moment.
    pub(crate) fn in_utc(self) -> Option<Self> {
        self.kind().is_zoned().then(|| self.with(Step::InUtc))
    }

    /// `date_trunc`.
    pub(crate) fn truncated(self, to: Unit) -> Self {
        self.with(Step::Truncated(to))
    }

    /// To so many digits of a second: PostgreSQL has no more than six.
    pub(crate) fn rounded(self, digits: u8) -> Self {
        if digits < 6 { self.with(Step::Rounded(digits)) } else { self }
    }

    /// What it is of a transaction and a statement that began then.
    ///
    /// # Errors
    /// It is beyond its type (22008); it hangs on the session's time zone, which is not known.
    pub(crate) fn value(&self, began: Began, zone: Zone) -> Result<(Datum, ColumnType), SqlError> {
        let start = match self.start {
            Start::Transaction => began.transaction,
            Start::Statement => began.statement,
        };
        let mut found = (Datum::Timestamp(start), ColumnType::TimestampTz(None));
        for step in &self.steps {
            found = match (*step, found) {
                (Step::Cast(to), (value, kind)) => (value.cast(kind, to, zone)?, to),
                (Step::Compared, (value, kind)) => {
                    let zone = if zone.is_utc() { zone } else { Zone::Unknown };
                    (value.cast(kind, ColumnType::Timestamp(None), zone)?, ColumnType::Timestamp(None))
                }
                (Step::InUtc, (value, _)) => (value, ColumnType::Timestamp(None)),
                (Step::PlusDays(by), (Datum::Date(day), kind)) => (days_after(day, Some(by.into()))?, kind),
                (Step::Plus(by), (value, kind)) => moved_by(value, kind, by, zone)?,
                (Step::Truncated(to), (value, kind)) => cut(value, kind, to, zone)?,
                (Step::Rounded(digits), (Datum::Timestamp(moment), kind)) => {
                    (Datum::Timestamp(rounded_moment(moment, digits)), kind)
                }
                (Step::PlusDays(_) | Step::Rounded(_), _) => return Err(defect()),
            };
        }
        Ok(found)
    }
}

/// A day or a moment an interval later, and its type.
fn moved_by(
    value: Datum,
    kind: ColumnType,
    by: Interval,
    zone: Zone,
) -> Result<(Datum, ColumnType), SqlError> {
    let to = if kind == ColumnType::Date { ColumnType::Timestamp(None) } else { kind.plain() };
    let moment = moment_of(value, kind, to, zone)?;
    let found = match is_infinite(moment) {
        true => moment,
        false if to.is_zoned() && !by.is_of_clock() => moved_in(moment, by, zone)?,
        false => moved(moment, by)?,
    };
    Ok((Datum::Timestamp(found), to))
}

/// The first moment of the unit that a day or a moment is in, and its type.
fn cut(value: Datum, kind: ColumnType, to: Unit, zone: Zone) -> Result<(Datum, ColumnType), SqlError> {
    let of = if kind == ColumnType::Date { ColumnType::TimestampTz(None) } else { kind.plain() };
    let moment = moment_of(value, kind, of, zone)?;
    let found = match is_infinite(moment) {
        true => moment,
        false if of.is_zoned() => truncated_in(moment, to, zone)?,
        false => truncated(moment, to)?,
    };
    Ok((Datum::Timestamp(found), of))
}

/// Is it before or behind all others?
fn is_infinite(moment: i64) -> bool {
    moment == i64::MIN || moment == i64::MAX
}

/// A value as one of a type of moments.
fn moment_of(value: Datum, kind: ColumnType, to: ColumnType, zone: Zone) -> Result<i64, SqlError> {
    match value.cast(kind, to, zone)? {
        Datum::Timestamp(moment) => Ok(moment),
        _ => Err(defect()),
    }
}

/// A moment and an interval whose months and days are counted by a zone's clock, as PostgreSQL counts them: one after the other.
fn moved_in(moment: i64, by: Interval, zone: Zone) -> Result<i64, SqlError> {
    let [months, days, rest] = by.parts();
    let mut found = moment;
    for part in [months, days] {
        if part != Interval::default() {
            let clock = moved(zone.clock(found).ok_or_else(unknown_zone)?, part)?;
            found = zone.moment(clock).ok_or_else(unknown_zone)?;
        }
    }
    moved(found, rest)
}

/// The first moment of a unit by a zone's clock.
fn truncated_in(moment: i64, to: Unit, zone: Zone) -> Result<i64, SqlError> {
    let clock = zone.clock(moment).ok_or_else(unknown_zone)?;
    let first = truncated(clock, to)?;
    match to.is_of_days() {
        true => zone.moment(first).ok_or_else(unknown_zone),
        // Within an hour the clock is as far ahead as it is at the moment.
        false => Ok(first + (moment - clock)),
    }
}

fn defect() -> SqlError {
    SqlError::new(sqlstate::INTERNAL_ERROR, "a moment was computed of what is none")
}

/// Days and months of a moment are counted in the session's zone.
fn unknown_zone() -> SqlError {
    let message =
        "days and months of a moment are those of the session's time zone, which the proxy does not know";
    SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
        .hint("Count in hours, or set TimeZone to UTC: SET TimeZone = 'UTC'.")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn shown(moment: &Moment, in_utc: bool) -> Result<String, &'static str> {
        let zone = if in_utc { Zone::Utc } else { Zone::Unknown };
        // 2024-03-31 22:15:00.
        let began = microseconds(SystemTime::UNIX_EPOCH + Duration::from_secs(1_711_923_300));
        let began = Began { transaction: began, statement: began + 90_000_000 };
        let (value, kind) = moment.value(began, zone).map_err(|error| error.sqlstate)?;
        assert_eq!(kind, moment.kind());
        Ok(value.to_text(kind))
    }

    #[test]
    fn moments_are_computed_from_when_the_transaction_began() {
        let by = |text| Interval::read(text).unwrap();
        let today = || Moment::now().cast_to(ColumnType::Date).unwrap();
        for (moment, in_utc, expected) in [
            (Moment::now(), false, Ok("2024-03-31 22:15:00+00")),
            (Moment::now().plus(by("-26 hours")), false, Ok("2024-03-30 20:15:00+00")),
            (Moment::now().plus(by("-1 month")), true, Ok("2024-02-29 22:15:00+00")),
            (Moment::now().plus(by("-1 month")), false, Err("0A000")),
            (Moment::now().in_utc().unwrap().plus(by("1 day")), false, Ok("2024-04-01 22:15:00")),
            (today(), true, Ok("2024-03-31")),
            (today(), false, Err("42804")),
            (today().plus_days(-31).unwrap(), true, Ok("2024-02-29")),
            (today().plus(by("1 day 1:00")), true, Ok("2024-04-01 01:00:00")),
            (today().plus_days(i32::MAX).unwrap(), true, Err("22008")),
            (Moment::of_statement(), false, Ok("2024-03-31 22:16:30+00")),
            (Moment::now().truncated(Unit::Hour), true, Ok("2024-03-31 22:00:00+00")),
            (Moment::now().truncated(Unit::Hour), false, Err("0A000")),
            (Moment::now().in_utc().unwrap().truncated(Unit::Week), false, Ok("2024-03-25 00:00:00")),
            (today().truncated(Unit::Quarter), true, Ok("2024-01-01 00:00:00+00")),
            (Moment::now().rounded(0), false, Ok("2024-03-31 22:15:00+00")),
        ] {
            assert_eq!(shown(&moment, in_utc).as_deref(), expected.as_deref(), "{moment:?}");
        }
        assert!(Moment::now().plus_days(1).is_none());
        assert!(Moment::now().cast_to(ColumnType::Text).is_none());
    }

    #[test]
    fn moments_before_2000_are_counted_backwards() {
        assert_eq!(microseconds(SystemTime::UNIX_EPOCH), -946_684_800_000_000);
    }
}
