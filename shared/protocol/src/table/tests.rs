#![allow(clippy::unwrap_used)]

use super::*;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn numbers_and_names_are_each_once() {
    let ids: BTreeSet<u8> = ALL.iter().map(|row| row.id.0).collect();
    let names: BTreeSet<&str> = ALL.iter().map(|row| row.name).collect();
    assert!(ids.len() == ALL.len() && names.len() == ALL.len() && !names.contains(""));
    assert!(ALL.iter().all(|row| of(row.id).is_some_and(|found| found.name == row.name)));

    let indexes: Vec<&str> = ALL.iter().flat_map(|row| row.indexes).copied().collect();
    assert_eq!(indexes.iter().collect::<BTreeSet<_>>().len(), indexes.len(), "{indexes:?}");
    // An index of a protocol's name is over this protocol's messages.
    for row in ALL {
        assert!(!indexes.contains(&row.name) || row.indexes.contains(&row.name), "{}", row.name);
    }
}

/// The rows that the implementations of `Protocol` in the files below a folder name, after checking that each is all taken from
/// its row.
fn implemented(folder: &Path, rows: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            implemented(&path, rows);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for implementation in text.split("\nimpl Protocol for ").skip(1) {
            let body = implementation.split("\n}\n").next().unwrap();
            let row = body.split("const ROW: &'static Row = &table::").nth(1).unwrap();
            rows.push(row.split(';').next().unwrap().to_owned());
            let constants = body.matches("    const ").count();
            assert_eq!(constants, 1, "a constant that is not the row's: {}", path.display());
        }
    }
}

#[test]
fn every_protocol_has_a_row_of_its_own_and_every_row_a_protocol() {
    let mut rows = Vec::new();
    implemented(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut rows);
    rows.sort();
    let own: BTreeSet<&String> = rows.iter().collect();
    assert_eq!(own.len(), rows.len(), "two protocols with one row: {rows:?}");
    assert_eq!(rows.len(), ALL.len(), "a row without a protocol: {rows:?}");
}
