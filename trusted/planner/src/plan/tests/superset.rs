//! A plan finds every document that matches: checked on the bytes a store would look up, against the filter.

use super::super::*;
use super::generate;
use crate::access::{KeyBounds, RangeAccess};
use crate::terms::{equality_bytes, terms};
use arras_documents::filter::Filter;
use arras_documents::order;
use arras_service::store::AggregateFunction;
use bson::{Bson, Document};
use proptest::prelude::*;
use std::cmp::Ordering;

/// Marks indexes by the documents in them, as a store does.
fn with_documents(mut indexes: Vec<IndexState>, documents: &[Document]) -> Vec<IndexState> {
    for state in &mut indexes {
        for document in documents {
            let terms = terms(document, &state.index, state.sparse).unwrap();
            state.multikey |= terms.multikey;
            assert!(terms.multikey || terms.tuples.len() <= 1, "several terms without an array");
            if let Some(layout) = state.index.layout() {
                state.inexact |= terms.tuples.iter().any(|term| !layout.key(term).exact);
            }
        }
    }
    indexes
}

fn state(indexes: &[IndexState], id: IndexId) -> &IndexState {
    indexes.iter().find(|state| state.id == id).unwrap()
}

fn terms_of(document: &Document, state: &IndexState) -> Vec<Vec<Bson>> {
    terms(document, &state.index, state.sparse).unwrap().tuples
}

fn keys_of(document: &Document, state: &IndexState) -> Vec<Vec<u8>> {
    let layout = state.index.layout().unwrap();
    terms_of(document, state).iter().map(|term| layout.key(term).bytes).collect()
}

fn within(keys: &[Vec<u8>], bounds: Option<&KeyBounds>) -> bool {
    bounds.is_some_and(|bounds| keys.iter().any(|key| *key >= bounds.lower && *key <= bounds.upper))
}

/// Counts of entries that mean nothing: a plan is right whatever they say.
#[derive(Debug)]
struct Anything(u64);

impl Anything {
    fn number(&self, about: &impl std::fmt::Debug) -> Option<u64> {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (self.0, format!("{about:?}")).hash(&mut hasher);
        let number = hasher.finish() % 100_000;
        (!number.is_multiple_of(3)).then_some(number)
    }
}

impl Entries for Anything {
    fn of_terms(&self, index: IndexId, terms: &[Vec<Bson>]) -> Option<u64> {
        self.number(&(index, terms))
    }

    fn between(&self, index: IndexId, bounds: &KeyBounds) -> Option<u64> {
        self.number(&(index, bounds))
    }
}

/// Would a store find the document by this access?
fn finds(access: &Access, document: &Document, indexes: &[IndexState]) -> bool {
    match access {
        Access::Scan => true,
        // No filter here asks for words.
        Access::Text => false,
        Access::Rows { ids } => {
            let id = order::canonical(document.get("_id").unwrap());
            ids.iter().any(|wanted| order::canonical(wanted) == id)
        }
        Access::Eq { index, values } | Access::Unique { index, values } => {
            let terms = terms_of(document, state(indexes, *index));
            values.iter().any(|value| terms.iter().any(|term| equality_bytes(term) == equality_bytes(value)))
        }
        Access::Range(range) => {
            let state = state(indexes, range.index);
            within(&keys_of(document, state), range.key_bounds(&state.index).as_ref())
        }
        Access::Union(branches) => branches.iter().any(|branch| finds(branch, document, indexes)),
    }
}

/// Documents that all indexes take.
fn taken(documents: &[Document], indexes: &[IndexState]) -> Vec<Document> {
    let takes = |document: &Document, state: &IndexState| terms(document, &state.index, state.sparse).is_ok();
    let taken = documents.iter().filter(|document| indexes.iter().all(|state| takes(document, state)));
    taken.cloned().collect()
}

