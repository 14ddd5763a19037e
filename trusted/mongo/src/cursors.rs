//! Results fetched in batches, and the table of the ones a client may come back for.
//!
//! As in MongoDB a cursor belongs to the server, not to the connection that opened it: it ends when it is
//! exhausted, killed, or was not used for a while.

use crate::error::CommandError;
use crate::slices;
use arras_documents::QueryError;
use arras_documents::filter::Filter;
use arras_documents::limits;
use arras_documents::pipeline::Pipeline;
use arras_documents::projection::Projection;
use arras_documents::spill::SpoolReader;
use arras_service::store::{Cursor, Fetched, Namespace, Relief};
use bson::Document;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most documents asked of a store at a time when the client gave no batch size.
const FETCH_DOCUMENTS_MAX: usize = 1000;

/// One batch.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Its documents.
    pub(crate) documents: Vec<Fetched>,
    /// Bytes of them.
    pub(crate) bytes: usize,
    /// Nothing follows.
    pub(crate) last: bool,
}

/// A result, cut into batches as it is asked for.
pub(crate) struct Batches<C> {
    source: Source<C>,
    shape: Arc<Shape>,
    /// Documents fetched and not handed out yet.
    pending: VecDeque<Fetched>,
    /// Documents the client may still get.
    remaining: u64,
}

/// Where documents come from.
enum Source<C> {
    /// Nowhere: those fetched are all.
    None,
    Store(C),
    Spool(SpoolReader),
}

/// What happens to each document on its way out.
pub(crate) enum Shape {
    /// Nothing.
    Whole,
    /// A projection, and the filter of the query, to which its positional `$` refers.
    Projected(Box<(Projection, Filter)>),
    /// Pipeline stages that look at one document at a time.
    Staged(Pipeline),
}

impl Shape {
    /// Adds what becomes of a document.
    fn apply(&self, document: Document, made: &mut Vec<Document>) -> Result<(), QueryError> {
        match self {
            Self::Whole => made.push(document),
            Self::Projected(projected) => {
                let (projection, filter) = &**projected;
                made.push(projection.apply(&document, Some(filter))?);
            }
            Self::Staged(pipeline) => made.extend(pipeline.run([document])?),
        }
        Ok(())
    }
}

impl<C: Cursor> Batches<C> {
    /// What a store returns, shaped, up to `limit` documents.
    pub(crate) fn of_store(source: C, shape: Shape, limit: Option<u64>) -> Self {
        Self {
            source: Source::Store(source),
            shape: Arc::new(shape),
            pending: VecDeque::new(),
            remaining: limit.unwrap_or(u64::MAX),
        }
    }

    /// Documents at hand.
    pub(crate) fn of_list(documents: Vec<Document>) -> Self {
        let (source, shape) = (Source::None, Arc::new(Shape::Whole));
        let pending = documents.into_iter().map(Fetched::Decoded).collect();
        Self { source, shape, pending, remaining: u64::MAX }
    }

    /// Documents that were put down.
    pub(crate) fn of_spool(spool: SpoolReader) -> Self {
        let (pending, remaining) = (VecDeque::new(), u64::MAX);
        Self { source: Source::Spool(spool), shape: Arc::new(Shape::Whole), pending, remaining }
    }

    /// Whether some of it is on the disk that all queries share.
    fn is_on_disk(&self) -> bool {
        match &self.source {
            Source::None => false,
            Source::Store(store) => store.is_on_disk(),
            Source::Spool(spool) => spool.is_on_disk(),
        }
    }

    /// Further documents, some of them at most and about so many bytes, for use in the proxy; none at the end.
    pub(crate) async fn next_documents(
        &mut self,
        documents_max: usize,
        bytes_max: usize,
    ) -> Result<Vec<Document>, CommandError> {
        while self.pending.is_empty() && self.remaining > 0 {
            if !self.fetch(documents_max, bytes_max).await? {
                break;
            }
        }
        let left = usize::try_from(self.remaining).unwrap_or(usize::MAX);
        let taken = self.pending.drain(..self.pending.len().min(left));
        let documents = taken.map(Fetched::into_document).collect::<Result<Vec<_>, _>>()?;
        self.remaining -= documents.len() as u64;
        Ok(documents)
    }

    /// The next batch: at most `documents_max` documents and, after the first one, at most `bytes_max` bytes of the array
    /// they make: a reply is a document, too, and no larger than one may be.
    pub(crate) async fn next(
        &mut self,
        documents_max: Option<usize>,
        bytes_max: usize,
    ) -> Result<Batch, CommandError> {
        let mut batch = Batch::default();
        self.fill(&mut batch, documents_max, bytes_max).await?;
        Ok(batch)
    }

