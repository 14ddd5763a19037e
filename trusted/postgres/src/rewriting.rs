//! What sessions share that rewrite statements: the schema, the keys of its columns, and how much memory they may hold.

use crate::Freshness;
use crate::catalog::Catalog;
use crate::error::SqlError;
use crate::schema::Schema;
use arras_service::columns::Columns;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Longest message that is held whole, to be changed, in bytes.
pub(crate) const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Messages up to this size, in bytes, are not worth counting: a session's buffers cost as much.
const UNCOUNTED_BYTES: usize = 64 * 1024;
/// Bytes of a permit.
const PERMIT_BYTES: usize = 1024;
/// How long somebody waits for memory.
const PATIENCE: Duration = Duration::from_secs(30);

/// What sessions share that rewrite statements.
pub struct Rewriting {
    schema: Arc<Schema>,
    pub(crate) columns: Arc<dyn Columns>,
    room: Arc<Semaphore>,
    /// Tables were made or changed so many times.
    changes: AtomicU64,
    freshness: Option<Arc<Freshness>>,
}

/// A share of the memory; given back when dropped.
pub(crate) struct Share(#[allow(dead_code, reason = "held for its end")] OwnedSemaphorePermit);

impl Rewriting {
    /// Rewrites statements on the columns that `schema` declares; messages and prepared statements may hold so many bytes.
    #[must_use]
    pub fn new(schema: Arc<Schema>, columns: Arc<dyn Columns>, memory_bytes: usize) -> Self {
        let bytes = memory_bytes.max(2 * MESSAGE_BYTES_MAX);
        let room = Arc::new(Semaphore::new((bytes / PERMIT_BYTES).min(Semaphore::MAX_PERMITS)));
        Self { schema, columns, room, changes: AtomicU64::new(0), freshness: None }
    }

    /// Has each session compare the database with what was acknowledged before it begins.
    #[must_use]
    pub fn watched(self, freshness: Arc<Freshness>) -> Self {
        Self { freshness: Some(freshness), ..self }
    }

    /// What says whether the database was set back.
    pub(crate) fn freshness(&self) -> Option<&Freshness> {
        self.freshness.as_deref()
    }

    /// Waits for room for a message; `None` if it is too small to count. 53200 if there is none for too long.
    pub(crate) async fn share(&self, bytes: usize) -> Result<Option<Share>, SqlError> {
        if bytes <= UNCOUNTED_BYTES {
            return Ok(None);
        }
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX);
        match timeout(PATIENCE, Arc::clone(&self.room).acquire_many_owned(permits)).await {
            Ok(Ok(permit)) => Ok(Some(Share(permit))),
            // It is never closed.
            Ok(Err(_)) | Err(_) => Err(full()),
        }
    }

    /// Room for what is kept for later; 53200 if there is none.
    pub(crate) fn keep(&self, bytes: usize) -> Result<Share, SqlError> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX);
        Arc::clone(&self.room).try_acquire_many_owned(permits).map(Share).map_err(|_| full())
    }

    /// What is declared.
    pub(crate) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// How many times tables were made or changed.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    /// Tables were made or changed: every session looks again.
    pub(crate) fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// The catalogue of what the database answers to [`crate::catalog::COLUMNS`].
    pub(crate) fn catalog(&self, rows: Vec<Vec<Option<String>>>) -> Catalog {
        let row = |row: Vec<Option<String>>| {
            let texts: Option<Vec<String>> = row.into_iter().collect();
            texts.and_then(|texts| texts.try_into().ok())
        };
        let read = Catalog::read(Arc::clone(&self.schema), rows.into_iter().filter_map(row));
        read.with_defaults(|encryption, sealed| {
            crate::values::open_constant(encryption, sealed, &*self.columns)
        })
    }
}

fn full() -> SqlError {
    SqlError::new("53200", "the proxy's memory is full of messages under way").hint("Try again.")
}
