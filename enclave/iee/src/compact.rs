//! Compaction: keywords' entries are written anew under a fresh epoch, without what was deleted or belongs to documents that are gone.

use crate::collection::{Collection, payload, puts};
use crate::fetch::Fetch;
use crate::keys::EntryKeys;
use crate::lane::Cause;
use crate::table::{SEGMENTS, Slot};
use arras_primitives::Block;
use arras_primitives::prg::Prg;
use arras_schemes::bisen::update::{Metadata, Operation};
use std::collections::HashSet;

/// Entries that a round reads, at least, unless nothing is left: keywords of whole segments, so that what is read together is not one
/// keyword's.
const ROUND: u64 = 1 << 16;

/// A round.
pub(crate) struct Round {
    pub(crate) collection: u32,
    pub(crate) fetch: Fetch,
    /// Where the next round begins.
    pub(crate) next: Option<u64>,
    /// Its epoch, once that is used up.
    pub(crate) epoch: Option<u32>,
    /// What keywords have afterwards, as far as it is not logged.
    pub(crate) counts: Vec<(Block, [u8; 4])>,
    pub(crate) read: u64,
    /// How many entries fewer there are.
    pub(crate) saved: u64,
    pub(crate) cause: Cause,
}

/// The keywords of a round from a segment on, and where the next one begins.
pub(crate) fn choose(collection: &Collection, from: u64) -> (Vec<Slot>, Option<u64>) {
    let (mut slots, mut entries) = (Vec::new(), 0);
    let first = usize::try_from(from).unwrap_or(SEGMENTS).min(SEGMENTS);
    for segment in first..SEGMENTS {
        if entries >= ROUND {
            return (slots, Some(segment as u64));
        }
        for slot in collection.table.segment(segment).filter(|slot| slot.count > 0) {
            slots.push(*slot);
            entries += u64::from(slot.count);
        }
    }
    (slots, None)
}

/// Bytes that a round takes: its fetch, and entries to be put.
pub(crate) fn bytes_for(slots: &[Slot]) -> usize {
    let entries: u64 = slots.iter().map(|slot| u64::from(slot.count)).sum();
    Fetch::bytes_for(entries, true)
        .saturating_add(entries as usize * 3 * (16 + 48))
        .saturating_add(slots.len() * 64)
}

impl Round {
    pub(crate) fn new(collection: u32, slots: Vec<Slot>, next: Option<u64>, cause: Cause) -> Self {
        let fetch = Fetch::new(slots.into_iter(), true);
        let read = fetch.entries() as u64;
        Self { collection, fetch, next, epoch: None, counts: Vec::new(), read, saved: read, cause }
    }

    /// Puts of what is left, once all entries are there.
    pub(crate) fn rewrite(&mut self, collection: &Collection, prg: &mut Prg) -> Vec<Vec<u8>> {
        let (mut places, mut blocks) = (Vec::new(), Vec::new());
        let epoch = self.epoch.unwrap_or_default();
        for (at, word) in self.fetch.words().iter().enumerate() {
            let kept = keep(&self.fetch, at, |number| !collection.documents.is_retired(number));
            for ((operation, number, metadata), counter) in kept.iter().rev().zip(0..) {
                places.push(EntryKeys::place(&word.stem, epoch, counter));
                blocks.push(payload(*operation, *number, &metadata.0));
            }
            self.counts.push((word.stem, (kept.len() as u32).to_le_bytes()));
        }
        self.saved = self.read - places.len() as u64;
        puts(&collection.keys, places, blocks, prg)
    }
}

/// What still says something, newest first: the last addition of each document with its continuations.
fn keep(fetch: &Fetch, word: usize, there: impl Fn(u32) -> bool) -> Vec<(Operation, u32, Metadata)> {
    let mut closed = HashSet::new();
    let open = |(operation, number, _): &(Operation, u32, Metadata)| {
        let open = !closed.contains(number);
        if *operation != Operation::Continue {
            closed.insert(*number);
        }
        open && *operation != Operation::Delete && there(*number)
    };
    fetch.newest_first(word).filter(open).collect()
}
