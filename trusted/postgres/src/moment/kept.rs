//! A moment as the default of a column that is kept in the database, sealed: what began, and the steps from there.

use super::{Moment, Start, Step};
use crate::codec::{Interval, Unit};
use crate::column_type::ColumnType;

const KINDS: [ColumnType; 3] = [ColumnType::Date, ColumnType::Timestamp(None), ColumnType::TimestampTz(None)];

impl Moment {
    /// One byte of what began, then for each step its number and what it takes.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![u8::from(self.start == Start::Statement)];
        for step in &self.steps {
            match *step {
                Step::Cast(to) => {
                    let kind = KINDS.iter().zip(0..).find(|(kind, _)| **kind == to);
                    bytes.extend([0, kind.map_or(u8::MAX, |(_, number)| number)]);
                }
                Step::Plus(by) => {
                    bytes.push(1);
                    bytes.extend(by.to_bytes());
                }
                Step::PlusDays(by) => {
                    bytes.push(2);
                    bytes.extend(by.to_be_bytes());
                }
                Step::InUtc => bytes.push(3),
                // Nothing is compared with a default.
                Step::Compared => bytes.extend([0, 1]),
                Step::Truncated(to) => bytes.extend([4, to.number()]),
                Step::Rounded(digits) => bytes.extend([5, digits]),
            }
        }
        bytes
    }

    /// What [`Self::to_bytes`] wrote; none if it is of another release.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (start, mut rest) = bytes.split_first()?;
        let start = match start {
            0 => Start::Transaction,
            1 => Start::Statement,
            _ => return None,
        };
        let mut found = Self { start, steps: Vec::new() };
        while let Some((number, behind)) = rest.split_first() {
            let (step, behind) = read(*number, behind)?;
            // As where it was written: what no moment has is no step.
            found = match step {
                Step::Cast(to) => found.cast_to(to)?,
                Step::PlusDays(by) => found.plus_days(by)?,
                Step::InUtc => found.in_utc()?,
                Step::Rounded(_) if found.kind() == ColumnType::Date => return None,
                step => found.with(step),
            };
            rest = behind;
        }
        Some(found)
    }
}

/// A step of a number, and what is behind it.
fn read(number: u8, behind: &[u8]) -> Option<(Step, &[u8])> {
    Some(match number {
        0 => {
            let (kind, behind) = behind.split_first()?;
            (Step::Cast(*KINDS.get(usize::from(*kind))?), behind)
        }
        1 => {
            let (by, behind) = behind.split_first_chunk()?;
            (Step::Plus(Interval::from_bytes(*by)), behind)
        }
        2 => {
            let (by, behind) = behind.split_first_chunk()?;
            (Step::PlusDays(i32::from_be_bytes(*by)), behind)
        }
        3 => (Step::InUtc, behind),
        4 => {
            let (unit, behind) = behind.split_first()?;
            (Step::Truncated(Unit::of_number(*unit)?), behind)
        }
        5 => {
            let (digits, behind) = behind.split_first()?;
            (Step::Rounded((*digits < 6).then_some(*digits)?), behind)
        }
        _ => return None,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_as_they_were_kept_and_nothing_else_is() {
        let by = Interval::read("1 year -2 days 04:05:06.5").unwrap();
        let moment = Moment::of_statement()
            .rounded(3)
            .truncated(Unit::Quarter)
            .plus(by)
            .in_utc()
            .and_then(|moment| moment.cast_to(ColumnType::Date)?.plus_days(-7))
            .unwrap();
        let bytes = moment.to_bytes();
        assert_eq!(Moment::from_bytes(&bytes), Some(moment));
        assert_eq!(Moment::from_bytes(&Moment::now().to_bytes()), Some(Moment::now()));
        let read = (1..bytes.len()).filter(|end| Moment::from_bytes(&bytes[..*end]).is_some()).count();
        assert_eq!(read, 6, "it ends between steps only");
        for wrong in
            [&[][..], &[2], &[0, 6], &[0, 0, 3], &[0, 4, 8], &[0, 5, 6], &[0, 2, 0, 0, 0, 1], &[0, 3, 3]]
        {
            assert_eq!(Moment::from_bytes(wrong), None, "{wrong:?}");
        }
    }
}
