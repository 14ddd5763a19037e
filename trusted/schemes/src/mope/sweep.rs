//! Wide ranges of labels spread in pieces, each a change of its own.
//!
//! *Plan.* The leaves of a range are to begin at even distances. Leaves beside each other that are to go up are a run, and those
//! that are to go down; where no leaf of a run is far from where it is to be, the run is left alone. First the runs that go up are moved,
//! each from its right end, then those that go down, each from its left end, keys at a distance at which the fullest leaves have room.
//!
//! *Any prefix of the pieces is a consistent state.* A key that goes up goes to where it is less than the one to its right,
//! which was moved before or stays; and it was greater than the one to its left before it went up. Likewise downwards. This
//! is so whatever others did to the labels since the plan was made: a key that would go the other way ends its run. So nothing
//! needs to be remembered, and several clients may have plans of their own: who forgets a plan makes another where there is
//! little room again.
//!
//! *Bound.* A range of n keys takes about n / [`PIECE_MAX`] pieces, and each later change pays one. It is begun where the
//! rule ([`super::labels`]) asks for a range of more than [`MOVED_MAX`] keys. No change has room in its own range of [`MOVED_MAX`]
//! keys only once 2^14 labels have more than [`MOVED_MAX`] keys: spreading has made at most half of them that dense, as what is
//! spread has [`MOVED_MAX`] keys at most, and new keys beside each other are at least [`super::labels::STEP_MIN`] apart. So at
//! least [`MOVED_MAX`] / 2 insertions come between, in whose time 2 million keys are spread. In a wider range, or where those that
//! hold labels kept every piece from being made, a writer makes the pieces itself, one after the other, none larger.

use super::Miss;
use super::labels::{Demand, Density, MOVED_MAX, aligned};
use super::node::ENTRIES_MAX;
use super::room::{Followed, Spreads};
use super::work::{Leaf, Path, Side, Work};
use arras_protocol::mope::{Label, Summary, TreeStore};
use std::collections::VecDeque;

/// Labels that a piece rewrites, at most.
pub(super) const PIECE_MAX: usize = MOVED_MAX / 4;

/// Keys of a leaf, on the average.
const LEAF_KEYS: u64 = 96;

/// Leaves by which one of a run must be away from where it is to be.
const FAR: u64 = 8;

/// Keys that are to move to one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// Those from one label on and below another, to below a third, the highest first.
    Up { from: Label, below: Label, target: Label },
    /// Those above one label and below another, from a third on, the lowest first.
    Down { above: Label, below: Label, target: Label },
}

/// What is left to do of a plan.
#[derive(Clone, Debug)]
pub(super) struct Sweep {
    low: Label,
    high: Label,
    /// The size of its range.
    pub(super) bits: u32,
    /// From a key to the next.
    step: u64,
    /// The next is the last.
    runs: Vec<Run>,
}

/// Keys of a run that a piece moves, in the order in which they are moved.
#[derive(Default)]
struct Moved {
    /// The first that was moved, and the last.
    old: Option<(Label, Label)>,
    /// Where the last is now.
    new: Label,
    keys: usize,
    /// There are no more.
    ended: bool,
}

impl Moved {
    fn add(&mut self, old: Label, new: Label) {
        self.old = Some((self.old.map_or(old, |(first, _)| first), old));
        self.new = new;
        self.keys += 1;
    }
}

impl Sweep {
    /// Of a range of 2^bits labels whose leaves begin with the keys of these labels, and beyond which the next key is `next`;
    /// none if that would not make room for what is to come, or there is nothing to move.
    fn plan(
        bits: u32,
        (low, high): (Label, Label),
        firsts: &[Label],
        next: Option<Label>,
        demand: Demand,
    ) -> Option<Self> {
        let leaves = firsts.len() as u64;
        let slot = (high - low).checked_div(leaves)?;
        let step = slot / ENTRIES_MAX as u64;
        let keys = (leaves * LEAF_KEYS).saturating_add(demand.all);
        if step <= demand.most.saturating_add(1) || !Density::Rule.allows(bits, keys) {
            return None;
        }
        let target = |at: usize| low + slot * at as u64;
        let direction = |at: usize| target(at).cmp(&firsts[at]);
        let (mut ups, mut downs) = (Vec::new(), Vec::new());
        let mut until = 0;
        while until < firsts.len() {
            let from = until;
            while until < firsts.len() && direction(until) == direction(from) {
                until += 1;
            }
            if !(from..until).any(|at| target(at).abs_diff(firsts[at]) > FAR.saturating_mul(slot)) {
                continue;
            }
            let below = firsts.get(until).copied().or(next).unwrap_or(high);
            match direction(from) {
                std::cmp::Ordering::Greater => {
                    ups.push(Run::Up { from: firsts[from], below, target: target(until).min(below) });
                }
                std::cmp::Ordering::Less => {
                    downs.push(Run::Down { above: firsts[from] - 1, below, target: target(from) });
                }
                std::cmp::Ordering::Equal => {}
            }
        }
        let runs = [downs, ups].concat();
        (!runs.is_empty()).then_some(Self { low, high, bits, step, runs })
    }

    /// True if a label is in its range.
    pub(super) fn covers(&self, label: Label) -> bool {
        (self.low..=self.high).contains(&label)
    }

    pub(super) fn is_done(&self) -> bool {
        self.runs.is_empty()
    }
}

