#![allow(clippy::unwrap_used)]

use super::*;
use crate::vectors;
use proptest::prelude::*;
use statrs::distribution::{ChiSquared, ContinuousCDF};

fn distribution(successes: u128, failures: u128, draws: u128) -> Hypergeometric {
    Hypergeometric::new(successes, failures, draws).unwrap()
}

/// The exact distribution of small parameters: the least value, and the weight of each value from it on.
fn weights(successes: u32, failures: u32, draws: u32) -> (u32, Vec<UBig>) {
    let choose = |n: u32, k: u32| {
        (0..k.min(n - k)).fold(UBig::ONE, |product, i| product * UBig::from(n - i) / UBig::from(i + 1))
    };
    let least = draws.saturating_sub(failures);
    let mut weight = choose(successes, least) * choose(failures, draws - least);
    let mut weights = vec![weight.clone()];
    for x in least..draws.min(successes) {
        // C(s, x + 1) = C(s, x) (s - x) / (x + 1), and the like for failures, of which one fewer is drawn.
        weight = weight * UBig::from(successes - x) / UBig::from(x + 1);
        weight = weight * UBig::from(draws - x) / UBig::from(failures + x + 1 - draws);
        weights.push(weight.clone());
    }
    (least, weights)
}

/// The probability of a sample as far from its expectation as this one, by chi-squared with rare values put together.
fn significance(observed: &[u64], weights: &[UBig]) -> f64 {
    let total: UBig = weights.iter().fold(UBig::ZERO, |sum, weight| sum + weight);
    let samples: u64 = observed.iter().sum();
    let share = |weight: &UBig| {
        let scaled: UBig = (weight << 64) / &total;
        scaled.to_f64().value() / 2_f64.powi(64)
    };
    let (mut statistic, mut bins) = (0.0, 0_u32);
    let (mut seen, mut expected, mut left) = (0_u64, 0.0, samples as f64);
    for (observed, weight) in observed.iter().zip(weights) {
        seen += observed;
        expected += share(weight) * samples as f64;
        if expected >= 8.0 && left - expected >= 8.0 {
            statistic += (seen as f64 - expected).powi(2) / expected;
            left -= expected;
            (seen, expected, bins) = (0, 0.0, bins + 1);
        }
    }
    statistic += (seen as f64 - left).powi(2) / left;
    1.0 - ChiSquared::new(f64::from(bins)).unwrap().cdf(statistic)
}

fn tally(successes: u32, failures: u32, draws: u32, samples: u32, seed: u8, decision: Decision) -> f64 {
    let (least, weights) = weights(successes, failures, draws);
    let mut observed = vec![0; weights.len()];
    let urn = distribution(successes.into(), failures.into(), draws.into());
    let mut coins = Prg::new(&[seed; 16]);
    for _ in 0..samples {
        observed[urn.sample_by(decision, &mut coins) as usize - least as usize] += 1;
    }
    significance(&observed, &weights)
}

#[test]
fn small_and_medium_parameters_follow_the_exact_distribution() {
    let parameters = [
        // Drawn one by one: successes, draws, failures, what is left over fewest; and the last size that is.
        (3, 5, 4),
        (500, 700, 6),
        (7, 1000, 500),
        (1000, 9, 400),
        (1000, 400, 1390),
        (16, 16, 16),
        (16, 100_000, 50_000),
        // From the envelope: the first size, fair splits, rare ones, lopsided ones, and two that reach their ends.
        (17, 17, 17),
        (17, 100_000, 50_000),
        (20, 30, 25),
        (1000, 1000, 1000),
        (4000, 100_000, 52_000),
        (100, 1_000_000, 1000),
        (30, 5_000_000, 20_000),
        (3000, 40, 1500),
        (900, 50, 925),
        (20, 20, 39 - 17),
        (2000, 100_000, 500),
    ];
    for (seed, (successes, failures, draws)) in parameters.into_iter().enumerate() {
        let p = tally(successes, failures, draws, 40_000, seed as u8, Decision::Filtered);
        assert!(p > 1e-5, "{successes} + {failures} items, {draws} draws: p = {p}");
    }
}

