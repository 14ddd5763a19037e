//! Times of the primitives, one by one and in batches.

use super::timer::time;
use super::{BenchArguments, Measured, Role};
use arras_primitives::hash::sha256;
use arras_primitives::prf::Prf;
use arras_primitives::prg::Prg;
use arras_primitives::prp::{FeistelPermutation, TablePermutation};
use std::hint::black_box;

/// Blocks in a batch.
const BATCH: usize = 256;

pub(super) fn measure(arguments: &BenchArguments) -> Vec<Measured> {
    let timed = |subject: &str, operation: &str, count: usize, run: &mut dyn FnMut()| Measured {
        subject: subject.to_owned(),
        operation: operation.to_owned(),
        bits: None,
        role: Role::Primitive,
        timing: time(arguments.time(), count, run),
    };
    let prf = Prf::new(&[1; 16]);
    let mut prg = Prg::new(&[2; 16]);
    let mut block = [3; 16];
    let mut blocks = vec![[4; 16]; BATCH];
    let table = TablePermutation::new(256, &mut prg);
    let feistel = FeistelPermutation::new(&[5; 16], 1 << 32);
    let mut element = 0u64;
    vec![
        timed("PRF", "one block", 1, &mut || block = black_box(prf.block(black_box(&block)))),
        timed("PRF", "a block of 256", BATCH, &mut || prf.blocks(black_box(&mut blocks))),
        timed("PRG", "8 bytes", 1, &mut || {
            black_box(prg.next_u64());
        }),
        timed("PRG", "a block of 256", BATCH, &mut || prg.fill_blocks(black_box(&mut blocks))),
        timed("Hash", "SHA-256 of 32 bytes", 1, &mut || {
            black_box(sha256(&[black_box(&block), black_box(&block)]));
        }),
        timed("PRP", "Knuth shuffle of 256", 1, &mut || {
            black_box(TablePermutation::new(256, &mut prg));
        }),
        timed("PRP", "look-up in its table", 1, &mut || {
            element = (element + 1) % 256;
            black_box(table.image(usize::try_from(element).unwrap_or(0)));
        }),
        timed("PRP", "Feistel, 32 bits", 1, &mut || {
            element = (element + 1) % 256;
            black_box(feistel.as_ref().and_then(|feistel| feistel.image(element)));
        }),
    ]
}
