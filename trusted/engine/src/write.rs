//! Inserts, updates and deletes.

use super::apply::Revision;
use super::channel::ServerChannel;
use super::collection::Collection;
use super::cutting::{self, DOCUMENTS_MAX};
use super::index::IndexPart;
use super::natural::Found;
use super::read::Selection;
use super::{Shared, error, slices, terms};
use arras_documents::filter::Filter;
use arras_documents::limits::Measured;
use arras_documents::sort::Sort;
use arras_documents::update::{ArrayFilters, Update};
use arras_records::OpenDocument;
use arras_schemes::contract::Serves;
use arras_service::ServiceError;
use arras_service::interrupt::Interrupt;
use arras_service::store::{
    DeleteStatement, FoundAndModified, InsertStatement, Inserted, Modification, Query, UpdateStatement,
    Updated, WriteFailure,
};
use arras_storage::Storage;
use bson::oid::ObjectId;
use bson::{Bson, Document};
use rand::seq::SliceRandom;
use std::collections::HashSet;
use std::sync::Arc;

/// Documents that a statement takes up at a time. Where a unique index is they come in the order of insertion: the server sees which
/// are of one time.
const DOCUMENTS_PER_CHANGE: usize = 1000;

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Inserts documents that have an `_id`.
    pub(super) async fn insert(
        &self,
        collection: &Collection,
        statement: InsertStatement,
    ) -> Result<Inserted, ServiceError> {
        let InsertStatement { documents, ordered, interrupt } = statement;
        let documents = match <[Measured; 1]>::try_from(documents) {
            Ok([document]) => return self.insert_one(collection, document, &interrupt).await,
            Err(documents) => documents,
        };
        let _one_writer = self.writer_unless(collection, &interrupt).await?;
        self.mend_text(collection).await?;
        let mut outcome = Inserted::default();
        let parts = collection.parts();
        let mut documents = documents.into_iter().enumerate().peekable();
        while documents.peek().is_some() {
            let (mut chunk, mut bytes) = (Vec::new(), 0);
            while chunk.len() < DOCUMENTS_MAX && bytes < self.settings.request_bytes {
                let Some((position, document)) = documents.next() else {
                    break;
                };
                match check_insertion(&parts, &document) {
                    Ok(()) => bytes += cutting::document_bytes(&parts, &document, document.bytes()),
                    Err(error) => {
                        outcome.failures.push(WriteFailure { position, error });
                        if ordered {
                            documents = Vec::new().into_iter().enumerate().peekable();
                            break;
                        }
                        continue;
                    }
                }
                chunk.push((position, document));
            }
            let of_chunk: Vec<usize> = chunk.iter().map(|(position, _)| *position).collect();
            let inserted = match interrupt.check() {
                Ok(()) => self.insert_chunk(collection, chunk, ordered, &mut outcome).await,
                Err(interrupted) => Err(interrupted),
            };
            match inserted {
                Ok(true) => {}
                Ok(false) => break,
                // Nothing was stored: the statement failed.
                Err(error) if outcome.count == 0 => return Err(error),
                Err(error) => {
                    let known: HashSet<usize> =
                        outcome.failures.iter().map(|failure| failure.position).collect();
                    let rest = documents.map(|(position, _)| position);
                    let failed =
                        of_chunk.into_iter().chain(rest).filter(|position| !known.contains(position));
                    let failure = |position| WriteFailure { position, error: error.clone() };
                    outcome.failures.extend(failed.map(failure));
                    break;
                }
            }
        }
        outcome.failures.sort_by_key(|failure| failure.position);
        if ordered {
            // A chunk that a document too large ended may have met a duplicate before it.
            outcome.failures.truncate(1);
        }
        Ok(outcome)
    }

    /// Inserts one intent's documents; false if an ordered insert must stop.
    async fn insert_chunk(
        &self,
        collection: &Collection,
        chunk: Vec<(usize, Measured)>,
        ordered: bool,
        outcome: &mut Inserted,
    ) -> Result<bool, ServiceError> {
        let (positions, revisions): (Vec<usize>, Vec<Revision>) = chunk
            .into_iter()
            .map(|(position, document)| {
                let id = document.get("_id").unwrap_or(&Bson::Null);
                let row = collection.sealer.row_id(id);
                (position, Revision { row, sequence: self.next_sequence(), old: None, new: Some(document) })
            })
            .unzip();
        let conflicts = self.conflicts(collection, &revisions).await?;
        let mut accepted = Vec::with_capacity(revisions.len());
        let mut go_on = true;
        for ((position, revision), conflict) in positions.into_iter().zip(revisions).zip(conflicts) {
            match conflict {
                None => accepted.push(revision),
                Some(error) => {
                    outcome.failures.push(WriteFailure { position, error });
                    if ordered {
                        go_on = false;
                        break;
                    }
                }
            }
        }
        let count = accepted.len() as u64;
        if count > 0 {
            self.apply(collection, &accepted).await?;
        }
        outcome.count += count;
        Ok(go_on)
    }

    /// Changes the documents that match.
    pub(super) async fn update(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        statement: UpdateStatement,
    ) -> Result<Updated, ServiceError> {
        if !statement.multi
            && statement.upsert.is_none()
            && statement.hint.is_none()
            && let Some(row) = self.only_row(collection, &statement.filter)?
        {
            return self.update_one(collection, row, statement).await;
        }
        let alone = self.update_alone(collection, &statement);
        self.as_one_writer(collection, &statement.interrupt, alone).await
    }

    /// Runs a statement as the collection's one writer. What it thinned out is cleaned at its end, whatever came of it.
    async fn as_one_writer<T>(
        &self,
        collection: &Collection,
        interrupt: &Interrupt,
        statement: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, ServiceError> {
        let _one_writer = self.writer_unless(collection, interrupt).await?;
        self.mend_text(collection).await?;
        let outcome = statement.await;
        self.clean_after_statement(collection).await;
        outcome
    }

    /// The same. The caller holds the write lock.
    async fn update_alone(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        statement: &UpdateStatement,
    ) -> Result<Updated, ServiceError> {
        statement.interrupt.check()?;
        let UpdateStatement { filter, hint, update, array_filters, multi, .. } = statement;
        let sought = (filter, hint.as_ref());
        let mut found = self.subjects(collection, sought, *multi, &statement.interrupt).await?;
        // Which of them break a uniqueness may depend on their order.
        if collection.parts().iter().all(|part| !is_unique(part)) {
            found.forget_order(DOCUMENTS_PER_CHANGE);
        }
        let how = Arc::new((update.clone(), filter.clone(), array_filters.clone()));
        let mut outcome = Updated::default();
        while let Some(documents) = self.next_of(&mut found, &statement.interrupt).await? {
            outcome.matched += documents.len() as u64;
            let refusal = {
                let (shared, collection, parts) =
                    (Arc::clone(self), Arc::clone(collection), collection.parts());
                move |revision: &Revision| shared.refusal(&collection, &parts, revision)
            };
            let Revised { revisions, failure } = revised(documents, &how, refusal).await?;
            outcome.modified += revisions.len() as u64;
            // As in MongoDB, what comes before the one that cannot be changed stays changed.
            self.revise(collection, revisions, &statement.interrupt).await?;
            if let Some(failure) = failure {
                return Err(failure);
            }
        }
        if outcome.matched == 0
            && let Some(new_id) = statement.upsert
        {
            let upserted = self.upsert(collection, filter, (update, new_id), array_filters).await?;
            let upserted = upserted.get("_id").cloned().unwrap_or(Bson::Null);
            return Ok(Updated { upserted: Some(upserted), ..Updated::default() });
        }
        Ok(outcome)
    }

    /// The documents a statement is about; nothing of it is recorded yet.
    async fn subjects(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        (filter, hint): (&Filter, Option<&Bson>),
        multi: bool,
        interrupt: &Interrupt,
    ) -> Result<Found, ServiceError> {
        let sort = Sort::default();
        let selection =
            Selection { filter, sort: &sort, skip: 0, limit: None, hint, alone: true, allow_disk_use: true };
        let sought = async {
            if !multi {
                return Ok(Found::One(self.first(collection, selection).await?.map(Box::new)));
            }
            let plan = self.plan_read(collection, selection).await?;
            let all = self.natural(collection, &plan, selection, Arc::new(filter.clone())).await?;
            Ok(Found::All(Box::new(all.for_changes())))
        };
        interrupt.during(sought).await.map_err(error::not_recorded)
    }

    /// Applies revisions of existing documents in as many intents as they need; between two of them it may be to end.
    async fn revise(
        &self,
        collection: &Collection,
        mut revisions: Vec<Revision>,
        interrupt: &Interrupt,
    ) -> Result<(), ServiceError> {
        if !may_conflict(collection, &revisions) {
            // Their order is that of insertion, which is not for the server to see: no intent holds the older ones.
            revisions.shuffle(&mut self.settings.random.rng());
        }
        let parts = collection.parts();
        let mut revisions = revisions.into_iter().peekable();
        while revisions.peek().is_some() {
            interrupt.check()?;
            let chunk = cutting::next_write(&parts, &mut revisions, self.settings.request_bytes);
            let conflicts = self.conflicts(collection, &chunk).await?;
            let failure = conflicts.iter().position(Option::is_some);
            let accepted: Vec<Revision> = match failure {
                Some(position) => chunk.into_iter().take(position).collect(),
                None => chunk,
            };
            if !accepted.is_empty() {
                self.apply(collection, &accepted).await?;
            }
            if let Some(error) = conflicts.into_iter().flatten().next() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Why a revision cannot be, whatever other documents there are.
    fn refusal(
        &self,
        collection: &Collection,
        parts: &[Arc<IndexPart>],
        revision: &Revision,
    ) -> Option<ServiceError> {
        let new = revision.new.as_ref()?;
        check_insertion(parts, new).err().or_else(|| self.misfit(collection, revision))
    }

    /// Inserts what an upsert makes of its filter and update, which is a document with an `_id`.
    async fn upsert(
        &self,
        collection: &Collection,
        filter: &Filter,
        (update, new_id): (&Update, ObjectId),
        array_filters: &ArrayFilters,
    ) -> Result<Document, ServiceError> {
        let document = update.upsert_document(filter, array_filters, new_id)?;
        let row = collection.sealer.row_id(document.get("_id").unwrap_or(&Bson::Null));
        let sequence = self.next_sequence();
        let revision = Revision { row, sequence, old: None, new: Some(document.clone()) };
        self.revise(collection, vec![revision], &Interrupt::default()).await?;
        Ok(document.into_document())
    }

    /// Removes the documents that match, or the first of them.
    pub(super) async fn delete(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        statement: &DeleteStatement,
    ) -> Result<u64, ServiceError> {
        let DeleteStatement { filter, hint, multi, .. } = statement;
        if !multi
            && hint.is_none()
            && let Some(row) = self.only_row(collection, filter)?
        {
            return self.delete_one(collection, row, filter.clone(), &statement.interrupt).await;
        }
        let alone = self.delete_alone(collection, statement);
        self.as_one_writer(collection, &statement.interrupt, alone).await
    }

    /// The same. The caller holds the write lock.
    async fn delete_alone(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        statement: &DeleteStatement,
    ) -> Result<u64, ServiceError> {
        let DeleteStatement { filter, hint, multi, .. } = statement;
        statement.interrupt.check()?;
        let mut found =
            self.subjects(collection, (filter, hint.as_ref()), *multi, &statement.interrupt).await?;
        found.forget_order(DOCUMENTS_PER_CHANGE);
        let mut count = 0;
        while let Some(documents) = self.next_of(&mut found, &statement.interrupt).await? {
            count += documents.len() as u64;
            let removals = documents.into_iter().map(removal).collect();
            self.revise(collection, removals, &statement.interrupt).await?;
        }
        Ok(count)
    }

    /// The next documents that a statement changes together, unless it is to end.
    async fn next_of(
        &self,
        found: &mut Found,
        interrupt: &Interrupt,
    ) -> Result<Option<Vec<OpenDocument>>, ServiceError> {
        interrupt.during(found.next(self, DOCUMENTS_PER_CHANGE)).await.map_err(error::not_recorded)
    }

    /// Changes or removes the first document in the query's order.
    pub(super) async fn find_and_modify(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        query: &Query,
        modification: Modification,
        interrupt: &Interrupt,
    ) -> Result<FoundAndModified, ServiceError> {
        let alone = self.find_and_modify_alone(collection, query, modification, interrupt);
        self.as_one_writer(collection, interrupt, alone).await
    }

    /// The same. The caller holds the write lock.
    async fn find_and_modify_alone(
        self: &Arc<Self>,
        collection: &Arc<Collection>,
        query: &Query,
        modification: Modification,
        interrupt: &Interrupt,
    ) -> Result<FoundAndModified, ServiceError> {
        let sought = self.first(collection, Selection { alone: true, ..Selection::of(query) });
        let found = interrupt.during(sought).await.map_err(error::not_recorded)?;
        match (found, modification) {
            (None, Modification::Update { update, array_filters, upsert: Some(new_id), return_new }) => {
                let how = (&update, new_id);
                let document = self.upsert(collection, &query.filter, how, &array_filters).await?;
                let id = document.get("_id").cloned().unwrap_or(Bson::Null);
                let document = return_new.then_some(document);
                Ok(FoundAndModified { document, existing: false, upserted: Some(id) })
            }
            (None, _) => Ok(FoundAndModified::default()),
            (Some(old), Modification::Remove) => {
                let document = Some(old.document.clone());
                self.revise(collection, vec![removal(old)], &Interrupt::default()).await?;
                Ok(FoundAndModified { document, existing: true, upserted: None })
            }
            (Some(old), Modification::Update { update, array_filters, return_new, .. }) => {
                let new = update.apply(&old.document, Some(&query.filter), &array_filters)?;
                let before = old.document.clone();
                let after = new.clone().map_or_else(|| before.clone(), Measured::into_document);
                if new.is_some() {
                    let revision = Revision { row: old.row, sequence: old.sequence, old: Some(old), new };
                    self.revise(collection, vec![revision], &Interrupt::default()).await?;
                }
                let document = Some(if return_new { after } else { before });
                Ok(FoundAndModified { document, existing: true, upserted: None })
            }
        }
    }
}

/// What an update makes of documents.
#[derive(Default)]
struct Revised {
    /// Of those that it changes, up to the one that it fails for.
    revisions: Vec<Revision>,
    failure: Option<ServiceError>,
}

/// The revisions of those documents that an update changes; it fails for one whose revision is refused.
async fn revised(
    documents: Vec<OpenDocument>,
    how: &Arc<(Update, Filter, ArrayFilters)>,
    refusal: impl Fn(&Revision) -> Option<ServiceError> + Send + 'static,
) -> Result<Revised, ServiceError> {
    let how = Arc::clone(how);
    slices::fold(documents, Revised::default(), move |revised, old| {
        if revised.failure.is_some() {
            return Ok(());
        }
        let (update, filter, array_filters) = &*how;
        let (row, sequence) = (old.row, old.sequence);
        match update.apply(&old.document, Some(filter), array_filters) {
            Ok(Some(new)) => {
                let revision = Revision { row, sequence, old: Some(old), new: Some(new) };
                revised.failure = refusal(&revision);
                if revised.failure.is_none() {
                    revised.revisions.push(revision);
                }
            }
            Ok(None) => {}
            Err(failure) => revised.failure = Some(failure.into()),
        }
        Ok(())
    })
    .await
}

fn is_unique(part: &IndexPart) -> bool {
    part.half.serves() == Serves::Unique
}

/// True if it may depend on the order of these revisions which of them break a uniqueness.
fn may_conflict(collection: &Collection, revisions: &[Revision]) -> bool {
    let parts = collection.parts();
    let changes = |revision: &Revision| {
        let Some(new) = &revision.new else { return false };
        let Some(old) = &revision.old else { return true };
        let differ = |part| match (terms::of(part, &old.document), terms::of(part, new)) {
            (Ok(old), Ok(new)) => old.terms != new.terms,
            (Err(_), _) | (_, Err(_)) => true,
        };
        parts.iter().filter(|part| is_unique(part)).any(|part| differ(part))
    };
    revisions.iter().any(changes)
}

/// Checks a document that is to be inserted, by itself.
///
/// # Errors
/// It has what an index cannot hold.
pub(super) fn check_insertion(parts: &[Arc<IndexPart>], document: &Document) -> Result<(), ServiceError> {
    for part in parts {
        arras_planner::terms::check(document, &part.physical)
            .map_err(|error| error::too_many_entries(&error))?;
    }
    Ok(())
}

fn removal(old: OpenDocument) -> Revision {
    Revision { row: old.row, sequence: old.sequence, old: Some(old), new: None }
}

#[cfg(test)]
mod tests;