    /// Goes on with a batch, up to the same bounds of the whole of it.
    pub(crate) async fn fill(
        &mut self,
        batch: &mut Batch,
        documents_max: Option<usize>,
        bytes_max: usize,
    ) -> Result<(), CommandError> {
        let mut bytes: usize = batch.bytes;
        let documents_max = documents_max.unwrap_or(usize::MAX);
        while batch.documents.len() < documents_max && self.remaining > 0 {
            let Some(document) = self.pending.pop_front() else {
                // What would not fit any more is not fetched: the cursor would hold it.
                if bytes >= bytes_max && !batch.documents.is_empty() {
                    break;
                }
                let wanted = (documents_max - batch.documents.len()).min(FETCH_DOCUMENTS_MAX);
                if !self.fetch(wanted, bytes_max.saturating_sub(bytes)).await? {
                    break;
                }
                continue;
            };
            let position = batch.documents.len();
            bytes = bytes.saturating_add(document.encoded_bytes()?).saturating_add(element_bytes(position));
            if bytes > bytes_max && !batch.documents.is_empty() {
                self.pending.push_front(document);
                break;
            }
            self.remaining -= 1;
            batch.bytes = bytes;
            batch.documents.push(document);
        }
        batch.last = self.remaining == 0 || (matches!(self.source, Source::None) && self.pending.is_empty());
        Ok(())
    }

    /// Takes more documents from the store; false at its end.
    async fn fetch(&mut self, documents_max: usize, bytes_max: usize) -> Result<bool, CommandError> {
        let wanted = documents_max.min(usize::try_from(self.remaining).unwrap_or(usize::MAX)).max(1);
        if let Source::Store(store) = &mut self.source
            && matches!(*self.shape, Shape::Whole)
        {
            let fetched = store.next_fetched(wanted, bytes_max.max(1)).await?;
            let more = !fetched.is_empty();
            if !more {
                self.source = Source::None;
            }
            self.pending.extend(fetched);
            return Ok(more);
        }
        let fetched = match &mut self.source {
            Source::None => Vec::new(),
            Source::Store(store) => store.next_batch(wanted, bytes_max.max(1)).await?,
            Source::Spool(spool) => {
                let (mut taken, mut bytes) = (Vec::new(), 0);
                while taken.len() < wanted
                    && bytes < bytes_max.max(1)
                    && let Some(document) = spool.next()?
                {
                    bytes += limits::check_built(&document)?;
                    taken.push(document);
                }
                taken
            }
        };
        if fetched.is_empty() {
            self.source = Source::None;
            return Ok(false);
        }
        if matches!(*self.shape, Shape::Whole) {
            self.pending.extend(fetched.into_iter().map(Fetched::Decoded));
            return Ok(true);
        }
        let shape = Arc::clone(&self.shape);
        let shaped = slices::run::<C>(fetched, move |document, made| shape.apply(document, made)).await?;
        self.pending.extend(shaped.into_iter().map(Fetched::Decoded));
        Ok(true)
    }
}

/// A cursor between two batches.
pub(crate) struct OpenCursor<C> {
    /// The collection it reads.
    pub(crate) namespace: Namespace,
    /// What it has left.
    pub(crate) batches: Batches<C>,
    /// Kept three times as long between two batches (`noCursorTimeout`; MongoDB's logical session timeout).
    pub(crate) patient: bool,
    /// What is left of the `maxTimeMS` of the command that opened it.
    pub(crate) time_left: Option<Duration>,
}

/// Bounds of the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CursorLimits {
    /// Most cursors open at a time.
    pub(crate) count_max: usize,
    /// How long a cursor waits for its next `getMore`.
    pub(crate) idle: Duration,
    /// How long one keeps what it has on the disk when others have no room there.
    pub(crate) at_rest: Duration,
}

enum Slot<C> {
    Idle {
        cursor: Box<OpenCursor<C>>,
        since: Instant,
    },
    /// A `getMore` is fetching from it; if it is killed meanwhile the slot is gone when it returns.
    InUse,
}

/// The open cursors of a server.
pub(crate) struct CursorTable<C> {
    limits: CursorLimits,
    slots: Mutex<HashMap<i64, Slot<C>>>,
}

/// Takes the cursor that has waited longest for its client out of the table; none if all are read from.
fn longest_idle<C>(
    slots: &mut HashMap<i64, Slot<C>>,
    may_end: impl Fn(&OpenCursor<C>, Instant) -> bool,
) -> Option<Slot<C>> {
    let since = |(id, slot): (&i64, &Slot<C>)| match slot {
        Slot::Idle { cursor, since } if may_end(cursor, *since) => Some((*since, *id)),
        Slot::Idle { .. } | Slot::InUse => None,
    };
    let (_, id) = slots.iter().filter_map(since).min()?;
    slots.remove(&id)
}

impl<C: Cursor> CursorTable<C> {
    pub(crate) fn new(limits: CursorLimits) -> Self {
        Self { limits, slots: Mutex::new(HashMap::new()) }
    }

    /// Number of open cursors.
    pub(crate) fn count(&self) -> usize {
        self.lock().len()
    }

