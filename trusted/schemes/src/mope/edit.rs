//! What a change comes to in the leaves.
//!
//! In this order, which is that of [`arras_protocol::mope::TreeChange`]: keys leave, labels of those that stay are spread where
//! there is no room, and new keys take their places.

use super::labels::{Last, place};
use super::node::{Body, Layout};
use super::places::Sorted;
use super::room::{Followed, Gap, Spreads};
use super::tend::{Tending, Tight};
use super::work::{Landing, Path, Work};
use super::{Kind, Miss, Stored};
use crate::error::IndexError;
use arras_primitives::wipe::Wiped;
use arras_protocol::Blob;
use arras_protocol::mope::{Label, TreeStore};
use std::ops::Range;
use std::slice::ChunksExact;

const NOT_THERE: IndexError = IndexError::Caller("a value to be removed is not there as often");
const TOO_OFTEN: IndexError = IndexError::Caller("a value has 2^32 occurrences at most");

/// Occurrences of a value that come and go.
#[derive(Clone, Copy, Default)]
pub(super) struct Amount {
    pub(super) added: u32,
    pub(super) removed: u32,
}

/// What a change comes to.
#[derive(Default)]
pub(super) struct Edited {
    /// Ciphertexts of keys that leave.
    pub(super) left: Vec<Blob>,
    /// Keys that enter, with their labels.
    pub(super) entered: Vec<(Blob, Label)>,
    pub(super) spreads: Spreads,
    /// Of each value in order; none if nothing was asked of it but to go.
    pub(super) stored: Vec<Option<Stored>>,
    /// The label inserted last.
    pub(super) last: Option<Last>,
    /// Labels that are to change before there is no room.
    pub(super) tending: Tending,
}

/// What becomes of a value in a leaf.
#[derive(Clone, Copy)]
enum Fate {
    /// It is the key with so many kept ones before it.
    Kept(usize),
    /// It comes after so many kept keys.
    New(usize),
    /// It goes.
    Gone,
}

/// What becomes of the values that belong to a leaf.
struct Edit {
    path: Path,
    values: Range<usize>,
    fates: Vec<Fate>,
}

impl Edit {
    /// Where new keys come to a leaf, in order.
    fn gaps(&self) -> Vec<Gap> {
        let mut gaps: Vec<Gap> = Vec::new();
        for fate in &self.fates {
            let Fate::New(position) = *fate else { continue };
            match gaps.last_mut() {
                Some(gap) if gap.position == position => gap.keys += 1,
                Some(_) | None => gaps.push(Gap { path: self.path, position, keys: 1 }),
            }
        }
        gaps
    }

    fn entered(&self) -> impl Iterator<Item = usize> {
        let fates = self.values.clone().zip(&self.fates);
        fates.filter(|(_, fate)| matches!(fate, Fate::New(_))).map(|(at, _)| at)
    }
}

/// What new keys are made of.
struct New<'a> {
    amounts: &'a [Amount],
    /// Their ciphertexts, in order.
    sealed: ChunksExact<'a, u8>,
    /// The label inserted last.
    last: Option<Last>,
    /// Of each value that is new: how long a run it is the last of.
    runs: Vec<Option<u64>>,
}

