#![allow(clippy::unwrap_used)]

use super::super::ideal::dense;
use super::super::observed::Sight;
use super::super::{Knowledge, Score, baseline, named, score, up_to_symmetry};
use super::*;
use crate::datasets::NumberType;
use crate::{protocols, queries};
use std::sync::atomic::AtomicBool;

/// The smallest page that every protocol works with, nearly: leaves and blocks of a few entries.
const PAGE_BYTES: usize = 1024;

fn target(values: Vec<i64>, queries: usize) -> Target {
    let (least, greatest) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
    let auxiliary = vec![least, least.midpoint(greatest), greatest];
    let knowledge = Knowledge { auxiliary, least, greatest, numbers: NumberType::I32 };
    Target { values, knowledge, queries, page_bytes: PAGE_BYTES, seed: 3 }
}

fn recorded(target: &Target, protocol: &str) -> Recording {
    let stop = AtomicBool::new(false);
    record(target, protocols::named(protocol).unwrap(), &AttackWatch::new(&|_| {}, &stop)).unwrap()
}

fn recovered(target: &Target, attack: &str, protocol: &str) -> (Recovery, Score) {
    let stop = AtomicBool::new(false);
    let (attack, protocol) = (named(attack).unwrap(), protocols::named(protocol).unwrap());
    let recovery = (attack.carry)(target, protocol, &AttackWatch::new(&|_| {}, &stop)).unwrap();
    let score = up_to_symmetry(&target.values, &recovery, &target.knowledge)
        .unwrap_or_else(|| score(&target.values, &recovery.guesses));
    (recovery, score)
}

/// How many records each query has.
fn results(target: &Target) -> Vec<u64> {
    let Span { least, greatest } = target.span();
    let asked = queries::uniform(least, greatest, target.queries, target.seed);
    let found = |query: &queries::RangeQuery| {
        target.values.iter().filter(|value| (query.lower..=query.upper).contains(value)).count() as u64
    };
    asked.iter().map(found).collect()
}

#[test]
fn what_is_seen_of_real_runs_is_what_protocols_show() {
    let target = target(dense(20, 3, 1), 60);
    let results = results(&target);
    for protocol in protocols::ALL.iter().filter(|protocol| protocol.in_all) {
        let Observed { sight, searches, .. } = recorded(&target, protocol.name).observed;
        assert_eq!(searches.len(), results.len(), "{}", protocol.name);
        for (search, results) in searches.iter().zip(&results) {
            let items = search.items.len() as u64;
            match sight.items {
                Grain::Exact => assert_eq!((items, search.volume), (*results, *results), "{}", protocol.name),
                Grain::Coarse => assert!(items > 0 && items == search.volume, "{}", protocol.name),
                Grain::Hidden => assert_eq!(items, 0, "{}", protocol.name),
            }
            if sight.volume == Grain::Exact {
                assert_eq!(search.volume, *results, "{}", protocol.name);
            }
        }
    }
}

#[test]
fn dense_data_are_reconstructed_from_real_runs() {
    let target = target(dense(20, 2, 1), 400);
    for protocol in ["bplus_bclo", "bplus_lewi_wu", "bplus_fh_ope", "kerschbaum_tueno"] {
        for attack in ["lmp_order", "lmp_rank"] {
            let (recovery, score) = recovered(&target, attack, protocol);
            assert_eq!(score.exact, 1.0, "{attack} {protocol}");
            assert_eq!((recovery.queries, recovery.earlier.len()), (400, 5));
        }
    }
}

#[test]
fn values_are_reconstructed_from_the_access_pattern_of_a_real_run() {
    let target = target(vec![1, 2, 2, 5, 9, 9, 9, 10], 20_000);
    assert_eq!(recovered(&target, "kkno_access", "bplus_clww").1.exact, 1.0);
}

#[test]
fn values_are_reconstructed_from_the_volumes_of_a_real_run() {
    let target = target(vec![1, 1, 2, 4, 4, 4, 6], 20_000);
    for protocol in ["bplus_bclo", "logarithmic_brc"] {
        assert_eq!(recovered(&target, "kkno_volume", protocol).1.exact, 1.0, "{protocol}");
    }
}

#[test]
fn blocks_read_are_no_volumes() {
    // Dense, so that whatever the attack makes of the blocks has every chance.
    let target = target(dense(10, 6, 1), 4000);
    let (recovery, score) = recovered(&target, "kkno_volume", "path_oram");
    let guess = baseline(&target.values);
    // Six standard deviations above the guess.
    let deviation = (guess.exact * (1.0 - guess.exact) / 60.0).sqrt();
    assert!(score.exact <= guess.exact + 6.0 * deviation, "{score:?} {guess:?}");
    assert!(recovery.saw.contains("blocks"));
}

#[test]
fn items_that_are_hidden_give_the_guess_and_no_more() {
    let target = target(dense(10, 6, 1), 300);
    for protocol in ["path_oram", "logarithmic_brc"] {
        let recording = recorded(&target, protocol);
        assert_eq!(recording.observed.sight.items, Grain::Hidden);
        for attack in ["kkno_access", "lmp_order", "lmp_rank", "lmp_auxiliary"] {
            let (recovery, _) = recovered(&target, attack, protocol);
            assert_eq!(recovery.guesses, vec![target.knowledge.quantile(0.5); 60], "{attack} {protocol}");
        }
    }
}

#[test]
fn coarse_items_give_less_than_exact_ones() {
    let target = target(dense(60, 2, 1), 2000);
    for protocol in ["pope", "arx_range"] {
        let coarse = recovered(&target, "lmp_order", protocol).1;
        let exact = recovered(&target, "lmp_order", "bplus_bclo").1;
        assert_eq!(exact.exact, 1.0);
        assert!(coarse.exact < 0.8, "{protocol} {coarse:?}");
    }
}

#[test]
fn a_protocol_that_is_not_known_shows_nothing() {
    let unknown = Sight::of(arras_protocol::ProtocolId(255));
    assert_eq!((unknown.volume, unknown.items, unknown.in_order), (Grain::Hidden, Grain::Hidden, false));
}