fn check(documents: &[Document], filter: &Document, indexes: Vec<IndexState>) -> Result<(), TestCaseError> {
    let documents = &taken(documents, &indexes);
    let indexes = with_documents(indexes, documents);
    let Ok(parsed) = Filter::parse(filter) else {
        return Ok(());
    };
    let (sort, statistics) = (Sort::default(), Statistics::default());
    // Plans with every subset of one, too: a rarely chosen index must be as right as the favourite.
    let mut sets: Vec<Vec<IndexState>> = indexes.iter().map(|state| vec![state.clone()]).collect();
    sets.push(indexes);
    for (seed, indexes) in sets.into_iter().enumerate() {
        let planner = Planner { entries: &Anything(seed as u64), ..Planner::new(&indexes, &statistics) };
        let plan = planner.plan(Request { filter: parsed.expr(), sort: &sort, limit: None }).unwrap();
        let count = [Aggregate { name: "n".to_owned(), function: AggregateFunction::Count }];
        let counted = planner.plan_aggregates(parsed.expr(), &count);
        for document in documents {
            let matches = parsed.matches(document).unwrap();
            let found = finds(&plan.access, document, &indexes);
            prop_assert!(found || !matches, "lost {document}\nfilter {filter}\n{plan:#?}\n{indexes:#?}");
            if plan.covers_filter {
                prop_assert!(matches || !found, "not exact: {document}\nfilter {filter}\n{plan:#?}");
            }
            if let Some(plan) = &counted {
                let state = state(&indexes, plan.range.index);
                let bounds = plan.range.key_bounds(&state.index);
                let inside = within(&keys_of(document, state), bounds.as_ref());
                prop_assert_eq!(inside, matches, "miscounted {}\nfilter {}\n{:#?}", document, filter, plan);
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_match_is_found_whatever_the_documents_hold(case in generate::case(true)) {
        check(&case.documents, &case.filter, case.indexes)?;
    }

    #[test]
    fn every_match_is_found_and_counted_without_arrays(case in generate::case(false)) {
        check(&case.documents, &case.filter, case.indexes)?;
    }

    #[test]
    fn an_index_in_order_gives_the_order_of_the_sort(
        (case, keys) in prop_oneof![3 => generate::case(false).boxed(), 1 => generate::case(true).boxed()]
            .prop_flat_map(|case| {
                let sort = generate::sort(&case.indexes);
                (Just(case), sort)
            }),
    ) {
        let generate::Case { documents, filter, indexes } = case;
        let documents = taken(&documents, &indexes);
        let indexes = with_documents(indexes, &documents);
        let sort = Sort::parse(&keys).unwrap();
        let Ok(filter) = Filter::parse(&filter) else { return Ok(()) };
        let statistics = Statistics::default();
        for state in &indexes {
            let one = std::slice::from_ref(state);
            let planner = Planner::new(one, &statistics);
            let plan = planner.plan(Request { filter: filter.expr(), sort: &sort, limit: Some(2) }).unwrap();
            let Some(_) = plan.order else { continue };
            let ranges: Vec<&RangeAccess> = match &plan.access {
                Access::Range(range) => vec![range],
                Access::Union(branches) => branches.iter().map(range_of).collect(),
                other => panic!("{other:?} has no order"),
            };
            let read = read_in_order(&ranges, &documents, state, &sort);
            let matching: Vec<&&Document> = read.iter().filter(|document| filter.matches(document).unwrap()).collect();
            let in_order = matching.windows(2).all(|pair| sort.compare(pair[0], pair[1]) != Ordering::Greater);
            prop_assert!(in_order, "sort {keys}\n{matching:#?}\n{plan:#?}\n{state:#?}");
            let expected = documents.iter().filter(|document| filter.matches(document).unwrap()).count();
            prop_assert_eq!(matching.len(), expected, "lost one in sort {}", keys);
        }
    }
}

fn range_of(access: &Access) -> &RangeAccess {
    match access {
        Access::Range(range) => range,
        other => panic!("{other:?} has no order"),
    }
}

/// Reads ranges as a store does: side by side in key order from one end, each run of undecided documents sorted.
fn read_in_order<'d>(
    ranges: &[&RangeAccess],
    documents: &'d [Document],
    state: &IndexState,
    sort: &Sort,
) -> Vec<&'d Document> {
    let range = ranges[0];
    let mut entries: Vec<(Vec<u8>, &Document)> = Vec::new();
    for range in ranges {
        let bounds = range.key_bounds(&state.index);
        let all = documents
            .iter()
            .flat_map(|document| keys_of(document, state).into_iter().map(move |key| (key, document)));
        entries.extend(all.filter(|(key, _)| within(std::slice::from_ref(key), bounds.as_ref())));
    }
    entries.sort_by(|left, right| {
        range.merge_key(&left.0, &state.index).cmp(range.merge_key(&right.0, &state.index))
    });
    if range.order.unwrap().descending {
        entries.reverse();
    }
    let mut read: Vec<&Document> = Vec::new();
    for (_, document) in entries {
        // Values of a list may have one key.
        if !read.iter().any(|earlier| std::ptr::eq(*earlier, document)) {
            read.push(document);
        }
    }
    let run = |document: &Document| range.run(document, &state.index);
    read.chunk_by_mut(|left, right| run(left) == run(right))
        .for_each(|run| run.sort_by(|left, right| sort.compare(left, right)));
    read
}
