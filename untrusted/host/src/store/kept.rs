//! Entries and state in an ordered store, whichever: each call is one transaction, durable when it returns.

use super::{checkpoint_key, log_key, state_key};
use arras_protocol::iee::{ENTRY_BYTES, LABEL_BYTES, SEALED_BYTES, StateName};
use arras_storage::{Direction, Durability, KeyRange, Read as _, Storage, StorageError, Table, Write as _};
use std::ops::{Bound, ControlFlow};

/// Entries by their labels.
pub const ENTRIES: Table = Table("iee_entries");
const STATE: Table = Table("iee_state");

/// The entries of labels, in their order; zeros where there is none.
///
/// # Errors
/// [`StorageError`] if the store fails, as with all that follow.
pub fn get<S: Storage>(store: &S, labels: &[u8]) -> Result<Vec<u8>, StorageError> {
    let (labels, _) = labels.as_chunks::<LABEL_BYTES>();
    // Neighbours share pages: they are read one after the other, and answered in the order of the question.
    let mut places: Vec<usize> = (0..labels.len()).collect();
    places.sort_unstable_by_key(|&place| labels.get(place));
    let mut entries = vec![0; labels.len() * SEALED_BYTES];
    let (slots, _) = entries.as_chunks_mut::<SEALED_BYTES>();
    let mut asked = places.iter();
    let mut keys = places.iter().filter_map(|&place| labels.get(place)).map(|label| label.to_vec());
    store.read()?.get_many(ENTRIES, &mut keys, &mut |found| {
        let slot = asked.next().and_then(|&place| slots.get_mut(place));
        if let (Some(slot), Some(found)) = (slot, found)
            && let Ok(sealed) = <[u8; SEALED_BYTES]>::try_from(&found[..])
        {
            *slot = sealed;
        }
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}

/// Changes the store in a durable transaction.
fn change<S: Storage>(
    store: &S,
    change: impl FnOnce(&mut S::Writer<'_>) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    let mut writer = store.write()?;
    change(&mut writer)?;
    writer.commit(Durability::Durable)
}

/// Stores entries, each behind its label.
///
/// # Errors
/// [`StorageError`].
pub fn put<S: Storage>(store: &S, entries: &[u8]) -> Result<(), StorageError> {
    change(store, |writer| {
        let (entries, _) = entries.as_chunks::<ENTRY_BYTES>();
        let mut places: Vec<&[u8; ENTRY_BYTES]> = entries.iter().collect();
        places.sort_unstable();
        for entry in places {
            let (label, sealed) = entry.split_at(LABEL_BYTES);
            writer.put(ENTRIES, label, sealed)?;
        }
        Ok(())
    })
}

/// Removes the entries of labels; some may not be there.
///
/// # Errors
/// [`StorageError`].
pub fn remove<S: Storage>(store: &S, labels: &[u8]) -> Result<(), StorageError> {
    change(store, |writer| {
        let (labels, _) = labels.as_chunks::<LABEL_BYTES>();
        labels.iter().try_for_each(|label| writer.delete(ENTRIES, label).map(drop))
    })
}

/// Keeps sealed state under a name, in place of what is there.
///
/// # Errors
/// [`StorageError`].
pub fn save<S: Storage>(store: &S, name: StateName, state: &[u8]) -> Result<(), StorageError> {
    change(store, |writer| writer.put(STATE, &state_key(name), state))
}

/// The sealed state under a name.
///
/// # Errors
/// [`StorageError`].
pub fn load<S: Storage>(store: &S, name: StateName) -> Result<Option<Vec<u8>>, StorageError> {
    let found = store.read()?.get(STATE, &state_key(name))?;
    Ok(found.map(|state| state.to_vec()))
}

/// Removes the log's records up to a number, and the checkpoints of lower generations.
///
/// # Errors
/// [`StorageError`].
pub fn forget<S: Storage>(store: &S, until: u64) -> Result<(), StorageError> {
    change(store, |writer| {
        let mut gone = Vec::new();
        let (first_log, last_log) = (log_key(0), log_key(until));
        let (first_checkpoint, next_checkpoint) = (checkpoint_key(0), checkpoint_key(until));
        let ranges: [KeyRange<'_>; 2] = [
            (Bound::Included(&first_log[..]), Bound::Included(&last_log[..])),
            (Bound::Included(&first_checkpoint[..]), Bound::Excluded(&next_checkpoint[..])),
        ];
        for range in ranges {
            writer.scan(STATE, range, Direction::Ascending, &mut |key, _| {
                gone.push(key.to_vec());
                ControlFlow::Continue(())
            })?;
        }
        gone.iter().try_for_each(|key| writer.delete(STATE, key).map(drop))
    })
}
