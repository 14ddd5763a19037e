//! `extract`: a field of a day or a moment.

use super::Numeric;
use super::calendar::{DAY_MICROSECONDS, day_of, days_of};

const SECOND: i64 = 1_000_000;
/// Seconds from the first of January 1970 to that of 2000.
const EPOCH: i64 = 946_684_800;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Year,
    /// The year that an ISO week belongs to.
    IsoYear,
    Quarter,
    Month,
    Week,
    Day,
    DayOfYear,
    /// From Sunday, which is 0.
    DayOfWeek,
    /// From Monday, which is 1, to Sunday, which is 7.
    IsoDayOfWeek,
    Hour,
    Minute,
    Second,
    /// Seconds since 1970.
    Epoch,
}

const FIELDS: [(Field, &str); 13] = [
    (Field::Year, "year"),
    (Field::IsoYear, "isoyear"),
    (Field::Quarter, "quarter"),
    (Field::Month, "month"),
    (Field::Week, "week"),
    (Field::Day, "day"),
    (Field::DayOfYear, "doy"),
    (Field::DayOfWeek, "dow"),
    (Field::IsoDayOfWeek, "isodow"),
    (Field::Hour, "hour"),
    (Field::Minute, "minute"),
    (Field::Second, "second"),
    (Field::Epoch, "epoch"),
];

impl Field {
    /// The field of a name in full, in any letters.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        FIELDS.iter().find(|(_, known)| name.eq_ignore_ascii_case(known)).map(|(field, _)| *field)
    }

    /// Has a moment it, and a day not?
    pub(crate) fn is_of_clock(self) -> bool {
        matches!(self, Self::Hour | Self::Minute | Self::Second)
    }

    /// It of a moment that is before or behind all others; none is NULL.
    pub(crate) fn of_infinity(self, is_negative: bool) -> Option<Numeric> {
        matches!(self, Self::Year | Self::IsoYear | Self::Epoch).then_some(if is_negative {
            Numeric::NegativeInfinity
        } else {
            Numeric::Infinity
        })
    }

    /// It of a moment, where a clock says `clock` then; both in microseconds since 2000.
    pub(crate) fn of_moment(self, moment: i64, clock: i64) -> Numeric {
        let of_day = clock.rem_euclid(DAY_MICROSECONDS);
        let parts = |unscaled: i128| Numeric::Finite { unscaled: unscaled.into(), scale: 6 };
        match self {
            Self::Hour => Numeric::integer(of_day / (3600 * SECOND)),
            Self::Minute => Numeric::integer(of_day / (60 * SECOND) % 60),
            Self::Second => parts(i128::from(of_day % (60 * SECOND))),
            Self::Epoch => parts(i128::from(moment) + i128::from(EPOCH * SECOND)),
            of_date => of_date.of_day(clock.div_euclid(DAY_MICROSECONDS)),
        }
    }

    /// It of a day, in days since 2000: what is of a clock is 0.
    pub(crate) fn of_day(self, day: i64) -> Numeric {
        let (year, month, of_month) = day_of(day);
        let first = |year: i64| days_of(year, 1, 1).unwrap_or(day);
        // The first of January 2000 was a Saturday.
        let iso = (day + 5).rem_euclid(7) + 1;
        // A week belongs to the year that its Thursday is in.
        let thursday = day - iso + 4;
        let of_week = day_of(thursday).0;
        // There is no year 0.
        let named = |year: i64| if year > 0 { year } else { year - 1 };
        Numeric::integer(match self {
            Self::Year => named(year),
            Self::IsoYear => named(of_week),
            Self::Quarter => i64::from((month - 1) / 3 + 1),
            Self::Month => month.into(),
            Self::Week => (thursday - first(of_week)) / 7 + 1,
            Self::Day => of_month.into(),
            Self::DayOfYear => day - first(year) + 1,
            Self::DayOfWeek => iso % 7,
            Self::IsoDayOfWeek => iso,
            Self::Hour | Self::Minute | Self::Second => 0,
            Self::Epoch => day * (DAY_MICROSECONDS / SECOND) + EPOCH,
        })
    }
}
