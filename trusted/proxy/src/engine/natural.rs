//! Matches in insertion order, as far as that can be had without holding much.
//!
//! A result of at most [`HELD_BYTES`] comes in insertion order; of a larger one, what was met first does, and the
//! rest follows as the server keeps it. A limited query looks no further than it must once it has met
//! [`LOOKED_AT`] documents.

use super::Shared;
use super::budget::Share;
use super::channel::ServerChannel;
use super::collection::Collection;
use super::fetch::Absent;
use super::ledger::Watch;
use super::matches::{DOCUMENTS_PER_STEP, Matches, matching};
use arras_client::OpenDocument;
use arras_documents::filter::Filter;
use arras_documents::limits;
use arras_planner::store::StoreError;
use arras_protocol::RowId;
use arras_storage::Storage;
use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of documents up to which a result is put in insertion order.
const HELD_BYTES: usize = 8 * 1024 * 1024;
/// Documents up to which it is.
const HELD_DOCUMENTS: usize = 100_000;
/// Documents a limited query looks at before it is content with what it has met.
const LOOKED_AT: usize = 1000;

/// A match in its place. Its document may have been let go; it is fetched again in its turn.
struct Pending {
    row: RowId,
    bytes: usize,
    document: Option<OpenDocument>,
}

/// Matches without an order of their own.
pub(super) struct Natural<C> {
    collection: Arc<Collection<C>>,
    filter: Arc<Filter>,
    pending: VecDeque<Pending>,
    /// What is not met yet.
    rest: Option<Matches<C>>,
    /// Of writes since before the first was met: what was met and is gone was removed, or is withheld.
    watch: Arc<Watch>,
    /// Rows fetched again at a time, as far as their documents fit a reply.
    chunk: usize,
    /// For the documents held while nobody asks for them.
    share: Option<Share>,
}

impl<C: ServerChannel> Natural<C> {
    /// Gathers matches until there are no more or too many; with `wanted`, of which nobody will take more, until
    /// that may be.
    pub(super) async fn gather<S: Storage>(
        shared: &Shared<S, C>,
        collection: &Arc<Collection<C>>,
        filter: Arc<Filter>,
        matches: Matches<C>,
        wanted: Option<usize>,
    ) -> Result<Self, StoreError> {
        let watch = matches.watch();
        let mut matches = Some(matches);
        let (mut held, mut bytes) = (Vec::<(usize, OpenDocument)>::new(), 0);
        while let Some(source) = &mut matches {
            let step = wanted.unwrap_or(DOCUMENTS_PER_STEP).max(LOOKED_AT);
            let Some(found) = source.next(shared, step).await? else {
                matches = None;
                break;
            };
            for document in found {
                let length = limits::check_built(&document.document)?;
                bytes += length;
                held.push((length, document));
            }
            let full = bytes > HELD_BYTES || held.len() > HELD_DOCUMENTS;
            if let Some(wanted) = wanted
                && (full || held.len() / 2 > wanted.max(LOOKED_AT))
            {
                held.sort_by_key(|(_, document)| document.sequence);
                held.truncate(wanted);
                bytes = held.iter().map(|(length, _)| length).sum();
            }
            let enough = wanted.is_some_and(|wanted| held.len() >= wanted);
            if full || (enough && source.looked_at() >= LOOKED_AT) {
                matches = matches.filter(|_| !enough);
                break;
            }
        }
        held.sort_by_key(|(_, document)| document.sequence);
        let pending = held
            .into_iter()
            .map(|(bytes, document)| Pending { row: document.row, bytes, document: Some(document) })
            .collect();
        let collection = Arc::clone(collection);
        Ok(Self { collection, filter, pending, rest: matches, watch, chunk: usize::MAX, share: None })
    }

    /// Takes whatever comes first, without an order: for a limited query of a collection that is not small.
    pub(super) fn as_it_comes(
        collection: &Arc<Collection<C>>,
        filter: Arc<Filter>,
        matches: Matches<C>,
    ) -> Self {
        let (collection, watch) = (Arc::clone(collection), matches.watch());
        Self {
            collection,
            filter,
            pending: VecDeque::new(),
            rest: Some(matches),
            watch,
            chunk: usize::MAX,
            share: None,
        }
    }

    /// Meets all matches before the first is handed on, holding the names of those beyond what is held already: what
    /// is done with one must not make another one match.
    pub(super) async fn meet_all<S: Storage>(&mut self, shared: &Shared<S, C>) -> Result<(), StoreError> {
        let Some(mut rest) = self.rest.take() else {
            return Ok(());
        };
        while let Some(found) = rest.next(shared, DOCUMENTS_PER_STEP).await? {
            let rows = found.iter().map(|document| document.row);
            self.pending.extend(rows.map(|row| Pending { row, bytes: 0, document: None }));
        }
        // No chunk of them holds the older ones: insertion order is not for the server to see.
        self.pending.make_contiguous().sort_unstable_by_key(|next| next.row);
        Ok(())
    }

    /// Lets go of insertion order, which is not for the server to see: of many documents that are changed, the first
    /// writes would hold the older ones.
    pub(super) fn forget_order(&mut self) {
        self.pending.make_contiguous().sort_unstable_by_key(|next| next.row);
    }

    /// Further matches, for somebody who wants at most so many; perhaps none although more follow. `None` at the end.
    pub(super) async fn next<S: Storage>(
        &mut self,
        shared: &Shared<S, C>,
        wanted: usize,
    ) -> Result<Option<Vec<OpenDocument>>, StoreError> {
        let Some(first) = self.pending.front() else {
            return match &mut self.rest {
                Some(rest) => rest.next(shared, wanted).await,
                None => Ok(None),
            };
        };
        let wanted = wanted.clamp(1, DOCUMENTS_PER_STEP);
        if first.document.is_some() {
            let held = self.pending.iter().take(wanted).take_while(|next| next.document.is_some()).count();
            return Ok(Some(self.pending.drain(..held).filter_map(|next| next.document).collect()));
        }
        let rows: Vec<RowId> = self
            .pending
            .iter()
            .take(wanted.min(self.chunk).max(1))
            .take_while(|next| next.document.is_none())
            .map(|next| next.row)
            .collect();
        let _step = shared.budget.step(rows.len()).await;
        let (documents, dealt) =
            shared.read_in_order(&self.collection, &rows, Absent::Named(&self.watch)).await?;
        self.chunk = dealt.saturating_mul(2);
        self.pending.drain(..dealt);
        // It matched when it was met; it may have been changed since.
        Ok(Some(matching(documents, &self.filter).await?))
    }

    /// Lets documents go that there is no share to hold them for while nobody asks.
    pub(super) fn rest<S: Storage>(&mut self, shared: &Shared<S, C>) {
        let bytes = self.pending.iter().filter(|next| next.document.is_some()).map(|next| next.bytes).sum();
        self.share = None;
        self.share = shared.budget.share(bytes);
        if self.share.is_none() {
            self.pending.iter_mut().for_each(|next| next.document = None);
            self.pending.shrink_to_fit();
        }
    }
}
