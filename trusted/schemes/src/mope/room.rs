//! Room for new labels where there is none: ranges of labels spread evenly ([`super::labels`]).

use super::Miss;
use super::labels::{aligned, place, spread};
use super::work::{Path, Side, Work};
use crate::error::IndexError;
use arras_protocol::mope::{Label, Summary, TreeStore};

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
    pub(super) rewritten: u64,
}

/// Leaves beside each other, all of them read.
struct Window {
    first: Path,
    last: Path,
}

impl<S: TreeStore> Work<'_, S> {
    /// Sees to it that each gap has room. `last` is the label inserted last, and follows what happens to it.
    pub(super) async fn make_room(
        &mut self,
        gaps: &[Gap],
        last: &mut Option<Label>,
    ) -> Result<Spreads, Miss> {
        let mut spreads = Spreads::default();
        for gap in gaps {
            let (below, above) = self.neighbours(gap.path, gap.position).await?;
            let anchor = below.or(above);
            if let Some(anchor) = anchor
                && place(below, above, gap.keys, *last).is_none()
            {
                self.spread_around(anchor, gap, gaps, (last, &mut spreads)).await?;
            }
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

    /// Spreads the smallest range around a label that has room for what is to come into it.
    async fn spread_around(
        &mut self,
        anchor: Label,
        gap: &Gap,
        gaps: &[Gap],
        (last, spreads): (&mut Option<Label>, &mut Spreads),
    ) -> Result<(), Miss> {
        let mut window = Window { first: gap.path, last: gap.path };
        for bits in 1..=u64::BITS {
            let (low, high) = aligned(anchor, bits);
            self.widen(&mut window, low, high).await?;
            let leaves = self.leaves.range(window.first..=window.last);
            let within = |labels: &[Label]| {
                labels.partition_point(|label| *label <= high) - labels.partition_point(|label| *label < low)
            };
            let keys: usize = leaves.map(|(_, leaf)| within(&leaf.body.labels)).sum();
            // At most: the new keys of the window may lie outside of the range.
            let new = gaps
                .iter()
                .filter(|gap| (window.first..=window.last).contains(&gap.path))
                .map(|gap| gap.keys);
            let (all, most) = new.fold((0, 0), |(all, most), keys| (all + keys, keys.max(most)));
            if let Some(row) = spread(low, bits, keys as u64, all, most) {
                let summary = self.relabel(&window, (low, high), row, (last, spreads));
                spreads.summaries.extend(summary);
                return Ok(());
            }
        }
        Err(Miss::Failed(IndexError::Caller("an order-preserving tree has no label left for so many values")))
    }

    /// Gives the keys of a range their new labels.
    fn relabel(
        &mut self,
        window: &Window,
        (low, high): (Label, Label),
        row: super::labels::Row,
        (last, spreads): (&mut Option<Label>, &mut Spreads),
    ) -> Option<Summary> {
        let (mut rank, mut old): (u64, Option<(Label, Label)>) = (0, None);
        let before = *last;
        for leaf in self.leaves.range_mut(window.first..=window.last).map(|(_, leaf)| leaf) {
            for label in leaf.body.labels.iter_mut().filter(|label| (low..=high).contains(*label)) {
                let new = row.label(rank);
                rank += 1;
                old = Some((old.map_or(*label, |(first, _)| first), *label));
                if before == Some(*label) {
                    *last = Some(new);
                }
                if *label != new {
                    *label = new;
                    leaf.changed = true;
                    spreads.rewritten += 1;
                }
            }
        }
        old.map(|(low, high)| Summary::Spread { low, high, start: row.start, step: row.step })
    }

    /// Widens a window until it has all keys with labels from `low` to `high`.
    async fn widen(&mut self, window: &mut Window, low: Label, high: Label) -> Result<(), Miss> {
        for (side, mut leaves) in [(Side::Left, 1), (Side::Right, 1)] {
            while !self.reaches(window, side, low, high).await? {
                let mut paths = Vec::with_capacity(leaves);
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
                leaves *= 2;
            }
        }
        Ok(())
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
