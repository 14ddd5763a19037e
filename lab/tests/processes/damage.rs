//! What damage the administrator's commands find.

use super::history::copy;
use super::process::{PATIENCE, Process};
use super::system::{Making, SMALL_TREES, System};
use arras_storage::{Bytes, Direction, Durability, Embedded, Read, Storage, Table, Write};
use bson::doc;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

/// A collection with an index of each kind, both sides stopped.
fn filled() -> System {
    let configuration = SMALL_TREES;
    let mut system = System::start(Making { log_level: "error", configuration, ..Making::default() });
    let mut client = system.client();
    let index = |name: &str, unique: bool| doc! { "key": { name: 1 }, "name": name, "unique": unique };
    let indexes = vec![index("age", false), index("number", true), index("town", false)];
    client.command(&doc! { "createIndexes": "people", "indexes": indexes, "$db": "test" }).unwrap();
    let documents: Vec<_> = (0..150)
        .map(|id| doc! { "_id": id, "age": id % 40, "number": id * 7, "town": format!("town {}", id % 9) })
        .collect();
    client.command(&doc! { "insert": "people", "documents": documents, "$db": "test" }).unwrap();
    let delete = doc! { "q": { "age": 7 }, "limit": 0 };
    client.command(&doc! { "delete": "people", "deletes": [delete], "$db": "test" }).unwrap();
    drop(client);
    stop(&mut system.proxy);
    stop(&mut system.server);
    system
}

fn stop(process: &mut Option<Process>) {
    let mut process = process.take().unwrap();
    process.signal("TERM");
    assert!(process.ended(PATIENCE).is_some_and(|status| status.success()));
}

/// Its exit code and what it says.
fn doctor(system: &System) -> (Option<i32>, String) {
    let mut command = system.arras("doctor");
    let output = command.arg("--deep").arg("--config").arg(system.configuration()).output().unwrap();
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

/// The row in the middle of a table, taken out of the server's store.
fn take_one(data: &Path, table: Table) -> Option<(Vec<u8>, Bytes)> {
    let store = Embedded::open(data).unwrap();
    let mut rows = Vec::new();
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let gather = &mut |key: &[u8], value: &[u8]| {
        rows.push((key.to_vec(), Bytes::copy_from_slice(value)));
        ControlFlow::Continue(())
    };
    store.read().unwrap().scan(table, everything, Direction::Ascending, gather).unwrap();
    let row = rows.get(rows.len() / 2)?.clone();
    let mut writer = store.write().unwrap();
    writer.delete(table, &row.0).unwrap();
    writer.commit(Durability::Durable).unwrap();
    Some(row)
}

/// Puts rows into the server's store.
fn put(data: &Path, table: Table, rows: &[(&[u8], &[u8])]) {
    let store = Embedded::open(data).unwrap();
    let mut writer = store.write().unwrap();
    rows.iter().for_each(|(key, value)| writer.put(table, key, value).unwrap());
    writer.commit(Durability::Durable).unwrap();
}

#[test]
fn doctor_compares_every_index_with_the_documents() {
    let mut system = filled();
    copy(&system.path("server"), &system.path("sound"));
    system.start_server();
    let (code, said) = doctor(&system);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("collection test.people: 146 documents agree with"), "{said}");
    stop(&mut system.server);
    for table in ["arx_eq", "unique", "documents", "arx_range_buckets", "arx_range_nodes"] {
        std::fs::remove_dir_all(system.path("server")).unwrap();
        copy(&system.path("sound"), &system.path("server"));
        if take_one(&system.path("server"), Table(table)).is_none() {
            panic!("nothing is stored in table {table}");
        }
        system.start_server();
        let (code, said) = doctor(&system);
        stop(&mut system.server);
        assert_ne!(code, Some(0), "{table}: {said}");
        assert!(said.contains("FAIL  collection test.people"), "{table}: {said}");
    }
}

/// An entry of a value that no document has: no search that the documents call for finds it.
#[test]
fn doctor_finds_an_equality_entry_that_belongs_to_no_document() {
    let mut system = filled();
    let entries = Table("arx_eq");
    let (name, row) = take_one(&system.path("server"), entries).expect("an index of each kind");
    let mut stray = name.clone();
    *stray.last_mut().unwrap() ^= 1;
    put(&system.path("server"), entries, &[(&name, &row), (&stray, &row)]);
    system.start_server();
    let (code, said) = doctor(&system);
    stop(&mut system.server);
    assert_ne!(code, Some(0), "{said}");
    assert!(said.contains("1 entries belong to no document"), "{said}");
}
