//! Follows one element through each of several Knuth shuffles at once, without making the permutations.

use super::SIDE_BY_SIDE;
use crate::Block;
use crate::meter::{Primitive, count};
use zeroize::Zeroize;

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod x86;

/// Where one element of each of [`SIDE_BY_SIDE`] permutations is so far: of those that [`super::shuffle`] makes of the
/// choices of [`super::choices_from`]. The time depends on nothing but the number of choices.
pub struct Follower {
    wanted: [u32; SIDE_BY_SIDE],
    /// All ones as long as the element has no place: no choice is equal to it, and a choice replaces it by "and".
    places: [u32; SIDE_BY_SIDE],
    /// The next choice.
    step: u32,
    /// Whether a word must be drawn again.
    doubtful: bool,
}

impl std::fmt::Debug for Follower {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Follower(..)")
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.wanted.zeroize();
        self.places.zeroize();
    }
}

impl Follower {
    /// Begins. `lanes` of the permutations are meant, the others are idle.
    #[must_use]
    pub fn new(lanes: usize, wanted: &[u8; SIDE_BY_SIDE]) -> Self {
        count(Primitive::Prp, lanes);
        Self { wanted: wanted.map(u32::from), places: [u32::MAX; SIDE_BY_SIDE], step: 0, doubtful: false }
    }

    /// Goes on by four choices an element of `words`: `words[i][lane]` holds the next words of that permutation.
    #[inline]
    pub fn follow(&mut self, words: &[[Block; SIDE_BY_SIDE]]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = crate::avx2::Avx2::detect() {
            return x86::follow(avx2, self, words);
        }
        self.follow_portably(words);
    }

    fn follow_portably(&mut self, words: &[[Block; SIDE_BY_SIDE]]) {
        for blocks in words {
            for word in 0..4 {
                let (step, next) = (self.step, self.step + 1);
                let lanes = self.places.iter_mut().zip(self.wanted).zip(blocks);
                for ((place, wanted), block) in lanes {
                    let drawn = u128::from_le_bytes(*block) >> (32 * word) & u128::from(u32::MAX);
                    let product = drawn as u64 * u64::from(next);
                    let chosen = (product >> 32) as u32;
                    self.doubtful |= (product as u32) < next;
                    let moved = mask_if(chosen == *place) & (chosen ^ step);
                    *place = (*place ^ moved) & (chosen | !mask_if(wanted == step));
                }
                self.step = next;
            }
        }
    }

    /// The places; `None` if a word must be drawn again, of which there is a chance below 2^-16 a permutation of 256
    /// elements.
    #[must_use]
    pub fn places(&self) -> Option<[u8; SIDE_BY_SIDE]> {
        (!self.doubtful).then(|| self.places.map(|place| place as u8))
    }
}

/// All ones or all zeros.
#[inline(always)]
fn mask_if(condition: bool) -> u32 {
    u32::from(condition).wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::super::{CHOICES_MAX, choices_from, shuffle};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn places_are_those_of_the_tables(
            words in prop::collection::vec(any::<[Block; SIDE_BY_SIDE]>(), 1..=64),
            wanted: [u8; SIDE_BY_SIDE],
            unfair in prop::option::of((any::<usize>(), 0..SIDE_BY_SIDE)),
            cut: usize,
        ) {
            let mut words = words;
            let elements = 4 * words.len();
            if let Some((at, lane)) = unfair {
                // 0 is a word that must be drawn again.
                let at = at % words.len();
                words[at][lane] = [0; 16];
            }
            let wanted = wanted.map(|element| (usize::from(element) % elements) as u8);
            let (first, rest) = words.split_at(cut % words.len());
            let (mut follower, mut portable) =
                (Follower::new(SIDE_BY_SIDE, &wanted), Follower::new(SIDE_BY_SIDE, &wanted));
            for part in [first, rest] {
                follower.follow(part);
                portable.follow_portably(part);
            }
            prop_assert_eq!(follower.places(), portable.places());
            prop_assert_eq!(follower.places().is_none(), unfair.is_some());
            for lane in 0..SIDE_BY_SIDE {
                let drawn: Vec<Block> = words.iter().map(|lanes| lanes[lane]).collect();
                let (mut choices, mut table) = ([0; CHOICES_MAX], [0; CHOICES_MAX]);
                choices_from(drawn.as_flattened().as_chunks().0, &mut choices[..elements], |_, _| 12345);
                shuffle(&choices, elements, &mut table);
                if let Some(places) = follower.places() {
                    prop_assert_eq!(table[usize::from(places[lane])], wanted[lane]);
                }
                let mut sorted = table[..elements].to_vec();
                sorted.sort_unstable();
                prop_assert_eq!(sorted, (0..elements).map(|element| element as u8).collect::<Vec<_>>());
            }
        }
    }
}