impl<S: TreeStore> Work<'_, S> {
    /// Changes the leaves. `inserted` of the values as they came are insertions; so many labels are rewritten at `most`.
    pub(super) async fn edit(
        &mut self,
        sorted: &Sorted,
        amounts: &[Amount],
        inserted: usize,
        most: usize,
    ) -> Result<Edited, Miss> {
        let mut edited = Edited::default();
        if sorted.count == 0 {
            return Ok(edited);
        }
        let landings = match self.tree.kind {
            Kind::Mope | Kind::Stope => self.descend(&sorted.plains, sorted.count).await?,
            Kind::FrequencyHiding => self.descend_drawn(sorted).await?,
        };
        let mut edits = Vec::with_capacity(landings.len());
        for landing in landings {
            edits.push(self.occurrences(landing, sorted, amounts, &mut edited.left)?);
        }
        let gaps: Vec<Gap> = edits.iter().flat_map(Edit::gaps).collect();
        let mut followed = Followed { last: self.tree.shared.cache().last, anchor: None };
        let early = self.tend_within(&mut edited.tending, &mut followed).await?;
        let most = most - early.rewritten.min(most);
        edited.spreads = early.and(self.make_room(&gaps, &mut followed, most).await?);
        let last = followed.last;
        let mut sealed = Vec::new();
        let bytes = self.tree.layout.plain_bytes;
        let plain = |at: usize| &sorted.plains[at * bytes..(at + 1) * bytes];
        self.tree.cipher.seal_each(edits.iter().flat_map(Edit::entered).map(plain), &mut sealed);
        let sealed = sealed.chunks_exact(self.tree.layout.ciphertext_bytes);
        edited.stored.reserve(sorted.count);
        edited.entered.reserve(sealed.len());
        let mut new = New { amounts, sealed, last, runs: vec![None; sorted.count] };
        for edit in &edits {
            self.enter(edit, &mut new, &mut edited).await?;
        }
        let mut ranks = sorted.ranks.iter().take(inserted).rev();
        let newest = ranks.find_map(|rank| Some((edited.stored[*rank].as_ref()?.label, new.runs[*rank]?)));
        edited.last = newest.map_or(last, |(label, run)| Some(Last { label, run }));
        Ok(edited)
    }

    /// Counts occurrences of a leaf's values, and takes those away that have none any more.
    fn occurrences(
        &mut self,
        landing: Landing,
        sorted: &Sorted,
        amounts: &[Amount],
        left: &mut Vec<Blob>,
    ) -> Result<Edit, IndexError> {
        let tree = self.tree;
        if tree.kind == Kind::FrequencyHiding {
            // Each is a key of its own.
            let fates = self.drawn_places(&landing, sorted)?.into_iter().map(Fate::New).collect();
            return Ok(Edit { path: landing.path, values: landing.values, fates });
        }
        let layout = &tree.layout;
        let leaf = self.leaf_mut(landing.path)?;
        let mut fates = Vec::with_capacity(landing.values.len());
        let mut gone: Vec<usize> = Vec::new();
        for at in landing.values.clone() {
            let amount = amounts.get(at).copied().unwrap_or_default();
            let plain = &sorted.plains[at * layout.plain_bytes..(at + 1) * layout.plain_bytes];
            let place = match tree.locate(&leaf.body, plain)? {
                Ok(place) => place,
                Err(_) if amount.removed > 0 => return Err(NOT_THERE),
                Err(place) => {
                    fates.push(Fate::New(place - gone.len()));
                    continue;
                }
            };
            let mut fate = Fate::Kept(place - gone.len());
            if let Some(count) = leaf.body.counts.get_mut(place) {
                let kept = count.checked_sub(amount.removed).ok_or(NOT_THERE)?;
                let now = kept.checked_add(amount.added).ok_or(TOO_OFTEN)?;
                leaf.changed |= now != *count;
                *count = now;
                if now == 0 {
                    left.push(Blob(leaf.body.ciphertext(place, layout).to_vec()));
                    gone.push(place);
                    fate = Fate::Gone;
                }
            }
            fates.push(fate);
        }
        if !gone.is_empty() {
            leaf.body = leaf.body.without(&gone, layout);
        }
        Ok(Edit { path: landing.path, values: landing.values, fates })
    }

    /// Enters a leaf's new keys, for which there is room, and tells what its values are stored as.
    async fn enter(&mut self, edit: &Edit, new: &mut New<'_>, edited: &mut Edited) -> Result<(), Miss> {
        let layout = self.tree.layout;
        let mut labels = Vec::new();
        for gap in edit.gaps() {
            let (below, above) = self.neighbours(gap.path, gap.position).await?;
            let row = place(below, above, gap.keys, new.last);
            let row = row.ok_or(IndexError::Caller("an order-preserving tree has no label left"))?;
            let run = Last::run_at(new.last, below, above);
            let run = run.map_or(gap.keys - 1, |run| run.saturating_add(gap.keys));
            labels.extend((0..gap.keys).map(|rank| (row.label(rank), run)));
            let beyond = above.unwrap_or(Label::MAX) - row.label(gap.keys - 1);
            let mut room = beyond.max(row.start - below.unwrap_or(Label::MIN));
            if gap.keys > 1 {
                room = room.min(row.step);
            }
            let crowded = edited.spreads.crowded.contains(&(gap.path, gap.position));
            let tight = Tight::at(row.start, gap.keys, if crowded { 0 } else { room });
            edited.tending.tight = tight.or(edited.tending.tight);
        }
        let leaf = self.leaf_mut(edit.path)?;
        if !labels.is_empty() {
            leaf.changed = true;
            leaf.body.plains = Wiped::default();
            let old = std::mem::take(&mut leaf.body);
            leaf.body = Body::with_capacity(0, old.len() + labels.len(), &layout);
            let mut labels = labels.into_iter();
            let mut from = 0;
            for (at, fate) in edit.values.clone().zip(&edit.fates) {
                let Fate::New(place) = *fate else { continue };
                let (Some((label, run)), Some(ciphertext)) = (labels.next(), new.sealed.next()) else {
                    continue;
                };
                new.runs[at] = Some(run);
                leaf.body.append(&old, from..place, &layout);
                from = place;
                leaf.body.enter(ciphertext, label, new.amounts[at].added, &layout);
                edited.entered.push((Blob(ciphertext.to_vec()), label));
            }
            leaf.body.append(&old, from..old.len(), &layout);
        }
        edited.settle(edit, &leaf.body, new.amounts, &layout);
        Ok(())
    }
}

impl Edited {
    /// Tells what a leaf's values are stored as.
    fn settle(&mut self, edit: &Edit, leaf: &Body, amounts: &[Amount], layout: &Layout) {
        let mut entered = 0;
        for (at, fate) in edit.values.clone().zip(&edit.fates) {
            let place = match *fate {
                Fate::Kept(place) => Some(place + entered),
                Fate::New(place) => {
                    entered += 1;
                    Some(place + entered - 1)
                }
                Fate::Gone => None,
            };
            let place = place.filter(|_| amounts[at].added > 0);
            self.stored.push(place.map(|place| Stored {
                ciphertext: Blob(leaf.ciphertext(place, layout).to_vec()),
                label: leaf.labels[place],
            }));
        }
    }
}
