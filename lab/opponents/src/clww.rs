//! CLWW. No crate of it is in the registry; fastore (C) was measured by hand on such a machine: 1.95 us, 180 ns.

use crate::table::{Table, Target};
use arras_keys::Key;
use arras_protocol::ore::Width;
use arras_schemes::ore::clww::Clww;
use arras_server::ore::clww::compare;
use std::hint::black_box;

/// Measures.
pub fn measure(table: &mut Table) {
    for (width, encrypt, compared) in [(Width::Bits32, None, None), (Width::Bits64, Some(200.0), Some(5.0))] {
        let scheme = Clww::new(&Key::take_from(&mut [1; 32]), width);
        let encrypted =
            |value: u64| scheme.encrypt_trits(value & width.greatest()).expect("within the domain");
        let bits = width.bits();
        let mut value = 0x0123_4567_89ab_cdef_u64;
        let encrypt_one = || {
            value = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            black_box(encrypted(value));
        };
        let target: Vec<Target> = encrypt.map(Target::Ns).into_iter().collect();
        table.row(&format!("CLWW {bits} bits, encrypt"), &target, 1, encrypt_one, None);
        let bytes = |value: u64| encrypted(value).to_bytes(width);
        let stored: Vec<Vec<u8>> =
            (0..256_u64).map(|at| bytes(at.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        let compare_all = || {
            for pair in stored.windows(2) {
                black_box(compare(width, black_box(&pair[0]), &pair[1]).expect("well formed"));
            }
        };
        let target: Vec<Target> = compared.map(Target::Ns).into_iter().collect();
        table.row(&format!("CLWW {bits} bits, compare"), &target, stored.len() - 1, compare_all, None);
    }
}
