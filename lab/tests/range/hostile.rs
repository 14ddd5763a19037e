//! Replies that lie or are lost, stores that fail.

use crate::body::{Effort, Item, Pair, Subject, Tampering, entries};
use crate::world::{Reply, Tamper, World, cases, memory, run};
use arras_protocol::Order;
use arras_protocol::RowId;
use arras_protocol::ore::Width;
use arras_schemes::ore::domain::plaintext_key;
use arras_schemes::traits::RangeIndex;
use arras_storage::Storage;
use proptest::prelude::*;
use proptest::sample::Index as Place;

/// What a hostile server does with its replies, from the one after `honest` ones on.
#[derive(Clone, Debug)]
enum Lie {
    /// Cuts one off.
    Truncate(Place),
    /// Flips a bit of one.
    Flip(Place, u8),
    /// Sends one without content.
    Empty,
    /// Sends the reply to an earlier request, once.
    Swap(Place),
    /// Sends the same reply for ever.
    Repeat,
    /// Flips a bit in each.
    FlipAll(Place, u8),
    /// Sends nothing but replies without content.
    EmptyAll,
    /// Appends a byte to one.
    Append,
}

fn lie() -> impl Strategy<Value = Lie> {
    prop_oneof![
        2 => any::<Place>().prop_map(Lie::Truncate),
        6 => (any::<Place>(), 0_u8..8).prop_map(|(place, bit)| Lie::Flip(place, bit)),
        1 => Just(Lie::Empty),
        1 => Just(Lie::EmptyAll),
        2 => any::<Place>().prop_map(Lie::Swap),
        2 => Just(Lie::Repeat),
        1 => (any::<Place>(), 0_u8..8).prop_map(|(place, bit)| Lie::FlipAll(place, bit)),
        1 => Just(Lie::Append),
    ]
}

fn tamper(lie: Lie, honest: u64) -> Tamper {
    let mut earlier: Vec<Vec<u8>> = Vec::new();
    let mut call = 0;
    Box::new(move |mut reply| {
        let (turn, later) = (call == honest, call >= honest);
        call += 1;
        if !later || matches!(lie, Lie::Repeat) && turn {
            earlier.push(reply.clone());
        }
        match &lie {
            Lie::Truncate(place) if turn => reply.truncate(place.index(reply.len().max(1))),
            Lie::Flip(place, bit) if turn => flip(&mut reply, *place, *bit),
            Lie::FlipAll(place, bit) if later => flip(&mut reply, *place, *bit),
            Lie::Empty if turn => reply.clear(),
            Lie::EmptyAll if later => reply.clear(),
            Lie::Swap(place) if turn && !earlier.is_empty() => reply = place.get(&earlier).clone(),
            Lie::Repeat if later => reply.clone_from(&earlier[earlier.len() - 1]),
            Lie::Append if turn => reply.push(0),
            _ => {}
        }
        Reply::Bytes(reply)
    })
}

fn flip(reply: &mut [u8], place: Place, bit: u8) {
    if !reply.is_empty() {
        reply[place.index(reply.len())] ^= 1 << bit;
    }
}

fn some_items<T: Subject>(subject: &T) -> Vec<Item> {
    let count = if subject.effort() == Effort::Full { 48_u8 } else { 3 };
    (0..count).map(|number| (u64::from(number) * 11 % 37, number)).collect()
}

async fn grown<S: Storage, T: Subject>(subject: &T, world: &World<S>) -> Pair<T::Index<S>> {
    let pair = Pair::open(subject, world).await;
    pair.insert(&some_items(subject)).await;
    pair
}

/// What holds of any answer, whatever the server does.
fn is_bounded(width: Width, found: &[(Vec<u8>, RowId)], (lower, upper): (u64, u64), limit: Option<usize>) {
    let [low, high] = [lower, upper].map(|value| plaintext_key(width, value));
    assert!(found.len() <= limit.unwrap_or(usize::MAX), "over the limit");
    assert!(found.iter().all(|(key, _)| low <= *key && *key <= high), "out of range");
    assert!(found.windows(2).all(|two| two[0].0 <= two[1].0), "out of order");
}

