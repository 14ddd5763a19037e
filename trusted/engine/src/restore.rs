//! Restored data that an administrator declares: what must not be used twice is made anew.
//!
//! Both sides, from one backup, are dealt with here; the server's alone in `accepted`.
//!
//! Since the backup was taken the server may have seen more than the restored state remembers. Counters of equality
//! indexes would be handed out again, and equal values of then and now would meet under one label. So every equality
//! index is made anew under another name (and so other keys), filled, and put in the old one's place in one write. Text indexes,
//! which are kept elsewhere, are dropped and made again.
//! Circuits of range indexes need nothing: their labels depend on salt drawn at each start (`arx_range::epoch`).
//! Epochs jump, so that no write has the name of one that is forgotten.

use super::catalog::{IndexPartRecord, IndexRecord};
use super::channel::ServerChannel;
use super::collection::Collection;
use super::index::{self, IndexPart, LiveIndex};
use super::local::{Change, LocalError, LocalStore};
use super::{OpenError, STATE, Shared, catalog, error};
use arras_protocol::IndexId;
use arras_schemes::contract::Serves;
use arras_service::{Fault, ServiceError};
use arras_storage::{Durability, Storage};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Set by [`declare`], until everything is made anew.
const RESTORED: &[u8] = b"restored";
/// More starts than any proxy has between a backup and its restoring.
pub(super) const EPOCHS_SKIPPED: u64 = 1 << 32;
/// Starts passed over by a declared restore: more than there were since the backup. 4,096 restores are left of their 24 bits.
pub(super) const STARTS_SKIPPED: u64 = 1 << 12;

/// What was restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Restored {
    /// Both sides, from one backup.
    BothSides,
    /// The server's side alone: what it lacks is given up.
    ServerAlone,
}

/// Notes in the proxy's own store what was restored; the next start makes anew what must not be used twice, and, where
/// it is the server's side alone, goes by what the server has.
///
/// # Errors
/// [`LocalError`] if it cannot be noted.
pub fn declare<S: Storage>(local: &LocalStore<S>, restored: Restored) -> Result<(), LocalError> {
    local.apply(&[local.set(STATE, RESTORED, &restored)], Durability::Durable)
}

/// What was declared that no start has dealt with.
pub(super) fn declared<S: Storage>(local: &LocalStore<S>) -> Result<Option<Restored>, LocalError> {
    local.get(STATE, RESTORED)
}

