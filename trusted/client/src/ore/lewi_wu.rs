//! Keyed half of Lewi-Wu ("Order-revealing encryption: new constructions, applications, and lower bounds", Lewi and
//! Wu, CCS 2016; §3.3 of the evaluation).
//!
//! A plaintext is cut into blocks of `d` bits. With `p` the bits before block `i`, `pi` the permutation of block
//! values that belongs to `(i, p)` and `x` the block's value:
//! * the left ciphertext holds `(F(k1, (i, p, pi(x))), pi(x))`;
//! * the right one holds for each slot `j` the trit `cmp(pi^-1(j), x) + H(F(k1, (i, p, j)), nonce) mod 3`, where `cmp`
//!   is 0, 1, 2 for equal, less, greater.
//!
//! # Parameters
//! Width of 32 or 64 bits, `d` of 2, 4 or 8. `F` is AES-128. `H(u, r) = AES_r(u) mod 3`, a random oracle for unknown
//! `u` in the ideal-cipher model ([`trit::hash_each`]); the nonce `r` of 16 bytes is fresh for each right ciphertext.
//!
//! # Leakage
//! Right ciphertexts alone: their number. Each comparison of a left with a right one: the first block that differs,
//! and the order. Left ciphertexts are deterministic.
//!
//! # Cost
//! Left: a permutation, and two PRF calls a block. Right: a permutation, 2^d + 1 PRF calls and 2^d hashes a block.
//! Comparison: a hash a block.
//!
//! # Deviations
//! The permutation is a Knuth shuffle made once a block (as in the evaluation) from a PRF with long outputs, exactly
//! uniform over uniform words; the left side follows one element through the shuffle in place of making the table.
//! Right ciphertexts carry no left half; decryption finds the slot that says "equal" and checks all others.

use super::{EncryptFailed, Encrypted, End, OrderScheme};
use crate::error::OpenFailed;
use arras_keys::{Key, Purpose};
use arras_primitives::prf::Prf;
use arras_primitives::prg::Prg;
use arras_primitives::{Block, prp, trit};
use arras_protocol::ore::lewi_wu::{
    BLOCKS_MAX, LEFT_BLOCK_BYTES, NONCE_BYTES, blocks, left_bytes, right_bytes,
};
use arras_protocol::ore::{Scheme, Width};

/// Bits of a block, the parameter `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BlockBits {
    /// 2 bits: the smallest right ciphertexts of 32 blocks for 64 bits.
    Two,
    /// 4 bits.
    Four,
    /// 8 bits: leaks least, 528 bytes for 64 bits.
    Eight,
}

impl BlockBits {
    /// The number.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

/// Values of a block, at most.
const SLOTS_MAX: usize = 256;

/// Blocks of AES output that the words of one permutation take, at most.
const SHUFFLE_BLOCKS_MAX: usize = SLOTS_MAX / WORDS_A_BLOCK;

const WORDS_A_BLOCK: usize = 4;

/// What the PRF's input is for, in its third byte: slots under one key, words of permutations under the other.
const WORDS: u8 = 1;
const WORDS_AGAIN: u8 = 2;

/// Encrypts and decrypts under one index's key.
pub struct LewiWu {
    width: Width,
    block_bits: u8,
    block_count: usize,
    slots: Prf,
    permutations: Prf,
}

impl std::fmt::Debug for LewiWu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LewiWu({:?}, {})", self.width, self.block_bits)
    }
}

/// One block of a plaintext: its index, the bits before it, its value.
#[derive(Clone, Copy, Default)]
struct Piece {
    index: usize,
    prefix: u64,
    value: u8,
}

impl LewiWu {
    /// Derives the scheme's keys from the index's.
    #[must_use]
    pub fn new(index: &Key, width: Width, block_bits: BlockBits) -> Self {
        let block_bits = block_bits.bits();
        Self {
            width,
            block_bits,
            block_count: blocks(width, block_bits).unwrap_or_default(),
            slots: Prf::new(index.child(Purpose::LewiWuBlock).expose_16()),
            permutations: Prf::new(index.child(Purpose::LewiWuPermutation).expose_16()),
        }
    }

