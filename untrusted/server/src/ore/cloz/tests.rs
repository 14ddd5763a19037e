#![allow(clippy::expect_used, clippy::indexing_slicing)]

use crate::ore::compare;
use arras_primitives::pph::Pph;
use arras_primitives::prg::Prg;
use arras_protocol::ore::cloz::{query_bytes, stored_bytes, stored_hash_bytes};
use arras_protocol::ore::{MalformedCiphertext, Scheme, Width};
use std::cmp::Ordering;

const WIDTH: Width = Width::Bits32;
const SCHEME: Scheme = Scheme::Cloz(WIDTH);

/// A stored and a query ciphertext of numbers that differ by two, and at one place by `difference` more.
fn ciphertexts(difference: i8) -> (Vec<u8>, Vec<u8>) {
    let (pph, mut prg) = (Pph::new(&[3; 32]), Prg::new(&[4; 16]));
    let of_query: Vec<u128> = (0..32).map(|at| at * 100).collect();
    let mut of_stored: Vec<u128> = of_query.iter().map(|number| number + 50).collect();
    if difference != 0 {
        of_stored[20] = of_query[7].wrapping_add_signed(difference.into());
    }
    let mut stored = pph.hash_stored(&of_stored, &mut prg);
    stored.resize(stored_bytes(WIDTH), 0);
    (stored, pph.hash_query(&of_query, &mut prg))
}

#[test]
fn a_pair_one_apart_decides() {
    for (difference, order) in [(1, Ordering::Less), (-1, Ordering::Greater), (0, Ordering::Equal)] {
        let (stored, query) = ciphertexts(difference);
        assert_eq!(compare(SCHEME, &query, &stored), Ok(order));
    }
}

#[test]
fn hostile_ciphertexts_are_malformed() {
    let (stored, query) = ciphertexts(1);
    assert_eq!((stored.len(), query.len()), (stored_bytes(WIDTH), query_bytes(WIDTH)));
    let length = Err(MalformedCiphertext("its length"));
    assert_eq!(compare(SCHEME, &query[1..], &stored), length);
    assert_eq!(compare(SCHEME, &query, &stored[1..]), length);
    assert_eq!(compare(SCHEME, &[], &[]), length);
    assert_eq!(compare(SCHEME, &stored, &query), length);
    let point = Err(MalformedCiphertext("a point"));
    // A neutral element at each side's first, middle and last place.
    for at in [0, 16, 32] {
        let mut neutral = stored.clone();
        neutral[at * 48..(at + 1) * 48].fill(0);
        neutral[at * 48] = 0xc0;
        assert_eq!(compare(SCHEME, &query, &neutral), point);
    }
    for at in [0, 32, 64] {
        let mut neutral = query.clone();
        neutral[at * 96..(at + 1) * 96].fill(0);
        neutral[at * 96] = 0xc0;
        assert_eq!(compare(SCHEME, &neutral, &stored), point);
    }
    assert_eq!(compare(SCHEME, &vec![0xff; query.len()], &stored), point);
    assert_eq!(compare(SCHEME, &query, &vec![0; stored.len()]), point);
    // The seal is none of the server's business.
    let mut resealed = stored.clone();
    resealed[stored_hash_bytes(WIDTH)..].fill(9);
    assert_eq!(compare(SCHEME, &query, &resealed), Ok(Ordering::Less));
}
