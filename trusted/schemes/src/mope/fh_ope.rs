//! FH-OPE, frequency-hiding order-preserving encryption (Kerschbaum, CCS 2015): a key of its own for each occurrence of a value,
//! at a random place among those of equal values.
//!
//! *Walks.* Where several children of a node may take a value, since keys of that value are in all of them, one is drawn; and in a
//! leaf one of the gaps beside and between its keys. That is the random path of Kerschbaum's Algorithm 1, in a tree of many
//! children: the two outer ones, in which other values may be, are drawn half as often as one between. Not every gap is drawn as
//! often as any other, in his tree or in this one: more keys come to the ends of a long run than to as much of its middle.
//!
//! *Constants of queries* come to no place in the tree. Of one that is stored the walk finds the first key and the last
//! ([`super::Place::Among`]), and of any the neighbours that are less and greater.
//!
//! *Deletions* name a ciphertext: a value does not tell which of its keys is meant. The keeper says the ciphertext's label,
//! and the leaf to which that leads, which is verified as any other, must have both.

use super::cipher::{lower_bound, upper_bound};
use super::node::Body;
use super::places::Sorted;
use super::stage::{StagedChange, StagedParts};
use super::work::{Landing, Path, Work, child};
use super::{Miss, NEVER_AT_ITS_VERSION, Place, Stored, TRIES_MAX, Tree};
use crate::error::IndexError;
use arras_protocol::Blob;
use arras_protocol::mope::{Fetch, Label, TreeStore, Tried};
use rand::RngExt;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

const NOT_ITS_LABEL: IndexError =
    IndexError::Contradicted("a ciphertext of an order-preserving tree is not where its label says");

/// To which of the places of a value that has several.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// Before its first key.
    First,
    /// Behind its last key.
    Last,
    /// To any.
    Drawn,
}

/// Values to be looked for, in order; equal ones may be beside each other.
#[derive(Clone, Copy)]
struct Sought<'s> {
    plains: &'s [u8],
    bytes: usize,
    /// To all places of each value or to both of its ends, which are then two things to look for, one behind the other.
    ends: bool,
}

impl<'s> Sought<'s> {
    fn count(&self) -> usize {
        self.plains.len() / self.bytes * if self.ends { 2 } else { 1 }
    }

    fn get(&self, at: usize) -> (&'s [u8], Choice) {
        let (value, choice) = match (self.ends, at % 2) {
            (false, _) => (at, Choice::Drawn),
            (true, 0) => (at / 2, Choice::First),
            (true, _) => (at / 2, Choice::Last),
        };
        (&self.plains[value * self.bytes..(value + 1) * self.bytes], choice)
    }
}

/// Which of `count` children in a row is drawn: the outer ones half as often as one between.
fn drawn_child(count: usize, random: &mut impl RngExt) -> usize {
    if count < 2 { 0 } else { random.random_range(0..2 * (count - 1)).div_ceil(2) }
}