#[test]
fn exact_decisions_alone_follow_the_exact_distribution() {
    let p = tally(40, 60, 50, 1500, 1, Decision::Exact);
    assert!(p > 1e-5, "p = {p}");
}

#[test]
fn the_test_of_significance_sees_a_shifted_distribution() {
    let (least, right) = weights(1000, 1000, 1000);
    let mut observed = vec![0; right.len()];
    let mut coins = Prg::new(&[0; 16]);
    for _ in 0..40_000 {
        // A tenth of the odd values becomes the even one beside: mean and variance hardly change.
        let x = distribution(1000, 1000, 1000).sample(&mut coins) as usize - least as usize;
        observed[if coins.next_u64().is_multiple_of(10) { x & !1 } else { x }] += 1;
    }
    assert!(significance(&observed, &right) < 1e-5);
}

/// Probability of a value divided by that of the mode, as a fraction.
fn ratio(weights: &[UBig], mode: usize, at: Option<usize>) -> (UBig, UBig) {
    (at.and_then(|at| weights.get(at)).cloned().unwrap_or(UBig::ZERO), weights[mode].clone())
}

#[test]
fn the_envelope_lies_above_every_distribution_of_a_hundred_items_or_so() {
    let mut seen = 0;
    for successes in (17..70_u32).step_by(4).chain([300]) {
        for failures in (17..90_u32).step_by(7).chain([900]) {
            for draws in (17..successes + failures - 16).step_by(1 + failures as usize / 10) {
                let (least, weights) = weights(successes, failures, draws);
                let urn = distribution(successes.into(), failures.into(), draws.into());
                let mode = urn.mode();
                let at = mode.successes as usize - least as usize;
                assert!(weights.iter().all(|weight| *weight <= weights[at]), "the mode");
                let flat = envelope::flat(&mode.cells) as usize;
                for d in flat + 1..weights.len() {
                    for place in [at.checked_add(d), at.checked_sub(d)] {
                        let (over, under) = ratio(&weights, at, place);
                        let above = over * UBig::from(d * (d + 1)) <= under * UBig::from(flat * (flat + 1));
                        assert!(above, "{successes} + {failures} items, {draws} draws, {d} from the mode");
                    }
                }
                seen += 1;
            }
        }
    }
    assert!(seen > 2500, "{seen} distributions");
}

#[test]
fn the_envelope_is_not_much_too_wide() {
    // Half the width of the flat part is at least sqrt(2 / e) standard deviations.
    let standard_deviations = |successes: u128, population: u128| {
        let urn = distribution(successes, population - successes, population / 2);
        let variance = successes as f64 / 4.0 * (1.0 - successes as f64 / population as f64);
        envelope::flat(&urn.mode().cells) as f64 / variance.sqrt()
    };
    for (successes, population, most) in [
        (1 << 64, u128::MAX, 0.8578),
        (1 << 32, 1 << 64, 0.8579),
        (1 << 20, 1 << 40, 0.861),
        (1 << 10, 1 << 20, 0.94),
        (17, 1 << 20, 1.5),
    ] {
        let width = standard_deviations(successes, population);
        assert!((0.857..most).contains(&width), "{successes} of {population}: {width}");
    }
}

