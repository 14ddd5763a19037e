//! A seed says everything; and what the simulator says of a defect is true.

use arras_engine::mutations::Mutation;
use arras_simulator::plan::Plan;
use arras_simulator::run;
use arras_simulator::shorten::shorten;

/// Maps of the standard library are walked in another order each time; so is anything else that a seed does not say.
#[test]
fn a_seed_repeats_its_run_byte_for_byte() {
    for seed in 0..60 {
        let plan = Plan::new(seed);
        let (first, second) = (run(&plan, None, false), run(&plan, None, false));
        assert_eq!(first.sum, second.sum, "seed {seed}: {:?}", first.wrong);
        assert_eq!(first.wrong, None, "seed {seed}");
    }
}

#[test]
fn a_defect_is_found_and_its_run_is_shortened() {
    let mutation = Some(Mutation::IntentStruckEarly);
    let failing = (0..500).map(Plan::new).find(|plan| run(plan, mutation, false).wrong.is_some());
    let failing = failing.expect("no run of 500 finds it");
    let shortest = shorten(&failing, mutation);
    let actions = |plan: &Plan| plan.rounds.iter().flat_map(|round| &round.actions).flatten().count();
    assert!(
        run(&shortest, mutation, true).lines.contains("WRONG")
            || run(&shortest, mutation, false).wrong.is_some()
    );
    assert!(actions(&shortest) <= actions(&failing));
    assert_eq!(run(&shortest, None, false).wrong, None, "without the defect it is fine");
}
