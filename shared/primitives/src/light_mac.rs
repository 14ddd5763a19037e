//! A MAC for strings of kilobytes at the speed of the widest AES instructions: LightMAC (Luykx, Preneel, Tischhauser and
//! Yasuda, FSE 2016; ISO/IEC 29192-6) with counters of 32 bits.
//!
//! *Construction.* The string is cut into pieces of 12 bytes, the last of at most 11; `s` = the xor of
//! `AES_k1(i || piece i)` over all but the last, `i` = 1, 2, ...; the tag is `AES_k2(s xor (last piece || 0x80 || 0..))`. All
//! calls under `k1` are independent of each other, where a CBC-MAC waits for each.
//!
//! *Incremental.* A string in which a few bytes change needs new calls for their pieces only ([`LightMac::replace`]; the
//! idea of Bellare, Goldreich and Goldwasser, CRYPTO 1994): `s` is kept, and the old pieces' images leave it.
//!
//! *Bound.* A pseudorandom function of strings up to 48 GiB; an attacker who sees `q` tags has an advantage of about
//! `q^2 / 2^128`, whatever the strings' lengths.

use crate::lanes::PieceSums;
use crate::meter::{Primitive, count};
use crate::prf::Prf;
use crate::{BLOCK_BYTES, Block};
use std::fmt;

/// Bytes of a piece: a block without its counter.
const PIECE_BYTES: usize = BLOCK_BYTES - 4;

/// Pieces worked on side by side: enough for the widest instructions to be worth their key schedule.
const STEP: usize = 256;

/// Pieces of a short string, or of a change in a long one.
const FEW: usize = 8;

/// `s` of a string: to be kept secret, as what it is made of.
#[derive(Clone, Copy, Default)]
pub struct Sum(u128);

impl fmt::Debug for Sum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sum(..)")
    }
}

/// LightMAC under one material.
pub struct LightMac {
    pieces: Prf,
    /// The same, where this processor has a faster way.
    sums: Option<PieceSums>,
    end: Prf,
}

impl fmt::Debug for LightMac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LightMac(..)")
    }
}

impl LightMac {
    /// Expands `material`, which must be uniform.
    #[must_use]
    pub fn new(material: &[u8; 32]) -> Self {
        let (halves, _) = material.as_chunks::<16>();
        Self { pieces: Prf::new(&halves[0]), sums: PieceSums::new(&halves[0]), end: Prf::new(&halves[1]) }
    }

    /// The tag of a string.
    #[must_use]
    pub fn tag(&self, string: &[u8]) -> Block {
        self.finish(self.sum(string), string)
    }

    /// The sum of a string.
    #[must_use]
    pub fn sum(&self, string: &[u8]) -> Sum {
        let (pieces, _) = string.as_chunks::<PIECE_BYTES>();
        self.sum_from(0, pieces)
    }

    /// The tag of a string, of which the sum is known.
    #[must_use]
    pub fn finish(&self, sum: Sum, string: &[u8]) -> Block {
        count(Primitive::Hash, 1);
        let (_, last) = string.as_chunks::<PIECE_BYTES>();
        let mut end = [0; BLOCK_BYTES];
        end[..last.len()].copy_from_slice(last);
        end[last.len()] = 0x80;
        self.end.block(&(sum.0 ^ u128::from_ne_bytes(end)).to_ne_bytes())
    }

    /// Writes `new` into a string at a place, and brings its sum up to date.
    ///
    /// # Panics
    /// If it does not fit there.
    pub fn replace(&self, sum: &mut Sum, string: &mut [u8], at: usize, new: &[u8]) {
        let (first, until) = (at / PIECE_BYTES, (at + new.len()).div_ceil(PIECE_BYTES));
        let full = string.len() / PIECE_BYTES;
        let (first, until) = (first.min(full), until.min(full));
        let touched = first * PIECE_BYTES..until * PIECE_BYTES;
        // The images of the old pieces and of the new ones are one xor: of a few, one call makes them.
        let mut room = [[0; BLOCK_BYTES]; FEW];
        let pieces = until - first;
        if self.sums.is_none()
            && let Some((old, rest)) = room.split_at_mut_checked(pieces)
            && let Some(now) = rest.get_mut(..pieces)
        {
            number(first, string[touched.clone()].as_chunks().0, old);
            string[at..at + new.len()].copy_from_slice(new);
            number(first, string[touched].as_chunks().0, now);
            let blocks = &mut room[..2 * pieces];
            self.pieces.blocks(blocks);
            sum.0 = xor(sum.0, blocks);
            return;
        }
        let before = self.sum_from(first, string[touched.clone()].as_chunks().0);
        string[at..at + new.len()].copy_from_slice(new);
        sum.0 ^= before.0 ^ self.sum_from(first, string[touched].as_chunks().0).0;
    }

    /// What consecutive pieces give, the first of which has so many before it.
    fn sum_from(&self, before: usize, pieces: &[[u8; PIECE_BYTES]]) -> Sum {
        if let Some(sums) = &self.sums {
            count(Primitive::Prf, pieces.len());
            count(Primitive::AesBlock, pieces.len());
            return Sum(u128::from_ne_bytes(sums.sum(before as u32, pieces)));
        }
        if pieces.len() <= FEW {
            self.sum_in::<FEW>(before, pieces)
        } else {
            self.sum_in::<STEP>(before, pieces)
        }
    }

