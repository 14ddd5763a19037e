//! Keyless comparison of Lewi-Wu (CCS 2016): the first block that differs decides.

use arras_primitives::trit;
use arras_protocol::ore::lewi_wu::{
    BLOCKS_MAX, LEFT_BLOCK_BYTES, NONCE_BYTES, blocks, left_bytes, right_bytes,
};
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
/// One AES key schedule and a hash a block, all at once.
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
    let block_count = blocks(width, block_bits).unwrap_or_default();
    let (nonce, packed) =
        right.split_first_chunk::<NONCE_BYTES>().ok_or(MalformedCiphertext("its length"))?;
    let mut inputs = [[0; 16]; BLOCKS_MAX];
    let mut masked = [0_u8; BLOCKS_MAX];
    let mut wrong = false;
    let slots = 1_usize << block_bits;
    let (parts, _) = left.as_chunks::<LEFT_BLOCK_BYTES>();
    for (at, ((part, input), masked)) in parts.iter().zip(&mut inputs).zip(&mut masked).enumerate() {
        let (image, slot) =
            part.split_last_chunk::<1>().map_or((&[][..], [0]), |(image, slot)| (image, *slot));
        *input = image.try_into().unwrap_or_default();
        let slot = usize::from(slot[0]);
        wrong |= slot >= slots;
        let place = at * slots + slot;
        let byte = packed.get(place / 4).copied().unwrap_or(0xff);
        *masked = byte >> (2 * (place % 4)) & 3;
        wrong |= *masked == 3;
    }
    if wrong {
        return Err(MalformedCiphertext("a slot or a trit outside its range"));
    }
    let mut masks = [0; BLOCKS_MAX];
    let (Some(inputs), Some(masks_used)) = (inputs.get_mut(..block_count), masks.get_mut(..block_count))
    else {
        return Err(MalformedCiphertext("its length"));
    };
    trit::hash_each(nonce, inputs, masks_used);
    for (masked, mask) in masked.iter().zip(masks).take(block_count) {
        match (masked + 3 - mask) % 3 {
            0 => {}
            1 => return Ok(Ordering::Less),
            _ => return Ok(Ordering::Greater),
        }
    }
    Ok(Ordering::Equal)
}