    /// Bytes of a left ciphertext.
    #[must_use]
    pub fn left_bytes(&self) -> usize {
        left_bytes(self.width, self.block_bits).unwrap_or_default()
    }

    /// Bytes of a right ciphertext.
    #[must_use]
    pub fn right_bytes(&self) -> usize {
        right_bytes(self.width, self.block_bits).unwrap_or_default()
    }

    /// Writes the left ciphertext of a value.
    ///
    /// # Errors
    /// [`EncryptFailed::OutsideDomain`].
    ///
    /// # Panics
    /// If `left` is not of [`LewiWu::left_bytes`].
    pub fn encrypt_left(&self, value: u64, left: &mut [u8]) -> Result<(), EncryptFailed> {
        assert_eq!(left.len(), self.left_bytes(), "room for a left ciphertext");
        let mut pieces = [Piece::default(); BLOCKS_MAX];
        let pieces = self.cut(value, &mut pieces)?;
        let (mut images, mut slots) = ([[0; 16]; BLOCKS_MAX], [0; BLOCKS_MAX]);
        let mut choices = [0; SLOTS_MAX];
        let mut words = [[[0; 16]; SHUFFLE_BLOCKS_MAX]; BLOCKS_MAX / 4];
        // As many permutations at a time as there are words for.
        let (at_once, words) = (words.as_flattened().len() / self.shuffle_blocks(), words.as_flattened_mut());
        for (from, some) in pieces.chunks(at_once).enumerate().map(|(step, some)| (step * at_once, some)) {
            self.permutation_words(some, words);
            for (at, piece) in some.iter().enumerate() {
                let choices = self.choices(*piece, &words[at * self.shuffle_blocks()..], &mut choices);
                let slot = prp::place_of(choices, piece.value);
                slots[from + at] = slot;
                images[from + at] = self.slot_input(*piece, slot);
            }
        }
        let images = &mut images[..pieces.len()];
        self.slots.blocks(images);
        for ((part, image), slot) in left.chunks_exact_mut(LEFT_BLOCK_BYTES).zip(images).zip(slots) {
            part[..16].copy_from_slice(image);
            part[16] = slot;
        }
        Ok(())
    }

    /// Writes a right ciphertext of a value, with a nonce of the generator.
    ///
    /// # Errors
    /// [`EncryptFailed::OutsideDomain`].
    ///
    /// # Panics
    /// If `right` is not of [`LewiWu::right_bytes`].
    pub fn encrypt_right(&self, value: u64, prg: &mut Prg, right: &mut [u8]) -> Result<(), EncryptFailed> {
        assert_eq!(right.len(), self.right_bytes(), "room for a right ciphertext");
        let mut pieces = [Piece::default(); BLOCKS_MAX];
        let pieces = self.cut(value, &mut pieces)?;
        let (nonce, packed) = right.split_at_mut(NONCE_BYTES);
        prg.fill(nonce);
        let nonce = nonce.try_into().unwrap_or([0; 16]);
        let at_once = SLOTS_MAX >> self.block_bits;
        let (mut order, mut trits) = ([0; SLOTS_MAX], [0; SLOTS_MAX]);
        for (some, packed) in pieces.chunks(at_once).zip(packed.chunks_mut(SLOTS_MAX / 4)) {
            let slots = some.len() << self.block_bits;
            let (order, trits) = (&mut order[..slots], &mut trits[..slots]);
            self.orders(some, order);
            self.masks(some, &nonce, trits);
            let each = order.chunks(1 << self.block_bits).zip(trits.chunks_mut(1 << self.block_bits));
            for ((order, trits), piece) in each.zip(some) {
                for (trit, at_slot) in trits.iter_mut().zip(order) {
                    let sum = *trit + comparison(*at_slot, piece.value);
                    *trit = if sum >= 3 { sum - 3 } else { sum };
                }
            }
            trit::pack(trits, packed);
        }
        Ok(())
    }

