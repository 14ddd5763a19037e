//! Plans by example, and the property that matters most: a plan finds every document that matches.

#![allow(clippy::unwrap_used)]

mod generate;
mod superset;

use super::*;
use crate::physical::KeyWidth;
use arras_documents::filter::Filter;
use arras_service::ServiceError;
use arras_service::store::AggregateFunction;
use bson::{Bson, Document, doc};

pub(super) fn names(fields: &[&str]) -> Vec<String> {
    fields.iter().map(|field| (*field).to_owned()).collect()
}

/// Indexes in the paper's notation, split at blanks: `Eq(a,b)`, `Range(a,b)`, `Unique(a)`.
pub(super) fn indexes(text: &str) -> Vec<IndexState> {
    let state = |(number, word): (usize, &str)| {
        let (kind, fields) = word.trim_end_matches(')').split_once('(').unwrap();
        let fields: Vec<String> = fields.split(',').map(str::to_owned).collect();
        let index = match kind {
            "Eq" => PhysicalIndex::Eq { fields },
            "Unique" => PhysicalIndex::Unique { fields },
            _ => PhysicalIndex::range(&fields, KeyWidth::Bits128, None).unwrap(),
        };
        let id = IndexId([number as u8; 8]);
        IndexState::new(id, word.to_owned(), index)
    };
    text.split_whitespace().enumerate().map(state).collect()
}

pub(super) fn plan(indexes: &[IndexState], filter: Document, sort: Document, limit: Option<u64>) -> Plan {
    try_plan(indexes, ScanPolicy::Allow, filter, sort, limit).unwrap()
}

pub(super) fn try_plan(
    indexes: &[IndexState],
    scan: ScanPolicy,
    filter: Document,
    sort: Document,
    limit: Option<u64>,
) -> Result<Plan, PlanError> {
    let filter = Filter::parse(&filter).unwrap();
    let sort = Sort::parse(&sort).unwrap();
    let statistics = Statistics::default();
    let planner = Planner { scan, ..Planner::new(indexes, &statistics) };
    planner.plan(Request { filter: filter.expr(), sort: &sort, limit })
}

/// Names of the indexes a plan uses, or the kind of access that has none.
fn used(indexes: &[IndexState], plan: &Plan) -> String {
    match &plan.access {
        Access::Scan => "scan".to_owned(),
        Access::Text => "text".to_owned(),
        Access::Rows { ids } => format!("rows {}", ids.len()),
        access => {
            let name = |id: &IndexId| indexes.iter().find(|state| state.id == *id).unwrap().name.clone();
            access.indexes().iter().map(name).collect::<Vec<_>>().join(" ")
        }
    }
}

