//! Property-preserving hash for "x is y + 1": tells of two hashed numbers whether one is the other's successor, and
//! nothing else.
//!
//! *Paper.* Cash, Liu, O'Neill, Zhandry, Zhang, "Parameter-hiding order revealing encryption", ASIACRYPT 2018
//! (ePrint 2018/698), the construction from pairings.
//!
//! *Parameters.* BLS12-381, generators g and h; F is HMAC-SHA256 of the number, 48 bytes taken modulo the groups'
//! order.
//!
//! *How.* For random r and s, the numbers x that are stored hash to g^r and each g^(r F(x)); those that are asked
//! for to h^s and each h^(s F(y + 1)) and h^(s F(y - 1)). With e the pairing, e(g^(r F(x)), h^s) equals
//! e(g^r, h^(s F(y + 1))) exactly if x is y + 1, but for a chance of 2^-128 and less.
//!
//! *Leakage.* Stored hashes alone: their number. Stored hashes and asked-for ones: which tests pass. Assumes that
//! Diffie-Hellman decisions are hard in both groups (SXDH).
//!
//! *Cost.* A pairing for each number on either side, 3n for n and n numbers.
//!
//! *Deviations.* The paper hashes each number with its own r and s and tests each pair with two pairings, 4n^2 in
//! all. Here numbers hashed together share r, or s, so that either side of the equation depends on one number alone
//! and pairs are found by comparing values. The paper's proof replaces one g^(r F(x)) after the other by a random
//! point, for each x of which no test passes, given g^r and g^F(x) by the Diffie-Hellman challenge in the first group.
//! As no test of x passes, neither of its neighbours is asked for and h^(s F(x)) occurs nowhere: g^F(x) is all that
//! the reduction needs of x. The other points of the same r are made from g^r with F of their own numbers, which
//! it knows, so it holds as it stands if the numbers hashed together differ. The second group's side is the same with
//! h^(s F(y + 1)) and h^(s F(y - 1)), each of a number of its own.
//! And each side of the hash is made on its own, so that what is stored cannot be tested against what is stored.

use crate::kdf::hkdf_sha256;
use crate::meter::{Primitive, count};
use crate::pairing::{G1, G1_BYTES, G2, G2_BYTES, Gt, Lines, Scalar, WIDE_BYTES, pair};
use crate::prg::Prg;
use std::fmt;
use zeroize::{Zeroize, Zeroizing};

/// Bytes of the hashes of `numbers` stored numbers.
#[must_use]
pub const fn stored_bytes(numbers: usize) -> usize {
    (numbers + 1) * G1_BYTES
}

/// Bytes of the hashes of `numbers` asked-for numbers.
#[must_use]
pub const fn query_bytes(numbers: usize) -> usize {
    (2 * numbers + 1) * G2_BYTES
}

/// The keyed hash.
pub struct Pph {
    material: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for Pph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pph(..)")
    }
}

/// A scalar of fresh randomness.
fn random(prg: &mut Prg) -> Scalar {
    let mut wide = [0; WIDE_BYTES];
    prg.fill(&mut wide);
    let scalar = Scalar::from_wide(&wide);
    wide.zeroize();
    scalar
}

impl Pph {
    /// Hashes under `material`, which must be uniform.
    #[must_use]
    pub fn new(material: &[u8; 32]) -> Self {
        Self { material: Zeroizing::new(*material) }
    }

    /// F.
    fn exponent(&self, number: u128) -> Scalar {
        let mut wide = [0; WIDE_BYTES];
        hkdf_sha256(&*self.material, b"pph exponent", &[&number.to_be_bytes()], &mut wide);
        let scalar = Scalar::from_wide(&wide);
        wide.zeroize();
        scalar
    }

    /// `common`, then its products with F of each number.
    fn multiples_of(&self, common: Scalar, numbers: impl Iterator<Item = u128>) -> Vec<Scalar> {
        // Room for all, so that no copy is left behind by growing.
        let mut scalars = Vec::with_capacity(1 + numbers.size_hint().1.unwrap_or(0));
        let products = numbers.map(|number| self.exponent(number).times(&common));
        scalars.extend(products);
        scalars.insert(0, common);
        scalars
    }

    /// Hashes numbers to be stored, which must differ. Compressed points: g^r, then one for each number, in order.
    #[must_use]
    pub fn hash_stored(&self, numbers: &[u128], prg: &mut Prg) -> Vec<u8> {
        count(Primitive::PphHash, numbers.len());
        let common = random(prg);
        let scalars = self.multiples_of(common, numbers.iter().copied());
        G1::multiples(&scalars).iter().flat_map(G1::to_bytes).collect()
    }

    /// Hashes numbers to be asked for, whose neighbours must differ. Compressed points: h^s, then for each number
    /// that of its successor and that of its predecessor.
    #[must_use]
    pub fn hash_query(&self, numbers: &[u128], prg: &mut Prg) -> Vec<u8> {
        count(Primitive::PphHash, numbers.len());
        let common = random(prg);
        let neighbours = numbers.iter().flat_map(|number| [number.wrapping_add(1), number.wrapping_sub(1)]);
        let scalars = self.multiples_of(common, neighbours);
        G2::multiples(&scalars).iter().flat_map(G2::to_bytes).collect()
    }
}

/// What [`Pph::hash_stored`] gave, checked: every point is of its group.
#[derive(Debug)]
pub struct StoredHashes {
    common: G1,
    points: Vec<G1>,
}

impl StoredHashes {
    /// Reads the hashes of `numbers` numbers; `None` if they are not as many points of the group.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], numbers: usize) -> Option<Self> {
        let (compressed, rest) = bytes.as_chunks::<G1_BYTES>();
        if compressed.len() != numbers + 1 || !rest.is_empty() {
            return None;
        }
        let mut points = compressed.iter().map(G1::from_bytes);
        Some(Self { common: points.next()??, points: points.collect::<Option<_>>()? })
    }
}

/// What [`Pph::hash_query`] gave, checked: every point is of its group.
#[derive(Debug)]
pub struct QueryHashes {
    common: G2,
    points: Vec<G2>,
}

impl QueryHashes {
    /// Reads the hashes of `numbers` numbers; `None` if they are not as many points of the group.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], numbers: usize) -> Option<Self> {
        let (compressed, rest) = bytes.as_chunks::<G2_BYTES>();
        if compressed.len() != 2 * numbers + 1 || !rest.is_empty() {
            return None;
        }
        let mut points = compressed.iter().map(G2::from_bytes);
        Some(Self { common: points.next()??, points: points.collect::<Option<_>>()? })
    }
}

/// A stored number next to one asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbours {
    /// Which of the stored numbers.
    pub stored_position: usize,
    /// Which of those asked for.
    pub query_position: usize,
    /// Whether the stored one is the successor; the predecessor else.
    pub is_successor: bool,
}

/// Tests the numbers asked for, in order, against all stored ones, until a pair of neighbours is found.
#[must_use]
pub fn find_neighbours(query: &QueryHashes, stored: &StoredHashes) -> Option<Neighbours> {
    let lines = Lines::new(&query.common);
    let of_stored: Vec<Gt> = stored.points.iter().map(|point| lines.pair(point)).collect();
    query.points.iter().enumerate().find_map(|(at, point)| {
        count(Primitive::PphTest, of_stored.len());
        let of_query = pair(&stored.common, point);
        let stored_position = of_stored.iter().position(|value| *value == of_query)?;
        Some(Neighbours { stored_position, query_position: at / 2, is_successor: at.is_multiple_of(2) })
    })
}

#[cfg(test)]
mod tests;
