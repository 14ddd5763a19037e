//! What an application sees of `$text`: results, scores, errors, and what becomes of it when a side is not there.

use super::super::system::is_unreachable;
use super::{Client, Texts, ids, until};
use arras_lab::wire_client::ClientError;
use bson::{Document, doc};
use std::fs;

const NOTHING: [i32; 0] = [];

fn text(search: &str) -> Document {
    doc! { "$text": { "$search": search } }
}

fn books(client: &mut Client) {
    client
        .create_index("books", doc! { "title": "text", "body": "text" }, doc! { "weights": { "title": 3 } })
        .unwrap();
    client.insert(
        "books",
        vec![
            doc! { "_id": 1, "title": "Whale", "body": "the white whale", "year": 1851 },
            doc! { "_id": 2, "title": "Sea", "body": "a ship and its captain hunting whales", "year": 1851 },
            doc! { "_id": 3, "title": "Ships", "body": ["white sails", "a grey sea"], "year": 1900 },
            doc! { "_id": 4, "title": 7, "year": 1900 },
        ],
    );
}

#[test]
fn words_phrases_denials_and_other_conditions_find_what_mongodb_finds() {
    let texts = Texts::start();
    let mut client = texts.client();
    books(&mut client);
    for (search, expected) in [
        ("whale", &[1, 2][..]),
        ("whaling SHIP", &[1, 2, 3]),
        ("white -whale", &[3]),
        ("\"white whale\"", &[1]),
        ("\"white sails\" whale", &[3]),
        ("\"sails grey\"", &[]),
        ("-whale", &[]),
        ("the", &[]),
        ("leviathan", &[]),
    ] {
        assert_eq!(client.found("books", search), expected, "{search}");
    }
    let both = doc! { "year": 1851, "$text": { "$search": "ship white" } };
    assert_eq!(ids(&client.query(doc! { "find": "books", "filter": both.clone() }).unwrap()), [1, 2]);
    assert_eq!(client.command(doc! { "count": "books", "query": both }).unwrap().get_i32("n").unwrap(), 2);
    let score = doc! { "$meta": "textScore" };
    let ranked = doc! { "find": "books", "filter": text("whale sea"), "sort": { "s": score.clone() }, "projection": { "s": score.clone() } };
    let ranked = client.query(ranked).unwrap();
    assert_eq!(ids(&ranked), [1, 2, 3], "best first: {ranked:?}");
    let scores: Vec<f64> = ranked.iter().map(|found| found.get_f64("s").unwrap()).collect();
    // The title is the stem alone: 3 * 1.1; one of two words of the body: 0.75.
    assert!((scores[0] - (3.3 + 0.75)).abs() < 1e-9, "{scores:?}");
    assert!(ranked[0].contains_key("body"), "the score is added to the document");
    let pipeline = vec![
        doc! { "$match": text("whale sea") },
        doc! { "$project": { "s": score.clone() } },
        doc! { "$sort": { "s": 1 } },
        doc! { "$limit": 2 },
    ];
    let aggregated = client.query(doc! { "aggregate": "books", "pipeline": pipeline, "cursor": {} }).unwrap();
    assert_eq!(ids(&aggregated), [3, 2]);
    let grouped =
        vec![doc! { "$match": text("whale sea") }, doc! { "$group": { "_id": "$year", "n": { "$sum": 1 } } }];
    let grouped = client.query(doc! { "aggregate": "books", "pipeline": grouped, "cursor": {} }).unwrap();
    assert_eq!(grouped.len(), 2, "{grouped:?}");
    let explained = client.command(doc! { "explain": { "find": "books", "filter": text("whale") } }).unwrap();
    assert!(explained.to_string().contains("BISEN"), "{explained}");
}

#[test]
fn writes_by_text_change_what_is_found() {
    let texts = Texts::start();
    let mut client = texts.client();
    books(&mut client);
    let updates = vec![doc! { "q": text("whale"), "u": { "$set": { "body": "squid" } }, "multi": true }];
    let updated = client.command(doc! { "update": "books", "updates": updates }).unwrap();
    assert_eq!(updated.get_i32("nModified").unwrap(), 2);
    assert_eq!(client.found("books", "squid"), [1, 2]);
    assert_eq!(client.found("books", "white"), [3]);
    let changed = doc! { "findAndModify": "books", "query": text("sails"), "update": { "$unset": { "body": 1 } }, "new": true };
    assert!(!client.command(changed).unwrap().get_document("value").unwrap().contains_key("body"));
    assert_eq!(client.found("books", "sails"), NOTHING);
    assert_eq!(client.found("books", "ship"), [3], "by its title");
    let deletes = vec![doc! { "q": text("squid"), "limit": 0 }];
    assert_eq!(
        client.command(doc! { "delete": "books", "deletes": deletes }).unwrap().get_i32("n").unwrap(),
        2
    );
    assert_eq!(client.found("books", "squid whale ship"), [3]);
    // Over documents that are there, and again after a drop: nothing of before is found.
    client.command(doc! { "dropIndexes": "books", "index": "words" }).unwrap();
    client.insert("books", vec![doc! { "_id": 9, "body": "a whale" }]);
    client.create_index("books", doc! { "body": "text" }, doc! {}).unwrap();
    assert_eq!(client.found("books", "whale ship"), [9]);
    client.command(doc! { "drop": "books" }).unwrap();
    books(&mut client);
    assert_eq!(client.found("books", "squid"), NOTHING);
}