impl<S: TreeStore> Work<'_, S> {
    /// The children of an inner node to which values go, in ascending order, as the values are.
    fn children(&self, inner: &Body, sought: Sought<'_>, values: Range<usize>) -> Vec<usize> {
        let mut random = self.tree.randomness.rng();
        let mut slots: Vec<usize> = Vec::with_capacity(values.len());
        let mut equal = 0;
        for at in values.clone() {
            let (plain, choice) = sought.get(at);
            // Keys equal to the first of a child may be at the end of the one before.
            let first = lower_bound(&inner.plains, sought.bytes, plain).saturating_sub(1);
            let last = upper_bound(&inner.plains, sought.bytes, plain).saturating_sub(1).max(first);
            slots.push(match choice {
                Choice::First => first,
                Choice::Last => last,
                Choice::Drawn => first + drawn_child(last - first + 1, &mut random),
            });
            let is_last = at + 1 == values.end || sought.get(at + 1).0 != plain;
            if is_last {
                slots[equal..].sort_unstable();
                equal = slots.len();
            }
        }
        slots
    }

    /// Reads down to the leaves of values: a round a level at most, those in memory aside. The leaves are opened.
    async fn descend_among(&mut self, sought: Sought<'_>) -> Result<Vec<Landing>, Miss> {
        self.load_root().await?;
        let mut landings = vec![Landing { path: 0, values: 0..sought.count() }];
        for level in (1..=self.height).rev() {
            let mut below: Vec<Landing> = Vec::with_capacity(landings.len());
            for Landing { path, values } in landings {
                let slots = self.children(self.inner(level, path)?.body(), sought, values.clone());
                for (at, slot) in values.zip(slots) {
                    let path = child(path, slot);
                    match below.last_mut() {
                        Some(last) if last.path == path => last.values.end = at + 1,
                        Some(_) | None => below.push(Landing { path, values: at..at + 1 }),
                    }
                }
            }
            let paths: Vec<Path> = below.iter().map(|landing| landing.path).collect();
            self.load_at(level - 1, &paths).await?;
            landings = below;
        }
        for landing in &landings {
            let cipher = &self.tree.cipher;
            self.leaf_mut(landing.path)?.body.open(cipher)?;
        }
        Ok(landings)
    }

    /// Reads down to the leaves that sorted values are to enter, drawn among those that may take them.
    pub(super) async fn descend_drawn(&mut self, sorted: &Sorted) -> Result<Vec<Landing>, Miss> {
        let bytes = self.tree.layout.plain_bytes;
        self.descend_among(Sought { plains: &sorted.plains, bytes, ends: false }).await
    }

    /// Behind how many keys of a leaf each of its new values comes, in ascending order: drawn among the places that equal
    /// values leave.
    pub(super) fn drawn_places(&self, landing: &Landing, sorted: &Sorted) -> Result<Vec<usize>, IndexError> {
        let bytes = self.tree.layout.plain_bytes;
        let plain = |at: usize| &sorted.plains[at * bytes..(at + 1) * bytes];
        let leaf = &self.leaf(landing.path)?.body;
        let mut random = self.tree.randomness.rng();
        // The gap before the first key is the one behind the last of the leaf before: it is that leaf's.
        let least = usize::from(landing.path != 0);
        let mut places: Vec<usize> = Vec::with_capacity(landing.values.len());
        let mut equal = 0;
        for at in landing.values.clone() {
            let first = lower_bound(&leaf.plains, bytes, plain(at)).max(least);
            let last = upper_bound(&leaf.plains, bytes, plain(at)).max(first);
            places.push(random.random_range(first..=last));
            if at + 1 == landing.values.end || plain(at + 1) != plain(at) {
                places[equal..].sort_unstable();
                equal = places.len();
            }
        }
        Ok(places)
    }

    /// Where values are, or would be.
    pub(super) async fn ends(&mut self, sorted: &Sorted) -> Result<Vec<Place>, Miss> {
        let bytes = self.tree.layout.plain_bytes;
        let sought = Sought { plains: &sorted.plains, bytes, ends: true };
        let mut places = Vec::with_capacity(sorted.count);
        let mut before = (None, None);
        for Landing { path, values } in self.descend_among(sought).await? {
            for at in values {
                let (plain, choice) = sought.get(at);
                let leaf = &self.leaf(path)?.body;
                if choice == Choice::First {
                    let first = lower_bound(&leaf.plains, bytes, plain);
                    let below = first.checked_sub(1).map(|below| self.stored(path, below)).transpose()?;
                    before = (below, self.stored_or_next(path, first)?);
                    continue;
                }
                let behind = upper_bound(&leaf.plains, bytes, plain);
                let is_last =
                    behind.checked_sub(1).filter(|last| leaf.plain(*last, &self.tree.layout) == plain);
                let last = is_last.map(|last| self.stored(path, last)).transpose()?;
                let above = self.stored_or_next(path, behind)?;
                places.push(match (std::mem::take(&mut before), last) {
                    ((below, Some(first)), Some(last)) => Place::Among { below, first, last, above },
                    ((below, _), _) => Place::Between { below, above },
                });
            }
        }
        Ok(places)
    }

    /// The labels that the keeper says ciphertexts have, and the leaves, which are read, to which these lead.
    async fn leaves_of(&mut self, ciphertexts: &[Blob]) -> Result<Vec<Option<(Label, Path)>>, Miss> {
        let fetch = Fetch { ciphertexts: ciphertexts.to_vec(), ..Fetch::default() };
        let fetched = self.tree.round(fetch).await?;
        self.is_same_version(&fetched.head)?;
        if fetched.labels.len() != ciphertexts.len() {
            return Err(IndexError::Peer("the answer has not the labels that were asked for").into());
        }
        let mut found = Vec::with_capacity(ciphertexts.len());
        for label in fetched.labels {
            found.push(match label.filter(|_| self.head.values > 0) {
                Some(label) => Some((label, self.way_to(label).await?)),
                None => None,
            });
        }
        let paths: std::collections::BTreeSet<Path> = found.iter().flatten().map(|(_, path)| *path).collect();
        self.load_at(0, &Vec::from_iter(paths)).await?;
        Ok(found)
    }

    /// The place of a key in a leaf, if that has it.
    fn place_of(&self, ciphertext: &Blob, label: Label, path: Path) -> Result<Option<usize>, IndexError> {
        let leaf = &self.leaf(path)?.body;
        let found = leaf.labels.binary_search(&label).ok();
        Ok(found.filter(|at| leaf.ciphertext(*at, &self.tree.layout) == ciphertext.as_slice()))
    }

    /// What taking keys away comes to.
    async fn removed(&mut self, ciphertexts: &[Blob]) -> Result<StagedParts, Miss> {
        let mut gone: BTreeMap<Path, Vec<usize>> = BTreeMap::new();
        let mut left = Vec::new();
        for (ciphertext, found) in ciphertexts.iter().zip(self.leaves_of(ciphertexts).await?) {
            let Some((label, path)) = found else { continue };
            let place = self.place_of(ciphertext, label, path)?.ok_or(NOT_ITS_LABEL)?;
            let places = gone.entry(path).or_default();
            if !places.contains(&place) {
                places.push(place);
                left.push(ciphertext.clone());
            }
        }
        let layout = self.tree.layout;
        for (path, mut places) in gone {
            places.sort_unstable();
            let leaf = self.leaf_mut(path)?;
            leaf.body = leaf.body.without(&places, &layout);
            leaf.changed = true;
        }
        let (last, tending) = {
            let cache = self.tree.shared.cache();
            (cache.last, cache.tending.clone())
        };
        self.left(left, last, tending).await
    }
}

