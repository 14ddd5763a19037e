//! A deterministic history of commits, recognizable from its end: from the number of the last commit found, every
//! entry the tables must hold follows.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::conformance::entries;
use crate::{Direction, Durability, Read, Storage, StorageError, Table, Write};

const LEFT: Table = Table("left");
const RIGHT: Table = Table("right");
const NUMBER: Table = Table("number");
/// Each commit puts one slot, in turn, so the last commits of this number tell the whole state.
const SLOTS: u64 = 40;

fn content(number: u64) -> Vec<u8> {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let len = if number.is_multiple_of(97) { 300_000 } else { (mixed >> 50) as usize };
    mixed.to_be_bytes().into_iter().cycle().take(len).collect()
}

fn slot(number: u64) -> [u8; 8] {
    (number % SLOTS).to_be_bytes()
}

/// The durability of a commit.
pub(crate) fn durability(number: u64) -> Durability {
    if number.is_multiple_of(5) { Durability::Durable } else { Durability::Relaxed }
}

/// Makes commit `number`, which follows `number - 1`.
pub(crate) fn commit(store: &impl Storage, number: u64) -> Result<(), StorageError> {
    let mut writer = store.write()?;
    writer.put(LEFT, &slot(number), &content(number))?;
    writer.put(RIGHT, &slot(number), &content(number + 1))?;
    writer.delete(LEFT, &slot(number + 17))?;
    writer.put(NUMBER, b"", &number.to_be_bytes())?;
    writer.commit(durability(number))
}

/// The number of the last commit in the store, 0 if there is none.
///
/// # Panics
/// If the state is not exactly what that commit left.
pub(crate) fn check(store: &impl Storage) -> u64 {
    let reader = store.read().unwrap();
    let last = reader
        .get(NUMBER, b"")
        .unwrap()
        .map_or(0, |bytes| u64::from_be_bytes(bytes.as_ref().try_into().unwrap()));
    let (mut left, mut right) = (BTreeMap::new(), BTreeMap::new());
    for number in last.saturating_sub(2 * SLOTS).max(1)..=last {
        left.insert(slot(number).to_vec(), content(number));
        right.insert(slot(number).to_vec(), content(number + 1));
        left.remove(slot(number + 17).as_slice());
    }
    for (table, expected) in [(LEFT, left), (RIGHT, right)] {
        let found = entries(&reader, table, (Bound::Unbounded, Bound::Unbounded), Direction::Ascending);
        assert!(
            found == expected.into_iter().collect::<Vec<_>>(),
            "{table:?} is not what commit {last} left"
        );
    }
    last
}
