//! Counts the calls of an OPE or ORE scheme. Comparisons are counted where they happen, by the meter.

use arras_primitives::prg::Prg;
use arras_protocol::bplus::TieToken;
use arras_protocol::ore::Scheme;
use arras_schemes::error::OpenFailed;
use arras_schemes::ore::{EncryptFailed, Encrypted, End, OrderScheme, StatefulScheme};
use serde::{Deserialize, Serialize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Calls of a scheme's keyed half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SchemeCalls {
    /// Values encrypted for storing.
    pub encryptions: u64,
    /// Ends of ranges encrypted for comparing.
    pub bounds: u64,
    /// Ciphertexts decrypted.
    pub decryptions: u64,
    /// Stored ciphertexts that were made anew (a rebalanced FH-OPE).
    pub replacements: u64,
}

impl std::ops::Sub for SchemeCalls {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            encryptions: self.encryptions - before.encryptions,
            bounds: self.bounds - before.bounds,
            decryptions: self.decryptions - before.decryptions,
            replacements: self.replacements - before.replacements,
        }
    }
}

/// The calls of a [`Watched`] scheme.
#[derive(Clone, Debug, Default)]
pub struct SchemeTally(Arc<Mutex<SchemeCalls>>);

impl SchemeTally {
    fn lock(&self) -> MutexGuard<'_, SchemeCalls> {
        // Nothing panics while it is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The calls so far.
    #[must_use]
    pub fn calls(&self) -> SchemeCalls {
        *self.lock()
    }
}

/// A scheme whose calls are counted, shared between the index that uses it and whoever measures its state.
#[derive(Debug)]
pub struct Watched<O> {
    scheme: Arc<Mutex<O>>,
    tally: SchemeTally,
}

impl<O> Clone for Watched<O> {
    fn clone(&self) -> Self {
        Self { scheme: Arc::clone(&self.scheme), tally: self.tally.clone() }
    }
}

impl<O: OrderScheme> Watched<O> {
    /// Counts the calls of `scheme`.
    pub fn new(scheme: O) -> Self {
        Self { scheme: Arc::new(Mutex::new(scheme)), tally: SchemeTally::default() }
    }

    /// The counts, now and later.
    #[must_use]
    pub fn tally(&self) -> SchemeTally {
        self.tally.clone()
    }

    fn lock(&self) -> MutexGuard<'_, O> {
        self.scheme.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<O: OrderScheme> OrderScheme for Watched<O> {
    fn scheme(&self) -> Scheme {
        self.lock().scheme()
    }

    fn encrypt(&mut self, value: u64, prg: &mut Prg) -> Result<Encrypted, EncryptFailed> {
        let encrypted = self.lock().encrypt(value, prg)?;
        let mut calls = self.tally.lock();
        calls.encryptions += 1;
        calls.replacements += encrypted.replaced.len() as u64;
        Ok(encrypted)
    }

    fn bound(&self, value: u64, end: End, prg: &mut Prg) -> Result<Vec<u8>, EncryptFailed> {
        self.tally.lock().bounds += 1;
        self.lock().bound(value, end, prg)
    }

    fn decrypt(&self, stored: &[u8]) -> Result<u64, OpenFailed> {
        self.tally.lock().decryptions += 1;
        self.lock().decrypt(stored)
    }

    fn tie(&self, value: u64) -> Option<TieToken> {
        self.lock().tie(value)
    }

    fn forget(&mut self, stored: &[u8]) {
        self.lock().forget(stored);
    }

    fn state_bytes(&self) -> usize {
        self.lock().state_bytes()
    }
}

impl<O: StatefulScheme> StatefulScheme for Watched<O> {
    fn values(&self) -> usize {
        self.lock().values()
    }

    fn value(&self, ciphertext: u64) -> Option<u64> {
        self.lock().value(ciphertext)
    }

    fn restore(&mut self, value: u64, ciphertext: u64) -> bool {
        self.lock().restore(value, ciphertext)
    }

    fn rename(&mut self, moves: &[(u64, u64)]) -> bool {
        self.lock().rename(moves)
    }
}