impl<S: TreeStore> Tree<S> {
    /// Takes keys away by their ciphertexts (FH-OPE); those that are not there are passed over. Applied at once, unless others have
    /// to be waited for longer than `wait`: then nothing was done, and the answer is false.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn remove_stored(&self, ciphertexts: &[Blob], wait: Duration) -> Result<bool, IndexError> {
        let _turn = self.in_turn().await;
        for _ in 0..TRIES_MAX {
            match self.apply_within(self.stage_removed(ciphertexts).await?, wait).await? {
                Tried::Applied => return Ok(true),
                Tried::Busy => return Ok(false),
                Tried::OtherVersion => {}
            }
        }
        Err(NEVER_AT_ITS_VERSION)
    }

    async fn stage_removed(&self, ciphertexts: &[Blob]) -> Result<StagedChange, IndexError> {
        let mut again = None;
        for _ in 0..TRIES_MAX {
            let mut work = Work::start(self, again.take()).await?.for_change();
            match work.removed(ciphertexts).await {
                Ok(parts) => return Ok(self.staged(parts)),
                Err(Miss::Moved) => again = Some(work.seen()),
                Err(Miss::Crowded(_)) => return Err(IndexError::Caller("a deletion needs no room")),
                Err(Miss::Failed(error)) => return Err(error),
            }
        }
        Err(IndexError::Peer("an order-preserving tree changes faster than it can be read"))
    }

    /// Of what the table has, which entries the tree has, too, under the same label: for who compares the two.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn holds(&self, entries: &[Stored]) -> Result<Vec<bool>, IndexError> {
        let mut again = None;
        'tries: for _ in 0..TRIES_MAX {
            let mut work = Work::start(self, again.take()).await?;
            if work.head.values == 0 {
                return Ok(vec![false; entries.len()]);
            }
            let mut held = Vec::with_capacity(entries.len());
            for Stored { ciphertext, label } in entries {
                match work.holds(ciphertext, *label).await {
                    Ok(found) => held.push(found),
                    Err(Miss::Moved) => {
                        again = Some(work.seen());
                        continue 'tries;
                    }
                    Err(Miss::Crowded(_)) => return Err(IndexError::Caller("a look-up needs no room")),
                    Err(Miss::Failed(error)) => return Err(error),
                }
            }
            return Ok(held);
        }
        Err(IndexError::Peer("an order-preserving tree changes faster than it can be read"))
    }
}

impl<S: TreeStore> Work<'_, S> {
    async fn holds(&mut self, ciphertext: &Blob, label: Label) -> Result<bool, Miss> {
        let path = self.way_to(label).await?;
        self.load_at(0, &[path]).await?;
        Ok(self.place_of(ciphertext, label, path)?.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::drawn_child;
    use crate::random::Randomness;

    #[test]
    fn children_between_are_drawn_twice_as_often_as_the_outer_ones() {
        let randomness = Randomness::default();
        let mut random = randomness.rng();
        assert_eq!(drawn_child(1, &mut random), 0);
        let mut drawn = [0_u32; 4];
        (0..6000).for_each(|_| drawn[drawn_child(4, &mut random)] += 1);
        for (count, expected) in drawn.into_iter().zip([1000, 2000, 2000, 1000]) {
            // Eight deviations.
            assert!(count.abs_diff(expected) < 330, "{drawn:?}");
        }
    }
}
