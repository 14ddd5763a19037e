#![allow(clippy::unwrap_used)]

mod carried;
mod requests;

use super::*;
use crate::datasets::{Dataset, NumberType};

fn knowledge(mut auxiliary: Vec<i64>) -> Knowledge {
    auxiliary.sort_unstable();
    let (least, greatest) = (auxiliary[0], auxiliary[auxiliary.len() - 1]);
    Knowledge { auxiliary, least, greatest, numbers: NumberType::I32 }
}

#[test]
fn scores_are_what_they_say() {
    let scored = score(&[0, 50, 100, 7], &[0, 51, 90, 7]);
    assert_eq!((scored.exact, scored.close), (0.5, Some(0.75)));
    assert!((scored.error - 0.0275).abs() < 1e-12);
}

#[test]
fn within_a_hundredth_of_a_small_span_is_no_measure_of_its_own() {
    let narrow: Vec<i64> = (0..=99).collect();
    assert_eq!(score(&narrow, &narrow).close, None);
    assert_eq!(baseline(&narrow).close, None);
    let wide: Vec<i64> = (0..=100).collect();
    assert_eq!(score(&wide, &wide).close, Some(1.0));
    assert!(!serde_json::to_string(&score(&narrow, &narrow)).unwrap().contains("close"));
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
    assert_eq!(score(&values, &guesses).exact, 0.0);
    let rotated = Recovery { guesses, symmetry: Symmetry::Rotation { positions }, ..Recovery::default() };
    assert_eq!(up_to_symmetry(&values, &rotated, &known).unwrap().exact, 1.0);
    assert_eq!(up_to_symmetry(&values, &Recovery::default(), &known), None);
}

#[test]
fn no_constant_guess_is_better_than_the_baseline() {
    let columns = [
        vec![10, 10, 1000, 1005, 1004, 2000, 0],
        vec![3; 7],
        vec![0, 0, 0, 500, 501, 502, 503, 990, 1000],
        Dataset::Zipf.values(300, 1),
        Dataset::Salaries.values(60, 1).into_iter().map(|pay| pay / 500).collect(),
    ];
    for values in columns {
        let base = baseline(&values);
        let (least, greatest) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
        let all: Vec<Score> =
            (least..=greatest).map(|guess| score(&values, &vec![guess; values.len()])).collect();
        let most = |of: fn(&Score) -> f64| all.iter().map(of).fold(0.0, f64::max);
        assert_eq!(base.exact, most(|score| score.exact), "{values:?}");
        assert_eq!(base.close.unwrap_or(0.0), most(|score| score.close.unwrap_or(0.0)), "{values:?}");
        assert!(base.close.is_none_or(|close| close >= base.exact), "{base:?}");
        let least = all.iter().map(|score| score.error).fold(f64::INFINITY, f64::min);
        assert!((base.error - least).abs() < 1e-12, "{base:?} {least}");
    }
}

#[test]
fn names_of_attacks_are_distinct_and_each_works_against_a_protocol() {
    for (at, attack) in ALL.iter().enumerate() {
        assert!(ALL[..at].iter().all(|other| other.name != attack.name), "{}", attack.name);
        assert!(!attack.protocols().is_empty() && !attack.rests_on.is_empty(), "{}", attack.name);
    }
}

#[test]
fn the_leakage_of_a_protocol_names_attacks_that_can_be_carried_out_against_it() {
    use arras_protocol::ore::Width;
    for protocol in protocols::ALL {
        let leakage = (protocol.leakage)(Width::Bits32);
        for (name, _) in leakage.attacks.iter().filter_map(|attack| attack.split_once(": ")) {
            let attack = named(name);
            assert!(attack.is_some_and(|attack| attack.concerns(protocol.name)), "{}: {name}", protocol.name);
        }
        // What rests on a store's order, or on which items come back, is shown where it is carried out.
        for attack in ALL.iter().filter(|attack| attack.concerns(protocol.name)) {
            let of_store = attack.attacker.starts_with("one copy of the store");
            assert!(!of_store || protocol.ranks.is_some(), "{}: {}", attack.name, protocol.name);
            let of_items = attack.rests_on.contains(&Pattern::AccessPattern);
            let hidden = protocol.view.sight.items == Grain::Hidden;
            assert!(!of_items || !hidden, "{}: {}", attack.name, protocol.name);
        }
    }
}
