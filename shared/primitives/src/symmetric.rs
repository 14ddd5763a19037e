//! Authenticated encryption of many short records of one length at once.
//!
//! Protocols that send a client whole nodes or buffers of values seal each value by itself.
//! One call of an AEAD costs tens of nanoseconds for 8 bytes; here records go through the AES units side by side.
//!
//! *Construction.* Encrypt-then-MAC. A record is `nonce || ciphertext || tag`. The ciphertext is the plaintext xor
//! `AES_k1(nonce) || AES_k1(nonce + 1) || ..` (counter mode, little-endian counters) under a random nonce of 16 bytes.
//! The tag is the CBC-MAC under `k2` of `record_bytes || associated || nonce || ciphertext`, the length being a
//! block of its own and the last block of the ciphertext filled with zeros. As records of different lengths have
//! different first blocks, no input is a prefix of another, which is what CBC-MAC needs to be a pseudorandom function
//! (Petrank and Rackoff, J. Cryptology 2000); encrypt-then-MAC is then IND-CCA (Bellare and Namprempre,
//! ASIACRYPT 2000).
//!
//! *Bounds.* After `q` records of `l` blocks an attacker's advantage is about `(q l)^2 / 2^128` in both parts: derive a
//! new key before 2^40 blocks.
//!
//! *Leakage.* Number and length of records. A record moved to another place under the same associated data opens:
//! whoever cares puts the place into the record or the associated data.

use crate::meter::{Primitive, count};
use crate::prf::Prf;
use crate::prg::Prg;
use crate::wipe::wipe;
use crate::{BLOCK_BYTES, Block, OpenError};
use std::fmt;

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 16;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// Bytes that sealing adds to a record.
pub const OVERHEAD_BYTES: usize = NONCE_BYTES + TAG_BYTES;

/// Records worked on side by side.
const STEP: usize = 64;

/// Bytes of a sealed record.
#[must_use]
pub const fn sealed_bytes(plaintext_bytes: usize) -> usize {
    plaintext_bytes + OVERHEAD_BYTES
}

/// Seals and opens records under one material.
pub struct Sealer {
    stream: Prf,
    mac: Prf,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer(..)")
    }
}

impl Sealer {
    /// Expands `material`, which must be uniform.
    #[must_use]
    pub fn new(material: &[u8; 32]) -> Self {
        let (halves, _) = material.as_chunks();
        Self { stream: Prf::new(&halves[0]), mac: Prf::new(&halves[1]) }
    }

    /// Seals records of `record_bytes` each, which follow each other in `plaintexts`, and appends them to `out`, each
    /// of [`sealed_bytes`]. All are bound to `associated`.
    ///
    /// # Panics
    ///
    /// If `record_bytes` is 0 or `plaintexts` is not of whole records.
    pub fn seal_each(
        &self,
        associated: &[u8; 16],
        plaintexts: &[u8],
        record_bytes: usize,
        prg: &mut Prg,
        out: &mut Vec<u8>,
    ) {
        assert!(record_bytes > 0 && plaintexts.len().is_multiple_of(record_bytes), "records are whole");
        let records = plaintexts.len() / record_bytes;
        count(Primitive::Symmetric, records);
        let prefix = self.prefix(associated, record_bytes);
        let mut pads = Vec::with_capacity(STEP.min(records) * record_bytes.div_ceil(BLOCK_BYTES));
        let mut nonces = [[0; BLOCK_BYTES]; STEP];
        out.reserve(records * sealed_bytes(record_bytes));
        for plaintexts in plaintexts.chunks(STEP * record_bytes) {
            let first = out.len();
            let nonces = &mut nonces[..plaintexts.len() / record_bytes];
            prg.fill_blocks(nonces);
            for (plaintext, nonce) in plaintexts.chunks_exact(record_bytes).zip(&*nonces) {
                out.extend_from_slice(nonce);
                out.extend_from_slice(plaintext);
                out.extend_from_slice(&[0; TAG_BYTES]);
            }
            let sealed = &mut out[first..];
            let bodies = sealed.chunks_exact_mut(sealed_bytes(record_bytes)).map(|record| {
                let until = record.len() - TAG_BYTES;
                &mut record[NONCE_BYTES..until]
            });
            self.apply_stream(nonces, bodies, record_bytes, &mut pads);
            let tags = self.tags(prefix, sealed, record_bytes);
            for (record, tag) in sealed.chunks_exact_mut(sealed_bytes(record_bytes)).zip(&tags) {
                let from = record.len() - TAG_BYTES;
                record[from..].copy_from_slice(tag);
            }
        }
        wipe(pads.as_flattened_mut());
    }

    /// Opens what [`Sealer::seal_each`] appended and appends the plaintexts to `out`; nothing is appended if one of
    /// them does not open.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if a record was not sealed with this material, length and associated data, or was altered; or if
    /// `sealed` is not of whole records.
    pub fn open_each(
        &self,
        associated: &[u8; 16],
        sealed: &[u8],
        record_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), OpenError> {
        let step_bytes = record_bytes.checked_add(OVERHEAD_BYTES).ok_or(OpenError)?;
        if record_bytes == 0 || !sealed.len().is_multiple_of(step_bytes) {
            return Err(OpenError);
        }
        count(Primitive::Symmetric, sealed.len() / step_bytes);
        // Elements of a buffer, of 32-bit and of 64-bit values.
        match record_bytes {
            28 => self.open_records(associated, sealed, 28, out),
            32 => self.open_records(associated, sealed, 32, out),
            other => self.open_records(associated, sealed, other, out),
        }
    }

