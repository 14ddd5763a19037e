//! Time zones of sessions: what the clock says at a moment, and at which moment it says so. Rules are those of the IANA database that
//! the proxy was built with, as far as the server's were found to agree with them ([`Samples`]).

use super::calendar::MOMENTS;
use chrono::{DateTime, Datelike as _, NaiveDate, Offset as _, TimeZone as _};
use chrono_tz::Tz;

const SECOND: i64 = 1_000_000;
/// Seconds from 1970 to 2000, from where moments are counted.
const EPOCH_SECONDS: i64 = 946_684_800;
/// Clocks are not changed twice within it.
const DAY_SECONDS: i64 = 86_400;

/// A session's time zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Zone {
    /// None that is known.
    #[default]
    Unknown,
    /// Where a moment with a zone and one without are the same.
    Utc,
    /// One of rules.
    Named(NamedZone),
}

/// A zone's rules, and the moments between which the server has the same, in seconds from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NamedZone {
    rules: Tz,
    from: i64,
    until: i64,
}

/// Seconds that a zone's clock is ahead of UTC at a moment, in seconds from 1970. From 2100 on a year is as one in this century that
/// begins on the same day of the week and has as many: the rules of now go on.
fn ahead_at(rules: Tz, at: i64) -> Option<i64> {
    let mut at = DateTime::from_timestamp(at, 0)?.naive_utc();
    if at.year() >= 2100 {
        let form = |year: i32| {
            let is_long = NaiveDate::from_ymd_opt(year, 2, 29).is_some();
            NaiveDate::from_ymd_opt(year, 1, 1).map(|first| (first.weekday(), is_long))
        };
        let year = (2060..2088).find(|year| form(*year) == form(at.year()))?;
        at = at.with_year(year)?;
    }
    Some(i64::from(rules.offset_from_utc_datetime(&at).fix().local_minus_utc()))
}

impl NamedZone {
    fn ahead(self, at: i64) -> Option<i64> {
        (self.from..self.until).contains(&at).then(|| ahead_at(self.rules, at))?
    }

    /// The same at what a clock says, in seconds from 1970 as if it were UTC's. Where a clock says it twice the later is meant, where
    /// it is put on past it what it would say had it not been, as PostgreSQL has both.
    fn ahead_of_clock(self, clock: i64) -> Option<i64> {
        let before = self.ahead(clock.checked_sub(DAY_SECONDS)?)?;
        let after = self.ahead(clock.checked_add(DAY_SECONDS)?)?;
        let is_said = |ahead: i64| self.ahead(clock - ahead) == Some(ahead);
        Some(if is_said(after) { after } else { before })
    }
}

impl Zone {
    /// Is a moment the same with a zone and without?
    pub(crate) fn is_utc(self) -> bool {
        self == Self::Utc
    }

    /// Seconds that the zone's clock is ahead of UTC at a moment; none if that is not known.
    pub(crate) fn ahead(self, moment: i64) -> Option<i64> {
        match self {
            Self::Unknown => None,
            Self::Utc => Some(0),
            Self::Named(zone) => zone.ahead(moment.div_euclid(SECOND) + EPOCH_SECONDS),
        }
    }

    /// What the clock says at a moment, both in microseconds since 2000; the infinities are everywhere.
    pub(crate) fn clock(self, moment: i64) -> Option<i64> {
        if self.is_utc() || matches!(moment, i64::MIN | i64::MAX) {
            return (self != Self::Unknown).then_some(moment);
        }
        within(moment.checked_add(self.ahead(moment)? * SECOND)?)
    }

    /// The moment at which the clock says so.
    pub(crate) fn moment(self, clock: i64) -> Option<i64> {
        match self {
            Self::Unknown => None,
            Self::Utc => Some(clock),
            Self::Named(_) if matches!(clock, i64::MIN | i64::MAX) => Some(clock),
            Self::Named(zone) => {
                let ahead = zone.ahead_of_clock(clock.div_euclid(SECOND) + EPOCH_SECONDS)?;
                within(clock.checked_sub(ahead * SECOND)?)
            }
        }
    }
}

fn within(moment: i64) -> Option<i64> {
    MOMENTS.contains(&moment).then_some(moment)
}

/// Moments at which a zone's rules and the server's are compared: before and behind each change of the clock, and four times a year.
pub(crate) struct Samples {
    rules: Tz,
    /// In seconds from 1970, rising.
    pub(crate) at: Vec<i64>,
}

/// Between the years 1800 and 2140, in seconds from 1970: each change of the clock.
const SAMPLED: std::ops::Range<i64> = -5_364_662_400..5_364_662_400;
/// The beginnings of the years 1 and 1500, and the first and the seventh month of 2500 and 9999. As both agree there, they do beyond.
const FAR: [i64; 6] =
    [-62_135_596_800, -14_831_769_600, 16_725_225_600, 16_740_864_000, 253_370_764_800, 253_386_403_200];
/// When both must agree: the first of January 2020.
const AGREED: i64 = 1_577_836_800;