#[test]
fn each_filter_takes_the_index_that_leaks_least_and_keeps_the_promise() {
    let cases: &[(&str, Document, &str)] = &[
        ("Eq(a) Range(a)", doc! {"a": 1}, "Eq(a)"),
        ("Range(a)", doc! {"a": 1}, "Range(a)"),
        ("Eq(a) Range(a)", doc! {"a": {"$gt": 1}}, "Range(a)"),
        ("Eq(a) Eq(a,b) Range(a,b)", doc! {"a": 1, "b": 2}, "Eq(a,b)"),
        ("Eq(a) Range(a,b)", doc! {"a": 1, "b": {"$lt": 2}}, "Range(a,b)"),
        ("Eq(a,b)", doc! {"a": 1}, "scan"),
        ("Range(a,b)", doc! {"a": {"$gte": 1}}, "Range(a,b)"),
        ("Range(a,b)", doc! {"b": 1}, "scan"),
        ("Eq(a) Unique(u)", doc! {"a": 1, "u": 2}, "Unique(u)"),
        ("Eq(a) Range(b)", doc! {"a": 1, "b": {"$gt": 2}}, "Eq(a)"),
        ("Eq(a)", doc! {"_id": {"$in": [1, 2]}, "a": 1}, "rows 2"),
        ("Eq(a)", doc! {"a": {"$in": [1, 2, null]}}, "Eq(a)"),
        ("Eq(a) Eq(b)", doc! {"$or": [{"a": 1}, {"b": 1}]}, "Eq(a) Eq(b)"),
        ("Eq(a)", doc! {"$or": [{"a": 1}, {"b": 1}]}, "scan"),
        ("Eq(a) Eq(a,b)", doc! {"a": 1, "$or": [{"b": 1}, {"b": 2}]}, "Eq(a,b)"),
        ("Eq(c) Eq(a) Range(b)", doc! {"c": 0, "$or": [{"a": 1}, {"b": {"$gt": 1}}]}, "Eq(c)"),
        ("Eq(a) Range(a)", doc! {"a": {"$ne": 1}}, "scan"),
        ("Eq(a) Range(a)", doc! {"a": {"$exists": true}}, "scan"),
        ("Eq(a) Range(a)", doc! {"a": {"$not": {"$gt": 1}}}, "scan"),
        ("Eq(a) Range(a)", doc! {"$nor": [{"a": 1}]}, "scan"),
        ("Eq(a) Range(a)", doc! {"a": {"$regex": "^ab"}}, "Range(a)"),
        ("Eq(a) Range(a)", doc! {"a": {"$regex": "ab"}}, "scan"),
        ("Eq(a) Range(a)", doc! {"a": {"$regex": "^ab", "$options": "i"}}, "scan"),
        ("Range(a.b)", doc! {"a": {"$elemMatch": {"b": {"$gt": 1}, "c": 2}}}, "Range(a.b)"),
        ("Range(a.0)", doc! {"a": {"$elemMatch": {"0": 1}}}, "scan"),
        ("Range(a.b)", doc! {"a": {"$elemMatch": {"b": null}}}, "scan"),
        ("Eq(c) Eq(a,c)", doc! {"c": 0, "$or": [{"a": 1}, {"b": 1}]}, "Eq(c)"),
        ("Eq(a,c) Eq(b,c)", doc! {"c": 0, "$or": [{"a": 1}, {"b": 1}]}, "Eq(a,c) Eq(b,c)"),
        ("Range(a)", doc! {}, "scan"),
    ];
    for (text, filter, expected) in cases {
        let indexes = indexes(text);
        let plan = plan(&indexes, filter.clone(), doc! {}, None);
        assert_eq!(used(&indexes, &plan), *expected, "{text}: {filter}");
    }
}

#[test]
fn a_limit_in_index_order_is_used_where_it_stops_the_search() {
    let cases: &[(&str, Document, Document, &str, bool)] = &[
        ("Range(a)", doc! {}, doc! {"a": 1}, "Range(a)", true),
        ("Range(a)", doc! {"a": {"$gt": 1}}, doc! {"a": -1}, "Range(a)", true),
        ("Eq(a) Range(a,b)", doc! {"a": 1}, doc! {"b": -1}, "Range(a,b)", true),
        ("Eq(a) Range(a,b)", doc! {"a": 1, "c": 1}, doc! {"b": 1}, "Range(a,b)", true),
        ("Eq(a) Range(b)", doc! {"a": 1}, doc! {"b": 1}, "Eq(a)", false),
        ("Range(b)", doc! {"a": 1}, doc! {"b": 1}, "Range(b)", true),
        ("Range(a,b)", doc! {}, doc! {"a": 1, "b": -1}, "Range(a,b)", true),
        ("Range(a,b)", doc! {}, doc! {"b": 1}, "scan", false),
        ("Range(a)", doc! {"a": {"$in": [1, 2]}}, doc! {"a": 1}, "Range(a)", true),
        ("Range(a,b)", doc! {"a": {"$in": [1, 2]}}, doc! {"b": 1}, "Range(a,b)", true),
        (
            "Range(a,b)",
            doc! {"a": {"$in": [1, 2]}, "b": {"$gt": 0}},
            doc! {"a": 1, "b": 1},
            "Range(a,b)",
            false,
        ),
    ];
    for (text, filter, sort, expected, ordered) in cases {
        let indexes = indexes(text);
        let plan = plan(&indexes, filter.clone(), sort.clone(), Some(10));
        assert_eq!(
            (used(&indexes, &plan), plan.order.is_some()),
            (expected.to_string(), *ordered),
            "{text}: {filter}"
        );
    }
}

