//! Changes of labels before there is no room: so that a value finds room, and whoever stores it waits for nobody.
//!
//! Where a new label has little room on both sides, its place is remembered, and a later change makes room there: by the
//! smallest range that the rule allows ([`super::labels`]) or, where that is too many labels for one change, by a plan
//! ([`super::sweep`]) of which every later change does a piece. Such a change is by itself, and not made where that takes
//! waiting for anybody; where a tree changes only within its caller's writes, it is a part of the next one. What is to be done is
//! forgotten with the client: the next label without room beside it says it again.

use super::cache::After;
use super::labels::{Demand, Density, MOVED_MAX};
use super::room::{Crowd, Followed, Spreads};
use super::stage::StagedChange;
use super::sweep::{PIECE_MAX, Sweep};
use super::work::Work;
use super::{Miss, Tree};
use crate::error::IndexError;
use arras_protocol::mope::{TreeChange, TreeStore, Tried};
use std::sync::Arc;
use std::time::Duration;

/// A new label with fewer labels free on either side has little room: at least five more find some between the same two. So
/// many times more for several new ones beside each other.
pub(super) const EARLY: u64 = 64;

/// Room that is made for each of as many more, early.
const EARLY_ROOM: u64 = 1024;

/// New ones beside each other that as many more are expected of, at most.
const EARLY_KEYS: u64 = 64;

/// How long others are waited for: nobody is.
const WAIT: Duration = Duration::from_millis(1);

/// A place at which there is little room.
#[derive(Clone, Copy)]
pub(super) struct Tight {
    label: u64,
    /// New ones that came there at once.
    keys: u64,
}

impl Tight {
    /// The place of so many new labels from one on, with so much room beside them; none if that is enough.
    pub(super) fn at(label: u64, keys: u64, room: u64) -> Option<Self> {
        let keys = keys.min(EARLY_KEYS);
        (room < EARLY * keys).then_some(Self { label, keys })
    }

    fn demand(self) -> Demand {
        Demand { all: self.keys, most: EARLY_ROOM * self.keys }
    }
}

/// What is to be done to labels.
#[derive(Clone, Default)]
pub(super) struct Tending {
    pub(super) tight: Option<Tight>,
    sweep: Option<Sweep>,
}

impl Tending {
    /// True if that is nothing.
    pub(super) fn is_done(&self) -> bool {
        self.tight.is_none() && self.sweep.is_none()
    }
}

impl<S: TreeStore> Work<'_, S> {
    /// What is due of the labels, as a part of a caller's change; in a tree that changes by itself nothing.
    pub(super) async fn tend_within(
        &mut self,
        tending: &mut Tending,
        followed: &mut Followed,
    ) -> Result<Spreads, Miss> {
        if self.tree.store.is_alone() {
            *tending = self.tree.shared.cache().tending.clone();
            return Ok(Spreads::default());
        }
        *tending = self.tree.shared.due().unwrap_or_default();
        self.tend(tending, followed).await
    }

    /// Does what is due next.
    async fn tend(&mut self, tending: &mut Tending, followed: &mut Followed) -> Result<Spreads, Miss> {
        let mut spreads = Spreads::default();
        let covered = |tight: &Tight| tending.sweep.as_ref().is_some_and(|sweep| sweep.covers(tight.label));
        if let Some(tight) = tending.tight.take().filter(|tight| !covered(tight)) {
            let (anchor, demand) = (tight.label, tight.demand());
            let path = self.way_to(anchor).await?;
            self.load_at(0, &[path]).await?;
            let choice = self.choose((anchor, path), &|_| demand, MOVED_MAX).await?;
            match choice.filter(|choice| choice.density == Density::Rule) {
                Some(choice) => {
                    self.relabel(&choice, followed, &mut spreads);
                    return Ok(spreads);
                }
                // One plan at a time: if this place is still tight when that is done, the next label beside it says so.
                None if tending.sweep.is_none() => tending.sweep = self.survey(anchor, demand, 1).await?,
                None => {}
            }
        }
        if let Some(sweep) = &mut tending.sweep {
            spreads = self.piece(sweep, PIECE_MAX, followed).await?;
            if sweep.is_done() {
                tending.sweep = None;
            }
        }
        Ok(spreads)
    }

    /// The change that labels alone come to; none if that is none.
    async fn of_labels(
        &mut self,
        spreads: Spreads,
        followed: &Followed,
        tending: Tending,
    ) -> Result<Option<StagedChange>, Miss> {
        let expected = self.head.version;
        let Some(rebuilt) = self.rebuild(0, 0).await? else { return Ok(None) };
        let head = rebuilt.after.head;
        let Spreads { summaries, .. } = spreads;
        let (left, entered) = (Vec::new(), Vec::new());
        let change = TreeChange { expected, head, nodes: rebuilt.nodes, left, summaries, entered };
        let after = After { last: followed.last, tending, tended: true, ..rebuilt.after };
        Ok(Some(StagedChange::of_labels(change, after, Arc::clone(&self.tree.shared))))
    }
}

