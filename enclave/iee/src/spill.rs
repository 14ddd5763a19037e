//! Counters that memory does not hold: sealed records in the last pieces of the newest checkpoint.
//!
//! A checkpoint takes over what the one before it had spilled, without what is void, and may spill more. So each of these pieces has one
//! content, which its checkpoint's name is bound into, and the head says which there are.
//!
//! A record is a keyword's entries under one epoch. A keyword that was spilled and comes again begins anew under another epoch, so an
//! update needs nothing of what is spilled. A search reads all of it, in order, whatever it looks for.

use crate::budget::Share;
use crate::checkpoint::Head;
use crate::lane::Stopped;
use crate::server::{Core, Enclave};
use crate::table::{Found, KEYWORD_BYTES, Record};
use crate::tasks::{FLIGHTS_MAX, in_flights};
use arras_protocol::iee::Fault;
use arras_schemes::bisen::message::Refused;

/// Most records that are spilled, unless tables are larger or another bound is set: a search reads some 200 MB then.
pub const SPILLED_MAX: u64 = 1 << 23;

/// Bytes of a keyword that is looked for, with a few records that are found of it, about.
const FOUND_BYTES: usize = 128;

/// Bytes of a piece that was read.
const PIECE_BYTES: usize = 512 * 1024;

/// How finely the number of keywords in tables is looked at, and the entries of a round of compaction: one in so many.
const GRAIN_PART: usize = 8;
const ROUND_PART: usize = 16;

/// Entries that a round of compaction reads, on average, unless the tables are small.
const ROUND: usize = 9 << 13;

/// How full the tables are, as far as numbers tell that the host knows: of keywords at the last checkpoint, of pairs since.
#[derive(Clone, Copy, Default)]
pub(crate) struct Fill {
    /// Most keywords in tables.
    most: usize,
    /// Keywords at the last checkpoint, rounded up.
    known: usize,
    /// Those that may have come since.
    pub(crate) since: usize,
    /// Records that may be spilled, and that are, at most.
    spilled_max: usize,
    spilled: usize,
}

impl Fill {
    /// Tables have half of the bytes that there are for data, but no more keywords than `limit`. Unless another bound is set, they may be
    /// spilled twice, however large they are.
    pub(crate) fn new(data_bytes: usize, (limit, spilled_max): (usize, Option<u64>)) -> Self {
        let most = (data_bytes / 2 / KEYWORD_BYTES).min(limit).max(1);
        let spilled_max = spilled_max.unwrap_or(SPILLED_MAX.max(2 * most as u64)) as usize;
        Self { most, known: 0, since: 0, spilled_max, spilled: 0 }
    }

    /// Whether a checkpoint must come before so many more. Where none can spill, not each call is worth one.
    pub(crate) fn is_full(&self, more: usize) -> bool {
        let least = if self.may_spill() { 1 } else { self.grain() };
        self.since >= least && self.known + self.since + more > self.most
    }

    /// Whether so many more may come, once no checkpoint must come before them: tables hold them, or may spill.
    pub(crate) fn hold(&self, more: usize) -> Result<(), Refused> {
        let holds = self.may_spill() || self.known + self.since + more <= self.most;
        if holds { Ok(()) } else { Err(Refused::Keywords(self.spilled_max as u64)) }
    }

    pub(crate) fn set_known(&mut self, keywords: usize, spilled: &Head) {
        (self.known, self.since) = (keywords.next_multiple_of(self.grain()), 0);
        self.spilled = spilled.records_max();
    }

    fn grain(&self) -> usize {
        (self.most / GRAIN_PART).max(1)
    }

    /// Whether there is room for all that tables hold.
    fn may_spill(&self) -> bool {
        self.spilled.saturating_add(self.most.max(self.known)) <= self.spilled_max
    }

    /// Whether tables are to be spilled; `again` is whether some were before: then it is not put off until nearly every call needs a
    /// checkpoint, each of which copies what is spilled.
    pub(crate) fn spills(&self, again: bool) -> bool {
        let quarters = if again { 2 } else { 3 };
        self.known > self.most / 4 * quarters && self.may_spill()
    }

    /// Entries of a round of compaction, on average: it fits what data leaves of the budget, and tables take its keywords.
    pub(crate) fn round(&self) -> usize {
        ROUND.min(self.most / ROUND_PART).max(1)
    }
}

impl Enclave {
    /// Reads all that is spilled, and takes records that are wanted: of no more than so many keywords, so many each. Room is made for them
    /// and for what is there beside them.
    pub(crate) async fn find(
        &self,
        head: &Head,
        (keywords, each): (usize, usize),
        beside: usize,
        share: &Share,
        wanted: impl Fn(&Core, &Record) -> bool,
    ) -> Result<Found, Stopped> {
        let (mut pieces, mut found, mut count) = (head.spilled(), Found::default(), 0);
        if pieces.is_empty() {
            return Ok(found);
        }
        let bytes = keywords * (FOUND_BYTES + each * 2 * size_of::<(u32, u32)>());
        let _reserved = self.core().make_room(beside + FLIGHTS_MAX * PIECE_BYTES + bytes, share)?;
        // Each search reads all of it: those of one client do not stop others.
        let in_turn = async |sealed| (sealed.await, self.turn(share).await).0;
        let ask = || pieces.next().map(|piece| (piece, in_turn(self.load(head.name(piece)))));
        let take = |piece, sealed| {
            let core = self.core();
            for record in core.spilled(head, piece, sealed)?.iter().filter(|record| wanted(&core, record)) {
                count += 1;
                // Whatever it finds, it reads to the end.
                if count <= keywords * each {
                    found.entry(record.stem).or_default().push((record.epoch, record.count));
                }
            }
            Ok::<(), Fault>(())
        };
        in_flights(ask, take).await?;
        if count <= keywords * each {
            return Ok(found);
        }
        Err(Refused::Memory { needed: (count * FOUND_BYTES) as u64, budget: bytes as u64 }.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_any_size_may_be_spilled_unless_a_bound_is_set() {
        for data_bytes in [16 << 20, 1 << 30, 1 << 40] {
            let may_spill = |bound| Fill::new(data_bytes, (usize::MAX, bound)).may_spill();
            assert!(may_spill(None) && !may_spill(Some(0)), "{data_bytes}");
        }
    }

    #[test]
    fn what_was_spilled_once_is_spilled_again_when_tables_are_full_by_half() {
        let mut fill = Fill::new(usize::MAX, (80, Some(u64::MAX)));
        let spills = |fill: &Fill| (fill.spills(false), fill.spills(true));
        let none = Head::default();
        fill.set_known(55, &none);
        assert_eq!(spills(&fill), (false, true));
        fill.set_known(40, &none);
        assert_eq!(spills(&fill), (false, false));
        fill.set_known(65, &none);
        assert_eq!(spills(&fill), (true, true));
    }
}
