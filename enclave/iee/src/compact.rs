//! Compaction: keywords' entries are written anew under a fresh epoch, without what was deleted or belongs to documents that are gone.

use crate::collection::{Collection, payload, puts};
use crate::fetch::Fetch;
use crate::keys::EntryKeys;
use crate::lane::Cause;
use crate::spill::Gathered;
use crate::table::{Counted, SEGMENTS};
use arras_primitives::Block;
use arras_primitives::prg::Prg;
use arras_schemes::bisen::update::{Metadata, Operation};
use std::collections::HashSet;

/// Entries that a round reads, at least, unless nothing is left: keywords of whole segments, so that what is read together is not one
/// keyword's.
pub(crate) const ROUND: u64 = 1 << 16;

/// A round.
pub(crate) struct Round {
    pub(crate) collection: u32,
    pub(crate) fetch: Fetch,
    /// Where the next round begins.
    pub(crate) next: Option<u64>,
    /// Its epoch, once that is used up.
    pub(crate) epoch: Option<u32>,
    /// What keywords have afterwards, as far as it is not logged, and how much of what they had only what is spilled says.
    pub(crate) counts: Vec<((Block, [u8; 4]), u32)>,
    pub(crate) read: u64,
    /// How many entries fewer there are.
    pub(crate) saved: u64,
    /// Bytes that the table may take afterwards.
    pub(crate) table_bytes: usize,
    pub(crate) cause: Cause,
}

/// The keywords of a round of the segments that were gathered, and where the next one begins.
pub(crate) fn choose(collection: &Collection, mut gathered: Gathered) -> (Vec<Counted>, Option<u64>) {
    let (mut keywords, mut entries) = (Vec::new(), 0);
    for segment in gathered.segments() {
        if entries >= gathered.most {
            return (keywords, Some(segment as u64));
        }
        let mut spilled = gathered.take(segment);
        let slots = collection.table.segment(segment);
        let here = slots.map(|slot| (slot.stem, spilled.remove(&slot.stem).unwrap_or_default(), Some(slot)));
        let mut counted: Vec<Counted> =
            here.map(|(stem, runs, slot)| Counted::new(stem, runs, slot)).collect();
        counted.extend(spilled.into_iter().map(|(stem, runs)| Counted::new(stem, runs, None)));
        for keyword in counted.into_iter().filter(|keyword| keyword.entries() > 0) {
            entries += keyword.entries();
            keywords.push(keyword);
        }
    }
    let next = gathered.segments().end;
    (keywords, (next < SEGMENTS).then_some(next as u64))
}

/// Bytes that a round takes: its fetch, and entries to be put.
pub(crate) fn bytes_for(keywords: &[Counted]) -> usize {
    let entries: u64 = keywords.iter().map(Counted::entries).sum();
    let runs: usize = keywords.iter().map(|keyword| keyword.runs.len()).sum();
    Fetch::bytes_for(entries, true)
        .saturating_add(entries as usize * 3 * (16 + 48))
        .saturating_add(keywords.len() * 128 + runs * 32)
}

impl Round {
    pub(crate) fn new(
        collection: u32,
        keywords: Vec<Counted>,
        next: Option<u64>,
        table_bytes: usize,
        cause: Cause,
    ) -> Self {
        let fetch = Fetch::new(keywords.into_iter(), true);
        let read = fetch.entries() as u64;
        let (epoch, counts) = (None, Vec::new());
        Self { collection, fetch, next, epoch, counts, read, saved: read, table_bytes, cause }
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
            self.counts.push(((word.stem, (kept.len() as u32).to_le_bytes()), word.spilled));
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
