//! Exact draws from a stream of coins.

use crate::prg::Prg;
use crate::uniform::uniform;
use dashu_int::UBig;

/// The stream, read in words of 64 bits, little endian.
pub(super) struct Coins<'a>(pub(super) &'a mut Prg);

impl Coins<'_> {
    /// The next word.
    pub(super) fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A uniform number from 0 to `last`.
    pub(super) fn uniform(&mut self, last: u128) -> u128 {
        uniform(last, self.0)
    }

    /// The integer part of `scale / u` for `u` uniform in (0, 1], or `None` if it is more than `farthest`. It is
    /// `k` or more with probability `scale / k`, for `k >= scale`. Words of `u`, the most significant first, are read
    /// until they decide. `scale` is less than 2^64.
    pub(super) fn tail(&mut self, scale: u128, farthest: u128) -> Option<u128> {
        let (word, scaled) = (u128::from(self.word()), scale << 64);
        // `u` is greater than `word / 2^64` and at most `(word + 1) / 2^64`.
        let least = scaled / (word + 1);
        if least > farthest {
            return None;
        }
        if word != 0 && (scaled - 1) / word == least {
            return Some(least);
        }
        let (mut prefix, mut scaled) = (UBig::from(word), UBig::from(scaled));
        loop {
            prefix = (prefix << 64) + UBig::from(self.word());
            scaled <<= 64;
            let least = &scaled / (&prefix + UBig::ONE);
            if least > UBig::from(farthest) {
                return None;
            }
            if !prefix.is_zero() && (&scaled - UBig::ONE) / &prefix == least {
                return u128::try_from(least).ok();
            }
        }
    }
}
