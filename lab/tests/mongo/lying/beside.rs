//! An honest server is not taken for a lying one: by queries beside writes, after lost messages, after restarts.

use super::Outcome;
use super::channel::rand_below;
use super::world::{self, World};
use crate::client::Client;
use bson::{Document, doc};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Changes documents of its own numbers until stopped; how many there are of them then.
async fn write(mut client: Client, own: i32, stop: Arc<AtomicBool>) -> i32 {
    let mut there = [false; 20];
    while !stop.load(Ordering::SeqCst) {
        let place = rand_below(there.len());
        let number = own * 1000 + i32::try_from(place).unwrap();
        let by_number = doc! { "_id": number };
        if !there[place] {
            client.ok(world::insert([number])).await;
        } else if rand_below(2) == 0 {
            client.ok(doc! { "delete": "c", "deletes": [{ "q": by_number, "limit": 1 }] }).await;
        } else {
            let value = i32::try_from(rand_below(5)).unwrap();
            let update = doc! { "q": by_number, "u": { "$set": { "a": value } } };
            client.ok(doc! { "update": "c", "updates": [update] }).await;
            continue;
        }
        there[place] = !there[place];
    }
    i32::try_from(there.iter().filter(|there| **there).count()).unwrap()
}

/// Queries of every kind, a number of times.
async fn read(mut client: Client, done: Arc<AtomicUsize>) {
    let find = |filter: Document| doc! { "find": "c", "filter": filter };
    for turn in 0..120 {
        let value = turn % 5;
        client.ok(find(doc! {})).await;
        client.ok(find(doc! { "a": value })).await;
        client.ok(find(doc! { "a": { "$gte": value } })).await;
        client.ok(find(doc! { "u": { "$in": [value, 1003, 2004, 3005] } })).await;
        client.ok(doc! { "find": "c", "sort": { "a": 1 }, "limit": 9 }).await;
        client.ok(doc! { "count": "c" }).await;
        done.fetch_add(1, Ordering::SeqCst);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_beside_writes_are_answered() {
    let world = World::new(40).await;
    world.channel.shuffled.store(true, Ordering::SeqCst);
    let (stop, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let mut writers = Vec::new();
    for own in 1..=3 {
        writers.push(tokio::spawn(write(world.connect().await, own, Arc::clone(&stop))));
    }
    let mut readers = Vec::new();
    for _ in 0..3 {
        readers.push(tokio::spawn(read(world.connect().await, Arc::clone(&done))));
    }
    let mut failed = None;
    for reader in readers {
        failed = reader.await.err().or(failed);
    }
    stop.store(true, Ordering::SeqCst);
    let mut left = 40;
    for writer in writers {
        left += writer.await.expect("its own message is above");
    }
    assert!(failed.is_none(), "a query failed: {failed:?}");
    let mut client = world.connect().await;
    assert_eq!(client.ok(doc! { "count": "c" }).await.get_i32("n").unwrap(), left);
    assert_eq!(world.all(&mut client).await.len(), usize::try_from(left).unwrap());
    assert_eq!(done.load(Ordering::SeqCst), 360);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_are_right_after_lost_writes_lost_replies_and_restarts() {
    let mut world = World::new(10).await;
    let mut in_doubt = 0;
    for turn in 0..16_i32 {
        let mut client = world.connect().await;
        let lost = [&world.channel.lose_write, &world.channel.lose_reply];
        lost[rand_below(2)].store(rand_below(2) == 0, Ordering::SeqCst);
        let command = if turn % 3 == 2 {
            doc! { "delete": "c", "deletes": [{ "q": { "_id": 99 + turn }, "limit": 1 }] }
        } else {
            world::insert([100 + turn])
        };
        in_doubt += usize::from(matches!(world.outcome(&mut client, &command).await, Outcome::Error(_)));
        if rand_below(3) == 0 {
            world = world.restart().await;
        }
        let mut client = world.connect().await;
        // A proxy that waited for its server in vain leaves it alone for a while.
        let counted = loop {
            if let Outcome::Answer(reply) = world.outcome(&mut client, &doc! { "count": "c" }).await {
                break reply.get_i32("n").unwrap();
            }
        };
        let there = world.all(&mut client).await.len();
        assert_eq!(usize::try_from(counted).unwrap(), there, "turn {turn}");
    }
    assert!(in_doubt > 0, "no message was lost");
    assert_eq!(world.channel.counts_asked(), 0);
}

/// Statements that wait for their turn while the collection is dropped are told that, not that the server knows none.
#[tokio::test(flavor = "multi_thread")]
async fn statements_that_a_drop_overtakes_are_told_so() {
    let world = World::new(40).await;
    let mut told = 0;
    for _ in 0..20 {
        let mut writing = tokio::task::JoinSet::new();
        for number in 0..8 {
            let mut client = world.connect().await;
            writing.spawn(async move {
                let update = match number % 2 {
                    0 => doc! { "q": {}, "u": { "$inc": { "m": 1 } }, "multi": true },
                    _ => doc! { "q": { "_id": number }, "u": { "$inc": { "m": 1 } } },
                };
                let mut replies = Vec::new();
                for _ in 0..30 {
                    replies.push(client.run(doc! { "update": "c", "updates": [update.clone()] }).await);
                }
                replies
            });
        }
        let mut client = world.connect().await;
        tokio::task::yield_now().await;
        client.run(doc! { "drop": "c" }).await;
        for reply in writing.join_all().await.into_iter().flatten() {
            let Ok(errors) = reply.get_array("writeErrors") else { continue };
            for error in errors {
                let code = error.as_document().unwrap().get_i32("code").unwrap();
                assert_eq!(code, 175, "{reply}");
                told += 1;
            }
        }
        client.ok(world::insert(0..40)).await;
    }
    assert!(told > 0, "no statement was overtaken");
}