#[test]
fn errors_are_mongodb_s() {
    let texts = Texts::start();
    let mut client = texts.client();
    let find = |filter: Document| doc! { "find": "books", "filter": filter };
    assert_eq!(client.code(find(text("whale"))), 27, "no collection");
    client.insert("books", vec![doc! { "_id": 0, "a": 1 }]);
    assert_eq!(client.code(find(text("whale"))), 27, "no text index");
    client.command(doc! { "delete": "books", "deletes": [{ "q": {}, "limit": 0 }] }).unwrap();
    books(&mut client);
    assert_eq!(client.code(find(doc! { "$or": [text("whale"), { "year": 1851 }] })), 238);
    assert_eq!(client.code(find(doc! { "$text": { "$search": "a", "$language": "klingon" } })), 2);
    assert_eq!(client.code(find(doc! { "$text": { "$search": "a", "$caseSensitive": true } })), 238);
    let scored = doc! { "find": "books", "sort": { "s": { "$meta": "textScore" } } };
    assert_eq!(client.code(scored), 40218);
    let other = client.create_index("books", doc! { "title": "text" }, doc! {}).unwrap_err();
    assert_eq!(other.code(), Some(85), "{other}");
    let beside = client.create_index("other", doc! { "title": "text", "year": 1 }, doc! {}).unwrap_err();
    assert_eq!(beside.code(), Some(67), "{beside}");
    let language =
        client.create_index("other", doc! { "title": "text" }, doc! { "default_language": "klingon" });
    assert_eq!(language.unwrap_err().code(), Some(67));
    let documents =
        vec![doc! { "_id": 10, "title": "x", "language": "klingon" }, doc! { "_id": 11, "title": "whale" }];
    let insert = doc! { "insert": "books", "documents": documents, "ordered": false };
    let Err(ClientError::Refused(reply)) = client.command(insert) else { panic!("one is refused") };
    let failures = reply.get_array("writeErrors").unwrap();
    assert_eq!(failures.len(), 1, "{reply}");
    assert_eq!(failures[0].as_document().unwrap().get_i32("code").unwrap(), 17262);
    let message = failures[0].as_document().unwrap().get_str("errmsg").unwrap();
    assert!(message.ends_with("in the document with _id: 10"), "{message}");
    assert_eq!(client.found("books", "whale"), [1, 2, 11]);
    let listed = client.query(doc! { "listIndexes": "books" }).unwrap();
    let words = listed.iter().find(|index| index.get_str("name").is_ok_and(|name| name == "words")).unwrap();
    assert_eq!(words.get_document("weights").unwrap(), &doc! { "body": 1, "title": 3 });
    assert_eq!(words.get_document("key").unwrap(), &doc! { "_fts": "text", "_ftsx": 1 });
    assert_eq!(words.get_str("default_language").unwrap(), "english");
}

/// Without the host, what needs it says so and everything else goes on; what was acknowledged is found when it is back.
#[test]
fn a_host_that_is_away_is_named_and_waited_for() {
    let mut texts = Texts::start();
    let mut client = texts.client();
    books(&mut client);
    texts.kill_host();
    let find = doc! { "find": "books", "filter": text("whale") };
    // The write that meets the loss is stored; after it nothing more is.
    let insert = |id: i32| doc! { "insert": "books", "documents": [{ "_id": id, "title": "whale" }] };
    let first = client.command(insert(20)).is_ok();
    let refused = client.command(insert(21)).unwrap_err();
    assert!(is_unreachable(&refused) && refused.code() == Some(6), "{refused}");
    assert!(refused.to_string().contains(&texts.search.address()), "{refused}");
    assert_eq!(client.code(find), 6);
    client.insert("others", vec![doc! { "_id": 1 }]);
    assert_eq!(client.query(doc! { "find": "books", "filter": { "year": 1851 } }).unwrap().len(), 2);
    texts.start_host();
    let expected: &[i32] = if first { &[1, 2, 20] } else { &[1, 2] };
    assert_eq!(client.found("books", "whale"), expected);
    client.command(insert(21)).unwrap();
    assert!(client.found("books", "whale").contains(&21));
}

