//! The last head of each tree that the database acknowledged, kept where the database cannot reach: one that was set back
//! (restored from a backup, failed over to a replica that lagged) is noticed before a label of it is used.

use super::Column;
use arras_protocol::mope::{DIGEST_BYTES, Fetch, Fetched, Head, Round, TreeChange, TreeStore, Tried};
use arras_protocol::{ChannelError, Refusal};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Keeps the heads that were acknowledged.
pub trait Heads: Send + Sync {
    /// The last one of a column; none if there never was one.
    ///
    /// # Errors
    /// What the store's medium says.
    fn load(&self, column: Column) -> io::Result<Option<Head>>;

    /// Keeps another one; it outlives a crash once this returns.
    ///
    /// # Errors
    /// What the store's medium says.
    fn save(&self, column: Column, head: &Head) -> io::Result<()>;
}

/// One small file for each column.
#[derive(Clone, Debug)]
pub struct FileHeads {
    folder: PathBuf,
}

const HEAD_BYTES: usize = 4 * 8 + DIGEST_BYTES;

impl FileHeads {
    /// Keeps them in a folder that is there and nobody else's.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }
}

impl Heads for FileHeads {
    fn load(&self, column: Column) -> io::Result<Option<Head>> {
        let path = self.folder.join(format!("{column}.head"));
        let bytes = match std::fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", path.display()));
        let bytes: [u8; HEAD_BYTES] = bytes.try_into().map_err(|_| damaged())?;
        let (numbers, digest) = bytes.split_at(4 * 8);
        let mut numbers =
            numbers.chunks_exact(8).filter_map(|number| number.try_into().ok()).map(u64::from_be_bytes);
        let mut next = || numbers.next().ok_or_else(damaged);
        let (version, root, node, values) = (next()?, next()?, next()?, next()?);
        Ok(Some(Head {
            version,
            root,
            next: node,
            values,
            digest: digest.try_into().map_err(|_| damaged())?,
        }))
    }

    fn save(&self, column: Column, head: &Head) -> io::Result<()> {
        let Head { version, root, next, values, digest } = head;
        let numbers = [version, root, next, values].map(|number| number.to_be_bytes()).concat();
        let (path, new) =
            (self.folder.join(format!("{column}.head")), self.folder.join(format!("{column}.new")));
        let mut file = File::create(&new)?;
        file.write_all(&[&numbers[..], digest].concat())?;
        file.sync_all()?;
        std::fs::rename(&new, &path)?;
        File::open(&self.folder)?.sync_all()
    }
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
