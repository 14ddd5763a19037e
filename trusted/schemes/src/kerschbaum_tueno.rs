//! Keyed half of Kerschbaum-Tueno (ESORICS 2019; VLDB'19 comparison, §4.2), a rotated array searched by the client.
//!
//! *Entries* are sealed by [`arras_primitives::det_pair`]: value and row, ordered by value and, among equal values,
//! by a pseudorandom function of both. So all ranks differ, equal values stand in an order that means nothing, and
//! an entry is found, or found missing, by one binary search.
//!
//! *Search.* Let `r` be the rank at position 0. Whatever the rotation, `rank - r mod 2^128` ascends with the
//! position, so binary search for `x` compares these with `x - r`. A range is two searches, and then one read of
//! what lies between, over the array's end if `r` is within the range.
//!
//! *Errors.* A probe's block is not authenticated; entries are. Each operation ends by reading, with the entries it is
//! about, the neighbours on both sides: they must enclose the range or the place, and the entries must ascend. A
//! reply that was altered or is that to another request is found out; a server that shows an old array or leaves
//! entries out throughout is not.
//!
//! *At the same time.* A change moves every entry, so it ends every search under way, which begins anew.
//!
//! *Leakage.* [`arras_protocol::leakage::kerschbaum_tueno::KERSCHBAUM_TUENO`]. As sealing is deterministic, one who watches sees when an
//! entry that was taken out is put in again.
//!
//! *Cost.* Insertion: about log2 n messages of one block each, one of two entries, and the change. Search: twice
//! log2 n without what both ends ask for, and one for the results.
//!
//! *Deviations* from the paper. No coin flips: ranks break ties, which also removes the two faults of the published
//! algorithm, the exchanged m and m' and equal values on both sides of the array's end. The modulus is that of ranks,
//! exactly 2^128. The row is kept with the value. Removal is added.

use crate::arx_range::RangeEntry;
use crate::error::{IndexError, OpenFailed};
use crate::ore::domain::{key_plaintext, plaintext_key};
use crate::traits::RangeIndex;
use arras_keys::{Key, Purpose};
use arras_primitives::det_pair::{DetPair, rank_number};
use arras_primitives::prg::Prg;
use arras_protocol::Order;
use arras_protocol::kerschbaum_tueno::{
    ENTRY_BYTES, KerschbaumTueno as Protocol, LENGTH_MAX, Request, Response,
};
use arras_protocol::ore::Width;
use arras_protocol::{Blob, Channel, IndexId, RowId};
use rand::RngExt;
use std::collections::HashMap;
use tokio::sync::Mutex;

/// An open entry.
type Entry = (u128, [u8; RowId::BYTES]);

/// The client half of one index.
pub struct KerschbaumTueno<C> {
    channel: C,
    index: IndexId,
    entries: DetPair,
    width: Width,
    /// Held through an operation: positions hold from its first probe to its end.
    random: Mutex<Prg>,
}

impl<C> std::fmt::Debug for KerschbaumTueno<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KerschbaumTueno({:?})", self.index)
    }
}

/// Times that an operation begins anew because others have changed the array meanwhile: each change moves every entry.
const ATTEMPTS_MAX: u32 = 256;

/// What came of an attempt at an operation.
enum Attempt<T> {
    Done(T),
    /// The array was changed meanwhile: positions hold no longer.
    Changed,
}

use Attempt::{Changed, Done};

/// Goes on with what an attempt has read, or ends it.
macro_rules! unchanged {
    ($attempt:expr) => {
        match $attempt {
            Done(read) => read,
            Changed => return Ok(Changed),
        }
    };
}

/// Attempts an operation until nothing has crossed it.
macro_rules! attempts {
    ($attempt:expr) => {{
        let mut left = ATTEMPTS_MAX;
        loop {
            if let Done(result) = $attempt.await? {
                break Ok(result);
            }
            left -= 1;
            if left == 0 {
                break Err(IndexError::Peer("an array that changes again and again"));
            }
        }
    }};
}

/// What one operation has seen of the array.
struct Probes {
    /// What all of it is of.
    version: u64,
    length: u32,
    /// Rank at position 0.
    first: u128,
    /// Ranks seen, relative to the first.
    relative: HashMap<u32, u128>,
}