    /// The value of a right ciphertext. All trits of all blocks are checked: one of another key or with altered trits
    /// passes with a chance of at most (4/81)^16 = 2^-69 (32 bits, d = 2).
    ///
    /// # Errors
    /// [`OpenFailed`] if it is not one of these keys.
    pub fn decrypt_right(&self, right: &[u8]) -> Result<u64, OpenFailed> {
        if right.len() != self.right_bytes() {
            return Err(OpenFailed);
        }
        let (nonce, packed) = right.split_first_chunk::<NONCE_BYTES>().ok_or(OpenFailed)?;
        let slots = 1_usize << self.block_bits;
        let mut prefix = 0;
        for (index, packed) in packed.chunks(slots / 4).enumerate() {
            let piece = Piece { index, prefix, value: 0 };
            let (mut order, mut masks, mut trits) = ([0; SLOTS_MAX], [0; SLOTS_MAX], [0; SLOTS_MAX]);
            let (order, masks, trits) = (&mut order[..slots], &mut masks[..slots], &mut trits[..slots]);
            self.orders(&[piece], order);
            self.masks(&[piece], nonce, masks);
            trit::unpack(packed, trits);
            let compared = |slot: usize| (trits[slot] + 3 - masks[slot]) % 3;
            let value =
                (0..slots).find(|slot| compared(*slot) == 0).map(|slot| order[slot]).ok_or(OpenFailed)?;
            let consistent =
                (0..slots).all(|slot| trits[slot] < 3 && compared(slot) == comparison(order[slot], value));
            if !consistent {
                return Err(OpenFailed);
            }
            prefix = prefix << self.block_bits | u64::from(value);
        }
        Ok(prefix)
    }

