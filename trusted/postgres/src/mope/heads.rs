//! The last head of each tree that the database acknowledged, kept where the database cannot reach: one that was set back
//! (restored from a backup, failed over to a replica that lagged) is noticed before a label of it is used.

use super::Column;
use arras_protocol::mope::{Fetch, Fetched, Head, Round, TreeChange, TreeStore, Tried};
use arras_protocol::{ChannelError, Refusal};
use std::io;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Keeps the heads that were acknowledged.
pub trait Heads: Send + Sync {
    /// The last one of a column; none if there never was one.
    ///
    /// # Errors
    /// What the store's medium says.
    fn load(&self, column: Column) -> io::Result<Option<Head>>;

    /// Keeps another one. It outlives a crash of the process once this returns, and one of the machine soon after: a database that
    /// is set back within that time of such a crash is not told from one that was not.
    ///
    /// # Errors
    /// What the store's medium says.
    fn save(&self, column: Column, head: &Head) -> io::Result<()>;
}

/// A tree whose keeper is not believed about how new it is.
pub struct Watched<S> {
    store: S,
    column: Column,
    heads: Arc<dyn Heads>,
    /// The last one acknowledged; none while it was not loaded.
    known: Mutex<Option<Head>>,
}

impl<S> std::fmt::Debug for Watched<S> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Watched").field("column", &self.column).finish_non_exhaustive()
    }
}

impl<S: TreeStore> Watched<S> {
    /// Watches over a column's tree.
    pub fn new(store: S, column: Column, heads: Arc<dyn Heads>) -> Self {
        Self { store, column, heads, known: Mutex::new(None) }
    }

    /// Compares a head with what was acknowledged, and keeps it if it is newer.
    async fn see(&self, head: Head) -> Result<(), ChannelError> {
        let mut known = self.known.lock().await;
        let last = match *known {
            Some(last) => Some(last),
            None => self.run(|heads, column| heads.load(column)).await?,
        };
        match last {
            Some(last) if head.version < last.version => Err(ChannelError::Refused(Refusal::SetBack)),
            Some(last) if head.version == last.version && head != last => {
                Err(ChannelError::Malformed(format!(
                    "the tree of column {} is not the one that was acknowledged at version {}",
                    self.column, last.version
                )))
            }
            Some(last) if head == last => {
                *known = Some(last);
                Ok(())
            }
            Some(_) | None => {
                self.run(move |heads, column| heads.save(column, &head)).await?;
                *known = Some(head);
                Ok(())
            }
        }
    }

    /// Does something that waits for a disk.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Heads, Column) -> io::Result<T> + Send + 'static,
    ) -> Result<T, ChannelError> {
        let (heads, column) = (Arc::clone(&self.heads), self.column);
        let done = tokio::task::spawn_blocking(move || work(&*heads, column)).await;
        let failed = |error: String| {
            ChannelError::Halted(format!("the proxy's record of column {column} failed: {error}"))
        };
        done.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))
    }
}

impl<S: TreeStore> TreeStore for Watched<S> {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        Box::pin(async move {
            let fetched = self.store.fetch(fetch).await?;
            self.see(fetched.head).await?;
            Ok(fetched)
        })
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        Box::pin(async move {
            let head = change.head;
            let applied = self.store.commit(change).await?;
            if applied {
                self.see(head).await?;
            }
            Ok(applied)
        })
    }

    fn commit_if_free(&self, change: TreeChange) -> Round<'_, Tried> {
        Box::pin(async move {
            let head = change.head;
            let tried = self.store.commit_if_free(change).await?;
            if tried == Tried::Applied {
                self.see(head).await?;
            }
            Ok(tried)
        })
    }

    fn is_alone(&self) -> bool {
        self.store.is_alone()
    }
}
