//! Counts of primitive calls, a thread's own. The lab turns the `meter` feature on; without it [`count`] is
//! empty and costs nothing, which is why it is a feature: shipped binaries are built without.
//!
//! Primitives count themselves, protocols do not: what a scheme or protocol used is the difference of two
//! [`reading`]s around it.

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Primitive {
    /// One AES block, whatever it is part of.
    AesBlock,
    /// Hash of a short string.
    Hash,
    /// A sample of the hypergeometric distribution.
    HypergeometricSample,
    /// A property-preserving hash.
    PphHash,
    /// A test of two property-preserving hashes.
    PphTest,
    /// A call of a pseudorandom function.
    Prf,
    /// A draw from a pseudorandom generator.
    Prg,
    /// A call of a pseudorandom permutation.
    Prp,
    /// A symmetric encryption or decryption of one item.
    Symmetric,
    /// A walk down a client's search tree.
    Traversal,
}

impl Primitive {
    /// All kinds, in the order of [`Reading`].
    pub const ALL: [Self; 10] = [
        Self::AesBlock,
        Self::Hash,
        Self::HypergeometricSample,
        Self::PphHash,
        Self::PphTest,
        Self::Prf,
        Self::Prg,
        Self::Prp,
        Self::Symmetric,
        Self::Traversal,
    ];

    /// Its name in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::AesBlock => "aes_block",
            Self::Hash => "hash",
            Self::HypergeometricSample => "hypergeometric_sample",
            Self::PphHash => "pph_hash",
            Self::PphTest => "pph_test",
            Self::Prf => "prf",
            Self::Prg => "prg",
            Self::Prp => "prp",
            Self::Symmetric => "symmetric",
            Self::Traversal => "traversal",
        }
    }
}

/// Counts by kind, in the order of [`Primitive::ALL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading([u64; Primitive::ALL.len()]);

impl Reading {
    /// Calls of one kind.
    #[must_use]
    pub fn of(&self, primitive: Primitive) -> u64 {
        self.0[primitive as usize]
    }
}

impl std::ops::Sub for Reading {
    type Output = Self;

    /// What was counted between the reading `before` and this one.
    fn sub(mut self, before: Self) -> Self {
        for (now, before) in self.0.iter_mut().zip(before.0) {
            *now = now.wrapping_sub(before);
        }
        self
    }
}

impl std::ops::Add for Reading {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        for (now, other) in self.0.iter_mut().zip(other.0) {
            *now = now.wrapping_add(other);
        }
        self
    }
}

#[cfg(feature = "meter")]
thread_local! {
    static COUNTS: [std::cell::Cell<u64>; Primitive::ALL.len()] =
        const { [const { std::cell::Cell::new(0) }; Primitive::ALL.len()] };
}

/// Whether calls are counted in this build.
#[must_use]
pub const fn is_on() -> bool {
    cfg!(feature = "meter")
}

/// Counts `calls` of `primitive` on this thread.
#[inline(always)]
pub fn count(primitive: Primitive, calls: usize) {
    #[cfg(feature = "meter")]
    COUNTS.with(|counts| {
        let cell = &counts[primitive as usize];
        cell.set(cell.get().wrapping_add(calls as u64));
    });
    #[cfg(not(feature = "meter"))]
    let _ = (primitive, calls);
}

/// What this thread has counted so far; zeros in a build without the meter.
#[must_use]
pub fn reading() -> Reading {
    #[cfg(feature = "meter")]
    {
        let mut reading = Reading::default();
        COUNTS.with(|counts| {
            for (value, cell) in reading.0.iter_mut().zip(counts) {
                *value = cell.get();
            }
        });
        reading
    }
    #[cfg(not(feature = "meter"))]
    Reading::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_at_their_places() {
        for (place, primitive) in Primitive::ALL.into_iter().enumerate() {
            assert_eq!(primitive as usize, place);
        }
    }

    #[test]
    fn a_reading_shows_what_was_counted_since() {
        let before = reading();
        count(Primitive::Prf, 3);
        count(Primitive::Hash, 1);
        let after = reading() - before;
        assert_eq!(after.of(Primitive::Prf), if is_on() { 3 } else { 0 });
        assert_eq!(after.of(Primitive::Hash), u64::from(is_on()));
        assert_eq!(after.of(Primitive::Prp), 0);
    }
}
