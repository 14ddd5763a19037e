//! Compaction: keywords' entries are written anew under a fresh epoch, without what was deleted or belongs to documents that are gone.

use crate::budget::{Reserved, Share};
use crate::checkpoint::Head;
use crate::collection::{Collection, EntryKeys, payload};
use crate::documents::Standing;
use crate::fetch::{Fetch, Order};
use crate::journal::{COUNTED_MAX, Change, round_keywords};
use crate::lane::Stopped;
use crate::server::{Core, Enclave};
use crate::table::{Counted, Found, KEYWORD_BYTES, Record, Records, SEGMENTS, segment_of};
use crate::tasks::in_flights;
use arras_protocol::Blob;
use arras_protocol::iee::{Fault, Outgoing};
use arras_schemes::bisen::message::{Refused, Reply};
use arras_schemes::bisen::update::Fence;
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

/// Records of spilled counters that a round can hold beyond twice as many as it reads entries, on average.
const RECORDS_MIN: usize = 1024;

/// Bytes that a round takes: its fetch, and entries to be put.
pub(crate) fn bytes_for(keywords: &[Counted]) -> usize {
    let entries: u64 = keywords.iter().map(Counted::entries).sum();
    let runs: usize = keywords.iter().map(|keyword| keyword.runs.len()).sum();
    Fetch::bytes_for(entries, true)
        .saturating_add(entries as usize * 3 * (16 + 48))
        .saturating_add(keywords.len() * 128 + runs * 32)
}

impl Core {
    /// The entries that a round reads, of keywords of these segments, and room for what it does with them.
    fn gather(&mut self, of: u32, range: Range<usize>, found: Found) -> Result<(Fetch, Reserved), Refused> {
        let Collection { table, documents, .. } = self.state.collection(of)?;
        let bound = documents.bound();
        let here = range.flat_map(|segment| table.segment(segment)).map(|(stem, _)| stem);
        let stems = here.chain(found.keys().filter(|stem| table.get(stem).is_none()));
        let mut keywords: Vec<Counted> = stems.map(|stem| table.counted(*stem, &found)).collect();
        keywords.retain(|keyword| keyword.entries() > 0);
        // No label may come a second time, and what they have then is one record.
        if self.state.epochs == u32::MAX || keywords.len() > COUNTED_MAX {
            return Err(Refused::Bound);
        }
        // Where nothing is spilled, the table has them all.
        let growth = if self.state.spilled.spilled().is_empty() { 0 } else { keywords.len() * KEYWORD_BYTES };
        let reserved = self.make_room_for_data(growth, bytes_for(&keywords))?;
        Ok((Fetch::new(keywords.into_iter(), true, bound), reserved))
    }

    /// Puts of what is left, once all entries are there; what keywords have then, and how many entries fewer that is.
    fn rewrite(&mut self, fetch: &Fetch, number: u32) -> Result<(Vec<Vec<u8>>, Records, u64), Refused> {
        let (of, epoch) = (self.state.collection(number)?, self.state.epochs);
        let (mut places, mut blocks, mut counts) = (Vec::new(), Vec::new(), Records::default());
        for (at, word) in fetch.words.iter().enumerate() {
            // What still says something, newest first: the last addition of each document with its continuations.
            let is_there =
                |number| of.documents.get(number).is_none_or(|version| version.standing != Standing::Retired);
            let mut closed = HashSet::new();
            let is_open = |number, closes| {
                is_there(number) && if closes { closed.insert(number) } else { !closed.contains(&number) }
            };
            let kept: Vec<_> = fetch.live(at, is_open).collect();
            for ((operation, number, metadata), counter) in kept.iter().rev().zip(0..) {
                places.push(EntryKeys::place(&word.stem, epoch, counter));
                blocks.push(payload(*operation, *number, &metadata.0));
            }
            let count = kept.len() as u32;
            counts.extend([Record { stem: word.stem, count, epoch, collection: number as u8 }]);
        }
        let saved = fetch.entries() - places.len();
        Ok((of.keys.puts(places, blocks, &mut self.prg), counts, saved as u64))
    }
}

impl Enclave {
    /// One round: of whole segments, as many as have so many entries of the collection's on average, and one at least.
    pub(crate) async fn compact(&self, number: u32, from: u64, fence: Fence) -> Result<Reply, Stopped> {
        let (revision, range, spilled, most) = {
            let core = self.core();
            let (collection, spilled) = (core.state.collection(number)?, Arc::clone(&core.state.spilled));
            let revision = collection.revision_with(fence)?;
            let (round, entries) = (core.fill.round(), collection.about.entries.max(1));
            let first = from.min(SEGMENTS as u64) as usize;
            let count = ((SEGMENTS * round) as u64 / entries).clamp(1, SEGMENTS as u64) as usize;
            if !spilled.spilled().is_empty() {
                core.fill.hold(round_keywords(round))?;
            }
            // Each record that is found says of an entry.
            (revision, first..SEGMENTS.min(first + count), spilled, 2 * round + RECORDS_MIN)
        };
        let next = Some(range.end as u64).filter(|next| *next < SEGMENTS as u64);
        let wanted = |core: &Core, record: &Record| {
            let is_its = range.contains(&segment_of(&record.stem)) && u32::from(record.collection) == number;
            let void = |of: &Collection| record.count == 0 || of.table.is_whole(&record.stem);
            is_its && core.state.collection(number).is_ok_and(|of| !void(of))
        };
        let found = self.find(&spilled, (most, 1), 0, &Share::default(), wanted).await?;
        let (mut fetch, reserved) = self.core().gather(number, range, found)?;
        let read = fetch.entries() as u64;
        if read == 0 {
            return Ok(Reply::Compacted { next, read, saved: 0 });
        }
        self.log(&Change::Epoch).await?;
        self.fetch(&mut fetch, number).await?;
        let (puts, keywords, saved) = self.core().rewrite(&fetch, number)?;
        self.put(puts).await;
        self.log(&Change::Compacted { collection: number, revision, saved, keywords }).await?;
        // What begins from now on holds another.
        let core = &mut *self.core();
        let before = core.state.succeed(Head::clone(&spilled));
        let remove = self.clone().remove(number, fetch.into_order(), (before, reserved));
        core.tasks.spawn(None, Box::pin(remove));
        Ok(Reply::Compacted { next, read, saved })
    }

    /// Removes entries that are of no more use, once the searches that may want them have ended.
    async fn remove(self, number: u32, mut order: Order, held: (Arc<Head>, Reserved)) -> Result<(), Fault> {
        self.until(|_| (Arc::strong_count(&held.0) == 1).then_some(())).await;
        let ask = || {
            let labels = Blob(self.draw(&mut order, number)?.labels.as_flattened().to_vec());
            Some(((), self.ask(|ask| Outgoing::Remove { ask, labels })))
        };
        in_flights(ask, |(), _| Ok(())).await
    }
}
