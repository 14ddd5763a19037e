//! Index builds under way, and how far they are.

use arras_service::interrupt::{Interrupt, Reason};
use arras_service::store::{IndexBuild, Namespace};
use arras_service::{Fault, ServiceError};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Builds that run at the same time, as many as MongoDB has; each gathers up to 64 MiB.
const TOGETHER: usize = 3;

/// The builds under way: one a collection at a time.
#[derive(Debug)]
pub(super) struct Builds {
    places: Semaphore,
    listed: Mutex<BTreeMap<Namespace, IndexBuild>>,
    /// What ends those of each collection.
    ends: Mutex<BTreeMap<Namespace, Interrupt>>,
}

/// Builds that begin while this lives end by the sign of who asked for them.
pub(super) struct EndBy<'b> {
    builds: &'b Builds,
    ns: Namespace,
}

impl Drop for EndBy<'_> {
    fn drop(&mut self) {
        self.builds.ends().remove(&self.ns);
    }
}

/// A build under way; it is listed while this lives.
pub(super) struct Build<'b> {
    builds: &'b Builds,
    ns: Namespace,
    end: Interrupt,
}

impl Default for Builds {
    fn default() -> Self {
        Self { places: Semaphore::new(TOGETHER), listed: Mutex::default(), ends: Mutex::default() }
    }
}

impl Builds {
    /// Waits until another build of the collection's may run.
    pub(super) async fn place(&self, ns: &Namespace) -> Result<Option<SemaphorePermit<'_>>, ServiceError> {
        // It is never closed.
        match self.end(ns).during(async { Ok(self.places.acquire().await.ok()) }).await {
            // As a build does, it goes on without the client that asked for it.
            Err(error) if error.fault == Fault::Interrupted(Reason::Gone) => {
                Ok(self.places.acquire().await.ok())
            }
            place => place,
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Namespace, IndexBuild>> {
        // Nothing panics while the lock is held.
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ends(&self) -> MutexGuard<'_, BTreeMap<Namespace, Interrupt>> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For the builds of one request: who makes them has the collection's turn.
    pub(super) fn end_by(&self, ns: &Namespace, interrupt: Interrupt) -> EndBy<'_> {
        self.ends().insert(ns.clone(), interrupt);
        EndBy { builds: self, ns: ns.clone() }
    }

    /// What ends the builds of the request that has a collection's turn.
    pub(super) fn end(&self, ns: &Namespace) -> Interrupt {
        self.ends().get(ns).cloned().unwrap_or_default()
    }

    /// Enters a build over `total` documents.
    pub(super) fn begin(&self, ns: &Namespace, total: u64) -> Build<'_> {
        self.lock().insert(ns.clone(), IndexBuild { ns: ns.clone(), done: 0, total });
        Build { builds: self, ns: ns.clone(), end: self.end(ns) }
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
