//! How often damage of a closed store's files is found, and how: the figures of `docs/storage.md`.
//!
//! `cargo test -p arras-storage --lib rates -- --ignored --nocapture` prints the full run.

use std::collections::BTreeMap;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use crate::{Direction, Durability, Embedded, Read, Storage, StorageError, Table, Write};

const BLOCK: usize = 4096;

/// The server's tables, with keys and values of their sizes.
const TABLES: [(Table, usize, usize); 4] = [
    (Table("documents"), 24, 700),
    (Table("unique"), 32, 16),
    (Table("arx_eq"), 24, 40),
    (Table("arx_range.buckets"), 16, 1200),
];
const ROWS: u64 = 250;

type Rows = BTreeMap<Vec<u8>, Vec<u8>>;
type Files = Vec<(std::ffi::OsString, Vec<u8>)>;

/// A small generator (splitmix64).
fn next(seed: &mut u64) -> u64 {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (*seed ^ (*seed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

fn bytes(seed: &mut u64, len: usize) -> Vec<u8> {
    (0..len).map(|_| next(seed) as u8).collect()
}

/// Fills a store as a server does: batches, replaced and deleted rows, and relaxed commits between durable ones.
fn fill(store: &Embedded) -> BTreeMap<Table, Rows> {
    let mut seed = 11;
    let mut expected: BTreeMap<Table, Rows> = BTreeMap::new();
    for batch in 0..ROWS / 10 {
        let mut writer = store.write().unwrap();
        for (table, key_bytes, value_bytes) in TABLES {
            let rows = expected.entry(table).or_default();
            for _ in 0..10 {
                let (key, value) = (bytes(&mut seed, key_bytes), bytes(&mut seed, value_bytes));
                writer.put(table, &key, &value).unwrap();
                rows.insert(key, value);
            }
            let replaced = rows.keys().nth((next(&mut seed) % rows.len() as u64) as usize).unwrap().clone();
            let value = bytes(&mut seed, value_bytes);
            writer.put(table, &replaced, &value).unwrap();
            rows.insert(replaced, value);
            let deleted = rows.keys().nth((next(&mut seed) % rows.len() as u64) as usize).unwrap().clone();
            writer.delete(table, &deleted).unwrap();
            rows.remove(&deleted);
        }
        let durability = if batch % 3 == 0 { Durability::Durable } else { Durability::Relaxed };
        writer.commit(durability).unwrap();
    }
    expected
}

/// What became of a damaged store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    RefusedAtOpening,
    DamagedWhenRead,
    Unaffected,
    SilentlyWrong,
}

/// Reads everything in every way; true if an answer was refused as damaged.
fn read_all(store: &Embedded, expected: &BTreeMap<Table, Rows>) -> Result<bool, String> {
    let mut damaged = false;
    let mut heed = |outcome: Result<bool, StorageError>, what: &str| match outcome {
        Ok(true) => Ok(()),
        Ok(false) => Err(what.to_owned()),
        Err(StorageError::Damaged(_)) => {
            damaged = true;
            Ok(())
        }
        Err(error) => Err(format!("{what}: {error}")),
    };
    let Ok(reader) = store.read() else { return Ok(true) };
    for (table, rows) in expected {
        for (key, value) in rows {
            heed(reader.get(*table, key).map(|found| found.as_deref() == Some(value)), "a point look-up")?;
            let mut absent = key.clone();
            absent.push(1);
            heed(reader.get(*table, &absent).map(|found| found.is_none()), "an absent key")?;
        }
        for direction in [Direction::Ascending, Direction::Descending] {
            let mut found = Rows::new();
            let scanned =
                reader.scan(*table, (Bound::Unbounded, Bound::Unbounded), direction, &mut |key, value| {
                    found.insert(key.to_vec(), value.to_vec());
                    ControlFlow::Continue(())
                });
            heed(scanned.map(|()| found == *rows), "a scan")?;
        }
    }
    Ok(damaged)
}

fn outcome(files: &Files, expected: &BTreeMap<Table, Rows>) -> (Outcome, String) {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(directory.path().join(name), bytes).unwrap();
    }
    let store = match Embedded::open(directory.path()) {
        Ok(store) => store,
        Err(StorageError::Damaged(what)) => return (Outcome::RefusedAtOpening, what),
        Err(error) => return (Outcome::SilentlyWrong, format!("blamed on the environment: {error}")),
    };
    match read_all(&store, expected) {
        Ok(true) => (Outcome::DamagedWhenRead, String::new()),
        Ok(false) => (Outcome::Unaffected, String::new()),
        Err(what) => (Outcome::SilentlyWrong, what),
    }
}

fn files_of(directory: &Path) -> Files {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap());
    entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect()
}

