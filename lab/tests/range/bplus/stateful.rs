//! FH-OPE's tree is the client's state: what is lost, cut off or refused on the way must not part it from the server's.

use crate::body::{Item, Pair, entries};
use crate::world::{INDEX, Reply, Wire, World, key, memory, prg, run};
use arras_protocol::Order;
use arras_protocol::bplus::{BPlus as Protocol, Request, Response};
use arras_protocol::ore::Width;
use arras_protocol::{Channel, ChannelError};
use arras_schemes::bplus::StatefulBPlus;
use arras_schemes::ore::fh_ope::FhOpe;
use arras_schemes::traits::{RangeIndex, SortedList};
use arras_storage::{Failing, Memory, Storage};
use std::sync::{Arc, Mutex};

type Tree<C> = StatefulBPlus<FhOpe, C>;

async fn open<C: Channel<Protocol>>(channel: C) -> Tree<C> {
    let index = StatefulBPlus::new(channel, INDEX, &key(), FhOpe::new(Width::Bits32), prg(1));
    index.create(1 << 12).await.expect("an empty index")
}

async fn pair<C: Channel<Protocol>>(channel: C) -> Pair<Tree<C>> {
    Pair { index: open(channel).await, list: SortedList::default(), width: Width::Bits32 }
}

fn ascending(count: u64) -> Vec<Item> {
    (0..count).map(|number| (1000 + number, number as u8)).collect()
}

/// Ascending values, so that ciphertexts are rebalanced within one call, whose reply to one request is lost.
#[test]
fn a_lost_reply_among_rebalanced_ciphertexts_is_made_good() {
    run(async {
        for lost in 0..6 {
            let world = memory();
            let pair = pair(world.wire.clone()).await;
            let mut call = 0;
            world.wire.set_tamper(Some(Box::new(move |reply| {
                call += 1;
                if call == lost + 1 { Reply::Lost } else { Reply::Bytes(reply) }
            })));
            insert_until_done(&pair, &ascending(200)).await;
            world.wire.set_tamper(None);
            pair.insert(&[(5, 1), (1100, 250), (9000, 3)]).await;
            pair.check_all().await;
        }
    });
}

/// The same with a store that fails: requests are refused.
#[test]
fn a_refused_change_among_rebalanced_ciphertexts_leaves_no_trace() {
    run(async {
        for passing in 0..100 {
            let world = memory();
            let pair = pair(world.wire.clone()).await;
            let items = ascending(200);
            pair.insert(&items[..100]).await;
            world.faults.fail_operation_after(passing);
            insert_until_done(&pair, &items[100..]).await;
            world.faults.heal();
            pair.insert(&[(5, 1), (1100, 250), (9000, 3)]).await;
            pair.check_all().await;
        }
    });
}

async fn insert_until_done<C: Channel<Protocol>>(pair: &Pair<Tree<C>>, items: &[Item]) {
    pair.list.insert(entries(pair.width, items)).await.expect("a list does not fail");
    for _ in 0..4 {
        if pair.index.insert(entries(pair.width, items)).await.is_ok() {
            return;
        }
    }
    panic!("asked four times, with one fault planned");
}

/// Stops at one call, before or after the server has it.
struct Stopping<S> {
    wire: Wire<S>,
    /// Calls until then, and whether the server acts.
    plan: Arc<Mutex<Option<(u32, bool)>>>,
}

impl<S: Storage> Channel<Protocol> for Stopping<S> {
    async fn call(&self, request: Request) -> Result<Response, ChannelError> {
        let now = {
            let mut plan = self.plan.lock().expect("no test panicked here");
            match plan.as_mut() {
                Some((0, acts)) => Some(*acts),
                Some((calls, _)) => {
                    *calls -= 1;
                    None
                }
                None => None,
            }
        };
        if now == Some(false) {
            return std::future::pending().await;
        }
        let response = Channel::<Protocol>::call(&self.wire, request).await;
        if now == Some(true) {
            return std::future::pending().await;
        }
        response
    }
}

/// An operation that is dropped while it waits for the server.
#[test]
fn a_dropped_insertion_takes_effect_wholly_or_not_at_all_and_parts_nothing() {
    run(async {
        for acts in [false, true] {
            for calls in 0..5 {
                let world: World<Failing<Memory>> = memory();
                let plan = Arc::new(Mutex::new(None));
                let pair = pair(Stopping { wire: world.wire.clone(), plan: plan.clone() }).await;
                pair.insert(&ascending(100)).await;
                *plan.lock().expect("no test panicked here") = Some((calls, acts));
                let more: Vec<Item> = (0..100).map(|number| (1100 + number, number as u8)).collect();
                let cut = entries(pair.width, &more);
                tokio::select! {
                    biased;
                    result = pair.index.insert(cut) => result.expect("inserts"),
                    () = std::future::ready(()) => {}
                }
                *plan.lock().expect("no test panicked here") = None;
                // What was there before is there, and new entries have their places.
                pair.check(0, 1099, Order::Ascending, None).await;
                pair.insert(&more).await;
                pair.insert(&[(1050, 251), (3, 4)]).await;
                pair.check_all().await;
                for part in more.chunks(7) {
                    pair.remove(part).await;
                }
                pair.check_all().await;
            }
        }
    });
}

/// Notes the longest request.
struct Measuring<S> {
    wire: Wire<S>,
    longest: Arc<Mutex<usize>>,
}

impl<S: Storage> Channel<Protocol> for Measuring<S> {
    async fn call(&self, request: Request) -> Result<Response, ChannelError> {
        let bytes = arras_protocol::codec::encode(&request).len();
        {
            let mut longest = self.longest.lock().expect("no test panicked here");
            *longest = bytes.max(*longest);
        }
        Channel::<Protocol>::call(&self.wire, request).await
    }
}

/// Ascending values rewrite all that is there at times; no request grows with it.
#[test]
fn no_request_grows_with_the_index() {
    run(async {
        let world = memory();
        let longest = Arc::new(Mutex::new(0));
        let pair = pair(Measuring { wire: world.wire.clone(), longest: longest.clone() }).await;
        let items: Vec<Item> = (0..30_000).map(|number| (number, 1)).collect();
        for part in items.chunks(100) {
            pair.insert(part).await;
        }
        pair.check_all().await;
        let longest = *longest.lock().expect("no test panicked here");
        assert!(longest < 96 << 10, "a request of {longest} bytes");
    });
}