    /// Keeps a cursor and numbers it.
    pub(crate) fn open(&self, cursor: OpenCursor<C>) -> Result<i64, CommandError> {
        let mut slots = self.lock();
        if slots.len() >= self.limits.count_max && longest_idle(&mut slots, |_, _| true).is_none() {
            let text = format!("too many open cursors ({}): exhaust or close some", self.limits.count_max);
            return Err(CommandError::new(146, "ExceededMemoryLimit", text));
        }
        // Unpredictable, so that one client does not read another's cursor by counting.
        let id = loop {
            let id = i64::from(rand::random::<u32>()) << 31 | i64::from(rand::random::<u32>() >> 1);
            if id != 0 && !slots.contains_key(&id) {
                break id;
            }
        };
        slots.insert(id, Slot::Idle { cursor: Box::new(cursor), since: Instant::now() });
        Ok(id)
    }

    /// Takes a cursor for a `getMore`. It is gone unless [`CheckedOut::give_back`] returns it.
    pub(crate) fn check_out(
        &self,
        id: i64,
        namespace: &Namespace,
    ) -> Result<CheckedOut<'_, C>, CommandError> {
        let mut slots = self.lock();
        let slot = slots.get_mut(&id).ok_or_else(|| not_found(id))?;
        match slot {
            Slot::Idle { cursor, .. } if cursor.namespace != *namespace => Err(CommandError::new(
                13,
                "Unauthorized",
                format!("cursor id {id} does not belong to collection {}", namespace.collection),
            )),
            Slot::Idle { .. } => match std::mem::replace(slot, Slot::InUse) {
                Slot::Idle { cursor, .. } => Ok(CheckedOut { table: self, id, cursor: Some(cursor) }),
                Slot::InUse => Err(in_use(id)),
            },
            Slot::InUse => Err(in_use(id)),
        }
    }

    /// Ends a cursor; false if there is none of that number in that collection.
    pub(crate) fn kill(&self, id: i64, namespace: &Namespace) -> bool {
        let mut slots = self.lock();
        let ours = match slots.get(&id) {
            None => false,
            Some(Slot::Idle { cursor, .. }) => cursor.namespace == *namespace,
            Some(Slot::InUse) => true,
        };
        ours && slots.remove(&id).is_some()
    }

    /// Ends the cursors that were not used for too long.
    pub(crate) fn sweep(&self, now: Instant) {
        let idle = self.limits.idle;
        self.lock().retain(|_, slot| match slot {
            Slot::Idle { cursor, since } => {
                let patience = if cursor.patient { idle.saturating_mul(3) } else { idle };
                now.saturating_duration_since(*since) < patience
            }
            Slot::InUse => true,
        });
    }

    /// See [`Relief::relieve`].
    fn end_one_on_disk(&self, now: Instant) -> bool {
        let is_at_rest = |since| now.saturating_duration_since(since) >= self.limits.at_rest;
        let may_end = |cursor: &OpenCursor<C>, since| is_at_rest(since) && cursor.batches.is_on_disk();
        let ended = longest_idle(&mut self.lock(), may_end);
        if ended.is_some() {
            tracing::warn!(
                "no room on the disk for what queries spill: the cursor that was idle for longest was closed"
            );
        }
        // What it has there is given back with it, and not under the lock.
        ended.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i64, Slot<C>>> {
        // Nothing panics while the lock is held, and the map is consistent between any two statements.
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Cursor> Relief for CursorTable<C> {
    fn relieve(&self) -> bool {
        self.end_one_on_disk(Instant::now())
    }
}

/// A cursor taken out of the table. Dropped, it is closed.
pub(crate) struct CheckedOut<'a, C: Cursor> {
    table: &'a CursorTable<C>,
    id: i64,
    cursor: Option<Box<OpenCursor<C>>>,
}

impl<C: Cursor> CheckedOut<'_, C> {
    /// The cursor.
    pub(crate) fn cursor(&mut self) -> Result<&mut OpenCursor<C>, CommandError> {
        self.cursor.as_deref_mut().ok_or_else(|| not_found(self.id))
    }

    /// Returns it to the table; dropped if it was killed meanwhile.
    pub(crate) fn give_back(mut self) {
        if let (Some(cursor), Some(slot)) = (self.cursor.take(), self.table.lock().get_mut(&self.id)) {
            *slot = Slot::Idle { cursor, since: Instant::now() };
        }
    }
}

impl<C: Cursor> Drop for CheckedOut<'_, C> {
    fn drop(&mut self) {
        if self.cursor.is_some() {
            self.table.lock().remove(&self.id);
        }
    }
}

fn not_found(id: i64) -> CommandError {
    CommandError::new(43, "CursorNotFound", format!("cursor id {id} not found"))
}

fn in_use(id: i64) -> CommandError {
    CommandError::new(12051, "CursorInUse", format!("cursor id {id} is already in use"))
}

/// Bytes of an array's element at `position` besides its value: type, decimal name and the name's end.
fn element_bytes(position: usize) -> usize {
    2 + position.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests;
