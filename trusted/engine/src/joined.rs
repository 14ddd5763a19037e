//! Writers of one collection that wait for each other. Whoever gets the collection's write lock takes along the
//! writes of single documents that wait behind it and performs them as one intent: the checks, the two durable commits
//! and the way to the server are paid once.
//!
//! *What each is told* is its own truth: a duplicate value or an update that fails is that write's error alone, and if
//! the joined write is refused whole, each is tried by itself.
//!
//! *Order.* The writes take effect in the order in which they came. All of them see the documents of before the
//! joined write; so no two are of the same document: the second waits for the next one.
//!
//! *How many.* Those who were told come back with their next write: [`gathering`].
//!
//! *Inserts into a collection without indexes* are sent without asking first whether their `_id`s are taken: the
//! server refuses the whole write if one is, and only then is asked which. With indexes it is asked first, so that it
//! sees no entries of documents that are never stored.

mod gathering;

use super::apply::Revision;
use super::channel::ServerChannel;
use super::collection::Collection;
use super::fetch::Absent;
use super::read::Selection;
use super::write::check_insertion;
use super::{Shared, error};
use arras_documents::filter::Filter;
use arras_documents::limits::Measured;
use arras_documents::sort::Sort;
use arras_planner::access::Access;
use arras_protocol::RowId;
use arras_records::OpenDocument;
use arras_service::interrupt::Interrupt;
use arras_service::store::{Inserted, UpdateStatement, Updated, WriteFailure};
use arras_service::{Fault, ServiceError};
use arras_storage::Storage;
use bson::Bson;
use gathering::Gathering;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

/// Writes in one joined write, at most: those that come first should not wait for hundreds of others.
const JOINED_MAX: usize = 64;
/// Bytes of documents above which a joined write takes no further one.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// A write of the document of one row.
pub(super) enum Single {
    /// A new document.
    Insert(Measured),
    /// The first match, which is the row's document or none.
    Update(Box<UpdateStatement>),
    /// Likewise.
    Delete(Filter),
}

impl Single {
    /// Bytes of the new document, if they are known.
    fn bytes(&self) -> usize {
        match self {
            Self::Insert(document) => document.bytes(),
            Self::Update(_) | Self::Delete(_) => 0,
        }
    }
}

/// What a write came to.
pub(super) enum Outcome {
    Inserted(Inserted),
    Updated(Updated),
    Deleted(u64),
}

/// A write that waits for the lock.
struct Waiting {
    /// Its name among those of its collection.
    ticket: u64,
    row: RowId,
    single: Single,
    done: oneshot::Sender<Result<Outcome, ServiceError>>,
}

/// Joined writes that ask for taken `_id`s first, after one met some: who inserts what is there already often does so
/// again, and a refused write costs more than asking.
const ASKING_AFTER_CONFLICT: u32 = 256;

/// The writes of single documents that wait for a collection's write lock.
#[derive(Default)]
pub(super) struct Joining {
    waiting: Mutex<VecDeque<Waiting>>,
    /// Of the next write that comes.
    next_ticket: AtomicU64,
    /// How many of the next joined writes ask first.
    asking: AtomicU32,
    gathering: Gathering,
}

impl Joining {
    /// Notes that one was refused that had not asked.
    fn ask_for_a_while(&self) {
        self.asking.store(ASKING_AFTER_CONFLICT, Ordering::Relaxed);
    }

    /// True if the next joined write should ask first. Called once for each, by the holder of the write lock.
    fn must_ask(&self) -> bool {
        let asking = self.asking.load(Ordering::Relaxed);
        self.asking.store(asking.saturating_sub(1), Ordering::Relaxed);
        asking > 0
    }

    /// Has a write wait.
    fn push(&self, write: Waiting) {
        let waiting = {
            let mut waiting = self.waiting();
            waiting.push_back(write);
            waiting.len()
        };
        self.gathering.note_arrival(waiting);
    }

