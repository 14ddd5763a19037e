//! What a write is made of, and what is left of one that never reached the server.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::facts::Facts;
use crate::index::LiveIndex;
use crate::index::tests::{eq_of, range_of, unique_of};
use crate::tests::{World, collection, document, randomly};
use arras_protocol::{Refusal, arx_eq, unique};
use arras_schemes::arx_eq::occurrences::Occurrences;
use arras_schemes::contract::{Held, Terms};
use bson::doc;
use rand::RngExt;
use rand::rngs::StdRng;
use std::collections::BTreeSet;

/// A step that is known by its number.
fn step(number: u8) -> Step {
    Step::Unique(unique::Change::DropIndex { index: IndexId([number; 8]) })
}

fn numbers(steps: &[Step]) -> Vec<u8> {
    steps.iter().map(|step| step.index().unwrap().0[0]).collect()
}

#[test]
fn steps_take_effect_kind_by_kind_and_say_nothing_by_their_order_within_one() {
    let mut rng = randomly();
    let sets = [0..20_u8, 20..40, 40..60, 60..80, 80..100];
    let mut orders: [BTreeSet<Vec<u8>>; 5] = Default::default();
    for _ in 0..20 {
        let mut steps = Steps::default();
        for part in [0..10, 10..20] {
            let of = |set: usize| part.clone().map(|number| step(sets[set].start + number)).collect();
            let (freed, entries, ordered, removed) = (of(0), of(1), of(2), of(4));
            steps.add(contract::Steps { freed, entries, ordered, removed });
            steps.documents.extend::<Vec<Step>>(of(3));
        }
        let steps = numbers(&steps.in_order(&mut rng));
        assert_eq!(steps.len(), 100);
        for (place, set) in sets.iter().enumerate() {
            let of_set = steps[20 * place..20 * place + 20].to_vec();
            let mut sorted = of_set.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, set.clone().collect::<Vec<_>>());
            orders[place].insert(of_set);
        }
    }
    let [freed, entries, ordered, documents, removed] = orders.map(|orders| orders.len());
    assert_eq!(ordered, 1, "its order is the index's own");
    assert!([freed, entries, documents, removed].iter().all(|orders| *orders == 20));
}

fn revision(rng: &mut StdRng, held: &[(IndexId, usize)]) -> Revision {
    let row = RowId(rng.random());
    let entries = held.iter().map(|(index, count)| {
        let held = |counter| Held { tree: [1; 4], counter };
        (*index, (0..*count as u32).map(held).collect())
    });
    let terms = IndexTerms { entries: entries.collect() };
    let old = rng.random::<bool>().then(|| {
        let document = document(rng, 1);
        OpenDocument { row, version: [0; 8], sequence: 4, terms, document, bytes: 10 }
    });
    let new = (old.is_none() || rng.random()).then(|| Measured::new(document(rng, 1)).unwrap());
    Revision { row, sequence: 4, old, new }
}

#[test]
fn a_revision_takes_the_terms_of_its_old_document_and_adds_those_of_its_new_one() {
    let mut rng = randomly();
    let part = IndexPart::of_test(1, eq_of(&["a"]));
    let of = |document: Option<&Document>| match document {
        Some(document) => terms::of(&part, document).unwrap().terms,
        None => Terms::new(),
    };
    let revisions: Vec<Revision> =
        (0..200).map(|_| revision(&mut rng, &[(IndexId([2; 8]), 1), (part.id, 3)])).collect();
    for filling in [false, true] {
        let changes = row_changes(&part, &revisions, differences(&part, &revisions, filling).unwrap());
        assert_eq!(changes.len(), revisions.len());
        for (change, revision) in changes.iter().zip(&revisions) {
            let old = revision.old.as_ref();
            assert_eq!(change.row, revision.row);
            assert_eq!(change.new, of(revision.new.as_deref()));
            // In an index that is being filled every document is a new one.
            assert_eq!(change.old, if filling { Terms::new() } else { of(old.map(|old| &old.document)) });
            assert_eq!(change.held.len(), if old.is_some() { 3 } else { 0 });
        }
    }
    let parallel = IndexPart::of_test(1, range_of(&["a", "b"]));
    let document = Measured::new(doc! { "a": [1, 2], "b": [1] }).unwrap();
    let refused = Revision { row: RowId([1; 16]), sequence: 1, old: None, new: Some(document) };
    assert_eq!(differences(&parallel, &[refused], false).unwrap_err().fault, Fault::ParallelArrays);
}

