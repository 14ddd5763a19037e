//! Sorts by several fields of which some are arrays, and by names that no field has.

use crate::client::{Client, Running};
use crate::validation;
use arras_mongo::Options;
use bson::{Bson, Document, doc};

fn ids(reply: &Document) -> Vec<i32> {
    let batch = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    batch.iter().map(|found| found.as_document().unwrap().get_i32("_id").unwrap()).collect()
}

fn aggregate(stages: Vec<Document>) -> Document {
    doc! { "aggregate": "c", "pipeline": stages, "cursor": {} }
}

/// Each way to sort.
fn sorted(sort: &Document) -> Vec<Document> {
    let apart = doc! { "$set": { "apart": 1 } };
    let update = doc! { "$set": { "seen": 1 } };
    vec![
        doc! { "find": "c", "sort": sort.clone() },
        doc! { "find": "c", "sort": sort.clone(), "limit": 10 },
        doc! { "find": "c", "filter": { "_id": { "$gte": 0 } }, "sort": sort.clone(), "skip": 1, "limit": 2 },
        aggregate(vec![doc! { "$sort": sort.clone() }]),
        aggregate(vec![apart.clone(), doc! { "$sort": sort.clone() }]),
        aggregate(vec![apart, doc! { "$sort": sort.clone() }, doc! { "$limit": 1 }]),
        doc! { "findAndModify": "c", "query": {}, "sort": sort.clone(), "update": update },
    ]
}

async fn a_sort_goes_by_one_array(mut client: Client) {
    let documents = vec![
        doc! { "_id": 1, "a": 1, "b": 5, "d": 1 },
        doc! { "_id": 2, "a": [{ "x": 1, "y": 5 }, { "x": 2, "y": 1 }], "b": [1, 2], "d": 2 },
        doc! { "_id": 3, "a": { "x": 1, "y": 3 }, "b": 2, "d": [3, 4] },
    ];
    client.ok(doc! { "insert": "c", "documents": documents }).await;
    for index in [None, Some("d"), Some("b"), Some("a")] {
        if let Some(field) = index {
            let indexes = vec![doc! { "key": { field: 1 }, "name": field }];
            client.ok(doc! { "createIndexes": "c", "indexes": indexes }).await;
        }
        for sort in [doc! { "a": 1, "b": 1 }, doc! { "b": -1, "d": 1, "a.x": 1 }] {
            for command in sorted(&sort) {
                let reply = client.run(command.clone()).await;
                assert_eq!(reply.get_i32("code").unwrap_or(0), 2, "{command}: {reply}");
                assert_eq!(
                    reply.get_str("errmsg").unwrap(),
                    "cannot sort with keys that are parallel arrays"
                );
            }
        }
        // Fields of the elements of one array: a document goes by its least element.
        for (sort, expected) in [
            (doc! { "a.x": 1, "a.y": 1 }, vec![1, 3, 2]),
            (doc! { "a.x": -1, "a.y": -1 }, vec![2, 3, 1]),
            (doc! { "a.y": 1, "a.x": 1 }, vec![1, 2, 3]),
            (doc! { "a": 1, "_id": 1 }, vec![1, 3, 2]),
        ] {
            let found = client.ok(doc! { "find": "c", "sort": sort.clone() }).await;
            assert_eq!(ids(&found), expected, "{sort} {index:?}");
            let limited = doc! { "find": "c", "sort": sort.clone(), "limit": 2 };
            assert_eq!(ids(&client.ok(limited).await), expected[..2], "{sort} {index:?}");
        }
        for (sort, code) in [
            (doc! { "$a": 1 }, 16410),
            (doc! { "b": 1, "a.$b": -1 }, 16410),
            (doc! { "": 1 }, 40352),
            (doc! { "a.": 1 }, 40353),
            (doc! { ".a": 1 }, 15998),
        ] {
            for command in sorted(&sort) {
                let reply = client.run(command.clone()).await;
                assert_eq!(reply.get_i32("code").unwrap_or(0), code, "{command}: {reply}");
            }
        }
    }
    let unchanged = client.ok(doc! { "count": "c", "query": { "seen": 1 } }).await;
    assert_eq!(unchanged.get("n"), Some(&Bson::Int32(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sort_goes_by_one_array_in_plaintext() {
    let running = Running::plain(Options::default()).await;
    a_sort_goes_by_one_array(running.connect().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sort_goes_by_one_array_encrypted() {
    let (client, _directory) = validation::under("").await;
    a_sort_goes_by_one_array(client).await;
}

async fn the_order_of_insertion_is_kept_whatever_is_asked_of_it(mut client: Client) {
    // In no order of their ids, and more than a store sorts unasked.
    let inserted: Vec<i32> = (0..1500).map(|number| number * 7919 % 1500).collect();
    let documents: Vec<Document> = inserted.iter().map(|id| doc! { "_id": id, "a": id % 2 }).collect();
    client.ok(doc! { "insert": "c", "documents": documents }).await;
    let natural = |direction: i32| doc! { "$natural": direction };
    let wanted = |filter: fn(&i32) -> bool| inserted.iter().copied().filter(filter).collect::<Vec<i32>>();
    let (all, odd) = (wanted(|_| true), wanted(|id| id % 2 == 1));
    for (filter, wanted) in [(doc! {}, all), (doc! { "a": 1 }, odd)] {
        let newest: Vec<i32> = wanted.iter().rev().copied().collect();
        for (direction, wanted) in [(1, &wanted), (-1, &newest)] {
            let find =
                doc! { "find": "c", "filter": filter.clone(), "sort": natural(direction), "batchSize": 1500 };
            assert_eq!(ids(&client.ok(find.clone()).await), *wanted);
            let mut limited = find;
            limited.extend(doc! { "skip": 2, "limit": 5 });
            assert_eq!(ids(&client.ok(limited).await), wanted[2..7]);
            let update = doc! { "$set": { "seen": direction } };
            let modify = doc! { "findAndModify": "c", "query": filter.clone(), "sort": natural(direction), "update": update };
            let found = client.ok(modify).await;
            assert_eq!(found.get_document("value").unwrap().get_i32("_id").unwrap(), wanted[0]);
        }
    }
    for sort in [doc! { "$natural": 2 }, doc! { "$natural": 1, "a": 1 }] {
        assert_eq!(client.code(doc! { "find": "c", "sort": sort }).await, 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_insertion_is_kept_in_plaintext() {
    let running = Running::plain(Options::default()).await;
    the_order_of_insertion_is_kept_whatever_is_asked_of_it(running.connect().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_of_insertion_is_kept_encrypted() {
    let (client, _directory) = validation::under("").await;
    the_order_of_insertion_is_kept_whatever_is_asked_of_it(client).await;
}