impl<S: TreeStore> Tree<S> {
    /// Makes one change of labels that is due, if there is one and nobody has to be waited for. In the writer's turn.
    pub(super) async fn tend(&self) -> Result<(), IndexError> {
        let Some(mut tending) = self.shared.due() else { return Ok(()) };
        let mut work = Work::start(self, None).await?;
        let mut followed = Followed { last: self.shared.cache().last, anchor: None };
        let staged = match work.tend(&mut tending, &mut followed).await {
            Ok(spreads) => work.of_labels(spreads, &followed, tending.clone()).await,
            Err(miss) => Err(miss),
        };
        let mut staged = match staged {
            Ok(Some(staged)) => staged,
            Ok(None) | Err(Miss::Crowded(_)) => {
                self.shared.tend(tending);
                return Ok(());
            }
            Err(Miss::Moved) => {
                self.shared.doubt();
                return Ok(());
            }
            Err(Miss::Failed(error)) => return Err(error),
        };
        let Some(change) = staged.take() else { return Ok(()) };
        let head = change.head;
        match self.store.commit_within(change, WAIT).await? {
            Tried::Applied => drop(staged.finish()),
            Tried::Busy => staged.postpone(),
            Tried::OtherVersion if self.is_verified() => self.shared.refuse(head),
            Tried::OtherVersion => {}
        }
        Ok(())
    }

    /// Makes room at a place where no single change does: whatever pieces that takes, each by itself. In the writer's turn.
    pub(super) async fn relieve(&self, crowd: Crowd) -> Result<(), IndexError> {
        let mut followed = Followed { last: None, anchor: Some(crowd.anchor) };
        let (mut sweep, mut bits): (Option<Sweep>, u32) = (None, 1);
        loop {
            let mut work = Work::start(self, None).await?;
            followed.last = self.shared.cache().last;
            let anchor = followed.anchor.unwrap_or(crowd.anchor);
            let made = work.relieved(&mut sweep, &mut bits, (anchor, crowd.demand), &mut followed).await;
            let staged = match made {
                Ok((spreads, is_last)) => {
                    let tending = self.shared.cache().tending.clone();
                    let staged = work.of_labels(spreads, &followed, tending).await;
                    staged.map(|staged| (staged, is_last))
                }
                Err(miss) => Err(miss),
            };
            let (staged, is_last) = match staged {
                Ok(staged) => staged,
                // The caller asks anew.
                Err(Miss::Moved | Miss::Crowded(_)) => {
                    self.shared.doubt();
                    return Ok(());
                }
                Err(Miss::Failed(error)) => return Err(error),
            };
            if let Some(mut staged) = staged
                && let Some(change) = staged.take()
            {
                let head = change.head;
                if !self.store.commit(change).await? {
                    if self.is_verified() {
                        self.shared.refuse(head);
                    }
                    return Ok(());
                }
                drop(staged.finish());
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

impl<S: TreeStore> Work<'_, S> {
    /// The next change that leads to room at a place, and whether it is the last.
    async fn relieved(
        &mut self,
        sweep: &mut Option<Sweep>,
        bits: &mut u32,
        (anchor, demand): (u64, Demand),
        followed: &mut Followed,
    ) -> Result<(Spreads, bool), Miss> {
        let mut spreads = Spreads::default();
        if sweep.is_none() {
            let path = self.way_to(anchor).await?;
            self.load_at(0, &[path]).await?;
            if let Some(choice) = self.choose((anchor, path), &|_| demand, MOVED_MAX).await? {
                self.relabel(&choice, followed, &mut spreads);
                return Ok((spreads, true));
            }
            let found = self.survey(anchor, demand, *bits).await?;
            const FULL: IndexError =
                IndexError::Caller("an order-preserving tree has no label left for so many values");
            *bits = found.as_ref().ok_or(FULL)?.bits + 1;
            *sweep = found;
        }
        if let Some(plan) = sweep {
            spreads = self.piece(plan, MOVED_MAX, followed).await?;
            if plan.is_done() {
                *sweep = None;
            }
        }
        Ok((spreads, false))
    }
}
