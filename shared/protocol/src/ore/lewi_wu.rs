//! Lewi-Wu (CCS 2016): left ciphertexts ask, right ciphertexts are stored.

use super::Width;

/// Bytes of the nonce of a right ciphertext.
pub const NONCE_BYTES: usize = 16;

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
    Some(blocks(width, block_bits)? * 17)
}

/// Bytes of a right ciphertext: a nonce, and for each block 2^d trits of two bits.
#[must_use]
pub fn right_bytes(width: Width, block_bits: u8) -> Option<usize> {
    Some(NONCE_BYTES + (blocks(width, block_bits)? << block_bits) / 4)
}
