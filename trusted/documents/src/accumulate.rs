//! Accumulators of `$group` and `$bucket`, and the exact sums sealed partial aggregates are made of.

use crate::error::location;
use crate::expression::compare_values;
use crate::order::Ordered;
use crate::pipeline::MEMORY_BYTES_MAX;
use crate::{QueryError, limits, number, order};
use bson::{Bson, Document};
use std::cmp::Ordering;
use std::collections::BTreeSet;

pub use arras_numbers::NumberSum;

/// Adds a value to a sum; what is no number counts nothing.
pub fn add_value(sum: &mut NumberSum, value: &Bson) {
    if let Some(number) = number::of(value) {
        sum.add(number);
    }
}

/// The sum as a value, typed as MongoDB's `$sum`.
#[must_use]
pub fn total(sum: &NumberSum) -> Bson {
    number::stored(sum.finish())
}

/// The mean as a value; null if no number was added.
#[must_use]
pub fn mean(sum: &NumberSum) -> Bson {
    sum.average().map_or(Bson::Null, number::stored)
}

/// The state of one accumulator of one group.
#[derive(Clone, Debug)]
pub struct Accumulator {
    state: State,
    /// Bytes of values held.
    held_bytes: usize,
}

#[derive(Clone, Debug)]
enum State {
    AddToSet(BTreeSet<Ordered<Bson>>),
    Avg(NumberSum),
    Count(u64),
    Extreme { wanted: Ordering, best: Option<Bson> },
    First { seen: bool, value: Option<Bson> },
    Last(Option<Bson>),
    MergeObjects(Document),
    Push(Vec<Bson>),
    StdDev { deviation: Deviation, sample: bool },
    Sum(NumberSum),
}

/// The accumulators of the table, by name.
const NAMES: &[&str] = &[
    "$addToSet",
    "$avg",
    "$count",
    "$first",
    "$last",
    "$max",
    "$mergeObjects",
    "$min",
    "$push",
    "$stdDevPop",
    "$stdDevSamp",
    "$sum",
];

/// The accumulator's name as a static string.
///
/// # Errors
/// 15952 for an unknown accumulator; 238 for one MongoDB has and Arras has not.
pub fn find(name: &str) -> Result<&'static str, QueryError> {
    const UNSUPPORTED: &[&str] = &[
        "$accumulator",
        "$bottom",
        "$bottomN",
        "$firstN",
        "$function",
        "$lastN",
        "$maxN",
        "$median",
        "$minN",
        "$percentile",
        "$top",
        "$topN",
    ];
    if UNSUPPORTED.contains(&name) {
        return Err(QueryError::unsupported(format!("the accumulator {name}")));
    }
    NAMES
        .iter()
        .find(|known| **known == name)
        .copied()
        .ok_or_else(|| location!(15952, "unknown group operator '{name}'"))
}

impl Accumulator {
    /// An accumulator that has seen nothing.
    ///
    /// # Errors
    /// As [`find`].
    pub fn new(name: &str) -> Result<Self, QueryError> {
        let state = match find(name)? {
            "$addToSet" => State::AddToSet(BTreeSet::new()),
            "$avg" => State::Avg(NumberSum::new()),
            "$count" => State::Count(0),
            "$first" => State::First { seen: false, value: None },
            "$last" => State::Last(None),
            "$max" => State::Extreme { wanted: Ordering::Greater, best: None },
            "$min" => State::Extreme { wanted: Ordering::Less, best: None },
            "$mergeObjects" => State::MergeObjects(Document::new()),
            "$push" => State::Push(Vec::new()),
            "$stdDevPop" => State::StdDev { deviation: Deviation::default(), sample: false },
            "$stdDevSamp" => State::StdDev { deviation: Deviation::default(), sample: true },
            _ => State::Sum(NumberSum::new()),
        };
        Ok(Accumulator { state, held_bytes: 0 })
    }