    /// The same, so many side by side: room for many takes longer to make than few pieces take.
    fn sum_in<const STEP: usize>(&self, before: usize, pieces: &[[u8; PIECE_BYTES]]) -> Sum {
        let mut sum = 0_u128;
        let mut room = Room([[0; BLOCK_BYTES]; STEP]);
        for (at, pieces) in pieces.chunks(STEP).enumerate() {
            let blocks = &mut room.0[..pieces.len()];
            number(before + at * STEP, pieces, blocks);
            self.pieces.blocks(blocks);
            sum = xor(sum, blocks);
        }
        Sum(sum)
    }
}

/// Blocks that begin with a line of the cache, as the widest instructions have it fastest.
#[repr(align(64))]
struct Room<const BLOCKS: usize>([Block; BLOCKS]);

/// Pieces with their numbers, the first of which has so many before it.
fn number(before: usize, pieces: &[[u8; PIECE_BYTES]], blocks: &mut [Block]) {
    let mut counter = before as u32;
    for (block, piece) in blocks.iter_mut().zip(pieces) {
        counter = counter.wrapping_add(1);
        // Two words of eight bytes, put together in registers.
        let [p0, p1, p2, p3, rest @ ..] = *piece;
        let [c0, c1, c2, c3] = counter.to_be_bytes();
        let first = u64::from_ne_bytes([c0, c1, c2, c3, p0, p1, p2, p3]);
        let [low, high] = [first, u64::from_ne_bytes(rest)].map(u64::to_ne_bytes);
        block[..8].copy_from_slice(&low);
        block[8..].copy_from_slice(&high);
    }
}

/// The xor of a sum and of blocks.
fn xor(sum: u128, blocks: &[Block]) -> u128 {
    blocks.iter().fold(sum, |sum, block| sum ^ u128::from_ne_bytes(*block))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The definition, a piece at a time.
    fn by_definition(material: &[u8; 32], string: &[u8]) -> Block {
        let (pieces, end) = (Prf::new(material[..16].try_into().expect("16")), &material[16..]);
        let mut state = [0; BLOCK_BYTES];
        let full = string.len() / 12;
        for (number, piece) in string.chunks(12).take(full).enumerate() {
            let mut block = (number as u32 + 1).to_be_bytes().to_vec();
            block.extend_from_slice(piece);
            let image = pieces.block(&block.try_into().expect("a block"));
            state.iter_mut().zip(image).for_each(|(byte, image)| *byte ^= image);
        }
        let mut last = string[full * 12..].to_vec();
        last.push(0x80);
        state.iter_mut().zip(last).for_each(|(byte, last)| *byte ^= last);
        Prf::new(end.try_into().expect("16")).block(&state)
    }

    #[test]
    fn the_construction_is_the_documented_one_at_every_length() {
        let material: [u8; 32] = std::array::from_fn(|at| at as u8);
        let string: Vec<u8> = (0..3000_u32).map(|at| (at * 7 + at / 256) as u8).collect();
        let mac = LightMac::new(&material);
        for length in (0..200).chain(380..480).chain([766, 767, 768, 769, 1536, 2307, 3000]) {
            assert_eq!(mac.tag(&string[..length]), by_definition(&material, &string[..length]), "{length}");
        }
    }

    /// As a processor without the widest instructions has it.
    fn without_lanes(material: &[u8; 32]) -> LightMac {
        LightMac { sums: None, ..LightMac::new(material) }
    }

    #[test]
    fn sums_are_the_same_with_and_without_the_widest_instructions() {
        let string: Vec<u8> = (0..6000_u32).map(|at| (at * 5 + at / 256) as u8).collect();
        let (mac, without) = (LightMac::new(&[3; 32]), without_lanes(&[3; 32]));
        for length in (0..1300).chain([2400, 5988, 6000]) {
            let pieces = string[..length].as_chunks::<PIECE_BYTES>().0;
            for before in [0, 7, u32::MAX as usize - 40] {
                let sums = [&mac, &without].map(|mac| mac.sum_from(before, pieces).0);
                assert_eq!(sums[0], sums[1], "{before}, {length}");
            }
        }
    }

    #[test]
    fn strings_that_differ_in_a_byte_or_a_zero_at_the_end_have_other_tags() {
        let mac = LightMac::new(&[3; 32]);
        let string = [0; 50];
        let tags: std::collections::BTreeSet<Block> = (0..50)
            .map(|at| {
                let mut other = string;
                other[at] = 1;
                mac.tag(&other)
            })
            .chain((0..=50).map(|length| mac.tag(&string[..length])))
            .collect();
        assert_eq!(tags.len(), 101);
    }

    #[test]
    fn a_sum_brought_up_to_date_is_that_of_the_new_string() {
        for (mac, length) in [LightMac::new(&[3; 32]), without_lanes(&[3; 32])]
            .iter()
            .flat_map(|mac| [40, 48, 50, 3000].map(|length| (mac, length)))
        {
            let mut string: Vec<u8> = (0..length).map(|at: usize| at as u8).collect();
            let mut sum = mac.sum(&string);
            for (at, new) in
                [(0, vec![9; 16]), (13, vec![8; 16]), (length - 16, vec![7; 16]), (length, vec![])]
            {
                mac.replace(&mut sum, &mut string, at, &new);
                assert_eq!(string[at..at + new.len()], new);
                assert_eq!(mac.finish(sum, &string), mac.tag(&string), "{length}, {at}");
            }
        }
    }
}
