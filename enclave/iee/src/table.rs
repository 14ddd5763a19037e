//! W: of each keyword how many entries it has, and in which epoch.
//!
//! Open addressing in 1,024 segments that grow by themselves, so that growing takes a thousandth of the memory beside. Keywords are
//! in it by their stems, which look random to those who choose keywords.

use arras_primitives::Block;
use std::collections::{HashMap, HashSet};

/// Segments; a power of two.
pub(crate) const SEGMENTS: usize = 1024;

/// Slots of the smallest segment that is not empty.
const SLOTS_MIN: usize = 4;

/// A keyword.
#[derive(Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) stem: Block,
    /// Entries that searches see.
    pub(crate) count: u32,
    /// Under which number its entries were last written anew, or it came into the table.
    pub(crate) epoch: u32,
    /// Entries that are being stored behind them: no more than an update has pairs.
    pending: u16,
    /// Whether what was spilled of it is void, as all its entries were written anew since.
    is_whole: bool,
}

/// Entries of a keyword, oldest first: epochs, and how many each has.
pub(crate) type Runs = Vec<(u32, u32)>;

/// What was found of keywords, by stems, among what is spilled; in no order.
pub(crate) type Found = HashMap<Block, Runs>;

/// A keyword with all entries that it has.
pub(crate) struct Counted {
    pub(crate) stem: Block,
    pub(crate) runs: Runs,
    /// How many of them only what is spilled says.
    pub(crate) spilled: u32,
}

impl Counted {
    /// From what is spilled of a keyword, and its slot if it has one.
    pub(crate) fn new(stem: Block, mut runs: Runs, slot: Option<&Slot>) -> Self {
        if slot.is_some_and(|slot| slot.is_whole) {
            runs.clear();
        }
        runs.sort_unstable();
        let spilled = runs.iter().map(|(_, count)| *count).fold(0, u32::saturating_add);
        runs.extend(slot.map(|slot| (slot.epoch, slot.count)));
        Self { stem, runs, spilled }
    }

    pub(crate) fn entries(&self) -> u64 {
        self.runs.iter().map(|(_, count)| u64::from(*count)).sum()
    }
}

/// No stem: an image of AES is it with a chance of 2^-128.
const NO_STEM: Block = [0; 16];

const EMPTY: Slot = Slot { stem: NO_STEM, count: 0, epoch: 0, pending: 0, is_whole: false };

/// Where a keyword is, until its segment grows.
#[derive(Clone, Copy)]
pub(crate) struct SlotId {
    segment: u32,
    place: u32,
}

#[derive(Default)]
struct Segment {
    /// A power of two, or none.
    slots: Vec<Slot>,
    used: usize,
}

impl Segment {
    /// Where a stem is, or the free slot where it would be.
    fn find(&self, stem: &Block) -> Option<(usize, bool)> {
        let mask = self.slots.len().checked_sub(1)?;
        let [.., a, b, c, d] = *stem;
        let mut place = u32::from_le_bytes([a, b, c, d]) as usize & mask;
        // At most seven of eight are used, so a free one comes.
        loop {
            let slot = &self.slots[place];
            if slot.stem == *stem {
                return Some((place, true));
            }
            if slot.stem == NO_STEM {
                return Some((place, false));
            }
            place = (place + 1) & mask;
        }
    }

    fn slots_for(&self, more: usize) -> usize {
        let used = self.used + more;
        let least = (used * 8).div_ceil(7).next_power_of_two().max(SLOTS_MIN);
        if used == 0 { self.slots.len() } else { self.slots.len().max(least) }
    }

    fn reserve(&mut self, more: usize) {
        let slots = self.slots_for(more);
        if slots > self.slots.len() {
            let old = std::mem::replace(&mut self.slots, vec![EMPTY; slots]);
            for slot in old.into_iter().filter(|slot| slot.stem != NO_STEM) {
                if let Some((place, false)) = self.find(&slot.stem) {
                    self.slots[place] = slot;
                }
            }
        }
    }
}

/// The segment of a keyword.
pub(crate) fn segment_of(stem: &Block) -> usize {
    let [a, b, ..] = *stem;
    usize::from(u16::from_le_bytes([a, b])) % SEGMENTS
}

