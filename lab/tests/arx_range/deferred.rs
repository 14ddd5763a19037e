//! Circuits are made when a search needs them: none while an index is filled, those of the trees a search comes to, once.

use crate::answers::{Entries, Twin, compare, entries};
use crate::world::{Client, Fault, World, parameters, run};
use arras_protocol::arx_range::{Order, Request};
use arras_schemes::arx_range::ArxRangeParameters;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Trees of some nodes each, a separator every second entry or so.
fn some_trees() -> ArxRangeParameters {
    parameters(2, 8, 0)
}

/// Insertion of `count` keys in all of the space, another set for each `number`.
fn batch(number: u16, count: u16) -> Entries {
    let key = |place: u16| (place.wrapping_mul(257).wrapping_add(number.wrapping_mul(7919)), 0, 1);
    ((0..count).map(key).collect(), Vec::new())
}

async fn fill(client: &Client, twin: &mut Twin, number: u16, count: u16) {
    let change = batch(number, count);
    let (insert, remove) = entries(&client.parameters, &change);
    client.own.change(insert, remove).await.expect("inserts");
    twin.change(&client.parameters, &change).await;
}

async fn search(client: &Client, lower: u16, upper: u16) {
    let [lower, upper] = [lower, upper].map(|key| key.to_be_bytes().to_vec());
    let found = client.own.index.search(lower, upper, Order::Ascending, None).await;
    found.expect("searches").1.run().await.expect("repairs");
}

fn rows(world: &World, table: &str) -> usize {
    world.stored().iter().filter(|(other, ..)| *other == table).count()
}

#[test]
fn no_circuit_is_made_while_an_index_is_filled() {
    run(async {
        let world = World::new();
        let client = Client::create(&world, some_trees()).await;
        let mut twin = Twin::default();
        for number in 0..8 {
            fill(&client, &mut twin, number, 100).await;
        }
        assert!(rows(&world, "arx_range_nodes") > 100);
        assert_eq!(rows(&world, "arx_range_circuits"), 0);
        assert_eq!(world.auditor.put(), 0);
        compare(&client.own, &twin, (0, u16::MAX), false, None).await;
        world.shape().await;
    });
}

#[test]
fn a_search_makes_the_circuits_of_its_own_trees_once() {
    run(async {
        let world = World::new();
        let client = Client::create(&world, some_trees()).await;
        let mut twin = Twin::default();
        for number in 0..8 {
            fill(&client, &mut twin, number, 100).await;
        }
        let nodes = rows(&world, "arx_range_nodes");
        search(&client, 1000, 1010).await;
        let (first, kept) = (world.auditor.put(), rows(&world, "arx_range_circuits"));
        assert!(first > 0 && kept == first, "{first} made, {kept} kept");
        assert!(first < nodes, "{first} circuits made for one range, of two for each of {nodes} nodes");
        // The tree is ready: what is opened is made anew, and no more.
        let opened = world.auditor.opened();
        search(&client, 1000, 1010).await;
        assert_eq!(
            world.auditor.put() - first,
            usize::try_from(world.auditor.opened() - opened).expect("few")
        );
        assert_eq!(rows(&world, "arx_range_circuits"), kept);
        // Changes put it off again, however many, and elsewhere nothing is made.
        let before = world.auditor.put();
        for number in 8..12 {
            fill(&client, &mut twin, number, 100).await;
        }
        assert_eq!(world.auditor.put(), before);
        search(&client, 1000, 1010).await;
        assert!(world.auditor.put() - before < 2 * rows(&world, "arx_range_nodes"));
        compare(&client.own, &twin, (0, u16::MAX), true, None).await;
        compare(&client.own, &twin, (900, 1100), false, Some(3)).await;
    });
}

