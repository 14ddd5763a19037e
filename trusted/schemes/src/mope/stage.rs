//! Insertions and deletions, worked out and not yet applied: first the leaves ([`super::edit`]), then the tree above them
//! ([`super::rebuild`]).

use super::cache::{After, SharedCache};
use super::edit::{Amount, Edited};
use super::labels::{Last, MOVED_MAX};
use super::places::Sorted;
use super::tend::Tending;
use super::work::Work;
use super::{Kind, Miss, Stored, TRIES_MAX, Tree};
use crate::error::IndexError;
use arras_protocol::Blob;
use arras_protocol::mope::{TreeChange, TreeStore};
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

/// A change that is worked out. Dropped instead of finished: it was not applied, or it is unknown whether it was; then the next
/// operation asks for the tree's state first.
pub struct StagedChange {
    change: Option<TreeChange>,
    stored: Vec<Stored>,
    rewritten: u64,
    /// None: there was nothing to change.
    after: Option<After>,
    shared: Arc<SharedCache>,
    /// The writer's turn, unless that is its caller's.
    turn: Option<OwnedMutexGuard<()>>,
}

impl std::fmt::Debug for StagedChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StagedChange({} values)", self.stored.len())
    }
}

impl StagedChange {
    /// What is to be applied; none if the tree is already as it is to be, or it was taken.
    pub fn take(&mut self) -> Option<TreeChange> {
        self.change.take()
    }

    /// What each inserted value is stored as once that is applied, in the order given.
    #[must_use]
    pub fn stored(&self) -> &[Stored] {
        &self.stored
    }

    /// Labels of earlier values that the change rewrites.
    #[must_use]
    pub fn rewritten(&self) -> u64 {
        self.rewritten
    }

    /// A change of labels alone, in a turn of the writer's.
    pub(super) fn of_labels(change: TreeChange, after: After, shared: Arc<SharedCache>) -> Self {
        shared.expect(Some(after.head));
        let (change, after) = (Some(change), Some(after));
        Self { change, stored: Vec::new(), rewritten: 0, after, shared, turn: None }
    }

    /// It was not applied since others hold its labels, and it is not known to matter when it is.
    pub(super) fn postpone(mut self) {
        self.after = None;
        self.shared.postpone();
    }

    /// To be called when the change is applied, or there was nothing to apply.
    #[must_use]
    pub fn finish(mut self) -> Vec<Stored> {
        if let Some(after) = self.after.take() {
            self.shared.finish(after);
        }
        std::mem::take(&mut self.stored)
    }
}

impl Drop for StagedChange {
    fn drop(&mut self) {
        if self.after.is_some() {
            self.shared.expect(None);
            self.shared.doubt();
        }
        drop(self.turn.take());
    }
}

