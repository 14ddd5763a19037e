//! Each attack against real stores: full recovery where theory says so, nothing where the leakage is missing.

use super::knowledge;
use crate::attacks::*;
use crate::datasets::{Dataset, NumberType};
use crate::{protocols, seed};
use std::sync::atomic::AtomicBool;

fn target(values: Vec<i64>, known: Knowledge) -> Target {
    Target { values, knowledge: known, queries: 200, page_bytes: 1024, seed: 5 }
}

fn shuffled(mut values: Vec<i64>) -> Vec<i64> {
    seed::shuffle(&mut seed::prg(9, "test"), &mut values);
    values
}

/// Each value from 0 on so many times.
fn dense(values: i64, times: usize) -> Vec<i64> {
    shuffled((0..values).flat_map(|value| vec![value; times]).collect())
}

/// Values of a domain of which the attacker knows the ends and nothing of use besides.
fn ignorant(values: &[i64]) -> Knowledge {
    let (least, greatest) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
    Knowledge { auxiliary: vec![least], least, greatest, numbers: NumberType::I32 }
}

struct Outcome {
    score: Score,
    resolved: Score,
    baseline: Score,
}

fn carry(attack: &str, protocol: &str, target: &Target) -> Outcome {
    let stop = AtomicBool::new(false);
    let watch = AttackWatch::new(&|_| {}, &stop);
    let (attack, protocol) = (named(attack).unwrap(), protocols::named(protocol).unwrap());
    let recovery = (attack.carry)(target, protocol, &watch).unwrap();
    let score = score(&target.values, &recovery.guesses);
    let resolved = up_to_symmetry(&target.values, &recovery, &target.knowledge).unwrap_or(score);
    Outcome { score, resolved, baseline: baseline(&target.values) }
}

/// Four deviations above a rate: what chance does not reach.
fn bound(rate: f64, records: usize) -> f64 {
    rate + 4.0 * (rate.max(0.01) * (1.0 - rate) / records as f64).sqrt()
}

fn no_better(score: Score, outcome: &Outcome, records: usize) {
    let base = outcome.baseline;
    assert!(score.exact <= bound(base.exact, records), "{score:?} {base:?}");
    let close = |score: Score| score.close.unwrap_or(score.exact);
    assert!(close(score) <= bound(close(base), records), "{score:?} {base:?}");
    assert!(score.error >= 0.9 * base.error, "{score:?} {base:?}");
}

#[test]
fn sorting_recovers_a_dense_column() {
    let values = dense(32, 8);
    let target = target(values.clone(), ignorant(&values));
    for protocol in ["bplus_bclo", "bplus_clww", "bplus_lewi_wu", "mope", "stope"] {
        // As often as each other, so that ranks alone give them, too.
        assert_eq!(carry("nkw_sorting", protocol, &target).score.exact, 1.0, "{protocol}");
    }
}

#[test]
fn a_rotated_array_gives_everything_but_the_rotation() {
    let values = dense(40, 5);
    let mut target = target(values, knowledge((0..40).collect()));
    let mut errors = 0.0;
    for seed in 1..=20 {
        target.seed = seed;
        let outcome = carry("nkw_sorting", "kerschbaum_tueno", &target);
        assert_eq!(outcome.resolved.exact, 1.0);
        errors += outcome.score.error / 20.0;
    }
    // A random rotation is off by a third of the span on average; the baseline by a quarter.
    assert!(errors > 0.25, "{errors}");
}

#[test]
fn pope_shows_no_order_before_searches_and_most_of_it_after_many() {
    let values = Dataset::Uniform.values(600, 1);
    let known = knowledge(Dataset::Uniform.values(600, 2));
    let mut target = target(values, known);
    for attack in ["nkw_sorting", "grubbs_binomial"] {
        target.queries = 0;
        let before = carry(attack, "pope", &target);
        no_better(before.score, &before, 600);
        target.queries = 400;
        let after = carry(attack, "pope", &target);
        assert!(after.score.error < 0.15 * after.baseline.error, "{attack}: {:?}", after.score);
    }
}

#[test]
fn the_cumulative_attack_recovers_what_is_distributed_as_known() {
    let values = Dataset::Zipf.values(600, 1);
    let same = target(values.clone(), knowledge(values.clone()));
    for protocol in ["bplus_bclo", "bplus_clww"] {
        assert_eq!(carry("nkw_cumulative", protocol, &same).score.exact, 1.0, "{protocol}");
    }
    let other = target(values, knowledge(Dataset::Zipf.values(600, 2)));
    let outcome = carry("nkw_cumulative", "bplus_clww", &other);
    assert!(outcome.score.exact > 2.0 * outcome.baseline.exact, "{:?}", outcome.score);
}

