//! A seed says everything; and what the simulator says of a defect is true.

use arras_engine::mutations::Mutation;
use arras_planner::kinds::{Availability, kind_of};
use arras_simulator::indexes::all_orders;
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

/// What this build was asked for, itself or by what is built beside it, is not for a seed to draw from.
#[test]
fn a_seed_says_the_same_in_every_build() {
    for seed in 0..3000 {
        let order = Plan::new(seed).order;
        let kind = kind_of(order).expect("a protocol of the table");
        assert_eq!(kind.availability, Availability::Available, "seed {seed} is of {order}");
    }
}

/// The first seed changes several documents, in as many writes when an entry counts as one, and kills the proxy between them.
#[test]
fn an_order_that_a_build_is_asked_for_is_run_by_its_name() {
    for (seed, order) in [(800_000_132, "bplus_cloz"), (0, "bplus_bclo"), (1, "bplus_bclo")] {
        assert!(all_orders().contains(&order), "{order}");
        let outcome = run(&Plan::without_texts(seed).with_whole_trees().with_order(order), None, false);
        assert_eq!(outcome.wrong, None, "seed {seed} by {order}");
    }
}

/// A write to an index of mOPE is in doubt, the head is asked for, and then the write is completed.
#[test]
fn an_inspection_goes_by_the_head_that_the_tree_has_now() {
    let outcome = run(&Plan::without_texts(20_261_124_115_112).with_whole_trees(), None, false);
    assert_eq!(outcome.wrong, None);
}

/// In turn: an update whose acknowledgement was lost, and a disk set back by no more than that; an update under way while a connection
/// says what the enclave has, with it; what a connection says that was under way while an update was; an index of texts whose drop the
/// server refused, for lack of room, and whose entries the next start took out; a disk set back to before an index of texts was dropped.
#[test]
fn text_indexes_keep_what_they_have_and_miss_what_they_lost() {
    for seed in [251, 100_257, 305_273, 300_033, 301_188, 295] {
        let plan = Plan::new(seed).with_whole_trees();
        assert!(plan.texts, "seed {seed}");
        assert_eq!(run(&plan, None, false).wrong, None, "seed {seed}");
    }
}

/// A sorted read goes by an index that another application drops: it is refused, as MongoDB refuses it. And a search of texts,
/// whose entries have gone when it is answered: nothing found would not be true.
#[test]
fn a_read_may_lose_the_index_that_it_goes_by() {
    for seed in [20_022_104, 1_795_647_797_910_866] {
        let plan = Plan::new(seed).with_whole_trees();
        assert!(plan.drops_indexes());
        assert_eq!(run(&plan, None, false).wrong, None, "seed {seed}");
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