/// Searches and changes over a hostile server: errors or right answers, or at least bounded ones; and always an end.
pub(crate) fn tampered<T: Subject>(subject: &T) {
    let (count, replies) = match subject.effort() {
        Effort::Full => (96, 12_u64),
        Effort::Few => (1, 1),
    };
    proptest!(cases(count), |(lie in lie(), honest in 0..replies, limit in proptest::option::of(1_usize..9))| {
        run(lied_to(subject, tamper(lie, honest), limit));
    });
}

/// The same over a server none of whose replies has content.
pub(crate) fn answered_without_content<T: Subject>(subject: &T) {
    run(lied_to(subject, tamper(Lie::EmptyAll, 0), None));
}

async fn lied_to<T: Subject>(subject: &T, tamper: Tamper, limit: Option<usize>) {
    let world = memory();
    let pair = grown(subject, &world).await;
    world.wire.set_tamper(Some(tamper));
    for (lower, upper) in [(0, 36), (5, 9), (7, 7), (0, subject.width().greatest())] {
        let [low, high] = [lower, upper].map(|value| plaintext_key(pair.width, value));
        if let Ok(found) = pair.index.search(low, high, Order::Ascending, limit).await {
            is_bounded(pair.width, &found, (lower, upper), limit);
            if subject.tampering() == Tampering::Detected {
                pair.compare(&found, (lower, upper), Order::Ascending, limit).await;
            }
        }
    }
    // Whether these took hold is open; that they end is not.
    let _ = pair.index.insert(entries(pair.width, &[(6, 200), (30, 201)])).await;
    let _ = pair.index.remove(entries(pair.width, &[(6, 200), (11, 1)])).await;
}

/// The reply to each call in turn is lost; asked again, the operation takes effect, once.
pub(crate) fn lost_replies<T: Subject>(subject: &T) {
    run(async {
        for lost in 0..if subject.effort() == Effort::Full { 24 } else { 1 } {
            let world = memory();
            let pair = grown(subject, &world).await;
            let mut call = 0;
            world.wire.set_tamper(Some(Box::new(move |reply| {
                call += 1;
                if call == lost + 1 { Reply::Lost } else { Reply::Bytes(reply) }
            })));
            work(&pair).await;
            world.wire.set_tamper(None);
            pair.check_all().await;
            assert!(world.wire.calls() > 0, "the index asks the server");
        }
    });
}

/// Each operation of the store fails in turn; asked again, the index does what it was asked.
pub(crate) fn store_faults<T: Subject>(subject: &T) {
    run(async {
        let step = if subject.effort() == Effort::Full { 1 } else { 9 };
        let mut passing = 0;
        loop {
            let world = memory();
            let pair = grown(subject, &world).await;
            let before = world.faults.operations();
            world.faults.fail_operation_after(passing);
            work(&pair).await;
            let ended = world.faults.operations() - before <= passing;
            world.faults.heal();
            pair.check_all().await;
            if ended || passing > 150 {
                break;
            }
            passing += step;
        }
        assert!(passing > 0, "some operation failed");
    });
}

/// A few changes and searches, each asked again until it succeeds.
async fn work<I: RangeIndex>(pair: &Pair<I>) {
    for items in [&[(3_u64, 90_u8), (3, 91)][..], &[(40, 92)], &[(3, 90)]] {
        again(async || pair.index.insert(entries(pair.width, items)).await).await;
        pair.list.insert(entries(pair.width, items)).await.expect("a list does not fail");
    }
    search_again(pair, (2, 12)).await;
    for items in [&[(3_u64, 90_u8), (0, 0)][..], &[(1, 1)]] {
        again(async || pair.index.remove(entries(pair.width, items)).await).await;
        pair.list.remove(entries(pair.width, items)).await.expect("a list does not fail");
    }
    search_again(pair, (0, 40)).await;
}

async fn search_again<I: RangeIndex>(pair: &Pair<I>, range: (u64, u64)) {
    let [low, high] = [range.0, range.1].map(|value| plaintext_key(pair.width, value));
    let found =
        again(async || pair.index.search(low.clone(), high.clone(), Order::Ascending, None).await).await;
    pair.compare(&found, range, Order::Ascending, None).await;
}

/// Asks up to three times: one fault was planned, and making it good may meet the end of it.
async fn again<R, E: std::fmt::Display>(mut ask: impl AsyncFnMut() -> Result<R, E>) -> R {
    for _ in 0..2 {
        if let Ok(result) = ask().await {
            return result;
        }
    }
    ask().await.unwrap_or_else(|error| panic!("asked again without a fault: {error}"))
}