/// The change that says that a start has dealt with it.
pub(super) fn dealt_with<S: Storage>(local: &LocalStore<S>) -> Change {
    local.unset(STATE, RESTORED)
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Makes every equality index anew. Nobody else uses the engine yet. If this ends early, the next start does it
    /// again.
    pub(super) async fn make_anew(&self) -> Result<(), OpenError> {
        tracing::warn!("a restore was declared: every equality index is made anew before anything is served");
        let failed = |error: ServiceError| OpenError::Restore(error.message);
        if let Some(service) = &self.settings.text {
            // Its indexes are all made anew.
            self.forget_texts(&**service).map_err(failed)?;
        }
        let (mut indexes, collections) = (0, self.all_collections());
        for collection in &collections {
            for position in 0..collection.indexes().len() {
                indexes += usize::from(self.make_index_anew(collection, position).await.map_err(failed)?);
            }
            indexes += usize::from(self.make_text_anew(collection).await.map_err(failed)?);
        }
        self.local.apply(&[dealt_with(&self.local)], Durability::Durable)?;
        tracing::warn!(indexes, collections = collections.len(), "the restore is complete");
        Ok(())
    }

    /// Makes the collection's text index anew, as its service may have seen more, too; false if there is none.
    async fn make_text_anew(&self, collection: &Arc<Collection>) -> Result<bool, ServiceError> {
        let Some(request) =
            collection.indexes().iter().find_map(|index| index.text.is_some().then(|| index.request.clone()))
        else {
            return Ok(false);
        };
        let name = request.name.clone();
        self.drop_listed(&collection.ns, &name).await?;
        self.create_index(collection, request, Vec::new()).await.map_err(|mut error| {
            error.message.push_str(&format!("; text index '{name}' is to be created again"));
            error
        })?;
        Ok(true)
    }

    /// Makes the equality parts of one index anew; false if it has none.
    async fn make_index_anew(
        &self,
        collection: &Arc<Collection>,
        position: usize,
    ) -> Result<bool, ServiceError> {
        let _one_writer = self.writer(collection).await?;
        let before = collection.indexes();
        let Some(old) = before.get(position) else { return Ok(false) };
        let replaced: Vec<IndexPartRecord> = parts_to_replace(&collection.record().indexes, position, old);
        if replaced.is_empty() {
            return Ok(false);
        }
        tracing::info!(collection = collection.id_in_log(), index = old.request.name, "making it anew");
        // Beside the old one, as an index that is being filled: a start that finds it unfinished drops it.
        let parts: Vec<IndexPartRecord> =
            replaced.iter().map(|part| self.new_part(part.physical.clone(), part.sparse)).collect();
        let fresh = IndexRecord::new(&old.request, parts.clone());
        let root = self.keyring.root(collection.record().key_version).ok_or_else(|| {
            error::of(Fault::Internal, OpenError::KeyVersion(collection.record().key_version).to_string())
        })?;
        let mut steps = Vec::new();
        for part in &parts {
            steps.extend(
                index::create_steps::<C>(part, root, self.settings.range, &self.settings.random)
                    .map_err(error::index)?,
            );
        }
        let mut record = collection.record();
        record.indexes.push(fresh.clone());
        self.perform(steps, vec![catalog::record(&self.local, &record)]).await?;
        let request = old.request.clone();
        let opened = self.opening().open(&fresh, request, root).await;
        let filling = Arc::new(opened.map_err(error::index)?);
        collection.set_indexes(before.iter().cloned().chain([Arc::clone(&filling)]).collect());
        let names: Vec<IndexId> = parts.iter().map(|part| part.id).collect();
        self.fill(collection, &names).await?;
        // In the old one's place, and the old one gone, in one write.
        let mut after: Vec<Arc<LiveIndex>> = before.to_vec();
        if let Some(place) = after.get_mut(position) {
            *place = Arc::new(in_place(old, &filling));
        }
        collection.set_indexes(after);
        let steps = replaced.iter().filter_map(index::drop_step).collect();
        self.perform(steps, vec![catalog::record(&self.local, &collection.record())]).await?;
        for part in &replaced {
            self.forget_counters(part.id)?;
        }
        Ok(true)
    }

    async fn perform(
        &self,
        steps: Vec<arras_protocol::write::Step>,
        changes: Vec<Change>,
    ) -> Result<(), ServiceError> {
        self.intents.perform(&*self.channel, steps, changes).await.map_err(error::write)
    }
}

/// Records of the equality parts of an index.
fn parts_to_replace(records: &[IndexRecord], position: usize, live: &LiveIndex) -> Vec<IndexPartRecord> {
    let parts = records.get(position).map(|record| record.parts.as_slice()).unwrap_or_default();
    let is_eq = |part: &Arc<IndexPart>| part.half.serves() == Serves::Equality;
    parts.iter().zip(&live.parts).filter(|(_, part)| is_eq(part)).map(|(record, _)| record.clone()).collect()
}

/// The index `old` with its equality parts replaced, in order, by those of `fresh`.
fn in_place(old: &LiveIndex, fresh: &LiveIndex) -> LiveIndex {
    let mut made = fresh.parts.iter();
    let replaced = |part: &Arc<IndexPart>| match part.half.serves() {
        Serves::Equality => Arc::clone(made.next().unwrap_or(part)),
        Serves::Unique | Serves::Range => Arc::clone(part),
    };
    LiveIndex {
        request: old.request.clone(),
        parts: old.parts.iter().map(replaced).collect(),
        text: old.text.clone(),
        ready: AtomicBool::new(true),
    }
}
