//! Room for new labels where there is none: ranges of labels spread evenly ([`super::labels`]).

use super::Miss;
use super::labels::{Demand, Density, Last, Row, aligned, place, spread};
use super::node::ENTRIES_MAX;
use super::work::{Path, Side, Work};
use arras_protocol::mope::{Label, Summary, TreeStore};

/// Leaves that a window is widened by at once, where few are to be read.
const STEP_MAX: usize = 16;

/// New keys that come between the same two neighbours.
#[derive(Clone, Copy)]
pub(super) struct Gap {
    /// The leaf.
    pub(super) path: Path,
    /// How many of its keys are less.
    pub(super) position: usize,
    /// How many new ones there are.
    pub(super) keys: u64,
}

/// What making room came to.
#[derive(Default)]
pub(super) struct Spreads {
    pub(super) summaries: Vec<Summary>,
    /// Keys whose labels changed, once for each time.
    pub(super) rewritten: usize,
    /// Gaps, by leaf and position, that a denser range than the rule's was spread for.
    pub(super) crowded: Vec<(Path, usize)>,
}

impl Spreads {
    /// First these, then others.
    pub(super) fn and(mut self, mut then: Self) -> Self {
        self.summaries.append(&mut then.summaries);
        self.rewritten += then.rewritten;
        self.crowded.append(&mut then.crowded);
        self
    }
}

/// A place that no change of the size allowed makes room at.
#[derive(Clone, Copy)]
pub(super) struct Crowd {
    /// The label of a key beside it.
    pub(super) anchor: Label,
    /// What is to come there.
    pub(super) demand: Demand,
}

/// Labels that what comes next depends on, whatever happens to them.
#[derive(Clone, Copy, Default)]
pub(super) struct Followed {
    pub(super) last: Option<Last>,
    /// Of a place at which room is made.
    pub(super) anchor: Option<Label>,
}

impl Followed {
    /// Follows a label of those that were there `before`.
    pub(super) fn moved(&mut self, before: &Self, old: Label, new: Label) {
        if let (Some(last), Some(now)) = (before.last, &mut self.last)
            && last.label == old
        {
            now.label = new;
        }
        if before.anchor == Some(old) {
            self.anchor = Some(new);
        }
    }
}

/// Leaves beside each other, all of them read.
#[derive(Clone, Copy)]
pub(super) struct Window {
    first: Path,
    last: Path,
}

/// A range that can be spread, and how.
#[derive(Clone, Copy)]
pub(super) struct Choice {
    window: Window,
    low: Label,
    high: Label,
    row: Row,
    pub(super) density: Density,
}

