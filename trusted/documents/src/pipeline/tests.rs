#![allow(clippy::unwrap_used)]

use super::*;
use crate::order::identical_documents;
use crate::samples::{plain_document, value};
use bson::{bson, doc};
use proptest::prelude::*;

fn stages(stages: Bson) -> Vec<Document> {
    stages.as_array().unwrap().iter().map(|stage| stage.as_document().unwrap().clone()).collect()
}

fn run(pipeline: Bson, documents: Vec<Document>) -> Result<Vec<Document>, QueryError> {
    Pipeline::parse(&stages(pipeline))?.run(documents)
}

fn check(pipeline: Bson, documents: Vec<Document>, expected: Vec<Document>) {
    let got = run(pipeline.clone(), documents).unwrap();
    let same = got.len() == expected.len()
        && got.iter().zip(&expected).all(|(got, expected)| identical_documents(got, expected));
    assert!(same, "{pipeline}: {got:?}, not {expected:?}");
}

fn sales() -> Vec<Document> {
    vec![
        doc! { "_id": 1, "item": "a", "n": 2, "tags": ["x", "y"] },
        doc! { "_id": 2, "item": "b", "n": 3, "tags": [] },
        doc! { "_id": 3, "item": "a", "n": 5 },
        doc! { "_id": 4, "item": null, "n": 1.5, "tags": "z" },
    ]
}

#[test]
fn simple_stages() {
    check(bson!([]), sales(), sales());
    check(
        bson!([{ "$match": { "n": { "$gte": 3 } } }, { "$project": { "n": 1 } }]),
        sales(),
        vec![doc! { "_id": 2, "n": 3 }, doc! { "_id": 3, "n": 5 }],
    );
    check(
        bson!([{ "$sort": { "n": -1 } }, { "$skip": 1 }, { "$limit": 2 }, { "$project": { "_id": 1 } }]),
        sales(),
        vec![doc! { "_id": 2 }, doc! { "_id": 1 }],
    );
    check(bson!([{ "$count": "c" }]), sales(), vec![doc! { "c": 4 }]);
    check(bson!([{ "$match": { "n": 100 } }, { "$count": "c" }]), sales(), vec![]);
    check(
        bson!([{ "$limit": 1 }, { "$set": { "m": { "$add": ["$n", 1] } } }, { "$unset": ["tags", "item"] }]),
        sales(),
        vec![doc! { "_id": 1, "n": 2, "m": 3 }],
    );
    check(bson!([{ "$limit": 1 }, { "$replaceWith": { "x": "$n" } }]), sales(), vec![doc! { "x": 2 }]);
    check(
        bson!([{ "$limit": 1 }, { "$replaceRoot": { "newRoot": { "y": 1 } } }]),
        sales(),
        vec![doc! { "y": 1 }],
    );
    assert_eq!(run(bson!([{ "$sample": { "size": 3 } }]), sales()).unwrap().len(), 3);
}

#[test]
fn groups() {
    check(
        bson!([{ "$group": { "_id": "$item", "total": { "$sum": "$n" }, "count": { "$count": {} }, "all": { "$push": "$_id" } } }]),
        sales(),
        vec![
            doc! { "_id": "a", "total": 7, "count": 2, "all": [1, 3] },
            doc! { "_id": "b", "total": 3, "count": 1, "all": [2] },
            doc! { "_id": null, "total": 1.5, "count": 1, "all": [4] },
        ],
    );
    check(
        bson!([{ "$group": { "_id": null, "avg": { "$avg": "$n" }, "max": { "$max": "$n" } } }]),
        sales(),
        vec![doc! { "_id": null, "avg": 2.875, "max": 5 }],
    );
    // Equal numbers of different types are one group; so are null and missing.
    check(
        bson!([{ "$group": { "_id": "$k", "c": { "$sum": 1 } } }]),
        vec![doc! { "k": 1 }, doc! { "k": 1.0 }, doc! {}, doc! { "k": null }, doc! { "k": "1" }],
        vec![doc! { "_id": 1, "c": 2 }, doc! { "_id": null, "c": 2 }, doc! { "_id": "1", "c": 1 }],
    );
    check(
        bson!([{ "$group": { "_id": { "i": "$item" } } }]),
        vec![doc! { "item": 1 }],
        vec![doc! { "_id": { "i": 1 } }],
    );
    check(
        bson!([{ "$sortByCount": "$item" }, { "$limit": 1 }]),
        sales(),
        vec![doc! { "_id": "a", "count": 2 }],
    );
    check(bson!([{ "$group": { "_id": null, "c": { "$sum": 1 } } }]), vec![], vec![]);
}