/// Entries of yesterday under the counter of today: the enclave notices by its counter. With the counter set back, too, the proxy
/// does, by what was acknowledged.
#[test]
fn a_search_service_that_was_set_back_is_noticed() {
    let mut texts = Texts::start();
    let mut client = texts.client();
    books(&mut client);
    copy(&mut texts);
    client.insert("books", vec![doc! { "_id": 30, "title": "a whale of yesterday" }]);
    set_back(&mut texts);
    let refused = client.query(doc! { "find": "books", "filter": text("whale") }).unwrap_err();
    assert_eq!(refused.code(), Some(246), "{refused}");
    assert!(refused.to_string().contains("set back"), "{refused}");
    // What it says helps.
    client.command(doc! { "dropIndexes": "books", "index": "words" }).unwrap();
    client.create_index("books", doc! { "title": "text" }, doc! {}).unwrap();
    assert_eq!(client.found("books", "whale"), [1, 30]);
}

fn copy(texts: &mut Texts) {
    texts.kill_host();
    let (data, old) = (texts.system.path("search"), texts.system.path("old"));
    let copied = std::process::Command::new("cp").arg("-r").args([&data, &old]).status().unwrap();
    assert!(copied.success());
    texts.start_host();
}

fn set_back(texts: &mut Texts) {
    texts.kill_host();
    let (data, old) = (texts.system.path("search"), texts.system.path("old"));
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&old, &data).unwrap();
    texts.start_host();
}

/// Of the index that is left nothing is missed by count: what was dropped had more entries than what is written since.
#[test]
fn a_search_service_that_was_set_back_to_before_a_drop_is_noticed() {
    let mut texts = Texts::start();
    let mut client = texts.client();
    books(&mut client);
    client.create_index("birds", doc! { "name": "text" }, doc! {}).unwrap();
    client.insert("birds", vec![doc! { "_id": 1, "name": "gull" }]);
    copy(&mut texts);
    client.command(doc! { "dropIndexes": "books", "index": "words" }).unwrap();
    client.insert("birds", vec![doc! { "_id": 2, "name": "a gull" }]);
    assert_eq!(client.found("birds", "gull"), [1, 2]);
    // With its intent it is durable that the enclave was told of the one before; what is not, is told again.
    client.insert("birds", vec![doc! { "_id": 3, "name": "a gull" }]);
    set_back(&mut texts);
    let refused = client.query(doc! { "find": "birds", "filter": text("gull") }).unwrap_err();
    assert_eq!(refused.code(), Some(246), "{refused}");
    texts.system.kill_proxy();
    texts.system.start_proxy();
    let mut client = texts.client();
    let refused = client.query(doc! { "find": "birds", "filter": text("gull") }).unwrap_err();
    assert_eq!(refused.code(), Some(246), "{refused}");
}

/// Restarts of each side, and a build over documents that fill several updates.
#[test]
fn every_side_may_be_started_again() {
    let mut texts = Texts::start();
    let mut client = texts.client();
    let documents = (0..1500).map(|id| doc! { "_id": id, "body": format!("word{} common", id % 7) });
    client.insert("many", documents.collect());
    client.create_index("many", doc! { "body": "text" }, doc! { "default_language": "none" }).unwrap();
    let expected: Vec<i32> = (0..1500).filter(|id| id % 7 == 3).collect();
    assert_eq!(client.found("many", "word3"), expected);
    texts.system.kill_proxy();
    texts.system.start_proxy();
    let mut client = texts.client();
    assert_eq!(client.found("many", "word3"), expected);
    texts.kill_host();
    texts.start_host();
    assert_eq!(client.found("many", "word3"), expected);
    texts.system.kill_server();
    texts.system.start_server();
    until(|| client.command(doc! { "count": "many" }).is_ok());
    assert_eq!(client.found("many", "common").len(), 1500);
    texts.system.assert_no_panic();
}

/// An enclave that the release policy does not name is told nothing, whoever vouches for it; a configuration that leaves
/// the question open is refused.
#[test]
fn only_an_enclave_that_the_policy_names_is_spoken_to() {
    let mut texts = Texts::start();
    let mut client = texts.client();
    books(&mut client);
    texts.system.kill_proxy();
    texts.write_policy(&"5a".repeat(32));
    texts.system.start_proxy();
    let mut client = texts.client();
    let refused = client.query(doc! { "find": "books", "filter": text("whale") }).unwrap_err();
    assert!(refused.to_string().contains("measurement"), "{refused}");
    client.insert("others", vec![doc! { "_id": 1 }]);

    texts.system.kill_proxy();
    let configuration = fs::read_to_string(texts.system.configuration()).unwrap();
    let without = configuration.replace("policy = \"search-client/policy.toml\"", "");
    assert_ne!(configuration, without);
    fs::write(texts.system.configuration(), without).unwrap();
    let refused = texts.system.proxy_command().output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("needs certificates and policy"), "{said}");
}
