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
/// A hash (one AES block under a fixed key) where the first block decides; else one a block.
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

/// Of `N` blocks. The first is looked at alone: it decides where values are spread, and a hash is what a comparison
/// costs. The others are hashed all at once: their hashes take hardly longer than one.
#[inline(always)]
fn compare_blocks<const N: usize>(
    block_bits: u8,
    parts: &[[u8; LEFT_BLOCK_BYTES]],
    nonce: &[u8; NONCE_BYTES],
    packed: &[u8],
) -> Result<Ordering, MalformedCiphertext> {
    let [[image @ .., slot], rest @ ..] = parts else {
        return Err(MalformedCiphertext("its length"));
    };
    let masked = masked(block_bits, 0, *slot, packed);
    if masked > 2 {
        return Err(MALFORMED);
    }
    match (masked + 3 - trit::hash(nonce, image)) % 3 {
        0 => compare_rest::<N>(block_bits, rest, nonce, packed),
        1 => Ok(Ordering::Less),
        _ => Ok(Ordering::Greater),
    }
}

const MALFORMED: MalformedCiphertext = MalformedCiphertext("a slot or a trit outside its range");

/// The trit of a slot; 3, which is none, for a slot outside its block.
#[inline(always)]
fn masked(block_bits: u8, block: usize, slot: u8, packed: &[u8]) -> u8 {
    let slot = usize::from(slot);
    let place = (block << block_bits) + slot;
    match packed.get(place / 4) {
        Some(byte) if slot >> block_bits == 0 => byte >> (2 * (place % 4)) & 3,
        _ => 3,
    }
}

/// Of the blocks but the first.
#[inline(never)]
fn compare_rest<const N: usize>(
    block_bits: u8,
    rest: &[[u8; LEFT_BLOCK_BYTES]],
    nonce: &[u8; NONCE_BYTES],
    packed: &[u8],
) -> Result<Ordering, MalformedCiphertext> {
    let (mut inputs, mut trits, mut masks) = ([[0; 16]; N], [0_u8; N], [0; N]);
    let mut wrong = false;
    for (block, ((part, input), trit)) in (1..).zip(rest.iter().zip(&mut inputs).zip(&mut trits)) {
        let [image @ .., slot] = part;
        *input = *image;
        *trit = masked(block_bits, block, *slot, packed);
        wrong |= *trit > 2;
    }
    if wrong {
        return Err(MALFORMED);
    }
    let count = rest.len().min(N);
    let (Some(inputs), Some(masks)) = (inputs.get_mut(..count), masks.get_mut(..count)) else {
        return Err(MALFORMED);
    };
    trit::hash_each(nonce, inputs, masks);
    for (trit, mask) in trits.iter().zip(masks) {
        match (trit + 3 - *mask) % 3 {
            0 => {}
            1 => return Ok(Ordering::Less),
            _ => return Ok(Ordering::Greater),
        }
    }
    Ok(Ordering::Equal)
}
