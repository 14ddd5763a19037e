//! Indexes that are asked for beside others that are nearly the same.

use crate::client::{Client, Running};
use crate::validation;
use arras_mongo::Options;
use bson::{Document, doc};

fn index(name: &str, key: Document, options: Document) -> Document {
    let mut index = doc! { "name": name, "key": key };
    index.extend(options);
    index
}

/// The code of the reply; zero if there is none.
async fn create(client: &mut Client, indexes: Vec<Document>) -> i32 {
    let reply = client.run(doc! { "createIndexes": "c", "indexes": indexes }).await;
    reply.get_i32("code").unwrap_or(0)
}

async fn an_index_stands_in_the_way_of_its_like(mut client: Client) {
    let (unique, sparse) = (doc! { "unique": true }, doc! { "sparse": true });
    let there = vec![index("a_1", doc! { "a": 1 }, doc! {}), index("b_1", doc! { "b": 1 }, unique.clone())];
    assert_eq!(create(&mut client, there.clone()).await, 0);
    for (asked, code) in [
        (index("a_1", doc! { "a": 1 }, doc! {}), 0),
        (index("a_1", doc! { "a": 1.0 }, doc! { "unique": false }), 0),
        // The name is taken by an index of other keys, or of others of the options that make it another.
        (index("a_1", doc! { "a": -1 }, doc! {}), 86),
        (index("b_1", doc! { "a": 1 }, doc! {}), 86),
        (index("a_1", doc! { "b": 1 }, unique.clone()), 86),
        (index("a_1", doc! { "a": 1 }, unique.clone()), 86),
        (index("a_1", doc! { "a": 1 }, sparse.clone()), 86),
        (index("b_1", doc! { "b": 1 }, doc! {}), 86),
        // The name is free, the keys are not.
        (index("x", doc! { "a": 1 }, doc! {}), 85),
        (index("x", doc! { "b": 1 }, unique.clone()), 85),
        (index("x", doc! { "a": 1 }, unique), 85),
        (index("x", doc! { "a": 1 }, sparse), 85),
        (index("x", doc! { "x": 1 }, doc! {}), 0),
    ] {
        assert_eq!(create(&mut client, vec![asked.clone()]).await, code, "{asked}");
    }
    // Of those that are asked for together, too: none of them is made then.
    let y = index("y", doc! { "y": 1 }, doc! {});
    for (other, code) in [
        (index("y", doc! { "z": 1 }, doc! {}), 86),
        (index("z", doc! { "y": 1 }, doc! {}), 85),
        (index("b_1", doc! { "y": 1 }, doc! {}), 86),
    ] {
        assert_eq!(create(&mut client, vec![y.clone(), other.clone()]).await, code, "{other}");
    }
    let listed = client.ok(doc! { "listIndexes": "c" }).await;
    let listed = listed.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
    let names: Vec<_> = listed.iter().map(|i| i.as_document().unwrap().get_str("name").unwrap()).collect();
    assert_eq!(names, ["_id_", "a_1", "b_1", "x"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_stands_in_the_way_of_its_like_in_plaintext() {
    let running = Running::plain(Options::default()).await;
    an_index_stands_in_the_way_of_its_like(running.connect().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_stands_in_the_way_of_its_like_encrypted() {
    let (client, _directory) = validation::under("").await;
    an_index_stands_in_the_way_of_its_like(client).await;
}

async fn the_first_value_that_is_there_already_is_named(mut client: Client) {
    let numbers = (0..5).map(|number| doc! { "_id": number, "a": number * 2 });
    client.ok(doc! { "insert": "c", "documents": numbers.collect::<Vec<_>>() }).await;
    for (name, direction, first) in [("a_1", 1, 2), ("down", -1, 8)] {
        let key = doc! { "a": direction };
        assert_eq!(create(&mut client, vec![index(name, key.clone(), doc! { "unique": true })]).await, 0);
        let (shown, value) = (format!("{{ a: {first} }}"), doc! { "a": first });
        let many = doc! { "a": [9, 8, 4, 2, 3] };
        let inserted = client.run(doc! { "insert": "c", "documents": [many.clone()] }).await;
        let updates = vec![doc! { "q": { "_id": 0 }, "u": { "$set": many } }];
        let updated = client.run(doc! { "update": "c", "updates": updates }).await;
        for reply in [inserted, updated] {
            let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap();
            let text = format!("E11000 duplicate key error collection: d.c index: {name} dup key: {shown}");
            assert_eq!(error.get_str("errmsg").unwrap(), text);
            assert_eq!(error.get_document("keyPattern").unwrap(), &key);
            assert_eq!(error.get_document("keyValue").unwrap(), &value);
        }
        client.ok(doc! { "dropIndexes": "c", "index": name }).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_value_that_is_there_already_is_named_in_plaintext() {
    let running = Running::plain(Options::default()).await;
    the_first_value_that_is_there_already_is_named(running.connect().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_value_that_is_there_already_is_named_encrypted() {
    let (client, _directory) = validation::under("").await;
    the_first_value_that_is_there_already_is_named(client).await;
}
