//! A text index that the schema declares.

use super::super::process::{Ended, run};
use super::super::system::System;
use super::{Client, Texts, until};
use bson::doc;
use std::fs;

const DECLARED: &str = "[collections.\"texts.books\".text]\nfields = { title = 3, body = 1 }\n";

/// Has the proxy go by a schema from its next start on.
fn declare(system: &System, schema: &str) {
    fs::write(system.path("config/schema.toml"), schema).unwrap();
    let configuration = fs::read_to_string(system.configuration()).unwrap();
    if !configuration.starts_with("schema") {
        fs::write(system.configuration(), format!("schema = \"schema.toml\"\n{configuration}")).unwrap();
    }
}

fn named(client: &mut Client) -> Vec<String> {
    let listed = client.query(doc! { "listIndexes": "books" }).unwrap();
    listed.iter().map(|index| index.get_str("name").unwrap().to_owned()).collect()
}

fn arras(texts: &Texts, subcommand: &str, arguments: &[&str]) -> Ended {
    let mut command = texts.system.arras(subcommand);
    command.args(arguments).arg("--config").arg(texts.system.configuration());
    run(command)
}

#[test]
fn a_new_collection_has_it_and_a_request_for_the_same_changes_nothing() {
    let mut texts = Texts::start();
    texts.system.kill_proxy();
    declare(&texts.system, DECLARED);
    texts.system.start_proxy();
    let mut client = texts.client();
    client.insert("books", vec![doc! { "_id": 1, "title": "Whale" }, doc! { "_id": 2, "body": "ships" }]);
    assert_eq!(named(&mut client), ["_id_", "arras_text"]);
    assert_eq!(client.found("books", "whales"), [1]);
    let weights = doc! { "weights": { "title": 3 } };
    client.create_index("books", doc! { "title": "text", "body": "text" }, weights).unwrap();
    assert_eq!(named(&mut client), ["_id_", "arras_text"]);
    client.create_index("books", doc! { "title": "text" }, doc! {}).unwrap_err();
    assert_eq!(client.found("books", "ship"), [2]);

    texts.kill_host();
    client.command(doc! { "drop": "books" }).unwrap();
    let unreachable =
        client.command(doc! { "insert": "books", "documents": [doc! { "_id": 1 }] }).unwrap_err();
    assert_eq!(unreachable.code(), Some(6), "{unreachable}");
    texts.start_host();
    client.insert("books", vec![doc! { "_id": 3, "title": "Sails" }]);
    assert_eq!(client.found("books", "sail"), [3]);
}

#[test]
fn a_schema_that_comes_later_makes_it_over_what_there_is() {
    let mut texts = Texts::start();
    let mut client = texts.client();
    client.insert("books", vec![doc! { "_id": 1, "title": "Whale" }, doc! { "_id": 2, "body": "ships" }]);
    texts.system.kill_proxy();
    declare(&texts.system, DECLARED);
    let doctor = arras(&texts, "doctor", &[]);
    assert!(
        doctor.stdout.contains("BISEN(body, title) of texts.books is not there"),
        "{}{}",
        doctor.stdout,
        doctor.stderr
    );
    let applied = arras(&texts, "plan", &["--apply"]);
    assert!(applied.stdout.contains("BISEN(body, title): made"), "{}{}", applied.stdout, applied.stderr);
    texts.system.start_proxy();
    let mut client = texts.client();
    until(|| client.query(doc! { "find": "books", "filter": { "$text": { "$search": "whale" } } }).is_ok());
    assert_eq!(client.found("books", "whale ship"), [1, 2]);

    // Declared otherwise, it stays as it is until somebody drops it.
    texts.system.kill_proxy();
    declare(&texts.system, &DECLARED.replace("title = 3", "title = 2"));
    let refused = arras(&texts, "plan", &["--apply"]);
    assert!(
        refused.stdout.contains("cannot be made") && refused.stdout.contains("arras_text"),
        "{}{}",
        refused.stdout,
        refused.stderr
    );
    texts.system.start_proxy();
    let mut client = texts.client();
    assert_eq!(client.found("books", "whale ship"), [1, 2]);
    texts.system.kill_proxy();

    // Nobody would keep it.
    let configuration = fs::read_to_string(texts.system.configuration()).unwrap();
    let (without, _) = configuration.split_once("[search]").unwrap();
    fs::write(texts.system.configuration(), without).unwrap();
    let refused = texts.system.proxy_command().output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("declares text of texts.books"), "{said}");
}
