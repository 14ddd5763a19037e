//! Exact, mergeable sums.

use crate::superaccumulator::Superaccumulator;
use crate::{Decimal, Number};

const HAS_LONG: u8 = 1;
const HAS_DOUBLE: u8 = 2;
const HAS_DECIMAL: u8 = 4;
const HAS_NAN: u8 = 8;
const HAS_PLUS_INFINITY: u8 = 16;
const HAS_MINUS_INFINITY: u8 = 32;

/// Bytes that are no encoded sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed partial sum")]
pub struct Malformed;

/// A sum of numbers that does not depend on the order of additions and merges, typed as MongoDB's `$sum`.
///
/// Integers sum in 128 bits, doubles exactly (no rounding before [`NumberSum::finish`]); MongoDB's own double-double
/// sum differs only where it loses bits itself. Decimals round to 34 digits at each step, as MongoDB's do: their
/// sum is independent of order as long as it fits in 34 digits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NumberSum {
    flags: u8,
    count: u64,
    integers: i128,
    doubles: Superaccumulator,
    decimals: Option<Decimal>,
}

impl NumberSum {
    /// Most bytes of [`NumberSum::to_bytes`].
    pub const ENCODED_BYTES_MAX: usize = 1 + 8 + 16 + Superaccumulator::ENCODED_BYTES_MAX + 16;

    /// The empty sum: int32 zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a number.
    pub fn add(&mut self, number: Number) {
        match number {
            Number::Int(number) => self.integers = self.integers.saturating_add(i128::from(number)),
            Number::Long(number) => {
                self.flags |= HAS_LONG;
                self.integers = self.integers.saturating_add(i128::from(number));
            }
            Number::Double(number) => {
                self.flags |= HAS_DOUBLE;
                self.add_double(number);
            }
            Number::Decimal(number) => {
                self.flags |= HAS_DECIMAL;
                self.decimals = Some(self.decimals.unwrap_or(Decimal::ZERO).plus(number));
            }
        }
        self.count = self.count.saturating_add(1);
    }

    fn add_double(&mut self, number: f64) {
        if number.is_nan() {
            self.flags |= HAS_NAN;
        } else if number.is_infinite() {
            self.flags |= if number > 0.0 { HAS_PLUS_INFINITY } else { HAS_MINUS_INFINITY };
        } else {
            self.doubles.add(number);
        }
    }

    /// Adds what another sum has added.
    pub fn merge(&mut self, other: &NumberSum) {
        self.flags |= other.flags;
        self.count = self.count.saturating_add(other.count);
        self.integers = self.integers.saturating_add(other.integers);
        self.doubles.merge(&other.doubles);
        if let Some(decimals) = other.decimals {
            self.decimals = Some(self.decimals.map_or(decimals, |own| own.plus(decimals)));
        }
    }

    /// The sum: int32 while it fits and only int32 were added, then int64 while it fits, then double; double if
    /// one was added; decimal if one was added.
    pub fn finish(&self) -> Number {
        if let Some(decimals) = self.decimals {
            return Number::Decimal(decimals.plus(self.binary_as_decimal()));
        }
        if self.flags & HAS_DOUBLE != 0 {
            return Number::Double(self.binary_total());
        }
        match (i32::try_from(self.integers), i64::try_from(self.integers)) {
            (Ok(small), _) if self.flags & HAS_LONG == 0 => Number::Int(small),
            (_, Ok(long)) => Number::Long(long),
            _ => Number::Double(self.binary_total()),
        }
    }

    /// How many numbers were added.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The mean: a decimal if one was added, else a double; none if no number was added.
    pub fn average(&self) -> Option<Number> {
        if self.count == 0 {
            return None;
        }
        if let Some(decimals) = self.decimals {
            let total = decimals.plus(self.binary_as_decimal());
            let mean = total.divide(Decimal::from_i128(i128::from(self.count)));
            return Some(Number::Decimal(mean));
        }
        #[allow(clippy::cast_precision_loss)]
        let count = self.count as f64;
        Some(Number::Double(self.binary_total() / count))
    }

    /// Integers and doubles together, rounded once.
    fn binary_total(&self) -> f64 {
        let plus = self.flags & HAS_PLUS_INFINITY != 0;
        let minus = self.flags & HAS_MINUS_INFINITY != 0;
        if self.flags & HAS_NAN != 0 || (plus && minus) {
            return f64::NAN;
        }
        if plus || minus {
            return if plus { f64::INFINITY } else { f64::NEG_INFINITY };
        }
        let mut total = self.doubles.clone();
        total.add_integer(self.integers);
        total.to_f64()
    }

    fn binary_as_decimal(&self) -> Decimal {
        if self.flags & HAS_DOUBLE == 0 {
            return Decimal::from_i128(self.integers);
        }
        Decimal::from_f64(self.binary_total())
    }

    /// Compact encoding: flags, count, integers, then doubles and decimals if there are any. Its length depends on
    /// the values: pad it with zeros (to [`NumberSum::ENCODED_BYTES_MAX`] at most) where that must not show.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![self.flags];
        out.extend(self.count.to_le_bytes());
        out.extend(self.integers.to_le_bytes());
        if self.flags & HAS_DOUBLE != 0 {
            self.doubles.write(&mut out);
        }
        if let Some(decimals) = self.decimals {
            out.extend(decimals.to_bytes());
        }
        out
    }

    /// Reads [`NumberSum::to_bytes`], with zero padding behind it or not.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are no such encoding.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Malformed> {
        Self::read(bytes).ok_or(Malformed)
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (flags, rest) = bytes.split_first_chunk::<1>()?;
        let flags = flags.first().copied().filter(|flags| *flags < 64)?;
        let (count, rest) = rest.split_first_chunk::<8>()?;
        let (integers, rest) = rest.split_first_chunk::<16>()?;
        let integers = i128::from_le_bytes(*integers);
        let (doubles, rest) = match flags & HAS_DOUBLE {
            0 => (Superaccumulator::default(), rest),
            _ => Superaccumulator::read(rest)?,
        };
        let (decimals, padding) = match flags & HAS_DECIMAL {
            0 => (None, rest),
            _ => {
                let (decimal, rest) = rest.split_first_chunk::<16>()?;
                (Some(Decimal::from_bytes(*decimal)), rest)
            }
        };
        // Sums of at most 2^63 values of 64 bits stay far from the ends of 128 bits, so additions cannot overflow.
        let in_range = integers.unsigned_abs() <= 1 << 126;
        let sum = NumberSum { flags, count: u64::from_le_bytes(*count), integers, doubles, decimals };
        (in_range && padding.iter().all(|byte| *byte == 0)).then_some(sum)
    }
}
