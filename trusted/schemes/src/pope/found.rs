//! What a search has found: of each entry the element that counts, and those that are to go.

use super::IndexError;
use super::element::{Elements, Opened, Plain};
use arras_protocol::pope::{Located, Run};
use arras_protocol::{Blob, RowId};
use std::collections::HashMap;

/// Elements of a search that may be held before what does not count among them is dropped: a server that returns the same
/// elements again and again has no more held than about twice what it was ever given.
const ELEMENTS_AT_FIRST: usize = 1 << 20;

/// Most elements that one purge takes out.
const PURGED_MAX: usize = 1 << 14;

/// Most bytes of replies that are kept until it is known what a purge takes out of them.
const KEPT_BYTES_MAX: usize = 32 << 20;

/// A reply's elements and where they are stored.
pub(super) struct Reply {
    pub(super) elements: Blob,
    pub(super) runs: Vec<Run>,
}

/// What the replies to one search come to.
pub(super) struct Found {
    lower: u64,
    upper: u64,
    /// Elements of the range.
    plains: Vec<Plain>,
    /// Elements of the range that do not count.
    dead: Vec<Plain>,
    room: usize,
    /// Elements of the range that are more than the search is for.
    most: usize,
    /// The replies, for as long as what is dead in them can be located.
    replies: Vec<Reply>,
    kept_bytes: usize,
    /// Whether something dead may not have been noted: then no tombstone goes, as something older may stay.
    is_partial: bool,
}

/// The end of a search.
pub(super) struct Settled {
    /// The entries, ascending by value and row.
    pub(super) entries: Vec<(u64, RowId)>,
    /// What is to be taken out.
    pub(super) purge: Vec<Located>,
    /// Tombstones that have to stay for now.
    pub(super) tombstones: usize,
}

impl Found {
    /// Of a range of values, both ends included, as long as its elements are not more than `most`.
    pub(super) fn new(lower: u64, upper: u64, most: usize) -> Self {
        Self {
            lower,
            upper,
            most,
            plains: Vec::new(),
            dead: Vec::new(),
            room: ELEMENTS_AT_FIRST,
            replies: Vec::new(),
            kept_bytes: 0,
            is_partial: false,
        }
    }

    /// Takes a reply.
    pub(super) fn take(
        &mut self,
        elements: &Elements,
        reply: Reply,
        opened: &Opened,
    ) -> Result<(), IndexError> {
        let mut rest = opened.all();
        self.plains.reserve(opened.count());
        for run in &reply.runs {
            let leaf = self.plains.len();
            let (plains, others) = rest.split_at(run.count as usize);
            let range = self.lower..=self.upper;
            self.plains.extend(plains.iter().filter(|plain| range.contains(&plain.value)));
            self.plains[leaf..].sort_unstable_by_key(|plain| plain.value);
            rest = others;
        }
        if !rest.is_empty() {
            return Err(IndexError::Peer("elements that are nowhere"));
        }
        self.kept_bytes += reply.elements.len();
        self.replies.push(reply);
        if self.kept_bytes > KEPT_BYTES_MAX {
            self.replies.clear();
            self.is_partial = true;
        }
        if self.plains.len() > self.room {
            self.settle(elements);
            self.room = (2 * self.plains.len()).max(ELEMENTS_AT_FIRST);
        }
        Ok(())
    }

    /// Whether there are more elements than the search is for; then they are not all.
    pub(super) fn is_too_many(&self) -> bool {
        self.plains.len() > self.most
    }

    /// Sorts by value and row, and keeps of each entry the newest element. They come nearly sorted by value.
    fn settle(&mut self, elements: &Elements) {
        if !self.plains.is_sorted_by_key(|plain| plain.value) {
            self.plains.sort_unstable_by_key(|plain| plain.value);
        }
        let equal = self.plains.chunk_by_mut(|one, other| one.value == other.value);
        equal.for_each(|plains| plains.sort_unstable_by_key(|plain| plain.row));
        if !self.plains.windows(2).any(|two| two[0].is_of(&two[1])) {
            return;
        }
        let mut kept: Vec<Plain> = Vec::with_capacity(self.plains.len());
        for entry in self.plains.chunk_by_mut(|one, other| one.is_of(other)) {
            entry.sort_unstable_by_key(|plain| std::cmp::Reverse(elements.number(plain)));
            let room = PURGED_MAX.saturating_sub(self.dead.len());
            kept.extend(entry.first());
            self.is_partial |= entry.len() - 1 > room;
            self.dead.extend(entry.iter().skip(1).take(room));
        }
        self.plains = kept;
    }

    /// What was found, and what is to go: all that does not count, and the tombstones of epochs below `tombstones_below` where
    /// nothing that they are about stays.
    pub(super) fn settled(
        mut self,
        elements: &Elements,
        tombstones_below: u64,
    ) -> Result<Settled, IndexError> {
        self.settle(elements);
        let mut tombstones = 0;
        if self.plains.iter().any(Plain::is_tombstone) {
            let may_go = !self.is_partial;
            let (dead, room) = (&mut self.dead, PURGED_MAX);
            self.plains.retain(|plain| {
                if plain.is_tombstone() {
                    let goes = may_go && elements.number(plain).epoch() < tombstones_below;
                    if goes && dead.len() < room {
                        dead.push(*plain);
                    } else {
                        tombstones += 1;
                    }
                }
                !plain.is_tombstone()
            });
        }
        let entries = self.plains.iter().map(|plain| (plain.value, plain.row)).collect();
        Ok(Settled { entries, purge: locate(elements, &self.replies, &self.dead)?, tombstones })
    }
}

/// Finds elements in the replies that brought them.
fn locate(elements: &Elements, replies: &[Reply], dead: &[Plain]) -> Result<Vec<Located>, IndexError> {
    let mut located = Vec::new();
    let mut copies: HashMap<Plain, u32> = HashMap::new();
    dead.iter().for_each(|plain| *copies.entry(*plain).or_default() += 1);
    for reply in replies.iter().filter(|_| !dead.is_empty()) {
        let opened = elements.open(reply.elements.as_slice())?;
        let places = reply.runs.iter().flat_map(|run| std::iter::repeat_n(run.node, run.count as usize));
        let sealed = reply.elements.as_slice().chunks_exact(elements.sealed_bytes());
        for ((plain, node), element) in opened.iter().zip(places).zip(sealed) {
            if let Some(left) = copies.get_mut(&plain)
                && *left > 0
            {
                *left -= 1;
                located.push(Located { node, element: Blob(element.to_vec()) });
            }
        }
    }
    // By place: what belongs together is not named together.
    located.sort_unstable_by(|one, other| {
        (one.node, one.element.as_slice()).cmp(&(other.node, other.element.as_slice()))
    });
    Ok(located)
}
