//! Messages that cross: late, repeated, or with others of another half between them.

use crate::crossing::{Crossed, Store, now};
use crate::world::{INDEX, Wire, key, memory, prg, run};
use arras_protocol::Order;
use arras_protocol::ore::Width;
use arras_protocol::pope::{Pope as Protocol, Request};
use arras_protocol::{Channel, Protocol as _, RowId, codec};
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::ore::domain::plaintext_key;
use arras_schemes::pope::{Keyed, Standalone};
use arras_schemes::traits::RangeIndex;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Gives the server a request once more.
fn send(wire: &Wire<Store>, request: &Request) {
    // What comes late may be refused.
    let _ = wire.backend().handle(Protocol::ID, &codec::encode(request));
}

async fn half<C: Channel<Protocol>>(channel: C, seed: u64) -> Standalone<C> {
    let key = key();
    let keyed = Keyed { index: INDEX, key: &key, width: Width::Bits32 };
    Standalone::create(channel, keyed, 512, prg(seed)).await.expect("made")
}

fn row(number: u64) -> RowId {
    RowId(u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060).to_be_bytes())
}

fn entry((value, row): (u64, RowId)) -> RangeEntry {
    RangeEntry { value: plaintext_key(Width::Bits32, value), row, sums: Vec::new() }
}

/// What a search of a range finds.
async fn found<C: Channel<Protocol>>(pope: &Standalone<C>, lower: u64, upper: u64) -> Vec<(u64, RowId)> {
    let [low, high] = [lower, upper].map(|value| plaintext_key(Width::Bits32, value));
    let found = pope.search(low, high, Order::Ascending, None).await.expect("searches");
    let mut found: Vec<_> = found
        .into_iter()
        .map(|(key, row)| (u64::from(u32::from_be_bytes(key.try_into().expect("4 bytes"))), row))
        .collect();
    found.sort_unstable();
    found
}

fn within(set: &BTreeSet<(u64, RowId)>, lower: u64, upper: u64) -> Vec<(u64, RowId)> {
    set.iter().filter(|(value, _)| (lower..=upper).contains(value)).copied().collect()
}

fn is_restructuring(request: &Request) -> bool {
    !matches!(
        request,
        Request::CreateIndex { .. }
            | Request::DropIndex { .. }
            | Request::Insert { .. }
            | Request::Look { .. }
            | Request::Collect { .. }
    )
}

#[test]
fn a_late_restructuring_leaves_other_elements_alone() {
    run(async {
        let world = memory();
        let channel = Crossed::new(&world.wire);
        let pope = half(channel.clone(), 1).await;
        let sent: Arc<Mutex<Vec<Request>>> = Arc::default();
        let mut random = prg(7);
        channel.set({
            let sent = Arc::clone(&sent);
            move |wire, request| {
                let mut sent = sent.lock().expect("no test panicked here");
                // Some of what was sent before arrives once more, now.
                for _ in 0..3 {
                    if let Some(place) = random.next_u64().checked_rem(sent.len() as u64) {
                        send(wire, &sent[place as usize]);
                    }
                }
                if is_restructuring(request) {
                    sent.push(request.clone());
                }
            }
        });
        let mut expected = BTreeSet::new();
        let mut random = prg(8);
        for turn in 0..60_u64 {
            let batch: Vec<_> =
                (0..20).map(|place| (random.next_u64() % 500, row(turn * 20 + place))).collect();
            pope.insert(batch.iter().copied().map(entry).collect()).await.expect("inserts");
            expected.extend(batch);
            let gone: Vec<_> = expected.iter().skip(3).step_by(97).copied().collect();
            pope.remove(gone.iter().copied().map(entry).collect()).await.expect("removes");
            expected.retain(|pair| !gone.contains(pair));
            for (lower, upper) in [(turn * 8, turn * 8 + 5), (100, 140), (0, 500)] {
                assert_eq!(found(&pope, lower, upper).await, within(&expected, lower, upper), "turn {turn}");
            }
        }
        assert!(sent.lock().expect("no test panicked here").len() > 100, "much was sent again");
    });
}