#[test]
fn unwinding() {
    check(
        bson!([{ "$unwind": "$tags" }, { "$project": { "tags": 1 } }]),
        sales(),
        vec![doc! { "_id": 1, "tags": "x" }, doc! { "_id": 1, "tags": "y" }, doc! { "_id": 4, "tags": "z" }],
    );
    check(
        bson!([
            { "$unwind": { "path": "$tags", "includeArrayIndex": "at", "preserveNullAndEmptyArrays": true } },
            { "$project": { "tags": 1, "at": 1 } },
        ]),
        sales(),
        vec![
            doc! { "_id": 1, "tags": "x", "at": 0_i64 },
            doc! { "_id": 1, "tags": "y", "at": 1_i64 },
            doc! { "_id": 2, "at": null },
            doc! { "_id": 3, "at": null },
            doc! { "_id": 4, "tags": "z", "at": null },
        ],
    );
    check(
        bson!([{ "$unwind": "$a.b" }]),
        vec![doc! { "a": { "b": [1, 2], "c": 3 } }],
        vec![doc! { "a": { "b": 1, "c": 3 } }, doc! { "a": { "b": 2, "c": 3 } }],
    );
}

#[test]
fn buckets_and_facets() {
    check(
        bson!([{ "$bucket": { "groupBy": "$n", "boundaries": [0, 2, 4], "default": "rest" } }]),
        sales(),
        vec![
            doc! { "_id": 0, "count": 1 },
            doc! { "_id": 2, "count": 2 },
            doc! { "_id": "rest", "count": 1 },
        ],
    );
    check(
        bson!([{ "$facet": { "one": [{ "$match": { "n": 5 } }, { "$project": { "_id": 1 } }], "count": [{ "$count": "c" }] } }]),
        sales(),
        vec![doc! { "one": [{ "_id": 3 }], "count": [{ "c": 4 }] }],
    );
    let outside = bson!([{ "$bucket": { "groupBy": "$n", "boundaries": [0, 2] } }]);
    assert_eq!(run(outside, sales()).unwrap_err().code, 40066);
}

#[test]
fn refusals() {
    for (pipeline, code) in [
        (bson!([{ "$foo": 1 }]), 40324),
        (bson!([{}]), 40323),
        (bson!([{ "$match": {}, "$limit": 1 }]), 40323),
        (bson!([{ "$lookup": {} }]), 238),
        (bson!([{ "$out": "x" }]), 238),
        (bson!([{ "$merge": "x" }]), 238),
        (bson!([{ "$limit": 0 }]), 15958),
        (bson!([{ "$skip": -1 }]), 15956),
        (bson!([{ "$sort": {} }]), 15976),
        (bson!([{ "$count": "$a" }]), 40158),
        (bson!([{ "$group": { "n": { "$sum": 1 } } }]), 15955),
        (bson!([{ "$group": { "_id": 1, "n": { "$foo": 1 } } }]), 15952),
        (bson!([{ "$group": { "_id": 1, "n": 5 } }]), 40234),
        (bson!([{ "$group": { "_id": 1, "n": { "$sum": [1, 2] } } }]), 40237),
        (bson!([{ "$unwind": "a" }]), 28818),
        (bson!([{ "$project": {} }]), 51272),
        (bson!([{ "$facet": { "a": [{ "$facet": { "b": [] } }] } }]), 40600),
        (bson!([{ "$facet": { "a": [1] } }]), 40170),
        (bson!([{ "$bucket": { "groupBy": "$a", "boundaries": [1, "x"] } }]), 40193),
        (bson!([{ "$bucket": { "groupBy": "$a", "boundaries": [2, 1] } }]), 40194),
    ] {
        assert_eq!(Pipeline::parse(&stages(pipeline.clone())).unwrap_err().code, code, "{pipeline}");
    }
    assert!(Pipeline::parse(&stages(bson!([{ "$lookup": {} }]))).unwrap_err().message.contains("$lookup"));
    assert_eq!(Pipeline::parse(&vec![doc! { "$limit": 1 }; STAGES_MAX + 1]).unwrap_err().code, 7_749_501);
    assert_eq!(run(bson!([{ "$replaceWith": "$n" }]), sales()).unwrap_err().code, 40228);
}

#[test]
fn blocking_stages_are_bounded() {
    let large = || (0..30).map(|id| doc! { "_id": id, "x": "y".repeat(4 << 20) });
    for pipeline in [
        bson!([{ "$sort": { "_id": 1 } }]),
        bson!([{ "$group": { "_id": null, "all": { "$push": "$x" } } }]),
        bson!([{ "$group": { "_id": { "id": "$_id", "x": "$x" } } }]),
        bson!([{ "$facet": { "a": [] } }]),
        bson!([]),
    ] {
        let error = Pipeline::parse(&stages(pipeline.clone())).unwrap().run(large()).unwrap_err();
        assert!(matches!(error.code, 292 | 146), "{pipeline}: {error}");
    }
    // A sort that is cut off needs to hold no more than it lets through.
    let top = Pipeline::parse(&stages(bson!([{ "$sort": { "_id": -1 } }, { "$limit": 2 }]))).unwrap();
    assert_eq!(top.run(large()).unwrap().len(), 2);
}

