//! The last head of each tree that the database acknowledged, kept where the database cannot reach: one that was set back
//! (restored from a backup, failed over to a replica that lagged) is noticed before a label of it is used.

use super::Column;
use arras_protocol::mope::{Fetch, Fetched, Head, Round, TreeChange, TreeStore, Tried};
use arras_protocol::{ChannelError, Refusal};
use std::io;
use std::sync::Arc;
use std::time::Duration;
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

    /// The last one that was acknowledged: what is asked from now on must not be behind it.
    async fn acknowledged(&self) -> Result<Option<Head>, ChannelError> {
        let mut known = self.known.lock().await;
        if known.is_none() {
            *known = self.run(|heads, column| heads.load(column)).await?;
        }
        Ok(*known)
    }

    /// Compares a head with what was acknowledged before it was asked for, and keeps it if it is the newest. Others may have
    /// been acknowledged while the answer was under way.
    async fn see(&self, head: Head, before: Option<Head>) -> Result<(), ChannelError> {
        if before.is_some_and(|before| head.version < before.version) {
            return Err(ChannelError::Refused(Refusal::SetBack));
        }
        let mut known = self.known.lock().await;
        match *known {
            Some(last) if head.version == last.version && head != last => {
                Err(ChannelError::Malformed(format!(
                    "the tree of column {} is not the one that was acknowledged at version {}",
                    self.column, last.version
                )))
            }
            Some(last) if head.version <= last.version => Ok(()),
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
            let before = self.acknowledged().await?;
            let fetched = self.store.fetch(fetch).await?;
            self.see(fetched.head, before).await?;
            Ok(fetched)
        })
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        Box::pin(async move {
            let (head, before) = (change.head, self.acknowledged().await?);
            let applied = self.store.commit(change).await?;
            if applied {
                self.see(head, before).await?;
            }
            Ok(applied)
        })
    }

    fn commit_within(&self, change: TreeChange, wait: Duration) -> Round<'_, Tried> {
        Box::pin(async move {
            let (head, before) = (change.head, self.acknowledged().await?);
            let tried = self.store.commit_within(change, wait).await?;
            if tried == Tried::Applied {
                self.see(head, before).await?;
            }
            Ok(tried)
        })
    }

    fn is_alone(&self) -> bool {
        self.store.is_alone()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::sync::Mutex as Held;
    use tokio::sync::{Barrier, oneshot};

    #[derive(Default)]
    struct Kept(Held<Option<Head>>);

    impl Heads for Kept {
        fn load(&self, _: Column) -> io::Result<Option<Head>> {
            Ok(*self.0.lock().unwrap())
        }

        fn save(&self, _: Column, head: &Head) -> io::Result<()> {
            *self.0.lock().unwrap() = Some(*head);
            Ok(())
        }
    }

    fn head(version: u64) -> Head {
        Head { version, ..Head::default() }
    }

    /// Says its head at once, and answers when it is let.
    struct Late {
        head: Held<Head>,
        let_go: Held<Option<oneshot::Receiver<()>>>,
        asked: Barrier,
    }

    impl Late {
        fn new(version: u64) -> Self {
            Self { head: Held::new(head(version)), let_go: Held::default(), asked: Barrier::new(2) }
        }
    }

    impl TreeStore for Late {
        fn fetch(&self, _: Fetch) -> Round<'_, Fetched> {
            Box::pin(async move {
                let (nodes, labels) = Default::default();
                let fetched = Fetched { head: *self.head.lock().unwrap(), nodes, labels };
                let waits = self.let_go.lock().unwrap().take();
                if let Some(waits) = waits {
                    self.asked.wait().await;
                    waits.await.unwrap();
                }
                Ok(fetched)
            })
        }

        fn commit(&self, change: TreeChange) -> Round<'_, bool> {
            *self.head.lock().unwrap() = change.head;
            Box::pin(std::future::ready(Ok(true)))
        }
    }

    fn change(version: u64) -> TreeChange {
        let expected = version - 1;
        let (nodes, left, summaries, entered) = Default::default();
        TreeChange { expected, head: head(version), nodes, left, summaries, entered }
    }

    #[tokio::test]
    async fn an_answer_may_be_older_than_what_was_acknowledged_while_it_was_under_way() {
        let watched = Arc::new(Watched::new(Late::new(3), Column::from([7; 8]), Arc::new(Kept::default())));
        let store = &watched.store;
        watched.fetch(Fetch::default()).await.unwrap();
        let (let_go, waits) = oneshot::channel();
        *store.let_go.lock().unwrap() = Some(waits);
        let late = Arc::clone(&watched);
        let late = tokio::spawn(async move { late.fetch(Fetch::default()).await });
        store.asked.wait().await;
        assert!(watched.commit(change(4)).await.unwrap());
        let_go.send(()).unwrap();
        assert_eq!(late.await.unwrap().unwrap().head, head(3));
        assert_eq!(
            watched.heads.load(watched.column).unwrap(),
            Some(head(4)),
            "what is kept does not go back"
        );
        // Who asks from now on must be told of it.
        *store.head.lock().unwrap() = head(3);
        let set_back = watched.fetch(Fetch::default()).await.unwrap_err();
        assert!(matches!(set_back, ChannelError::Refused(Refusal::SetBack)), "{set_back}");
        assert!(watched.commit(change(3)).await.is_err());
    }
}
