//! Replies that are not of the protocol: a flipped bit anywhere, whole lies, replayed truths.

use crate::answers::{Twin, compare, entries};
use crate::hostile::grown;
use crate::world::{Client, Tamper, World, cases, parameters, run};
use arras_protocol::arx_range::{Links, Order, Request, Response};
use arras_protocol::{NodeId, codec};
use arras_schemes::IndexError;
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn altered_replies_give_errors_or_right_answers(
        which in 0_u64..12,
        place in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        run(async {
            let (world, client, twin) = grown().await;
            client.own.index.new_epoch().await;
            let mut replies = 0;
            let tamper: Tamper = Box::new(move |_, response| {
                if replies == which {
                    let mut bytes = codec::encode(response);
                    let at = place.index(bytes.len());
                    bytes[at] ^= 1 << bit;
                    if let Ok(altered) = codec::decode(&bytes) {
                        *response = altered;
                    }
                }
                replies += 1;
            });
            world.set_tamper(Some(tamper));
            for range in [(0_u16, 240_u16), (10, 20), (100, 200), (15, 15), (10, 20), (0, 240)] {
                try_compare(&client, &twin, range).await;
            }
            world.set_tamper(None);
            compare(&client.own, &twin, (0, 999), false, None).await;
            compare(&client.own, &twin, (50, 130), true, None).await;
        });
    }
}

/// Searches; what comes back, if anything does, is right.
async fn try_compare(client: &Client, twin: &Twin, (lower, upper): (u16, u16)) {
    let [low, high] = [lower, upper].map(|key| key.to_be_bytes().to_vec());
    if let Ok((found, repair)) = client.own.index.search(low, high, Order::Ascending, None).await {
        let _ = repair.run().await;
        let keys: Vec<u16> =
            found.entries.iter().map(|(key, _)| u16::from_be_bytes([key[0], key[1]])).collect();
        let expected: Vec<u16> =
            twin.amounts.keys().map(|(key, _)| *key).filter(|key| (lower..=upper).contains(key)).collect();
        assert_eq!(keys, expected);
    }
}

