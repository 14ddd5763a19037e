//! Who changes the catalog, one at a time for each collection: a build of one may take hours, and keeps nobody from another.

use arras_service::store::Namespace;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use tokio::sync::{MutexGuard, OwnedMutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A collection's turn; its indexes, and whether it is there, are changed by nobody else.
pub(super) type Turn = OwnedMutexGuard<()>;

/// Changes of the catalog under way.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    /// Of each collection that somebody changes or waits to.
    turns: Mutex<HashMap<Namespace, Weak<tokio::sync::Mutex<()>>>>,
    /// A name is looked for and taken by one at a time.
    names: tokio::sync::Mutex<()>,
    /// Drops whose outcome is not known yet.
    drops: RwLock<()>,
}

impl Definitions {
    /// Waits until nobody changes a collection.
    pub(super) async fn of(&self, ns: &Namespace) -> Turn {
        let turn = self.turn(ns);
        turn.lock_owned().await
    }

    fn turn(&self, ns: &Namespace) -> Arc<tokio::sync::Mutex<()>> {
        // Nothing panics while the lock is held.
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(ns).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(ns.clone(), Arc::downgrade(&turn));
        turn
    }

    /// For one who looks whether a collection's name may be taken, and takes it.
    pub(super) async fn names(&self) -> MutexGuard<'_, ()> {
        self.names.lock().await
    }

    /// For one who drops something, from when nobody lists it until it is known whether it is gone.
    pub(super) async fn dropping(&self) -> RwLockReadGuard<'_, ()> {
        self.drops.read().await
    }

    /// While no drop is under way.
    pub(super) async fn no_drop(&self) -> RwLockWriteGuard<'_, ()> {
        self.drops.write().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    /// Is it this one's turn at once?
    async fn is_free(definitions: &Definitions, ns: &Namespace) -> bool {
        timeout(Duration::ZERO, definitions.of(ns)).await.is_ok()
    }

    #[tokio::test]
    async fn one_collection_is_changed_by_one_and_another_beside_it() {
        let definitions = Definitions::default();
        let [one, other] =
            ["one", "other"].map(|name| Namespace { database: "db".into(), collection: name.into() });
        let first = definitions.of(&one).await;
        assert!(!is_free(&definitions, &one).await);
        assert!(is_free(&definitions, &other).await);
        drop(first);
        assert!(is_free(&definitions, &one).await);
        drop(definitions.of(&other).await);
        assert_eq!(
            definitions.turns.lock().unwrap_or_else(PoisonError::into_inner).len(),
            1,
            "the others are forgotten"
        );
    }
}
