//! Text indexes. Their entries are kept by a service of boolean search, apart from the server: what a write changes of them the
//! service is told behind the write, and no result depends on when.
//!
//! *Untold rows.* Before a write is sent, the rows whose text it changes are recorded as *untold*, in the commit that records the
//! intent. When the write is applied the service is told, and the record goes. Whatever crashes in between, the next start has the
//! record, and the next writer of the collection tells the service what those documents are then (`Shared::mend_text`):
//! a change that is told twice changes nothing.
//!
//! *Searches.* What the service finds and all untold rows are candidates, and the whole filter is checked on each document
//! (`matches`). So an entry that is behind gives no wrong result, and none is missed.
//!
//! *Without the service* searches fail, and so do writes of a collection with a text index before anything of them is
//! recorded. A write that is recorded when the service goes away is acknowledged: its rows stay untold.

pub(super) mod declared;
mod rows;

pub(super) use rows::TextRows;

use super::catalog::{IndexRecord, TextRecord};
use super::channel::ServerChannel;
use super::collection::Collection;
use super::local::{Change, LocalError};
use super::mutations::Mutation;
use super::{STATE, Shared, error};
use arras_documents::filter::Filter;
use arras_documents::text::{TextCondition, TextMatch};
use arras_planner::text::{self, TextDefinition};
use arras_protocol::RowId;
use arras_service::store::IndexDefinition;
use arras_service::{Fault, ServiceError};
use arras_storage::{Durability, Storage, Table};
use bson::Document;
use rand::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::mpsc;

/// Index and row to nothing: the service is to be told of the document.
pub(super) const UNTOLD: Table = Table("text.untold");
/// Indexes that are gone, and whose entries the service is to remove.
const REMOVED: Table = Table("text.removed");
/// The revision that the service has acknowledged last.
const ACKNOWLEDGED: &[u8] = b"text revision";
/// Numbers of revisions that changes of earlier starts were to bring are below.
const ISSUED: &[u8] = b"text revisions issued";
/// More changes than one start makes.
const PER_START: u64 = 1 << 32;
/// Between two attempts to have entries of dropped indexes removed.
const PAUSE: Duration = Duration::from_secs(5);

/// Where the revisions of a start begin: its changes bring greater ones than those of earlier starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevisionsOfStart {
    /// Numbers below are of this start and of earlier ones: recorded durably before the first change.
    pub issued: u64,
    /// What is expected of the service from then on, as [`TextService::expect`] takes it.
    pub first: u128,
}

impl RevisionsOfStart {
    /// Of what is recorded: the revision that the service has acknowledged last, and the numbers that earlier starts may have used.
    /// `issuer` is random; it tells this start from one of a proxy on a copy of the record.
    #[must_use]
    pub fn behind(acknowledged: u128, issued: u64, issuer: u64) -> Self {
        let next = issued.max((acknowledged >> 64) as u64).saturating_add(PER_START);
        Self { issued: next, first: u128::from(next - PER_START) << 64 | u128::from(issuer) }
    }
}

/// What a text index is called at the service.
pub type TextIndexId = [u8; 8];

/// What the service will have answered.
pub type Answer<'s, T> = Pin<Box<dyn Future<Output = Result<T, ServiceError>> + Send + 's>>;

/// Keeps entries of text indexes, and finds rows by them.
pub trait TextService: fmt::Debug + Send + Sync {
    /// Takes up an index; nothing is asked of the service.
    ///
    /// # Errors
    /// [`Fault::CannotCreateIndex`] for a language that there is not.
    fn index(&self, id: TextIndexId, definition: &TextDefinition)
    -> Result<Arc<dyn TextIndex>, ServiceError>;

    /// The service has acknowledged this revision, as an earlier start has recorded: it must not be behind it. 0: wherever it is is
    /// right. A revision is a number that grows with every change (64 bits), and in the lower 64 who issued it. Those that changes are
    /// to bring from now on have greater numbers than `issued`, and its lower half.
    fn expect(&self, acknowledged: u128, issued: u128);