    /// Takes a value in; none is a missing value. Returns how many more bytes are held than before.
    ///
    /// # Errors
    /// 40400 for a value `$mergeObjects` cannot merge; 146 if more than [`MEMORY_BYTES_MAX`] bytes are held.
    pub fn add(&mut self, value: Option<Bson>) -> Result<usize, QueryError> {
        let before = self.held_bytes;
        match &mut self.state {
            State::Sum(sum) | State::Avg(sum) => value.iter().for_each(|value| add_value(sum, value)),
            State::Count(count) => *count += 1,
            State::StdDev { deviation, .. } => value.iter().for_each(|value| deviation.add(value)),
            State::Extreme { wanted, best } => {
                let nullish = matches!(value, None | Some(Bson::Null | Bson::Undefined));
                let better = best.is_none() || compare_values(value.as_ref(), best.as_ref()) == *wanted;
                if !nullish && better {
                    self.held_bytes = bytes_of(value.as_ref())?;
                    *best = value;
                }
            }
            State::First { seen, value: first } => {
                if !*seen {
                    self.held_bytes = bytes_of(value.as_ref())?;
                    *first = value;
                    *seen = true;
                }
            }
            State::Last(last) => {
                self.held_bytes = bytes_of(value.as_ref())?;
                *last = value;
            }
            State::Push(values) => {
                self.held_bytes += bytes_of(value.as_ref())?;
                values.extend(value);
            }
            State::AddToSet(values) => {
                if let Some(value) = value {
                    let bytes = bytes_of(Some(&value))?;
                    self.held_bytes += if values.insert(Ordered(value)) { bytes } else { 0 };
                }
            }
            State::MergeObjects(merged) => match value {
                None | Some(Bson::Null | Bson::Undefined) => {}
                Some(Bson::Document(document)) => {
                    merged.extend(document);
                    self.held_bytes = limits::document_bytes(merged, limits::DEPTH_MAX)?;
                }
                Some(other) => {
                    return Err(location!(
                        40400,
                        "$mergeObjects requires object inputs, but input is of type {}",
                        order::type_name(&other)
                    ));
                }
            },
        }
        if self.held_bytes > MEMORY_BYTES_MAX {
            return Err(QueryError::new(
                146,
                "ExceededMemoryLimit",
                format!(
                    "an accumulator used too much memory and cannot spill to disk. Memory limit: {MEMORY_BYTES_MAX} bytes"
                ),
            ));
        }
        Ok(self.held_bytes.saturating_sub(before))
    }

    /// The result.
    pub fn finish(self) -> Bson {
        match self.state {
            State::Sum(sum) => total(&sum),
            State::Avg(sum) => mean(&sum),
            State::Count(count) => i32::try_from(count)
                .map_or_else(|_| Bson::Int64(i64::try_from(count).unwrap_or(i64::MAX)), Bson::Int32),
            State::Extreme { best: value, .. } | State::First { value, .. } | State::Last(value) => {
                value.unwrap_or(Bson::Null)
            }
            State::Push(values) => Bson::Array(values),
            State::AddToSet(values) => Bson::Array(values.into_iter().map(|Ordered(value)| value).collect()),
            State::MergeObjects(merged) => Bson::Document(merged),
            State::StdDev { deviation, sample: true } => deviation.sample(),
            State::StdDev { deviation, sample: false } => deviation.population(),
        }
    }
}

fn bytes_of(value: Option<&Bson>) -> Result<usize, QueryError> {
    value.map_or(Ok(0), |value| Ok(limits::value_bytes(value, limits::DEPTH_MAX)? + size_of::<Bson>()))
}

/// Running standard deviation (Welford's algorithm), in doubles, as MongoDB computes it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Deviation {
    count: u64,
    mean: f64,
    squares: f64,
}

impl Deviation {
    pub(crate) fn add(&mut self, value: &Bson) {
        let Some(number) = order::as_f64(value) else {
            return;
        };
        self.count += 1;
        let delta = number - self.mean;
        self.mean += delta / self.count();
        self.squares += delta * (number - self.mean);
    }

    #[allow(clippy::cast_precision_loss)]
    fn count(&self) -> f64 {
        self.count as f64
    }

    /// Of the whole population; null if empty.
    pub(crate) fn population(&self) -> Bson {
        if self.count == 0 { Bson::Null } else { Bson::Double((self.squares / self.count()).sqrt()) }
    }

    /// Of a sample; null for fewer than two values.
    pub(crate) fn sample(&self) -> Bson {
        if self.count < 2 { Bson::Null } else { Bson::Double((self.squares / (self.count() - 1.0)).sqrt()) }
    }
}

#[cfg(test)]
mod tests;
