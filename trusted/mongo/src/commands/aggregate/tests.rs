#![allow(clippy::unwrap_used)]

use super::*;
use arras_documents::sort::Sort;
use proptest::prelude::*;

/// What a store answers to a query, as its trait says: filter, sort, skip, limit.
fn answer(query: &Query, documents: &[Document]) -> Vec<Document> {
    let matching = documents.iter().filter(|document| query.filter.matches(document).unwrap()).cloned();
    let sorted = query.sort.sort(matching.collect());
    let skip = usize::try_from(query.skip).unwrap();
    let limit = query.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap());
    sorted.into_iter().skip(skip).take(limit).collect()
}

fn split(stages: &[Document]) -> (Query, Vec<Stage>) {
    push_down(Pipeline::parse(stages).unwrap().stages().to_vec(), None)
}

#[test]
fn leading_stages_become_the_query() {
    let (query, rest) = split(&[
        doc! { "$match": { "a": 1 } },
        doc! { "$sort": { "b": 1 } },
        doc! { "$match": { "c": 2 } },
        doc! { "$skip": 3 },
        doc! { "$limit": 10 },
        doc! { "$skip": 2 },
        doc! { "$limit": 100 },
    ]);
    assert!(rest.is_empty());
    assert!(matches!(query.filter.expr(), Expr::And(both) if both.len() == 2));
    assert_eq!(query.sort, Sort::parse(&doc! { "b": 1 }).unwrap());
    assert_eq!((query.skip, query.limit), (5, Some(8)));
}

#[test]
fn stages_that_would_change_meaning_stay() {
    let stays = |stages: &[Document]| split(stages).1.len();
    assert_eq!(stays(&[doc! { "$limit": 2 }, doc! { "$match": { "a": 1 } }]), 1);
    assert_eq!(stays(&[doc! { "$limit": 2 }, doc! { "$sort": { "a": 1 } }]), 1);
    assert_eq!(stays(&[doc! { "$skip": 2 }, doc! { "$match": { "a": 1 } }]), 1);
    assert_eq!(stays(&[doc! { "$sort": { "a": 1 } }, doc! { "$sort": { "b": 1 } }]), 1);
    assert_eq!(stays(&[doc! { "$limit": 2 }, doc! { "$skip": 2 }]), 1);
    assert_eq!(stays(&[doc! { "$project": { "a": 1 } }, doc! { "$limit": 2 }]), 2);
}

#[test]
fn groups_an_index_may_answer() {
    let recognised = |group: Document| match split(&[doc! { "$group": group }]).1.first() {
        Some(Stage::Group(group)) => whole_group(group).map(|whole| whole.aggregates.len()),
        _ => None,
    };
    let sums = doc! { "_id": null, "n": { "$sum": 1 }, "s": { "$sum": "$a" }, "m": { "$avg": "$a.b" } };
    assert_eq!(recognised(sums), Some(3));
    assert_eq!(recognised(doc! { "_id": 1, "n": { "$count": {} } }), Some(1));
    for other in [
        doc! { "_id": "$a", "n": { "$sum": 1 } },
        doc! { "_id": null, "n": { "$sum": 2 } },
        doc! { "_id": null, "n": { "$sum": { "$add": ["$a", 1] } } },
        doc! { "_id": null, "n": { "$max": "$a" } },
        doc! { "_id": null, "n": { "$sum": 1 }, "all": { "$push": "$a" } },
        doc! { "_id": null },
    ] {
        assert_eq!(recognised(other.clone()), None, "{other}");
    }
}

fn stage() -> impl Strategy<Value = Document> {
    prop_oneof![
        (0..4).prop_map(|a| doc! { "$match": { "a": { "$gte": a } } }),
        (0..4).prop_map(|b| doc! { "$match": { "$or": [{ "b": b }, { "a": b }] } }),
        prop_oneof![Just(1), Just(-1)].prop_map(|d| doc! { "$sort": { "a": d, "_id": 1 } }),
        prop_oneof![Just(1), Just(-1)].prop_map(|d| doc! { "$sort": { "b": d, "_id": d } }),
        (0..6).prop_map(|count| doc! { "$skip": count }),
        (1..8).prop_map(|count| doc! { "$limit": count }),
        Just(doc! { "$addFields": { "a": "$b" } }),
        Just(doc! { "$count": "n" }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_split_pipeline_returns_what_the_whole_one_does(
        stages in prop::collection::vec(stage(), 0..7),
        values in prop::collection::vec((0..5, 0..5), 0..15),
    ) {
        let documents: Vec<Document> =
            values.iter().enumerate().map(|(id, (a, b))| doc! { "_id": id as i32, "a": *a, "b": *b }).collect();
        let whole = Pipeline::parse(&stages).unwrap().run(documents.clone()).unwrap();
        let (query, rest) = split(&stages);
        let parts = Pipeline::from_stages(rest).run(answer(&query, &documents)).unwrap();
        prop_assert_eq!(whole, parts);
    }
}