    /// Opens whole records. Inlined with all that it calls: where the length is a constant, nothing loops over it.
    #[inline(always)]
    fn open_records(
        &self,
        associated: &[u8; 16],
        sealed: &[u8],
        record_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), OpenError> {
        let step_bytes = sealed_bytes(record_bytes);
        let prefix = self.prefix(associated, record_bytes);
        let first = out.len();
        let records = STEP.min(sealed.len() / step_bytes);
        let mut pads = Vec::with_capacity(records * record_bytes.div_ceil(BLOCK_BYTES));
        let mut nonces = [[0; BLOCK_BYTES]; STEP];
        for sealed in sealed.chunks(STEP * step_bytes) {
            if !self.is_authentic(prefix, sealed, record_bytes) {
                wipe(&mut out[first..]);
                out.truncate(first);
                return Err(OpenError);
            }
            let nonces = &mut nonces[..sealed.len() / step_bytes];
            let from = out.len();
            for (record, nonce) in sealed.chunks_exact(step_bytes).zip(&mut *nonces) {
                nonce.copy_from_slice(&record[..NONCE_BYTES]);
                out.extend_from_slice(&record[NONCE_BYTES..step_bytes - TAG_BYTES]);
            }
            let bodies = out[from..].chunks_exact_mut(record_bytes);
            self.apply_stream(nonces, bodies, record_bytes, &mut pads);
        }
        wipe(pads.as_flattened_mut());
        Ok(())
    }

    /// The MAC's state after the blocks that all records of a call have in common.
    fn prefix(&self, associated: &[u8; 16], record_bytes: usize) -> Block {
        let length = self.mac.block(&(record_bytes as u128).to_le_bytes());
        self.mac.block(&xor(length, *associated))
    }

    #[inline(always)]
    fn apply_stream<'a>(
        &self,
        nonces: &[Block],
        bodies: impl Iterator<Item = &'a mut [u8]>,
        record_bytes: usize,
        pads: &mut Vec<Block>,
    ) {
        let blocks = record_bytes.div_ceil(BLOCK_BYTES);
        pads.clear();
        for nonce in nonces {
            let counter = u128::from_le_bytes(*nonce);
            pads.extend((0..blocks).map(|at| counter.wrapping_add(at as u128).to_le_bytes()));
        }
        self.stream.blocks(pads);
        for (body, pads) in bodies.zip(pads.chunks_exact(blocks)) {
            xor_into(body, pads.as_flattened());
        }
    }

    /// The tags of up to [`STEP`] sealed records, whatever tags they carry; the rest is not of use.
    #[inline(always)]
    fn tags(&self, prefix: Block, sealed: &[u8], record_bytes: usize) -> [Block; STEP] {
        let mut states = [prefix; STEP];
        let step_bytes = sealed_bytes(record_bytes);
        let states_used = &mut states[..sealed.len() / step_bytes];
        let input_bytes = NONCE_BYTES + record_bytes;
        for from in (0..input_bytes).step_by(BLOCK_BYTES) {
            let until = input_bytes.min(from + BLOCK_BYTES);
            for (state, record) in states_used.iter_mut().zip(sealed.chunks_exact(step_bytes)) {
                let input = &record[from..until];
                if let Ok(input) = input.try_into() {
                    *state = xor(*state, input);
                } else {
                    xor_into(&mut state[..input.len()], input);
                }
            }
            self.mac.blocks(states_used);
        }
        states
    }

    /// Whether all tags are right, in time that does not depend on which or where they differ.
    #[inline(always)]
    fn is_authentic(&self, prefix: Block, sealed: &[u8], record_bytes: usize) -> bool {
        let tags = self.tags(prefix, sealed, record_bytes);
        let mut difference = 0;
        for (record, tag) in sealed.chunks_exact(sealed_bytes(record_bytes)).zip(&tags) {
            if let Some(carried) = record.last_chunk() {
                difference |= u128::from_le_bytes(*carried) ^ u128::from_le_bytes(*tag);
            }
        }
        crate::ct::equal(&difference.to_le_bytes(), &[0; 16])
    }
}

/// Exclusive or with the first bytes of `pad`, eight, four and one at a time: records are a few words.
#[inline(always)]
fn xor_into(body: &mut [u8], pad: &[u8]) {
    let (eights, rest) = body.as_chunks_mut::<8>();
    let (pads, pad) = pad.split_at(8 * eights.len());
    for (eight, pad) in eights.iter_mut().zip(pads.as_chunks::<8>().0) {
        *eight = (u64::from_ne_bytes(*eight) ^ u64::from_ne_bytes(*pad)).to_ne_bytes();
    }
    let (fours, ones) = rest.as_chunks_mut::<4>();
    let (pads, pad) = pad.split_at(4 * fours.len());
    for (four, pad) in fours.iter_mut().zip(pads.as_chunks::<4>().0) {
        *four = (u32::from_ne_bytes(*four) ^ u32::from_ne_bytes(*pad)).to_ne_bytes();
    }
    ones.iter_mut().zip(pad).for_each(|(one, pad)| *one ^= pad);
}

#[inline(always)]
fn xor(left: Block, right: Block) -> Block {
    (u128::from_le_bytes(left) ^ u128::from_le_bytes(right)).to_le_bytes()
}

#[cfg(test)]
mod tests;
