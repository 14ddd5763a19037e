//! What the server stores: lengths of names and values, table by table.

use arras_storage::{Direction, Embedded, Read, Storage, Table};
use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

/// Tables of a host of boolean search.
pub(crate) const HOST: [&str; 2] = ["iee_entries", "iee_state"];
/// Tables of a server that serves a proxy.
pub(crate) const SERVER: [&str; 12] = [
    "each_write.collections",
    "documents",
    "unique_indexes",
    "unique",
    "arx_eq_indexes",
    "arx_eq",
    "arx_range_heads",
    "arx_range_top",
    "arx_range_nodes",
    "arx_range_buckets",
    "arx_range_circuits",
    "each_write.marks",
];

/// Table, length of the name and of the value: how many records are so.
pub(crate) type Lengths = BTreeMap<(&'static str, usize, usize), usize>;

/// The lengths of all that a stopped server or host has stored.
pub(crate) fn lengths(directory: &Path, tables: &[&'static str]) -> Lengths {
    let store = Embedded::open(directory).unwrap();
    let reader = store.read().unwrap();
    let mut lengths = Lengths::new();
    for table in tables.iter().copied() {
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let scanned = reader.scan(Table(table), everything, Direction::Ascending, &mut |name, value| {
            *lengths.entry((table, name.len(), value.len())).or_default() += 1;
            ControlFlow::Continue(())
        });
        scanned.unwrap();
    }
    lengths
}
