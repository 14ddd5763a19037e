//! Nodes of a tree that were read or written last, so that a value beside the last ones is entered without a round before.
//!
//! They are kept as the database has them, sealed, and whoever uses one compares its tag with what the node above says.
//! Whether that is still so shows when a change is applied: it is one of a version.

use arras_protocol::Blob;
use arras_protocol::mope::{Fetch, Fetched, Node, Round, TreeChange, TreeStore, Tried};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of nodes that are kept, at most: where another has no room, all go.
const BYTES_MAX: usize = 1024 * 1024;
/// Nodes that are taken from here until the database is asked again, or a change was applied. (By number and not by time: what
/// the database sees depends on what is asked.)
const BELIEVED: u32 = 4;
/// What a node takes beside itself, about.
const OVERHEAD_BYTES: usize = 64;

/// A tree's nodes, the last ones of which are kept.
pub struct Recent<S> {
    store: S,
    kept: Mutex<Kept>,
}

/// What is kept.
#[derive(Default)]
struct Kept {
    nodes: HashMap<Node, Blob>,
    bytes: usize,
    /// So many more are taken.
    left: u32,
}

impl Kept {
    fn set(&mut self, node: Node, content: Option<Blob>) {
        let size = |content: &Blob| content.as_slice().len() + OVERHEAD_BYTES;
        if let Some(old) = self.nodes.remove(&node) {
            self.bytes -= size(&old);
        }
        let Some(content) = content else { return };
        if self.bytes + size(&content) > BYTES_MAX {
            self.nodes.clear();
            self.bytes = 0;
        }
        if size(&content) <= BYTES_MAX {
            self.bytes += size(&content);
            self.nodes.insert(node, content);
        }
    }
}

impl<S> std::fmt::Debug for Recent<S> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Recent").finish_non_exhaustive()
    }
}

impl<S: TreeStore> Recent<S> {
    /// Keeps the last nodes of a tree.
    pub fn new(store: S) -> Self {
        Self { store, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what was read, or written.
    fn keep(&self, nodes: impl Iterator<Item = (Node, Option<Blob>)>) {
        let mut kept = self.kept();
        kept.left = BELIEVED;
        nodes.for_each(|(node, content)| kept.set(node, content));
    }
}

impl<S: TreeStore> TreeStore for Recent<S> {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        Box::pin(async move {
            let asked = fetch.nodes.clone();
            let fetched = self.store.fetch(fetch).await?;
            self.keep(asked.into_iter().zip(fetched.nodes.iter().cloned()));
            Ok(fetched)
        })
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        Box::pin(async move {
            let nodes = change.nodes.clone();
            let applied = self.store.commit(change).await?;
            if applied {
                self.keep(nodes.into_iter());
            }
            Ok(applied)
        })
    }

    fn commit_within(&self, change: TreeChange, wait: Duration) -> Round<'_, Tried> {
        Box::pin(async move {
            let nodes = change.nodes.clone();
            let tried = self.store.commit_within(change, wait).await?;
            if tried == Tried::Applied {
                self.keep(nodes.into_iter());
            }
            Ok(tried)
        })
    }

    fn recent(&self, node: Node) -> Option<Blob> {
        let mut kept = self.kept();
        let found = kept.nodes.get(&node).filter(|_| kept.left > 0).cloned()?;
        kept.left -= 1;
        Some(found)
    }

    fn is_alone(&self) -> bool {
        self.store.is_alone()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use arras_protocol::mope::Head;

    /// A store of which every node is of one byte, its number.
    struct Counting;

    impl TreeStore for Counting {
        fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
            let nodes = fetch.nodes.iter().map(|node| Some(Blob(vec![*node as u8]))).collect();
            Box::pin(async { Ok(Fetched { head: Head::default(), nodes, labels: Vec::new() }) })
        }

        fn commit(&self, change: TreeChange) -> Round<'_, bool> {
            Box::pin(async move { Ok(change.expected == 0) })
        }
    }

    fn change(expected: u64, nodes: Vec<(Node, Option<Blob>)>) -> TreeChange {
        let (left, summaries, entered) = Default::default();
        TreeChange { expected, head: Head::default(), nodes, left, summaries, entered }
    }

    async fn read<S: TreeStore>(store: &S, nodes: Vec<Node>) {
        store.fetch(Fetch { nodes, ..Fetch::default() }).await.unwrap();
    }

    #[tokio::test]
    async fn what_was_read_and_written_last_is_kept_as_it_is_then() {
        let store = Recent::new(Counting);
        assert_eq!(store.recent(1), None);
        read(&store, vec![1, 2]).await;
        assert_eq!(store.recent(1), Some(Blob(vec![1])));
        let written = vec![(1, Some(Blob(vec![7]))), (2, None)];
        assert!(!store.commit(change(5, written.clone())).await.unwrap());
        assert_eq!(store.recent(1), Some(Blob(vec![1])), "it was not applied");
        assert!(store.commit(change(0, written)).await.unwrap());
        assert_eq!((store.recent(1), store.recent(2)), (Some(Blob(vec![7])), None));
    }

    #[tokio::test]
    async fn the_database_is_looked_at_again() {
        let store = Recent::new(Counting);
        read(&store, vec![1]).await;
        for _ in 0..BELIEVED {
            assert_eq!(store.recent(2), None);
            assert!(store.recent(1).is_some());
        }
        assert_eq!(store.recent(1), None);
        read(&store, vec![2]).await;
        assert!(store.recent(1).is_some());
    }

    #[tokio::test]
    async fn as_many_are_kept_as_there_is_room_for() {
        let store = Recent::new(Counting);
        for node in 0..100_000 {
            read(&store, vec![node]).await;
            assert!(store.recent(node).is_some());
        }
        let kept = store.kept();
        assert!(kept.bytes <= BYTES_MAX && kept.nodes.len() * (OVERHEAD_BYTES + 1) == kept.bytes);
        assert!(kept.nodes.len() < 100_000);
    }
}
