//! When values are cleaned, and what of them.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::Settings;
use crate::index::LiveIndex;
use crate::index::tests::{Scripted, eq_of};
use crate::tests::{World, randomly};
use arras_planner::terms::equality_bytes;
use arras_schemes::arx_eq::occurrences::Occurrences;
use arras_service::Fault;
use bson::{Bson, doc};
use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::BTreeSet;

/// Entries that came and went, and the counters of those that are there.
fn history(rng: &mut StdRng, taken: u32, kept: f64) -> (Occurrences, BTreeSet<u32>) {
    let (mut occurrences, mut live) = (Occurrences::new(rng), BTreeSet::new());
    for _ in 0..taken {
        live.insert(occurrences.take().unwrap());
    }
    for counter in live.clone() {
        if !rng.random_bool(kept) {
            assert!(occurrences.release(counter) && live.remove(&counter));
        }
    }
    (occurrences, live)
}

#[test]
fn what_went_in_several_writes_is_joined_by_index_and_value() {
    let mut rng = randomly();
    let parts = [1, 2, 3].map(|name| IndexPart::of_test(name, eq_of(&["a"])));
    let (mut thinned, mut model) = (Vec::new(), BTreeSet::new());
    for _ in 0..30 {
        let part = &parts[rng.random_range(0..3)];
        let mut released = Released::new();
        for _ in 0..rng.random_range(0..4) {
            let (value, counter) = (vec![rng.random_range(0..3)], rng.random_range(0..50));
            released.entry(value.clone()).or_default().insert(counter);
            model.insert((part.id, value, counter));
        }
        thinned.push((Arc::clone(part), released));
    }
    let joined = joined(thinned);
    let mut ids: Vec<IndexId> = joined.iter().map(|(part, _)| part.id).collect();
    ids.dedup();
    assert_eq!(ids.len(), joined.len(), "each index once");
    let all = joined.into_iter().flat_map(|(part, released)| {
        released.into_iter().flat_map(move |(value, counters)| {
            let id = part.id;
            counters.into_iter().map(move |counter| (id, value.clone(), counter))
        })
    });
    assert_eq!(all.collect::<BTreeSet<_>>(), model);
}

#[test]
fn a_header_names_the_new_entry_in_the_place_of_the_old_one_and_changes_nowhere_else() {
    let held = |counter| Held { tree: [1; 4], counter };
    let [one, other] = [1, 2].map(|number| IndexId([number; 8]));
    let terms =
        IndexTerms { entries: vec![(one, vec![held(1), held(2), held(3)]), (other, vec![held(4), held(5)])] };
    let renumbered_at = |index, place| renumbered(&terms, index, place, held(9));
    let changed = renumbered_at(one, 1);
    assert_eq!((changed.of(one), changed.of(other)), (&[held(1), held(9), held(3)][..], terms.of(other)));
    let changed = renumbered_at(other, 0);
    assert_eq!((changed.of(one), changed.of(other)), (terms.of(one), &[held(9), held(5)][..]));
    assert_eq!(renumbered_at(one, 3), terms);
    assert_eq!(renumbered_at(IndexId([3; 8]), 0), terms);
}

/// A collection with an equality index, one of whose values has this record.
struct Stage {
    world: World,
    collection: Arc<Collection>,
    part: Arc<IndexPart>,
    value: Vec<u8>,
}

impl Stage {
    async fn new(occurrences: &Occurrences) -> Self {
        let (world, part) = (World::new("").await, IndexPart::of_test(1, eq_of(&["a"])));
        let index = LiveIndex::of_test("a_1", doc! { "a": 1 }, vec![Arc::clone(&part)]);
        let collection = world.collection(vec![index], 0);
        let stage = Self { world, collection, part, value: equality_bytes(&[Bson::Int32(5)]) };
        stage.world.record(&stage.part, &stage.value, occurrences);
        stage
    }

    fn target(&self) -> Target<'_> {
        Target { collection: &self.collection, part: &self.part, value: &self.value }
    }
}

#[tokio::test]
async fn a_value_that_is_not_due_or_has_no_entries_asks_the_server_nothing() {
    let mut rng = randomly();
    let (mut occurrences, live) = history(&mut rng, 100, 1.0);
    live.iter()
        .filter(|counter| **counter % 10 > 0)
        .for_each(|counter| assert!(occurrences.release(*counter)));
    let stage = Stage::new(&occurrences).await;
    let shared = &stage.world.shared;
    let fault = |outcome: Result<(), ServiceError>| outcome.err().map(|error| error.fault);
    assert_eq!(
        fault(shared.clean(stage.target(), occurrences.encode()).await),
        Some(Fault::Unreachable),
        "it is due"
    );
    // One that got entries since the search, or began anew: the server was not shown those.
    let mut earlier = occurrences.clone();
    earlier.take().unwrap();
    assert_eq!(fault(shared.clean(stage.target(), earlier.encode()).await), None);
    assert_eq!(fault(shared.clean(stage.target(), history(&mut rng, 100, 0.1).0.encode()).await), None);
    let other = equality_bytes(&[Bson::Int32(6)]);
    let target = Target { value: &other, ..stage.target() };
    assert_eq!(fault(shared.clean(target, occurrences.encode()).await), None, "it has no entries");
    stage.collection.set_indexes(Vec::new());
    assert_eq!(fault(shared.clean(stage.target(), occurrences.encode()).await), None, "the index is gone");
}

#[tokio::test]
async fn what_a_statement_thinned_out_is_cleaned_with_it_if_that_is_the_policy() {
    for cleanup in [Cleanup::Threshold, Cleanup::EachDelete] {
        let world = World::with(Settings { cleanup, ..Settings::default() }).await;
        let half = Arc::new(Scripted::default());
        let part = IndexPart::around(IndexId([1; 8]), eq_of(&["a"]), Arc::clone(&half) as _);
        let index = LiveIndex::of_test("a_1", doc! { "a": 1 }, vec![Arc::clone(&part)]);
        let collection = world.collection(vec![index], 0);
        let released = |value, counter| Released::from([(vec![value], BTreeSet::from([counter]))]);
        let thinned = [released(1, 3), released(2, 4), released(1, 5)];
        collection.thinned.lock().unwrap().extend(thinned.map(|released| (Arc::clone(&part), released)));
        world.shared.clean_after_statement(&collection).await;
        let asked: Vec<(Vec<u8>, Vec<u32>)> = half
            .renumbered
            .lock()
            .unwrap()
            .iter()
            .map(|(value, occasion)| match occasion {
                Occasion::Released(released) => (value.clone(), released.iter().copied().collect()),
                Occasion::Searched(_) => panic!("nobody searched"),
            })
            .collect();
        let expected = [(vec![1], vec![3, 5]), (vec![2], vec![4])];
        assert_eq!(asked, if cleanup == Cleanup::EachDelete { &expected[..] } else { &[] });
    }
}

#[tokio::test]
async fn what_a_statement_thinned_out_is_taken_up_once() {
    let (occurrences, _) = history(&mut randomly(), 10, 1.0);
    let stage = Stage::new(&occurrences).await;
    let released = Released::from([(stage.value.clone(), BTreeSet::from([3]))]);
    let thinned = || stage.collection.thinned.lock().unwrap().len();
    stage.collection.thinned.lock().unwrap().push((Arc::clone(&stage.part), released));
    assert_eq!(thinned(), 1);
    stage.world.shared.clean_after_statement(&stage.collection).await;
    assert_eq!(thinned(), 0);
    assert!(!stage.world.shared.intents.in_doubt(), "by its record nothing is to be done");
}
