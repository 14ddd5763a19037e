//! Matches in insertion order, as far as that can be had without holding much.
//!
//! A result of at most [`HELD_BYTES`] comes in insertion order; of a larger one, what was met first does, and the
//! rest follows as the server keeps it.

use super::Shared;
use super::budget::{Claim, Share};
use super::channel::ServerChannel;
use super::collection::Collection;
use super::fetch::Absent;
use super::ledger::Watch;
use super::matches::{DOCUMENTS_PER_STEP, Matches, matching};
use super::rows::Rows;
use arras_documents::filter::Filter;
use arras_protocol::RowId;
use arras_records::OpenDocument;
use arras_service::ServiceError;
use arras_storage::Storage;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of documents up to which a result is put in insertion order.
const HELD_BYTES: usize = 8 * 1024 * 1024;
/// Documents up to which it is.
const HELD_DOCUMENTS: usize = 100_000;

/// A match in its place. Its document may have been let go; it is fetched again in its turn.
struct Pending {
    row: RowId,
    sequence: u64,
    bytes: usize,
    document: Option<Box<OpenDocument>>,
}

/// Matches without an order of their own.
pub(super) struct Natural {
    collection: Arc<Collection>,
    filter: Arc<Filter>,
    pending: VecDeque<Pending>,
    /// Bytes of the documents among them.
    pending_bytes: usize,
    /// Matches after those, by name.
    named: Rows,
    /// What is not met yet.
    rest: Option<Matches>,
    /// Of writes since before the first was met: what was met and is gone was removed, or is withheld.
    watch: Arc<Watch>,
    /// Nobody else writes: none that is done removed any of them.
    alone: bool,
    /// Rows fetched again at a time, as far as their documents fit a reply.
    chunk: usize,
    /// For the documents held.
    share: Share,
    /// For their places.
    places: Claim,
}

impl Natural {
    /// Takes whatever comes first, without an order: for a limited query of a collection that is not small.
    pub(super) fn as_it_comes<S: Storage, C: ServerChannel>(
        shared: &Shared<S, C>,
        collection: &Arc<Collection>,
        filter: Arc<Filter>,
        matches: Matches,
    ) -> Self {
        Self {
            collection: Arc::clone(collection),
            filter,
            pending: VecDeque::new(),
            pending_bytes: 0,
            named: Rows::new(&shared.budget),
            watch: matches.watch(),
            alone: matches.is_alone(),
            rest: Some(matches),
            chunk: usize::MAX,
            share: shared.budget.no_share(),
            places: shared.budget.claim(),
        }
    }

    /// Gathers matches until there are no more or too many.
    pub(super) async fn gather<S: Storage, C: ServerChannel>(
        shared: &Shared<S, C>,
        collection: &Arc<Collection>,
        filter: Arc<Filter>,
        matches: Matches,
    ) -> Result<Self, ServiceError> {
        let mut gathered = Self::as_it_comes(shared, collection, filter, matches);
        let (mut held, mut bytes) = (Vec::<Pending>::new(), 0);
        while let Some(source) = &mut gathered.rest {
            let Some(found) = source.next(shared, DOCUMENTS_PER_STEP).await? else {
                gathered.rest = None;
                break;
            };
            for document in found {
                bytes += document.bytes;
                held.push(gathered.pending(document));
            }
            let is_held = gathered.places.hold(held.capacity() * size_of::<Pending>()).is_ok();
            if bytes > HELD_BYTES || held.len() > HELD_DOCUMENTS || !is_held {
                break;
            }
        }
        held.sort_by_key(|next| next.sequence);
        gathered.pending_bytes = held_bytes(&held);
        gathered.pending = held.into();
        Ok(gathered)
    }

    /// A match in its place, with its document if there is memory to hold it.
    fn pending(&mut self, document: OpenDocument) -> Pending {
        let (row, sequence, bytes) = (document.row, document.sequence, document.bytes);
        let document = self.share.grow(bytes).then(|| Box::new(document));
        Pending { row, sequence, bytes, document }
    }