#[test]
fn streams_are_lazy_and_stop_at_errors() {
    let pipeline =
        Pipeline::parse(&stages(bson!([{ "$match": { "a": { "$gt": 1 } } }, { "$limit": 2 }]))).unwrap();
    let mut taken = 0;
    let documents = (0..1000).map(|a| {
        taken += 1;
        Ok(doc! { "a": a })
    });
    assert_eq!(pipeline.stream(documents).count(), 2);
    assert_eq!(taken, 4);
    let skip = Pipeline::parse(&stages(bson!([{ "$skip": 5 }, { "$count": "c" }]))).unwrap();
    let failed = vec![Ok(doc! {}), Err(QueryError::bad_value("x"))];
    assert!(skip.stream(failed).next().unwrap().is_err());
}

proptest! {
    #[test]
    fn a_sort_before_a_limit_is_a_sort(
        documents in prop::collection::vec(plain_document(), 0..20),
        skip in 0_i32..5,
        limit in 1_i32..10,
    ) {
        let whole = run(bson!([{ "$sort": { "a": 1, "b": -1 } }]), documents.clone());
        let cut = run(bson!([{ "$sort": { "a": 1, "b": -1 } }, { "$skip": skip }, { "$limit": limit }]), documents);
        let expected = whole.map(|whole| whole.into_iter().skip(skip as usize).take(limit as usize).collect::<Vec<_>>());
        // Where two arrays lie beside each other it is an error, whatever is wanted.
        prop_assert_eq!(cut, expected);
    }

    #[test]
    fn groups_part_the_documents(documents in prop::collection::vec(plain_document(), 0..20)) {
        let count = documents.len();
        let groups = run(bson!([{ "$group": { "_id": "$a", "c": { "$sum": 1 } } }]), documents).unwrap();
        let total: i32 = groups.iter().map(|group| group.get_i32("c").unwrap()).sum();
        prop_assert_eq!(usize::try_from(total).unwrap(), count);
        for (offset, left) in groups.iter().enumerate() {
            for right in &groups[offset + 1..] {
                prop_assert!(!crate::order::equal(&left["_id"], &right["_id"]));
            }
        }
    }

    #[test]
    fn any_stage_runs_or_is_refused(
        name in prop::sample::select(vec![
            "$match", "$project", "$addFields", "$unset", "$group", "$sort", "$limit", "$skip", "$count", "$unwind",
            "$replaceRoot", "$replaceWith", "$sample", "$sortByCount", "$facet", "$bucket",
        ]),
        argument in value(),
        documents in prop::collection::vec(plain_document(), 0..4),
    ) {
        if let Ok(pipeline) = Pipeline::parse(&[doc! { name: argument }]) {
            let _ = pipeline.run(documents);
        }
    }
}

#[test]
fn one_time_stands_for_now_in_all_stages() {
    let now = DateTime::from_millis(5);
    let is_now = bson!({ "$eq": ["$$NOW", now] });
    let each = [
        bson!([{ "$match": { "$and": [{ "$expr": is_now.clone() }] } }, { "$project": { "_id": is_now.clone() } }]),
        bson!([{ "$set": { "x": { "y": is_now.clone() } } }, { "$replaceWith": { "_id": "$x.y" } }]),
        bson!([{ "$replaceRoot": { "newRoot": { "_id": is_now.clone() } } }]),
        bson!([{ "$sortByCount": is_now.clone() }, { "$unset": "count" }]),
        bson!([{ "$group": { "_id": is_now.clone() } }]),
        bson!([{ "$group": { "_id": 1, "x": { "$max": is_now.clone() } } }, { "$replaceWith": { "_id": "$x" } }]),
        bson!([
            { "$bucket": { "groupBy": { "$cond": [is_now.clone(), 1, 5] }, "boundaries": [1, 2] } },
            { "$replaceWith": { "_id": { "$eq": ["$_id", 1] } } }
        ]),
        bson!([
            { "$facet": { "x": [{ "$project": { "_id": is_now } }] } },
            { "$replaceWith": { "_id": { "$first": "$x._id" } } }
        ]),
    ];
    for pipeline in each {
        let parsed = Pipeline::parse_at(&stages(pipeline.clone()), now).unwrap();
        assert_eq!(parsed.run([doc! { "_id": 1 }]).unwrap(), [doc! { "_id": true }], "{pipeline}");
    }
}
