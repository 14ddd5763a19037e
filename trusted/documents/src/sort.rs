//! Sort specifications.

use crate::elements::{self, ParallelArrays};
use crate::text::{self, TextCondition};
use crate::{QueryError, order, path};
use bson::{Bson, Document};
use std::cmp::Ordering;

pub mod external;

/// Path of the key that is the text score: impossible for a field, whose name has no NUL.
const SCORE: &str = "\0textScore";

/// One key of a sort.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SortKey {
    /// Dotted path.
    pub path: String,
    /// From the highest value.
    pub descending: bool,
}

/// A sort specification: keys in order of weight. Empty: any order will do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sort {
    keys: Vec<SortKey>,
    /// What gives the text score, if a key is that.
    score: Option<TextCondition>,
    /// In the order of insertion, or against it.
    natural: Option<Direction>,
}

/// Which way along the order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The oldest first.
    Forward,
    /// The newest first.
    Backward,
}

impl Sort {
    /// Reads a sort document such as `{a: 1, "b.c": -1}`.
    ///
    /// # Errors
    /// 15974/15975 and 2 as MongoDB for directions other than 1 and -1 and for malformed paths. Of `$meta`, the text score alone
    /// is supported.
    pub fn parse(specification: &Document) -> Result<Self, QueryError> {
        let mut keys = Vec::with_capacity(specification.len());
        for (name, direction) in specification {
            path::check(name)?;
            if name.split('.').any(|part| part.starts_with('$') && !["$id", "$ref", "$db"].contains(&part)) {
                return Err(crate::error::location!(
                    16410,
                    "FieldPath field names may not start with '$': '{name}'"
                ));
            }
            if text::is_score(direction)? {
                keys.push(SortKey { path: SCORE.to_owned(), descending: true });
                continue;
            }
            let descending = match order::as_exact_i64(direction) {
                Some(1) => false,
                Some(-1) => true,
                _ => {
                    return Err(crate::error::location!(
                        15975,
                        "$sort key ordering must be 1 (for ascending) or -1 (for descending)"
                    ));
                }
            };
            keys.push(SortKey { path: name.clone(), descending });
        }
        Ok(Sort { keys, ..Sort::none() })
    }

    /// Reads the sort of an array's elements: `$push` with `$sort`, and `$sortArray`.
    ///
    /// # Errors
    /// 2 as MongoDB for no fields, other directions than 1 and -1, and empty parts of paths.
    pub fn of_elements(specification: &Document) -> Result<Self, QueryError> {
        if specification.is_empty() {
            let empty = "The $sort pattern is empty when it should be a set of fields.";
            return Err(QueryError::bad_value(empty));
        }
        let key = |(name, direction): (&String, &Bson)| {
            let descending = match order::as_exact_i64(direction) {
                Some(1) => false,
                Some(-1) => true,
                _ => return Err(QueryError::bad_value("The $sort element value must be either 1 or -1")),
            };
            if name.is_empty() {
                return Err(QueryError::bad_value("The $sort field cannot be empty"));
            }
            if name.split('.').any(str::is_empty) {
                return Err(QueryError::bad_value(format!(
                    "The $sort field is a dotted field '{name}' that has an empty part"
                )));
            }
            path::check_depth(name)?;
            Ok(SortKey { path: name.clone(), descending })
        };
        let keys = specification.iter().map(key).collect::<Result<_, _>>()?;
        Ok(Sort { keys, ..Sort::none() })
    }

    /// A sort by these keys.
    pub fn by(keys: Vec<SortKey>) -> Self {
        Sort { keys, ..Sort::none() }
    }

    /// Any order.
    #[must_use]
    pub const fn none() -> Self {
        Sort { keys: Vec::new(), score: None, natural: None }
    }

    /// MongoDB's `$natural`.
    #[must_use]
    pub fn natural(direction: Direction) -> Self {
        Sort { natural: Some(direction), ..Sort::none() }
    }

    /// Whether it is by insertion alone.
    #[must_use]
    pub const fn is_natural(&self) -> bool {
        self.natural.is_some()
    }

    /// Compares the places in the order of insertion of two documents that are equal otherwise.
    #[must_use]
    pub fn compare_places(&self, left: u64, right: u64) -> Ordering {
        match self.natural {
            Some(Direction::Backward) => right.cmp(&left),
            Some(Direction::Forward) | None => left.cmp(&right),
        }
    }

