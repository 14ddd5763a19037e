//! Pseudorandom permutations of any number of elements: Knuth shuffles for small domains, a Feistel network with
//! cycle walking for large ones.
//!
//! A Feistel network is weak on a few elements (the distance from a random permutation depends on the halves'
//! size), so a shuffle serves wherever its table is affordable: over uniform choices it is exactly uniform.

use crate::Block;
use crate::meter::{Primitive, count};
use crate::prf::Prf;
use crate::prg::Prg;
use std::fmt;

mod follow;

pub use follow::Follower;

/// Greatest number of elements of [`choices_from`]: they are bytes.
pub const CHOICES_MAX: usize = 256;

/// The choices of a Knuth shuffle of `choices.len()` elements, one from each of as many uniform words (32 bits, little
/// endian): choice `i` is
/// uniform in `0..=i`, without bias (Lemire, "Fast random integer generation in an interval", 2019). `retry(i, try)`
/// gives a new word for choice `i`; it is asked with a chance below `i / 2^32`.
///
/// # Panics
///
/// If there are fewer words than choices, or more than [`CHOICES_MAX`] choices.
#[inline]
pub fn choices_from(words: &[[u8; 4]], choices: &mut [u8], mut retry: impl FnMut(usize, u32) -> u32) {
    assert!(
        words.len() >= choices.len() && choices.len() <= CHOICES_MAX,
        "a word for each choice, 256 at most"
    );
    let mut doubtful = false;
    for ((place, choice), word) in choices.iter_mut().enumerate().zip(words) {
        let product = u64::from(u32::from_le_bytes(*word)) * (place as u64 + 1);
        *choice = (product >> 32) as u8;
        doubtful |= (product as u32) < place as u32 + 1;
    }
    if doubtful {
        for ((place, choice), word) in choices.iter_mut().enumerate().zip(words) {
            let mut tries = 0;
            *choice = below(place as u32 + 1, || {
                tries += 1;
                if tries == 1 { u32::from_le_bytes(*word) } else { retry(place, tries - 1) }
            }) as u8;
        }
    }
}

/// The permutation of the first `elements` choices: `table[place]` is the element at a place.
///
/// Variable time: memory is touched where the choices say.
///
/// # Panics
///
/// If there are more than [`CHOICES_MAX`] elements.
#[inline]
pub fn shuffle(choices: &[u8; CHOICES_MAX], elements: usize, table: &mut [u8; CHOICES_MAX]) {
    count(Primitive::Prp, 1);
    for (place, choice) in choices[..elements].iter().enumerate() {
        debug_assert!(usize::from(*choice) <= place, "a choice is of the places so far");
        table[place] = table[usize::from(*choice)];
        table[usize::from(*choice)] = place as u8;
    }
}

/// Permutations that a [`Follower`] follows at once.
pub const SIDE_BY_SIDE: usize = 8;

/// A uniform number below `bound`, which is not 0, from uniform words.
fn below(bound: u32, mut word: impl FnMut() -> u32) -> u32 {
    let mut product = u64::from(word()) * u64::from(bound);
    if (product as u32) < bound {
        let unfair = bound.wrapping_neg() % bound;
        while (product as u32) < unfair {
            product = u64::from(word()) * u64::from(bound);
        }
    }
    (product >> 32) as u32
}

/// A uniformly random permutation held as a table, both ways. Its memory and time to make are linear.
pub struct TablePermutation {
    images: Vec<u16>,
    preimages: Vec<u16>,
}

impl fmt::Debug for TablePermutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TablePermutation(..)")
    }
}

impl Drop for TablePermutation {
    fn drop(&mut self) {
        use zeroize::Zeroize;
        self.images.zeroize();
        self.preimages.zeroize();
    }
}

impl TablePermutation {
    /// Greatest number of elements.
    pub const ELEMENTS_MAX: usize = 1 << 16;

    /// Shuffles `elements` elements by the generator's next words. A keyed permutation is one whose generator's seed
    /// is a pseudorandom function's output.
    ///
    /// # Panics
    ///
    /// If there are more than [`Self::ELEMENTS_MAX`].
    #[must_use]
    pub fn new(elements: usize, prg: &mut Prg) -> Self {
        assert!(elements <= Self::ELEMENTS_MAX, "2^16 elements at most");
        let mut images: Vec<u16> = (0..elements).map(|element| element as u16).collect();
        for place in (1..elements).rev() {
            let choice = below(place as u32 + 1, || {
                let mut word = [0; 4];
                prg.fill(&mut word);
                u32::from_le_bytes(word)
            });
            images.swap(place, choice as usize);
        }
        let mut preimages = vec![0; elements];
        for (element, image) in images.iter().enumerate() {
            preimages[usize::from(*image)] = element as u16;
        }
        Self { images, preimages }
    }

