//! Inserts of many documents: each that cannot be stored is named, and the others are stored.

use crate::world::{World, namespace, run};
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_engine::Settings;
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_server::Backend;
use arras_service::store::{InsertStatement, Inserted, Query, Store};
use arras_storage::{Failing, Memory};
use bson::{Document, doc};
use std::sync::Arc;

fn codes(inserted: &Inserted) -> Vec<(usize, i32)> {
    inserted
        .failures
        .iter()
        .map(|failure| (failure.position, arras_mongo::error::code_of(failure.error.fault).0))
        .collect()
}

#[test]
fn a_document_that_an_index_cannot_hold_fails_by_itself() {
    run(async {
        let documents = || -> Vec<Document> {
            (0..10)
                .map(|id| match id {
                    3 => doc! { "_id": id, "a": [1, 2], "b": [3] },
                    7 => doc! { "_id": id, "a": [], "b": [] },
                    _ => doc! { "_id": id, "a": [id, 2], "b": id },
                })
                .collect()
        };
        let world = World::new(1 << 20, 1 << 22).await;
        world.create_index(doc! { "a": 1, "b": 1 }).await.expect("an index");
        let inserted = world
            .engine
            .insert(&namespace(), InsertStatement::of(documents(), false).expect("documents"))
            .await
            .expect("most are fine");
        assert_eq!((inserted.count, codes(&inserted)), (8, vec![(3, 171), (7, 171)]));
        assert_eq!(world.ids(doc! {}).await, [0, 1, 2, 4, 5, 6, 8, 9]);
        assert_eq!(world.ids(doc! { "a": 2, "b": { "$gte": 0 } }).await, [0, 1, 2, 4, 5, 6, 8, 9]);

        let world = World::new(1 << 20, 1 << 22).await;
        world.create_index(doc! { "a": 1, "b": 1 }).await.expect("an index");
        let inserted = world
            .engine
            .insert(&namespace(), InsertStatement::of(documents(), true).expect("documents"))
            .await
            .expect("the first are fine");
        assert_eq!((inserted.count, codes(&inserted)), (3, vec![(3, 171)]));
        assert_eq!(world.ids(doc! {}).await, [0, 1, 2]);

        let one = world
            .engine
            .insert(
                &namespace(),
                InsertStatement::of(vec![doc! { "_id": 20, "a": [1], "b": [3] }], true).expect("documents"),
            )
            .await;
        assert_eq!(codes(&one.expect("a write error, not a failed command")), [(0, 171)]);
    });
}

/// A statement that stored some of its documents says which, whatever became of the others.
#[test]
fn what_is_stored_of_an_insert_that_fails_in_its_middle_is_said() {
    const DOCUMENTS: usize = 9000;
    run(async {
        for ordered in [false, true] {
            let mut in_the_middle = 0;
            for passing in 0.. {
                let server = Arc::new(Backend::open(Memory::new(), [1; 16]).expect("memory does not fail"));
                let directory = tempfile::tempdir().expect("a folder");
                let local = Failing::new(Memory::new());
                let faults = local.faults();
                let channel = Arc::new(Direct::new(server));
                let engine = one_process::open(directory.path(), local, channel, Settings::default());
                let engine = engine.await.expect("an engine");
                engine
                    .insert(
                        &namespace(),
                        InsertStatement::of(vec![doc! { "_id": -1 }], true).expect("documents"),
                    )
                    .await
                    .expect("a document");
                faults.fail_commit_after(passing);
                let documents = (0..i32::try_from(DOCUMENTS).expect("few")).map(|id| doc! { "_id": id });
                let outcome = engine
                    .insert(
                        &namespace(),
                        InsertStatement::of(documents.collect(), ordered).expect("documents"),
                    )
                    .await;
                faults.heal();
                let query = Query {
                    filter: Filter::parse(&doc! { "_id": { "$gte": 0 } }).expect("a filter"),
                    sort: Sort::default(),
                    skip: 0,
                    limit: None,
                    hint: None,
                    allow_disk_use: true,
                };
                let stored = engine.count(&namespace(), query).await.expect("a count");
                let stored = usize::try_from(stored).expect("few");
                match outcome {
                    Err(_) => assert_eq!(stored, 0, "{passing}: it said that nothing was stored"),
                    Ok(inserted) => {
                        let said = usize::try_from(inserted.count).expect("few");
                        let failed: Vec<usize> =
                            inserted.failures.iter().map(|failure| failure.position).collect();
                        assert_eq!(said, stored, "{passing}");
                        let expected: Vec<usize> =
                            (stored..if ordered { DOCUMENTS.min(stored + 1) } else { DOCUMENTS }).collect();
                        assert_eq!(failed, expected, "{passing}");
                        in_the_middle += usize::from(0 < stored && stored < DOCUMENTS);
                        if stored == DOCUMENTS {
                            break;
                        }
                    }
                }
            }
            assert!(in_the_middle > 0, "no insert failed in its middle");
        }
    });
}
