//! Making and dropping collections and indexes.

use super::apply::COUNTERS;
use super::catalog::{self, CollectionRecord, IndexPartRecord, IndexRecord};
use super::channel::ServerChannel;
use super::collection::Collection;
use super::declared;
use super::index::{self, LiveIndex};
use super::intents::WriteError;
use super::local::{Change, LocalError};
use super::{OpenError, Shared, error, facts};
use arras_keys::Key;
use arras_planner::physical::PhysicalIndex;
use arras_planner::request::normalised;
use arras_planner::schema::TEXT_INDEX;
use arras_planner::text;
use arras_protocol::write::Step;
use arras_protocol::{CollectionId, IndexId, documents};
use arras_schemes::random::Randomness;
use arras_service::ID_INDEX;
use arras_service::interrupt::{Interrupt, Reason};
use arras_service::store::{IndexDefinition, Namespace};
use arras_service::{Fault, ServiceError};
use arras_storage::{Durability, Storage};
use bson::doc;
use rand::Rng;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Most indexes of a collection, the one on `_id` included.
const INDEXES_MAX: usize = 64;

fn too_many_indexes(ns: &Namespace, request: &IndexDefinition) -> ServiceError {
    let message = format!(
        "add index fails, too many indexes for {}.{} key:{}",
        ns.database, ns.collection, request.key
    );
    error::of(Fault::CannotCreateIndex, message)
}

fn random_id(random: &Randomness) -> [u8; 8] {
    let mut id = [0; 8];
    random.rng().fill_bytes(&mut id);
    id
}

fn opening(error: OpenError) -> ServiceError {
    match error {
        OpenError::Index(error) => error::index(error),
        other => error::of(Fault::Internal, other.to_string()),
    }
}

