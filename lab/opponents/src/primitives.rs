//! PRF and PRG in batches beside a plain loop over crate `aes`, which is the processor's AES throughput; records
//! sealed side by side.

use crate::table::{Table, Target};
use aes::Aes128Enc;
use aes::cipher::{Array, BlockCipherEncrypt, KeyInit};
use arras_primitives::prf::Prf;
use arras_primitives::prg::Prg;
use arras_primitives::symmetric::Sealer;
use std::hint::black_box;

/// A big buffer that the second-level cache holds.
const BLOCKS: usize = 4096;

/// Measures.
pub fn measure(table: &mut Table) {
    let cipher = Aes128Enc::new(&[1; 16].into());
    let mut theirs = vec![[0_u8; 16]; BLOCKS];
    let mut plain = || cipher.encrypt_blocks(Array::cast_slice_from_core_mut(black_box(&mut theirs)));
    let prf = Prf::new(&[1; 16]);
    let mut ours = vec![[0; 16]; BLOCKS];
    let name = "plain loop over aes";
    let least = [Target::Faster(0.7)];
    table.row(
        "PRF, a block of 4096",
        &least,
        BLOCKS,
        || prf.blocks(black_box(&mut ours)),
        Some((name, &mut plain)),
    );
    let mut prg = Prg::new(&[1; 16]);
    let mut ours = vec![[0; 16]; BLOCKS];
    table.row(
        "PRG, a block of 4096",
        &least,
        BLOCKS,
        || prg.fill_blocks(black_box(&mut ours)),
        Some((name, &mut plain)),
    );
    let sealer = Sealer::new(&[1; 32]);
    let plaintexts = vec![7; 1024 * 8];
    let mut sealed = Vec::new();
    let seal = || {
        sealed.clear();
        sealer.seal_each(&[0; 16], &plaintexts, 8, &mut prg, &mut sealed);
        black_box(&mut sealed);
    };
    table.row("seal a record of 8 bytes of 1024", &[], 1024, seal, None);
    let mut sealed = Vec::new();
    sealer.seal_each(&[0; 16], &plaintexts, 8, &mut Prg::new(&[2; 16]), &mut sealed);
    let mut opened = Vec::new();
    let open = || {
        opened.clear();
        sealer.open_each(&[0; 16], black_box(&sealed), 8, &mut opened).expect("was sealed");
    };
    table.row("open a record of 8 bytes of 1024", &[], 1024, open, None);
}
