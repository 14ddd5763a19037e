#![allow(clippy::unwrap_used)]

mod carried;
mod requests;

use super::*;
use crate::datasets::NumberType;

fn knowledge(mut auxiliary: Vec<i64>) -> Knowledge {
    auxiliary.sort_unstable();
    let (least, greatest) = (auxiliary[0], auxiliary[auxiliary.len() - 1]);
    Knowledge { auxiliary, least, greatest, numbers: NumberType::I32 }
}

#[test]
fn scores_are_what_they_say() {
    let known = knowledge(vec![0, 100]);
    let scored = score(&[0, 50, 100, 7], &[0, 51, 90, 7], &known);
    assert_eq!((scored.exact, scored.close), (0.5, 0.75));
    assert!((scored.error - 0.0275).abs() < 1e-12);
}

#[test]
fn mirrored_and_rotated_guesses_are_set_right() {
    let known = knowledge(vec![0, 1, 2, 3]);
    let values = [3, 1, 0, 2];
    let mirrored =
        Recovery { guesses: vec![0, 2, 3, 1], symmetry: Symmetry::Reflection, ..Recovery::default() };
    assert_eq!(up_to_symmetry(&values, &mirrored, &known).unwrap().exact, 1.0);
    // The records in circular order, beginning with the second; guessed as 0, 1, 2, 3.
    let positions = vec![1, 3, 0, 2];
    let guesses = vec![2, 0, 3, 1];
    assert_eq!(score(&values, &guesses, &known).exact, 0.0);
    let rotated = Recovery { guesses, symmetry: Symmetry::Rotation { positions }, ..Recovery::default() };
    assert_eq!(up_to_symmetry(&values, &rotated, &known).unwrap().exact, 1.0);
    assert_eq!(up_to_symmetry(&values, &Recovery::default(), &known), None);
}

#[test]
fn the_baseline_is_the_best_constant() {
    let known = knowledge(vec![0, 10, 10, 10, 1000, 1001, 1002, 1003, 2000]);
    let values = [10, 10, 1000, 1005];
    let base = baseline(&values, &known);
    assert_eq!((base.exact, base.close), (0.5, 0.5));
    assert!((base.error - (990.0 + 990.0 + 0.0 + 5.0) / 4.0 / 2000.0).abs() < 1e-12);
}

#[test]
fn names_of_attacks_are_distinct_and_their_protocols_exist() {
    for (at, attack) in ALL.iter().enumerate() {
        assert!(ALL[..at].iter().all(|other| other.name != attack.name), "{}", attack.name);
        assert!(!attack.protocols.is_empty() && !attack.rests_on.is_empty(), "{}", attack.name);
        for protocol in attack.protocols {
            assert!(crate::protocols::named(protocol).is_some(), "{}: {protocol}", attack.name);
        }
    }
}

#[test]
fn the_leakage_of_a_protocol_names_the_attacks_that_are_carried_out_against_it() {
    use arras_protocol::ore::Width;
    for protocol in crate::protocols::ALL {
        let leakage = (protocol.leakage)(Width::Bits32);
        let said: Vec<&str> = leakage
            .attacks
            .iter()
            .filter_map(|attack| attack.split_once(": "))
            .map(|(name, _)| name)
            .collect();
        for name in &said {
            let attack = named(name);
            assert!(attack.is_some_and(|attack| attack.concerns(protocol.name)), "{}: {name}", protocol.name);
        }
        for attack in ALL.iter().filter(|attack| attack.concerns(protocol.name)) {
            assert!(said.contains(&attack.name), "{} does not name {}", protocol.name, attack.name);
        }
    }
}
