//! In the embedded engine: one folder, no server.

use super::{Store, StoreError, kept};
use arras_protocol::Blob;
use arras_protocol::iee::StateName;
use arras_storage::{Embedded, StorageError};
use std::path::Path;
use std::sync::Arc;
use tokio::task;

/// Entries and state in a folder.
pub struct EmbeddedStore(Arc<Embedded>);

impl EmbeddedStore {
    /// Opens a folder, or begins one.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be had, or another process has it.
    pub fn open(directory: &Path) -> Result<Self, StorageError> {
        Ok(Self(Arc::new(Embedded::open(directory)?)))
    }

    /// Works on the store where waiting for a disk holds nobody up.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Embedded) -> Result<T, StorageError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = Arc::clone(&self.0);
        let done = task::spawn_blocking(move || work(&store)).await;
        Ok(done.map_err(|error| StoreError::Failed(format!("the embedded store: {error}")))??)
    }
}

impl From<StorageError> for StoreError {
    fn from(error: StorageError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Store for EmbeddedStore {
    async fn get(&self, labels: Blob) -> Result<Vec<u8>, StoreError> {
        self.with(move |store| kept::get(store, labels.as_slice())).await
    }

    async fn put(&self, entries: Blob) -> Result<(), StoreError> {
        self.with(move |store| kept::put(store, entries.as_slice())).await
    }

    async fn remove(&self, labels: Blob) -> Result<(), StoreError> {
        self.with(move |store| kept::remove(store, labels.as_slice())).await
    }

    async fn save(&self, name: StateName, state: Blob) -> Result<(), StoreError> {
        self.with(move |store| kept::save(store, name, state.as_slice())).await
    }

    async fn load(&self, name: StateName) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(move |store| kept::load(store, name)).await
    }

    async fn forget(&self, until: u64) -> Result<(), StoreError> {
        self.with(move |store| kept::forget(store, until)).await
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