/// W.
pub(crate) struct Table {
    segments: Vec<Segment>,
    /// Entries of what is in it.
    entries: u64,
    /// Entries that only what is spilled says.
    pub(crate) spilled: u64,
    /// The epoch of keywords that come: no keyword that was spilled, or forgotten, had entries under it.
    pub(crate) generation: u32,
}

impl Table {
    pub(crate) fn new(generation: u32) -> Self {
        let segments = (0..SEGMENTS).map(|_| Segment::default()).collect();
        Self { segments, entries: 0, spilled: 0, generation }
    }

    /// Entries of all keywords that searches see.
    pub(crate) fn entries(&self) -> u64 {
        self.entries + self.spilled
    }

    /// Keywords that are in it.
    pub(crate) fn keywords(&self) -> usize {
        self.segments.iter().map(|segment| segment.used).sum()
    }

    pub(crate) fn bytes(&self) -> usize {
        let slots: usize = self.segments.iter().map(|segment| segment.slots.len()).sum();
        slots * size_of::<Slot>()
    }

    /// How many of these keywords each segment has not.
    fn wanted(&self, stems: &[Block]) -> Vec<usize> {
        let mut wanted = vec![0; SEGMENTS];
        let new: HashSet<&Block> = stems.iter().filter(|stem| self.get(stem).is_none()).collect();
        new.into_iter().for_each(|stem| wanted[segment_of(stem)] += 1);
        wanted
    }

    /// Bytes by which the table grows with these keywords.
    pub(crate) fn growth_for(&self, stems: &[Block]) -> usize {
        let each = self.segments.iter().zip(self.wanted(stems));
        let slots: usize = each.map(|(segment, more)| segment.slots_for(more) - segment.slots.len()).sum();
        slots * size_of::<Slot>()
    }

    /// Makes room: until the next time, [`SlotId`]s stay.
    pub(crate) fn reserve(&mut self, stems: &[Block]) {
        let wanted = self.wanted(stems);
        self.segments.iter_mut().zip(wanted).for_each(|(segment, more)| segment.reserve(more));
    }

    pub(crate) fn get(&self, stem: &Block) -> Option<Slot> {
        let segment = &self.segments[segment_of(stem)];
        let (place, there) = segment.find(stem)?;
        there.then(|| segment.slots[place])
    }

    /// A keyword that room was made for.
    pub(crate) fn enter(&mut self, stem: &Block) -> Option<SlotId> {
        let number = segment_of(stem);
        let segment = &mut self.segments[number];
        let (place, there) = segment.find(stem)?;
        if !there {
            segment.slots[place] = Slot { stem: *stem, epoch: self.generation, ..EMPTY };
            segment.used += 1;
        }
        Some(SlotId { segment: number as u32, place: place as u32 })
    }

    pub(crate) fn slot(&mut self, id: SlotId) -> &mut Slot {
        &mut self.segments[id.segment as usize].slots[id.place as usize]
    }

    /// The counter of the next entry of a keyword that room was made for; whether it is the update's first one.
    pub(crate) fn next(&mut self, id: SlotId) -> (u32, u32, bool) {
        let slot = self.slot(id);
        slot.pending += 1;
        (slot.epoch, slot.count + u32::from(slot.pending) - 1, slot.pending == 1)
    }

    /// What was pending is seen from now on.
    pub(crate) fn publish(&mut self, touched: &[SlotId]) {
        for id in touched {
            let slot = self.slot(*id);
            let more = u32::from(std::mem::take(&mut slot.pending));
            slot.count += more;
            self.entries += u64::from(more);
        }
    }

    /// Sets what a keyword has, and whether that is all it has, whatever is spilled of it.
    pub(crate) fn set(&mut self, stem: &Block, count: u32, epoch: u32, is_whole: bool) {
        if self.get(stem).is_none() {
            self.reserve(std::slice::from_ref(stem));
        }
        let Some(id) = self.enter(stem) else { return };
        let slot = self.slot(id);
        let before = std::mem::replace(&mut slot.count, count);
        (slot.epoch, slot.is_whole) = (epoch, is_whole);
        self.entries = self.entries - u64::from(before) + u64::from(count);
    }

