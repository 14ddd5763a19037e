//! Outcomes of steps, in bounded memory.

use zeroize::Zeroize;

/// A table of steps. The first steps of the recursion have slots of their own, the others share what is left with
/// those of the same remainder, and give way to earlier steps.
pub(super) struct Cache {
    /// Place of a step (0 if the slot is free) and its outcome. A power of two of them, or none.
    slots: Vec<[u128; 2]>,
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.slots.zeroize();
    }
}

impl Cache {
    pub(super) fn new(steps: usize) -> Self {
        let slots = if steps == 0 { 0 } else { steps.next_power_of_two() };
        Self { slots: vec![[0; 2]; slots] }
    }

    pub(super) fn find(&self, place: u128) -> Option<u128> {
        let [kept, outcome] = *self.slots.get(self.slot(place)?)?;
        (kept == place).then_some(outcome)
    }

    pub(super) fn keep(&mut self, place: u128, outcome: u128) {
        if let Some(at) = self.slot(place)
            && let Some(slot) = self.slots.get_mut(at)
            // Fewer leading zeros are more steps down.
            && (slot[0] == 0 || slot[0].leading_zeros() <= place.leading_zeros())
        {
            *slot = [place, outcome];
        }
    }

    /// Places below the number of slots stay where they are. The multiplier is 2^64 divided by the golden ratio.
    fn slot(&self, place: u128) -> Option<usize> {
        let slots = self.slots.len() as u128;
        if place < slots {
            return Some(place as usize);
        }
        let folded = place as u64 ^ (place >> 64) as u64;
        let mixed = folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Some((u128::from(mixed) & slots.checked_sub(1)?) as usize)
    }
}