    /// The same sort, where a key may be the score of this `$text`.
    ///
    /// # Errors
    /// 40218 if a key is the score and there is no `$text`.
    pub fn scored_by(mut self, condition: Option<&TextCondition>) -> Result<Self, QueryError> {
        if self.keys.iter().any(|key| key.path == SCORE) {
            self.score = Some(condition.ok_or_else(text::no_score)?.clone());
        }
        Ok(self)
    }

    fn value(&self, document: &Document, key: &SortKey) -> Bson {
        if key.path != SCORE {
            return sort_value(document, key);
        }
        let score = self.score.as_ref().and_then(|condition| condition.score(document).ok().flatten());
        score.map_or(Bson::Null, Bson::Double)
    }

    /// The keys, the weightiest first.
    pub fn keys(&self) -> &[SortKey] {
        &self.keys
    }

    /// True if any order will do: documents stay as they come.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.natural.is_none()
    }

    /// Compares two elements of an array, each key by itself. An array counts as its least element when ascending, its greatest
    /// when descending; a missing field as null; an empty array as less than null.
    pub fn compare(&self, left: &Document, right: &Document) -> Ordering {
        self.keys
            .iter()
            .map(|key| {
                let ordering = order::compare(&self.value(left, key), &self.value(right, key));
                if key.descending { ordering.reverse() } else { ordering }
            })
            .find(|ordering| ordering.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// The values a document is sorted by, one a key. Of an array each element counts, and of fields within one array those of
    /// each element together: they are the first in order.
    ///
    /// # Errors
    /// 2 if two keys have arrays that are not within one array.
    pub fn values(&self, document: &Document) -> Result<Vec<Bson>, QueryError> {
        let apart = || self.keys.iter().map(|key| self.value(document, key)).collect();
        if self.keys.len() < 2 {
            return Ok(apart());
        }
        let mut arrays = self.keys.iter().filter_map(|key| elements::first_array(document, &key.path));
        if arrays.nth(1).is_none() {
            return Ok(apart());
        }
        let fields: Vec<&str> = self.keys.iter().map(|key| key.path.as_str()).collect();
        let mut least: Option<Vec<Bson>> = None;
        elements::each::<Parallel>(&fields, &vec![document; fields.len()], &mut |places| {
            let of_place = |(key, place): (&SortKey, &&Document)| {
                self.value(if key.path == SCORE { document } else { place }, key)
            };
            let values: Vec<Bson> = self.keys.iter().zip(places).map(of_place).collect();
            if least.as_ref().is_none_or(|least| self.compare_values(&values, least).is_lt()) {
                least = Some(values);
            }
            Ok(())
        })
        .map_err(|Parallel| QueryError::bad_value("cannot sort with keys that are parallel arrays"))?;
        Ok(least.unwrap_or_else(apart))
    }

    /// Compares two results of [`Sort::values`].
    pub fn compare_values(&self, left: &[Bson], right: &[Bson]) -> Ordering {
        self.keys
            .iter()
            .zip(left.iter().zip(right))
            .map(|(key, (left, right))| {
                let ordering = order::compare(left, right);
                if key.descending { ordering.reverse() } else { ordering }
            })
            .find(|ordering| ordering.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// Sorts documents; equal ones keep their order.
    ///
    /// # Errors
    /// As [`Self::values`].
    pub fn sort(&self, documents: Vec<Document>) -> Result<Vec<Document>, QueryError> {
        if self.keys.is_empty() {
            let mut documents = documents;
            if self.natural == Some(Direction::Backward) {
                documents.reverse();
            }
            return Ok(documents);
        }
        let keyed = documents.into_iter().map(|document| Ok((self.values(&document)?, document)));
        let mut keyed = keyed.collect::<Result<Vec<(Vec<Bson>, Document)>, QueryError>>()?;
        keyed.sort_by(|left, right| self.compare_values(&left.0, &right.0));
        Ok(keyed.into_iter().map(|(_, document)| document).collect())
    }
}

/// Two keys have arrays.
struct Parallel;

impl From<ParallelArrays> for Parallel {
    fn from(_: ParallelArrays) -> Self {
        Self
    }
}

fn sort_value(document: &Document, key: &SortKey) -> Bson {
    let mut best: Option<&Bson> = None;
    path::visit_index_values(document, &key.path, &mut |value| {
        let candidate = value.unwrap_or(&Bson::Null);
        let better = best.is_none_or(|best| {
            let ordering = order::compare(candidate, best);
            if key.descending { ordering.is_gt() } else { ordering.is_lt() }
        });
        if better {
            best = Some(candidate);
        }
    });
    best.cloned().unwrap_or(Bson::Null)
}

#[cfg(test)]
mod tests;
