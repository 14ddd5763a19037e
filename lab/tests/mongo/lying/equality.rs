//! Equality indexes over time: what searches cover, what the proxy keeps, and that every entry is found.

use super::Outcome;
use super::channel::rand_below;
use super::world::World;
use crate::client::Client;
use arras_engine::Settings;
use arras_engine::cleanup::Cleanup;
use arras_storage::{Direction, Read, Storage, Table};
use bson::{Document, doc};
use std::ops::{Bound, ControlFlow};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Searches after which a cleanup behind them must have been done.
const SEARCHES_MAX: usize = 20_000;

fn settings(cleanup: Cleanup) -> Settings {
    Settings { patience: Duration::ZERO, cleanup, ..Settings::default() }
}

/// A world whose index `a` serves equality alone: by a range index, whose entries are estimated, a value may at times
/// be cheaper to find, and such a search covers no counters.
async fn of_equality(cleanup: Cleanup) -> World {
    let world = World::with(0, settings(cleanup)).await;
    let mut client = world.connect().await;
    client.ok(doc! { "dropIndexes": "c", "index": "a" }).await;
    let only = doc! { "arras": { "operations": ["eq"] } };
    let index = doc! { "key": { "a": 1 }, "name": "a", "storageEngine": only };
    client.ok(doc! { "createIndexes": "c", "indexes": [index] }).await;
    world
}

async fn insert(client: &mut Client, ids: impl Iterator<Item = i32>, value: i32) {
    let documents: Vec<Document> = ids.map(|id| doc! { "_id": id, "a": value, "u": id }).collect();
    client.ok(doc! { "insert": "c", "documents": documents }).await;
}

async fn set(client: &mut Client, id: i32, value: i32) {
    let update = doc! { "q": { "_id": id }, "u": { "$set": { "a": value } } };
    client.ok(doc! { "update": "c", "updates": [update] }).await;
}

async fn delete(client: &mut Client, ids: Vec<i32>) {
    client.ok(doc! { "delete": "c", "deletes": [{ "q": { "_id": { "$in": ids } }, "limit": 0 }] }).await;
}

/// How many documents have a value, by the index, and how many counters the search covered.
async fn search(world: &World, client: &mut Client, value: i32) -> (usize, u64) {
    world.channel.covered.store(0, Ordering::SeqCst);
    let reply = client.ok(doc! { "find": "c", "filter": { "a": value }, "batchSize": 100_000 }).await;
    let found = reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len();
    (found, world.channel.covered.load(Ordering::SeqCst))
}