fn closed_store() -> (Files, BTreeMap<Table, Rows>) {
    let directory = tempfile::tempdir().unwrap();
    let store = Embedded::open(directory.path()).unwrap();
    let expected = fill(&store);
    drop(store);
    (files_of(directory.path()), expected)
}

fn engine_file(files: &mut Files) -> &mut Vec<u8> {
    &mut files.iter_mut().find(|(name, _)| name == "arras.redb").unwrap().1
}

/// Damages a closed store `rounds` times in one way and counts what became of it.
fn rates(name: &str, rounds: u64, damage: impl Fn(&mut Files, &mut u64)) -> BTreeMap<Outcome, u64> {
    let (files, expected) = closed_store();
    assert_eq!(outcome(&files, &expected).0, Outcome::Unaffected, "the store is wrong without damage");
    let mut counts = BTreeMap::new();
    let mut seed = 5;
    for round in 0..rounds {
        let mut damaged = files.clone();
        damage(&mut damaged, &mut seed);
        let (outcome, what) = outcome(&damaged, &expected);
        if outcome == Outcome::SilentlyWrong {
            eprintln!("{name}, round {round}: {what}");
        }
        *counts.entry(outcome).or_default() += 1;
    }
    eprintln!("{name}, {rounds} rounds: {counts:?}");
    counts
}

fn flip_bit(bytes: &mut [u8], within: usize, seed: &mut u64) {
    let bit = next(seed) as usize % (within * 8);
    bytes[bit / 8] ^= 1 << (bit % 8);
}

fn flip(files: &mut Files, seed: &mut u64) {
    let file = engine_file(files);
    let len = file.len();
    flip_bit(file, len, seed);
}

fn flip_header(files: &mut Files, seed: &mut u64) {
    flip_bit(engine_file(files), 320, seed);
}

fn flip_elsewhere(files: &mut Files, seed: &mut u64) {
    for (name, bytes) in files {
        if name != "arras.redb" && !bytes.is_empty() {
            let len = bytes.len();
            flip_bit(bytes, len, seed);
        }
    }
}

/// Exchanges two pages that hold something.
fn swap(files: &mut Files, seed: &mut u64) {
    let file = engine_file(files);
    let used: Vec<usize> = (0..file.len() / BLOCK)
        .filter(|page| file[page * BLOCK..][..BLOCK].iter().any(|byte| *byte != 0))
        .collect();
    let first = used[next(seed) as usize % used.len()];
    let second = used[next(seed) as usize % used.len()];
    let (low, high) = (first.min(second), first.max(second));
    if low != high {
        let (left, right) = file.split_at_mut(high * BLOCK);
        left[low * BLOCK..][..BLOCK].swap_with_slice(&mut right[..BLOCK]);
    }
}

/// Puts an older page's bytes in the place of a newer one, as a write that the device lost.
fn stale(files: &mut Files, seed: &mut u64) {
    let file = engine_file(files);
    let pages = file.len() / BLOCK;
    let (from, to) = (next(seed) as usize % pages, next(seed) as usize % pages);
    file.copy_within(from * BLOCK..(from + 1) * BLOCK, to * BLOCK);
}

/// Does one damage, drawn from the seed.
type Damage = fn(&mut Files, &mut u64);

fn all(rounds: u64) {
    let mut silent = 0;
    let kinds: [(&str, Damage); 5] = [
        ("single bits", flip),
        ("exchanged pages", swap),
        ("single bits of the header", flip_header),
        ("pages overwritten with others", stale),
        ("single bits of the file of sums", flip_elsewhere),
    ];
    for (name, damage) in kinds {
        let counts = rates(name, rounds, damage);
        silent += counts.get(&Outcome::SilentlyWrong).unwrap_or(&0);
        let found = [Outcome::RefusedAtOpening, Outcome::DamagedWhenRead];
        let found: u64 = found.iter().filter_map(|outcome| counts.get(outcome)).sum();
        assert!(found > 0 || name.ends_with("sums"), "{name}: nothing was hit, the test shows nothing");
    }
    assert_eq!(silent, 0, "damage that no error told of");
}

#[test]
fn damage_never_hides_or_changes_a_row() {
    all(40);
}

#[test]
#[ignore = "the full measurement; minutes"]
fn damage_never_hides_or_changes_a_row_full_run() {
    all(1000);
}
