//! Facts of an index beside the documents that it has.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::index::tests::{eq_of, range_of};
use crate::tests::randomly;
use arras_keys::Key;
use arras_storage::{Durability, Memory};
use rand::RngExt;
use rand::rngs::StdRng;

/// What one document has in the index.
fn entries(rng: &mut StdRng) -> Entries {
    // Mostly neither: zero is what plans go by.
    let mut few = || rng.random_range(0..6) == 0;
    Entries { multikey: few(), inexact: few(), ..Entries::default() }
}

fn exactly(documents: &[Entries]) -> Facts {
    documents.iter().map(Facts::of).fold(Facts::default(), Facts::plus)
}

/// What is done when a write turns out not to be applied.
fn take_back(local: &LocalStore<Memory>, change: &Change) {
    let (name, sealed) = change.undo_in(COUNTERS).unwrap();
    local.apply(&[Change::sealed(COUNTERS, name, sealed)], Durability::Relaxed).unwrap();
}

#[test]
fn facts_are_never_too_low_and_right_on_record_whatever_becomes_of_writes() {
    let mut rng = randomly();
    for _ in 0..100 {
        let local = LocalStore::open(Memory::new(), &Key::generate()).unwrap();
        let part = IndexPart::of_test(1, range_of(&["a"]));
        let mut documents: Vec<Entries> = Vec::new();
        for _ in 0..40 {
            let mut after = documents.clone();
            let (mut old, mut new) = (Vec::new(), Vec::new());
            for _ in 0..rng.random_range(1..4) {
                let gone = rng.random::<bool>() && !after.is_empty();
                old.push(if gone {
                    after.swap_remove(rng.random_range(0..after.len()))
                } else {
                    Entries::default()
                });
                // One of two is gone for good.
                let comes = rng.random::<bool>() || !gone;
                new.push(if comes { entries(&mut rng) } else { Entries::default() });
                after.extend(new.last().filter(|_| comes).cloned());
            }
            let (was, raised) = (part.facts.now(), part.facts.raised());
            let Some(change) = FactsChange::of(&local, &part, old.iter().zip(&new)).unwrap() else {
                assert_eq!(exactly(&documents), exactly(&after));
                documents = after;
                continue;
            };
            let recorded_with = change.begin(&local);
            local.apply([&recorded_with], Durability::Relaxed).unwrap();
            let now = part.facts.now();
            for known in [&documents, &after].map(|documents| exactly(documents)) {
                assert!(now.multikey >= known.multikey && now.inexact >= known.inexact, "{now:?} {known:?}");
            }
            assert!(part.facts.raised() > raised || (was == now && change.after == was), "it rose unseen");
            let outcome = [Some(true), Some(false), None][rng.random_range(0..3)];
            change.end(outcome);
            // One of which nobody knows is settled before the next.
            let applied = outcome.unwrap_or_else(|| rng.random());
            if applied {
                documents = after;
            } else {
                take_back(&local, &recorded_with);
            }
            let (now, exact) = (part.facts.now(), exactly(&documents));
            assert_eq!(recorded(&local, part.id).unwrap(), exact);
            assert!(now.multikey >= exact.multikey && now.inexact >= exact.inexact);
            assert!(outcome.is_none() || now == exact, "what is known is what there is");
        }
    }
}

#[test]
fn one_who_finds_no_facts_twice_sees_whether_there_were_some_in_between() {
    let local = LocalStore::open(Memory::new(), &Key::generate()).unwrap();
    let part = IndexPart::of_test(1, eq_of(&["a"]));
    let (several, one) = (Entries { multikey: true, ..Entries::default() }, Entries::default());
    let write = |old: &Entries, new: &Entries| {
        let change = FactsChange::of(&local, &part, std::iter::once((old, new))).unwrap();
        if let Some(change) = change {
            local.apply(&[change.begin(&local)], Durability::Relaxed).unwrap();
            change.end(Some(true));
        }
    };
    let began = part.facts.raised();
    write(&one, &one);
    assert_eq!((part.facts.now().none(), part.facts.raised()), (true, began), "nothing came between");
    write(&one, &several);
    write(&several, &one);
    assert!(part.facts.now().none());
    assert_ne!(part.facts.raised(), began);
}

#[test]
fn nothing_is_kept_of_an_index_without_facts_and_each_has_its_own() {
    let local = LocalStore::open(Memory::new(), &Key::generate()).unwrap();
    let ids = [1, 2].map(|number| IndexId([number; 8]));
    let [some, others] = [3, 4].map(|count| Facts { multikey: count, inexact: 1 });
    let apply = |changes: &[Change]| local.apply(changes, Durability::Relaxed).unwrap();
    apply(&[record(&local, ids[0], some), record(&local, ids[1], others)]);
    let read = || ids.map(|id| recorded(&local, id).unwrap());
    assert_eq!(read(), [some, others]);
    apply(&[record(&local, ids[0], Facts::default())]);
    assert_eq!(read(), [Facts::default(), others]);
    assert_eq!(local.beginnings_as_named(COUNTERS, IndexId::BYTES).unwrap(), [ids[1].as_bytes().to_vec()]);
    // They go with the records of the index's values.
    local.remove_as_named(COUNTERS, ids[1].as_bytes()).unwrap();
    assert_eq!(read(), [Facts::default(); 2]);
}

#[test]
fn facts_of_an_index_that_is_being_filled_are_those_of_all_its_documents() {
    let (mut rng, facts) = (randomly(), LiveFacts::default());
    let documents: Vec<Entries> = (0..100).map(|_| entries(&mut rng)).collect();
    documents.iter().for_each(|document| facts.add(document));
    assert_eq!(facts.now(), exactly(&documents));
}
