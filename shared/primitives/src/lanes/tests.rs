//! Every engine this processor has is held against the `aes` crate and the definitions.

use super::*;
use crate::prf::Prf;
use aes::Aes128Enc;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use proptest::prelude::*;

fn available() -> impl Iterator<Item = Backend> {
    Backend::ALL.into_iter().filter(|backend| backend.is_available())
}

fn aes(key: &Block, input: u128) -> Block {
    Prf::new(key).block(&input.to_le_bytes())
}

/// Says in the output which engines the machine exercises.
#[test]
fn the_portable_engine_is_always_there() {
    assert!(Backend::Portable.is_available());
    assert!(Backend::best().is_available());
    eprintln!("tested: {:?}", available().collect::<Vec<_>>());
}

/// Applies each operation of an engine to the same lanes.
struct Operations {
    left: [Block; QUAD],
    right: [Block; QUAD],
    bytes: [u8; QUAD],
    value: u128,
    bit: u32,
}

impl Work for Operations {
    type Output = Vec<[Block; QUAD]>;

    #[inline(always)]
    fn run<E: Engine>(self, engine: E) -> Self::Output {
        let (left, right) = (engine.load(self.left.each_ref()), engine.load(self.right.each_ref()));
        let bytes = engine.splat_bytes(self.bytes);
        let keys = engine.expand(self.right.each_ref());
        let [once, twice] = engine.encrypt(&keys, [left, right]);
        let quads = [
            left,
            engine.splat(self.value),
            bytes,
            engine.xor(left, right),
            engine.sigma(left),
            engine.where_odd(left, right),
            engine.where_bit(bytes, self.bit, right),
            once,
            twice,
        ];
        let mut blocks = Vec::new();
        for quad in quads {
            blocks.push(engine.store(quad));
        }
        blocks
    }
}

/// The same by definition.
fn defined(operations: &Operations) -> Vec<[Block; QUAD]> {
    let Operations { left, right, bytes, value, bit } = operations;
    let number = |block: &Block| u128::from_le_bytes(*block);
    let each = |make: &dyn Fn(usize) -> u128| std::array::from_fn(|lane| make(lane).to_le_bytes());
    vec![
        *left,
        each(&|_| *value),
        std::array::from_fn(|lane| [bytes[lane]; 16]),
        each(&|lane| number(&left[lane]) ^ number(&right[lane])),
        each(&|lane| {
            let (upper, lower) = (number(&left[lane]) >> 64, number(&left[lane]) & u128::from(u64::MAX));
            ((upper ^ lower) << 64) | upper
        }),
        each(&|lane| {
            if left[lane][0] % 2 == 1 { number(&right[lane]) } else { 0 }
        }),
        each(&|lane| {
            if bytes[lane] >> bit & 1 == 1 { number(&right[lane]) } else { 0 }
        }),
        std::array::from_fn(|lane| aes(&right[lane], number(&left[lane]))),
        std::array::from_fn(|lane| aes(&right[lane], number(&right[lane]))),
    ]
}

proptest! {
    #[test]
    fn operations_do_what_they_are_defined_to(
        left: [Block; QUAD],
        right: [Block; QUAD],
        bytes: [u8; QUAD],
        value: u128,
        bit in 0..8_u32,
    ) {
        for backend in available() {
            let operations = Operations { left, right, bytes, value, bit };
            let expected = defined(&operations);
            prop_assert_eq!(backend.run(operations), expected, "{:?}", backend);
        }
    }

    #[test]
    fn each_under_its_own_key(keys in prop::collection::vec(any::<Block>(), 0..40), inputs: (u128, u128)) {
        let two: Vec<[Block; 2]> = keys.iter().map(|key| [aes(key, inputs.0), aes(key, inputs.1)]).collect();
        let one: Vec<Block> = two.iter().map(|[first, _]| *first).collect();
        for backend in available() {
            let mut outputs = vec![[[0; 16]; 2]; keys.len()];
            encrypt_two_on(backend, &keys, inputs, &mut outputs);
            prop_assert_eq!(&outputs, &two, "{:?}", backend);
            let mut blocks = vec![inputs.0.to_le_bytes(); keys.len()];
            encrypt_each_on(backend, &keys, &mut blocks);
            prop_assert_eq!(&blocks, &one, "{:?}", backend);
        }
    }

    #[test]
    fn streams_count_from_anywhere(
        key: Block,
        start in prop_oneof![Just(0), any::<u128>(), Just(u128::MAX)],
        length in 0..100_usize,
    ) {
        let first = start - start % STREAM_STEP as u128;
        let expected: Vec<Block> =
            (0..length).map(|at| aes(&key, first.wrapping_add(at as u128))).collect();
        for backend in available() {
            let mut output = vec![[0; 16]; length];
            stream_on(backend, &key, first, &mut output);
            prop_assert_eq!(&output, &expected, "{:?}", backend);
        }
    }
}

#[test]
#[should_panic(expected = "one block for each key")]
fn keys_and_blocks_go_together() {
    encrypt_each(&[[0; 16]; 2], &mut [[0; 16]; 3]);
}

/// Whatever the length and wherever in memory: lines, steps and what is left over.
#[test]
fn many_blocks_are_those_of_the_cipher_wherever_they_lie() {
    let key = [9; 16];
    let cipher = Aes128Enc::new(&key.into());
    let mut memory = vec![0_u8; 16 * 420];
    for length in [WIDE_MIN, WIDE_MIN + 1, 191, 192, 193, 255, 256, 300, 400] {
        for offset in [0, 1, 8, 16, 32, 48, 64, 72] {
            for (at, byte) in memory.iter_mut().enumerate() {
                *byte = (at * 7 + at / 256) as u8;
            }
            let (blocks, _) = memory[offset..offset + 16 * length].as_chunks_mut::<16>();
            let mut expected = blocks.to_vec();
            cipher.encrypt_blocks(Array::cast_slice_from_core_mut(&mut expected));
            if encrypt_wide(&key, blocks) {
                assert_eq!(blocks, expected, "{length} {offset}");
            }
            for first in [0_u128, 32, 1 << 63, (1 << 64) - 512, (1 << 64) - 64, u128::MAX - 31] {
                stream_on(Backend::best(), &key, first, blocks);
                stream_on(Backend::Portable, &key, first, &mut expected);
                assert_eq!(blocks, expected, "{length} {offset} {first}");
            }
        }
    }
}