    /// The revision that it has acknowledged last, or was found to be at.
    fn acknowledged(&self) -> u128;

    /// Returns if the service can be reached, or could be a moment ago. A new connection has what was acknowledged; one that is kept is
    /// not asked.
    fn ready(&self) -> Answer<'_, ()>;

    /// Removes all entries of an index, which may be none.
    fn remove(&self, id: TextIndexId) -> Answer<'_, ()>;
}

/// One text index at its service.
pub trait TextIndex: fmt::Debug + Send + Sync {
    /// Of how texts become keywords: entries made under another are of no use.
    fn fingerprint(&self) -> [u8; 8];

    /// True if the index has other entries of the new document than of the old.
    fn differs(&self, old: Option<&Document>, new: Option<&Document>) -> bool;

    /// Refuses a document that cannot be indexed.
    ///
    /// # Errors
    /// [`Fault::Language`] as MongoDB, of the language that the document names.
    fn check(&self, document: &Document) -> Result<(), ServiceError>;

    /// What a condition means in this index.
    ///
    /// # Errors
    /// [`Fault::BadValue`] for what the service cannot be asked.
    fn meaning(&self, condition: &TextCondition) -> Result<Arc<dyn TextMatch>, ServiceError>;

    /// Returns if the service can be reached, or could be a moment ago. A new connection has what was acknowledged; one that is kept is
    /// not asked.
    fn ready(&self) -> Answer<'_, ()>;

    /// Replaces or, where there is none, removes what the index has of documents; durable when it returns.
    fn update(&self, changes: Vec<(RowId, Option<Document>)>) -> Answer<'_, ()>;

    /// Rows of at least the documents that match, each once, as the index has them.
    fn search(&self, condition: TextCondition) -> Answer<'_, Vec<RowId>>;
}

/// A text index of a collection.
pub struct LiveText {
    pub(super) id: TextIndexId,
    fingerprint: [u8; 8],
    /// Why there is none: this proxy has no service, or another analysis than the index was made by.
    index: Result<Arc<dyn TextIndex>, String>,
    untold: Mutex<BTreeSet<RowId>>,
}

impl LiveText {
    /// The index at its service.
    pub(super) fn index(&self) -> Result<&Arc<dyn TextIndex>, ServiceError> {
        self.index.as_ref().map_err(|why| error::of(Fault::Unreachable, why.clone()))
    }

    /// How it is recorded.
    pub(super) fn record(&self) -> TextRecord {
        TextRecord { id: self.id, fingerprint: self.fingerprint }
    }

    fn untold(&self) -> MutexGuard<'_, BTreeSet<RowId>> {
        // Nothing panics while it is held.
        self.untold.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collection {
    /// Its text index, if it has one that is filled.
    pub(super) fn text(&self) -> Option<Arc<LiveText>> {
        let indexes = self.indexes();
        let filled = indexes.iter().filter(|index| index.ready.load(Ordering::SeqCst));
        filled.filter_map(|index| index.text.clone()).next()
    }
}

/// There is no text index for a `$text`.
pub(super) fn required() -> ServiceError {
    error::of(Fault::IndexNotFound, "text index required for $text query")
}

/// Refuses a `$text` on a collection that does not exist.
pub(super) fn refuse_without_collection(filter: &Filter) -> Result<(), ServiceError> {
    if filter.text().is_some() { Err(required()) } else { Ok(()) }
}

impl<S: Storage, C: ServerChannel> Shared<S, C> {
    /// Has the service expect what it acknowledged, as it is recorded. Revisions of this start have greater numbers than those of earlier
    /// starts, and are others than those of a proxy on a copy of this store.
    pub(super) fn expect_text(&self) -> Result<(), LocalError> {
        let Some(service) = &self.settings.text else { return Ok(()) };
        let mut acknowledged: u128 = self.local.get(STATE, ACKNOWLEDGED)?.unwrap_or(0);
        let issued: u64 = self.local.get(STATE, ISSUED)?.unwrap_or(0);
        let issuer = self.settings.random.rng().next_u64();
        let start = RevisionsOfStart::behind(acknowledged, issued, issuer);
        self.local.apply(&[self.local.set(STATE, ISSUED, &start.issued)], Durability::Durable)?;
        if self.settings.mutations.has(Mutation::TextSetbackNotNoticed) {
            acknowledged = 0;
        }
        service.expect(acknowledged, start.first);
        Ok(())
    }

