//! Lewi-Wu beside crate `cretrit`, whose full ciphertexts hold both sides and whose right ones hold the right side.
//!
//! It has no encryption of the left side alone, so ours stands without a ratio there. Its comparison is of values in
//! memory, ours of the stored bytes.

use crate::table::{Table, Target};
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::ore::Width;
use arras_schemes::ore::lewi_wu::{BlockBits, LewiWu};
use arras_server::ore::lewi_wu::compare;
use cretrit::aes128v1::ore;
use std::hint::black_box;

/// Measures.
pub fn measure(table: &mut Table) {
    measure_eight(table);
    for block_bits in [BlockBits::Two, BlockBits::Four] {
        let (right, left, compare) = (Vec::new(), Vec::new(), Vec::new());
        measure_ours(table, block_bits, [right, left, compare], [None, None]);
    }
}

fn measure_eight(table: &mut Table) {
    let theirs = ore::Cipher::<8, 256>::new(&[1; 32]).expect("a cipher");
    let mut value = 1_u64;
    let mut full = || {
        value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let plaintext = value.try_into().expect("a plaintext");
        black_box(theirs.right_encrypt(&plaintext).expect("encrypts"));
    };
    let ciphertexts: Vec<_> = (0..64_u64)
        .map(|at| at.wrapping_mul(0x9e37_79b9_7f4a_7c15).try_into().expect("a plaintext"))
        .map(|plaintext| theirs.full_encrypt(&plaintext).expect("encrypts"))
        .collect();
    let mut compare_all = || {
        for pair in ciphertexts.windows(2) {
            black_box(black_box(&pair[0]).cmp(&pair[1]));
        }
    };
    let targets = [
        vec![Target::Ns(15_000.0), Target::Faster(20.0)],
        vec![Target::Ns(2_500.0)],
        vec![Target::Ns(80.0), Target::Faster(8.0)],
    ];
    measure_ours(
        table,
        BlockBits::Eight,
        targets,
        [Some(("cretrit", &mut full)), Some(("cretrit", &mut compare_all))],
    );
}

type Opponent<'a> = Option<(&'a str, &'a mut dyn FnMut())>;

fn measure_ours(
    table: &mut Table,
    block_bits: BlockBits,
    targets: [Vec<Target>; 3],
    opponents: [Opponent<'_>; 2],
) {
    let bits = block_bits.bits();
    let scheme = LewiWu::new(&Key::take_from(&mut [1; 32]), Width::Bits64, block_bits);
    let mut prg = Prg::new(&[1; 16]);
    let mut value = 1_u64;
    let mut next = || {
        value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        value
    };
    let [of_right, of_comparison] = opponents;
    let mut right = vec![0; scheme.right_bytes()];
    let encrypt_right = || {
        scheme.encrypt_right(next(), &mut prg, &mut right).expect("within the domain");
        black_box(&mut right);
    };
    table.row(&format!("Lewi-Wu 64 bits, d = {bits}, right"), &targets[0], 1, encrypt_right, of_right);
    let mut left = vec![0; scheme.left_bytes()];
    let encrypt_left = || {
        scheme.encrypt_left(next(), &mut left).expect("within the domain");
        black_box(&mut left);
    };
    table.row(&format!("Lewi-Wu 64 bits, d = {bits}, left"), &targets[1], 1, encrypt_left, None);
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = (0..63)
        .map(|_| {
            let (mut left, mut right) = (vec![0; scheme.left_bytes()], vec![0; scheme.right_bytes()]);
            scheme.encrypt_left(next(), &mut left).expect("within the domain");
            scheme.encrypt_right(next(), &mut prg, &mut right).expect("within the domain");
            (left, right)
        })
        .collect();
    let compare_all = || {
        for (left, right) in &pairs {
            black_box(compare(Width::Bits64, bits, black_box(left), right).expect("well formed"));
        }
    };
    table.row(&format!("Lewi-Wu 64 bits, d = {bits}, compare"), &targets[2], 63, compare_all, of_comparison);
}
