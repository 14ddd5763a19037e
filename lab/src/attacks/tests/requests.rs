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
        "page_bytes: 20 bytes: bplus_clww needs at least 184"
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

/// `persons` of four rows of one value each.
fn of_persons(persons: i64) -> (Vec<i64>, Vec<u64>) {
    (0..persons).flat_map(|person| vec![(person * 7, u64::try_from(person).unwrap()); 4]).unzip()
}

#[test]
fn whose_rows_belong_together_are_in_one_half() {
    let (data, groups) = of_persons(200);
    let by = |group: Option<&str>, groups: Option<Vec<u64>>| {
        let request = AttackRequest {
            dataset: Dataset::Supplied,
            data: Some(data.clone()),
            group: group.map(str::to_owned),
            group_data: groups,
            records: 0,
            ..request(&["nkw_sorting"], &["bplus_clww"])
        };
        request.plan().unwrap()
    };
    let plan = by(Some("person"), Some(groups));
    assert_eq!((plan.shared, plan.warnings.len()), (0.0, 0));
    assert_eq!((plan.target.values.len(), plan.target.knowledge.auxiliary.len()), (400, 400));
    // Row by row: one of four is alone with a chance of an eighth, or so.
    let plan = by(None, None);
    assert!(plan.shared > 0.8, "{}", plan.shared);
    let share = format!("{:.0}% of the attacked records", plan.shared * 100.0);
    assert!(plan.warnings[0].contains(&share) && plan.warnings[0].contains("--group"), "{:?}", plan.warnings);
    assert!(by(Some("none"), None).warnings.is_empty());
}

#[test]
fn the_public_set_is_split_by_person_if_nothing_else_is_said() {
    let by = |group: Option<&str>| {
        let group = group.map(str::to_owned);
        let dataset = Dataset::RandIncome;
        AttackRequest { dataset, group, records: 1000, ..request(&["nkw_sorting"], &["bplus_clww"]) }
    };
    let shared = |group: Option<&str>| by(group).plan().unwrap().shared;
    let (rows, persons, families) = (shared(Some("none")), shared(Some("person")), shared(Some("family")));
    assert_eq!(shared(None), persons);
    assert_eq!(by(None).plan().unwrap().request.group.as_deref(), Some("person"));
    assert!(rows > 0.95 && persons < rows && families < 0.5 * persons, "{rows} {persons} {families}");
    assert_eq!(errors(by(Some("street"))), "group: rand_income has: person, family, none");
    let of_nobody = AttackRequest { dataset: Dataset::Uniform, ..by(Some("person")) };
    assert_eq!(errors(of_nobody), "group: rows of generated data are of nobody");
}

#[test]
fn an_attacker_knows_the_extremes_it_is_given() {
    let extremes = |extremes: Extremes| {
        let known = AttackRequest {
            dataset: Dataset::Supplied,
            data: Some((10..60).collect()),
            auxiliary: Auxiliary::Supplied,
            auxiliary_data: Some(vec![20, 30]),
            extremes,
            records: 0,
            ..request(&["nkw_sorting"], &["bplus_clww"])
        };
        let result = run_quietly(known.clone());
        let known = known.plan().unwrap().target.knowledge;
        (known.least, known.greatest, result.attacks[0].clone())
    };
    let (least, greatest, told) = extremes(Extremes::Records);
    assert_eq!((least, greatest, told.score.exact), (10, 59, 1.0));
    assert!(told.knowledge.contains("values from 10 to 59: the records' least and greatest, told to it"));
    assert!(told.assumes.contains(&"every value between them occurs".to_owned()));
    let (least, greatest, guessed) = extremes(Extremes::Auxiliary);
    assert_eq!((least, greatest), (20, 30));
    assert!(guessed.score.exact < 0.1 && guessed.score.error > told.score.error, "{guessed:?}");
    let (least, greatest, _) = extremes(Extremes::Type);
    assert_eq!((least, greatest), (i64::from(i32::MIN), i64::from(i32::MAX)));
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
        assert!(one.cost.is_some() && !one.assumes.is_empty(), "{name}");
        let attack = named(&one.attack).unwrap();
        for (assumption, said) in
            [(Assumption::Distribution, "auxiliary data: "), (Assumption::Extremes, "values from ")]
        {
            assert_eq!(one.knowledge.contains(said), attack.assumes.contains(&assumption), "{name}");
        }
    }
    let names: Vec<&str> = ALL.iter().map(|attack| attack.name).collect();
    assert!(names.iter().all(|name| one.attacks.iter().any(|attack| attack.attack == *name)));
    let back: AttackResult = serde_json::from_value(
        serde_json::from_str::<serde_json::Value>(&one.json_lines()[0]).unwrap()["result"].clone(),
    )
    .unwrap();
    // All but the last digit of a number.
    let near = |one: f64, other: f64| (one - other).abs() < 1e-12;
    let first = &one.attacks[0];
    assert!(near(back.score.error, first.score.error) && near(back.baseline.error, first.baseline.error));
    assert_eq!(AttackResult { score: first.score, baseline: first.baseline, ..back }, *first);
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
