//! Tests of both implementations and of the wrappers.
#![allow(clippy::unwrap_used)]

mod beside;
mod commits;
mod crash;
mod damage;
mod full;
mod history;
mod log;
mod memtable;
mod model;
mod power;
mod rates;
mod wrappers;

use crate::{Accounted, Embedded, Failing, Memory, conformance};

#[test]
fn memory_conforms() {
    conformance::all(Memory::new);
}

#[test]
fn embedded_conforms() {
    let mut directories = Vec::new();
    conformance::all(|| {
        let directory = tempfile::tempdir().unwrap();
        let store = Embedded::open(directory.path()).unwrap();
        directories.push(directory);
        store
    });
}

#[test]
fn wrappers_conform() {
    conformance::all(|| Accounted::new(Failing::new(Memory::new())));
}
