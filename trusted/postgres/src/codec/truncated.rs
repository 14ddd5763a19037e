//! `date_trunc`, and moments of fewer digits.

use super::calendar::{DAY_MICROSECONDS, MOMENTS, day_of, days_of};
use crate::error::{SqlError, sqlstate};

const SECOND: i64 = 1_000_000;

/// What a moment is cut down to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Second,
    Minute,
    Hour,
    Day,
    /// From its Monday.
    Week,
    Month,
    Quarter,
    Year,
}

/// The units, with the name and the number by which each is kept.
const UNITS: [(Unit, &str); 8] = [
    (Unit::Second, "second"),
    (Unit::Minute, "minute"),
    (Unit::Hour, "hour"),
    (Unit::Day, "day"),
    (Unit::Week, "week"),
    (Unit::Month, "month"),
    (Unit::Quarter, "quarter"),
    (Unit::Year, "year"),
];

impl Unit {
    /// The unit of a name in full, in any letters.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        UNITS.iter().find(|(_, known)| name.eq_ignore_ascii_case(known)).map(|(unit, _)| *unit)
    }

    /// Is it a day or longer? Then its first moment hangs on what the clock said by then.
    pub(crate) fn is_of_days(self) -> bool {
        !matches!(self, Self::Second | Self::Minute | Self::Hour)
    }

    /// The number that it is kept by.
    pub(crate) fn number(self) -> u8 {
        UNITS.iter().zip(0..).find(|((unit, _), _)| *unit == self).map_or(0, |(_, number)| number)
    }

    /// The unit of a number.
    pub(crate) fn of_number(number: u8) -> Option<Self> {
        UNITS.get(usize::from(number)).map(|(unit, _)| *unit)
    }
}

/// The first moment of the unit that a moment is in, in microseconds since 2000.
///
/// # Errors
/// 22008 if PostgreSQL has no such moment.
pub(crate) fn truncated(moment: i64, to: Unit) -> Result<i64, SqlError> {
    let (day, of_day) = (moment.div_euclid(DAY_MICROSECONDS), moment.rem_euclid(DAY_MICROSECONDS));
    let within = |unit: i64| Some((day, of_day - of_day % unit));
    let first_of = |months: u32| {
        let (year, month, _) = day_of(day);
        Some((days_of(year, i64::from((month - 1) / months * months + 1), 1)?, 0))
    };
    let found = match to {
        Unit::Second => within(SECOND),
        Unit::Minute => within(60 * SECOND),
        Unit::Hour => within(3600 * SECOND),
        Unit::Day => Some((day, 0)),
        // The first of January 2000 was a Saturday.
        Unit::Week => Some((day - (day + 5).rem_euclid(7), 0)),
        Unit::Month => first_of(1),
        Unit::Quarter => first_of(3),
        Unit::Year => first_of(12),
    };
    let moment = found.and_then(|(day, of_day)| day.checked_mul(DAY_MICROSECONDS)?.checked_add(of_day));
    let moment = moment.filter(|moment| MOMENTS.contains(moment));
    moment.ok_or_else(|| SqlError::new(sqlstate::DATETIME_FIELD_OVERFLOW, "timestamp out of range"))
}

/// A moment to so many digits of a second, from zero to six; a half goes away from the year 2000.
pub(crate) fn rounded_moment(moment: i64, digits: u8) -> i64 {
    // Before and behind all others.
    if moment == i64::MIN || moment == i64::MAX {
        return moment;
    }
    let unit = 10_i64.pow(6 - u32::from(digits.min(6)));
    let up = moment.abs().saturating_add(unit / 2) / unit * unit;
    up * moment.signum()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::codec::Datum;
    use crate::column_type::ColumnType;

    fn moment(text: &str) -> i64 {
        match Datum::from_text(ColumnType::Timestamp(None), text).unwrap() {
            Datum::Timestamp(moment) => moment,
            _ => panic!("{text} is no moment"),
        }
    }

    #[test]
    fn moments_are_cut_down_as_date_trunc_does() {
        for (unit, at, expected) in [
            ("second", "2024-03-31 22:15:07.654321", "2024-03-31 22:15:07"),
            ("Minute", "1999-12-31 23:59:59.999999", "1999-12-31 23:59:00"),
            ("hour", "1999-12-31 23:59:59.999999", "1999-12-31 23:00:00"),
            ("DAY", "1969-07-20 20:17:40", "1969-07-20 00:00:00"),
            ("week", "2024-03-31 22:15:00", "2024-03-25 00:00:00"),
            ("week", "2024-04-01 00:00:00", "2024-04-01 00:00:00"),
            ("week", "1999-12-26 12:00:00", "1999-12-20 00:00:00"),
            ("month", "2024-02-29 22:15:00", "2024-02-01 00:00:00"),
            ("quarter", "2024-12-31 22:15:00", "2024-10-01 00:00:00"),
            ("year", "0001-12-31 22:15:00 BC", "0001-01-01 00:00:00 BC"),
        ] {
            let found = truncated(moment(at), Unit::parse(unit).unwrap()).unwrap();
            assert_eq!(
                Datum::Timestamp(found).to_text(ColumnType::Timestamp(None)),
                expected,
                "{unit} of {at}"
            );
        }
        assert!(Unit::parse("days").is_none() && Unit::parse("fortnight").is_none());
        let first = moment("4714-11-24 00:00:00 BC");
        assert_eq!(truncated(first, Unit::Year).unwrap_err().sqlstate, "22008");
    }

    #[test]
    fn units_are_kept_by_numbers() {
        for (unit, name) in UNITS {
            assert_eq!(Unit::of_number(unit.number()), Some(unit), "{name}");
        }
        assert!(Unit::of_number(8).is_none());
    }

    #[test]
    fn halves_of_a_digit_go_away_from_2000() {
        for (at, digits, expected) in
            [(1_500_000, 0, 2_000_000), (-1_500_000, 0, -2_000_000), (1_234_449, 3, 1_234_000), (-1, 6, -1)]
        {
            assert_eq!(rounded_moment(at, digits), expected, "{at} to {digits}");
        }
    }
}
