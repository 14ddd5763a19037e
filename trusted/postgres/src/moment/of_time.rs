//! What is computed of days and moments: `at + interval '1 day'`, `date_trunc('month', at)`, `extract(year from at)`.

use super::{cut, moved_by};
use crate::codec::{Datum, Field, Interval, Numeric, Unit, Zone};
use crate::column_type::ColumnType;
use crate::error::SqlError;

/// One such step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfTime(How);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Moved(Interval),
    Truncated(Unit),
    /// Exact as of `extract`, or a double as of `date_part`.
    Field(Field, bool),
    InUtc,
}

impl OfTime {
    /// An interval later.
    pub(crate) fn moved(by: Interval) -> Self {
        Self(How::Moved(by))
    }

    /// `date_trunc`.
    pub(crate) fn truncated(to: Unit) -> Self {
        Self(How::Truncated(to))
    }

    /// `extract`.
    pub(crate) fn field(field: Field) -> Self {
        Self(How::Field(field, true))
    }

    /// `date_part`.
    pub(crate) fn part(field: Field) -> Self {
        Self(How::Field(field, false))
    }

    /// `AT TIME ZONE 'UTC'`.
    pub(crate) fn in_utc() -> Self {
        Self(How::InUtc)
    }

    /// The type of what it makes of one; none if PostgreSQL has no such operator or function.
    pub(crate) fn kind(self, of: ColumnType) -> Option<ColumnType> {
        if !of.is_time() {
            return None;
        }
        match self.0 {
            How::Moved(_) if of == ColumnType::Date => Some(ColumnType::Timestamp(None)),
            // A day is taken for its first moment in the session's zone.
            How::Truncated(_) if of == ColumnType::Date => Some(ColumnType::TimestampTz(None)),
            How::Moved(_) | How::Truncated(_) => Some(of.plain()),
            How::Field(field, true) => {
                (of != ColumnType::Date || !field.is_of_clock()).then_some(ColumnType::Numeric(None))
            }
            How::Field(_, false) => Some(ColumnType::DoublePrecision),
            How::InUtc if of == ColumnType::Date => None,
            How::InUtc if of.is_zoned() => Some(ColumnType::Timestamp(None)),
            How::InUtc => Some(ColumnType::TimestampTz(None)),
        }
    }

    /// What it makes of a value of a type in a session's time zone; none is NULL.
    ///
    /// # Errors
    /// 22008 if there is no such moment; it hangs on the session's time zone, which is not known.
    pub(crate) fn value(self, datum: Datum, kind: ColumnType, zone: Zone) -> Result<Option<Datum>, SqlError> {
        Ok(Some(match self.0 {
            How::Moved(by) => moved_by(datum, kind, by, zone)?.0,
            How::Truncated(to) => cut(datum, kind, to, zone)?.0,
            How::InUtc => datum,
            How::Field(field, is_exact) => {
                let found = field_of(field, &datum, kind, zone)?;
                let Some(found) = found else { return Ok(None) };
                if is_exact {
                    Datum::Numeric(found)
                } else {
                    Datum::from_text(ColumnType::DoublePrecision, &found.to_string())?
                }
            }
        }))
    }
}

fn field_of(field: Field, datum: &Datum, kind: ColumnType, zone: Zone) -> Result<Option<Numeric>, SqlError> {
    Ok(match *datum {
        Datum::Date(day @ (i32::MIN | i32::MAX)) => field.of_infinity(day < 0),
        Datum::Date(day) => Some(field.of_day(day.into())),
        Datum::Timestamp(moment @ (i64::MIN | i64::MAX)) => field.of_infinity(moment < 0),
        Datum::Timestamp(moment) => {
            let clock =
                if kind.is_zoned() && field != Field::Epoch { zone.clock(moment) } else { Some(moment) };
            Some(field.of_moment(moment, clock.ok_or_else(super::unknown_zone)?))
        }
        _ => return Err(super::defect()),
    })
}
