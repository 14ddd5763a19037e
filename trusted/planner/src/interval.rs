//! Intervals of values in the BSON comparison order, with MongoDB's type bracketing.

use arras_documents::order::{self, Class};
use bson::Bson;
use std::cmp::Ordering;

/// One end of an interval.
#[derive(Clone, Debug, PartialEq)]
pub enum Edge {
    /// Where the values of the other end's type class end: a range operator compares values of one class only.
    Bracket,
    /// At this value, which is not in the interval.
    Excluded(Bson),
    /// At this value, which is in the interval.
    Included(Bson),
    /// At the end of the order.
    Unbounded,
}

impl Edge {
    /// The value it is at, if it is at one.
    #[must_use]
    pub fn value(&self) -> Option<&Bson> {
        match self {
            Self::Excluded(value) | Self::Included(value) => Some(value),
            Self::Bracket | Self::Unbounded => None,
        }
    }
}

/// An interval of values. [`Edge::Bracket`] is on one side at most.
#[derive(Clone, Debug, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub lower: Edge,
    /// Upper end.
    pub upper: Edge,
}

impl Interval {
    /// Every value.
    pub const ALL: Self = Self { lower: Edge::Unbounded, upper: Edge::Unbounded };

    /// One value.
    #[must_use]
    pub fn point(value: Bson) -> Self {
        Self { lower: Edge::Included(value.clone()), upper: Edge::Included(value) }
    }

    /// The strings that start with a text.
    #[must_use]
    pub fn prefix(text: String) -> Self {
        let upper = successor(&text).map_or(Edge::Bracket, |next| Edge::Excluded(Bson::String(next)));
        Self { lower: Edge::Included(Bson::String(text)), upper }
    }

    /// Is it every value?
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.lower == Edge::Unbounded && self.upper == Edge::Unbounded
    }

    /// Are both ends at values that bound it? (That it is above NaN says no more than that it is of numbers.)
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.upper.value().is_some() && self.lower.value().is_some_and(|value| !order::is_nan(value))
    }

    fn class(&self) -> Option<Class> {
        self.lower.value().or(self.upper.value()).map(order::class)
    }

    /// Is the value in it?
    #[must_use]
    pub fn contains(&self, value: &Bson) -> bool {
        let bracketed = self.lower == Edge::Bracket || self.upper == Edge::Bracket;
        if bracketed && self.class() != Some(order::class(value)) {
            return false;
        }
        let above = match &self.lower {
            Edge::Included(bound) => order::compare(value, bound).is_ge(),
            Edge::Excluded(bound) => order::compare(value, bound).is_gt(),
            Edge::Bracket | Edge::Unbounded => true,
        };
        above
            && match &self.upper {
                Edge::Included(bound) => order::compare(value, bound).is_le(),
                Edge::Excluded(bound) => order::compare(value, bound).is_lt(),
                Edge::Bracket | Edge::Unbounded => true,
            }
    }

    /// The values in both, if both are about one type class; else `self`, which then is wider than it need be.
    #[must_use]
    pub fn narrowed(self, other: &Self) -> Self {
        if self.is_all() {
            return other.clone();
        }
        if other.is_all() || self.class() != other.class() {
            return self;
        }
        let lower = stricter(self.lower, &other.lower, Ordering::is_gt);
        let upper = stricter(self.upper, &other.upper, Ordering::is_lt);
        Self { lower, upper }
    }
}

/// The end that leaves fewer values: `beyond` says on which side of the other it lies.
fn stricter(own: Edge, other: &Edge, beyond: fn(Ordering) -> bool) -> Edge {
    let (Some(own_value), Some(other_value)) = (own.value(), other.value()) else {
        return if own.value().is_some() { own } else { other.clone() };
    };
    match order::compare(other_value, own_value) {
        Ordering::Equal if matches!(other, Edge::Excluded(_)) => other.clone(),
        ordering if beyond(ordering) => other.clone(),
        _ => own,
    }
}

/// The least string greater than every string that starts with a text; `None` if there is none.
fn successor(text: &str) -> Option<String> {
    let mut chars: Vec<char> = text.chars().collect();
    while let Some(last) = chars.pop() {
        // UTF-8 orders like code points; the range of `char` steps over the surrogates.
        if let Some(next) = (last..=char::MAX).nth(1) {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

#[cfg(test)]
mod tests;
