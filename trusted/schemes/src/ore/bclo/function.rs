//! The pseudorandom order-preserving function, for any number of bits.

use super::cache::Cache;
use arras_primitives::hypergeometric::Hypergeometric;
use arras_primitives::prf::Prf;
use arras_primitives::prg::Prg;
use arras_primitives::uniform::uniform;

/// From numbers of `domain_bits` to numbers of `range_bits`.
pub(super) struct OrderPreservingFunction {
    /// Intervals of a step to the seed of its coins.
    tape: Prf,
    domain_bits: u32,
    range_bits: u32,
}

/// What is left of the domain and of the range. Bounds belong to their intervals; there are at least as many
/// numbers in the range as in the domain.
#[derive(Clone, Copy)]
struct Intervals {
    domain: (u64, u64),
    range: (u128, u128),
    /// 1 followed by the leading bits that all numbers of the range have: unique among steps, and never 0.
    place: u128,
}

impl Intervals {
    /// The last number of the range's lower half.
    fn middle(&self) -> u128 {
        self.range.0 + (self.range.1 - self.range.0) / 2
    }

    /// What is left if the lower half of the range is taken, which has a positive number `below` of plaintexts.
    fn lower(&self, below: u128) -> Self {
        let last = self.domain.0 + (below - 1) as u64;
        Self { domain: (self.domain.0, last), range: (self.range.0, self.middle()), place: self.place << 1 }
    }

    /// What is left if the upper half of the range is taken, the lower one having `below` plaintexts, not all.
    fn upper(&self, below: u128) -> Self {
        let first = self.domain.0 + below as u64;
        let range = (self.middle() + 1, self.range.1);
        Self { domain: (first, self.domain.1), range, place: self.place << 1 | 1 }
    }

    fn plaintexts(&self) -> u128 {
        u128::from(self.domain.1 - self.domain.0) + 1
    }
}

impl OrderPreservingFunction {
    /// `domain_bits` is at most 64, `range_bits` at most 128 and not less.
    pub(super) fn new(tape: Prf, domain_bits: u32, range_bits: u32) -> Self {
        assert!(0 < domain_bits && domain_bits <= 64 && domain_bits <= range_bits && range_bits <= 128);
        Self { tape, domain_bits, range_bits }
    }

    fn all(&self) -> Intervals {
        Intervals {
            domain: (0, u64::MAX >> (64 - self.domain_bits)),
            range: (0, u128::MAX >> (128 - self.range_bits)),
            place: 1,
        }
    }

    /// The image of a number of `domain_bits`.
    pub(super) fn encrypt(&self, value: u64, cache: &mut Cache) -> u128 {
        let mut left = self.all();
        while left.domain.0 != left.domain.1 {
            let below = self.split(&left, cache);
            let is_below = u128::from(value - left.domain.0) < below;
            left = if is_below { left.lower(below) } else { left.upper(below) };
        }
        self.image(&left)
    }

    /// The number whose image this is, if there is one.
    pub(super) fn decrypt(&self, ciphertext: u128, cache: &mut Cache) -> Option<u64> {
        let mut left = self.all();
        if ciphertext > left.range.1 {
            return None;
        }
        while left.domain.0 != left.domain.1 {
            let below = self.split(&left, cache);
            left = if ciphertext <= left.middle() {
                if below == 0 {
                    return None;
                }
                left.lower(below)
            } else {
                if below == left.plaintexts() {
                    return None;
                }
                left.upper(below)
            };
        }
        (self.image(&left) == ciphertext).then_some(left.domain.0)
    }

    /// How many plaintexts go to the lower half of the range, of two or more.
    fn split(&self, left: &Intervals, cache: &mut Cache) -> u128 {
        if let Some(below) = cache.find(left.place) {
            return below;
        }
        let plaintexts = left.plaintexts();
        let (last, half) = (left.range.1 - left.range.0, left.middle() - left.range.0 + 1);
        // All plaintexts of a step have room in its range, and there are at most 2^64: both are in bounds.
        #[allow(clippy::expect_used, reason = "the intervals are in bounds")]
        let urn =
            Hypergeometric::new(plaintexts, last - (plaintexts - 1), half).expect("intervals in bounds");
        let below = urn.sample(&mut self.coins(left));
        cache.keep(left.place, below);
        below
    }

    /// The image of the only plaintext left.
    fn image(&self, left: &Intervals) -> u128 {
        left.range.0 + uniform(left.range.1 - left.range.0, &mut self.coins(left))
    }

    fn coins(&self, left: &Intervals) -> Prg {
        let mut framed = [0; 48];
        framed[..8].copy_from_slice(&left.domain.0.to_le_bytes());
        framed[8..16].copy_from_slice(&left.domain.1.to_le_bytes());
        framed[16..32].copy_from_slice(&left.range.0.to_le_bytes());
        framed[32..].copy_from_slice(&left.range.1.to_le_bytes());
        Prg::new(&self.tape.mac(&framed))
    }
}