#[test]
fn an_index_with_lost_values_arrays_or_gaps_serves_less_of_an_order() {
    let mut inexact = indexes("Range(a,b)");
    let fields = |plan: Plan| plan.order.unwrap().field_count;
    assert_eq!(fields(plan(&inexact, doc! {}, doc! {"a": 1, "b": 1}, Some(10))), 2);
    inexact[0].inexact = true;
    // "a" and "a\0" have one key: what follows them in it is in no order.
    assert_eq!(fields(plan(&inexact, doc! {}, doc! {"a": 1, "b": 1}, Some(10))), 1);
    let mut multikey = indexes("Range(a)");
    multikey[0].multikey = true;
    assert_eq!(plan(&multikey, doc! {}, doc! {"a": 1}, Some(10)).access, Access::Scan);
    let mut sparse = indexes("Range(a)");
    sparse[0].sparse = true;
    assert_eq!(plan(&sparse, doc! {}, doc! {"a": 1}, Some(10)).access, Access::Scan);
    assert!(plan(&sparse, doc! {"a": {"$gt": 0}}, doc! {"a": 1}, Some(10)).order.is_some());
}

#[test]
fn order_by_limit_over_a_whole_index_leaks_the_limit_and_no_rank() {
    let indexes = indexes("Range(a)");
    let whole = plan(&indexes, doc! {}, doc! {"a": 1}, Some(10));
    assert!(whole.leaks.contains(&Pattern::Limit) && !whole.leaks.contains(&Pattern::BucketRank));
    let part = plan(&indexes, doc! {"a": {"$gt": 1}}, doc! {"a": 1}, Some(10));
    assert!(part.leaks.contains(&Pattern::Limit) && part.leaks.contains(&Pattern::BucketRank));
    assert_eq!(plan(&[], doc! {"a": 1}, doc! {}, None).leaks, []);
}

#[test]
fn on_arrays_only_one_bound_is_used_unless_one_element_must_meet_both() {
    let mut indexes = indexes("Range(a)");
    let closed = |plan: &Plan| match &plan.access {
        Access::Range(range) => range.interval.is_closed(),
        other => panic!("{other:?}"),
    };
    let both = || doc! {"a": {"$gt": 1, "$lt": 5}};
    assert!(closed(&plan(&indexes, both(), doc! {}, None)));
    indexes[0].multikey = true;
    assert!(!closed(&plan(&indexes, both(), doc! {}, None)));
    assert!(closed(&plan(&indexes, doc! {"a": {"$elemMatch": {"$gt": 1, "$lt": 5}}}, doc! {}, None)));
}

#[test]
fn of_fields_that_may_lie_in_one_array_only_the_first_is_used() {
    let mut indexes = indexes("Range(a.b,a.c) Unique(a.b,a.c)");
    let both = || doc! {"a.b": 1, "a.c": 4};
    let equal = |plan: &Plan| match &plan.access {
        Access::Range(range) => (range.equal.clone(), range.interval.is_closed()),
        other => panic!("{other:?}"),
    };
    assert!(matches!(plan(&indexes, both(), doc! {}, None).access, Access::Unique { .. }));
    indexes.iter_mut().for_each(|state| state.multikey = true);
    assert_eq!(equal(&plan(&indexes, both(), doc! {}, None)), (vec![Bson::Int32(1)], false));
}

#[test]
fn too_many_values_fall_back_to_fewer_fields_or_a_scan() {
    let many: Vec<i32> = (0..200).collect();
    let equalities = indexes("Eq(a) Eq(a,b)");
    let filter = doc! {"a": {"$in": many.clone()}, "b": {"$in": many.clone()}};
    assert_eq!(used(&equalities, &plan(&equalities, filter.clone(), doc! {}, None)), "Eq(a)");
    assert_eq!(plan(&equalities[1..], filter, doc! {}, None).access, Access::Scan);
    let ranges = indexes("Range(a)");
    let searched = |values: std::ops::Range<i32>| {
        let values: Vec<i32> = values.map(|value| value * value).collect();
        match plan(&ranges, doc! {"a": {"$in": values}}, doc! {}, None).access {
            Access::Union(branches) => branches.len(),
            other => panic!("{other:?}"),
        }
    };
    for count in [64, 65, 200] {
        assert_eq!(searched(0..count), count as usize);
    }
    assert_eq!(searched(0..5000), RANGES_MAX, "some hold several values");
}

