//! BCLO: a pseudorandom order-preserving function, sampled as far as a plaintext needs it. Keyed half.
//!
//! # Paper
//! Boldyreva, Chenette, Lee, O'Neill, "Order-preserving symmetric encryption", EUROCRYPT 2009, section 4. Cost and
//! comparison: Bogatov, Kollios, Reyzin, PVLDB 12(8), 2019, section 3.1.
//!
//! # Parameters
//! Plaintexts of 32 or 64 bits, ciphertexts of twice as many, big endian.
//!
//! # How
//! The range of ciphertexts is halved again and again; at each halving the hypergeometric distribution tells how many
//! plaintexts go to the lower half. A plaintext left alone with an interval gets a uniform number of it. The
//! coins of each step are a generator's under a seed that a pseudorandom function gives for the step's two intervals.
//! Decryption takes the same way, led by the ciphertext.
//!
//! # Leakage
//! Order and equality, and what a random order-preserving function shows beyond: about the upper half of the bits of
//! a plaintext (Boldyreva, Chenette, O'Neill, CRYPTO 2011). Attacks: Naveed, Kamara, Wright, CCS 2015; Grubbs et al.,
//! S&P 2017.
//!
//! Time depends on the plaintext, as in every published implementation.
//!
//! # Cost
//! 33.3 hypergeometric samples for 32 bits on average, 65.3 for 64: the depth of a random binary trie of all
//! plaintexts. (The comparison paper counts 41 for 32 bits; its sampler is not of this distribution.) A cache of
//! bounded size keeps the outcome of the upper steps, which encryptions share.
//!
//! # Deviations
//! The function is exactly the paper's: the sampler has no rounding (see [`arras_primitives::hypergeometric`]).
//! A ciphertext that encryption does not give is an error, where the paper returns a plaintext or nothing.

mod cache;
mod function;

use self::cache::Cache;
use self::function::OrderPreservingFunction;
use super::{EncryptFailed, Encrypted, End, OrderScheme};
use crate::error::OpenFailed;
use arras_keys::{Key, Purpose};
use arras_primitives::hypergeometric;
use arras_primitives::prf::Prf;
use arras_primitives::prg::Prg;
use arras_protocol::bplus::TieToken;
use arras_protocol::ore::{Scheme, Width, bclo};
use std::sync::{Mutex, PoisonError};

/// Steps that [`Bclo::new`] remembers: 2 MiB.
pub const CACHED_STEPS: usize = 1 << 16;

/// The scheme under one key.
pub struct Bclo {
    width: Width,
    function: OrderPreservingFunction,
    cache: Mutex<Cache>,
}

impl std::fmt::Debug for Bclo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Bclo({:?}, ..)", self.width)
    }
}

impl Bclo {
    /// The scheme under an index's key, with a cache of [`CACHED_STEPS`].
    #[must_use]
    pub fn new(index: &Key, width: Width) -> Self {
        Self::with_cache(index, width, CACHED_STEPS)
    }

    /// The same with room for so many steps of 32 bytes each, rounded up to a power of two; 0 for none.
    #[must_use]
    pub fn with_cache(index: &Key, width: Width, steps: usize) -> Self {
        let (domain_bits, range_bits) = (width.bits(), 2 * width.bits());
        // A change of the sampler or of the intervals changes every coin.
        let which = [hypergeometric::VERSION, domain_bits as u8, range_bits as u8];
        let tape = Prf::new(index.child(Purpose::BcloTape).derive(&[&which]).expose_16());
        let function = OrderPreservingFunction::new(tape, domain_bits, range_bits);
        Self { width, function, cache: Mutex::new(Cache::new(steps)) }
    }

    fn ciphertext(&self, value: u64) -> Result<Vec<u8>, EncryptFailed> {
        if value > self.width.greatest() {
            return Err(EncryptFailed::OutsideDomain);
        }
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.function.encrypt(value, &mut cache);
        let bytes = number.to_be_bytes();
        Ok(bytes[bytes.len() - bclo::bytes(self.width)..].to_vec())
    }
}

impl OrderScheme for Bclo {
    fn scheme(&self) -> Scheme {
        Scheme::Bclo(self.width)
    }

    fn encrypt(&mut self, value: u64, _: &mut Prg) -> Result<Encrypted, EncryptFailed> {
        let stored = self.ciphertext(value)?;
        Ok(Encrypted { query: stored.clone(), stored, replaced: Vec::new() })
    }

    fn bound(&self, value: u64, _: End, _: &mut Prg) -> Result<Vec<u8>, EncryptFailed> {
        self.ciphertext(value)
    }

    fn tie(&self, _: u64) -> Option<TieToken> {
        None
    }

    fn decrypt(&self, stored: &[u8]) -> Result<u64, OpenFailed> {
        if stored.len() != bclo::bytes(self.width) {
            return Err(OpenFailed);
        }
        let number = stored.iter().fold(0, |number, byte| number << 8 | u128::from(*byte));
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        self.function.decrypt(number, &mut cache).ok_or(OpenFailed)
    }
}

#[cfg(test)]
mod tests;