/// A lie, and what it is about.
type Lie = (&'static str, fn(&mut Response));

/// Lies of whole parts, which a flipped bit does not make: about buckets.
fn lies_of_buckets() -> Vec<Lie> {
    vec![
        ("a bucket is left out", |response| {
            if let Response::Found { buckets, .. } = response {
                buckets.remove(buckets.len() / 2);
            }
        }),
        ("the last bucket is left out", |response| {
            if let Response::Found { buckets, .. } = response {
                buckets.pop();
            }
        }),
        ("the last bucket comes twice", |response| {
            if let Response::Found { buckets, .. } = response {
                buckets.extend(buckets.last().cloned());
            }
        }),
        ("buckets are in another order", |response| {
            if let Response::Found { buckets, .. } = response {
                buckets.reverse();
            }
        }),
        ("two buckets change their contents", |response| {
            if let Response::Found { buckets, .. } = response {
                let sealed = buckets[0].bucket.sealed.clone();
                buckets[0].bucket.sealed = buckets[1].bucket.sealed.clone();
                buckets[1].bucket.sealed = sealed;
            }
        }),
        ("no bucket", |response| {
            if let Response::Found { buckets, .. } = response {
                buckets.clear();
            }
        }),
        ("the reply is cut where it is not", |response| {
            if let Response::Found { buckets, next, .. } = response {
                *next = buckets.pop().map(|last| last.node);
                buckets.pop();
            }
        }),
    ]
}

/// Lies about the way there.
fn lies_of_paths() -> Vec<Lie> {
    vec![
        ("another bucket for the lower bound", |response| {
            if let Response::Found { lower_bucket, upper_bucket, .. } = response {
                *lower_bucket = *upper_bucket;
            }
        }),
        ("a path without its end", |response| {
            if let Response::Found { lower, upper, .. } = response {
                lower.pop();
                upper.pop();
            }
        }),
        ("a path that turns another way", |response| {
            if let Response::Found { lower, upper, .. } = response {
                lower.iter_mut().chain(upper).for_each(|step| step.went_right ^= true);
            }
        }),
        ("a path without links", |response| {
            if let Response::Found { lower, upper, .. } = response {
                for step in lower.iter_mut().chain(upper) {
                    (step.lower, step.upper) = (None, None);
                }
            }
        }),
        ("used garblings for siblings", |response| {
            if let Response::Found { lower, upper, .. } = response {
                let steps = lower.iter_mut().chain(upper);
                for links in steps.flat_map(|step| [&mut step.lower, &mut step.upper]).flatten() {
                    (links.left, links.right) = (links.right, links.left);
                }
            }
        }),
        ("other garblings for siblings", |response| {
            if let Response::Found { lower, upper, .. } = response {
                for step in lower.iter_mut().chain(upper) {
                    let right = step.went_right;
                    for links in [&mut step.lower, &mut step.upper].into_iter().flatten() {
                        let sibling = if right { &mut links.left } else { &mut links.right };
                        sibling.iter_mut().for_each(|sibling| sibling.0[15] ^= 1);
                    }
                }
            }
        }),
        ("another kind of reply", |response| *response = Response::Buckets(Vec::new())),
    ]
}

#[test]
fn lies_are_found_out() {
    run(async {
        for (name, lie) in lies_of_buckets().into_iter().chain(lies_of_paths()) {
            let (world, client, twin) = grown().await;
            compare(&client.own, &twin, (0, 999), false, None).await;
            compare(&client.own, &twin, (100, 140), false, None).await;
            world.set_tamper(Some(Box::new(move |request, response| {
                if matches!(request, Request::Search { .. }) {
                    lie(response);
                }
            })));
            let result = client.own.index.search(vec![0, 20], vec![0, 200], Order::Ascending, None).await;
            let error = result.expect_err(name);
            assert!(matches!(error, IndexError::Peer(_) | IndexError::Open(_)), "{name}: {error}");
            world.set_tamper(None);
            compare(&client.own, &twin, (0, 999), false, None).await;
            compare(&client.own, &twin, (20, 200), false, None).await;
        }
    });
}

#[test]
fn earlier_links_of_the_side_not_walked_are_not_used() {
    run(async {
        let world = World::new();
        let parameters = parameters(1, 0, 0);
        let client = Client::create(&world, parameters).await;
        let mut twin = Twin::default();
        let mut earlier: HashMap<(NodeId, bool), Links> = HashMap::new();
        world.set_tamper(Some(Box::new(move |_, response| {
            let Response::Found { lower, upper, .. } = response else {
                return;
            };
            let steps = lower.iter_mut().zip(std::iter::repeat(true));
            for (step, walks_lower) in steps.chain(upper.iter_mut().zip(std::iter::repeat(false))) {
                for (side, links) in [(true, &mut step.lower), (false, &mut step.upper)] {
                    let Some(links) = links else { continue };
                    let kept = earlier.entry((step.node, side)).or_insert_with(|| links.clone());
                    if side != walks_lower {
                        *links = kept.clone();
                    }
                }
            }
        })));
        for turn in 0..60_u16 {
            let key = turn * 37 % 61;
            let change = (vec![(key, 0, 0)], Vec::new());
            twin.change(&parameters, &change).await;
            client
                .own
                .change(entries(&parameters, &change).0, Vec::new())
                .await
                .expect("found out and remade");
            compare(&client.own, &twin, (key, key + 9), false, None).await;
        }
    });
}

#[test]
fn a_reply_of_an_earlier_search_is_found_out() {
    run(async {
        let (world, client, twin) = grown().await;
        compare(&client.own, &twin, (21, 22), false, None).await;
        let kept: Arc<Mutex<Option<Response>>> = Arc::default();
        world.set_tamper(Some(Box::new(move |request, response| {
            if matches!(request, Request::Search { .. }) {
                let mut kept = kept.lock().expect("no test panicked here");
                let earlier = kept.get_or_insert_with(|| response.clone());
                *response = earlier.clone();
            }
        })));
        compare(&client.own, &twin, (21, 22), false, None).await;
        let walked = world.auditor.opened();
        let again = client.own.index.search(vec![0, 21], vec![0, 22], Order::Ascending, None).await;
        assert!(world.auditor.opened() > walked, "circuits were walked, not the directory read");
        assert!(matches!(again.expect_err("found out"), IndexError::Peer(_)));
        world.set_tamper(None);
        compare(&client.own, &twin, (0, 999), false, None).await;
    });
}
