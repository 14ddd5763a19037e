use super::*;
use proptest::prelude::*;

#[test]
fn remainders_of_all_byte_sums() {
    for sum in 0..=16 * 255 {
        assert_eq!(u16::from(remainder(sum)), sum % 3);
    }
}

#[test]
fn the_hash_is_aes_of_input_and_nonce() {
    let nonce = [0x2b; 16];
    let inputs: Vec<Block> = (0..70_u8).map(|at| [at; 16]).collect();
    let expected: Vec<u8> = inputs
        .iter()
        .map(|input| {
            let point = input.map(|byte| byte ^ 0x2b);
            (u128::from_be_bytes(crate::prf::Prf::new(b"arras lewi-wu pi").block(&point)) % 3) as u8
        })
        .collect();
    let (mut images, mut trits) = (inputs, vec![9; 70]);
    hash_each(&nonce, &mut images, &mut trits);
    assert_eq!(trits, expected);
}

/// Trits of a counter's images are uniform; those of single bytes of them (bias 1/256) would be noticed.
#[test]
fn trits_are_uniform() {
    let prf = crate::prf::Prf::new(&[7; 16]);
    let mut blocks: Vec<Block> = (0..3_000_000_u128).map(u128::to_le_bytes).collect();
    prf.blocks(&mut blocks);
    let mut trits = vec![0; blocks.len()];
    of_blocks(&blocks, &mut trits);
    let statistic = |trits: &mut dyn Iterator<Item = u8>| {
        let mut counts = [0.0_f64; 3];
        trits.for_each(|trit| counts[usize::from(trit)] += 1.0);
        let expected = counts.iter().sum::<f64>() / 3.0;
        counts.iter().map(|seen| (seen - expected).powi(2) / expected).sum::<f64>()
    };
    // Two degrees of freedom: 27.6 is exceeded with a chance of 10^-6.
    assert!(statistic(&mut trits.iter().copied()) < 27.6);
    assert!(statistic(&mut blocks.iter().map(|block| block[0] % 3)) > 27.6);
}

proptest! {
    #[test]
    fn a_trit_is_the_block_modulo_3(blocks in prop::collection::vec(any::<Block>(), 0..200)) {
        let mut trits = vec![9; blocks.len()];
        of_blocks(&blocks, &mut trits);
        let mut portably = vec![9; blocks.len()];
        of_blocks_portably(&blocks, &mut portably);
        prop_assert_eq!(&trits, &portably);
        for (block, trit) in blocks.iter().zip(trits) {
            prop_assert_eq!(u128::from(trit), u128::from_be_bytes(*block) % 3);
            prop_assert_eq!(trit, of_block(block));
        }
    }

    #[test]
    fn packing_is_undone(trits in prop::collection::vec(0..4_u8, 0..70)) {
        let mut packed = vec![0xff; trits.len().div_ceil(4)];
        pack(&trits, &mut packed);
        let mut unpacked = vec![9; trits.len()];
        unpack(&packed, &mut unpacked);
        prop_assert_eq!(&unpacked, &trits);
        if trits.len() % 4 != 0 {
            prop_assert_eq!(packed[packed.len() - 1] >> (2 * (trits.len() % 4)), 0);
        }
    }
}
