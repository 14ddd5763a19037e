//! What dropped collections and indexes leave: a drop removes some of it, the rest goes a little at a time behind everybody's
//! writes, so that a drop takes no longer, and no more memory, the more there is.

use crate::backend::storage;
use crate::halves;
use arras_protocol::Refusal;
use arras_storage::{Direction, Durability, Read, Storage, Table, Write};
use std::ops::{Bound, ControlFlow};

/// Beginnings of keys of which there are more, behind the name of their table and a zero.
const LEFTOVERS: Table = Table("leftovers");
/// Keys that are removed in one transaction.
const AT_ONCE: usize = 1000;

/// What is left of something that was dropped.
struct Leftover {
    table: Table,
    beginning: Vec<u8>,
}

fn name(table: Table, beginning: &[u8]) -> Vec<u8> {
    [table.0.as_bytes(), &[0], beginning].concat()
}

/// Removes what begins so; what is too much for one transaction is noted, and goes by [`sweep`].
pub(crate) fn remove(writer: &mut impl Write, table: Table, beginning: &[u8]) -> Result<(), Refusal> {
    let removed = writer.delete_prefix(table, beginning, AT_ONCE).map_err(storage)?;
    if removed < AT_ONCE as u64 {
        return Ok(());
    }
    writer.put(LEFTOVERS, &name(table, beginning), &[]).map_err(storage)
}

/// That nothing is left of an earlier one of an id that is to be used again: nobody who draws ids at random does that.
pub(crate) fn none_of(reader: &impl Read, tables: &[Table], id: &[u8]) -> Result<(), Refusal> {
    for table in tables {
        if reader.contains(LEFTOVERS, &name(*table, id)).map_err(storage)? {
            return Err(Refusal::Malformed("an id is used again whose entries are not all gone yet".into()));
        }
    }
    Ok(())
}

/// Removes some of what is left; true if there is more.
pub(crate) fn sweep<S: Storage>(store: &S) -> Result<bool, Refusal> {
    let Some(Leftover { table, beginning }) = first(&store.read().map_err(storage)?)? else {
        return Ok(false);
    };
    let mut writer = store.write().map_err(storage)?;
    let removed = writer.delete_prefix(table, &beginning, AT_ONCE).map_err(storage)?;
    if removed < AT_ONCE as u64 {
        writer.delete(LEFTOVERS, &name(table, &beginning)).map_err(storage)?;
    }
    writer.commit(Durability::Relaxed).map_err(storage)?;
    Ok(true)
}

/// The first note of a table that this build knows, and what it says. Those of other protocols a later build empties.
fn first(reader: &impl Read) -> Result<Option<Leftover>, Refusal> {
    let mut first = None;
    reader
        .scan(LEFTOVERS, (Bound::Unbounded, Bound::Unbounded), Direction::Ascending, &mut |noted, _| {
            let mut parts = noted.splitn(2, |byte| *byte == 0);
            let said = parts.next().and_then(halves::emptied).zip(parts.next());
            first = said.map(|(table, beginning)| Leftover { table, beginning: beginning.to_vec() });
            if first.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .map_err(storage)?;
    Ok(first)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use arras_storage::Memory;

    const ID: [u8; 8] = [7; 8];

    /// A store with so many entries under an id in a table that drops empty, and one under another id.
    fn filled(entries: usize) -> (Memory, Table) {
        let (store, table) = (Memory::new(), halves::emptied(b"documents").unwrap());
        let mut writer = store.write().unwrap();
        for number in 0..entries {
            writer.put(table, &[&ID[..], &number.to_be_bytes()].concat(), b"entry").unwrap();
        }
        writer.put(table, &[8; 16], b"another's").unwrap();
        writer.commit(Durability::Relaxed).unwrap();
        (store, table)
    }

    fn entries(store: &Memory, table: Table) -> usize {
        let mut found = 0;
        let all = (Bound::Unbounded, Bound::Unbounded);
        let count = &mut |_: &[u8], _: &[u8]| {
            found += 1;
            ControlFlow::Continue(())
        };
        store.read().unwrap().scan(table, all, Direction::Ascending, count).unwrap();
        found
    }

    #[test]
    fn a_drop_changes_no_more_keys_however_many_there_are_and_the_rest_goes_later() {
        for many in [0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 3 * AT_ONCE + 5] {
            let (store, table) = filled(many);
            let mut writer = store.write().unwrap();
            writer.put(LEFTOVERS, b"a table of another build\0x", &[]).unwrap();
            remove(&mut writer, table, &ID).unwrap();
            let is_left = none_of(&writer, &[table], &ID).is_err();
            writer.commit(Durability::Relaxed).unwrap();
            assert_eq!(entries(&store, table), many.saturating_sub(AT_ONCE) + 1);
            assert_eq!(is_left, many >= AT_ONCE, "an id is not used again before all is gone");
            while sweep(&store).unwrap() {}
            assert_eq!(entries(&store, table), 1, "another's stays");
            assert!(none_of(&store.read().unwrap(), &[table], &ID).is_ok());
        }
    }
}
