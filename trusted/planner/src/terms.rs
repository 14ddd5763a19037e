//! What a document contributes to an index: the contract between writes and plans.
//!
//! A *term* is a tuple of values, one for each field of the index. A field's values are what the filter's own
//! traversal finds at its path, with
//! * an array's elements one by one (the index is then *multikey*), an empty array as `Undefined`;
//! * null for a missing field and for the deprecated `Undefined`.
//!
//! Several fields with several values make every combination; in a unique index and in one with an order, fields within one array make
//! those of each element, and it is not asked for several fields of elements, which need not be one's. As in MongoDB, arrays of two fields that are not within
//! one array cannot be in one compound index. A document may have [`TERMS_MAX`] terms in an index.
//!
//! A sparse index has no term for a document that lacks all its fields.

use crate::physical::PhysicalIndex;
use arras_documents::elements::{self, ParallelArrays, first_array};
use arras_documents::order;
use arras_documents::path::{self, LeafArray};
use bson::{Bson, Document};
use std::collections::BTreeSet;

/// Most terms a document may have in one index: what a write can hold in memory.
pub const TERMS_MAX: usize = 250_000;

/// A document has too many terms for an index: the application is to blame.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooManyTerms {
    /// One field has too many values.
    #[error(
        "the field '{field}' has {values} values for {index}; a document may have {TERMS_MAX} in one index"
    )]
    Values {
        /// The path of the field, with dots.
        field: String,
        /// How many different values it has, array elements included.
        values: usize,
        /// The index as plans show it: its kind and fields.
        index: String,
    },
    /// Several fields have several values, and too many combinations.
    #[error("the fields of {index} have more than {TERMS_MAX} combinations of values")]
    Combinations {
        /// The index as plans show it: its kind and fields.
        index: String,
    },
    /// Two fields have arrays that are not within one array (MongoDB's error 171).
    #[error("cannot index parallel arrays [{right}] [{left}]")]
    ParallelArrays {
        /// Path of one array.
        left: String,
        /// Path of the other.
        right: String,
    },
}

impl From<ParallelArrays> for TooManyTerms {
    fn from(ParallelArrays { left, right }: ParallelArrays) -> Self {
        Self::ParallelArrays { left, right }
    }
}

/// No fewer terms than a document has in an index, counted without making them: what a write of it may come to.
#[must_use]
pub fn terms_at_most(document: &Document, index: &PhysicalIndex) -> usize {
    // An element of an array that lacks a field has null.
    let lacking = usize::from(shares_arrays(index));
    let values = |field: &str| {
        let mut count = lacking;
        path::any(document, field, LeafArray::Whole, &mut |at| {
            count = count.saturating_add(match at.value {
                Some(Bson::Array(elements)) => elements.len().max(1),
                _ => 1,
            });
            false
        });
        count.max(1)
    };
    index.fields().into_iter().fold(1, |product, field| product.saturating_mul(values(field)))
}

/// A document's terms in one index.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    /// The terms, without duplicates, in no order that means anything.
    pub tuples: Vec<Vec<Bson>>,
    /// The document makes the index multikey: it has an array on the way to, or at, one of the fields. The store
    /// counts such documents durably, and plans with it while there are any.
    pub multikey: bool,
}

/// The terms of a document.
///
/// # Errors
/// [`TooManyTerms`].
pub fn terms(document: &Document, index: &PhysicalIndex, sparse: bool) -> Result<Terms, TooManyTerms> {
    refuse_parallel_arrays(document, index)?;
    let fields = index.fields();
    if !shares_arrays(index) {
        let found = fields.iter().map(|field| field_values(document, field)).collect();
        return combinations(index, found, sparse);
    }
    let multikey = fields.iter().any(|field| passes_array(document, field));
    let mut all = Terms { tuples: Vec::new(), multikey };
    // Equal ones are made, too, and cost as much.
    let (mut seen, mut made) = (BTreeSet::new(), 0_usize);
    elements::each(&fields, &vec![document; fields.len()], &mut |places| {
        let found =
            fields.iter().zip(places).map(|(field, document)| field_values(document, field)).collect();
        let terms = combinations(index, found, sparse)?;
        made = made.saturating_add(terms.tuples.len());
        if made > TERMS_MAX {
            return Err(TooManyTerms::Combinations { index: index.to_string() });
        }
        all.multikey |= terms.multikey;
        all.tuples.extend(terms.tuples.into_iter().filter(|tuple| seen.insert(equality_bytes(tuple))));
        Ok(())
    })?;
    Ok(all)
}

/// Whether several fields of an index may lie within one array whose elements have terms of their own.
#[must_use]
pub fn shares_arrays(index: &PhysicalIndex) -> bool {
    let fields = index.fields();
    let several = (1..fields.len()).any(|at| may_share_an_array(fields[at], &fields[..at]));
    several && !matches!(index, PhysicalIndex::Eq { .. })
}

