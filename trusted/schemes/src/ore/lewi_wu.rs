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
//! Width of 32 or 64 bits, `d` of 2, 4 or 8. `F` is AES-128. `H` is one of two ([`SlotHash`]): `sigma(u ^ r) mod 3` with
//! AES under a fixed key as permutation `sigma` ([`trit::hash_each`] says why that is enough), or, where who compares has no
//! AES, the first 7 bytes of `SHA-256(u || r)`, big endian, modulo 3 (bias below 2^-55). The nonce `r` of 16 bytes is
//! fresh for each right ciphertext.
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

use super::tie::Ties;
use super::{EncryptFailed, Encrypted, End, OrderScheme};
use crate::error::OpenFailed;
use arras_keys::{Key, Purpose};
use arras_primitives::hash::sha256;
use arras_primitives::prf::Prf;
use arras_primitives::prg::Prg;
use arras_primitives::prp::{self, CHOICES_MAX, Follower, SIDE_BY_SIDE};
use arras_primitives::{Block, trit};
use arras_protocol::bplus::TieToken;
use arras_protocol::ore::lewi_wu::{
    BLOCKS_MAX, LEFT_BLOCK_BYTES, NONCE_BYTES, blocks, left_bytes, right_bytes, sha256_trit,
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
    /// In bits, as the public scheme carries it.
    #[must_use]
    pub const fn bits(self) -> u8 {
        match self {
            Self::Two => 2,
            Self::Four => 4,
            Self::Eight => 8,
        }
    }
}

/// The hash that masks the slots of right ciphertexts: whoever compares computes it, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlotHash {
    /// AES under a fixed key: what the server's keyless half computes.
    #[default]
    FixedKeyAes,
    /// SHA-256: what an SQL database has.
    Sha256,
}

/// Values of a block, at most.
const SLOTS_MAX: usize = 256;

/// Blocks of AES output that the words of one permutation take, at most.
const SHUFFLE_BLOCKS_MAX: usize = SLOTS_MAX / WORDS_A_BLOCK;

const WORDS_A_BLOCK: usize = 4;

/// Blocks of each permutation that are made at once.
const WORDS_AT_ONCE: usize = 8;

/// What the PRF's input is for, in its third byte: slots under one key, words of permutations under the other.
const SLOTS: u8 = 0;
const WORDS: u8 = 1;
const WORDS_AGAIN: u8 = 2;

/// Encrypts and decrypts under one index's key.
pub struct LewiWu {
    width: Width,
    block_bits: u8,
    block_count: usize,
    images: Prf,
    permutations: Prf,
    hash: SlotHash,
    ties: Ties,
}

impl std::fmt::Debug for LewiWu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LewiWu({:?}, {})", self.width, self.block_bits)
    }
}

/// One block of a plaintext: its position, the bits before it, its value.
#[derive(Clone, Copy, Default)]
struct Piece {
    position: usize,
    prefix: u64,
    value: u8,
}

impl LewiWu {
    /// Derives the scheme's keys from the index's, with AES for a hash.
    #[must_use]
    pub fn new(index: &Key, width: Width, block_bits: BlockBits) -> Self {
        Self::with_hash(index, width, block_bits, SlotHash::FixedKeyAes)
    }

