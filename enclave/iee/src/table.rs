//! W: of each keyword how many entries it has, and in which epoch.
//!
//! Open addressing in 1,024 segments that grow by themselves, so that growing takes a thousandth of the memory beside. Keywords are
//! in it by their stems, which look random to those who choose keywords.

use arras_primitives::Block;

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
    /// Entries that are being stored behind them.
    pub(crate) pending: u32,
    /// Under which number its entries were last written anew.
    pub(crate) epoch: u32,
}

/// No stem: an image of AES is it with a chance of 2^-128.
const NO_STEM: Block = [0; 16];

const EMPTY: Slot = Slot { stem: NO_STEM, count: 0, pending: 0, epoch: 0 };

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
        if used * 8 <= self.slots.len() * 7 {
            self.slots.len()
        } else {
            (used * 8 / 7 + 1).next_power_of_two().max(SLOTS_MIN)
        }
    }

    fn reserve(&mut self, more: usize) {
        let slots = self.slots_for(more);
        if slots == self.slots.len() {
            return;
        }
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; slots]);
        for slot in old.into_iter().filter(|slot| slot.stem != NO_STEM) {
            if let Some((place, false)) = self.find(&slot.stem) {
                self.slots[place] = slot;
            }
        }
    }
}

fn segment_of(stem: &Block) -> usize {
    let [a, b, ..] = *stem;
    usize::from(u16::from_le_bytes([a, b])) % SEGMENTS
}

/// W.
pub(crate) struct Table {
    segments: Vec<Segment>,
    entries: u64,
}

impl Table {
    pub(crate) fn new() -> Self {
        Self { segments: (0..SEGMENTS).map(|_| Segment::default()).collect(), entries: 0 }
    }

    /// Entries of all keywords that searches see.
    pub(crate) fn entries(&self) -> u64 {
        self.entries
    }

    pub(crate) fn bytes(&self) -> usize {
        let slots: usize = self.segments.iter().map(|segment| segment.slots.len()).sum();
        slots * size_of::<Slot>()
    }

    fn wanted(stems: &[Block]) -> Vec<usize> {
        let mut wanted = vec![0; SEGMENTS];
        stems.iter().for_each(|stem| wanted[segment_of(stem)] += 1);
        wanted
    }

    /// Bytes by which the table grows if all these keywords are new.
    pub(crate) fn growth_for(&self, stems: &[Block]) -> usize {
        let each = self.segments.iter().zip(Self::wanted(stems));
        let slots: usize = each.map(|(segment, more)| segment.slots_for(more) - segment.slots.len()).sum();
        slots * size_of::<Slot>()
    }

    /// Makes room: until the next time, [`SlotId`]s stay.
    pub(crate) fn reserve(&mut self, stems: &[Block]) {
        let wanted = Self::wanted(stems);
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
            segment.slots[place] = Slot { stem: *stem, ..EMPTY };
            segment.used += 1;
        }
        Some(SlotId { segment: number as u32, place: place as u32 })
    }

    pub(crate) fn slot(&mut self, id: SlotId) -> &mut Slot {
        &mut self.segments[id.segment as usize].slots[id.place as usize]
    }

    /// What was pending is seen from now on.
    pub(crate) fn publish(&mut self, touched: &[SlotId]) {
        for id in touched {
            let slot = self.slot(*id);
            let more = std::mem::take(&mut slot.pending);
            slot.count += more;
            self.entries += u64::from(more);
        }
    }

    /// Sets what a keyword has.
    pub(crate) fn set(&mut self, stem: &Block, count: u32, epoch: u32) {
        self.reserve(std::slice::from_ref(stem));
        let Some(id) = self.enter(stem) else { return };
        let slot = self.slot(id);
        let before = std::mem::replace(&mut slot.count, count);
        slot.epoch = epoch;
        self.entries = self.entries - u64::from(before) + u64::from(count);
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
        let mut table = Table::new();
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
        table.set(&stems[7], 1, 9);
        assert_eq!((table.entries(), table.get(&stems[7]).unwrap().epoch), (99_999, 9));
    }
}
