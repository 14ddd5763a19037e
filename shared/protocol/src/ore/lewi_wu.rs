//! Lewi-Wu (CCS 2016): left ciphertexts ask, right ciphertexts are stored.
//!
//! A *left* ciphertext holds for each block of the plaintext, the highest first, a PRF output of 16 bytes and the
//! block's *slot*, a byte. A *right* one holds a nonce and, for each block, 2^d trits, four a byte, the first in the
//! lowest bits: trit `j` is the comparison of the block with the value at slot `j` plus a hash, modulo 3.

use super::Width;

/// Bytes of the nonce of a right ciphertext.
pub const NONCE_BYTES: usize = 16;

/// Bytes of a block of a left ciphertext.
pub const LEFT_BLOCK_BYTES: usize = 17;

/// Most blocks of a plaintext: 64 bits by 2.
pub const BLOCKS_MAX: usize = 32;

/// Blocks of a plaintext; `None` if a block is not of 2, 4 or 8 bits.
#[must_use]
pub const fn blocks(width: Width, block_bits: u8) -> Option<usize> {
    match block_bits {
        2 | 4 | 8 => Some((width.bits() / block_bits as u32) as usize),
        _ => None,
    }
}

/// Bytes of a left ciphertext: for each block a PRF output and the permuted block.
#[must_use]
pub fn left_bytes(width: Width, block_bits: u8) -> Option<usize> {
    Some(blocks(width, block_bits)? * LEFT_BLOCK_BYTES)
}

/// Bytes of a right ciphertext: a nonce, and for each block 2^d trits of two bits.
#[must_use]
pub fn right_bytes(width: Width, block_bits: u8) -> Option<usize> {
    Some(NONCE_BYTES + (blocks(width, block_bits)? << block_bits) / 4)
}

/// The trit of a digest, where slots are masked by SHA-256: its first 7 bytes, big endian, modulo 3.
#[must_use]
pub fn sha256_trit(digest: &[u8; 32]) -> u8 {
    let number = digest.iter().take(7).fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
    (number % 3) as u8
}