    /// The same with the hash that whoever compares can compute. An index has one for life.
    #[must_use]
    pub fn with_hash(index: &Key, width: Width, block_bits: BlockBits, hash: SlotHash) -> Self {
        let block_bits = block_bits.bits();
        Self {
            width,
            block_bits,
            block_count: blocks(width, block_bits).unwrap_or_default(),
            images: Prf::new(index.child(Purpose::LewiWuBlock).expose_16()),
            permutations: Prf::new(index.child(Purpose::LewiWuPermutation).expose_16()),
            hash,
            ties: Ties::new(index),
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
        for (some, slots) in pieces.chunks(SIDE_BY_SIDE).zip(slots.chunks_mut(SIDE_BY_SIDE)) {
            slots.copy_from_slice(&self.slots_of(some)[..slots.len()]);
        }
        let images = &mut images[..pieces.len()];
        for ((piece, slot), image) in pieces.iter().zip(slots).zip(&mut *images) {
            *image = numbered(self.input(*piece, SLOTS), u32::from(slot));
        }
        self.images.blocks(images);
        for ((part, image), slot) in left.chunks_exact_mut(LEFT_BLOCK_BYTES).zip(images).zip(slots) {
            part[..16].copy_from_slice(image);
            part[16] = slot;
        }
        Ok(())
    }

    /// The slots of the values of [`SIDE_BY_SIDE`] pieces at most.
    fn slots_of(&self, pieces: &[Piece]) -> [u8; SIDE_BY_SIDE] {
        let piece = |lane: usize| pieces.get(lane).copied().unwrap_or_default();
        let inputs: [[u64; 2]; SIDE_BY_SIDE] = std::array::from_fn(|lane| self.input(piece(lane), WORDS));
        let values = std::array::from_fn(|lane| piece(lane).value);
        let mut follower = Follower::new(pieces.len(), &values);
        // As many as the cipher has in flight, and no more: they stay in the nearest cache.
        let mut words = [[[0; 16]; SIDE_BY_SIDE]; WORDS_AT_ONCE];
        let blocks = self.shuffle_blocks();
        for first in (0..blocks).step_by(WORDS_AT_ONCE) {
            let words = &mut words[..WORDS_AT_ONCE.min(blocks - first)];
            for (lanes, counter) in words.iter_mut().zip(first as u32..) {
                for (word, input) in lanes.iter_mut().zip(inputs) {
                    *word = numbered(input, counter);
                }
            }
            let calls = if first == 0 { pieces.len() } else { 0 };
            self.permutations.wide_blocks(calls, words.as_flattened_mut());
            follower.follow(words);
        }
        follower.places().unwrap_or_else(|| self.slots_by_tables(pieces))
    }

    /// [`LewiWu::slots_of`] where a word is drawn again.
    #[cold]
    fn slots_by_tables(&self, pieces: &[Piece]) -> [u8; SIDE_BY_SIDE] {
        let mut slots = [0; SIDE_BY_SIDE];
        let mut scratch = Scratch::new();
        for (slot, piece) in slots.iter_mut().zip(pieces) {
            self.orders(&[*piece], &mut scratch);
            let order = &scratch.order[..1 << self.block_bits];
            *slot = order.iter().position(|value| *value == piece.value).unwrap_or_default() as u8;
        }
        slots
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
        let mut scratch = Scratch::new();
        for (some, packed) in pieces.chunks(at_once).zip(packed.chunks_mut(SLOTS_MAX / 4)) {
            self.orders(some, &mut scratch);
            self.masks(some, &nonce, &mut scratch);
            let slots = some.len() << self.block_bits;
            let (order, trits) = (&scratch.order[..slots], &mut scratch.trits[..slots]);
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

    /// The value of a right ciphertext. All trits of all blocks are checked: a ciphertext of another key passes with a
    /// chance of at most (4/81)^16 = 2^-69 (32 bits, d = 2).
    ///
    /// It is not authenticated: who knows or guesses the last block's slots of `x` and `x + 1` adds 1 to both trits and
    /// has that of `x + 1` (blindly 1 of 6 for d = 2, 2^-15 for d = 8), and who holds enough left ciphertexts can make
    /// right ones under nonces of its choice. Whether decryption succeeds is no proof of origin, and tells an active
    /// server about slots.
    ///
    /// # Errors
    /// [`OpenFailed`] if it is not one of these keys.
    pub fn decrypt_right(&self, right: &[u8]) -> Result<u64, OpenFailed> {
        if right.len() != self.right_bytes() {
            return Err(OpenFailed);
        }
        let (nonce, packed) = right.split_first_chunk::<NONCE_BYTES>().ok_or(OpenFailed)?;
        let slots = 1_usize << self.block_bits;
        let mut scratch = Scratch::new();
        let mut prefix = 0;
        for (position, packed) in packed.chunks(slots / 4).enumerate() {
            let piece = Piece { position, prefix, value: 0 };
            self.orders(&[piece], &mut scratch);
            self.masks(&[piece], nonce, &mut scratch);
            let (order, masks) = (&scratch.order[..slots], &scratch.trits[..slots]);
            let mut trits = [0; SLOTS_MAX];
            let trits = &mut trits[..slots];
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
        for (position, piece) in pieces.iter_mut().enumerate() {
            let shift = u32::from(self.block_bits) * (self.block_count - 1 - position) as u32;
            let upto = value >> shift;
            let value = (upto & ((1 << self.block_bits) - 1)) as u8;
            *piece = Piece { position, prefix: upto >> self.block_bits, value };
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
            let first = self.input(*piece, WORDS);
            for (counter, word) in words.iter_mut().enumerate() {
                *word = numbered(first, counter as u32);
            }
        }
        self.permutations.wide_blocks(pieces.len(), words);
    }

    /// The choices of a piece's permutation from its words.
    #[inline]
    fn choices(&self, piece: Piece, words: &[Block], choices: &mut [u8; CHOICES_MAX]) {
        let (words, _) = words.as_flattened().as_chunks();
        prp::choices_from(words, &mut choices[..1 << self.block_bits], |place, tries| {
            let again = numbered(self.input(piece, WORDS_AGAIN), (place as u32) << 24 | tries & 0xff_ffff);
            u128::from_le_bytes(self.permutations.block(&again)) as u32
        });
    }

    /// For each slot of each piece the value it stands for.
    #[inline]
    fn orders(&self, pieces: &[Piece], scratch: &mut Scratch) {
        let slots = 1 << self.block_bits;
        self.permutation_words(pieces, &mut scratch.words);
        let each = scratch.words.chunks(self.shuffle_blocks()).zip(scratch.order.chunks_mut(slots));
        for (piece, (words, order)) in pieces.iter().zip(each) {
            self.choices(*piece, words, &mut scratch.choices);
            prp::shuffle(&scratch.choices, slots, &mut scratch.table);
            order.copy_from_slice(&scratch.table[..slots]);
        }
    }

    /// For each slot of each piece the hash that masks it.
    #[inline]
    fn masks(&self, pieces: &[Piece], nonce: &Block, scratch: &mut Scratch) {
        let images = &mut scratch.images[..pieces.len() << self.block_bits];
        for (piece, images) in pieces.iter().zip(images.chunks_mut(1 << self.block_bits)) {
            let first = self.input(*piece, SLOTS);
            for (slot, image) in images.iter_mut().enumerate() {
                *image = numbered(first, slot as u32);
            }
        }
        self.images.blocks(images);
        let trits = &mut scratch.trits[..images.len()];
        match self.hash {
            SlotHash::FixedKeyAes => trit::hash_each(nonce, images, trits),
            SlotHash::Sha256 => {
                for (trit, image) in trits.iter_mut().zip(&*images) {
                    *trit = sha256_trit(&sha256(&[image, nonce]));
                }
            }
        }
    }

    /// A PRF's input without its number: distinct for all widths, block sizes, uses, blocks and prefixes.
    #[inline(always)]
    fn input(&self, piece: Piece, used_for: u8) -> [u64; 2] {
        let head = [self.width.bits() as u8, self.block_bits, used_for, piece.position as u8];
        [u64::from(u32::from_le_bytes(head)), piece.prefix]
    }
}

/// A PRF's input with its number, in the upper half of the first word.
#[inline(always)]
fn numbered(input: [u64; 2], number: u32) -> Block {
    (u128::from(input[1]) << 64 | u128::from(input[0] | u64::from(number) << 32)).to_le_bytes()
}

/// Room for what a right ciphertext takes, [`SLOTS_MAX`] slots at a time.
struct Scratch {
    words: [Block; SHUFFLE_BLOCKS_MAX],
    choices: [u8; CHOICES_MAX],
    table: [u8; CHOICES_MAX],
    order: [u8; SLOTS_MAX],
    images: [Block; SLOTS_MAX],
    trits: [u8; SLOTS_MAX],
}

impl Scratch {
    #[inline(always)]
    fn new() -> Self {
        Self {
            words: [[0; 16]; SHUFFLE_BLOCKS_MAX],
            choices: [0; CHOICES_MAX],
            table: [0; CHOICES_MAX],
            order: [0; SLOTS_MAX],
            images: [[0; 16]; SLOTS_MAX],
            trits: [0; SLOTS_MAX],
        }
    }
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

    fn tie(&self, value: u64) -> Option<TieToken> {
        Some(self.ties.of(value))
    }
}