#[test]
fn documents_are_put_as_they_become_and_those_that_go_are_deleted() {
    let mut rng = randomly();
    let collection = collection("c", Vec::new());
    let revisions: Vec<Revision> = (0..50).map(|_| revision(&mut rng, &[])).collect();
    let header = |number: usize| {
        let held = Held { tree: [1; 4], counter: number as u32 };
        IndexTerms { entries: vec![(IndexId([3; 8]), vec![held])] }
    };
    let headers: Vec<IndexTerms> = (0..revisions.len()).map(header).collect();
    let mut steps = Steps::default();
    document_steps(&collection, &revisions, headers.clone(), &mut steps, &mut rng).unwrap();
    assert_eq!(steps.documents.len(), revisions.len());
    for ((step, revision), header) in steps.documents.iter().zip(&revisions).zip(headers) {
        match (step, &revision.new) {
            (Step::Documents(documents::Change::Put { collection: id, document, insert }), Some(new)) => {
                assert_eq!((*id, *insert), (collection.id, revision.old.is_none()));
                let opened = collection.sealer.open(document).unwrap();
                assert_eq!((opened.row, opened.sequence, opened.terms), (revision.row, 4, header));
                assert_eq!(&opened.document, &**new);
            }
            (Step::Documents(documents::Change::Delete { collection: id, row }), None) => {
                assert_eq!((*id, *row), (collection.id, revision.row));
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(collection.lengths.mean().unwrap() > 0);
}

#[test]
fn it_is_known_of_a_write_that_it_was_applied_or_was_not_unless_nobody_knows() {
    let outcomes = [
        (Ok(()), Some(true)),
        (Err(WriteError::Refused(Refusal::UnknownIndex)), Some(false)),
        (Err(WriteError::Unsettled("it is away".into())), Some(false)),
        (Err(WriteError::Repeated), Some(false)),
        (Err(WriteError::InDoubt("it is away".into())), None),
        (Err(WriteError::Undecided("the disk is away".into())), None),
        (Err(WriteError::HaltedInDoubt("another has taken over".into())), None),
    ];
    for (performed, expected) in outcomes {
        assert_eq!(applied(&performed), expected, "{performed:?}");
    }
}

#[tokio::test]
async fn records_of_values_are_set_under_their_own_names_and_taken_back() {
    let world = World::new("").await;
    let shared = &world.shared;
    let state: &dyn State = &*shared.local;
    let name = |number: u8| vec![number, 1, 2];
    let change = |number, now: Option<u8>, otherwise: Option<u8>| StateChange {
        name: name(number),
        now: now.map(|byte| vec![byte; 3]),
        otherwise: otherwise.map(|byte| vec![byte; 3]),
    };
    let changes = shared.state_changes(vec![change(1, Some(7), None), change(2, Some(8), Some(9))]);
    shared.local.apply(&changes, arras_storage::Durability::Relaxed).unwrap();
    let read = || [1, 2].map(|number| state.read(&name(number)).unwrap().map(|record| record[0]));
    assert_eq!(read(), [Some(7), Some(8)]);
    let (mut all, mut some) = (Vec::new(), Vec::new());
    state.each(&[], &mut |name, record| all.push((name.to_vec(), record))).unwrap();
    state.each(&[2], &mut |name, record| some.push((name.to_vec(), record))).unwrap();
    assert_eq!(all, [(name(1), vec![7; 3]), (name(2), vec![8; 3])]);
    assert_eq!(some, all[1..]);
    for undo in changes.iter().map(|change| change.undo_in(COUNTERS).unwrap()) {
        let undo = Change::sealed(COUNTERS, undo.0, undo.1);
        shared.local.apply(&[undo], arras_storage::Durability::Relaxed).unwrap();
    }
    assert_eq!(read(), [None, Some(9)]);
    shared
        .local
        .apply(&shared.state_changes(vec![change(2, None, None)]), arras_storage::Durability::Relaxed)
        .unwrap();
    assert_eq!(read(), [None, None]);
}

#[tokio::test]
async fn a_write_whose_server_is_away_is_on_record_with_all_that_goes_with_it() {
    let world = World::new("").await;
    let parts = [IndexPart::of_test(1, eq_of(&["a"])), IndexPart::of_test(2, unique_of(&["b"]))];
    let collection = world.collection(vec![LiveIndex::of_test("a_b", doc! { "a": 1 }, parts.to_vec())], 0);
    collection.unrecorded.store(true, Ordering::SeqCst);
    let new = Measured::new(doc! { "_id": 1, "a": [1, 2, 3], "b": 5 }).unwrap();
    let row = RowId([1; 16]);
    let revision = Revision { row, sequence: 1, old: None, new: Some(new) };
    let failed = world.shared.apply(&collection, &[revision]).await.unwrap_err();
    assert_eq!(failed.fault, Fault::InDoubt);
    assert!(world.shared.intents.in_doubt());
    // The counters are taken, whatever becomes of it; and what the index holds is no less than it may.
    let half = Arc::clone(&parts[0].half).equality().unwrap();
    let terms = [1, 2, 3].map(|value| arras_planner::terms::equality_bytes(&[bson::Bson::Int32(value)]));
    for value in half.on_record(&terms, &*world.shared.local).unwrap() {
        assert_eq!(value.entries, 1);
        let record = world.shared.local.read(&value.name).unwrap().unwrap();
        assert_eq!(Occurrences::decode(&record).unwrap().next(), 1);
    }
    assert_eq!(parts[0].facts.now(), Facts { multikey: 1, inexact: 0 });
    assert_eq!(parts[1].facts.now(), Facts::default());
    assert!(!collection.unrecorded.load(Ordering::SeqCst), "its record went along");
    let recorded = catalog::all(&world.shared.local).unwrap();
    assert_eq!(recorded.iter().map(|record| record.id).collect::<Vec<_>>(), [collection.id]);
    let watch = world.shared.intents.ledger.watch();
    assert_eq!(watch.written(collection.id, row), crate::ledger::Explained::Yes);
    assert_eq!(watch.deleted(collection.id, row), crate::ledger::Explained::No);
    // Nothing else is done before it is settled.
    assert_eq!(world.shared.settled().await.unwrap_err().fault, Fault::Unreachable);
}

#[tokio::test]
async fn what_is_staged_enters_a_new_document_and_removes_it_again() {
    let world = World::new("").await;
    let parts = [
        IndexPart::of_test(1, eq_of(&["a"])),
        IndexPart::of_test(2, unique_of(&["a"])),
        IndexPart::of_test(3, range_of(&["a"])),
    ];
    let new = Measured::new(doc! { "a": [1, 2, 3] }).unwrap();
    let row = RowId([1; 16]);
    let mut revision = Revision { row, sequence: 1, old: None, new: Some(new) };
    let stage = async |revision: &Revision| {
        let revisions = std::slice::from_ref(revision);
        let changes = parts.iter().map(|part| {
            let of_part = differences(part, revisions, false).unwrap();
            (Arc::clone(part), row_changes(part, revisions, of_part))
        });
        world.shared.stage(changes.collect()).await.unwrap()
    };
    let entered = stage(&revision).await;
    let kinds = |staged: &[Staged]| -> Vec<[usize; 4]> {
        let sizes = |steps: &contract::Steps| {
            [steps.freed.len(), steps.entries.len(), steps.ordered.len(), steps.removed.len()]
        };
        staged.iter().map(|staged| sizes(&staged.steps)).collect()
    };
    assert_eq!(kinds(&entered)[..2], [[0, 3, 0, 0], [0, 3, 0, 0]]);
    assert_eq!(entered.iter().map(|staged| staged.held.len()).collect::<Vec<_>>(), [1, 0, 0]);
    let changes = world.shared.state_changes(entered[0].state.clone());
    world.shared.local.apply(&changes, arras_storage::Durability::Relaxed).unwrap();
    // One that stays as it is has its place in the header, and no steps.
    let held = entered[0].held[0].clone();
    assert_eq!(held.len(), 3);
    let terms = IndexTerms { entries: vec![(parts[0].id, held.clone())] };
    let document = revision.new.clone().unwrap().into_document();
    revision.old = Some(OpenDocument { row, version: [0; 8], sequence: 1, terms, document, bytes: 10 });
    let same = stage(&revision).await;
    assert_eq!(kinds(&same)[..2], [[0; 4]; 2]);
    assert_eq!(same[0].held, [held]);
    revision.new = None;
    let gone = stage(&revision).await;
    assert_eq!(kinds(&gone)[0], [0, 0, 0, 3]);
    assert_eq!(kinds(&gone)[1].iter().sum::<usize>(), 3);
    assert_eq!(gone[0].released.values().map(BTreeSet::len).sum::<usize>(), 3);
    let insert = |step: &Step| matches!(step, Step::ArxEq(arx_eq::Change::Insert { .. }));
    assert!(entered[0].steps.entries.iter().all(insert) && !gone[0].steps.removed.iter().any(insert));
}