/// Whether a field may lie within one array with one of some others.
#[must_use]
pub fn may_share_an_array(field: &str, others: &[&str]) -> bool {
    let root = |field: &str| field.find('.').unwrap_or(field.len());
    others.iter().any(|other| other.get(..root(other)) == field.get(..root(field)))
}

/// All combinations of what the fields of an index have.
fn combinations(index: &PhysicalIndex, found: Vec<FieldValues>, sparse: bool) -> Result<Terms, TooManyTerms> {
    let mut tuples: Vec<Vec<Bson>> = vec![Vec::new()];
    let (mut multikey, mut present) = (false, false);
    for (field, found) in index.fields().into_iter().zip(found) {
        multikey |= found.multikey;
        present |= found.present;
        if tuples.len().saturating_mul(found.values.len()) > TERMS_MAX {
            let (index, values) = (index.to_string(), found.values.len());
            return Err(if tuples.len() > 1 && values > 1 {
                TooManyTerms::Combinations { index }
            } else {
                TooManyTerms::Values { field: field.to_owned(), values: values.max(tuples.len()), index }
            });
        }
        let longer = |tuple: &Vec<Bson>| {
            let tuple = tuple.clone();
            found.values.iter().map(move |value| tuple.iter().chain([value]).cloned().collect())
        };
        tuples = tuples.iter().flat_map(longer).collect();
    }
    if sparse && !present {
        tuples.clear();
    }
    Ok(Terms { tuples, multikey })
}

/// What [`terms`] would refuse, without making them.
///
/// # Errors
/// [`TooManyTerms`].
pub fn check(document: &Document, index: &PhysicalIndex) -> Result<(), TooManyTerms> {
    refuse_parallel_arrays(document, index)?;
    // More than there are, where some are equal; and what lies within one array has to be looked at.
    let looks_within =
        shares_arrays(index) && index.fields().iter().any(|field| passes_array(document, field));
    if looks_within || terms_at_most(document, index) > TERMS_MAX {
        terms(document, index, false)?;
    }
    Ok(())
}

struct FieldValues {
    values: Vec<Bson>,
    multikey: bool,
    present: bool,
}

fn field_values(document: &Document, field: &str) -> FieldValues {
    let mut found = FieldValues { values: Vec::new(), multikey: false, present: false };
    let mut seen = BTreeSet::new();
    let (mut visits, mut folded) = (0_usize, false);
    path::any(document, field, LeafArray::Whole, &mut |at| {
        visits += 1;
        found.present |= at.value.is_some();
        let mut keep = |value: &Bson| {
            // Undefined sorts below null: folding it into null is harmless but for order, which a multikey
            // index does not promise.
            folded |= matches!(value, Bson::Undefined);
            let value = if matches!(value, Bson::Undefined) { &Bson::Null } else { value };
            if seen.insert(order::canonical(value)) {
                found.values.push(value.clone());
            }
        };
        match at.value {
            None => keep(&Bson::Null),
            Some(Bson::Array(elements)) => {
                elements.iter().for_each(&mut keep);
                found.multikey = true;
                if elements.is_empty() && seen.insert(order::canonical(&Bson::Undefined)) {
                    found.values.push(Bson::Undefined);
                }
            }
            Some(value) => keep(value),
        }
        false
    });
    if visits == 0 {
        found.values.push(Bson::Null);
    }
    // Anything but one visit, or a visit through an array, needed an array.
    found.multikey |= folded || visits != 1 || passes_array(document, field);
    found
}

fn refuse_parallel_arrays(document: &Document, index: &PhysicalIndex) -> Result<(), TooManyTerms> {
    let fields = index.fields();
    if fields.len() < 2 {
        return Ok(());
    }
    let mut arrays = fields.into_iter().filter_map(|field| first_array(document, field));
    let Some(first) = arrays.next() else { return Ok(()) };
    match arrays.find(|other| *other != first) {
        Some(other) => Err(TooManyTerms::ParallelArrays { left: first.to_owned(), right: other.to_owned() }),
        None => Ok(()),
    }
}

/// Is there an array on the way to a field (at its end not counted)?
fn passes_array(document: &Document, field: &str) -> bool {
    let mut document = document;
    let mut rest = field;
    while let Some((name, after)) = rest.split_once('.') {
        match document.get(name) {
            Some(Bson::Document(inner)) => {
                document = inner;
                rest = after;
            }
            Some(Bson::Array(_)) => return true,
            _ => return false,
        }
    }
    false
}

/// The bytes under which an equality index knows a term: equal terms have equal bytes and others do not.
#[must_use]
pub fn equality_bytes(term: &[Bson]) -> Vec<u8> {
    // Canonical encodings are prefix free, so their concatenation is unambiguous.
    term.iter().flat_map(order::canonical).collect()
}

/// A term's key in a range index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeKey {
    /// The parts ([`crate::keys::KeyLayout`]), one after the other; [`PhysicalIndex::key_bytes`] long.
    pub bytes: Vec<u8>,
    /// No part lost anything of its value. The store counts documents with an inexact key durably, and
    /// plans with it while there are any.
    pub exact: bool,
}

#[cfg(test)]
mod tests;
