//! The fewest documents that any single plan fetches, by carrying each out on the plaintext: a scan, each index by each
//! of its prefixes that the query bounds, each index in its order if that is the query's, and for each alternative of
//! an `$or` the best of those.

use super::data::Index;
use super::shapes::{Kind, Shape};
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use bson::{Bson, Document};
use std::collections::BTreeSet;

/// The best plan.
#[derive(Clone, Debug)]
pub(super) struct Best {
    pub(super) plan: String,
    pub(super) fetched: u64,
    /// Documents that match, up to the limit.
    pub(super) results: u64,
}

/// What an index does for a filter.
struct Use<'i> {
    index: &'i Index,
    /// The part of the filter that bounds the search.
    bounds: Document,
    /// Fields from the first on that have values, not a range.
    fixed: usize,
}

fn matching<'d>(data: &[&'d Document], filter: &Document) -> Vec<&'d Document> {
    let Ok(filter) = Filter::parse(filter) else { return Vec::new() };
    data.iter().copied().filter(|document| filter.matches(document).unwrap_or(false)).collect()
}

fn is_range(condition: &Bson) -> bool {
    condition.as_document().is_some_and(|operators| !operators.contains_key("$in"))
}

impl<'i> Use<'i> {
    fn of(index: &'i Index, filter: &Document) -> Self {
        let (mut bounds, mut fixed) = (Document::new(), 0);
        for field in index.fields {
            let Some(condition) = filter.get(field) else { break };
            bounds.insert(*field, condition.clone());
            if is_range(condition) {
                break;
            }
            fixed += 1;
        }
        Self { index, bounds, fixed }
    }

    /// Whether its entries come in the order of a sort by one field.
    fn gives(&self, sort: &Document) -> bool {
        let wanted = sort.keys().next().map(String::as_str);
        wanted.is_some() && self.index.fields.get(self.fixed).copied() == wanted
    }
}

/// The best plan of a query.
pub(super) fn best(shape: &Shape, data: &[Document], indexes: &[Index]) -> Best {
    let all: Vec<&Document> = data.iter().collect();
    let matches = matching(&all, &shape.filter);
    let (sort, limit) = match &shape.kind {
        Kind::Find { sort, limit } => (sort.clone(), *limit),
        Kind::Count => (Document::new(), None),
    };
    let wanted = limit.map_or(usize::MAX, |limit| limit as usize);
    let mut plans = vec![("scan".to_owned(), until(&all, &shape.filter, &sort, false, wanted))];
    for index in indexes {
        let used = Use::of(index, &shape.filter);
        let gives = used.gives(&sort);
        if used.bounds.is_empty() && !(gives && limit.is_some()) {
            continue;
        }
        let found = matching(&all, &used.bounds);
        // What an index answers whole, it counts.
        let counted = matches!(shape.kind, Kind::Count) && used.bounds.len() == shape.filter.len();
        let fetched = if counted { 0 } else { until(&found, &shape.filter, &sort, gives, wanted) };
        plans.push((index.name(), fetched));
    }
    plans.extend(union(shape, &all, indexes));
    let (plan, fetched) = plans.into_iter().min_by_key(|(_, fetched)| *fetched).unwrap_or_default();
    Best { plan, fetched, results: matches.len().min(wanted) as u64 }
}

/// Documents fetched until enough match: all of them, if they do not come in the order asked for.
fn until(found: &[&Document], filter: &Document, sort: &Document, gives: bool, wanted: usize) -> u64 {
    let all = found.len() as u64;
    if wanted == usize::MAX || !(gives || sort.is_empty()) {
        return all;
    }
    let (Ok(filter), Ok(sort)) = (Filter::parse(filter), Sort::parse(sort)) else { return all };
    let owned = found.iter().map(|document| (*document).clone()).collect();
    let Ok(ordered) = sort.sort(owned) else { return all };
    let matches =
        ordered.iter().enumerate().filter(|(_, document)| filter.matches(document).unwrap_or(false));
    matches.take(wanted).last().filter(|_| wanted > 0).map_or(all, |(at, _)| at as u64 + 1)
}

/// An `$or` that is the whole filter: of each alternative the index that finds fewest.
fn union(shape: &Shape, all: &[&Document], indexes: &[Index]) -> Option<(String, u64)> {
    let alternatives = shape.filter.get_array("$or").ok().filter(|_| shape.filter.len() == 1)?;
    let (mut names, mut fetched) = (Vec::new(), BTreeSet::new());
    for alternative in alternatives.iter().filter_map(Bson::as_document) {
        let uses = indexes.iter().map(|index| Use::of(index, alternative));
        let found = uses
            .filter(|used| !used.bounds.is_empty())
            .map(|used| (used.index.name(), matching(all, &used.bounds)));
        let (name, found) = found.min_by_key(|(_, found)| found.len())?;
        names.push(name);
        fetched.extend(found.iter().filter_map(|document| document.get_i64("_id").ok()));
    }
    Some((names.join(" and "), fetched.len() as u64))
}
