//! Writes that are asked to end: where nothing of them is recorded they do, and between two of their atomic parts.

use crate::world::{World, namespace, run};
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_documents::update::{ArrayFilters, Update};
use arras_service::interrupt::{Interrupt, Reason};
use arras_service::store::{DeleteStatement, IndexDefinition, Modification, Query, Store, UpdateStatement};
use arras_service::{Fault, ServiceError};
use bson::{Document, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const DOCUMENTS: i32 = 6000;

async fn filled() -> World {
    let world = World::new(1 << 20, 4 << 20).await;
    let documents = (0..DOCUMENTS).map(|id| doc! { "_id": id, "n": id % 10 }).collect();
    world.insert(documents).await.expect("documents");
    world
}

/// The sign comes with the request of that number from now on.
fn raised_with_request(world: &World, number: usize) -> Interrupt {
    let interrupt = Interrupt::default();
    let (sign, mut requests) = (interrupt.clone(), 0);
    let watch = move || {
        requests += 1;
        if requests == number {
            sign.raise(Reason::Killed);
        }
    };
    *world.channel.watch.lock().expect("no watch") = Some(Box::new(watch));
    interrupt
}

fn is_interrupted<T: std::fmt::Debug>(outcome: Result<T, ServiceError>) {
    assert_eq!(outcome.expect_err("an interruption").fault, Fault::Interrupted(Reason::Killed));
}

fn filter(filter: &Document) -> Filter {
    Filter::parse(filter).expect("a filter")
}

fn update(matching: &Document, interrupt: Interrupt) -> UpdateStatement {
    UpdateStatement {
        filter: filter(matching),
        update: Update::parse(&bson::bson!({ "$inc": { "m": 1 } })).expect("an update"),
        hint: None,
        array_filters: ArrayFilters::default(),
        multi: true,
        upsert: None,
        interrupt,
    }
}

async fn changed(world: &World) -> usize {
    *world.channel.watch.lock().expect("no watch") = None;
    world.ids(doc! { "m": 1 }).await.len()
}

#[test]
fn a_search_for_what_is_to_be_changed_ends() {
    run(async {
        let world = filled().await;
        // Nothing matches: no atomic part ever ends.
        let nothing = doc! { "n": 77 };
        let interrupt = raised_with_request(&world, 2);
        is_interrupted(world.engine.update(&namespace(), update(&nothing, interrupt)).await);
        let statement = DeleteStatement {
            filter: filter(&nothing),
            hint: None,
            multi: true,
            interrupt: raised_with_request(&world, 2),
        };
        is_interrupted(world.engine.delete(&namespace(), statement).await);
        let query = Query {
            filter: filter(&nothing),
            sort: Sort::default(),
            skip: 0,
            limit: None,
            hint: None,
            allow_disk_use: true,
        };
        let interrupt = raised_with_request(&world, 2);
        let removal = Modification::Remove;
        is_interrupted(world.engine.find_and_modify(&namespace(), query, removal, interrupt).await);
        assert_eq!(changed(&world).await, 0);
    });
}

#[test]
fn a_change_of_many_documents_ends_between_two_parts() {
    run(async {
        let world = filled().await;
        let everything = doc! {};
        let before = world.channel.requests.load(Ordering::SeqCst);
        world
            .engine
            .update(&namespace(), update(&doc! { "n": 77 }, Interrupt::default()))
            .await
            .expect("a look");
        let looks = world.channel.requests.load(Ordering::SeqCst) - before;
        let interrupt = raised_with_request(&world, looks + 2);
        is_interrupted(world.engine.update(&namespace(), update(&everything, interrupt)).await);
        let changed = changed(&world).await;
        assert!(
            (1..=3000).contains(&changed),
            "{changed} of {DOCUMENTS} documents, of which some were on their way"
        );
    });
}

#[test]
fn what_a_change_of_many_documents_has_written_is_not_kept_for_its_own_reads() {
    run(async {
        let cases = [
            (doc! { "n": { "$gte": 0 } }, doc! { "n": 1 }),
            (doc! { "n": { "$in": [1, 2, 3, 4, 5, 6, 7] } }, doc! { "n": "hashed" }),
            (doc! {}, doc! { "n": 1 }),
        ];
        for (matching, index) in cases {
            let world = filled().await;
            world.create_index(index).await.expect("an index");
            let most = Arc::new(AtomicUsize::new(0));
            let (engine, seen) = (world.engine.clone(), Arc::clone(&most));
            let watch = move || {
                seen.fetch_max(engine.kept_changes(), Ordering::SeqCst);
            };
            *world.channel.watch.lock().expect("no watch") = Some(Box::new(watch));
            let outcome = world.engine.update(&namespace(), update(&matching, Interrupt::default())).await;
            let modified = outcome.expect("an update").modified;
            assert!(modified > 4000, "{modified} documents");
            *world.channel.watch.lock().expect("no watch") = None;
            let most = most.load(Ordering::SeqCst);
            assert!(most <= 2000, "{most} changes are kept beside {matching}, of writes of 1000");
        }
    });
}

#[test]
fn an_index_that_is_being_filled_is_taken_back() {
    run(async {
        for key in [doc! { "n": 1 }, doc! { "n": "hashed" }] {
            let world = filled().await;
            let request = || IndexDefinition {
                name: "made".into(),
                key: key.clone(),
                unique: false,
                sparse: false,
                options: Document::new(),
            };
            let interrupt = raised_with_request(&world, 5);
            is_interrupted(world.engine.create_indexes(&namespace(), vec![request()], interrupt).await);
            assert_eq!(world.engine.indexes(&namespace()).await.expect("a list").len(), 1, "{key}");
            assert!(world.engine.index_builds().is_empty());
            *world.channel.watch.lock().expect("no watch") = None;
            let made = world.engine.create_indexes(&namespace(), vec![request()], Interrupt::default()).await;
            assert_eq!(made.expect("nobody ends it"), (1, 2));
            assert_eq!(world.ids(doc! { "n": 3 }).await.len(), 600);
        }
    });
}
