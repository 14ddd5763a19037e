//! The server's side restored alone, and accepted as it is: acknowledged writes that it lacks are given up.
//!
//! What the server has is consistent in itself: a write is documents and entries of all its indexes at once. What the
//! proxy has is of later: counters and counts of documents that are gone, writes that were under way on a state that
//! is no more, collections and indexes that the server may not have yet. So the proxy forgets its counters, counts and
//! intents; every collection on its record is there again, with the documents that the server has of it or none; and every
//! index is made anew from them under another name, and so other keys: nothing that the server saw of the time
//! that is given up meets what it sees from now on. Epochs jump, as after a restore of both sides.
//!
//! Where this ends early, the next start does it again: what is to be made is on record until it is complete. A
//! collection that was dropped since the server's copy was taken stays on the server, and nobody can name or read it.

use super::apply::COUNTERS;
use super::catalog::{self, CollectionRecord};
use super::channel::ServerChannel;
use super::intents::{INTENTS, WriteError};
use super::ledger::COUNTS;
use super::local::{Change, LocalError, LocalStore};
use super::restore::{self, Restored};
use super::{OpenError, Shared, index};
use arras_protocol::write::Step;
use arras_protocol::{Channel, ChannelError, Refusal, documents, hello};
use arras_service::{Fault, ServiceError};
use arras_storage::{Durability, Storage};

/// How many writes the server has acknowledged, as far as that counts: where its state is accepted, as many as it has.
///
/// # Errors
/// [`LocalError`] if it cannot be read.
pub(super) fn acknowledged<S: Storage>(
    local: &LocalStore<S>,
    restored: Option<Restored>,
    server: &hello::Response,
) -> Result<u64, LocalError> {
    let before = local.acknowledged_before()?;
    Ok(match restored {
        Some(Restored::ServerAlone) => before.min(server.commits),
        Some(Restored::BothSides) | None => before,
    })
}

/// Forgets what goes by writes that the server lacks. `commits`: how many it has.
///
/// # Errors
/// [`LocalError`].
pub(super) fn forget_lost<S: Storage>(local: &LocalStore<S>, commits: u64) -> Result<(), LocalError> {
    tracing::warn!(
        "the server's data was restored alone and is accepted: newer acknowledged writes are given up"
    );
    // A start before this one may have ended early: the catalog is no longer what is to be made.
    if catalog::set_aside(local)?.is_empty() {
        let changes: Vec<Change> =
            catalog::all(local)?.iter().map(|record| catalog::keep_aside(local, record)).collect();
        local.apply(&changes, Durability::Durable)?;
    }
    local.forget(&[INTENTS, COUNTERS, COUNTS], commits)
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// A collection with the documents that the server has of it and no index, so recorded.
    pub(super) async fn as_on_server(
        &self,
        mut record: CollectionRecord,
    ) -> Result<CollectionRecord, OpenError> {
        let indexes = std::mem::take(&mut record.indexes);
        let mut steps: Vec<Step> =
            indexes.iter().flat_map(|index| index.parts.iter().filter_map(index::drop_step)).collect();
        let count = documents::Request::Count { collection: record.id };
        match Channel::<documents::Documents>::call(&*self.channel, count).await {
            Ok(_) => {}
            Err(ChannelError::Refused(Refusal::UnknownCollection)) => {
                tracing::warn!(
                    collection = %format_args!("{}.{}", record.database, record.collection),
                    "the server's data is from before this collection was made: it is empty now"
                );
                let collection = record.id;
                steps.push(Step::Documents(documents::Change::CreateCollection { collection }));
            }
            Err(failed) => return Err(OpenError::Restore(failed.to_string())),
        }
        let mut changes = vec![catalog::record(&self.local, &record)];
        changes.extend(indexes.iter().filter_map(|index| self.remove_text(index)));
        let performed: Result<(), WriteError> = self.intents.perform(&*self.channel, steps, changes).await;
        performed?;
        Ok(record)
    }

    /// Makes the indexes that were recorded from the documents that the server has. Nobody else uses the engine yet.
    pub(super) async fn make_indexes_again(&self) -> Result<(), OpenError> {
        let failed = |error: ServiceError| OpenError::Restore(error.message);
        let recorded = catalog::set_aside(&self.local)?;
        let mut indexes = 0_usize;
        for record in &recorded {
            let Some(collection) = self.collection(&record.namespace()) else { continue };
            for index in record.indexes.iter().filter(|index| index.ready) {
                let request = index.request()?;
                let name = request.name.clone();
                let physical = index.parts.iter().map(|part| part.physical.clone()).collect();
                match self.create_index(&collection, request, physical).await {
                    Ok(()) => indexes += 1,
                    Err(error) if error.fault == Fault::DuplicateKey => tracing::error!(
                        collection = %format_args!("{}.{}", record.database, record.collection),
                        index = name,
                        "the server's documents are from before values of this unique index were unique: it is not made"
                    ),
                    Err(error) => return Err(failed(error)),
                }
            }
        }
        let forgotten = recorded.iter().map(|record| catalog::forget_aside(&self.local, &record.namespace()));
        let done: Vec<Change> = forgotten.chain([restore::dealt_with(&self.local)]).collect();
        self.local.apply(&done, Durability::Durable)?;
        tracing::warn!(indexes, collections = recorded.len(), "the server's data is accepted");
        Ok(())
    }
}