fn large_parameters() -> impl Strategy<Value = (u128, u128, u128)> {
    let bits =
        |most: u32| (1..=most).prop_flat_map(|bits| (1_u128 << (bits - 1))..=(u128::MAX >> (128 - bits)));
    (bits(64), bits(127), any::<u128>(), 0..6_u8).prop_map(|(successes, failures, draws, shape)| {
        let population = successes + failures;
        let draws = match shape {
            0 => draws % (population + 1),
            1 => (draws >> 80).min(population),
            2 => population - (draws >> 90).min(population),
            _ => population.div_ceil(2),
        };
        (successes, failures, draws)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn forcing_integers_gives_the_same_samples((successes, failures, draws) in large_parameters(), seed: [u8; 16]) {
        let urn = distribution(successes, failures, draws);
        let (mut filtered, mut exact) = (Prg::new(&seed), Prg::new(&seed));
        for _ in 0..3 {
            let sample = urn.sample_by(Decision::Filtered, &mut filtered);
            prop_assert_eq!(sample, urn.sample_by(Decision::Exact, &mut exact));
            prop_assert!(sample <= successes && sample <= draws && draws - sample <= failures);
        }
        prop_assert_eq!(filtered.next_u64(), exact.next_u64(), "as many coins");
    }
}

#[test]
fn large_parameters_have_the_mean_and_variance_of_the_distribution() {
    for (successes, failures, draws) in [
        (1_u128 << 64, u128::MAX - (1 << 64) + 1, 1_u128 << 127),
        (1 << 32, (1 << 64) - (1 << 32), 1 << 63),
        (1 << 40, (1 << 41) + 12_345, 1 << 39),
        (1 << 60, 1 << 100, 1 << 90),
    ] {
        let urn = distribution(successes, failures, draws);
        let (k, population) = (successes as f64, successes as f64 + failures as f64);
        let share = draws as f64 / population;
        let variance = k * share * (1.0 - share) * (failures as f64 / population);
        let center = urn.mode().successes;
        let mut coins = Prg::new(&[3; 16]);
        let samples = 50_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..samples {
            let x = urn.sample(&mut coins);
            let distance = (x as i128 - center as i128) as f64 / variance.sqrt();
            sum += distance;
            squares += distance * distance;
        }
        let (mean, spread) = (sum / f64::from(samples), squares / f64::from(samples));
        // Five standard errors.
        assert!(mean.abs() < 5.0 / f64::from(samples).sqrt(), "mean {mean}");
        assert!((spread - 1.0).abs() < 5.0 * (2.0 / f64::from(samples)).sqrt(), "variance {spread}");
    }
}

#[test]
fn parameters_with_one_outcome_need_no_luck() {
    let mut coins = Prg::new(&[0; 16]);
    let mut sample = |successes, failures, draws| distribution(successes, failures, draws).sample(&mut coins);
    assert_eq!(sample(0, 0, 0), 0);
    assert_eq!(sample(5, 0, 3), 3);
    assert_eq!(sample(0, 5, 3), 0);
    assert_eq!(sample(1 << 64, 1 << 80, 0), 0);
    assert_eq!(sample(1 << 64, 1 << 80, (1 << 64) + (1 << 80)), 1 << 64);
    assert_eq!(sample(u128::MAX, 0, 1 << 90), 1 << 90);
    assert_eq!(sample(1, u128::MAX, 0), 0);
}

#[test]
fn parameters_out_of_range_are_refused() {
    let refused = |successes, failures, draws| Hypergeometric::new(successes, failures, draws).err();
    assert_eq!(refused(3, 4, 8), Some(OutOfRange::Draws));
    assert_eq!(refused(2, u128::MAX, 5), Some(OutOfRange::Population));
    assert_eq!(refused(1, u128::MAX, 5), None);
    assert_eq!(refused(1 << 100, 1 << 100, 1 << 100), Some(OutOfRange::Margins));
    assert_eq!(refused(1 << 100, 1 << 100, 1 << 64), None);
}

#[test]
fn second_implementation() {
    for case in vectors::read("hypergeometric.txt") {
        let number = |field: &str| case.text(field).parse().unwrap();
        let urn = distribution(number("successes"), number("failures"), number("draws"));
        let mut coins = Prg::new(&case.array("seed"));
        for (at, expected) in case.text("samples").split(' ').enumerate() {
            let expected: u128 = expected.parse().unwrap();
            assert_eq!(urn.sample(&mut coins), expected, "{}: sample {at}", case.name());
        }
        assert_eq!(coins.next_u64(), case.number("next_word"), "{}: as many coins", case.name());
    }
}
