//! What is refused before any work, and what a run of several attacks comes to.

use crate::attacks::*;
use crate::datasets::Dataset;
use std::sync::atomic::AtomicBool;

fn request(attacks: &[&str], protocols: &[&str]) -> AttackRequest {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    AttackRequest {
        attacks: owned(attacks),
        protocols: owned(protocols),
        records: 60,
        ..AttackRequest::default()
    }
}

fn errors(request: AttackRequest) -> String {
    request.plan().unwrap_err().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn run_quietly(request: AttackRequest) -> AttackRunResult {
    let stop = AtomicBool::new(false);
    run(&request.plan().unwrap(), &AttackWatch::new(&|_| {}, &stop))
}

#[test]
fn mistakes_are_named_before_any_work() {
    let of = |attacks: &[&str], protocols: &[&str]| errors(request(attacks, protocols));
    assert!(of(&["guessing"], &["all"]).starts_with("attacks: no attack is named guessing; there are: nkw_"));
    assert!(of(&["all"], &["popes"]).starts_with("protocols: no protocol is named popes; there are: plain,"));
    assert_eq!(of(&["grubbs_clww"], &["pope"]), "protocols: grubbs_clww works against: bplus_clww");
    assert!(of(&[], &["pope"]).starts_with("attacks: choose at least one of: nkw_frequency, "));
    let with = |change: fn(&mut AttackRequest)| {
        let mut request = request(&["nkw_sorting"], &["bplus_clww"]);
        change(&mut request);
        errors(request)
    };
    assert_eq!(with(|request| request.records = 0), "records: at least 1 record");
    assert_eq!(with(|request| request.queries = 0), "queries: 1 to 1000000 queries");
    assert_eq!(
        with(|request| request.page_bytes = 20),
        "page_bytes: 20 bytes: bplus_clww needs at least 136"
    );
    assert_eq!(with(|request| request.auxiliary = Auxiliary::Supplied), "auxiliary: no values");
    assert_eq!(
        with(|request| (request.dataset, request.data, request.records) =
            (Dataset::Supplied, Some(vec![7]), 0)),
        "data: too few values: at least 2, half of them for the attacker"
    );
    assert_eq!(
        with(|request| (request.auxiliary, request.auxiliary_data) =
            (Auxiliary::Supplied, Some(vec![1 << 40]))),
        "auxiliary: 1099511627776 is outside i32"
    );
}

#[test]
fn too_much_for_an_attack_is_a_mistake_if_asked_for_and_skipped_if_not() {
    let large = |attack: &str| AttackRequest {
        dataset: Dataset::Salaries,
        records: 5000,
        ..request(&[attack], &["bplus_clww"])
    };
    assert!(
        errors(large("nkw_cumulative")).contains("nkw_cumulative: 4"),
        "{}",
        errors(large("nkw_cumulative"))
    );
    let plan = large("all").plan().unwrap();
    let skipped = plan.pairs.iter().find(|(attack, ..)| attack.name == "nkw_cumulative").unwrap();
    assert!(skipped.2.is_some());
}

#[test]
fn data_that_cannot_be_drawn_again_is_split() {
    let data: Vec<i64> = (0..101).collect();
    let request = AttackRequest {
        dataset: Dataset::Supplied,
        data: Some(data.clone()),
        records: 0,
        ..request(&["nkw_sorting"], &["bplus_clww"])
    };
    let target = request.plan().unwrap().target;
    let mut all = [target.values.clone(), target.knowledge.auxiliary.clone()].concat();
    all.sort_unstable();
    assert_eq!(all, data);
    assert_eq!(target.values.len(), 51);
    assert_eq!(
        (target.knowledge.least, target.knowledge.greatest),
        (*target.values.iter().min().unwrap(), *target.values.iter().max().unwrap())
    );
}

#[test]
fn every_attack_is_carried_out_and_replays() {
    let all = || AttackRequest { queries: 30, ..request(&["all"], &["all"]) };
    let (one, other) = (run_quietly(all()), run_quietly(all()));
    assert_eq!(one.attacks.len(), other.attacks.len());
    for (one, other) in one.attacks.iter().zip(&other.attacks) {
        let name = format!("{} against {}", one.attack, one.protocol);
        if matches!(one.ending, AttackEnding::Skipped(_)) {
            continue;
        }
        assert_eq!(one.ending, AttackEnding::Finished, "{name}");
        assert_eq!(
            (one.score, one.baseline, &one.cost),
            (other.score, other.baseline, &other.cost),
            "{name}"
        );
        assert!(one.cost.is_some() && one.knowledge.contains("auxiliary data: "), "{name}");
    }
    let names: Vec<&str> = ALL.iter().map(|attack| attack.name).collect();
    assert!(names.iter().all(|name| one.attacks.iter().any(|attack| attack.attack == *name)));
    let back: AttackResult = serde_json::from_value(
        serde_json::from_str::<serde_json::Value>(&one.json_lines()[0]).unwrap()["result"].clone(),
    )
    .unwrap();
    assert_eq!(back, one.attacks[0]);
}

#[test]
fn stopped_attacks_leave_what_was_finished() {
    let stop = AtomicBool::new(false);
    let plan = request(&["nkw_sorting"], &["bplus_clww", "bplus_bclo"]).plan().unwrap();
    let stop_at_second = |progress: &AttackProgress| {
        stop.store(progress.done == 1, std::sync::atomic::Ordering::Relaxed);
    };
    let result = run(&plan, &AttackWatch::new(&stop_at_second, &stop));
    let endings: Vec<_> = result.attacks.iter().map(|attack| attack.ending.clone()).collect();
    assert_eq!(endings, [AttackEnding::Finished, AttackEnding::Stopped]);
}