/// The indexes as they are listed, the one on `_id` first. Every collection has that, as documents are stored by
/// their `_id`; a range index gives it an order besides, if somebody asked for one.
pub(super) fn listed(indexes: &[Arc<LiveIndex>]) -> Vec<IndexDefinition> {
    let (of_id, others): (Vec<_>, Vec<_>) =
        indexes.iter().map(|index| index.request.clone()).partition(|request| request.name == ID_INDEX);
    let on_id = of_id.into_iter().next().unwrap_or_else(|| IndexDefinition {
        name: ID_INDEX.into(),
        key: doc! { "_id": 1 },
        unique: false,
        sparse: false,
        options: bson::Document::new(),
    });
    [on_id].into_iter().chain(others).collect()
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// The collection, made if it is not there, unless what needs it is to end before it has come to that.
    pub(super) async fn ensure_collection(
        &self,
        ns: &Namespace,
        interrupt: &Interrupt,
    ) -> Result<Arc<Collection>, ServiceError> {
        if let Some(collection) = self.collection(ns) {
            return Ok(collection);
        }
        let _turn = interrupt.during(async { Ok(self.definitions.of(ns).await) }).await?;
        match self.collection(ns) {
            Some(collection) => Ok(collection),
            None => self.make_collection(ns, interrupt).await.map_err(error::only_prepared),
        }
    }

    /// Makes a collection; error 48 if it exists.
    pub(super) async fn create_collection(&self, ns: &Namespace) -> Result<(), ServiceError> {
        let _turn = self.definitions.of(ns).await;
        if self.collection(ns).is_some() {
            let name = format!("{}.{}", ns.database, ns.collection);
            return Err(error::of(Fault::NamespaceExists, format!("Collection {name} already exists.")));
        }
        self.make_collection(ns, &Interrupt::default()).await.map(drop)
    }

    /// Makes a collection with the indexes its schema declares. The caller has its turn.
    async fn make_collection(
        &self,
        ns: &Namespace,
        interrupt: &Interrupt,
    ) -> Result<Arc<Collection>, ServiceError> {
        let _name = interrupt.during(async { Ok(self.definitions.names().await) }).await?;
        self.check_case(ns)?;
        let (key_version, root) = self.keyring.current();
        let id = CollectionId(random_id(&self.settings.random));
        let mut record = CollectionRecord {
            database: ns.database.clone(),
            collection: ns.collection.clone(),
            id,
            key_version,
            indexes: Vec::new(),
        };
        let mut steps = vec![Step::Documents(documents::Change::CreateCollection { collection: id })];
        if let Some(schema) = self.settings.schema.collection(&ns.database, &ns.collection) {
            for physical in arras_planner::indexes::physical_indexes(schema) {
                let request = declared::request(&physical);
                let part = self.new_part(physical, false);
                steps.extend(
                    index::create_steps::<C>(&part, root, self.settings.range, &self.settings.random)
                        .map_err(error::index)?,
                );
                let mut index = IndexRecord::new(&request, vec![part]);
                index.ready = true;
                record.indexes.push(index);
            }
            record.indexes.extend(self.text_of_new_collection(ns).await?);
        }
        let changes = vec![catalog::record(&self.local, &record)];
        if let Err(failed) = self.intents.perform(&*self.channel, steps, changes).await {
            if failed.nothing_applied() {
                self.record_again(catalog::forget(&self.local, ns))?;
            }
            return Err(error::write(failed));
        }
        let collection = self.load(&record).await.map_err(opening)?;
        self.register(Arc::clone(&collection));
        Ok(collection)
    }

    /// Databases do not differ by case alone: MongoDB's file systems may not tell them apart.
    fn check_case(&self, ns: &Namespace) -> Result<(), ServiceError> {
        let wanted = &ns.database;
        let collections = self.all_collections();
        let mut names = collections.iter().map(|collection| &collection.ns.database);
        match names.find(|name| *name != wanted && name.to_lowercase() == wanted.to_lowercase()) {
            Some(there) => {
                let message = format!(
                    "db already exists with different case already have: [{there}] trying to create [{wanted}]"
                );
                Err(error::of(Fault::DatabaseDiffersInCase, message))
            }
            None => Ok(()),
        }
    }

    /// Takes back what a definition recorded that the server refused.
    fn record_again(&self, change: Change) -> Result<(), ServiceError> {
        self.local.apply(&[change], Durability::Durable).map_err(error::local)
    }

    pub(super) fn new_part(&self, physical: PhysicalIndex, sparse: bool) -> IndexPartRecord {
        let (id, bucket_factor) =
            (IndexId(random_id(&self.settings.random)), self.settings.range.bucket_factor);
        IndexPartRecord { id, physical, sparse, bucket_factor }
    }

    /// Drops a collection; false if there is none.
    pub(super) async fn drop_collection(&self, ns: &Namespace) -> Result<bool, ServiceError> {
        let _turn = self.definitions.of(ns).await;
        let Some(collection) = self.collection(ns) else {
            return Ok(false);
        };
        let _no_writer = self.writer(&collection).await?;
        let _dropping = self.definitions.dropping().await;
        // Until it is known whether it is gone, nobody takes a name that differs from its database's by case.
        let _name = self.definitions.names().await;
        let record = collection.record();
        let parts = || record.indexes.iter().flat_map(|index| &index.parts);
        let mut steps: Vec<Step> = parts().filter_map(index::drop_step).collect();
        steps.push(Step::Documents(documents::Change::DropCollection { collection: record.id }));
        self.unregister(ns);
        let mut changes = vec![catalog::forget(&self.local, ns)];
        changes.extend(record.indexes.iter().filter_map(|index| self.remove_text(index)));
        let dropped = self.intents.perform(&*self.channel, steps, changes).await;
        self.sweep_texts();
        if let Err(failed) = dropped {
            if failed.nothing_applied() {
                collection.unrecorded.store(true, Ordering::SeqCst);
                self.register(Arc::clone(&collection));
                self.record_again(catalog::record(&self.local, &record))?;
                collection.unrecorded.store(false, Ordering::SeqCst);
            }
            return Err(error::write(failed));
        }
        for part in parts() {
            self.forget_counters(part.id)?;
        }
        Ok(true)
    }

    pub(super) fn forget_counters(&self, index: IndexId) -> Result<(), ServiceError> {
        self.local.remove_as_named(COUNTERS, index.as_bytes()).map_err(error::local)
    }

    /// Forgets the records of values of indexes that are gone: an earlier start may have ended, or not have known the
    /// outcome of their drop, before it did.
    pub(super) fn sweep_counters(&self) -> Result<(), LocalError> {
        let collections = self.all_collections();
        let live: HashSet<IndexId> =
            collections.iter().flat_map(|collection| collection.parts()).map(|part| part.id).collect();
        for beginning in self.local.beginnings_as_named(COUNTERS, IndexId::BYTES)? {
            let index = beginning.as_slice().try_into().map(IndexId);
            if !index.is_ok_and(|index| live.contains(&index)) {
                self.local.remove_as_named(COUNTERS, &beginning)?;
            }
        }
        Ok(())
    }

    /// Makes indexes and fills them; how many there were before and are now.
    pub(super) async fn create_indexes(
        &self,
        ns: &Namespace,
        requests: Vec<IndexDefinition>,
        interrupt: Interrupt,
    ) -> Result<(usize, usize), ServiceError> {
        let requests = requests.into_iter().map(normalised).collect::<Result<Vec<_>, _>>()?;
        requests.iter().try_for_each(|request| self.require_servable(ns, request))?;
        agree(&requests)?;
        let collection = self.ensure_collection(ns, &interrupt).await?;
        if are_there(&collection, &requests)? {
            let number = listed(&collection.indexes()).len();
            return Ok((number, number));
        }
        let _turn = interrupt.during(async { Ok(self.definitions.of(ns).await) }).await?;
        let _ends_by = self.builds.end_by(ns, interrupt);
        let before = listed(&collection.indexes()).len();
        for request in requests {
            let wanted = declared::wanted(ns, &request, &self.settings.schema);
            if exists(&collection, &request)?.is_some() {
                declared::kept_protocol(&collection, &wanted.unwrap_or_default())?;
            } else {
                let wanted = wanted?;
                declared::kept_protocol(&collection, &wanted)?;
                if request.name == ID_INDEX && wanted.is_empty() {
                    continue; // for equality alone: documents are stored by it
                }
                let wanted = declared::missing(&collection, wanted, request.sparse);
                if listed(&collection.indexes()).len() >= INDEXES_MAX {
                    return Err(too_many_indexes(ns, &request));
                }
                self.create_index(&collection, request, wanted).await?;
            }
        }
        Ok((before, listed(&collection.indexes()).len()))
    }

    /// That an index can be made: said of all that are asked for before the collection, or the first of them, is made.
    fn require_servable(&self, ns: &Namespace, request: &IndexDefinition) -> Result<(), ServiceError> {
        let wanted = declared::wanted(ns, request, &self.settings.schema);
        let Some(collection) = self.collection(ns) else {
            return wanted.map(drop).map_err(ServiceError::from);
        };
        let wanted =
            if exists(&collection, request)?.is_some() { wanted.unwrap_or_default() } else { wanted? };
        declared::kept_protocol(&collection, &wanted)
    }

    /// Makes one index of `physical` ones, which may be none: recorded as unfinished, filled with the collection's
    /// documents, recorded as ready. The caller has the collection's turn.
    pub(super) async fn create_index(
        &self,
        collection: &Arc<Collection>,
        request: IndexDefinition,
        physical: Vec<PhysicalIndex>,
    ) -> Result<(), ServiceError> {
        let _place = self.builds.place(&collection.ns).await?;
        let text = self.new_text(collection, &request).await?;
        let _no_writer = match self.writer_unless(collection, &self.builds.end(&collection.ns)).await {
            // As a build does, it goes on without the client that asked for it.
            Err(error) if error.fault == Fault::Interrupted(Reason::Gone) => self.writer(collection).await?,
            writer => writer?,
        };
        // Only now: a writer records facts about the other indexes in it.
        let mut record = collection.record();
        let root = self.keyring.root(record.key_version).ok_or_else(|| {
            error::of(Fault::Internal, OpenError::KeyVersion(record.key_version).to_string())
        })?;
        let part = |index| self.new_part(index, request.sparse);
        let parts: Vec<IndexPartRecord> = physical.into_iter().map(part).collect();
        let mut steps = Vec::new();
        for part in &parts {
            steps.extend(
                index::create_steps::<C>(part, root, self.settings.range, &self.settings.random)
                    .map_err(error::index)?,
            );
        }
        let index = IndexRecord::new(&request, parts).with_text(text);
        record.indexes.push(index.clone());
        let changes = vec![catalog::record(&self.local, &record)];
        let made = self.intents.perform(&*self.channel, steps, changes).await.map_err(|error| match error {
            WriteError::InDoubt(why) => {
                let message = format!("the server cannot be reached ({why}); the index is not made");
                error::of(Fault::Unreachable, message)
            }
            other => error::write(other),
        });
        let opened = match made {
            Ok(()) => self.open_index(&index, request, root).await,
            Err(failed) => Err(failed),
        };
        let live = match opened {
            Ok(live) => live,
            Err(failed) => {
                // Nothing lists it. If the server has it, or comes to have it, it goes again.
                self.remove_index(collection, &index).await.or_else(in_doubt_is_done)?;
                return Err(failed);
            }
        };
        self.fill_and_record(collection, &index, live).await
    }

    /// Takes up an index that is made.
    async fn open_index(
        &self,
        index: &IndexRecord,
        request: IndexDefinition,
        root: &Key,
    ) -> Result<LiveIndex, ServiceError> {
        let text = self.open_text(index, &request).map_err(error::local)?;
        let opened = self.opening().open(index, request, root).await.map_err(error::index)?;
        Ok(LiveIndex { text, ..opened })
    }

    /// Fills an index that is listed.
    async fn fill_all(&self, collection: &Arc<Collection>, index: &IndexRecord) -> Result<(), ServiceError> {
        let filling: Vec<IndexId> = index.parts.iter().map(|part| part.id).collect();
        // One that others stand for has nothing of its own to fill.
        if !filling.is_empty() {
            self.fill(collection, &filling).await?;
        }
        match collection.indexes().last().and_then(|live| live.text.clone()) {
            Some(text) => self.fill_text(collection, &text).await,
            None => Ok(()),
        }
    }

    /// Lists an index that is made, fills it, and records that it is ready; takes it back if it cannot be.
    async fn fill_and_record(
        &self,
        collection: &Arc<Collection>,
        index: &IndexRecord,
        live: LiveIndex,
    ) -> Result<(), ServiceError> {
        let others = collection.indexes();
        let with = |live: LiveIndex| others.iter().cloned().chain([Arc::new(live)]).collect::<Vec<_>>();
        collection.set_indexes(with(live));
        if let Err(error) = self.fill_all(collection, index).await {
            collection.set_indexes(others.to_vec());
            self.remove_index(collection, index).await.or_else(in_doubt_is_done)?;
            return Err(error);
        }
        let live = collection.indexes();
        let set_ready = |ready| {
            if let Some(index) = live.last() {
                index.ready.store(ready, Ordering::SeqCst);
            }
        };
        set_ready(true);
        let mut changes = vec![catalog::record(&self.local, &collection.record())];
        let parts = live.last().map(|index| index.parts.as_slice()).unwrap_or_default();
        changes.extend(parts.iter().map(|part| facts::record(&self.local, part.id, part.facts.now())));
        match self.intents.perform(&*self.channel, Vec::new(), changes).await {
            Ok(()) => Ok(()),
            Err(failed) if failed.is_recorded() => Err(error::write(failed)),
            Err(failed) => {
                // The next start would drop it as unfinished, and nobody may rely on it until then.
                set_ready(false);
                collection.set_indexes(others.to_vec());
                self.remove_index(collection, index).await.or_else(in_doubt_is_done)?;
                Err(error::write(failed))
            }
        }
    }

    /// Drops an index by name.
    pub(super) async fn drop_index(&self, ns: &Namespace, name: &str) -> Result<(), ServiceError> {
        if name == ID_INDEX {
            return Err(error::of(Fault::InvalidOptions, "cannot drop _id index"));
        }
        let _turn = self.definitions.of(ns).await;
        self.drop_listed(ns, name).await
    }

    /// Drops all indexes, the order of `_id` included.
    pub(super) async fn drop_all_indexes(&self, ns: &Namespace) -> Result<(), ServiceError> {
        let _turn = self.definitions.of(ns).await;
        let collection = self.existing(ns)?;
        let names: Vec<String> =
            collection.indexes().iter().map(|index| index.request.name.clone()).collect();
        for name in names {
            self.drop_listed(ns, &name).await?;
        }
        Ok(())
    }

    fn existing(&self, ns: &Namespace) -> Result<Arc<Collection>, ServiceError> {
        self.collection(ns).ok_or_else(|| {
            let name = format!("{}.{}", ns.database, ns.collection);
            error::of(Fault::NamespaceNotFound, format!("ns not found {name}"))
        })
    }

    /// Drops an index of the collection's own list. The caller has the collection's turn.
    pub(super) async fn drop_listed(&self, ns: &Namespace, name: &str) -> Result<(), ServiceError> {
        let no_such = || error::of(Fault::IndexNotFound, format!("index not found with name [{name}]"));
        let collection = self.existing(ns)?;
        let _no_writer = self.writer(&collection).await?;
        let _dropping = self.definitions.dropping().await;
        let record = collection.record();
        let indexes = collection.indexes();
        let position = indexes.iter().position(|index| index.request.name == name).ok_or_else(no_such)?;
        let mut index = record.indexes.get(position).ok_or_else(no_such)?.clone();
        let left = declared::without(&collection, position, &self.settings.schema);
        let kept = |id| left.iter().flat_map(|index| &index.parts).any(|part| part.id == id);
        index.parts.retain(|part| !kept(part.id));
        collection.set_indexes(left);
        let removed = self.remove_index(&collection, &index).await;
        if let Err(NotRemoved { nothing_applied: true, .. }) = &removed {
            // The server has it, and the record may: unless writes keep it, a later start reads what is no longer so.
            collection.set_indexes(indexes.to_vec());
            let listed = self.record_again(catalog::record(&self.local, &collection.record()));
            collection.unrecorded.store(listed.is_err(), Ordering::SeqCst);
        }
        removed.map_err(|failed| failed.error)
    }

    /// Removes an index that the collection no longer lists.
    async fn remove_index(
        &self,
        collection: &Arc<Collection>,
        index: &IndexRecord,
    ) -> Result<(), NotRemoved> {
        let steps: Vec<Step> = index.parts.iter().filter_map(index::drop_step).collect();
        let mut changes = vec![catalog::record(&self.local, &collection.record())];
        changes.extend(self.remove_text(index));
        collection.unrecorded.store(true, Ordering::SeqCst);
        // What is in doubt may be for this index: it goes first.
        let goes_after = self.intents.in_doubt();
        let removed = if goes_after {
            self.intents.record(&steps, changes).await
        } else {
            self.intents.perform(&*self.channel, steps, changes).await
        };
        let is_recorded = removed.as_ref().err().is_none_or(WriteError::is_recorded);
        collection.unrecorded.store(!is_recorded, Ordering::SeqCst);
        // It waits until no drop is under way: whether the index is listed again shows then.
        self.sweep_texts();
        removed.map_err(|failed| NotRemoved {
            nothing_applied: failed.nothing_applied(),
            error: error::write(failed),
        })?;
        let late = |error| NotRemoved { nothing_applied: false, error };
        if goes_after {
            self.settled().await.map_err(|error| late(error::recorded(error)))?;
        }
        index.parts.iter().try_for_each(|part| self.forget_counters(part.id)).map_err(late)
    }
}