    /// Says what the `$text` of a filter means in a collection.
    ///
    /// # Errors
    /// 27 if it has no text index.
    pub(super) fn bind_text(&self, collection: &Collection, filter: &Filter) -> Result<(), ServiceError> {
        let Some(condition) = filter.text().filter(|condition| !condition.is_bound()) else {
            return Ok(());
        };
        let text = collection.text().ok_or_else(required)?;
        condition.bind(text.index()?.meaning(condition)?);
        Ok(())
    }

    /// Takes up a recorded text index, and which rows it was not told of.
    pub(super) fn open_text(
        &self,
        record: &IndexRecord,
        request: &IndexDefinition,
    ) -> Result<Option<Arc<LiveText>>, LocalError> {
        let Some(TextRecord { id, fingerprint }) = record.text() else { return Ok(None) };
        let index = self.text_index(id, request).map_err(|error| error.message);
        let index = index.and_then(|index| match fingerprint {
            made if made != index.fingerprint() => Err(format!(
                "text index '{}' was made by a release that finds other words; drop it and create it again",
                request.name
            )),
            _ => Ok(index),
        });
        let mut untold = BTreeSet::new();
        self.local.each_as_named(UNTOLD, &id, &mut |name, ()| {
            untold.extend(name.get(id.len()..).and_then(|row| row.try_into().ok()).map(RowId));
        })?;
        Ok(Some(Arc::new(LiveText { id, fingerprint, index, untold: Mutex::new(untold) })))
    }

    fn text_index(
        &self,
        id: TextIndexId,
        request: &IndexDefinition,
    ) -> Result<Arc<dyn TextIndex>, ServiceError> {
        let service = self.settings.text.as_ref().ok_or_else(|| {
            let message = "text indexes need a host of boolean search: name it under [search] in the proxy's configuration";
            error::of(Fault::CannotCreateIndex, message)
        })?;
        service.index(id, &text::definition(request))
    }

    /// Why a document cannot be in the collection's text index.
    pub(super) fn text_misfit(&self, collection: &Collection, document: &Document) -> Option<ServiceError> {
        collection.text()?.index().ok()?.check(document).err()
    }

    /// The record of a new text index, if a request is for one.
    ///
    /// # Errors
    /// Another text index is there, there is no service, or it cannot be reached: nothing is recorded yet.
    pub(super) async fn new_text(
        &self,
        collection: &Collection,
        request: &IndexDefinition,
    ) -> Result<Option<TextRecord>, ServiceError> {
        if !text::is_text(request) {
            return Ok(None);
        }
        if collection.indexes().iter().any(|index| index.text.is_some()) {
            let message = "only one text index per collection allowed";
            return Err(error::of(Fault::CannotCreateIndex, message));
        }
        self.text_record(request).await.map(Some)
    }

    /// The changes that have an index's entries removed.
    pub(super) fn remove_text(&self, record: &IndexRecord) -> Option<Change> {
        record.text().map(|text| self.local.set(REMOVED, &text.id, &text.id))
    }

    /// Has the entries of dropped indexes removed, when the service can be reached.
    pub(super) fn sweep_texts(&self) {
        // If there is no place, that is wanted already.
        let _ = self.sweeps.try_send(());
    }

    /// Nothing that the service may have lost so far is missed.
    pub(super) fn forget_texts(&self, service: &dyn TextService) -> Result<(), ServiceError> {
        service.expect(0, 0);
        self.record_texts(Vec::new(), Durability::Durable)
    }

