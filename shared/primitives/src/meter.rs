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
    /// A comparison of two ciphertexts of an OPE or ORE scheme.
    Comparison,
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
    pub const ALL: [Self; 11] = [
        Self::AesBlock,
        Self::Comparison,
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
            Self::Comparison => "comparison",
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
    /// What a call of each primitive counts.
    #[test]
    fn primitives_count_themselves() {
        use crate::{aead, det_aead, hash, kdf, lanes, prf, prg, prp, symmetric, trit};
        use Primitive::{AesBlock, Hash, Prf, Prg, Prp, Symmetric};
        let counted = |work: &mut dyn FnMut(), expected: &[(Primitive, u64)]| {
            let before = reading();
            work();
            let counted = reading() - before;
            for primitive in Primitive::ALL {
                let calls =
                    expected.iter().find(|(kind, _)| *kind == primitive).map_or(0, |(_, calls)| *calls);
                assert_eq!(counted.of(primitive), if is_on() { calls } else { 0 }, "{}", primitive.name());
            }
        };
        let prf = prf::Prf::new(&[1; 16]);
        counted(&mut || _ = prf.block(&[0; 16]), &[(Prf, 1), (AesBlock, 1)]);
        counted(&mut || prf.blocks(&mut [[0; 16]; 5]), &[(Prf, 5), (AesBlock, 5)]);
        counted(&mut || prf.wide_blocks(2, &mut [[0; 16]; 6]), &[(Prf, 2), (AesBlock, 6)]);
        counted(&mut || _ = prf.mac(&[0; 33]), &[(Prf, 1), (AesBlock, 3)]);
        counted(&mut || _ = prf.mac(&[]), &[(Prf, 1), (AesBlock, 1)]);
        let mut generator = prg::Prg::new(&[1; 16]);
        counted(&mut || generator.fill(&mut [0; 3]), &[(Prg, 1), (AesBlock, 32)]);
        counted(&mut || _ = generator.next_u64(), &[(Prg, 1)]);
        counted(&mut || prg::stream(&[1; 16], &mut [[0; 16]; 7]), &[(Prg, 1), (AesBlock, 7)]);
        counted(&mut || _ = hash::sha256(&[b"a", b"b"]), &[(Hash, 1)]);
        counted(&mut || _ = hash::sha256_framed(&[b"a", b"b"]), &[(Hash, 1)]);
        counted(&mut || kdf::hkdf_sha256(&[1; 32], b"", &[], &mut [0; 16]), &[]);
        counted(
            &mut || trit::hash_each(&[1; 16], &mut [[0; 16]; 4], &mut [0; 4]),
            &[(Hash, 4), (AesBlock, 4)],
        );
        counted(&mut || prp::shuffle(&[0; 256], 2, &mut [0; 256]), &[(Prp, 1)]);
        counted(&mut || lanes::encrypt_each(&[[1; 16]; 3], &mut [[0; 16]; 3]), &[(AesBlock, 3)]);
        counted(&mut || lanes::encrypt_two(&[[1; 16]; 3], (0, 1), &mut [[[0; 16]; 2]; 3]), &[(AesBlock, 6)]);
        let sealer = aead::Aead::new(&[1; 32]);
        counted(&mut || _ = sealer.seal(&[0; 12], b"", b"x"), &[(Symmetric, 1)]);
        counted(&mut || _ = sealer.open(b"", &[0; 40]).is_ok(), &[(Symmetric, 1)]);
        let sealer = det_aead::DetAead::new(&[1; 32]);
        counted(&mut || _ = sealer.tag(&[], b"x"), &[(Symmetric, 1)]);
        counted(&mut || _ = sealer.open(&[], &[0; 40]).is_ok(), &[(Symmetric, 1)]);
        let sealer = symmetric::Sealer::new(&[1; 32]);
        let mut sealed = Vec::new();
        // Counter mode: 2 blocks each. MAC: length and associated data once, then nonce and 2 blocks each.
        let seal = [(Symmetric, 3), (Prf, 6 + 2 + 9), (AesBlock, 6 + 2 + 9), (Prg, 1)];
        counted(&mut || sealer.seal_each(&[0; 16], &[0; 60], 20, &mut generator, &mut sealed), &seal);
        let open = [seal[0], seal[1], seal[2]];
        counted(&mut || assert!(sealer.open_each(&[0; 16], &sealed, 20, &mut Vec::new()).is_ok()), &open);
        let network = prp::FeistelPermutation::new(&[1; 16], 4).expect("not empty");
        counted(&mut || _ = network.image(1), &[(Prp, 1), (Prf, 10), (AesBlock, 10)]);
    }
}
