//! What a schema declares of fields is kept to by every command that writes.

use crate::client::{Client, Running};
use arras_engine::Settings;
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_mongo::Options;
use arras_planner::schema::Schema;
use arras_server::Backend;
use arras_storage::Memory;
use bson::{Bson, Document, doc};
use std::sync::Arc;

/// MongoDB's `DocumentValidationFailure`.
const INVALID: i32 = 121;

/// An engine under a schema; the front end ends with the runtime of the test.
pub(crate) async fn under(fields: &str) -> (Client, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let channel = Arc::new(Direct::new(Arc::new(Backend::open(Memory::new(), [1; 16]).unwrap())));
    let text = format!("[collections.\"d.c\".fields]\n{fields}");
    let schema = Schema::parse(&text, "schema.toml").unwrap();
    let settings = Settings { schema, ..Settings::default() };
    let engine = one_process::open(directory.path(), Memory::new(), channel, settings).await.unwrap();
    let running = Running::start(engine, Options::default()).await;
    let client = running.connect().await;
    std::mem::forget(running);
    (client, directory)
}

/// Code and position of each write error, and how many were written.
fn failed(reply: &Document) -> (Vec<(i32, i32)>, i32) {
    let errors = reply.get_array("writeErrors").map(Vec::as_slice).unwrap_or_default();
    let error = |error: &Bson| {
        let error = error.as_document().unwrap();
        (error.get_i32("code").unwrap(), error.get_i32("index").unwrap())
    };
    (errors.iter().map(error).collect(), reply.get_i32("n").unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_document_that_is_not_as_declared_is_refused_by_every_write() {
    for unique in ["", "u = { unique = true }"] {
        let fields = "age = { type = \"int32\" }\nname = { type = \"string\", max_bytes = 5 }\n";
        let (mut client, _directory) = under(&format!("{fields}{unique}")).await;
        let good = |id: i32| doc! { "_id": id, "u": id, "age": 30, "name": "Ada" };
        let bad = |id: i32| doc! { "_id": id, "u": id, "age": "thirty" };
        client.ok(doc! { "insert": "c", "documents": [good(1)] }).await;
        for (ordered, documents, expected) in [
            (true, vec![bad(2)], (vec![(INVALID, 0)], 0)),
            (true, vec![good(2), bad(3), good(4)], (vec![(INVALID, 1)], 1)),
            (
                false,
                vec![bad(5), good(6), good(6), bad(7)],
                (vec![(INVALID, 0), (11000, 2), (INVALID, 3)], 1),
            ),
        ] {
            let insert = doc! { "insert": "c", "documents": documents, "ordered": ordered };
            assert_eq!(failed(&client.run(insert).await), expected);
        }
        let update = |q: Document, u: Document, multi: bool, upsert: bool| {
            doc! { "update": "c", "updates": [{ "q": q, "u": u, "multi": multi, "upsert": upsert }] }
        };
        for (q, u, multi, upsert) in [
            (doc! { "_id": 1 }, doc! { "$set": { "age": 0.5 } }, false, false),
            (doc! { "age": 30 }, doc! { "$set": { "name": "Augusta" } }, true, false),
            (doc! { "_id": 1 }, doc! { "age": 30, "name": 7 }, false, false),
            (doc! { "_id": 9 }, doc! { "$set": { "age": true } }, false, true),
            (doc! { "u": 9, "age": "x" }, doc! { "$set": { "name": "Ada" } }, false, true),
        ] {
            let reply = client.run(update(q.clone(), u, multi, upsert)).await;
            assert_eq!(failed(&reply).0, [(INVALID, 0)], "{q}: {reply}");
        }
        let modify =
            doc! { "findAndModify": "c", "query": { "_id": 1 }, "update": { "$set": { "age": [1, "2"] } } };
        assert_eq!(client.code(modify).await, INVALID);
        let found = client.ok(doc! { "find": "c", "filter": {}, "sort": { "_id": 1 } }).await;
        let found = found.get_document("cursor").unwrap().get_array("firstBatch").unwrap();
        let expected: Vec<Bson> = [1, 2, 6].map(|id| Bson::Document(good(id))).to_vec();
        assert_eq!(*found, expected, "as it was");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_error_names_the_field_and_what_is_declared_and_no_value() {
    let (mut client, _directory) = under("\"a.age\" = { type = \"int32\" }").await;
    let insert = doc! { "insert": "c", "documents": [{ "_id": 1, "a": { "age": "secret" } }] };
    let reply = client.run(insert).await;
    let error = reply.get_array("writeErrors").unwrap()[0].as_document().unwrap().clone();
    let text = error.get_str("errmsg").unwrap();
    assert!(text.starts_with("Document failed validation") && text.contains("'a.age'"), "{text}");
    let info = error.get_document("errInfo").unwrap();
    assert_eq!(info.get_i32("failingDocumentId").unwrap(), 1);
    let rules = info.get_document("details").unwrap().get_array("schemaRulesNotSatisfied").unwrap();
    let property = rules[0].as_document().unwrap().get_array("propertiesNotSatisfied").unwrap();
    assert_eq!(property[0].as_document().unwrap().get_str("propertyName").unwrap(), "a.age");
    assert!(error.to_string().contains("int32") && !error.to_string().contains("secret"), "{error}");
}