    fn cut<'a>(&self, value: u64, pieces: &'a mut [Piece; BLOCKS_MAX]) -> Result<&'a [Piece], EncryptFailed> {
        if value > self.width.greatest() {
            return Err(EncryptFailed::OutsideDomain);
        }
        let pieces = &mut pieces[..self.block_count];
        for (index, piece) in pieces.iter_mut().enumerate() {
            let shift = u32::from(self.block_bits) * (self.block_count - 1 - index) as u32;
            let upto = value >> shift;
            let value = (upto & ((1 << self.block_bits) - 1)) as u8;
            *piece = Piece { index, prefix: upto >> self.block_bits, value };
        }
        Ok(pieces)
    }

    fn shuffle_blocks(&self) -> usize {
        (1 << self.block_bits) / WORDS_A_BLOCK
    }

    /// The words of the pieces' permutations, one piece after the other, from a PRF whose output is as long as that
    /// takes.
    #[inline]
    fn permutation_words(&self, pieces: &[Piece], words: &mut [Block]) {
        let words = &mut words[..pieces.len() * self.shuffle_blocks()];
        for (piece, words) in pieces.iter().zip(words.chunks_mut(self.shuffle_blocks())) {
            let first = self.input(*piece, WORDS, 0);
            for (counter, word) in words.iter_mut().enumerate() {
                *word = numbered(first, counter as u32);
            }
        }
        self.permutations.wide_blocks(pieces.len(), words);
    }

    /// The choices of a piece's permutation from its words.
    #[inline]
    fn choices<'a>(&self, piece: Piece, blocks: &[Block], choices: &'a mut [u8; SLOTS_MAX]) -> &'a [u8] {
        let slots = 1 << self.block_bits;
        let mut words = [0; SLOTS_MAX];
        let (bytes, _) = blocks.as_flattened().as_chunks();
        for (word, bytes) in words.iter_mut().zip(bytes) {
            *word = u32::from_le_bytes(*bytes);
        }
        let choices = &mut choices[..slots];
        prp::choices_from(&words, choices, |place, tries| {
            let again = numbered(self.input(piece, WORDS_AGAIN, 0), (place as u32) << 24 | tries & 0xff_ffff);
            u128::from_le_bytes(self.permutations.block(&again)) as u32
        });
        choices
    }

    /// For each slot of each piece the value it stands for.
    #[inline]
    fn orders(&self, pieces: &[Piece], order: &mut [u8]) {
        let mut words = [[0; 16]; SHUFFLE_BLOCKS_MAX];
        let mut choices = [0; SLOTS_MAX];
        self.permutation_words(pieces, &mut words);
        let each = words.chunks(self.shuffle_blocks()).zip(order.chunks_mut(1 << self.block_bits));
        for (piece, (words, order)) in pieces.iter().zip(each) {
            prp::shuffle(self.choices(*piece, words, &mut choices), order);
        }
    }

    /// For each slot of each piece the hash that masks it.
    #[inline]
    fn masks(&self, pieces: &[Piece], nonce: &Block, masks: &mut [u8]) {
        let mut images = [[0; 16]; SLOTS_MAX];
        let images = &mut images[..masks.len()];
        for (piece, images) in pieces.iter().zip(images.chunks_mut(1 << self.block_bits)) {
            let first = self.input(*piece, 0, 0);
            for (slot, image) in images.iter_mut().enumerate() {
                *image = numbered(first, slot as u32);
            }
        }
        self.slots.blocks(images);
        trit::hash_each(nonce, images, masks);
    }

    #[inline(always)]
    fn slot_input(&self, piece: Piece, slot: u8) -> Block {
        self.input(piece, 0, u32::from(slot))
    }

    /// A PRF's input: distinct for all widths, block sizes, uses, blocks, prefixes and numbers.
    #[inline(always)]
    fn input(&self, piece: Piece, used_for: u8, number: u32) -> Block {
        let head = [self.width.bits() as u8, self.block_bits, used_for, piece.index as u8];
        let number = number.to_be_bytes();
        let prefix = piece.prefix.to_be_bytes();
        let mut input = [0; 16];
        input[..4].copy_from_slice(&head);
        input[4..8].copy_from_slice(&number);
        input[8..].copy_from_slice(&prefix);
        input
    }
}

/// The input whose number is greater by `number`; no carry leaves the number's place.
#[inline(always)]
fn numbered(input: Block, number: u32) -> Block {
    (u128::from_be_bytes(input) + (u128::from(number) << 64)).to_be_bytes()
}

/// 0, 1, 2 if `left` is equal to, less, greater than `right`, without a branch.
#[inline(always)]
fn comparison(left: u8, right: u8) -> u8 {
    u8::from(left < right) | u8::from(left > right) << 1
}

impl OrderScheme for LewiWu {
    fn scheme(&self) -> Scheme {
        Scheme::LewiWu { width: self.width, block_bits: self.block_bits }
    }

    fn encrypt(&mut self, value: u64, prg: &mut Prg) -> Result<Encrypted, EncryptFailed> {
        let mut stored = vec![0; self.right_bytes()];
        self.encrypt_right(value, prg, &mut stored)?;
        let mut query = vec![0; self.left_bytes()];
        self.encrypt_left(value, &mut query)?;
        Ok(Encrypted { stored, query, replaced: Vec::new() })
    }

    fn bound(&self, value: u64, _: End, _: &mut Prg) -> Result<Vec<u8>, EncryptFailed> {
        let mut left = vec![0; self.left_bytes()];
        self.encrypt_left(value, &mut left)?;
        Ok(left)
    }

    fn decrypt(&self, stored: &[u8]) -> Result<u64, OpenFailed> {
        self.decrypt_right(stored)
    }
}
