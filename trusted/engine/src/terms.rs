//! What an index holds for a document: the planner's terms as bytes.

use super::index::IndexPart;
use arras_documents::accumulate::{self, NumberSum};
use arras_documents::path;
use arras_planner::physical::PhysicalIndex;
use arras_planner::terms::{TooManyTerms, equality_bytes, terms};
use arras_schemes::contract::Terms;
use bson::Document;

/// A document's entries in one index.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    /// Equality and unique indexes: canonical values; range indexes: keys, and the numbers summed under each.
    pub(super) terms: Terms,
    /// The document has an array on the way to an indexed value.
    pub(super) multikey: bool,
    /// A key stands for more than one value.
    pub(super) inexact: bool,
}

/// The entries of `document` in `part`.
///
/// # Errors
/// [`TooManyTerms`].
pub(super) fn of(part: &IndexPart, document: &Document) -> Result<Entries, TooManyTerms> {
    let found = terms(document, &part.physical, part.sparse)?;
    let mut entries = Entries { multikey: found.multikey, ..Entries::default() };
    match (&part.physical, part.physical.layout()) {
        (PhysicalIndex::Range { aggregates, .. }, Some(layout)) => {
            let sums = aggregates.as_deref().unwrap_or_default();
            let summed: Vec<NumberSum> = sums.iter().map(|field| summand(document, field)).collect();
            for term in &found.tuples {
                let key = layout.key(term);
                entries.inexact |= !key.exact;
                entries.terms.insert(key.bytes, summed.clone());
            }
        }
        _ => entries.terms = found.tuples.iter().map(|term| (equality_bytes(term), Vec::new())).collect(),
    }
    Ok(entries)
}

/// What a document adds to the sum of a field: its number there, if it is one.
fn summand(document: &Document, field: &str) -> NumberSum {
    let mut sum = NumberSum::default();
    let components: Vec<&str> = field.split('.').collect();
    if let Some(value) = path::exact(document, &components) {
        accumulate::add_value(&mut sum, value);
    }
    sum
}

#[cfg(test)]
mod tests;
