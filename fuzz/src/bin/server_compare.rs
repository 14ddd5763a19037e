//! Ciphertexts of every scheme, compared: an answer or an error. `scheme: u8 | block bits: u8 | query | stored`.
#![no_main]

use arras_fuzz::seed;
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::ore::{Scheme, Width};
use arras_schemes::ore::bclo::Bclo;
use arras_schemes::ore::cloz::Cloz;
use arras_schemes::ore::clww::Clww;
use arras_schemes::ore::lewi_wu::{BlockBits, LewiWu};
use arras_schemes::ore::{End, OrderScheme};
use arras_server::ore::compare;
use libfuzzer_sys::fuzz_target;

fn scheme(number: u8, block_bits: u8) -> Scheme {
    let width = if number & 1 == 0 { Width::Bits32 } else { Width::Bits64 };
    match number / 2 % 6 {
        0 => Scheme::Bclo(width),
        1 => Scheme::Clww(width),
        2 => Scheme::Cloz(width),
        3 => Scheme::FhOpe(width),
        4 => Scheme::LewiWu { width, block_bits },
        _ => Scheme::Plain(width),
    }
}

fn case(number: u8, block_bits: u8, scheme: &mut dyn OrderScheme) -> Vec<u8> {
    let mut prg = Prg::new(&[1; 16]);
    let query = scheme.bound(9, End::Lower, &mut prg).expect("in the domain");
    let stored = scheme.encrypt(12, &mut prg).expect("in the domain").stored;
    [vec![number, block_bits], query, stored].concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let key = Key::take_from(&mut [2; Key::BYTES]);
    let mut seeds = Vec::new();
    for (place, width) in (0..).zip([Width::Bits32, Width::Bits64]) {
        seeds.push(case(place, 0, &mut Bclo::new(&key, width)));
        seeds.push(case(place + 2, 0, &mut Clww::new(&key, width)));
        for bits in [BlockBits::Two, BlockBits::Four, BlockBits::Eight] {
            seeds.push(case(place + 8, bits.bits(), &mut LewiWu::new(&key, width, bits)));
        }
    }
    seeds.push(case(4, 0, &mut Cloz::new(&key, Width::Bits32)));
    seeds
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    let Some(([number, block_bits], ciphertexts)) = bytes.split_first_chunk::<2>() else { return };
    let scheme = scheme(*number, *block_bits);
    let Some((query, stored)) = scheme.query_bytes().and_then(|query| ciphertexts.split_at_checked(query)) else {
        return assert!(compare(scheme, ciphertexts, ciphertexts).is_err());
    };
    let order = compare(scheme, query, stored);
    assert!(order.is_err() || Some(stored.len()) == scheme.stored_bytes());
    if let (Scheme::Bclo(_) | Scheme::Clww(_) | Scheme::FhOpe(_) | Scheme::Plain(_), Ok(order)) = (scheme, order) {
        assert_eq!(compare(scheme, stored, query), Ok(order.reverse()), "both sides are of one form");
    }
});
