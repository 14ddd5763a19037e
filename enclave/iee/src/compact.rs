//! Compaction: keywords' entries are written anew under a fresh epoch, without what was deleted or belongs to documents that are gone.

use crate::budget::Reserved;
use crate::collection::{Collection, EntryKeys, payload, puts};
use crate::documents::Standing;
use crate::fetch::{Fetch, Order};
use crate::journal::{COUNTED_MAX, Change, round_keywords};
use crate::lane::Stopped;
use crate::record::{Record, Records};
use crate::server::{Core, Enclave};
use crate::spill::Gathered;
use crate::table::{Counted, KEYWORD_BYTES, SEGMENTS};
use crate::tasks::in_flights;
use arras_primitives::prg::Prg;
use arras_protocol::Blob;
use arras_protocol::iee::{Fault, Outgoing};
use arras_schemes::bisen::message::{Refused, Reply};
use arras_schemes::bisen::update::{Fence, Metadata, Operation};
use std::collections::HashSet;

/// Entries that a round reads, on average: keywords of whole segments, so that what is read together is not one keyword's.
pub(crate) const ROUND: u64 = 9 << 13;

/// Bytes that a round takes: its fetch, and entries to be put.
pub(crate) fn bytes_for(keywords: &[Counted]) -> usize {
    let entries: u64 = keywords.iter().map(Counted::entries).sum();
    let runs: usize = keywords.iter().map(|keyword| keyword.runs.len()).sum();
    Fetch::bytes_for(entries, true)
        .saturating_add(entries as usize * 3 * (16 + 48))
        .saturating_add(keywords.len() * 128 + runs * 32)
}

/// Puts of what is left, once all entries are there; what keywords have then, and how many entries fewer that is.
fn rewrite(fetch: &Fetch, epoch: u32, number: u32, of: &Collection, prg: &mut Prg) -> (Vec<Vec<u8>>, Counts) {
    let (mut places, mut blocks, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for (at, word) in fetch.words.iter().enumerate() {
        let is_there =
            |number| of.documents.get(number).is_none_or(|version| version.standing != Standing::Retired);
        let kept = keep(fetch, at, is_there);
        for ((operation, number, metadata), counter) in kept.iter().rev().zip(0..) {
            places.push(EntryKeys::place(&word.stem, epoch, counter));
            blocks.push(payload(*operation, *number, &metadata.0));
        }
        let count = kept.len() as u32;
        counts.push((Record { stem: word.stem, count, epoch, collection: number as u8 }, word.count - count));
    }
    (puts(&of.keys, places, blocks, prg), counts)
}

type Counts = Vec<(Record, u32)>;

fn saved_by(counts: &[(Record, u32)]) -> u64 {
    counts.iter().map(|(_, saved)| u64::from(*saved)).sum()
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
    /// The entries that a round reads, and room for what it does with them; none if there are none.
    fn begin_round(&mut self, number: u32, gathered: Gathered) -> Result<Option<(Fetch, Reserved)>, Refused> {
        if let Some(needed) = gathered.beyond() {
            return Err(Refused::Memory { needed: needed as u64, budget: gathered.bytes as u64 });
        }
        let Collection { table, documents, .. } = self.state.collection(number)?;
        let (Gathered { range, found, .. }, bound) = (gathered, documents.bound());
        let here = range.flat_map(|segment| table.segment(segment)).map(|(stem, _)| stem);
        let stems = here.chain(found.keys().filter(|stem| table.get(stem).is_none()));
        let mut keywords: Vec<Counted> = stems.map(|stem| table.counted(*stem, &found)).collect();
        keywords.retain(|keyword| keyword.entries() > 0);
        if keywords.is_empty() {
            return Ok(None);
        }
        // No label may come a second time.
        if self.state.epochs == u32::MAX {
            return Err(Refused::Bound);
        }
        // Where nothing is spilled, the table has them all.
        let growth = keywords.len() * KEYWORD_BYTES * usize::from(self.state.spilled.is_some());
        let reserved = self.make_room_for_data(growth, bytes_for(&keywords))?;
        self.fill.since += round_keywords(keywords.len());
        Ok(Some((Fetch::new(keywords.into_iter(), true, bound), reserved)))
    }
}

impl Enclave {
    /// One round.
    pub(crate) async fn compact(&self, number: u32, from: u64, fence: Fence) -> Result<Reply, Stopped> {
        let revision = self.core().state.collection(number)?.revision_with(fence)?;
        let gathered = self.gather(number, from).await?;
        let next = Some(gathered.range.end as u64).filter(|next| *next < SEGMENTS as u64);
        let Some((mut fetch, reserved)) = self.core().begin_round(number, gathered)? else {
            return Ok(Reply::Compacted { next, read: 0, saved: 0 });
        };
        let saved = self.round(number, revision, &mut fetch).await;
        let core = &mut *self.core();
        core.budget.kept = core.state.bytes();
        let (read, saved) = (fetch.entries() as u64, saved?);
        core.tasks.spawn(None, self.clone().remove(number, fetch.into_order(), reserved));
        Ok(Reply::Compacted { next, read, saved })
    }

    /// Writes entries anew; how many fewer there are then.
    async fn round(&self, number: u32, revision: u128, fetch: &mut Fetch) -> Result<u64, Stopped> {
        let generation = self.core().state.generation;
        self.log(&Change::Epoch { generation }).await?;
        self.fetch(fetch, number).await.map_err(Refused::Storage)?;
        let (before, (puts, counts)) = {
            let core = &mut *self.core();
            let collection = core.state.collection(number)?;
            let written = rewrite(fetch, core.state.epochs, number, collection, &mut core.prg);
            (collection.about.revision, written)
        };
        self.put(puts).await;
        for (some, done) in counts.chunks(COUNTED_MAX).zip((COUNTED_MAX..).step_by(COUNTED_MAX)) {
            // The round has brought the collection forward when all of it is there.
            let revision = if done < counts.len() { before } else { revision };
            let mut keywords = Records::default();
            keywords.extend(some.iter().map(|(counted, _)| *counted));
            let saved = saved_by(some);
            self.log(&Change::Compacted { collection: number, revision, saved, keywords }).await?;
        }
        Ok(saved_by(&counts))
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
