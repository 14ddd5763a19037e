//! Compaction: keywords' entries are written anew under a fresh epoch, without what was deleted or belongs to documents that are gone.

use crate::budget::Reserved;
use crate::collection::{Collection, payload, puts};
use crate::fault::Fault;
use crate::fetch::{Fetch, Order};
use crate::journal::{COUNTED_MAX, Change, round_keywords};
use crate::keys::EntryKeys;
use crate::lane::Stopped;
use crate::server::{Core, Enclave};
use crate::spill::Gathered;
use crate::table::{Counted, KEYWORD_BYTES, SEGMENTS};
use crate::tasks::in_flights;
use arras_primitives::Block;
use arras_primitives::prg::Prg;
use arras_protocol::Blob;
use arras_protocol::iee::Outgoing;
use arras_schemes::bisen::message::{Refused, Reply, Setting};
use arras_schemes::bisen::update::{Fence, Metadata, Operation};
use std::collections::HashSet;

/// Entries that a round reads, on average: keywords of whole segments, so that what is read together is not one keyword's.
pub(crate) const ROUND: u64 = 9 << 13;

/// The keywords of the segments that were gathered.
fn choose(collection: &Collection, Gathered { range, mut found, .. }: Gathered) -> Vec<Counted> {
    let slots = range.flat_map(|segment| collection.table.segment(segment));
    let here = slots.map(|(stem, slot)| (*stem, found.remove(stem).unwrap_or_default(), Some(slot)));
    let mut keywords: Vec<Counted> = here.map(|(stem, runs, slot)| Counted::new(stem, runs, slot)).collect();
    keywords.extend(found.into_iter().map(|(stem, runs)| Counted::new(stem, runs, None)));
    keywords.retain(|keyword| keyword.entries() > 0);
    keywords
}

/// Bytes that a round takes: its fetch, and entries to be put.
pub(crate) fn bytes_for(keywords: &[Counted]) -> usize {
    let entries: u64 = keywords.iter().map(Counted::entries).sum();
    let runs: usize = keywords.iter().map(|keyword| keyword.runs.len()).sum();
    Fetch::bytes_for(entries, true)
        .saturating_add(entries as usize * 3 * (16 + 48))
        .saturating_add(keywords.len() * 128 + runs * 32)
}

/// Of a keyword: what it has afterwards, and how many entries fewer that is.
type Counts = Vec<((Block, [u8; 4]), u32)>;

fn saved_by(counts: &[((Block, [u8; 4]), u32)]) -> u64 {
    counts.iter().map(|(_, saved)| u64::from(*saved)).sum()
}

/// Puts of what is left, once all entries are there; and what keywords have then.
fn rewrite(fetch: &Fetch, epoch: u32, of: &Collection, prg: &mut Prg) -> (Vec<Vec<u8>>, Counts) {
    let (mut places, mut blocks, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for (at, word) in fetch.words.iter().enumerate() {
        let kept = keep(fetch, at, |number| !of.documents.is_retired(number));
        for ((operation, number, metadata), counter) in kept.iter().rev().zip(0..) {
            places.push(EntryKeys::place(&word.stem, epoch, counter));
            blocks.push(payload(*operation, *number, &metadata.0));
        }
        let left = kept.len() as u32;
        counts.push(((word.stem, left.to_le_bytes()), word.count - left));
    }
    (puts(&of.keys, places, blocks, prg), counts)
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

impl Core {
    /// The keywords of a round and where the next one begins, if there is anything to do.
    fn choose(&self, number: u32, gathered: Gathered) -> Result<(Vec<Counted>, Option<u64>), Refused> {
        if let Some(needed) = gathered.beyond() {
            return Err(Refused::Memory { needed: needed as u64, budget: gathered.bytes as u64 });
        }
        let next = Some(gathered.range.end as u64).filter(|next| *next < SEGMENTS as u64);
        let keywords = choose(self.state.collection(number)?, gathered);
        // No label may come a second time.
        if self.state.epochs == u32::MAX && !keywords.is_empty() {
            return Err(Refused::Bound(Setting::Number));
        }
        Ok((keywords, next))
    }
}

impl Enclave {
    /// One round.
    pub(crate) async fn compact(&self, number: u32, from: u64, fence: Fence) -> Result<Reply, Stopped> {
        let revision = self.core().state.collection(number)?.revision_with(fence)?;
        let gathered = self.gather(number, from).await?;
        let (keywords, next) = self.core().choose(number, gathered)?;
        let bound = self.core().state.collection(number)?.documents.bound();
        if keywords.is_empty() {
            return Ok(Reply::Compacted { next, read: 0, saved: 0 });
        }
        // Where nothing is spilled, the table has them all.
        let growth = keywords.len() * KEYWORD_BYTES * usize::from(self.core().state.spilled.is_some());
        let reserved = self.core().make_room_for_data(growth, bytes_for(&keywords))?;
        self.core().fill.since += round_keywords(keywords.len());
        let fetch = Fetch::new(keywords.into_iter(), true, bound);
        let compacted = self.round(number, revision, fetch, next, reserved).await;
        let core = &mut *self.core();
        core.budget.kept = core.state.bytes();
        compacted
    }

    async fn round(
        &self,
        number: u32,
        revision: u128,
        mut fetch: Fetch,
        next: Option<u64>,
        reserved: Reserved,
    ) -> Result<Reply, Stopped> {
        self.log(&Change::Epoch).await?;
        self.fetch(&mut fetch, number).await.map_err(Refused::Storage)?;
        let (epoch, before, (puts, counts)) = {
            let core = &mut *self.core();
            let (epoch, collection) = (core.state.epochs, core.state.collection(number)?);
            (epoch, collection.revision, rewrite(&fetch, epoch, collection, &mut core.prg))
        };
        self.put(puts).await;
        for (some, done) in counts.chunks(COUNTED_MAX).zip((COUNTED_MAX..).step_by(COUNTED_MAX)) {
            // The round has brought the collection forward when all of it is there.
            let revision = if done < counts.len() { before } else { revision }.to_le_bytes();
            let saved = saved_by(some).to_le_bytes();
            let keywords = some.iter().map(|(counted, _)| *counted).collect();
            self.log(&Change::Compacted { collection: number, epoch, revision, saved, keywords }).await?;
        }
        let (read, saved) = (fetch.entries() as u64, saved_by(&counts));
        self.core().tasks.spawn(None, self.clone().remove(number, fetch.into_order(), reserved));
        Ok(Reply::Compacted { next, read, saved })
    }

    /// Removes entries that are of no more use, once the searches that may want them have ended.
    async fn remove(self, number: u32, mut order: Order, _reserved: Reserved) -> Result<(), Fault> {
        let barrier = self.core().tasks.next();
        self.until(|core| core.tasks.has_none_before(barrier).then_some(())).await;
        let ask = || {
            let labels = Blob(self.draw(&mut order, number)?.labels());
            Some(((), self.have_done(|ask| Outgoing::Remove { ask, labels })))
        };
        in_flights(ask, |(), ()| Ok(())).await
    }
}