impl<S: TreeStore> Tree<S> {
    /// Works out what inserting values, an occurrence each, and taking occurrences of others away comes to; waits until no other
    /// change is staged. What is removed must be there before (stOPE; in mOPE nothing is ever removed, and keys of
    /// occurrences by [`Self::remove_stored`]). A value that loses its last occurrence and gains one stays the same.
    ///
    /// The whole of what [`StagedChange::take`] returns is to be applied by [`TreeStore::commit`], or in a write of the caller's
    /// own; then [`StagedChange::finish`] is to be called.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn stage<V: AsRef<[u8]>>(
        &self,
        insert: &[V],
        remove: &[V],
    ) -> Result<StagedChange, IndexError> {
        let turn = self.in_turn().await;
        let mut staged = self.stage_in_turn(insert, remove).await?;
        staged.turn = Some(turn);
        Ok(staged)
    }

    /// The same in the caller's turn.
    pub(super) async fn stage_in_turn<V: AsRef<[u8]>>(
        &self,
        insert: &[V],
        remove: &[V],
    ) -> Result<StagedChange, IndexError> {
        let remove = if self.kind == Kind::Stope { remove } else { &[] };
        let values: Vec<&[u8]> = insert.iter().chain(remove).map(AsRef::as_ref).collect();
        let sorted = match self.kind {
            Kind::Mope | Kind::Stope => Sorted::new(&self.cipher, &values)?,
            Kind::FrequencyHiding => Sorted::occurrences(&self.cipher, &values, &self.randomness)?,
        };
        let mut amounts = vec![Amount::default(); sorted.count];
        for (at, rank) in sorted.ranks.iter().enumerate() {
            let Some(amount) = amounts.get_mut(*rank) else { continue };
            let side = if at < insert.len() { &mut amount.added } else { &mut amount.removed };
            *side = side.checked_add(1).ok_or(IndexError::Caller("a value has 2^32 occurrences at most"))?;
        }
        if self.store.is_alone() {
            self.tend().await?;
        }
        let (mut again, mut most) = (None, MOVED_MAX);
        // Room is made for each value at most.
        for _ in 0..TRIES_MAX + sorted.count {
            let mut work = Work::start(self, again.take()).await?.for_change();
            match work.staged(&sorted, &amounts, insert.len(), most).await {
                Ok(parts) => return Ok(self.staged(parts)),
                Err(Miss::Moved) => again = Some(work.seen()),
                Err(Miss::Crowded(crowd)) if self.store.is_alone() => self.relieve(crowd).await?,
                Err(Miss::Crowded(_)) => most = usize::MAX,
                Err(Miss::Failed(error)) => return Err(error),
            }
        }
        Err(IndexError::Peer("an order-preserving tree changes faster than it can be read"))
    }

    /// A change that was worked out, in a turn of its caller's.
    pub(super) fn staged(&self, (change, after, stored, rewritten): StagedParts) -> StagedChange {
        self.shared.expect(after.as_ref().map(|after| after.head));
        let shared = Arc::clone(&self.shared);
        StagedChange { change, stored, rewritten, after, shared, turn: None }
    }
}

/// The change, what is known after it, what the inserted values are stored as, and how many labels it rewrites.
pub(super) type StagedParts = (Option<TreeChange>, Option<After>, Vec<Stored>, u64);

impl<S: TreeStore> Work<'_, S> {
    /// Works out a change of `inserted` values and of the rest, whose occurrences go, that rewrites so many labels at `most`.
    async fn staged(
        &mut self,
        sorted: &Sorted,
        amounts: &[Amount],
        inserted: usize,
        most: usize,
    ) -> Result<StagedParts, Miss> {
        let mut edited = self.edit(sorted, amounts, inserted, most).await?;
        let ranks = sorted.ranks.iter().take(inserted);
        let stored = if sorted.ranks.is_sorted_by(|one, next| one < next) {
            std::mem::take(&mut edited.stored).into_iter().flatten().collect()
        } else {
            ranks.filter_map(|rank| edited.stored.get(*rank)?.clone()).collect()
        };
        let expected = self.head.version;
        let Some(rebuilt) = self.rebuild(edited.entered.len(), edited.left.len()).await? else {
            return Ok((None, None, stored, 0));
        };
        let head = rebuilt.after.head;
        let Edited { left, entered, spreads, last, tending, .. } = edited;
        let summaries = spreads.summaries;
        let change = TreeChange { expected, head, nodes: rebuilt.nodes, left, summaries, entered };
        let after = After { last, tending, ..rebuilt.after };
        Ok((Some(change), Some(after), stored, spreads.rewritten as u64))
    }

    /// A change by which keys leave that were taken out of their leaves, and nothing else.
    pub(super) async fn left(
        &mut self,
        left: Vec<Blob>,
        last: Option<Last>,
        tending: Tending,
    ) -> Result<StagedParts, Miss> {
        let expected = self.head.version;
        let Some(rebuilt) = self.rebuild(0, left.len()).await? else {
            return Ok((None, None, Vec::new(), 0));
        };
        let (head, nodes) = (rebuilt.after.head, rebuilt.nodes);
        let (summaries, entered) = (Vec::new(), Vec::new());
        let change = TreeChange { expected, head, nodes, left, summaries, entered };
        Ok((Some(change), Some(After { last, tending, ..rebuilt.after }), Vec::new(), 0))
    }
}
