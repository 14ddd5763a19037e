#![allow(clippy::unwrap_used)]

use super::*;
use crate::datasets::NumberType;

/// The first digits in which neighbours differ.
fn first(values: &[u64], digits: usize, digit_bits: u32) -> Vec<usize> {
    let digit =
        |value: u64, at: usize| value >> (digit_bits as usize * (digits - 1 - at)) & ((1 << digit_bits) - 1);
    let differing = |pair: &[u64]| (0..digits).find(|at| digit(pair[0], *at) != digit(pair[1], *at)).unwrap();
    values.windows(2).map(differing).collect()
}

fn guessed(values: &[u64], known: &[u64], digits: usize, digit_bits: u32) -> Vec<u64> {
    // Where they lie is not known.
    let middle = Estimate { mean: 0.0, variance: 1e18 };
    let places = vec![middle; values.len()];
    let trie = Trie { weights: vec![1.0; values.len()], first: first(values, digits, digit_bits), places };
    let leaves: Vec<Leaf> =
        known.iter().map(|plaintext| Leaf { plaintext: *plaintext, weight: 1.0 }).collect();
    Overlay::new(&trie, &leaves, digits, digit_bits).guesses()
}

#[test]
fn equal_sets_are_laid_over_each_other_exactly() {
    for (digits, digit_bits) in [(16, 1), (4, 4), (2, 8)] {
        for values in [vec![3, 900, 901, 902, 5000, 65000], vec![7], (100..200).collect()] {
            assert_eq!(guessed(&values, &values, digits, digit_bits), values, "{digits} {digit_bits}");
        }
    }
}

#[test]
fn the_shape_alone_gives_the_bits_at_branches() {
    // Nothing known but one value far off: the order and the branches still hold.
    let values = [0b0000, 0b0001, 0b0100, 0b1000, 0b1011];
    let guesses = guessed(&values, &[0b1011], 4, 1);
    assert!(guesses.is_sorted(), "{guesses:?}");
    assert_eq!(first(&guesses, 4, 1), first(&values, 4, 1));
}

#[test]
fn a_known_value_that_does_not_occur_is_left_out() {
    let values: Vec<u64> = (0..64).filter(|value| value % 7 != 3).collect();
    let known: Vec<u64> = (0..64).collect();
    // Bits are given by the branches; blocks by the best fit of whole subtrees.
    let right = |digit_bits: u32| {
        let guesses = guessed(&values, &known, (6 / digit_bits) as usize, digit_bits);
        guesses.iter().zip(&values).filter(|(guess, value)| guess == value).count()
    };
    assert!(right(1) >= 50, "{}", right(1));
    assert!(right(2) >= 40, "{}", right(2));
}

#[test]
fn signed_numbers_and_repetitions_are_found() {
    let auxiliary: Vec<i64> = vec![-5, -5, -5, 2, 9, 9];
    let knowledge = Knowledge { auxiliary, least: -5, greatest: 9, numbers: NumberType::I32 };
    let groups = vec![vec![0, 3, 5], vec![1], vec![2, 4]];
    let plaintexts: Vec<u64> =
        [-5, 2, 9].map(|value: i128| NumberType::I32.domain().plaintext(value).unwrap()).to_vec();
    for (digits, digit_bits) in [(32, 1), (4, 8)] {
        let first = first(&plaintexts, digits, digit_bits);
        assert_eq!(laid_over(&groups, first, digit_bits, &knowledge), [-5, 2, 9]);
    }
}