    /// Number of elements.
    #[must_use]
    pub fn elements(&self) -> usize {
        self.images.len()
    }

    /// The image of an element; `None` outside the domain.
    #[must_use]
    pub fn image(&self, element: usize) -> Option<usize> {
        count(Primitive::Prp, 1);
        self.images.get(element).map(|image| usize::from(*image))
    }

    /// The element of an image; `None` outside the domain.
    #[must_use]
    pub fn preimage(&self, image: usize) -> Option<usize> {
        count(Primitive::Prp, 1);
        self.preimages.get(image).map(|element| usize::from(*element))
    }
}

/// A keyed permutation of `0..elements`: an alternating Feistel network over the smallest power of two that holds
/// the domain, walked along its cycle until it is back inside (fewer than two steps on average).
///
/// *Bound.* Ten rounds of an AES-128 PRF, as in FF1 (NIST SP 800-38G). With halves of `h` bits, four rounds are
/// already a strong pseudorandom permutation for up to about 2^(h/2) queries (Luby and Rackoff, 1988); the rest is
/// margin against the known attacks. SP 800-38G asks for 10^6 elements or more: below, use [`TablePermutation`].
pub struct FeistelPermutation {
    elements: u64,
    left_bits: u32,
    right_bits: u32,
    rounds: Prf,
}

impl fmt::Debug for FeistelPermutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FeistelPermutation({})", self.elements)
    }
}

impl FeistelPermutation {
    /// Rounds of the network.
    pub const ROUNDS: u8 = 10;

    /// The permutation of `0..elements` under `material`, which must be uniform; `None` if that is empty.
    #[must_use]
    pub fn new(material: &[u8; 16], elements: u64) -> Option<Self> {
        let greatest = elements.checked_sub(1)?;
        let bits = (u64::BITS - greatest.leading_zeros()).max(2);
        let right_bits = bits / 2;
        Some(Self { elements, left_bits: bits - right_bits, right_bits, rounds: Prf::new(material) })
    }

    /// The image of an element; `None` outside the domain.
    #[must_use]
    pub fn image(&self, element: u64) -> Option<u64> {
        self.walk(element, Self::forward)
    }

    /// The element of an image; `None` outside the domain.
    #[must_use]
    pub fn preimage(&self, image: u64) -> Option<u64> {
        self.walk(image, Self::backward)
    }

    /// Along the cycle of `step` until it is inside the domain: it ends, at the latest where it began.
    fn walk(&self, from: u64, step: fn(&Self, u64) -> u64) -> Option<u64> {
        if from >= self.elements {
            return None;
        }
        count(Primitive::Prp, 1);
        let mut at = step(self, from);
        while at >= self.elements {
            at = step(self, at);
        }
        Some(at)
    }

    fn forward(&self, value: u64) -> u64 {
        let (mut left, mut right) = self.halves(value);
        for round in 0..Self::ROUNDS {
            if round % 2 == 0 {
                left ^= self.round(round, right, self.left_bits);
            } else {
                right ^= self.round(round, left, self.right_bits);
            }
        }
        left << self.right_bits | right
    }

    fn backward(&self, value: u64) -> u64 {
        let (mut left, mut right) = self.halves(value);
        for round in (0..Self::ROUNDS).rev() {
            if round % 2 == 0 {
                left ^= self.round(round, right, self.left_bits);
            } else {
                right ^= self.round(round, left, self.right_bits);
            }
        }
        left << self.right_bits | right
    }

    fn halves(&self, value: u64) -> (u64, u64) {
        (value >> self.right_bits, value & mask(self.right_bits))
    }

    fn round(&self, round: u8, half: u64, bits: u32) -> u64 {
        let mut input: Block = [0; 16];
        input[0] = round;
        input[1] = (self.left_bits + self.right_bits) as u8;
        input[8..].copy_from_slice(&half.to_be_bytes());
        let image = u128::from_be_bytes(self.rounds.block(&input));
        image as u64 & mask(bits)
    }
}

/// The lowest `bits` bits, at most 32.
fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

#[cfg(test)]
mod tests;