/// Why an index is not removed.
struct NotRemoved {
    error: ServiceError,
    /// The server has it still, and nothing that is recorded will take it away.
    nothing_applied: bool,
}

/// A removal that is recorded is as good as done: nothing lists the index, and the server will follow.
fn in_doubt_is_done(NotRemoved { error, .. }: NotRemoved) -> Result<(), ServiceError> {
    if error.fault == Fault::InDoubt { Ok(()) } else { Err(error) }
}

/// Are all that are asked for there, and filled? Nobody needs wait for a build of another then.
fn are_there(collection: &Collection, requests: &[IndexDefinition]) -> Result<bool, ServiceError> {
    for request in requests {
        match exists(collection, request)? {
            Some(index) if index.ready.load(Ordering::SeqCst) => {}
            Some(_) | None => return Ok(false),
        }
    }
    Ok(true)
}

/// The same index, if it is there; an error if one of the same name or keys differs.
fn exists(
    collection: &Collection,
    request: &IndexDefinition,
) -> Result<Option<Arc<LiveIndex>>, ServiceError> {
    let indexes = collection.indexes();
    // What the schema has made beside is no index of the application's.
    let standing =
        indexes.iter().filter(|index| !declared::is_declared(index) || index.request.name == request.name);
    let standing: Vec<&Arc<LiveIndex>> = standing.collect();
    let known: Vec<IndexDefinition> =
        standing.iter().map(|index| as_asked(&index.request, request)).collect();
    let position = request.found_among(&known.iter().collect::<Vec<_>>())?;
    Ok(position.and_then(|position| standing.get(position)).map(|index| Arc::clone(index)))
}

/// The text index that the schema has made is the application's, too, whatever that calls it.
fn as_asked(known: &IndexDefinition, request: &IndexDefinition) -> IndexDefinition {
    let is_schemas = text::is_text(request) && known.name == TEXT_INDEX && text::is_text(known);
    let name = if is_schemas { &request.name } else { &known.name };
    IndexDefinition { name: name.clone(), ..known.clone() }
}

/// That indexes that are asked for together do not stand in each other's way.
fn agree(requests: &[IndexDefinition]) -> Result<(), ServiceError> {
    for (position, request) in requests.iter().enumerate() {
        let before: Vec<_> = requests.iter().take(position).collect();
        request.found_among(&before)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
