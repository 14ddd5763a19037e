//! Index builds under way, and how far they are.

use arras_service::ServiceError;
use arras_service::interrupt::{Interrupt, Reason};
use arras_service::store::{IndexBuild, Namespace};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The builds under way: one a collection at a time.
#[derive(Debug, Default)]
pub(super) struct Builds {
    listed: Mutex<BTreeMap<Namespace, IndexBuild>>,
    /// Ends those that begin now.
    ends: Mutex<Interrupt>,
}

/// Builds that begin while this lives end by the sign of who asked for them.
pub(super) struct EndBy<'b>(&'b Builds);

impl Drop for EndBy<'_> {
    fn drop(&mut self) {
        self.0.set_end(Interrupt::default());
    }
}

/// A build under way; it is listed while this lives.
pub(super) struct Build<'b> {
    builds: &'b Builds,
    ns: Namespace,
    end: Interrupt,
}

impl Builds {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Namespace, IndexBuild>> {
        // Nothing panics while the lock is held.
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_end(&self, end: Interrupt) {
        *self.ends.lock().unwrap_or_else(PoisonError::into_inner) = end;
    }

    /// For the builds of one request: who makes them has the definitions' lock.
    pub(super) fn end_by(&self, interrupt: Interrupt) -> EndBy<'_> {
        self.set_end(interrupt);
        EndBy(self)
    }

    /// What ends the builds of the request that has the definitions' lock.
    pub(super) fn end(&self) -> Interrupt {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Enters a build over `total` documents.
    pub(super) fn begin(&self, ns: &Namespace, total: u64) -> Build<'_> {
        self.lock().insert(ns.clone(), IndexBuild { ns: ns.clone(), done: 0, total });
        Build { builds: self, ns: ns.clone(), end: self.end() }
    }

    /// The builds under way.
    pub(super) fn list(&self) -> Vec<IndexBuild> {
        self.lock().values().cloned().collect()
    }
}

impl Build<'_> {
    /// Counts documents that are entered. Fails if the build is to end.
    pub(super) fn advance(&self, documents: u64) -> Result<(), ServiceError> {
        if let Some(build) = self.builds.lock().get_mut(&self.ns) {
            build.done = build.done.saturating_add(documents);
        }
        match self.end.reason() {
            // A build goes on without the client that asked for it, as MongoDB's does.
            None | Some(Reason::Gone) => Ok(()),
            Some(reason) => Err(reason.error()),
        }
    }
}

impl Drop for Build<'_> {
    fn drop(&mut self) {
        self.builds.lock().remove(&self.ns);
    }
}
