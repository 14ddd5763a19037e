//! A tree's tables, with the time that its changes of labels take.

use arras_postgres::mope::TreeTables;
use arras_protocol::mope::{Fetch, Fetched, Round, TreeChange, TreeStore, Tried};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What was measured so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(super) fn spent(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// See the module.
pub(super) struct Clocked {
    pub(super) tables: TreeTables,
    pub(super) clock: Clock,
}

impl Clocked {
    async fn timed<T>(
        &self,
        changes_labels: bool,
        commit: Round<'_, T>,
    ) -> Result<T, arras_protocol::ChannelError> {
        let begun = Instant::now();
        let done = commit.await;
        if changes_labels {
            let spent = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.clock.0.fetch_add(spent, Ordering::Relaxed);
        }
        done
    }
}

impl TreeStore for Clocked {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        self.tables.fetch(fetch)
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        let changes_labels = !change.summaries.is_empty();
        Box::pin(self.timed(changes_labels, self.tables.commit(change)))
    }

    fn commit_within(&self, change: TreeChange, wait: Duration) -> Round<'_, Tried> {
        let changes_labels = !change.summaries.is_empty();
        Box::pin(self.timed(changes_labels, self.tables.commit_within(change, wait)))
    }

    fn is_alone(&self) -> bool {
        self.tables.is_alone()
    }
}
