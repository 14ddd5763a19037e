//! The values there may be.

/// An estimated value for each item or record; `None` where an attack says nothing.
pub type Estimates = Vec<Option<i64>>;

/// From which to which value, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The smallest value there may be.
    pub least: i64,
    /// The greatest.
    pub greatest: i64,
}

impl Span {
    /// From the least to the greatest of these values; none of no values.
    #[must_use]
    pub fn of(values: &[i64]) -> Option<Self> {
        let (least, greatest) = (values.iter().copied().min()?, values.iter().copied().max()?);
        Some(Self { least, greatest })
    }

    /// Number of values, at least one.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.greatest.abs_diff(self.least).saturating_add(1)
    }

    /// The value at a place, counted from 0; the greatest if there are fewer.
    #[must_use]
    pub fn value(&self, place: u64) -> i64 {
        self.least.saturating_add_unsigned(place.min(self.count() - 1))
    }
}