/// A range of ranks, both ends included.
#[derive(Clone, Copy)]
struct Range {
    lower: u128,
    upper: u128,
}

impl Range {
    /// How far after the range's beginning a rank comes.
    fn after(self, rank: u128) -> u128 {
        rank.wrapping_sub(self.lower)
    }

    fn contains(self, rank: u128) -> bool {
        self.after(rank) <= self.upper.wrapping_sub(self.lower)
    }
}

/// Where a range lies in the array.
#[derive(Clone, Copy)]
struct Place {
    /// Position of its first entry, or where that would be; below the length.
    position: u32,
    /// How many entries.
    count: u32,
}

impl<C: Channel<Protocol>> KerschbaumTueno<C> {
    /// Makes the array on the server, if it is not there, and opens it.
    ///
    /// # Errors
    /// [`IndexError`]; refused if a page is shorter than an entry of 32 bytes.
    pub async fn create(
        channel: C,
        index: IndexId,
        key: &Key,
        width: Width,
        page_bytes: u32,
        random: Prg,
    ) -> Result<Self, IndexError> {
        let array = Self::open(channel, index, key, width, random);
        if let Changed = array.done(Request::CreateIndex { index, page_bytes }).await? {
            return Err(IndexError::Peer("an array that has changed before it is there"));
        }
        Ok(array)
    }

    /// Opens an array that is there. `key` is the index's.
    #[must_use]
    pub fn open(channel: C, index: IndexId, key: &Key, width: Width, random: Prg) -> Self {
        let material = key.child(Purpose::KerschbaumTuenoSeal);
        let entries = DetPair::new(material.expose_16(), *index.as_bytes());
        Self { channel, index, entries, width, random: Mutex::new(random) }
    }

    async fn done(&self, request: Request) -> Result<Attempt<()>, IndexError> {
        match self.channel.call(request).await? {
            Response::Done => Ok(Done(())),
            Response::Changed => Ok(Changed),
            _ => Err(IndexError::Peer("a change was answered by something else")),
        }
    }

    fn plaintext(&self, number: &[u8]) -> Result<u64, IndexError> {
        key_plaintext(self.width, number).ok_or(IndexError::Caller("a key of the index's width is needed"))
    }

    /// Reads the version, the length and the rank at position 0; `None` for an empty array, beside its version.
    async fn begin(&self) -> Result<(u64, Option<Probes>), IndexError> {
        let Response::Begun { version, length, head } =
            self.channel.call(Request::Begin { index: self.index }).await?
        else {
            return Err(IndexError::Peer("a beginning was answered by something else"));
        };
        if length > LENGTH_MAX || head.is_some() != (length > 0) {
            return Err(IndexError::Peer("an array of no possible length"));
        }
        let first = head.map(|head| self.entries.open_rank(&head));
        let relative = HashMap::from([(0, 0)]);
        Ok((version, first.map(|first| Probes { version, length, first, relative })))
    }

    /// The rank at a position, relative to the first.
    async fn relative(&self, probes: &mut Probes, position: u32) -> Result<Attempt<u128>, IndexError> {
        if let Some(rank) = probes.relative.get(&position) {
            return Ok(Done(*rank));
        }
        let request = Request::Head { index: self.index, version: probes.version, position };
        let head = match self.channel.call(request).await? {
            Response::Head(head) => head,
            Response::Changed => return Ok(Changed),
            _ => return Err(IndexError::Peer("a probe was answered by something else")),
        };
        let rank = self.entries.open_rank(&head).wrapping_sub(probes.first);
        probes.relative.insert(position, rank);
        Ok(Done(rank))
    }

