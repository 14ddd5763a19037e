//! Many entries are added beside their buckets, which are rewritten now and then.

use crate::answers::{Entries, Twin, compare, entries};
use crate::world::{Client, INDEX, World, parameters, run};
use arras_protocol::arx_range::{ArxRange as Protocol, FoundBucket, Request, Response};
use arras_protocol::{Channel, NodeId};
use arras_schemes::arx_range::ArxRangeParameters;
use std::sync::Arc;

/// Entries of a bucket on average, and twice as many as may be beside one.
const BUCKET: u64 = 16;

fn buckets_of_some() -> ArxRangeParameters {
    parameters(BUCKET, 8, 0)
}

/// Insertion of `count` keys in all of the space, another set for each `number`.
fn batch(number: u16, count: u16) -> Entries {
    let key = |place: u16| (place.wrapping_mul(1031).wrapping_add(number.wrapping_mul(7919)), 0, 1);
    ((0..count).map(key).collect(), Vec::new())
}

async fn change(client: &Client, twin: &mut Twin, change: &Entries) {
    let (insert, remove) = entries(&client.parameters, change);
    client.own.change(insert, remove).await.expect("no fault is planned");
    twin.change(&client.parameters, change).await;
}

/// Names and bytes of what is beside buckets.
fn beside(world: &World) -> Vec<(Vec<u8>, usize)> {
    let stored = world.stored().into_iter();
    let added = stored.filter(|(table, name, _)| *table == "arx_range_buckets" && name.len() > 24);
    added.map(|(_, name, bytes)| (name, bytes)).collect()
}

async fn bucket(world: &Arc<World>, node: NodeId) -> FoundBucket {
    let request = Request::Buckets { index: INDEX, nodes: vec![node] };
    let Ok(Response::Buckets(mut found)) = Channel::<Protocol>::call(&**world, request).await else {
        panic!("no bucket")
    };
    found.remove(0)
}

/// How many records are beside each bucket, in the order of the list.
async fn beside_each(world: &Arc<World>) -> Vec<usize> {
    let (mut node, mut counts) = (Some(NodeId::HEAD), Vec::new());
    while let Some(at) = node {
        let found = bucket(world, at).await;
        counts.push(found.added.len());
        node = found.bucket.next;
    }
    counts
}

#[test]
fn a_batch_of_many_neither_reads_nor_rewrites_most_of_its_buckets() {
    run(async {
        let world = World::new();
        let client = Client::create(&world, buckets_of_some()).await;
        let mut twin = Twin::default();
        for number in 0..20 {
            change(&client, &mut twin, &batch(number, 100)).await;
        }
        let counts = beside_each(&world).await;
        assert!(counts.len() > 60, "{} buckets", counts.len());
        // Not one of them has more than half a bucket's entries beside it.
        assert!(counts.iter().all(|count| *count as u64 <= BUCKET / 2), "{counts:?}");
        assert!(counts.iter().sum::<usize>() > counts.len(), "{counts:?}");
        world.take_transcript();
        for number in 20..40 {
            change(&client, &mut twin, &batch(number, 100)).await;
        }
        let sent: usize = world.take_transcript().iter().map(|(sent, received)| sent + received).sum();
        // A bucket and what goes with it is some 800 bytes, and would go both ways for each entry.
        assert!(sent < 2000 * 900, "{sent} bytes both ways for 2,000 entries");
        compare(&client.own, &twin, (0, u16::MAX), false, None).await;
        compare(&client.own, &twin, (3000, 9000), true, Some(7)).await;
        world.shape().await;
    });
}

#[test]
fn what_was_added_is_removed_replaced_and_split_like_any_entry() {
    run(async {
        let world = World::new();
        let mut client = Client::create(&world, buckets_of_some()).await;
        let mut twin = Twin::default();
        for number in 0..12 {
            change(&client, &mut twin, &batch(number, 100)).await;
        }
        assert!(beside(&world).len() > 50);
        // Twice the same: nobody looks whether it is there, and it is there once.
        change(&client, &mut twin, &batch(11, 100)).await;
        compare(&client.own, &twin, (0, u16::MAX), false, None).await;
        // Whoever changes a bucket otherwise takes in what is beside it.
        let gone: Vec<(u16, u8)> = batch(11, 100).0.iter().map(|(key, row, _)| (*key, *row)).collect();
        change(&client, &mut twin, &(Vec::new(), gone)).await;
        compare(&client.own, &twin, (0, u16::MAX), false, None).await;
        // A process that does not know what is beside a bucket rewrites it.
        client.restart().await.expect("no fault is planned");
        let before = beside(&world);
        change(&client, &mut twin, &batch(12, 100)).await;
        assert!(beside(&world).iter().all(|record| before.contains(record)));
        assert!(beside(&world).len() < before.len());
        for number in 13..30 {
            change(&client, &mut twin, &batch(number, 100)).await;
        }
        compare(&client.own, &twin, (0, u16::MAX), true, None).await;
        // All gone: nothing is left beside the head.
        let all: Vec<(u16, u8)> =
            (0..30).flat_map(|number| batch(number, 100).0).map(|(k, r, _)| (k, r)).collect();
        change(&client, &mut twin, &(Vec::new(), all)).await;
        assert_eq!(beside(&world), Vec::new());
        assert_eq!(beside_each(&world).await, [0]);
    });
}

#[test]
fn records_beside_buckets_show_a_power_of_two_of_entries_and_no_more() {
    run(async {
        let world = World::new();
        let client = Client::create(&world, buckets_of_some()).await;
        let mut twin = Twin::default();
        for number in 0..40 {
            change(&client, &mut twin, &batch(number, 300)).await;
        }
        let mut lengths: Vec<usize> = beside(&world).iter().map(|(_, bytes)| *bytes).collect();
        lengths.sort_unstable();
        lengths.dedup();
        // A nonce, a tag, a count; a key of two bytes, its tie-break and a row each.
        let of = |entries: usize| 12 + 16 + 4 + entries * (2 + 4 + 16);
        assert!(
            lengths.len() > 1 && lengths.iter().all(|length| [of(1), of(2), of(4)].contains(length)),
            "{lengths:?}"
        );
    });
}
