//! Index builds under way, and how far they are.

use arras_service::store::{IndexBuild, Namespace};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The builds under way: one a collection at a time.
#[derive(Debug, Default)]
pub(super) struct Builds(Mutex<BTreeMap<Namespace, IndexBuild>>);

/// A build under way; it is listed while this lives.
pub(super) struct Build<'b> {
    builds: &'b Builds,
    ns: Namespace,
}

impl Builds {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Namespace, IndexBuild>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enters a build over `total` documents.
    pub(super) fn begin(&self, ns: &Namespace, total: u64) -> Build<'_> {
        self.lock().insert(ns.clone(), IndexBuild { ns: ns.clone(), done: 0, total });
        Build { builds: self, ns: ns.clone() }
    }

    /// The builds under way.
    pub(super) fn list(&self) -> Vec<IndexBuild> {
        self.lock().values().cloned().collect()
    }
}

impl Build<'_> {
    /// Counts documents that are entered.
    pub(super) fn advance(&self, documents: u64) {
        if let Some(build) = self.builds.lock().get_mut(&self.ns) {
            build.done = build.done.saturating_add(documents);
        }
    }
}

impl Drop for Build<'_> {
    fn drop(&mut self) {
        self.builds.lock().remove(&self.ns);
    }
}