    /// The first position whose rank is not below `bound`, or above it if `above`; the length if there is none.
    async fn first_from(
        &self,
        probes: &mut Probes,
        bound: u128,
        above: bool,
    ) -> Result<Attempt<u32>, IndexError> {
        let bound = bound.wrapping_sub(probes.first);
        let (mut low, mut high) = (0, probes.length);
        if bound == 0 && !above {
            return Ok(Done(0));
        }
        // The rank at 0 is relative to itself: below or at every bound.
        low += 1;
        while low < high {
            let middle = low + (high - low) / 2;
            let rank = unchanged!(self.relative(probes, middle).await?);
            if rank < bound || above && rank == bound {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(Done(low))
    }

    async fn locate(&self, probes: &mut Probes, range: Range) -> Result<Attempt<Place>, IndexError> {
        let from = unchanged!(self.first_from(probes, range.lower, false).await?);
        let until = if range.lower == range.upper {
            // One entry or none: the same search, and the neighbours tell.
            from
        } else {
            unchanged!(self.first_from(probes, range.upper, true).await?)
        };
        let over_the_end = range.lower.wrapping_sub(probes.first) > range.upper.wrapping_sub(probes.first);
        let count = if over_the_end {
            (probes.length - from) + until
        } else {
            until.checked_sub(from).ok_or(IndexError::Peer("the array is not in order"))?
        };
        if count > probes.length {
            return Err(IndexError::Peer("the array is not in order"));
        }
        Ok(Done(Place { position: from % probes.length, count }))
    }

    /// Reads `count` entries, over the array's end if need be.
    async fn read(
        &self,
        probes: &Probes,
        position: u32,
        count: u32,
    ) -> Result<Attempt<Vec<Entry>>, IndexError> {
        let (version, length) = (probes.version, probes.length);
        let (count, whole) = (count as usize, length as usize);
        let mut entries: Vec<Entry> = Vec::new();
        while entries.len() < count {
            let (read, left) = (entries.len(), count - entries.len());
            let place = ((u64::from(position) + read as u64) % u64::from(length)) as u32;
            let count = left as u32;
            let request = Request::Entries { index: self.index, version, position: place, count };
            let more = match self.channel.call(request).await? {
                Response::Entries(Blob(more)) => more,
                Response::Changed => return Ok(Changed),
                _ => return Err(IndexError::Peer("a read was answered by something else")),
            };
            if more.is_empty() || !more.len().is_multiple_of(ENTRY_BYTES) || more.len() / ENTRY_BYTES > left {
                return Err(IndexError::Peer("other entries than were asked for"));
            }
            entries.extend(self.entries.open_each(&more).map_err(|_| OpenFailed)?);
            // All different once around the array: a server can spin out no more than it was given.
            let first = entries[0].0;
            let added = entries.get(read.saturating_sub(1)..entries.len().min(whole)).unwrap_or_default();
            if !added.is_sorted_by(|one, next| one.0.wrapping_sub(first) < next.0.wrapping_sub(first)) {
                return Err(IndexError::Peer("the array is not in order"));
            }
        }
        Ok(Done(entries))
    }

    /// The entries of a range, after checking that they are all that lies between their neighbours.
    async fn read_range(
        &self,
        probes: &Probes,
        range: Range,
        place: Place,
    ) -> Result<Attempt<Vec<Entry>>, IndexError> {
        let length = probes.length;
        let before = (place.position + length - 1) % length;
        let mut found = unchanged!(self.read(probes, before, place.count + 2).await?);
        let right = found.pop().ok_or(IndexError::Peer("an entry is missing"))?;
        let left = found.remove(0);
        let enclosed = if place.count == length {
            found.first() == Some(&right) && found.last() == Some(&left)
        } else {
            !range.contains(left.0)
                && !range.contains(right.0)
                && (range.after(right.0) < range.after(left.0) || left == right)
        };
        let inside = found.iter().all(|entry| range.contains(entry.0));
        let ascending = found.windows(2).all(|two| range.after(two[0].0) < range.after(two[1].0));
        if enclosed && inside && ascending {
            Ok(Done(found))
        } else {
            Err(IndexError::Peer("the array is not in order"))
        }
    }

    /// Entries with `lower <= plaintext <= upper`, ascending by plaintext and row.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn search_plain(&self, lower: u64, upper: u64) -> Result<Vec<(u64, RowId)>, IndexError> {
        if lower > upper || lower > self.width.greatest() {
            return Ok(Vec::new());
        }
        let _alone = self.random.lock().await;
        let range =
            Range { lower: u128::from(lower) << 64, upper: u128::from(upper) << 64 | u128::from(u64::MAX) };
        let found = attempts!(self.attempt_search(range))?;
        let mut found: Vec<_> =
            found.into_iter().map(|(rank, row)| (rank_number(rank), RowId(row))).collect();
        found.sort_unstable();
        Ok(found)
    }

    async fn attempt_search(&self, range: Range) -> Result<Attempt<Vec<Entry>>, IndexError> {
        let (_, Some(mut probes)) = self.begin().await? else { return Ok(Done(Vec::new())) };
        let place = unchanged!(self.locate(&mut probes, range).await?);
        self.read_range(&probes, range, place).await
    }

    /// Where an entry of this rank is (`true`) or would be: the position it would be inserted at.
    async fn find(&self, probes: &mut Probes, rank: u128) -> Result<Attempt<(u32, bool)>, IndexError> {
        let point = Range { lower: rank, upper: rank };
        let position = unchanged!(self.first_from(probes, rank, false).await?);
        let place = Place { position: position % probes.length, count: 0 };
        let before = (place.position + probes.length - 1) % probes.length;
        let neighbours = unchanged!(self.read(probes, before, 2).await?);
        let [left, right] = neighbours[..] else { return Err(IndexError::Peer("an entry is missing")) };
        if right.0 == rank {
            return Ok(Done((place.position, true)));
        }
        let enclosed = left.0 != rank && (point.after(right.0) < point.after(left.0) || left == right);
        if enclosed {
            Ok(Done((position, false)))
        } else {
            Err(IndexError::Peer("the array is not in order"))
        }
    }

    /// Adds an entry that is not there.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn insert_plain(&self, value: u64, row: RowId) -> Result<(), IndexError> {
        if value > self.width.greatest() {
            return Err(IndexError::Caller("a value is outside the index's width"));
        }
        let mut random = self.random.lock().await;
        attempts!(self.attempt_insertion((value, row), &mut random))
    }