    /// Whether what is spilled of a keyword is void.
    pub(crate) fn is_whole(&self, stem: &Block) -> bool {
        self.get(stem).is_some_and(|slot| slot.is_whole)
    }

    /// All entries of a keyword.
    pub(crate) fn counted(&self, stem: Block, found: &Found) -> Counted {
        Counted::new(stem, found.get(&stem).cloned().unwrap_or_default(), self.get(&stem).as_ref())
    }

    /// All of it is spilled: what comes from now on is of another generation.
    pub(crate) fn empty(&mut self, generation: u32) {
        *self = Self { spilled: self.entries(), ..Self::new(generation) };
    }

    /// The keywords of a segment.
    pub(crate) fn segment(&self, number: usize) -> impl Iterator<Item = &Slot> {
        let slots = self.segments.get(number).map(|segment| segment.slots.as_slice()).unwrap_or_default();
        slots.iter().filter(|slot| slot.stem != NO_STEM)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use arras_primitives::hash::sha256;

    fn stem(number: u32) -> Block {
        sha256(&[&number.to_le_bytes()])[..16].try_into().unwrap()
    }

    #[test]
    fn what_is_entered_is_found_and_growth_is_foretold() {
        let mut table = Table::new(3);
        let stems: Vec<Block> = (0..50_000).map(stem).collect();
        for part in stems.chunks(700) {
            let (before, growth) = (table.bytes(), table.growth_for(part));
            table.reserve(part);
            assert_eq!(table.bytes(), before + growth);
            let touched: Vec<SlotId> = part.iter().map(|stem| table.enter(stem).unwrap()).collect();
            touched.iter().for_each(|id| table.slot(*id).pending += 2);
            assert_eq!(table.get(&part[0]).unwrap().count, 0);
            table.publish(&touched);
        }
        assert_eq!(table.entries(), 100_000);
        assert!(stems.iter().all(|stem| table.get(stem).is_some_and(|slot| slot.count == 2)));
        assert!(table.get(&stem(50_000)).is_none());
        assert_eq!((0..SEGMENTS).flat_map(|number| table.segment(number)).count(), 50_000);
        table.set(&stems[7], 1, 9, false);
        assert_eq!((table.entries(), table.get(&stems[7]).unwrap().epoch), (99_999, 9));
        assert_eq!(table.get(&stems[8]).unwrap().epoch, 3);
    }

    /// The word that a text repeats, and words that are there, take no room.
    #[test]
    fn room_is_for_keywords_that_are_new_each_once() {
        let mut table = Table::new(0);
        let same = vec![stem(1); 16_385];
        table.reserve(&same);
        table.enter(&stem(1)).unwrap();
        assert!(table.bytes() < 1000, "{}", table.bytes());
        assert_eq!(table.growth_for(&same), 0);
    }

    #[test]
    fn what_is_spilled_is_gone_and_its_entries_are_still_counted() {
        let mut table = Table::new(0);
        (0..5000).for_each(|number| table.set(&stem(number), 3, 0, false));
        table.empty(7);
        assert_eq!((table.keywords(), table.bytes()), (0, 0));
        assert_eq!((table.entries(), table.spilled, table.generation), (15_000, 15_000, 7));
    }

    #[test]
    fn a_keyword_s_entries_are_counted_oldest_first_and_without_what_is_void() {
        let mut table = Table::new(0);
        let found = Found::from([(stem(1), vec![(7, 2), (3, 4)])]);
        table.set(&stem(1), 5, 9, false);
        let counted = table.counted(stem(1), &found);
        assert_eq!((counted.runs, counted.spilled), (vec![(3, 4), (7, 2), (9, 5)], 6));
        table.set(&stem(1), 5, 9, true);
        let counted = table.counted(stem(1), &found);
        assert_eq!((counted.runs, counted.spilled), (vec![(9, 5)], 0));
        assert_eq!(table.counted(stem(2), &found).entries(), 0);
    }
}
