//! CLOZ, order-revealing encryption that hides where two plaintexts differ. Keyed half.
//!
//! *Paper.* Cash, Liu, O'Neill, Zhandry, Zhang, "Parameter-hiding order revealing encryption", ASIACRYPT 2018
//! (ePrint 2018/698); Bogatov, Kollios, Reyzin, VLDB 2019, §3.4.
//!
//! *Parameters.* Plaintexts of 32 or 64 bits; numbers of 128 bits; hashes of `arras_primitives::pph`.
//!
//! *How.* A bit's number is a PRF of its place and all higher bits, plus the bit. Two plaintexts share the numbers
//! above the highest bit in which they differ; there the numbers are one apart; below they are independent. The
//! numbers are hashed so that "one apart" can be tested and nothing else, in random order, each time anew.
//!
//! *Leakage.* Stored ciphertexts alone: their number. A query adds its order with each stored plaintext it is
//! compared with, and of two of these that differ from it, whether they do so first at the same bit; with equality,
//! that is the paper's leakage ("equality pattern of the most significant differing bits").
//!
//! *Cost.* A fixed-base multiple in the first group for each bit, two in the second for a query.
//!
//! *Deviations.* Stored and query ciphertexts are the two sides of the paper's hash, each on its own, so that stored
//! ones cannot be compared with each other. Numbers of one ciphertext share the hash's random exponent (see
//! `arras_primitives::pph` why that is no loss): a comparison takes pairings linear in the bits, not quadratic.
//! The plaintext lies sealed beside the stored hashes and is bound to them: the hashes alone do not decrypt.

use super::domain::{key_plaintext, plaintext_key};
use super::tie::Ties;
use super::{EncryptFailed, Encrypted, End, OrderScheme};
use crate::error::OpenFailed;
use arras_keys::{Key, Purpose};
use arras_primitives::Block;
use arras_primitives::aead::{Aead, NONCE_BYTES};
use arras_primitives::pph::Pph;
use arras_primitives::prf::Prf;
use arras_primitives::prg::Prg;
use arras_primitives::prp::{self, CHOICES_MAX};
use arras_protocol::bplus::TieToken;
use arras_protocol::ore::cloz::stored_hash_bytes;
use arras_protocol::ore::{Scheme, Width};
use zeroize::Zeroizing;

/// CLOZ under one index's key.
pub struct Cloz {
    width: Width,
    prefixes: Prf,
    hash: Pph,
    seal: Aead,
    ties: Ties,
}

impl std::fmt::Debug for Cloz {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cloz({:?})", self.width)
    }
}

impl Cloz {
    /// Derives the scheme's keys from the index's.
    #[must_use]
    pub fn new(index: &Key, width: Width) -> Self {
        Self {
            width,
            prefixes: Prf::new(index.child(Purpose::ClozPrefix).expose_16()),
            hash: Pph::new(index.child(Purpose::ClozHash).expose()),
            seal: Aead::new(index.child(Purpose::ClozSeal).expose()),
            ties: Ties::new(index),
        }
    }

    /// The numbers of a plaintext's bits, highest first.
    fn numbers(&self, value: u64) -> Result<Zeroizing<Vec<u128>>, EncryptFailed> {
        if value > self.width.greatest() {
            return Err(EncryptFailed::OutsideDomain);
        }
        let bits = self.width.bits();
        // The input: place, width, and the bits above the place.
        let mut blocks = Zeroizing::new(vec![Block::default(); bits as usize]);
        for (place, block) in (1..).zip(blocks.iter_mut()) {
            let above = (u128::from(value) >> (bits - place + 1)) as u64;
            (block[0], block[1]) = (place as u8, bits as u8);
            block[8..].copy_from_slice(&above.to_be_bytes());
        }
        self.prefixes.blocks(&mut blocks);
        let with_bit = |(place, block): (u32, &Block)| {
            let bit = value >> (bits - place) & 1;
            u128::from_be_bytes(*block).wrapping_add(u128::from(bit))
        };
        Ok(Zeroizing::new((1..).zip(blocks.iter()).map(with_bit).collect()))
    }

    fn stored(&self, value: u64, numbers: &[u128], prg: &mut Prg) -> Vec<u8> {
        let numbers = shuffled(numbers, prg);
        let mut stored = self.hash.hash_stored(&numbers, prg);
        let mut nonce = [0; NONCE_BYTES];
        prg.fill(&mut nonce);
        let plaintext = Zeroizing::new(plaintext_key(self.width, value));
        let sealed = self.seal.seal(&nonce, &stored, &plaintext);
        stored.extend_from_slice(&sealed);
        stored
    }
}

/// The numbers in random order.
fn shuffled(numbers: &[u128], prg: &mut Prg) -> Zeroizing<Vec<u128>> {
    let mut words = Zeroizing::new([[0; 4]; CHOICES_MAX]);
    prg.fill(words[..numbers.len()].as_flattened_mut());
    let (mut choices, mut order) = (Zeroizing::new([0; CHOICES_MAX]), Zeroizing::new([0; CHOICES_MAX]));
    prp::choices_from(words.as_slice(), &mut choices[..numbers.len()], |_, _| prg.next_u64() as u32);
    prp::shuffle(&choices, numbers.len(), &mut order);
    let order = &order[..numbers.len()];
    Zeroizing::new(order.iter().map(|place| numbers[usize::from(*place)]).collect())
}

impl OrderScheme for Cloz {
    fn scheme(&self) -> Scheme {
        Scheme::Cloz(self.width)
    }

    fn encrypt(&mut self, value: u64, prg: &mut Prg) -> Result<Encrypted, EncryptFailed> {
        let numbers = self.numbers(value)?;
        let stored = self.stored(value, &numbers, prg);
        let query = self.hash.hash_query(&shuffled(&numbers, prg), prg);
        Ok(Encrypted { stored, query, replaced: Vec::new() })
    }

    fn bound(&self, value: u64, _end: End, prg: &mut Prg) -> Result<Vec<u8>, EncryptFailed> {
        Ok(self.hash.hash_query(&shuffled(&self.numbers(value)?, prg), prg))
    }

    fn decrypt(&self, stored: &[u8]) -> Result<u64, OpenFailed> {
        let (hashes, sealed) = stored.split_at_checked(stored_hash_bytes(self.width)).ok_or(OpenFailed)?;
        let plaintext = Zeroizing::new(self.seal.open(hashes, sealed).map_err(|_| OpenFailed)?);
        key_plaintext(self.width, &plaintext).ok_or(OpenFailed)
    }

    fn tie(&self, value: u64) -> Option<TieToken> {
        Some(self.ties.of(value))
    }
}

#[cfg(test)]
mod tests;