    async fn attempt_insertion(
        &self,
        (value, row): (u64, RowId),
        random: &mut Prg,
    ) -> Result<Attempt<()>, IndexError> {
        let (version, probes) = self.begin().await?;
        let (length, position) = match probes {
            None => (0, 0),
            Some(mut probes) => {
                let rank = self.entries.rank(value, row.as_bytes());
                let (position, there) = unchanged!(self.find(&mut probes, rank).await?);
                if there {
                    return Ok(Done(()));
                }
                (probes.length, position)
            }
        };
        let entry = self.entries.seal(value, row.as_bytes());
        let rotation = random.random_range(0..=length);
        self.done(Request::Insert { index: self.index, version, position, entry, rotation }).await
    }

    /// Takes an entry out if it is there.
    async fn remove_plain(&self, value: u64, row: RowId) -> Result<(), IndexError> {
        let mut random = self.random.lock().await;
        let rank = self.entries.rank(value, row.as_bytes());
        attempts!(self.attempt_removal(rank, &mut random))
    }

    async fn attempt_removal(&self, rank: u128, random: &mut Prg) -> Result<Attempt<()>, IndexError> {
        let (version, Some(mut probes)) = self.begin().await? else { return Ok(Done(())) };
        let (position, there) = unchanged!(self.find(&mut probes, rank).await?);
        if !there {
            return Ok(Done(()));
        }
        let rotation = if probes.length > 1 { random.random_range(0..probes.length - 1) } else { 0 };
        self.done(Request::Remove { index: self.index, version, position, rotation }).await
    }
}

impl<C: Channel<Protocol>> RangeIndex for KerschbaumTueno<C> {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        for entry in entries {
            self.insert_plain(self.plaintext(&entry.value)?, entry.row).await?;
        }
        Ok(())
    }

    async fn remove(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        for entry in entries {
            self.remove_plain(self.plaintext(&entry.value)?, entry.row).await?;
        }
        Ok(())
    }

    async fn search(
        &self,
        lower: Vec<u8>,
        upper: Vec<u8>,
        order: Order,
        limit: Option<usize>,
    ) -> Result<Vec<(Vec<u8>, RowId)>, IndexError> {
        let found = self.search_plain(self.plaintext(&lower)?, self.plaintext(&upper)?).await?;
        let limit = limit.unwrap_or(usize::MAX);
        let entry = |&(value, row): &(u64, RowId)| (plaintext_key(self.width, value), row);
        Ok(match order {
            Order::Ascending => found.iter().take(limit).map(entry).collect(),
            Order::Descending => found.iter().rev().take(limit).map(entry).collect(),
        })
    }
}