impl Samples {
    /// Those of a zone.
    pub(crate) fn of(rules: Tz) -> Self {
        let mut at: Vec<i64> = SAMPLED.step_by(91 * 86_400).collect();
        let weeks = SAMPLED.step_by(7 * 86_400);
        for (first, next) in weeks.clone().zip(weeks.skip(1)) {
            let (mut low, mut high) = (first, next);
            if ahead_at(rules, low) == ahead_at(rules, high) {
                continue;
            }
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                match ahead_at(rules, middle) == ahead_at(rules, low) {
                    true => low = middle,
                    false => high = middle,
                }
            }
            at.extend([low, high]);
        }
        at.extend(FAR);
        at.sort_unstable();
        at.dedup();
        Self { rules, at }
    }

    /// The zone, as far as the server's seconds ahead of UTC at these moments are the same; not known if they are not of late.
    pub(crate) fn compared(&self, server: &[i64]) -> Zone {
        let agree = |place: usize| {
            let (at, theirs) = (self.at.get(place)?, server.get(place)?);
            (ahead_at(self.rules, *at)? == *theirs).then_some(*at)
        };
        let agreed = self.at.partition_point(|at| *at < AGREED);
        let until = (agreed..self.at.len()).map_while(agree).last();
        let from = (0..agreed).rev().map_while(agree).last();
        match (from, until) {
            (Some(from), Some(until)) if server.len() == self.at.len() => {
                let from = if Some(&from) == self.at.first() { i64::MIN } else { from };
                let until = if Some(&until) == self.at.last() { i64::MAX } else { until };
                Zone::Named(NamedZone { rules: self.rules, from, until })
            }
            _ => Zone::Unknown,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::codec::Datum;
    use crate::column_type::ColumnType;

    fn known(rules: Tz) -> Zone {
        let samples = Samples::of(rules);
        let ours: Vec<i64> = samples.at.iter().map(|at| ahead_at(rules, *at).unwrap()).collect();
        samples.compared(&ours)
    }

    fn moment(text: &str) -> i64 {
        match Datum::from_text(ColumnType::Timestamp(None), text).unwrap() {
            Datum::Timestamp(moment) => moment,
            _ => panic!("{text} is no moment"),
        }
    }

    #[test]
    fn what_a_clock_says_twice_or_never_is_meant_as_postgresql_means_it() {
        let berlin = known(Tz::Europe__Berlin);
        for (clock, utc) in [
            ("2024-01-15 12:00:00", "2024-01-15 11:00:00"),
            ("2024-07-15 12:00:00.5", "2024-07-15 10:00:00.5"),
            // It goes from two to three.
            ("2024-03-31 01:59:59", "2024-03-31 00:59:59"),
            ("2024-03-31 02:30:00", "2024-03-31 01:30:00"),
            ("2024-03-31 03:00:00", "2024-03-31 01:00:00"),
            // And from three to two.
            ("2024-10-27 01:59:59", "2024-10-26 23:59:59"),
            ("2024-10-27 02:30:00", "2024-10-27 01:30:00"),
            ("2024-10-27 03:00:00", "2024-10-27 02:00:00"),
            ("1945-05-24 12:00:00", "1945-05-24 09:00:00"),
        ] {
            assert_eq!(berlin.moment(moment(clock)), Some(moment(utc)), "{clock}");
        }
        assert_eq!(berlin.clock(moment("2024-10-27 00:30:00")), Some(moment("2024-10-27 02:30:00")));
        assert_eq!(berlin.clock(moment("2024-10-27 01:30:00")), Some(moment("2024-10-27 02:30:00")));
        assert_eq!(berlin.clock(i64::MAX), Some(i64::MAX));
        // By the sun, and by the rules of now.
        assert_eq!(berlin.moment(moment("1850-01-01 00:53:28")), Some(moment("1850-01-01 00:00:00")));
        assert_eq!(berlin.moment(moment("9999-12-31 00:00:00")), Some(moment("9999-12-30 23:00:00")));
        assert_eq!(berlin.moment(moment("2400-07-01 02:00:00")), Some(moment("2400-07-01 00:00:00")));
        assert_eq!(Zone::Unknown.clock(0).or(Zone::Unknown.moment(0)), None);
        let howe = known(Tz::Australia__Lord_Howe);
        assert_eq!(howe.moment(moment("2024-10-06 02:15:00")), Some(moment("2024-10-05 15:45:00")));
    }

    #[test]
    fn a_zone_is_known_as_far_as_the_server_agrees() {
        let samples = Samples::of(Tz::America__New_York);
        let mut theirs: Vec<i64> =
            samples.at.iter().map(|at| ahead_at(samples.rules, *at).unwrap()).collect();
        let of_1960 = samples.at.partition_point(|at| *at < -315_619_200);
        theirs[of_1960] += 60;
        let zone = samples.compared(&theirs);
        assert!(zone.clock(moment("1970-01-01 00:00:00")).is_some());
        assert!(zone.clock(moment("1959-01-01 00:00:00")).is_none());
        assert_eq!(samples.compared(&theirs[1..]), Zone::Unknown);
        let of_2020 = samples.at.partition_point(|at| *at < AGREED);
        theirs[of_2020] += 60;
        assert_eq!(samples.compared(&theirs), Zone::Unknown);
    }
}
