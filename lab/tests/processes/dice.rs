//! Random numbers that a seed repeats.

/// SplitMix64.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `sides`.
    pub(crate) fn below(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }

    /// A number below `sides`, small enough for a document.
    pub(crate) fn roll(&mut self, sides: i32) -> i32 {
        i32::try_from(self.below(u64::try_from(sides).unwrap())).unwrap()
    }

    /// Random bytes.
    pub(crate) fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next().to_le_bytes()[0]).collect()
    }

    /// Random letters.
    pub(crate) fn letters(&mut self, length: usize) -> String {
        const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
        (0..length).map(|_| char::from(LETTERS[usize::try_from(self.below(62)).unwrap()])).collect()
    }
}