    /// For a statement that changes all of them. What it does with one makes no other one match, nor the same one twice: a scan
    /// meets each row once, and what an index named was named before the first is handed on.
    pub(super) fn for_changes(mut self) -> Self {
        if let Some(rest) = &mut self.rest {
            rest.keep_step();
            // No chunk of them holds the older ones: insertion order is not for the server to see.
            self.forget_order(0);
        }
        self
    }

    /// Lets go of insertion order, which is not for the server to see: of many documents that are changed, the first
    /// writes would hold the older ones. Those that are changed together stay in it: they are mixed as they are written.
    pub(super) fn forget_order(&mut self, together: usize) {
        let is_one_change = self.rest.is_none()
            && self.named.is_empty()
            && self.pending.len() <= together
            && self.pending.iter().all(|next| next.document.is_some());
        if is_one_change {
            return;
        }
        self.pending.make_contiguous().sort_unstable_by_key(|next| next.row);
    }

    /// Further matches, for somebody who wants at most so many; perhaps none although more follow. `None` at the end.
    pub(super) async fn next<S: Storage, C: ServerChannel>(
        &mut self,
        shared: &Shared<S, C>,
        wanted: usize,
    ) -> Result<Option<Vec<OpenDocument>>, ServiceError> {
        if self.alone {
            self.watch = Arc::new(shared.intents.ledger.watch());
        }
        let chunk = wanted.clamp(1, DOCUMENTS_PER_STEP);
        let held = self.pending.iter().take(chunk).take_while(|next| next.document.is_some()).count();
        if held > 0 {
            let documents = self.pending.drain(..held).filter_map(|next| {
                self.pending_bytes -= next.bytes;
                next.document.map(|document| *document)
            });
            let documents = documents.collect();
            self.share.shrink(self.pending_bytes);
            return Ok(Some(documents));
        }
        let chunk = chunk.min(self.chunk).max(1);
        let let_go = self.pending.iter().take(chunk).take_while(|next| next.document.is_none());
        let mut rows: Vec<RowId> = let_go.map(|next| next.row).collect();
        let of_pending = !rows.is_empty();
        if !of_pending {
            rows.extend(self.named.iter().take(chunk));
        }
        if rows.is_empty() {
            return match &mut self.rest {
                Some(rest) => rest.next(shared, wanted).await,
                None => Ok(None),
            };
        }
        let _step = shared.budget.step(rows.len(), self.collection.lengths.mean()).await;
        let (documents, dealt) =
            shared.read_in_order(&self.collection, &rows, Absent::Named(&self.watch)).await?;
        self.chunk = dealt.saturating_mul(2);
        if of_pending {
            self.pending.drain(..dealt);
        } else {
            self.named.pass(dealt);
        }
        // It matched when it was met; it may have been changed since.
        Ok(Some(matching(documents, &self.filter).await?))
    }

    /// Lets documents go that there is no share to hold them for while nobody asks: their names are left.
    pub(super) fn rest(&mut self) -> Result<(), ServiceError> {
        if self.share.may_rest() || !self.named.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        self.share.shrink(0);
        self.places.shrink(0);
        self.named.extend(pending.iter().map(|next| next.row))
    }
}

/// Bytes of the documents that are there.
fn held_bytes(pending: &[Pending]) -> usize {
    pending.iter().filter(|next| next.document.is_some()).map(|next| next.bytes).sum()
}

/// What a statement is about.
pub(super) enum Found {
    One(Option<Box<OpenDocument>>),
    All(Box<Natural>),
}

impl Found {
    /// The next documents, as many as one intent takes at most; perhaps none although more follow. `None` at the end.
    pub(super) async fn next<S: Storage, C: ServerChannel>(
        &mut self,
        shared: &Shared<S, C>,
        documents_max: usize,
    ) -> Result<Option<Vec<OpenDocument>>, ServiceError> {
        match self {
            Self::One(one) => Ok(one.take().map(|one| vec![*one])),
            Self::All(all) => all.next(shared, documents_max).await,
        }
    }

    /// See [`Natural::forget_order`].
    pub(super) fn forget_order(&mut self, together: usize) {
        match self {
            Self::One(_) => {}
            Self::All(all) => all.forget_order(together),
        }
    }
}

#[cfg(test)]
mod tests;
