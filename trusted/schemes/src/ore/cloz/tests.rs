use super::*;
use arras_primitives::pph::{Neighbours, QueryHashes, StoredHashes, find_neighbours};
use std::cmp::Ordering;

fn scheme(width: Width, seed: u8) -> Cloz {
    Cloz::new(&Key::take_from(&mut [seed; 32]), width)
}

fn find(width: Width, query: &[u8], stored: &[u8]) -> Option<Neighbours> {
    let bits = width.bits() as usize;
    let stored = StoredHashes::from_bytes(&stored[..stored_hash_bytes(width)], bits).expect("points");
    find_neighbours(&QueryHashes::from_bytes(query, bits).expect("points"), &stored)
}

/// How a query compares with the stored ciphertext that it was tested against.
fn order(found: Option<Neighbours>) -> Ordering {
    match found {
        None => Ordering::Equal,
        Some(found) if found.is_successor => Ordering::Less,
        Some(_) => Ordering::Greater,
    }
}

#[test]
fn order_is_that_of_the_plaintexts() {
    let mut prg = Prg::new(&[1; 16]);
    let cases: [(Width, &[u64]); 2] = [
        (Width::Bits32, &[0, 1, 0x8000_0000, 0x8000_0001, 0xffff_fffe, 0xffff_ffff]),
        (Width::Bits64, &[0, 1 << 63, u64::MAX]),
    ];
    for (width, values) in cases {
        let mut scheme = scheme(width, 5);
        let encrypted: Vec<Encrypted> =
            values.iter().map(|value| scheme.encrypt(*value, &mut prg).expect("in the domain")).collect();
        for (one, query) in values.iter().zip(&encrypted) {
            assert_eq!(Some(query.stored.len()), scheme.scheme().stored_bytes());
            assert_eq!(Some(query.query.len()), scheme.scheme().query_bytes());
            assert_eq!(scheme.decrypt(&query.stored), Ok(*one));
            for (two, stored) in values.iter().zip(&encrypted) {
                assert_eq!(order(find(width, &query.query, &stored.stored)), one.cmp(two), "{one:x} {two:x}");
            }
        }
        let bound = scheme.bound(values[1], End::Upper, &mut prg).expect("in the domain");
        assert_eq!(order(find(width, &bound, &encrypted[1].stored)), Ordering::Equal);
    }
    let mut narrow = scheme(Width::Bits32, 5);
    assert_eq!(narrow.encrypt(1 << 32, &mut prg), Err(EncryptFailed::OutsideDomain));
    assert_eq!(narrow.bound(1 << 32, End::Lower, &mut prg), Err(EncryptFailed::OutsideDomain));
}

#[test]
fn an_altered_ciphertext_or_one_of_another_key_does_not_decrypt() {
    let mut prg = Prg::new(&[2; 16]);
    let (other_key, other_width) = (scheme(Width::Bits32, 6), scheme(Width::Bits64, 5));
    let mut scheme = scheme(Width::Bits32, 5);
    let [one, two] = [7, 8].map(|value| scheme.encrypt(value, &mut prg).expect("in the domain").stored);
    let hash_bytes = stored_hash_bytes(Width::Bits32);
    for at in [0, 47, 48, hash_bytes - 1, hash_bytes, hash_bytes + 12, one.len() - 1] {
        let mut altered = one.clone();
        altered[at] ^= 1;
        assert_eq!(scheme.decrypt(&altered), Err(OpenFailed), "byte {at}");
    }
    let mixed = [&one[..hash_bytes], &two[hash_bytes..]].concat();
    assert_eq!(scheme.decrypt(&mixed), Err(OpenFailed), "the seal of another ciphertext");
    for length in [0, hash_bytes - 1, hash_bytes, one.len() - 1] {
        assert_eq!(scheme.decrypt(&one[..length]), Err(OpenFailed));
    }
    assert_eq!(other_key.decrypt(&one), Err(OpenFailed));
    assert_eq!(other_width.decrypt(&one), Err(OpenFailed));
}

/// All that tests of queries against stored ciphertexts tell, names of places taken away: who is smaller, and which
/// stored ciphertexts met the same element of a query, which queries the same element of a stored ciphertext.
fn pattern(queries: &[u64], stored: &[u64], seed: u8) -> Vec<(Ordering, Vec<bool>, Vec<bool>)> {
    let (width, mut prg) = (Width::Bits32, Prg::new(&[seed; 16]));
    let mut scheme = scheme(width, seed);
    let queries: Vec<Vec<u8>> = queries
        .iter()
        .map(|value| scheme.bound(*value, End::Lower, &mut prg).expect("in the domain"))
        .collect();
    let stored: Vec<Vec<u8>> =
        stored.iter().map(|value| scheme.encrypt(*value, &mut prg).expect("in the domain").stored).collect();
    let found: Vec<Vec<Option<Neighbours>>> = queries
        .iter()
        .map(|query| stored.iter().map(|stored| find(width, query, stored)).collect())
        .collect();
    let of = |query: usize, stored: usize| found[query][stored];
    let mut pattern = Vec::new();
    for one in 0..queries.len() {
        for two in 0..stored.len() {
            let at_query = |found: Option<Neighbours>| found.map(|found| found.query_position);
            let at_stored = |found: Option<Neighbours>| found.map(|found| found.stored_position);
            let same_query =
                (0..stored.len()).map(|other| at_query(of(one, other)) == at_query(of(one, two))).collect();
            let same_stored = (0..queries.len())
                .map(|other| at_stored(of(other, two)) == at_stored(of(one, two)))
                .collect();
            pattern.push((order(of(one, two)), same_query, same_stored));
        }
    }
    pattern
}

/// Leakage: databases and queries with equal order and equal pattern of highest differing bits pass the same tests,
/// wherever these bits are; others do not.
#[test]
fn tests_tell_order_and_equality_of_differing_bits_alone() {
    // The query 8 differs from 0 and 1 at one bit, from 12 at another; so does the second from its own, higher up.
    let low = pattern(&[8, 13], &[0, 1, 12, 8], 3);
    let high = pattern(&[0x8800_0000, 0xc001_0000], &[0x0000_0000, 0x0100_0000, 0xc000_0000, 0x8800_0000], 4);
    assert_eq!(low, high);
    // 1 and 9 differ from 8 at different bits.
    let other = pattern(&[8, 13], &[0, 9, 12, 8], 3);
    assert_ne!(low, other);
}

#[test]
fn equal_plaintexts_share_no_point() {
    let mut prg = Prg::new(&[2; 16]);
    let mut scheme = scheme(Width::Bits32, 5);
    let [one, two] = [0, 1].map(|_| scheme.encrypt(7, &mut prg).expect("in the domain"));
    let differ = |one: &[u8], two: &[u8], point_bytes: usize| {
        one.chunks(point_bytes).all(|point| two.chunks(point_bytes).all(|other| point != other))
    };
    assert!(differ(&one.stored, &two.stored, 48) && differ(&one.query, &two.query, 96));
}