#[test]
fn a_change_of_an_unready_tree_leaves_it_so_and_of_a_ready_one_ready() {
    run(async {
        let world = World::new();
        let client = Client::create(&world, some_trees()).await;
        let mut twin = Twin::default();
        fill(&client, &mut twin, 0, 200).await;
        for number in 0..20 {
            fill(&client, &mut twin, 100 + number, 1).await;
        }
        // Only trees that came to be with one of those were given theirs.
        let nodes = rows(&world, "arx_range_nodes");
        assert!(world.auditor.put() < nodes / 2, "{} circuits for {nodes} nodes", world.auditor.put());
        for from in (0..64000).step_by(1000) {
            search(&client, from, from + 500).await;
        }
        let circuits = rows(&world, "arx_range_circuits");
        for number in 20..60 {
            fill(&client, &mut twin, 100 + number, 1).await;
        }
        // Whatever tree those came to, it can still be walked.
        assert!(circuits > nodes && rows(&world, "arx_range_circuits") >= circuits);
        let loads = count_loads(&world);
        for from in (0..64000).step_by(1000) {
            search(&client, from, from + 500).await;
        }
        assert_eq!(loads.load(Ordering::SeqCst), 0);
        compare(&client.own, &twin, (0, u16::MAX), false, None).await;
    });
}

/// Counts the trees asked for.
fn count_loads(world: &World) -> Arc<AtomicUsize> {
    let loads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&loads);
    world.set_tamper(Some(Box::new(move |request, _| {
        if let Request::LoadTrees { roots, .. } = request {
            counted.fetch_add(roots.len(), Ordering::SeqCst);
        }
    })));
    loads
}

#[test]
fn trees_are_loaded_once_for_any_number_of_changes() {
    run(async {
        let world = World::new();
        let mut client = Client::create(&world, some_trees()).await;
        let mut twin = Twin::default();
        fill(&client, &mut twin, 0, 200).await;
        client.restart().await.expect("no fault is planned");
        let loads = count_loads(&world);
        fill(&client, &mut twin, 1, 100).await;
        let first = loads.load(Ordering::SeqCst);
        assert!(first > 0);
        for number in 2..10 {
            fill(&client, &mut twin, number, 40).await;
        }
        // But for trees whose top nodes went down among them, which happens when the index doubles.
        assert!(loads.load(Ordering::SeqCst) < 3 * first + 3, "{} of {first}", loads.load(Ordering::SeqCst));
        compare(&client.own, &twin, (0, u16::MAX), false, None).await;
        world.shape().await;
    });
}

#[test]
fn changes_and_searches_between_crashes_answer_right() {
    run(async {
        for fault in [Fault::LostRequest, Fault::LostReply, Fault::Crash] {
            for passing in 0..24 {
                let world = World::new();
                let mut client = Client::create(&world, some_trees()).await;
                let mut twin = Twin::default();
                fill(&client, &mut twin, 0, 120).await;
                world.fail_after(passing, fault);
                for number in 1..4 {
                    // A change that failed is made again: it is the same either way.
                    let (insert, remove) = entries(&client.parameters, &batch(number, 40));
                    let mut attempts = 0;
                    while client.own.change(insert.clone(), remove.clone()).await.is_err() {
                        attempts += 1;
                        assert!(attempts < 3, "one fault is planned");
                    }
                    twin.change(&client.parameters, &batch(number, 40)).await;
                    for from in [0, 9000, 33000] {
                        let [lower, upper] = [from, from + 90].map(|key: u16| key.to_be_bytes().to_vec());
                        let found = client.own.index.search(lower, upper, Order::Ascending, None).await;
                        if let Ok((_, repair)) = found {
                            let _ = repair.run().await;
                        }
                    }
                    if number == 2 {
                        world.crash(usize::MAX);
                        client.own.index.new_epoch().await;
                    }
                }
                world.heal();
                client.restart().await.expect("the channel is healed");
                compare(&client.own, &twin, (0, u16::MAX), false, None).await;
                world.shape().await;
            }
        }
    });
}
