//! In the embedded engine: one folder, no server.

use super::{Store, StoreError, checkpoint_key, log_key, state_key};
use arras_protocol::Blob;
use arras_protocol::iee::{ENTRY_BYTES, LABEL_BYTES, SEALED_BYTES, StateName};
use arras_storage::{
    Direction, Durability, Embedded, KeyRange, Read as _, Storage as _, StorageError, Table, Write as _,
};
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;
use tokio::task;

const ENTRIES: Table = Table("iee_entries");
const STATE: Table = Table("iee_state");

/// Entries and state in a folder.
pub struct EmbeddedStore(Arc<Embedded>);

impl EmbeddedStore {
    /// Opens a folder, or begins one.
    ///
    /// # Errors
    /// [`StoreError`] if it cannot be had, or another process has it.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Ok(Self(Arc::new(Embedded::open(directory)?)))
    }

    /// Works on the store where waiting for a disk holds nobody up.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Embedded) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = Arc::clone(&self.0);
        let done = task::spawn_blocking(move || work(&store)).await;
        Ok(done.map_err(|error| StoreError(format!("the embedded store: {error}")))??)
    }

    /// Changes the store in a durable transaction.
    async fn change(
        &self,
        change: impl FnOnce(&mut <Embedded as arras_storage::Storage>::Writer<'_>) -> Result<(), StorageError>
        + Send
        + 'static,
    ) -> Result<(), StoreError> {
        self.with(|store| {
            let mut writer = store.write()?;
            change(&mut writer)?;
            writer.commit(Durability::Durable)
        })
        .await
    }
}

impl From<StorageError> for StoreError {
    fn from(error: StorageError) -> Self {
        Self(error.to_string())
    }
}

impl Store for EmbeddedStore {
    async fn get(&self, labels: Blob) -> Result<Vec<u8>, StoreError> {
        self.with(move |store| {
            let (labels, _) = labels.as_slice().as_chunks::<LABEL_BYTES>();
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
        })
        .await
    }

    async fn put(&self, entries: Blob) -> Result<(), StoreError> {
        self.change(move |writer| {
            let (entries, _) = entries.as_slice().as_chunks::<ENTRY_BYTES>();
            let mut places: Vec<&[u8; ENTRY_BYTES]> = entries.iter().collect();
            places.sort_unstable();
            for entry in places {
                let (label, sealed) = entry.split_at(LABEL_BYTES);
                writer.put(ENTRIES, label, sealed)?;
            }
            Ok(())
        })
        .await
    }

    async fn remove(&self, labels: Blob) -> Result<(), StoreError> {
        self.change(move |writer| {
            let (labels, _) = labels.as_slice().as_chunks::<LABEL_BYTES>();
            for label in labels {
                writer.delete(ENTRIES, label)?;
            }
            Ok(())
        })
        .await
    }

    async fn save(&self, name: StateName, state: Blob) -> Result<(), StoreError> {
        self.change(move |writer| writer.put(STATE, &state_key(name), state.as_slice())).await
    }

    async fn load(&self, name: StateName) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(move |store| {
            let found = store.read()?.get(STATE, &state_key(name))?;
            Ok(found.map(|state| state.to_vec()))
        })
        .await
    }

    async fn forget(&self, until: u64) -> Result<(), StoreError> {
        self.change(move |writer| {
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
            for key in gone {
                writer.delete(STATE, &key)?;
            }
            Ok(())
        })
        .await
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_keeps_what_it_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let store = EmbeddedStore::open(folder.path()).unwrap();
        crate::store::conformance::a_service_keeps_what_it_is_given(&store).await;
        drop(store);
        let store = EmbeddedStore::open(folder.path()).unwrap();
        assert_eq!(store.load(StateName::Log(256)).await.unwrap(), None);
        assert!(store.load(StateName::Head).await.unwrap().is_some());
    }
}