/// Records of values in the proxy's own store.
fn records(world: &World) -> usize {
    let mut records = 0;
    let all = (Bound::Unbounded, Bound::Unbounded);
    let reader = world.local.read().unwrap();
    let mut count = |_: &[u8], _: &[u8]| {
        records += 1;
        ControlFlow::Continue(())
    };
    reader.scan(Table("counters"), all, Direction::Ascending, &mut count).unwrap();
    records
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_goes_and_comes_back_is_searched_like_a_new_one() {
    let world = of_equality(Cleanup::Threshold).await;
    let mut client = world.connect().await;
    insert(&mut client, [1, 2, 3].into_iter(), 7).await;
    insert(&mut client, [4].into_iter(), 8).await;
    for _ in 0..500 {
        // The only document of its value, and one of several.
        for (id, value) in [(4, 8), (2, 7)] {
            set(&mut client, id, 9).await;
            set(&mut client, id, value).await;
        }
    }
    assert_eq!(search(&world, &mut client, 8).await, (1, 1));
    assert_eq!(search(&world, &mut client, 7).await, (3, 3));
    assert_eq!(search(&world, &mut client, 9).await, (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn values_that_are_gone_are_forgotten() {
    let world = of_equality(Cleanup::Threshold).await;
    let mut client = world.connect().await;
    for id in 0..20 {
        insert(&mut client, [id].into_iter(), id).await;
    }
    let before = records(&world);
    assert_eq!(before, 20);
    for id in 20..400 {
        insert(&mut client, [id].into_iter(), id).await;
        delete(&mut client, vec![id - 20]).await;
        assert_eq!(records(&world), before);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_a_collection_whose_drop_was_in_doubt_are_forgotten_at_the_next_start() {
    let world = of_equality(Cleanup::Threshold).await;
    let mut client = world.connect().await;
    client.ok(doc! { "createIndexes": "kept", "indexes": [{ "key": { "a": 1 }, "name": "a" }] }).await;
    client.ok(doc! { "insert": "kept", "documents": [{ "_id": 1, "a": 1 }, { "_id": 2, "a": 2 }] }).await;
    insert(&mut client, 0..20, 7).await;
    insert(&mut client, 20..40, 8).await;
    assert_eq!(records(&world), 4);
    world.channel.lose_reply.store(true, Ordering::SeqCst);
    let Outcome::Error(told) = world.outcome(&mut client, &doc! { "drop": "c" }).await else {
        panic!("its outcome is not known");
    };
    assert!(told.contains("will be completed"), "{told}");
    let world = world.restart().await;
    assert_eq!(records(&world), 2, "those of the collection that is there");
    let reply = world.connect().await.ok(doc! { "find": "kept", "filter": { "a": 1 } }).await;
    assert_eq!(reply.get_document("cursor").unwrap().get_array("firstBatch").unwrap().len(), 1);
}

/// Deletes all but some of a value's documents in a random order, so that holes are everywhere.
async fn thin_out(client: &mut Client, documents: i32, left: usize) {
    let mut ids: Vec<i32> = (0..documents).collect();
    while ids.len() > left {
        let chosen = (0..100.min(ids.len() - left)).map(|_| ids.swap_remove(rand_below(ids.len()))).collect();
        delete(client, chosen).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_that_meets_holes_has_them_cleaned_behind_it() {
    // As a whole: then nothing is covered in vain. And piece by piece: then no more than there are entries, which is
    // worth no cleanup.
    for (documents, left, covered_max) in [(300, 40, 40), (2600, 1100, 2200)] {
        let world = of_equality(Cleanup::Threshold).await;
        let mut client = world.connect().await;
        for begin in (0..documents).step_by(1000) {
            insert(&mut client, begin..documents.min(begin + 1000), 7).await;
        }
        thin_out(&mut client, documents, left).await;
        let (found, at_first) = search(&world, &mut client, 7).await;
        assert_eq!(found, left);
        assert!(at_first > 2 * left as u64 + 16, "{at_first} covered: nothing is to be cleaned");
        let mut searches = 0;
        loop {
            let (found, covered) = search(&world, &mut client, 7).await;
            assert_eq!(found, left);
            if covered <= covered_max {
                break;
            }
            searches += 1;
            assert!(searches < SEARCHES_MAX, "{covered} covered still, {at_first} at first");
        }
        let world = world.restart().await;
        let mut client = world.connect().await;
        let (found, covered) = search(&world, &mut client, 7).await;
        assert!(found == left && covered <= covered_max, "{found} found, {covered} covered");
        delete(&mut client, (0..documents).collect()).await;
        assert_eq!((records(&world), world.all(&mut client).await.len()), (0, 0));
    }
}

/// A cleanup gives the entries other places and the documents' headers name those. A server that shows the headers from
/// before beside the same fields would have the proxy take out entries that are not the documents'.
#[tokio::test(flavor = "multi_thread")]
async fn headers_from_before_a_cleanup_are_not_taken_for_those_from_after_it() {
    let world = of_equality(Cleanup::Threshold).await;
    let mut client = world.connect().await;
    insert(&mut client, 0..120, 7).await;
    assert_eq!(world.all(&mut client).await.len(), 120);
    delete(&mut client, (0..120).filter(|id| id % 3 != 0).collect()).await;
    let mut searches = 0;
    while search(&world, &mut client, 7).await != (40, 40) {
        searches += 1;
        assert!(searches < SEARCHES_MAX, "not cleaned");
    }
    world.channel.old_headers.store(true, Ordering::SeqCst);
    for id in (0..120).step_by(3) {
        let update = doc! { "q": { "_id": id }, "u": { "$set": { "a": 8 } } };
        let removal = doc! { "q": { "_id": id }, "limit": 1 };
        for command in
            [doc! { "update": "c", "updates": [update] }, doc! { "delete": "c", "deletes": [removal] }]
        {
            let Outcome::Error(told) = world.outcome(&mut client, &command).await else {
                panic!("document {id} was changed by an older header");
            };
            assert!(told.contains("not among those on record"), "{told}");
        }
    }
    world.channel.old_headers.store(false, Ordering::SeqCst);
    assert_eq!(search(&world, &mut client, 7).await, (40, 40));
    delete(&mut client, (0..120).collect()).await;
    assert_eq!((records(&world), world.all(&mut client).await.len()), (0, 0));
}

/// The statements are of more documents than are dealt with at a time, so that those that come later were read before
/// what the first took away is cleaned.
#[tokio::test(flavor = "multi_thread")]
async fn statements_about_many_documents_leave_every_entry_right_beside_cleanup() {
    let world = of_equality(Cleanup::EachDelete).await;
    let mut client = world.connect().await;
    for value in 0..3 {
        insert(&mut client, (0..900).map(|number| number * 3 + value), value).await;
    }
    // Every value keeps a ninth of its entries.
    let gone: Vec<i32> = (0..2700).filter(|id| id % 27 > 2).collect();
    delete(&mut client, gone.iter().copied().filter(|id| id % 2 == 0).collect()).await;
    let odd: Vec<i32> = gone.into_iter().filter(|id| id % 2 == 1).collect();
    let update =
        doc! { "q": { "_id": { "$in": odd.clone() } }, "u": { "$set": { "a": 7, "m": 1 } }, "multi": true };
    client.ok(doc! { "update": "c", "updates": [update] }).await;
    for value in 0..3 {
        assert_eq!(search(&world, &mut client, value).await, (100, 100), "of value {value}");
    }
    assert_eq!(search(&world, &mut client, 7).await.0, odd.len());
    delete(&mut client, (0..2700).collect()).await;
    assert_eq!((records(&world), world.all(&mut client).await.len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_is_cleaned_with_each_deletion_if_asked_for() {
    let world = of_equality(Cleanup::EachDelete).await;
    let mut client = world.connect().await;
    // Among many of other values: else reading all is the plan.
    insert(&mut client, 100_000..100_400, 9).await;
    insert(&mut client, 0..40, 7).await;
    let mut ids: Vec<i32> = (0..40).collect();
    while ids.len() > 1 {
        let chosen = ids.swap_remove(rand_below(ids.len()));
        if chosen % 2 == 0 {
            delete(&mut client, vec![chosen]).await;
        } else {
            set(&mut client, chosen, 1000 + chosen).await;
        }
        let left = ids.len();
        assert_eq!(search(&world, &mut client, 7).await, (left, left as u64));
        // As if the values that went had never been: the covering set is that of so many from the first on.
        assert_eq!(world.channel.tokens.load(Ordering::SeqCst), left.count_ones() as usize);
    }
}

/// What goes from among many is paid for by moving few: the shortest of more stretches than a record can name.
#[tokio::test(flavor = "multi_thread")]
async fn cleaning_a_value_of_many_entries_with_each_deletion_moves_few() {
    let world = of_equality(Cleanup::EachDelete).await;
    let mut client = world.connect().await;
    let documents = 3000;
    for begin in (0..documents).step_by(1000) {
        insert(&mut client, begin..begin + 1000, 7).await;
    }
    let mut ids: Vec<i32> = (0..documents).collect();
    world.channel.entered.store(0, Ordering::SeqCst);
    let deletions = 24;
    for _ in 0..deletions {
        let chosen = ids.swap_remove(rand_below(ids.len()));
        delete(&mut client, vec![chosen]).await;
    }
    let moved = world.channel.entered.load(Ordering::SeqCst);
    // Of five stretches the shortest has no more than a fifth.
    assert!(moved > 0 && moved <= deletions * ids.len() / 5, "{moved} entries moved");
    assert_eq!(search(&world, &mut client, 7).await, (ids.len(), ids.len() as u64));
    let world = world.restart().await;
    let mut client = world.connect().await;
    assert_eq!(search(&world, &mut client, 7).await, (ids.len(), ids.len() as u64));
    delete(&mut client, (0..documents).collect()).await;
    assert_eq!((records(&world), world.all(&mut client).await.len()), (0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn records_are_right_after_refused_and_lost_writes_and_restarts() {
    for cleanup in [Cleanup::Threshold, Cleanup::EachDelete] {
        let mut world = World::with(0, settings(cleanup)).await;
        let (mut ids, mut failures) = (Vec::new(), 0);
        for turn in 0..24_i32 {
            let mut client = world.connect().await;
            let channel = &world.channel;
            let faults =
                [&channel.refuse_write, &channel.refuse_write, &channel.lose_write, &channel.lose_reply];
            // One write is refused whatever chance has.
            let (fault, is_faulty) = if turn == 5 { (0, true) } else { (rand_below(4), rand_below(3) == 0) };
            faults[fault].store(is_faulty, Ordering::SeqCst);
            let document = doc! { "_id": turn, "a": turn % 3, "u": turn };
            let command = match turn % 4 {
                0 | 1 => doc! { "insert": "c", "documents": [document] },
                2 => {
                    doc! { "update": "c", "updates": [{ "q": {}, "u": { "$set": { "a": turn % 3 } }, "multi": true }] }
                }
                _ => doc! { "delete": "c", "deletes": [{ "q": { "_id": turn / 3 }, "limit": 1 }] },
            };
            ids.push(turn);
            failures += usize::from(client.run(command).await.get_f64("ok").unwrap() != 1.0);
            faults.iter().for_each(|fault| fault.store(false, Ordering::SeqCst));
            if rand_below(3) == 0 {
                world = world.restart().await;
            }
            let mut client = world.connect().await;
            let all = world.all_in_the_end(&mut client).await;
            for value in 0..3 {
                let with = all.iter().filter(|document| document.get_i32("a").unwrap() == value).count();
                assert_eq!(search(&world, &mut client, value).await.0, with, "turn {turn}");
            }
        }
        assert!(failures > 0, "no write failed");
    }
}
