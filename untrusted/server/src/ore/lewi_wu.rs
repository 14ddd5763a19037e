//! Keyless comparison of Lewi-Wu (CCS 2016): the first block that differs decides.

use arras_primitives::trit;
use arras_protocol::ore::lewi_wu::{LEFT_BLOCK_BYTES, NONCE_BYTES, left_bytes, right_bytes};
use arras_protocol::ore::{MalformedCiphertext, Width};
use std::cmp::Ordering;

/// Compares a left ciphertext (of a query) with a right one (stored).
///
/// Of each block the left ciphertext names a slot of the right one and gives the hash's input that unmasks it: 0 if
/// the blocks are equal, 1 if the left is less, 2 if it is greater. Blocks after the first that differs say nothing.
///
/// # Leakage
/// The first block that differs, and the order.
///
/// # Cost
/// A hash (one AES block under a fixed key) a block, all at once.
///
/// # Errors
/// [`MalformedCiphertext`]: a length is not the scheme's, a slot is outside its block, or an element that is looked
/// at is not a trit.
#[inline]
pub fn compare(
    width: Width,
    block_bits: u8,
    left: &[u8],
    right: &[u8],
) -> Result<Ordering, MalformedCiphertext> {
    if left_bytes(width, block_bits) != Some(left.len())
        || right_bytes(width, block_bits) != Some(right.len())
    {
        return Err(MalformedCiphertext("its length"));
    }
    let (nonce, packed) =
        right.split_first_chunk::<NONCE_BYTES>().ok_or(MalformedCiphertext("its length"))?;
    let (parts, _) = left.as_chunks();
    match parts.len() {
        4 => compare_blocks::<4>(block_bits, parts, nonce, packed),
        8 => compare_blocks::<8>(block_bits, parts, nonce, packed),
        16 => compare_blocks::<16>(block_bits, parts, nonce, packed),
        32 => compare_blocks::<32>(block_bits, parts, nonce, packed),
        _ => Err(MalformedCiphertext("its length")),
    }
}

/// Of `N` blocks.
#[inline(always)]
fn compare_blocks<const N: usize>(
    block_bits: u8,
    parts: &[[u8; LEFT_BLOCK_BYTES]],
    nonce: &[u8; NONCE_BYTES],
    packed: &[u8],
) -> Result<Ordering, MalformedCiphertext> {
    let (mut inputs, mut masked, mut masks) = ([[0; 16]; N], [0_u8; N], [0; N]);
    let mut wrong = false;
    for (at, ((part, input), masked)) in parts.iter().zip(&mut inputs).zip(&mut masked).enumerate() {
        let [image @ .., slot] = part;
        *input = *image;
        let slot = usize::from(*slot);
        wrong |= slot >> block_bits != 0;
        let place = (at << block_bits) + slot;
        let byte = packed.get(place / 4).copied().unwrap_or(0xff);
        *masked = byte >> (2 * (place % 4)) & 3;
        wrong |= *masked == 3;
    }
    if wrong {
        return Err(MalformedCiphertext("a slot or a trit outside its range"));
    }
    trit::hash_each(nonce, &mut inputs, &mut masks);
    for (masked, mask) in masked.iter().zip(masks) {
        match (masked + 3 - mask) % 3 {
            0 => {}
            1 => return Ok(Ordering::Less),
            _ => return Ok(Ordering::Greater),
        }
    }
    Ok(Ordering::Equal)
}
