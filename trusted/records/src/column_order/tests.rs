#![allow(clippy::unwrap_used)]

use super::*;

const ID: [u8; 8] = [7; 8];

fn root(number: u8) -> Key {
    Key::take_from(&mut [number; 32])
}

fn order(scheme: TermScheme, key_bytes: usize, number: u8) -> Option<ColumnOrder> {
    ColumnOrder::new(scheme, key_bytes, &root(number), &ID)
}

#[test]
fn keys_have_the_columns_length() {
    for (made, other) in [(4, 8), (8, 4), (1, 2)] {
        let order = order(TermScheme::Clww, made, 1).unwrap();
        assert!(order.stored(&vec![0; made]).is_ok());
        assert!(order.stored(&vec![0; other]).is_err() && order.compared(&vec![0; other]).is_err());
        assert!(!order.is_of(&[], &vec![0; other]));
    }
    assert!(order(TermScheme::Clww, 9, 1).is_none() && order(TermScheme::Clww, 0, 1).is_none());
    assert_eq!(order(TermScheme::Bclo, 8, 1).is_some(), cfg!(feature = "bclo"));
}

#[cfg(feature = "bclo")]
#[test]
fn ciphertexts_of_bclo_are_in_the_order_of_the_keys_under_one_root_and_id() {
    let numbers: [u64; 6] = [0, 1, 255, 256, 1 << 40, u64::MAX];
    let order_8 = order(TermScheme::Bclo, 8, 1).unwrap();
    let terms: Vec<Vec<u8>> = numbers.iter().map(|n| order_8.stored(&n.to_be_bytes()).unwrap()).collect();
    assert!(terms.is_sorted_by(|one, two| one < two) && terms.iter().all(|term| term.len() == 16));
    for (number, term) in numbers.iter().zip(&terms) {
        assert_eq!(*term, order_8.compared(&number.to_be_bytes()).unwrap());
        assert!(order_8.is_of(term, &number.to_be_bytes()));
        assert!(!order_8.is_of(term, &(number ^ 1).to_be_bytes()));
    }
    let other = order(TermScheme::Bclo, 8, 2).unwrap();
    assert_ne!(other.stored(&[0; 8]).unwrap(), terms[0]);
    let elsewhere = ColumnOrder::new(TermScheme::Bclo, 8, &root(1), &[8; 8]).unwrap();
    assert_ne!(elsewhere.stored(&[0; 8]).unwrap(), terms[0]);
    let order_4 = order(TermScheme::Bclo, 4, 1).unwrap();
    assert!(order_4.stored(&[0, 0, 1, 0]).unwrap() < order_4.stored(&[0, 0, 1, 1]).unwrap());
    assert_eq!(order_4.stored(&[0; 4]).unwrap().len(), 8);
}

#[test]
fn ciphertexts_of_clww_compare_as_the_keys_do() {
    use arras_protocol::ore::clww::{Trits, compare};
    let order = order(TermScheme::Clww, 8, 1).unwrap();
    let trits = |term: &[u8]| Trits::from_bytes(Width::Bits64, term).unwrap();
    let numbers: [u64; 5] = [0, 1, 2, 1 << 63, u64::MAX];
    for one in numbers {
        let stored = order.stored(&one.to_be_bytes()).unwrap();
        for other in numbers {
            let compared = order.compared(&other.to_be_bytes()).unwrap();
            assert_eq!(compare(trits(&stored), trits(&compared)), Ok(one.cmp(&other)));
            assert_eq!(order.is_of(&stored, &other.to_be_bytes()), one == other);
        }
    }
}

/// What the database computes of a stored ciphertext of Lewi-Wu and one to compare with.
fn compare_sides(stored: &[u8], compared: &[u8]) -> std::cmp::Ordering {
    use arras_protocol::ore::lewi_wu::{LEFT_BLOCK_BYTES, NONCE_BYTES, sha256_trit};
    let (nonce, trits) = stored.split_at(NONCE_BYTES);
    for (block, left) in compared.chunks(LEFT_BLOCK_BYTES).enumerate() {
        let slot = usize::from(left[16]);
        let trit = trits[4 * block + slot / 4] >> (2 * (slot % 4)) & 3;
        let mask = sha256_trit(&arras_primitives::hash::sha256(&[&left[..16], nonce]));
        match (trit + 3 - mask) % 3 {
            1 => return std::cmp::Ordering::Greater,
            2 => return std::cmp::Ordering::Less,
            _ => {}
        }
    }
    std::cmp::Ordering::Equal
}

#[test]
fn ciphertexts_of_lewi_wu_are_random_and_compare_as_the_keys_do() {
    for bytes in [4, 8] {
        let order = order(TermScheme::LewiWu, bytes, 1).unwrap();
        let numbers: [u64; 6] = [0, 1, 15, 16, 1 << 31, u32::MAX.into()];
        let key = |number: u64| number.to_be_bytes()[8 - bytes..].to_vec();
        for one in numbers {
            let stored = order.stored(&key(one)).unwrap();
            assert_eq!(stored.len(), 16 + 8 * bytes);
            assert_ne!(stored, order.stored(&key(one)).unwrap(), "each is drawn anew");
            for other in numbers {
                let compared = order.compared(&key(other)).unwrap();
                assert_eq!(compared.len(), 34 * bytes);
                assert_eq!(compare_sides(&stored, &compared), one.cmp(&other), "{one} {other}");
                assert_eq!(order.is_of(&stored, &key(other)), one == other);
            }
        }
    }
}
