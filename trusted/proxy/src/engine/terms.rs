//! What an index holds for a document.

use super::index::Part;
use arras_documents::accumulate::NumberSum;
use arras_documents::{keys, order, path};
use arras_planner::physical::PhysicalIndex;
use bson::{Bson, Document};
use std::collections::{BTreeMap, BTreeSet};

/// Most entries one document may have in one index.
const ENTRIES_MAX: usize = 10_000;

/// A document's entries in one index.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Equality and unique indexes: canonical values (of all fields, length-prefixed, for compound ones).
    pub values: BTreeSet<Vec<u8>>,
    /// Range indexes: keys, and the values summed under each.
    pub keys: BTreeMap<Vec<u8>, Vec<NumberSum>>,
    /// The document has an array on the way to an indexed value.
    pub multikey: bool,
    /// A key stands for more than one value.
    pub inexact: bool,
}

/// A document has too many values for one index.
#[derive(Clone, Debug, thiserror::Error)]
#[error("a document has more than {ENTRIES_MAX} entries for one index")]
pub struct TooManyEntries;

/// The entries of `document` in `part`.
///
/// # Errors
/// [`TooManyEntries`].
pub fn of<C>(part: &Part<C>, document: &Document) -> Result<Terms, TooManyEntries> {
    let fields = part.physical.fields();
    match &part.physical {
        PhysicalIndex::Unique { .. } | PhysicalIndex::Eq { .. } => values(&fields, part.sparse, document),
        PhysicalIndex::Range { sums, width, .. } => {
            let body_bytes = usize::from(width.component_bytes()) - keys::TAG_BYTES;
            range_keys(&fields, sums, body_bytes, part.sparse, document)
        }
    }
}

/// Joins the canonical values of a compound term so that different tuples never meet.
pub fn join<'v>(values: impl IntoIterator<Item = &'v [u8]>) -> Vec<u8> {
    let mut joined = Vec::new();
    for value in values {
        joined.extend_from_slice(&u32::try_from(value.len()).unwrap_or(u32::MAX).to_be_bytes());
        joined.extend_from_slice(value);
    }
    joined
}

/// Indexed values at a path, and whether an array was met on the way.
fn found(document: &Document, field: &str) -> (Vec<Option<Bson>>, bool) {
    let mut found = Vec::new();
    path::visit_index_values(document, field, &mut |value| found.push(value.cloned()));
    let plain = found.len() == 1 && !path_has_array(document, field);
    (found, !plain)
}

fn path_has_array(document: &Document, field: &str) -> bool {
    let mut here = document;
    let mut components = field.split('.').peekable();
    while let Some(component) = components.next() {
        match here.get(component) {
            Some(Bson::Array(_)) => return true,
            Some(Bson::Document(next)) if components.peek().is_some() => here = next,
            _ => return false,
        }
    }
    false
}

fn canonical(value: Option<&Bson>) -> Vec<u8> {
    order::canonical(value.unwrap_or(&Bson::Null))
}

/// Every combination of the values of `fields`, encoded by `encode`. Empty if the index is sparse and the
/// document has none of the fields.
fn combinations(
    fields: &[&str],
    sparse: bool,
    document: &Document,
    encode: &mut dyn FnMut(Option<&Bson>) -> Vec<u8>,
) -> Result<(Vec<Vec<Vec<u8>>>, bool), TooManyEntries> {
    let mut tuples: Vec<Vec<Vec<u8>>> = vec![Vec::new()];
    let (mut multikey, mut present) = (false, false);
    for field in fields {
        let (values, array) = found(document, field);
        multikey |= array;
        present |= values.iter().any(Option::is_some);
        let values: BTreeSet<Vec<u8>> = values.iter().map(|value| encode(value.as_ref())).collect();
        if tuples.len().saturating_mul(values.len()) > ENTRIES_MAX {
            return Err(TooManyEntries);
        }
        let longer = |tuple: Vec<Vec<u8>>| {
            values.iter().map(move |value| [tuple.as_slice(), std::slice::from_ref(value)].concat())
        };
        tuples = tuples.into_iter().flat_map(longer).collect();
    }
    if sparse && !present {
        tuples.clear();
    }
    Ok((tuples, multikey))
}

fn values(fields: &[&str], sparse: bool, document: &Document) -> Result<Terms, TooManyEntries> {
    let (tuples, multikey) = combinations(fields, sparse, document, &mut canonical)?;
    let values = tuples.iter().map(|tuple| join(tuple.iter().map(Vec::as_slice))).collect();
    Ok(Terms { values, multikey, ..Terms::default() })
}

fn range_keys(
    fields: &[&str],
    sums: &[String],
    body_bytes: usize,
    sparse: bool,
    document: &Document,
) -> Result<Terms, TooManyEntries> {
    let mut inexact = false;
    let mut encode = |value: Option<&Bson>| {
        let key = value.map_or_else(|| keys::missing(body_bytes), |value| keys::encode(value, body_bytes));
        inexact |= !key.exact;
        key.bytes
    };
    let (tuples, multikey) = combinations(fields, sparse, document, &mut encode)?;
    let summed: Vec<NumberSum> = sums.iter().map(|field| summand(document, field)).collect();
    let keys = tuples.into_iter().map(|tuple| (tuple.concat(), summed.clone())).collect();
    Ok(Terms { keys, multikey, inexact, ..Terms::default() })
}

/// What a document adds to the sum of a field: its number there, if it is one.
fn summand(document: &Document, field: &str) -> NumberSum {
    let mut sum = NumberSum::default();
    let components: Vec<&str> = field.split('.').collect();
    if let Some(value) = path::exact(document, &components) {
        sum.add(value);
    }
    sum
}