impl<S: TreeStore> Work<'_, S> {
    /// Plans for the smallest range around a label, of 2^bits labels at least, where the rule is kept by what is to come; none if
    /// there is none.
    pub(super) async fn survey(
        &mut self,
        anchor: Label,
        demand: Demand,
        bits: u32,
    ) -> Result<Option<Sweep>, Miss> {
        let path = self.way_to(anchor).await?;
        if self.height == 0 {
            return Ok(None);
        }
        let (mut left, mut right) = (path, path);
        let mut firsts = VecDeque::from([self.first_label(path)?]);
        for bits in bits..=u64::BITS {
            let (low, high) = aligned(anchor, bits);
            while firsts.front().is_some_and(|first| *first > low) {
                let Some(beside) = self.beside(left, Side::Left).await? else { break };
                left = beside;
                firsts.push_front(self.first_label(left)?);
            }
            while firsts.back().is_some_and(|last| *last <= high) {
                let Some(beside) = self.beside(right, Side::Right).await? else { break };
                right = beside;
                firsts.push_back(self.first_label(right)?);
            }
            let firsts = firsts.make_contiguous();
            let from = firsts.partition_point(|first| *first < low);
            let until = firsts.partition_point(|first| *first <= high);
            let next = firsts.get(until).copied();
            let sweep = Sweep::plan(bits, (low, high), &firsts[from..until], next, demand);
            if sweep.is_some() {
                return Ok(sweep);
            }
        }
        Ok(None)
    }

    /// The label of a leaf's first key, as the node above knows it.
    fn first_label(&self, path: Path) -> Result<Label, Miss> {
        Ok(self.first_of(path)?.label)
    }

    /// Does what comes next of a plan, rewriting at most so many labels.
    pub(super) async fn piece(
        &mut self,
        sweep: &mut Sweep,
        most: usize,
        followed: &mut Followed,
    ) -> Result<Spreads, Miss> {
        let mut spreads = Spreads::default();
        let step = sweep.step;
        while spreads.rewritten < most
            && let Some(run) = sweep.runs.last_mut()
        {
            let left = most - spreads.rewritten;
            let (moved, low, high, start) = match run {
                Run::Up { from, below, target } => {
                    let moved = self.raise_keys((*from, *below, *target), step, left, followed).await?;
                    if moved.keys > 0 {
                        (*below, *target) = (moved.new, moved.new);
                    }
                    let (high, low) = moved.old.unwrap_or_default();
                    let start = moved.new;
                    (moved, low, high, start)
                }
                Run::Down { above, below, target } => {
                    let moved = self.lower_keys((*above, *below, *target), step, left, followed).await?;
                    if moved.keys > 0 {
                        (*above, *target) = (moved.new, moved.new.saturating_add(step));
                    }
                    let (low, high) = moved.old.unwrap_or_default();
                    let start = moved.new.saturating_sub(step * (moved.keys as u64).saturating_sub(1));
                    (moved, low, high, start)
                }
            };
            if moved.keys > 0 {
                spreads.rewritten += moved.keys;
                spreads.summaries.push(Summary::Spread { low, high, start, step });
            }
            if moved.ended || moved.keys == 0 {
                sweep.runs.pop();
            }
        }
        Ok(spreads)
    }

    /// Moves keys with labels from `from` on and below `below`, the highest first, to below `target`.
    async fn raise_keys(
        &mut self,
        (from, below, target): (Label, Label, Label),
        step: u64,
        most: usize,
        followed: &mut Followed,
    ) -> Result<Moved, Miss> {
        let mut path = self.way_to(below.saturating_sub(1)).await?;
        let mut paths = vec![path];
        while paths.len() < most / self.tree.layout.entries_min() + 2 && self.first_label(path)? > from {
            let Some(beside) = self.beside(path, Side::Left).await? else { break };
            path = beside;
            paths.push(path);
        }
        self.load_at(0, &paths).await?;
        let before = *followed;
        let mut moved = Moved { new: target, ended: self.first_label(path)? <= from, ..Moved::default() };
        for path in paths {
            let Leaf { body, changed, .. } = self.leaf_mut(path)?;
            let unmoved = body.labels.iter_mut().rev().skip_while(|label| **label >= below);
            for label in unmoved {
                let new = moved.new.checked_sub(step).filter(|new| *new > *label && *label >= from);
                let Some(new) = new else {
                    moved.ended = true;
                    return Ok(moved);
                };
                if moved.keys == most {
                    moved.ended = false;
                    return Ok(moved);
                }
                followed.moved(&before, *label, new);
                moved.add(*label, new);
                *label = new;
                *changed = true;
            }
        }
        Ok(moved)
    }

    /// Moves keys with labels above `above` and below `below`, the lowest first, to `target` and on.
    async fn lower_keys(
        &mut self,
        (above, below, target): (Label, Label, Label),
        step: u64,
        most: usize,
        followed: &mut Followed,
    ) -> Result<Moved, Miss> {
        let mut path = self.way_to(above).await?;
        let mut paths = vec![path];
        let mut ended = false;
        while paths.len() < most / self.tree.layout.entries_min() + 2 {
            let Some(beside) = self.beside(path, Side::Right).await? else {
                ended = true;
                break;
            };
            if self.first_label(beside)? >= below {
                ended = true;
                break;
            }
            path = beside;
            paths.push(path);
        }
        self.load_at(0, &paths).await?;
        let before = *followed;
        let mut moved = Moved { ended, ..Moved::default() };
        // What the next one must at least be.
        let mut next = target;
        for path in paths {
            let Leaf { body, changed, .. } = self.leaf_mut(path)?;
            for label in &mut body.labels {
                if *label <= above && moved.keys == 0 {
                    next = next.max(label.saturating_add(step));
                    continue;
                }
                if next >= *label || *label >= below {
                    moved.ended = true;
                    return Ok(moved);
                }
                if moved.keys == most {
                    moved.ended = false;
                    return Ok(moved);
                }
                followed.moved(&before, *label, next);
                moved.add(*label, next);
                *label = next;
                *changed = true;
                next = next.saturating_add(step);
            }
        }
        Ok(moved)
    }
}