#[test]
fn a_removal_holds_although_another_half_moves_the_element() {
    run(async {
        for seed in 0..12 {
            let world = memory();
            let channel = Crossed::new(&world.wire);
            let pope = half(channel.clone(), seed).await;
            let other = half(world.wire.clone(), 100 + seed).await;
            let all: BTreeSet<_> = (0..200).map(|number| (number * 7 % 200, row(number))).collect();
            pope.insert(all.iter().copied().map(entry).collect()).await.expect("inserts");
            // Before each request of the removal the other half sorts a little more.
            let mut place = 0;
            channel.set(move |_, _| {
                place += 1;
                now(found(&other, place * 40 % 200, (place * 40 + seed) % 200));
                now(found(&other, 90, 110));
            });
            let gone = (100, all.iter().find(|(value, _)| *value == 100).expect("it is there").1);
            pope.remove(vec![entry(gone)]).await.expect("removes");
            channel.clear();
            let left: BTreeSet<_> = all.iter().filter(|pair| **pair != gone).copied().collect();
            assert_eq!(found(&pope, 0, 200).await, within(&left, 0, 200), "seed {seed}");
        }
    });
}

#[test]
fn an_insertion_before_each_call_of_a_search_does_not_stop_it() {
    run(async {
        let world = memory();
        let channel = Crossed::new(&world.wire);
        let pope = half(channel.clone(), 1).await;
        let other = half(world.wire.clone(), 2).await;
        let expected: BTreeSet<_> = (0..2000).map(|number| (number * 13 % 1000, row(number))).collect();
        pope.insert(expected.iter().copied().map(entry).collect()).await.expect("inserts");
        let mut next = 5000;
        channel.set(move |_, _| {
            // Beside the ranges that are looked at.
            next += 1;
            now(other.insert(vec![entry((next, row(next)))])).expect("inserts");
        });
        for turn in 0..200_u64 {
            let (lower, upper) = (turn * 4, turn * 4 + turn % 60);
            assert_eq!(found(&pope, lower, upper).await, within(&expected, lower, upper), "turn {turn}");
        }
    });
}

#[test]
fn an_insertion_delivered_twice_takes_effect_once() {
    run(async {
        let world = memory();
        let channel = Crossed::new(&world.wire);
        let pope = half(channel.clone(), 1).await;
        channel.set(|wire, request| {
            if matches!(request, Request::Insert { .. }) {
                send(wire, request);
            }
        });
        let mut expected: BTreeSet<_> = (0..300).map(|number| (number % 3, row(number))).collect();
        for batch in expected.iter().copied().collect::<Vec<_>>().chunks(40) {
            pope.insert(batch.iter().copied().map(entry).collect()).await.expect("inserts");
            found(&pope, 1, 1).await;
        }
        assert_eq!(found(&pope, 0, 3).await, within(&expected, 0, 3));
        let gone: Vec<_> = expected.iter().step_by(4).copied().collect();
        pope.remove(gone.iter().copied().map(entry).collect()).await.expect("removes");
        expected.retain(|pair| !gone.contains(pair));
        assert_eq!(found(&pope, 0, 3).await, within(&expected, 0, 3));
        assert_eq!(found(&pope, 0, 3).await, within(&expected, 0, 3));
    });
}

/// Numbers and lengths of what an operation sends.
async fn sent<C>(channel: &Crossed<Protocol>, operation: impl Future<Output = C>) -> Vec<usize> {
    let lengths: Arc<Mutex<Vec<usize>>> = Arc::default();
    channel.set({
        let lengths = Arc::clone(&lengths);
        move |_, request| lengths.lock().expect("no test panicked here").push(codec::encode(request).len())
    });
    operation.await;
    channel.clear();
    Arc::into_inner(lengths).expect("the channel has let it go").into_inner().expect("no test panicked here")
}

#[test]
fn a_removal_looks_like_an_insertion() {
    run(async {
        let world = memory();
        let channel = Crossed::new(&world.wire);
        let pope = half(channel.clone(), 1).await;
        let all: Vec<_> = (0..200).map(|number| (number % 9, row(number))).collect();
        pope.insert(all.iter().copied().map(entry).collect()).await.expect("inserts");
        found(&pope, 2, 5).await;
        let inserted = sent(&channel, pope.insert(vec![entry((4, row(900)))])).await;
        assert_eq!(inserted.len(), 1);
        assert_eq!(sent(&channel, pope.remove(vec![entry(all[3])])).await, inserted);
        assert_eq!(
            sent(&channel, pope.remove(vec![entry((4, row(901)))])).await,
            inserted,
            "one that is not there"
        );
    });
}