    /// Records changes together with the revision that the service has acknowledged. One at a time, so that the last record is of
    /// the last revision.
    fn record_texts(&self, mut changes: Vec<Change>, durability: Durability) -> Result<(), ServiceError> {
        let _one_at_a_time = self.recording_texts.lock().unwrap_or_else(PoisonError::into_inner);
        let acknowledged = self.settings.text.as_ref().map_or(0, |service| service.acknowledged());
        changes.push(self.local.set(STATE, ACKNOWLEDGED, &acknowledged));
        self.local.apply(&changes, durability).map_err(error::local)
    }

    /// The indexes that are dropped. What was to be dropped and is there, as the server refused it, is struck.
    async fn removed_texts(&self) -> Result<Vec<TextIndexId>, ServiceError> {
        let _no_drop_under_way = self.definitions.no_drop().await;
        let removed: Vec<TextIndexId> = self.local.all(REMOVED).map_err(error::local)?;
        // Of each index that is listed, whether the catalog's record lists it, too.
        let mut living: BTreeMap<TextIndexId, bool> = BTreeMap::new();
        for collection in self.all_collections() {
            let is_recorded = !collection.unrecorded.load(Ordering::SeqCst);
            let indexes = collection.indexes();
            let texts = indexes.iter().filter_map(|index| index.text.as_ref());
            living.extend(texts.map(|text| (text.id, is_recorded)));
        }
        let (listed, dropped): (Vec<_>, Vec<_>) = removed.into_iter().partition(|id| living.contains_key(id));
        let recorded = listed.iter().filter(|id| living.get(*id) == Some(&true));
        let struck: Vec<Change> = recorded.map(|id| self.local.unset(REMOVED, id)).collect();
        if !struck.is_empty() {
            self.local.apply(&struck, Durability::Durable).map_err(error::local)?;
        }
        Ok(dropped)
    }

    /// Removes the entries of dropped indexes.
    async fn sweep_once(&self) -> Result<(), ServiceError> {
        let removed = self.removed_texts().await?;
        for id in removed {
            let Some(service) = &self.settings.text else { return Ok(()) };
            service.remove(id).await?;
            self.local.remove_as_named(UNTOLD, &id).map_err(error::local)?;
            self.record_texts(vec![self.local.unset(REMOVED, &id)], Durability::Durable)?;
        }
        Ok(())
    }
}

/// Removes entries of dropped indexes at the start and whenever that is wanted, until the engine is gone.
pub(super) async fn sweep<S: Storage, C: ServerChannel>(
    shared: Weak<Shared<S, C>>,
    mut wanted: mpsc::Receiver<()>,
) {
    while let Some(sweeping) = shared.upgrade() {
        let swept = sweeping.sweep_once().await;
        drop(sweeping);
        if let Err(error) = swept {
            tracing::debug!(%error, "entries of a dropped text index are still there");
            tokio::time::sleep(PAUSE).await;
        } else if wanted.recv().await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_of_a_start_are_greater_than_all_before() {
        let first = RevisionsOfStart::behind(0, 0, 7);
        assert_eq!(first.first, 7, "the first start begins at number 0");
        // Its last change may have been acknowledged, or not recorded as such.
        let last = u128::from(first.issued - 1) << 64 | 7;
        for acknowledged in [0, last] {
            let second = RevisionsOfStart::behind(acknowledged, first.issued, 9);
            assert!(second.first > last);
            assert!(second.issued > first.issued);
        }
        // The record of numbers is older than what the service has acknowledged.
        let later = u128::from(u64::from(u32::MAX) << 20) << 64 | 7;
        assert!(RevisionsOfStart::behind(later, first.issued, 3).first >> 64 >= later >> 64);
        assert_ne!(RevisionsOfStart::behind(last, 0, 1).first, RevisionsOfStart::behind(last, 0, 2).first);
    }
}
