use super::*;
use crate::vectors;

fn numbers(values: &[Vec<u8>]) -> Vec<u128> {
    let number = |bytes: &Vec<u8>| u128::from_be_bytes(bytes.as_slice().try_into().expect("16 bytes"));
    values.iter().map(number).collect()
}

#[test]
fn agrees_with_the_second_implementation() {
    let (mut passed, mut failed) = (0, 0);
    for case in vectors::read("pairing_hash.txt") {
        if !case.must_pass() {
            assert!(StoredHashes::from_bytes(&case.bytes("stored"), 1).is_none(), "{}", case.name());
            failed += 1;
            continue;
        }
        let pph = Pph::new(&case.array("material"));
        let of_stored = numbers(&case.list("stored_number"));
        let of_query = numbers(&case.list("query_number"));
        let stored = pph.hash_stored(&of_stored, &mut Prg::new(&case.array("stored_seed")));
        let query = pph.hash_query(&of_query, &mut Prg::new(&case.array("query_seed")));
        assert_eq!(stored, case.bytes("stored"), "{}", case.name());
        assert_eq!(query, case.bytes("query"), "{}", case.name());
        assert_eq!(stored.len(), stored_bytes(of_stored.len()));
        assert_eq!(query.len(), query_bytes(of_query.len()));
        let stored = StoredHashes::from_bytes(&stored, of_stored.len()).expect("points");
        let query = QueryHashes::from_bytes(&query, of_query.len()).expect("points");
        let found = find_neighbours(&query, &stored).map_or("none".to_string(), |found| {
            let side = if found.is_successor { "successor" } else { "predecessor" };
            format!("{} {} {side}", found.stored_position, found.query_position)
        });
        assert_eq!(found, case.text("neighbours"), "{}", case.name());
        passed += 1;
    }
    assert!(passed >= 5 && failed >= 7);
}

#[test]
fn the_same_numbers_hash_differently_each_time() {
    let pph = Pph::new(&[7; 32]);
    let mut prg = Prg::new(&[1; 16]);
    let [one, two] = [0, 1].map(|_| pph.hash_stored(&[1, 2, 3], &mut prg));
    let (points, _) = one.as_chunks::<G1_BYTES>();
    for point in two.as_chunks::<G1_BYTES>().0 {
        assert!(!points.contains(point));
    }
    let [one, two] = [0, 1].map(|_| pph.hash_query(&[1, 20, 300], &mut prg));
    let (points, _) = one.as_chunks::<G2_BYTES>();
    for point in two.as_chunks::<G2_BYTES>().0 {
        assert!(!points.contains(point));
    }
}

#[test]
fn hashes_under_different_materials_have_no_neighbours() {
    let mut prg = Prg::new(&[1; 16]);
    let stored = Pph::new(&[7; 32]).hash_stored(&[1, 2], &mut prg);
    let query = Pph::new(&[8; 32]).hash_query(&[1, 4], &mut prg);
    let stored = StoredHashes::from_bytes(&stored, 2).expect("points");
    let query = QueryHashes::from_bytes(&query, 2).expect("points");
    assert_eq!(find_neighbours(&query, &stored), None);
}

#[test]
fn a_query_with_a_bad_point_is_refused_wherever_it_is() {
    let query = Pph::new(&[7; 32]).hash_query(&[1, 4], &mut Prg::new(&[1; 16]));
    for point in 0..5 {
        let mut neutral = query.clone();
        neutral[point * G2_BYTES..(point + 1) * G2_BYTES].fill(0);
        neutral[point * G2_BYTES] = 0xc0;
        assert!(QueryHashes::from_bytes(&neutral, 2).is_none());
        let mut altered = query.clone();
        altered[point * G2_BYTES + 60] ^= 1;
        assert!(QueryHashes::from_bytes(&altered, 2).is_none(), "off the curve or outside the group");
    }
    assert!(QueryHashes::from_bytes(&query, 1).is_none());
    assert!(QueryHashes::from_bytes(&query[1..], 2).is_none());
    assert!(QueryHashes::from_bytes(&[], 0).is_none());
}
