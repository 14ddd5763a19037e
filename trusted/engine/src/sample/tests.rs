use super::*;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

const DOCUMENTS: u64 = 20_000;

fn key(number: u64) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

fn rows(seed: u64) -> impl Iterator<Item = RowId> {
    let mut rng = StdRng::seed_from_u64(seed);
    std::iter::repeat_with(move || RowId(rng.random()))
}

/// A sample begun on nothing, into which so many documents came.
fn grown(seed: u64, value: impl Fn(u64) -> u64) -> Sample {
    let mut sample = Sample::default();
    for (number, row) in (0..DOCUMENTS).zip(rows(seed)) {
        sample.set(row, Some(vec![key(value(number))]));
    }
    sample
}

fn is_about(found: u64, expected: u64) -> bool {
    (expected / 2..=expected * 2).contains(&found)
}

#[test]
fn a_range_is_about_its_share_of_what_came_and_went() {
    // Half of the documents have 0 to 99, the others 100 to 9,999.
    let value = |number: u64| if number.is_multiple_of(2) { number % 100 } else { 100 + number % 9_900 };
    for seed in 0..8 {
        let mut sample = grown(seed, value);
        assert!((ROWS..=2 * ROWS).contains(&sample.rows.len()), "{}", sample.rows.len());
        let low = sample.between(&key(0), &key(99), DOCUMENTS);
        assert!(low.abs_diff(DOCUMENTS / 2) < DOCUMENTS / 10, "{low}");
        assert!(is_about(sample.between(&key(100), &key(5_049), DOCUMENTS), DOCUMENTS / 4));
        assert!(sample.between(&key(20_000), &key(30_000), DOCUMENTS) < 40, "few, but not surely none");
        // All low ones go.
        for (number, row) in (0..DOCUMENTS).zip(rows(seed)).filter(|(number, _)| number.is_multiple_of(2)) {
            assert!(value(number) < 100);
            sample.set(row, None);
        }
        assert!(sample.between(&key(0), &key(99), DOCUMENTS / 2) < 40);
        let all = sample.between(&key(0), &key(u64::MAX), DOCUMENTS / 2);
        assert_eq!(all, DOCUMENTS / 2, "each of the sample stands for as many as are left");
    }
}

#[test]
fn distinct_values_are_guessed_by_how_often_one_comes_alone() {
    for seed in 0..8 {
        for distinct in [1, 7, 100, 2_000] {
            let found = grown(seed, |number| number % distinct).distinct(DOCUMENTS);
            assert!(is_about(found, distinct), "{found} of {distinct}");
        }
        assert_eq!(grown(seed, |number| number).distinct(DOCUMENTS), DOCUMENTS);
    }
}

#[test]
fn a_sample_of_all_is_exact_and_one_that_lost_most_is_taken_anew() {
    let mut sample = Sample::default();
    let mut some = rows(1);
    let first: Vec<RowId> = some.by_ref().take(300).collect();
    for (number, row) in (0..).zip(&first) {
        sample.set(*row, Some(vec![key(number / 3), key(1_000)]));
    }
    assert_eq!(sample.between(&key(0), &key(9), 300), 30);
    assert_eq!(sample.between(&key(400), &key(9), 300), 0, "no range");
    assert_eq!(sample.distinct(300), 101);
    sample.set(first[0], Some(vec![key(2_000)]));
    assert_eq!(
        (sample.between(&key(0), &key(0), 300), sample.between(&key(2_000), &key(3_000), 300)),
        (2, 1)
    );
    for row in &first {
        sample.set(*row, None);
    }
    assert!(!sample.is_worn() && sample.keys.is_empty() && sample.single == 0, "it has all there is");
    let mut sample = grown(2, |number| number);
    let rows: Vec<RowId> = sample.rows.keys().copied().collect();
    assert!(sample.begun >= ROWS);
    for row in rows.iter().skip(sample.begun / 4 - 1) {
        assert!(!sample.is_worn());
        sample.set(*row, None);
    }
    assert!(sample.is_worn());
}

#[test]
fn a_sample_of_few_large_documents_is_not_taken_again_and_again() {
    let live = LiveSample::default();
    assert!(live.is_wanted());
    let mut first: Vec<RowId> = rows(4).take(20).collect();
    first.sort_unstable();
    live.begin(first.iter().map(|row| (*row, vec![key(1)])), false);
    assert!(!live.is_wanted());
    // As many keys as it may have, of one document.
    live.begin(first.iter().map(|row| (*row, (0..9_000).map(key).collect())), false);
    assert!(!live.is_wanted());
    // More were read than there are by now: nothing is said that cannot be.
    live.begin(first.iter().zip(0..).map(|(row, number)| (*row, vec![key(number)])), false);
    assert_eq!((live.distinct(0), live.between(&key(0), &key(9), 0)), (Some(20), Some(0)));
}

#[test]
fn documents_with_many_keys_thin_it_too() {
    let mut sample = Sample::default();
    for (number, row) in (0..100).zip(rows(3)) {
        sample.set(row, Some((0..1_000).map(|element| key(1_000 * number + element)).collect()));
        assert!(sample.entries <= KEYS_MAX);
    }
    let all = sample.between(&key(0), &key(u64::MAX), 100);
    assert_eq!(all, 100_000);
    sample.set(RowId([0; RowId::BYTES]), Some((0..2 * KEYS_MAX as u64).map(key).collect()));
    assert_eq!(sample.rows.len(), 1, "never none");
}
