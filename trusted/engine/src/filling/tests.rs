//! What is gathered for an index that is being filled.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::facts::Facts;
use crate::index::LiveIndex;
use crate::index::tests::{eq_of, range_of};
use crate::tests::{World, document, ns, randomly};
use arras_protocol::RowId;
use arras_records::IndexTerms;
use arras_service::Fault;
use arras_service::interrupt::{Interrupt, Reason};
use bson::{Document, doc};
use rand::RngExt;

fn open(row: RowId, document: Document) -> OpenDocument {
    OpenDocument { row, version: [0; 8], sequence: 0, terms: IndexTerms::default(), document, bytes: 10 }
}

#[test]
fn what_is_gathered_are_the_entries_of_all_documents_and_what_they_are_like() {
    let mut rng = randomly();
    let part = IndexPart::of_test(1, range_of(&["a"]));
    let mut gathered = Gathered { part: Arc::clone(&part), entries: Vec::new() };
    let documents: Vec<OpenDocument> =
        (0..300).map(|_| open(RowId(rng.random()), document(&mut rng, 2))).collect();
    let (mut expected, mut multikey, mut inexact) = (Vec::new(), 0, 0);
    for document in &documents {
        let found = terms::of(&part, &document.document).unwrap();
        multikey += u64::from(found.multikey);
        inexact += u64::from(found.inexact);
        expected.extend(found.terms.into_keys().map(|key| (key, document.row)));
    }
    let mut bytes = 0;
    for page in documents.chunks(70) {
        gathered.add(page).unwrap();
        assert!(gathered.bytes() >= bytes + page.len() * part.physical.key_bytes().unwrap());
        bytes = gathered.bytes();
    }
    let mut entries: Vec<_> = gathered.entries.iter().map(|entry| (entry.value.clone(), entry.row)).collect();
    entries.sort();
    expected.sort();
    assert_eq!(entries, expected);
    assert_eq!(part.facts.now(), Facts { multikey, inexact });
    assert!(multikey > 0 && inexact > 0);
}

#[test]
fn documents_that_an_index_cannot_hold_end_its_filling() {
    let mut gathered = Gathered { part: IndexPart::of_test(1, range_of(&["a", "b"])), entries: Vec::new() };
    gathered.add(&[open(RowId([1; 16]), doc! { "a": [1, 2], "b": 1 })]).unwrap();
    let parallel = open(RowId([2; 16]), doc! { "a": [1, 2], "b": [1] });
    assert_eq!(gathered.add(&[parallel]).unwrap_err().fault, Fault::ParallelArrays);
}

#[tokio::test]
async fn how_far_a_filling_is_never_goes_back_and_ends_with_who_asked_for_it_to_end() {
    let world = World::new("").await;
    let builds = &world.shared.builds;
    let interrupt = Interrupt::default();
    let _ends = builds.end_by(&ns("c"), interrupt.clone());
    let build = builds.begin(&ns("c"), 100);
    let mut progress = Progress { build, name: "db.c".into(), total: 100, done: 0, told: Instant::now() };
    let done = || builds.list().iter().map(|build| (build.done, build.total)).collect::<Vec<_>>();
    for (reached, expected) in [(0, 0), (10, 10), (10, 10), (4, 10), (30, 30), (12, 30), (100, 100)] {
        progress.reach(reached).unwrap();
        assert_eq!(done(), [(expected, 100)], "at {reached}");
    }
    interrupt.raise(Reason::Gone);
    progress.reach(101).unwrap();
    drop(progress);
    assert!(done().is_empty());
    let interrupt = Interrupt::default();
    let _ends = builds.end_by(&ns("c"), interrupt.clone());
    let build = builds.begin(&ns("c"), 100);
    let mut progress = Progress { build, name: "db.c".into(), total: 100, done: 0, told: Instant::now() };
    interrupt.raise(Reason::Killed);
    assert_eq!(progress.reach(1).unwrap_err().fault, Fault::Interrupted(Reason::Killed));
}

#[tokio::test]
async fn nothing_is_entered_where_nothing_was_gathered_and_nothing_without_the_server() {
    let world = World::new("").await;
    let part = IndexPart::of_test(1, range_of(&["a"]));
    let index = LiveIndex::of_test(
        "a_1",
        doc! { "a": 1 },
        vec![Arc::clone(&part), IndexPart::of_test(2, eq_of(&["a"]))],
    );
    let collection = world.collection(vec![index], 5);
    let build = world.shared.builds.begin(&collection.ns, 5);
    let mut progress = Progress { build, name: "db.c".into(), total: 5, done: 0, told: Instant::now() };
    let mut gathered = [Gathered { part: Arc::clone(&part), entries: Vec::new() }];
    world.shared.enter_gathered(&mut gathered, &mut progress, 3).await.unwrap();
    assert_eq!(progress.done, 3, "documents without entries are done, too");
    gathered[0].add(&[open(RowId([1; 16]), doc! { "a": 1 })]).unwrap();
    let failed = world.shared.enter_gathered(&mut gathered, &mut progress, 5).await.unwrap_err();
    assert_eq!((failed.fault, progress.done), (Fault::InDoubt, 3));
    drop(progress);
    let failed = world.shared.fill(&collection, &[part.id]).await.unwrap_err();
    assert_eq!(failed.fault, Fault::Unreachable);
    assert!(world.shared.builds.list().is_empty(), "it is no longer listed");
}