impl<S: TreeStore> Work<'_, S> {
    /// Sees to it that each gap has room, rewriting at most so many labels.
    pub(super) async fn make_room(
        &mut self,
        gaps: &[Gap],
        followed: &mut Followed,
        most: usize,
    ) -> Result<Spreads, Miss> {
        let mut spreads = Spreads::default();
        for gap in gaps {
            let (below, above) = self.neighbours(gap.path, gap.position).await?;
            let Some(anchor) = below.or(above) else { continue };
            if place(below, above, gap.keys, followed.last).is_some() {
                continue;
            }
            // At most: the new keys of the window may lie outside of the range.
            let demand = |window: &Window| {
                let within = gaps.iter().filter(|gap| (window.first..=window.last).contains(&gap.path));
                within.map(|gap| Demand::of(gap.keys)).fold(Demand::of(0), Demand::and)
            };
            let choice = self.choose((anchor, gap.path), &demand, most - spreads.rewritten).await?;
            // A worse choice because others were made before is none.
            let choice = choice.filter(|choice| choice.density == Density::Rule || spreads.rewritten == 0);
            let Some(choice) = choice else {
                return Err(Miss::Crowded(Crowd { anchor, demand: Demand::of(gap.keys) }));
            };
            if choice.density != Density::Rule {
                spreads.crowded.push((gap.path, gap.position));
            }
            self.relabel(&choice, followed, &mut spreads);
        }
        Ok(spreads)
    }

    /// The labels beside a gap.
    pub(super) async fn neighbours(
        &mut self,
        path: Path,
        position: usize,
    ) -> Result<(Option<Label>, Option<Label>), Miss> {
        let labels = &self.leaf(path)?.body.labels;
        let above = labels.get(position).copied();
        let mut below = position.checked_sub(1).and_then(|at| labels.get(at)).copied();
        let mut left = path;
        // Keys before the first of a leaf that is not the tree's first: only where that one goes in the same change.
        while below.is_none() {
            let Some(beside) = self.beside(left, Side::Left).await? else { break };
            self.load_at(0, &[beside]).await?;
            below = self.leaf(beside)?.body.labels.last().copied();
            left = beside;
        }
        let above = match above {
            Some(above) => Some(above),
            None => self.first_label_after(path).await?,
        };
        Ok((below, above))
    }

    /// The least label of the leaves after one.
    async fn first_label_after(&mut self, mut path: Path) -> Result<Option<Label>, Miss> {
        while let Some(beside) = self.beside(path, Side::Right).await? {
            let label = match self.leaves.get(&beside) {
                Some(leaf) => leaf.body.labels.first().copied(),
                None => self.next_first(path)?.map(|first| first.label),
            };
            if label.is_some() {
                return Ok(label);
            }
            path = beside;
        }
        Ok(None)
    }

    /// The range around a label in a leaf, of so many keys at most, that is to be spread for what is to come there: the smallest
    /// that the rule allows; else the smallest that the laxer one does; else the widest in which there is room at all.
    pub(super) async fn choose(
        &mut self,
        (anchor, path): (Label, Path),
        demand: &(dyn Fn(&Window) -> Demand + Send + Sync),
        most: usize,
    ) -> Result<Option<Choice>, Miss> {
        let mut window = Window { first: path, last: path };
        let mut found: Option<Choice> = None;
        for bits in 1..=u64::BITS {
            let (low, high) = aligned(anchor, bits);
            if !self.widen(&mut window, (low, high), most).await? {
                break;
            }
            let leaves = self.leaves.range(window.first..=window.last);
            let within = |labels: &[Label]| {
                labels.partition_point(|label| *label <= high) - labels.partition_point(|label| *label < low)
            };
            let keys: usize = leaves.map(|(_, leaf)| within(&leaf.body.labels)).sum();
            if keys > most {
                break;
            }
            let demand = demand(&window);
            let choice = |density| {
                let row = spread(low, bits, keys as u64, demand, density)?;
                Some(Choice { window, low, high, row, density })
            };
            if let Some(choice) = choice(Density::Rule) {
                return Ok(Some(choice));
            }
            if found.is_none_or(|found| found.density == Density::Any) {
                found = choice(Density::Close).or_else(|| choice(Density::Any)).or(found);
            }
        }
        Ok(found)
    }

    /// Gives the keys of a range their new labels.
    pub(super) fn relabel(&mut self, choice: &Choice, followed: &mut Followed, spreads: &mut Spreads) {
        let Choice { window, low, high, row, density: _ } = *choice;
        let (mut rank, mut old): (u64, Option<(Label, Label)>) = (0, None);
        let before = *followed;
        for leaf in self.leaves.range_mut(window.first..=window.last).map(|(_, leaf)| leaf) {
            for label in leaf.body.labels.iter_mut().filter(|label| (low..=high).contains(*label)) {
                let new = row.label(rank);
                rank += 1;
                old = Some((old.map_or(*label, |(first, _)| first), *label));
                if *label != new {
                    followed.moved(&before, *label, new);
                    *label = new;
                    leaf.changed = true;
                    spreads.rewritten += 1;
                }
            }
        }
        let summary = |(low, high)| Summary::Spread { low, high, start: row.start, step: row.step };
        spreads.summaries.extend(old.map(summary));
    }

    /// Widens a window until it has all keys with labels of a range; false if these are more than so many.
    async fn widen(
        &mut self,
        window: &mut Window,
        (low, high): (Label, Label),
        most: usize,
    ) -> Result<bool, Miss> {
        let step_max = if most == usize::MAX { usize::MAX } else { STEP_MAX };
        for side in [Side::Left, Side::Right] {
            let mut leaves = 1;
            while !self.reaches(window, side, low, high).await? {
                let read = self.leaves.range(window.first..=window.last);
                let keys: usize = read.map(|(_, leaf)| leaf.body.len()).sum();
                // What was read beyond the range is less than the last steps.
                if keys > most.saturating_add(2 * STEP_MAX * ENTRIES_MAX) {
                    return Ok(false);
                }
                let mut paths = Vec::new();
                let mut end = if side == Side::Left { window.first } else { window.last };
                for _ in 0..leaves {
                    let Some(beside) = self.beside(end, side).await? else { break };
                    end = beside;
                    paths.push(beside);
                }
                self.load_at(0, &paths).await?;
                match side {
                    Side::Left => window.first = end,
                    Side::Right => window.last = end,
                }
                leaves = (leaves * 2).min(step_max);
            }
        }
        Ok(true)
    }

    /// True if no key with a label of the range is beyond that side of a window.
    async fn reaches(&mut self, window: &Window, side: Side, low: Label, high: Label) -> Result<bool, Miss> {
        match side {
            Side::Left => {
                let first = self.leaf(window.first)?.body.labels.first();
                Ok(first.is_some_and(|first| *first <= low)
                    || self.beside(window.first, Side::Left).await?.is_none())
            }
            Side::Right => {
                let next = self.first_label_after(window.last).await?;
                Ok(next.is_none_or(|next| next > high))
            }
        }
    }
}