#[test]
fn frequencies_are_seen_in_deterministic_ciphertexts_and_not_in_fh_ope() {
    // Each value has a frequency of its own.
    let values = shuffled((0..30).flat_map(|value| vec![value * 17 % 31; value as usize + 1]).collect());
    let dense = target(values.clone(), knowledge(values));
    for protocol in ["bplus_bclo", "bplus_clww", "mope", "stope"] {
        assert_eq!(carry("nkw_frequency", protocol, &dense).score.exact, 1.0, "{protocol}");
    }
    let hidden = carry("nkw_frequency", "bplus_fh_ope", &dense);
    no_better(hidden.score, &hidden, dense.values.len());
    // Where hardly two are equal nothing is seen: the order, which these ciphertexts show too, is not used.
    let salaries = target(Dataset::Salaries.values(400, 1), knowledge(Dataset::Salaries.values(400, 2)));
    let unique = carry("nkw_frequency", "bplus_clww", &salaries);
    no_better(unique.score, &unique, 400);
}

#[test]
fn bclo_gives_the_high_bits_whatever_is_known_and_order_alone_does_not() {
    let mut prg = seed::prg(3, "test");
    let values: Vec<i64> = (0..300).map(|_| seed::below(&mut prg, 1 << 32) as i64 - (1 << 31)).collect();
    let mut known = ignorant(&values);
    // Misleading: everything in the lowest hundredth.
    known.auxiliary = (0..300).map(|at| known.least + at * 100_000).collect();
    let target = target(values, known);
    let bclo = carry("grubbs_bclo", "bplus_bclo", &target);
    assert_eq!(bclo.score.close, Some(1.0));
    assert!(bclo.score.error < 2_f64.powi(-15), "{:?}", bclo.score);
    let order = carry("grubbs_binomial", "bplus_fh_ope", &target);
    no_better(order.score, &order, 300);
}

#[test]
fn bclo_is_better_recovered_than_by_order_and_frequency() {
    let target = target(Dataset::Salaries.values(300, 1), knowledge(Dataset::Salaries.values(300, 2)));
    let bits = carry("grubbs_bclo", "bplus_bclo", &target);
    let order = carry("nkw_cumulative", "bplus_bclo", &target);
    assert!(bits.score.error < 0.5 * order.score.error, "{:?} {:?}", bits.score, order.score);
}

#[test]
fn first_differing_digits_give_dense_values_whatever_is_known() {
    let values = dense(256, 1);
    let target = target(values.clone(), ignorant(&values));
    assert_eq!(carry("grubbs_clww", "bplus_clww", &target).score.exact, 1.0);
    assert_eq!(carry("grubbs_lewi_wu", "bplus_lewi_wu", &target).score.exact, 1.0);
    // What its ciphertexts look like says nothing; FH-OPE's order alone, with nothing known, is worth nothing.
    let order = carry("grubbs_binomial", "bplus_fh_ope", &target);
    no_better(order.score, &order, 256);
}

#[test]
fn bits_give_more_than_blocks_and_blocks_no_less_than_order() {
    let target = target(Dataset::Normal.values(400, 1), knowledge(Dataset::Normal.values(400, 2)));
    let bits = carry("grubbs_clww", "bplus_clww", &target).score;
    let blocks = carry("grubbs_lewi_wu", "bplus_lewi_wu", &target).score;
    let order = carry("grubbs_binomial", "bplus_fh_ope", &target).score;
    assert!(bits.exact > blocks.exact && blocks.exact > order.exact, "{bits:?} {blocks:?} {order:?}");
}

/// Values of which the auxiliary data have none: no frequency has a counterpart, and what is left is the order and the
/// shape of the trie.
#[test]
fn blocks_and_order_are_worth_no_less_than_order_where_no_value_is_known() {
    let mut prg = seed::prg(8, "test");
    let mut drawn = |count: usize, below: u64, step: i64, from: i64| -> Vec<i64> {
        let value = |_| from + step * i64::try_from(seed::below(&mut prg, below)).unwrap();
        (0..count).map(value).collect()
    };
    for (step, below) in [(100, 20), (256, 100), (2, 20_000), (400, 150)] {
        let (values, others) = (drawn(500, below, step, 0), drawn(500, below, step, step / 2));
        let target = target(values, knowledge_of_other(others));
        let error = |attack, protocol| carry(attack, protocol, &target).score.error;
        let blocks = error("grubbs_lewi_wu", "bplus_lewi_wu");
        let order = error("grubbs_binomial", "bplus_fh_ope");
        let frequency = error("nkw_cumulative", "bplus_clww");
        // Guesses are known values, half a step off at best.
        assert!(blocks <= order.min(frequency) + 0.003, "{step} {below}: {blocks} {order} {frequency}");
    }
}

/// The extremes are those of the auxiliary data, or a little beyond.
fn knowledge_of_other(auxiliary: Vec<i64>) -> Knowledge {
    let known = knowledge(auxiliary);
    Knowledge { least: known.least.min(0), ..known }
}

#[test]
fn the_binomial_attack_finds_frequent_values_and_nothing_in_unsorted_ones() {
    let values = dense(10, 60);
    let target = target(values.clone(), knowledge(values));
    // Off by the ranks at the borders alone.
    assert!(carry("grubbs_binomial", "bplus_fh_ope", &target).score.exact > 0.95);
    let rotated = carry("grubbs_binomial", "kerschbaum_tueno", &target);
    assert!(rotated.resolved.exact > 0.95, "{:?}", rotated.resolved);
}