    /// Takes a write out that nobody has taken up yet; false if it is no longer to be had.
    fn withdraw(&self, ticket: u64) -> bool {
        let mut waiting = self.waiting();
        let place = waiting.iter().position(|write| write.ticket == ticket);
        place.and_then(|place| waiting.remove(place)).is_some()
    }

    /// Waits, for a moment, for the writers of the last joined write, which is what the next one is then of.
    async fn gather(&self) {
        self.gathering.gather(JOINED_MAX, || self.waiting().len()).await;
    }

    /// The writers of a joined write are about to be told.
    fn note_writers(&self, writers: usize) {
        self.gathering.note_crowd(writers + self.waiting().len());
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Waiting>> {
        // Nothing panics while it is held.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writes of the next joined write: of different rows, each row's first.
    fn take(&self) -> Vec<Waiting> {
        let mut waiting = self.waiting();
        let (mut rows, mut bytes) = (HashSet::new(), 0);
        let (mut taken, mut left) = (Vec::new(), VecDeque::new());
        for write in waiting.drain(..) {
            let is_first = rows.insert(write.row);
            if is_first && taken.len() < JOINED_MAX && bytes < BYTES_MAX {
                bytes += write.single.bytes();
                taken.push(write);
            } else {
                left.push_back(write);
            }
        }
        *waiting = left;
        taken
    }

    /// Puts writes back before those that wait.
    fn put_back(&self, writes: Vec<Waiting>) {
        let mut waiting = self.waiting();
        for write in writes.into_iter().rev() {
            waiting.push_front(write);
        }
    }
}

/// Somebody who waits for a revision to be applied.
struct Writer {
    /// What it is told then.
    outcome: Outcome,
    done: oneshot::Sender<Result<Outcome, ServiceError>>,
}

impl Writer {
    fn succeed(self) {
        tell(self.done, Ok(self.outcome));
    }

    fn fail(self, error: ServiceError) {
        tell(self.done, Err(error));
    }
}

/// One of a joined write.
struct Prepared {
    revision: Revision,
    writer: Writer,
}

fn tell(done: oneshot::Sender<Result<Outcome, ServiceError>>, outcome: Result<Outcome, ServiceError>) {
    // One that has gone away has nobody to tell.
    let _ = done.send(outcome);
}

/// True if the server cannot be reached: no use in trying each by itself. And if the outcome of the joined write is not
/// known: it is recorded and will be completed, so that trying its writes again would apply them twice.
fn is_everybodys(error: &ServiceError) -> bool {
    matches!(error.fault, Fault::Unreachable | Fault::InDoubt | Fault::TimedOut | Fault::Fenced)
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// The row of the one document that a filter can match, if its `_id` says so.
    pub(super) fn only_row(
        &self,
        collection: &Collection,
        filter: &Filter,
    ) -> Result<Option<RowId>, ServiceError> {
        let (sort, hint, alone) = (Sort::default(), None, false);
        let selection =
            Selection { filter, sort: &sort, skip: 0, limit: Some(1), hint, alone, allow_disk_use: true };
        Ok(match self.plan(collection, selection)?.access {
            Access::Rows { ids } => match ids.as_slice() {
                [id] => Some(collection.sealer.row_id(id)),
                _ => None,
            },
            Access::Scan
            | Access::Text
            | Access::Union(_)
            | Access::Range(_)
            | Access::Unique { .. }
            | Access::Eq { .. } => None,
        })
    }

    /// Inserts one document that has an `_id`.
    pub(super) async fn insert_one(
        &self,
        collection: &Collection,
        document: Measured,
        interrupt: &Interrupt,
    ) -> Result<Inserted, ServiceError> {
        let failed = |error| Inserted { count: 0, failures: vec![WriteFailure { position: 0, error }] };
        if let Err(error) = check_insertion(&collection.parts(), &document) {
            return Ok(failed(error));
        }
        let row = collection.sealer.row_id(document.get("_id").unwrap_or(&Bson::Null));
        match self.join(collection, row, Single::Insert(document), interrupt).await {
            Ok(Outcome::Inserted(inserted)) => Ok(inserted),
            Err(error) if matches!(error.fault, Fault::DuplicateKey | Fault::Validation) => Ok(failed(error)),
            Err(error) => Err(error),
            Ok(Outcome::Updated(_) | Outcome::Deleted(_)) => Err(unfinished()),
        }
    }

    /// Updates the document of `row`, if the statement's filter matches it.
    pub(super) async fn update_one(
        &self,
        collection: &Collection,
        row: RowId,
        statement: UpdateStatement,
    ) -> Result<Updated, ServiceError> {
        let interrupt = statement.interrupt.clone();
        match self.join(collection, row, Single::Update(Box::new(statement)), &interrupt).await? {
            Outcome::Updated(updated) => Ok(updated),
            Outcome::Inserted(_) | Outcome::Deleted(_) => Err(unfinished()),
        }
    }

    /// Deletes the document of `row`, if the filter matches it.
    pub(super) async fn delete_one(
        &self,
        collection: &Collection,
        row: RowId,
        filter: Filter,
        interrupt: &Interrupt,
    ) -> Result<u64, ServiceError> {
        match self.join(collection, row, Single::Delete(filter), interrupt).await? {
            Outcome::Deleted(number) => Ok(number),
            Outcome::Inserted(_) | Outcome::Updated(_) => Err(unfinished()),
        }
    }

    /// Waits for the write's outcome, or for the lock: then it is this one that performs what waits. Interrupted, it is not
    /// done if nobody has taken it up yet.
    async fn join(
        &self,
        collection: &Collection,
        row: RowId,
        single: Single,
        interrupt: &Interrupt,
    ) -> Result<Outcome, ServiceError> {
        let joining = &collection.joining;
        let (done, mut outcome) = oneshot::channel();
        let ticket = joining.next_ticket.fetch_add(1, Ordering::Relaxed);
        joining.push(Waiting { ticket, row, single, done });
        let _one_writer = tokio::select! {
            biased;
            outcome = &mut outcome => return outcome.unwrap_or_else(|_| Err(unfinished())),
            lock = collection.writes.lock() => lock,
            reason = interrupt.raised() => {
                if joining.withdraw(ticket) {
                    return Err(reason.error());
                }
                // Somebody has taken it up: it is told, or put back, and then nobody else waits on its behalf.
                tokio::select! {
                    biased;
                    outcome = &mut outcome => return outcome.unwrap_or_else(|_| Err(unfinished())),
                    lock = collection.writes.lock() => {
                        if joining.withdraw(ticket) {
                            return Err(reason.error());
                        }
                        lock
                    }
                }
            }
        };
        loop {
            match outcome.try_recv() {
                Ok(outcome) => return outcome,
                Err(oneshot::error::TryRecvError::Closed) => return Err(unfinished()),
                Err(oneshot::error::TryRecvError::Empty) => {
                    collection.joining.gather().await;
                    self.perform_joined(collection).await;
                }
            }
        }
    }

    /// Performs the first of the writes that wait. The caller holds the write lock.
    async fn perform_joined(&self, collection: &Collection) {
        let writes = collection.joining.take();
        // The writer before may have left a write in doubt: what these go by must be of after it.
        let able = async {
            self.settled().await?;
            self.not_dropped(collection)?;
            self.mend_text(collection).await
        };
        if let Err(error) = able.await {
            return writes.into_iter().for_each(|write| tell(write.done, Err(error.clone())));
        }
        let found = match self.found(collection, &writes).await {
            Ok(found) => found,
            Err(error) => {
                return writes.into_iter().for_each(|write| tell(write.done, Err(error.clone())));
            }
        };
        let prepared = self.prepared(collection, writes, found);
        if prepared.is_empty() {
            return;
        }
        let revisions: (Vec<Revision>, Vec<Writer>) =
            prepared.into_iter().map(|write| (write.revision, write.writer)).unzip();
        self.revise_joined(collection, revisions).await;
    }

    /// Applies those revisions that break no uniqueness, as one, and tells all.
    async fn revise_joined(
        &self,
        collection: &Collection,
        (revisions, writers): (Vec<Revision>, Vec<Writer>),
    ) {
        let inserts = revisions.iter().all(|revision| revision.old.is_none());
        if inserts && collection.parts().is_empty() && !collection.joining.must_ask() {
            match self.apply(collection, &revisions).await {
                Ok(()) => {
                    collection.joining.note_writers(writers.len());
                    return writers.into_iter().for_each(Writer::succeed);
                }
                Err(error) if is_everybodys(&error) => {
                    let error = error::unless_taken(error);
                    return writers.into_iter().for_each(|writer| writer.fail(error.clone()));
                }
                Err(_) => collection.joining.ask_for_a_while(),
            }
        }
        let conflicts = match self.conflicts(collection, &revisions).await {
            Ok(conflicts) => conflicts,
            Err(error) => return self.revise_apart(collection, error, revisions, writers).await,
        };
        let (mut accepted, mut accepted_writers) = (Vec::new(), Vec::new());
        let (mut taken, mut taken_writers, mut conflicting) = (Vec::new(), Vec::new(), Vec::new());
        for ((revision, writer), conflict) in revisions.into_iter().zip(writers).zip(conflicts) {
            if let Some(error) = conflict {
                taken.push(revision);
                taken_writers.push(writer);
                conflicting.push(error);
            } else {
                accepted.push(revision);
                accepted_writers.push(writer);
            }
        }
        let applied = if accepted.is_empty() { Ok(()) } else { self.apply(collection, &accepted).await };
        match applied {
            Ok(()) => {
                self.clean_after_statement(collection).await;
                collection.joining.note_writers(accepted_writers.len() + taken_writers.len());
                accepted_writers.into_iter().for_each(Writer::succeed);
            }
            // What the others conflict with may be one of these.
            Err(error) if !is_everybodys(&error) => {
                accepted.extend(taken);
                accepted_writers.extend(taken_writers);
                return self.revise_apart(collection, error, accepted, accepted_writers).await;
            }
            Err(error) => {
                // What the others conflict with may be one of these, which may never be.
                let all = accepted_writers.into_iter().chain(taken_writers);
                return all.for_each(|writer| writer.fail(error.clone()));
            }
        }
        taken_writers.into_iter().zip(conflicting).for_each(|(writer, conflict)| writer.fail(conflict));
    }

    /// Tries each revision of a joined write by itself, unless that is no use.
    async fn revise_apart(
        &self,
        collection: &Collection,
        error: ServiceError,
        revisions: Vec<Revision>,
        writers: Vec<Writer>,
    ) {
        if revisions.len() == 1 || is_everybodys(&error) {
            return writers.into_iter().for_each(|writer| writer.fail(error.clone()));
        }
        tracing::debug!(%error, "a joined write was refused: each of its writes is tried by itself");
        let mut outcomes = Vec::with_capacity(revisions.len());
        for revision in &revisions {
            outcomes.push(self.revise_alone(collection, std::slice::from_ref(revision)).await);
        }
        self.clean_after_statement(collection).await;
        for (outcome, writer) in outcomes.into_iter().zip(writers) {
            match outcome {
                Ok(()) => writer.succeed(),
                Err(error) => writer.fail(error),
            }
        }
    }

    async fn revise_alone(&self, collection: &Collection, revision: &[Revision]) -> Result<(), ServiceError> {
        self.settled().await?;
        let conflicts = self.conflicts(collection, revision).await?;
        match conflicts.into_iter().flatten().next() {
            Some(conflict) => Err(conflict),
            None => self.apply(collection, revision).await,
        }
    }

    /// The documents that updates and deletes are of, by row; those of the rows that one reply holds. Rows that it
    /// does not deal with are absent, those without a document are none.
    async fn found(
        &self,
        collection: &Collection,
        writes: &[Waiting],
    ) -> Result<HashMap<RowId, Option<OpenDocument>>, ServiceError> {
        let changed = |write: &&Waiting| !matches!(write.single, Single::Insert(_));
        let mut rows: Vec<RowId> = writes.iter().filter(changed).map(|write| write.row).collect();
        if rows.is_empty() {
            return Ok(HashMap::new());
        }
        // In an order that says nothing of which write came first.
        rows.sort_unstable();
        let read = self.read_some(collection, &rows, Absent::Allowed).await;
        let (documents, served) = read.map_err(error::not_recorded)?;
        rows.truncate(served);
        let mut found: HashMap<RowId, Option<OpenDocument>> =
            rows.into_iter().map(|row| (row, None)).collect();
        found.extend(documents.into_iter().map(|document| (document.row, Some(document))));
        Ok(found)
    }

    /// What the writes make of the documents found. Those that change nothing, or fail, are told; those whose document
    /// is not at hand go back to the queue.
    fn prepared(
        &self,
        collection: &Collection,
        writes: Vec<Waiting>,
        mut found: HashMap<RowId, Option<OpenDocument>>,
    ) -> Vec<Prepared> {
        let (mut prepared, mut later) = (Vec::new(), Vec::new());
        for write in writes {
            let old = match write.single {
                Single::Insert(_) => None,
                Single::Update(_) | Single::Delete(_) => match found.remove(&write.row) {
                    Some(old) => old,
                    None => {
                        later.push(write);
                        continue;
                    }
                },
            };
            let revision = self.revision(write.row, write.single, old);
            if let Ok((Some(revision), _)) = &revision
                && let Some(misfit) = self.misfit(collection, revision)
            {
                tell(write.done, Err(misfit));
                continue;
            }
            match revision {
                Ok((Some(revision), outcome)) => {
                    prepared.push(Prepared { revision, writer: Writer { outcome, done: write.done } });
                }
                Ok((None, outcome)) => tell(write.done, Ok(outcome)),
                Err(error) => tell(write.done, Err(error)),
            }
        }
        collection.joining.put_back(later);
        prepared
    }

    /// The revision that a write is, if it changes anything, and what its writer is told then.
    fn revision(
        &self,
        row: RowId,
        single: Single,
        old: Option<OpenDocument>,
    ) -> Result<(Option<Revision>, Outcome), ServiceError> {
        match (single, old) {
            (Single::Insert(document), _) => {
                let revision =
                    Revision { row, sequence: self.next_sequence(), old: None, new: Some(document) };
                Ok((Some(revision), Outcome::Inserted(Inserted { count: 1, failures: Vec::new() })))
            }
            (Single::Update(statement), Some(old)) if statement.filter.matches(&old.document)? => {
                let UpdateStatement { filter, update, array_filters, .. } = *statement;
                let new = update.apply(&old.document, Some(&filter), &array_filters)?;
                let outcome = Updated { matched: 1, modified: u64::from(new.is_some()), upserted: None };
                let revision =
                    new.map(|new| Revision { row, sequence: old.sequence, old: Some(old), new: Some(new) });
                Ok((revision, Outcome::Updated(outcome)))
            }
            (Single::Update(_), _) => Ok((None, Outcome::Updated(Updated::default()))),
            (Single::Delete(filter), Some(old)) if filter.matches(&old.document)? => {
                let revision = Revision { row, sequence: old.sequence, old: Some(old), new: None };
                Ok((Some(revision), Outcome::Deleted(1)))
            }
            (Single::Delete(_), _) => Ok((None, Outcome::Deleted(0))),
        }
    }
}

/// To those whose leader panicked.
fn unfinished() -> ServiceError {
    error::of(Fault::Internal, "the operation failed")
}

#[cfg(test)]
mod tests;
