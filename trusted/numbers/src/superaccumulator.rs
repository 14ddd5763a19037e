//! A fixed-point number wide enough to add doubles without rounding (Kulisch's long accumulator).

/// Limbs of 64 bits: 2^-1074 is bit 0, 2^1023 is bit 2097, 78 bits are left for carries and the sign.
const LIMBS: usize = 34;

/// Exponent of bit 0.
const EXPONENT_MIN: i32 = -1074;

/// A sum of doubles in two's complement, exact for any number of additions below 2^77.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Superaccumulator {
    limbs: Box<[u64; LIMBS]>,
}

impl Default for Superaccumulator {
    fn default() -> Self {
        Superaccumulator { limbs: Box::new([0; LIMBS]) }
    }
}

impl Superaccumulator {
    pub(super) const ENCODED_BYTES_MAX: usize = 2 + 8 * LIMBS;

    /// Adds a finite double.
    pub(super) fn add(&mut self, number: f64) {
        let (mantissa, exponent) = crate::split(number.abs());
        self.add_scaled(u128::from(mantissa), exponent - EXPONENT_MIN, number < 0.0);
    }

    pub(super) fn add_integer(&mut self, integer: i128) {
        self.add_scaled(integer.unsigned_abs(), -EXPONENT_MIN, integer < 0);
    }

    pub(super) fn merge(&mut self, other: &Superaccumulator) {
        let mut carry = false;
        for (own, other) in self.limbs.iter_mut().zip(other.limbs.iter()) {
            let (sum, first) = own.overflowing_add(*other);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            *own = sum;
            carry = first || second;
        }
    }

    /// Adds or subtracts `magnitude * 2^position` (in units of bit 0).
    fn add_scaled(&mut self, magnitude: u128, position: i32, negative: bool) {
        let position = usize::try_from(position).unwrap_or(0);
        let (first, shift) = (position / 64, position % 64);
        let low = magnitude << shift;
        let high = if shift == 0 { 0 } else { magnitude >> (128 - shift) };
        #[allow(clippy::cast_possible_truncation)]
        let parts = [low as u64, (low >> 64) as u64, high as u64];
        let mut carry = false;
        for (offset, limb) in self.limbs.iter_mut().skip(first).enumerate() {
            let part = parts.get(offset).copied().unwrap_or(0);
            if offset >= parts.len() && !carry {
                break;
            }
            let (value, out) = if negative { limb.overflowing_sub(part) } else { limb.overflowing_add(part) };
            let step = u64::from(carry);
            let (value, more) =
                if negative { value.overflowing_sub(step) } else { value.overflowing_add(step) };
            *limb = value;
            carry = out || more;
        }
    }

    /// The nearest double, ties to even.
    pub(super) fn to_f64(&self) -> f64 {
        let negative = self.limbs.last().is_some_and(|limb| limb >> 63 == 1);
        let mut magnitude = self.clone();
        if negative {
            magnitude.negate();
        }
        let value = magnitude.magnitude_to_f64();
        if negative { -value } else { value }
    }

    fn negate(&mut self) {
        let mut carry = true;
        for limb in self.limbs.iter_mut() {
            let (value, out) = (!*limb).overflowing_add(u64::from(carry));
            *limb = value;
            carry = out;
        }
    }

    fn bit_is_set(&self, position: usize) -> bool {
        self.limbs.get(position / 64).is_some_and(|limb| (limb >> (position % 64)) & 1 == 1)
    }

    fn magnitude_to_f64(&self) -> f64 {
        let Some(top_limb) = self.limbs.iter().rposition(|limb| *limb != 0) else {
            return 0.0;
        };
        let top_bits = self.limbs.get(top_limb).map_or(0, |limb| limb.leading_zeros() as usize);
        let top = top_limb * 64 + 63 - top_bits;
        // Bits at and above `low` make the mantissa; at most 53 of them.
        let low = top.saturating_sub(52);
        let mut mantissa = 0_u64;
        for position in (low..=top).rev() {
            mantissa = (mantissa << 1) | u64::from(self.bit_is_set(position));
        }
        if low > 0 {
            let half = self.bit_is_set(low - 1);
            let below = (0..low - 1).any(|position| self.bit_is_set(position));
            if half && (below || mantissa & 1 == 1) {
                mantissa += 1;
            }
        }
        // Two exact steps: a subnormal never has a rounded mantissa, so no step rounds again.
        let low = i32::try_from(low).unwrap_or(0);
        #[allow(clippy::cast_precision_loss)]
        let mantissa = mantissa as f64;
        let halfway = low / 2;
        mantissa * 2_f64.powi(halfway - 537) * 2_f64.powi(low - halfway - 537)
    }

    /// Writes the number of the first limb kept, how many are, and those limbs: all but the zeros at the low end and
    /// the repetitions of the sign at the high end.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let first = self.limbs.iter().position(|limb| *limb != 0).unwrap_or(0);
        let sign = if self.limbs.last().is_some_and(|limb| limb >> 63 == 1) { u64::MAX } else { 0 };
        let last = self.limbs.iter().rposition(|limb| *limb != sign).unwrap_or(0);
        // One limb of sign stays, to tell a negative number from a positive one.
        let kept = &self.limbs[first..=(last + 1).clamp(first, LIMBS - 1)];
        out.push(u8::try_from(first).unwrap_or(0));
        out.push(u8::try_from(kept.len()).unwrap_or(0));
        kept.iter().for_each(|limb| out.extend(limb.to_le_bytes()));
    }

    /// Reads [`Superaccumulator::write`] and returns what follows.
    pub(super) fn read(bytes: &[u8]) -> Option<(Self, &[u8])> {
        let (header, rest) = bytes.split_first_chunk::<2>()?;
        let [first, count] = header.map(usize::from);
        let end = first.checked_add(count).filter(|end| *end <= LIMBS && count > 0)?;
        let (body, rest) = rest.split_at_checked(8 * count)?;
        let mut sum = Self::default();
        for (limb, chunk) in sum.limbs.get_mut(first..end)?.iter_mut().zip(body.chunks_exact(8)) {
            *limb = u64::from_le_bytes(chunk.try_into().ok()?);
        }
        let negative = sum.limbs.get(end - 1)? >> 63 == 1;
        let fill = if negative { u64::MAX } else { 0 };
        sum.limbs.iter_mut().skip(end).for_each(|limb| *limb = fill);
        Some((sum, rest))
    }
}