#[test]
fn statistics_decide_between_equals() {
    let indexes = indexes("Eq(a) Eq(b)");
    let filter = Filter::parse(&doc! {"a": 1, "b": 1}).unwrap();
    for (selective, other) in [("a", "b"), ("b", "a")] {
        let distinct_values = [(selective.to_owned(), 10_000), (other.to_owned(), 2)].into();
        let statistics = Statistics { distinct_values, ..Statistics::default() };
        let planner = Planner::new(&indexes, &statistics);
        let sort = Sort::default();
        let plan = planner.plan(Request { filter: filter.expr(), sort: &sort, limit: None }).unwrap();
        assert_eq!(used(&indexes, &plan), format!("Eq({selective})"));
    }
}

/// Entries of each index, by its place in the list.
#[derive(Debug)]
struct Known(Vec<u64>);

impl Entries for Known {
    fn of_terms(&self, index: IndexId, _: &[Vec<Bson>]) -> Option<u64> {
        self.0.get(usize::from(index.0[0])).copied()
    }

    fn between(&self, index: IndexId, _: &crate::access::KeyBounds) -> Option<u64> {
        self.0.get(usize::from(index.0[0])).copied()
    }
}

#[test]
fn what_is_known_of_entries_decides_and_leakage_among_comparable_plans() {
    let filter = || doc! {"a": 1, "b": {"$gte": 1, "$lt": 9}};
    /// Indexes, filter, sort, limit, entries of each index, leakage ratio, and what is to be used.
    type Case = (&'static str, Document, Document, Option<u64>, &'static [u64], u32, &'static str);
    let cases: &[Case] = &[
        ("Eq(a) Eq(b)", doc! {"a": 1, "b": 1}, doc! {}, None, &[39_000, 1], 2, "Eq(b)"),
        ("Eq(b) Eq(a)", doc! {"a": 1, "b": 1}, doc! {}, None, &[1, 39_000], 2, "Eq(b)"),
        ("Eq(a) Range(b)", filter(), doc! {}, None, &[180_000, 33], 2, "Range(b)"),
        ("Eq(a) Range(b)", filter(), doc! {}, None, &[60, 33], 2, "Eq(a)"),
        ("Eq(a) Range(b)", filter(), doc! {}, None, &[70, 33], 2, "Range(b)"),
        ("Eq(a) Range(b)", filter(), doc! {}, None, &[300, 33], 10, "Eq(a)"),
        ("Eq(a) Range(b)", filter(), doc! {}, None, &[34, 33], 1, "Range(b)"),
        // The same documents, of which one index knows how many there are: not by which estimate is the lower.
        ("Eq(a) Range(a)", doc! {"a": 1}, doc! {}, None, &[100, 8], 2, "Eq(a)"),
        // Nearly all documents pass: read in order until there are ten, rather than all that have the value.
        ("Eq(a) Range(b)", doc! {"a": 1}, doc! {"b": 1}, Some(10), &[98_000, 100_000], 2, "Range(b)"),
        ("Eq(a) Range(b)", doc! {"a": 1}, doc! {"b": 1}, Some(10), &[20, 100_000], 2, "Eq(a)"),
    ];
    for (text, filter, sort, limit, known, leakage_ratio, expected) in cases {
        let (indexes, statistics, known) = (indexes(text), Statistics::default(), Known(known.to_vec()));
        let planner =
            Planner { leakage_ratio: *leakage_ratio, entries: &known, ..Planner::new(&indexes, &statistics) };
        let (filter, sort) = (Filter::parse(filter).unwrap(), Sort::parse(sort).unwrap());
        let plan = planner.plan(Request { filter: filter.expr(), sort: &sort, limit: *limit }).unwrap();
        assert_eq!(used(&indexes, &plan), *expected, "{text} {known:?} {leakage_ratio}");
    }
}

#[test]
fn a_refused_scan_names_the_field_the_operator_and_the_fix() {
    let refused = |filter: Document, sort: Document, limit| {
        let error =
            try_plan(&indexes("Eq(z) Range(y)"), ScanPolicy::Refuse, filter, sort, limit).unwrap_err();
        let error = ServiceError::from(error);
        assert_eq!(error.fault, Fault::NoPlan);
        error.message
    };
    let message = refused(doc! {"age": {"$gt": 1}, "name": "secret name"}, doc! {}, None);
    for word in ["$gt", "'age'", "\"name\": 1, \"age\": 1"] {
        assert!(message.contains(word), "{message}");
    }
    assert!(!message.contains("secret"), "no value of the query: {message}");
    let message = refused(doc! {"tags": {"$size": 2}}, doc! {}, None);
    assert!(message.contains("$size on field 'tags'") && message.contains("scan = \"allow\""), "{message}");
    let message = refused(doc! {}, doc! {"age": 1}, Some(5));
    assert!(message.contains("sort with limit on field 'age'") && message.contains("\"range\""), "{message}");
    let message = refused(doc! {"other": 1}, doc! {"y": 1}, Some(5));
    assert!(message.contains("'other'"), "a walk that checks everything is a scan too: {message}");
    let message = refused(doc! {"$or": [{"z": 1}, {"w": 1}]}, doc! {}, None);
    assert!(message.contains("$eq on field 'z'"), "{message}");
    let allowed = |filter, sort, limit| {
        try_plan(&indexes("Eq(z)"), ScanPolicy::Refuse, filter, sort, limit).unwrap().access
    };
    assert_eq!(allowed(doc! {}, doc! {"age": 1}, None), Access::Scan, "everything is asked for");
    assert!(matches!(allowed(doc! {"z": 1, "w": {"$ne": 1}}, doc! {}, None), Access::Eq { .. }));
    assert_eq!(allowed(doc! {"w": {"$in": []}}, doc! {}, None), Access::Rows { ids: Vec::new() });
}

#[test]
fn a_scan_comes_with_advice() {
    let advice = |filter| plan(&[], filter, doc! {}, None).advice;
    let equal = advice(doc! {"a.b": 1}).unwrap();
    assert!(
        equal.contains("createIndex({\"a.b\": 1})") && equal.contains("operations = [\"eq\"]"),
        "{equal}"
    );
    assert_eq!(advice(doc! {}), None);
}

/// Each piece of advice, its commands carried out, makes the query one that an index serves.
#[test]
fn advice_is_true_and_can_be_pasted() {
    let cases: &[(&str, Document, Document, Option<u64>)] = &[
        ("", doc! {"_id": {"$gt": 3}}, doc! {}, None),
        ("", doc! {"a": 1, "b": {"$lt": 2}}, doc! {}, None),
        ("", doc! {"a": 1}, doc! {"b": -1}, Some(3)),
        ("", doc! {}, doc! {"b": -1}, Some(3)),
        ("Eq(a)", doc! {"$or": [{"a": 1}, {"b": 1}]}, doc! {}, None),
        ("", doc! {"$or": [{"a": 1}, {"b": {"$gt": 1}}, {"a": 2}]}, doc! {}, None),
        ("", doc! {"a": {"$regex": "^ab"}}, doc! {}, None),
    ];
    for (text, filter, sort, limit) in cases {
        let indexes = indexes(text);
        let advice = plan(&indexes, filter.clone(), sort.clone(), *limit).advice.unwrap();
        let commands: Vec<Document> = advice
            .split("createIndex(")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
            .map(|pasted| serde_json::from_str::<Document>(pasted).unwrap())
            .collect();
        assert!(!commands.is_empty(), "{filter}: {advice}");
        let mut with = indexes.clone();
        for (number, key) in commands.into_iter().enumerate() {
            let options = Document::new();
            let request = arras_service::store::IndexDefinition {
                name: "x".to_owned(),
                key,
                unique: false,
                sparse: false,
                options,
            };
            for (kind, index) in crate::request::indexes_for(&request, None).unwrap().into_iter().enumerate()
            {
                let id = IndexId([100 + (10 * number + kind) as u8; 8]);
                let name = index.to_string();
                with.push(IndexState::new(id, name, index));
            }
        }
        let after = plan(&with, filter.clone(), sort.clone(), *limit);
        assert!(after.access != Access::Scan && after.advice.is_none(), "{filter}: {advice}");
    }
    let served = plan(&indexes("Eq(a)"), doc! {"$or": [{"a": 1}, {"b": 1}]}, doc! {}, None).advice.unwrap();
    assert!(!served.contains("\"a\""), "that one is there: {served}");
    let none = plan(&[], doc! {"$or": [{"a": 1}, {"b": {"$size": 1}}]}, doc! {}, None).advice.unwrap();
    assert!(none.starts_with("no index can serve it"), "{none}");
}

fn by_shop_and_day() -> IndexState {
    let index = PhysicalIndex::range(&names(&["shop", "day"]), KeyWidth::Bits128, Some(names(&["total"])));
    let index = index.unwrap();
    let id = IndexId([1; 8]);
    IndexState::new(id, "by day".to_owned(), index)
}

fn aggregated(
    state: &IndexState,
    filter: Document,
    functions: &[AggregateFunction],
) -> Option<Vec<AggregateOutput>> {
    let (indexes, statistics) = ([state.clone()], Statistics::default());
    let planner = Planner::new(&indexes, &statistics);
    let named = |function: &AggregateFunction| Aggregate { name: "x".to_owned(), function: function.clone() };
    let aggregates: Vec<Aggregate> = functions.iter().map(named).collect();
    planner.plan_aggregates(Filter::parse(&filter).unwrap().expr(), &aggregates).map(|plan| plan.outputs)
}

fn days() -> Document {
    doc! {"shop": 3, "day": {"$gte": 1, "$lt": 8}}
}

#[test]
fn an_index_that_is_exactly_the_filter_answers_aggregates() {
    let state = by_shop_and_day();
    let total = || "total".to_owned();
    let functions =
        [AggregateFunction::Count, AggregateFunction::Sum(total()), AggregateFunction::Average(total())];
    let outputs = vec![AggregateOutput::Count, AggregateOutput::Sum(0), AggregateOutput::Average(0)];
    assert_eq!(aggregated(&state, days(), &functions), Some(outputs));
    for exact in [doc! {}, doc! {"shop": 3}, doc! {"shop": {"$lte": 3}}, doc! {"shop": 3, "day": 4}] {
        assert!(aggregated(&state, exact.clone(), &[AggregateFunction::Count]).is_some(), "{exact}");
    }
}

#[test]
fn any_other_index_does_not_answer_aggregates() {
    let state = by_shop_and_day();
    let count = [AggregateFunction::Count];
    assert_eq!(aggregated(&state, days(), &[AggregateFunction::Sum("other".to_owned())]), None);
    for other in [
        doc! {"day": {"$gte": 1}},
        doc! {"shop": 3, "other": 1},
        doc! {"shop": {"$in": [1, 2]}},
        doc! {"shop": null},
        doc! {"shop": "a string longer than its part of the key"},
        doc! {"shop": 3, "day": {"$ne": 4}},
        doc! {"$or": [{"shop": 3}, {"shop": 4}]},
    ] {
        assert_eq!(aggregated(&state, other.clone(), &count), None, "{other}");
    }
    assert_eq!(aggregated(&IndexState { multikey: true, ..state.clone() }, days(), &count), None);
    assert_eq!(aggregated(&IndexState { inexact: true, ..state.clone() }, days(), &count), None);
    let sparse = IndexState { sparse: true, ..state };
    assert!(aggregated(&sparse, days(), &count).is_some() && aggregated(&sparse, doc! {}, &count).is_none());
}

/// What needs no planning is what planning comes to, and what else names an `_id` is planned.
#[test]
fn a_document_by_its_id_is_read_by_its_row_whatever_indexes_there_are() {
    let document = doc! { "a": 1 };
    let ids: [Bson; 6] = [
        7.into(),
        7.5.into(),
        "seven".into(),
        true.into(),
        document.into(),
        bson::oid::ObjectId::new().into(),
    ];
    for state in ["", "Range(_id)", "Range(_id,a) Eq(_id)", "Eq(a) Range(a)"] {
        let indexes = indexes(state);
        for id in &ids {
            for filter in [doc! { "_id": id.clone() }, doc! { "_id": { "$eq": id.clone() } }] {
                let parsed = Filter::parse(&filter).unwrap();
                assert_eq!(only_id(parsed.expr()), Some(id), "{filter}");
                for limit in [None, Some(1), Some(5)] {
                    let planned = plan(&indexes, filter.clone(), doc! {}, limit);
                    assert_eq!(planned.access, Access::Rows { ids: vec![id.clone()] }, "{state}: {filter}");
                    assert!(planned.covers_filter);
                }
            }
        }
    }
    for other in [
        doc! {},
        doc! { "a": 1 },
        doc! { "_id": Bson::Null },
        doc! { "_id": [1] },
        doc! { "_id": { "$gte": 1 } },
        doc! { "_id": { "$in": [1, 2] } },
        doc! { "_id": { "$not": { "$eq": 1 } } },
        doc! { "_id": 1, "a": 1 },
        doc! { "_id.a": 1 },
        doc! { "$or": [{ "_id": 1 }, { "_id": 2 }] },
        doc! { "$nor": [{ "_id": 1 }] },
    ] {
        let parsed = Filter::parse(&other).unwrap();
        assert_eq!(only_id(parsed.expr()), None, "{other}");
    }
}

fn query_plan(
    indexes: &[IndexState],
    filter: Document,
    limit: Option<u64>,
    function: AggregateFunction,
) -> QueryPlan {
    let (filter, sort) = (Filter::parse(&filter).unwrap(), Sort::default());
    let statistics = Statistics::default();
    let asked = [Aggregate { name: "n".to_owned(), function }];
    let request = Request { filter: filter.expr(), sort: &sort, limit };
    Planner::new(indexes, &statistics).plan_query(request, &asked).unwrap()
}

#[test]
fn counts_are_answered_by_what_knows_them_without_documents() {
    let own = indexes("Eq(a) Range(b)");
    let count = |filter, limit| query_plan(&own, filter, limit, AggregateFunction::Count);
    assert_eq!(count(doc! {}, None), QueryPlan::AllCounted);
    for limit in [None, Some(1)] {
        let by_entries =
            |filter| matches!(count(filter, limit), QueryPlan::EntriesCounted(plan) if plan.covers_filter);
        assert!(by_entries(doc! {"a": 1}), "a limit does not lead away from the index");
        assert!(by_entries(doc! {"b": {"$gt": 1}}));
        assert!(!by_entries(doc! {"a": 1, "b": 1}) && !by_entries(doc! {"c": 1}));
    }
    let several = vec![IndexState { multikey: true, ..own[0].clone() }];
    assert!(matches!(
        query_plan(&several, doc! {"a": 1}, None, AggregateFunction::Count),
        QueryPlan::Documents(_)
    ));
    let sum = query_plan(&own, doc! {"a": 1}, None, AggregateFunction::Sum("c".to_owned()));
    assert!(matches!(sum, QueryPlan::Documents(_)), "entries hold no sums");
    let sums = [by_shop_and_day()];
    let days = doc! {"shop": 1, "day": {"$gt": 3}};
    assert!(matches!(query_plan(&sums, days, None, AggregateFunction::Count), QueryPlan::Aggregates(_)));
}

#[test]
fn a_count_is_explained_as_it_is_answered() {
    let own = indexes("Eq(a) Range(b)");
    let explained = |filter| {
        crate::explain::of_query(&query_plan(&own, filter, None, AggregateFunction::Count), &own, None)
    };
    let all = explained(doc! {});
    assert!(!all.scan && all.search_leakage.is_empty() && all.cost == Cost::default(), "{all:?}");
    let equal = explained(doc! {"a": 1});
    assert!(equal.search_leakage.is_empty() && equal.cost == Cost::default(), "{equal:?}");
    let range = explained(doc! {"b": {"$gt": 1}});
    assert!(
        !range.search_leakage.is_empty() && range.cost.rounds == 1 && range.cost.documents == 0,
        "{range:?}"
    );
}

#[test]
fn to_a_snapshot_adversary_searches_tell_nothing_so_the_plan_that_reads_least_is_taken() {
    let own = indexes("Eq(a) Range(a,b)");
    let filter = Filter::parse(&doc! {"a": 1, "b": {"$gt": 3}}).unwrap();
    let (sort, statistics) = (Sort::default(), Statistics::default());
    let request = Request { filter: filter.expr(), sort: &sort, limit: None };
    let chosen = |adversary| {
        let planner = Planner { adversary, leakage_ratio: 4, ..Planner::new(&own, &statistics) };
        used(&own, &planner.plan(request).unwrap())
    };
    assert_eq!(chosen(Adversary::Persistent), "Eq(a)");
    assert_eq!(chosen(Adversary::Snapshot), "Range(a,b)");
}
