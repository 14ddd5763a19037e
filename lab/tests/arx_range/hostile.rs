//! Requests that are not of the protocol, and replies that are not.

use crate::answers::{Twin, compare, entries};
use crate::world::{Client, INDEX, Tamper, World, cases, parameters, run};
use arras_client::IndexError;
use arras_protocol::arx_range::{
    ArxRange as Protocol, Bound, Change, Circuit, CircuitNonce, Links, Order, Request, Response, Side,
    TopNode, TreeNode, Walk,
};
use arras_protocol::write::{self, Step, Write};
use arras_protocol::{Blob, IndexId, NodeId, OperationId, Protocol as _, Refusal, codec};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// An index with trees and top nodes.
async fn grown() -> (Arc<World>, Client, Twin) {
    let world = World::new();
    let parameters = parameters(2, 4, 0);
    let client = Client::create(&world, parameters).await;
    let mut twin = Twin::default();
    let change = ((0..80).map(|key| (key * 3, 0, 0)).collect(), Vec::new());
    twin.change(&parameters, &change).await;
    client.own.change(entries(&parameters, &change).0, Vec::new()).await.expect("no fault is planned");
    (world, client, twin)
}

/// Asks the server half past the auditor: what is sent here was not made by a client.
async fn ask(world: &World, request: Request) -> Result<Response, Refusal> {
    let reply = world.raw(Protocol::ID, &codec::encode(&request))?;
    Ok(codec::decode(&reply).expect("replies decode"))
}

async fn apply(world: &World, operation: Option<u64>, change: Change) -> Result<(), Refusal> {
    let operation = operation.map(|sequence| OperationId { epoch: 99, sequence });
    let finished_below = OperationId { epoch: 0, sequence: 0 };
    let request = write::Request { operation, finished_below, steps: vec![Step::ArxRange(change)] };
    world.raw(Write::ID, &codec::encode(&request)).map(drop)
}

fn a_walk(root: NodeId, labels: usize) -> Bound {
    Bound::Walk(Walk {
        root,
        side: Side::Lower,
        nonce: CircuitNonce([0; 16]),
        labels: vec![0; labels].into(),
        both_sides: true,
        before: NodeId::HEAD,
    })
}

/// Some node of some tree, and some top node.
async fn names(world: &World) -> (NodeId, NodeId) {
    let top = ask(world, Request::LoadTop { index: INDEX, after: None }).await.expect("answers");
    let Response::Top { head_gap, nodes, .. } = top else { panic!("not a directory") };
    let root = head_gap.or_else(|| nodes.iter().find_map(|(_, top)| top.gap)).expect("there is a tree");
    (root, nodes[0].0)
}

#[test]
fn requests_that_break_the_rules_are_refused() {
    run(async {
        let (world, client, twin) = grown().await;
        let (root, top) = names(&world).await;
        let nowhere = NodeId([9; 16]);
        let search = |lower, upper| Request::Search {
            index: INDEX,
            lower,
            upper,
            order: Order::Ascending,
            buckets_max: 9,
        };
        let head = || Bound::Bucket(NodeId::HEAD);
        let malformed = [
            search(a_walk(root, 95), None),
            search(a_walk(root, 0), None),
            search(a_walk(root, 96 * 16 + 16), None),
            search(Bound::Bucket(nowhere), Some(head())),
            Request::LoadTrees { index: INDEX, roots: vec![nowhere], depth: 9 },
            Request::LoadTrees { index: INDEX, roots: vec![top], depth: 9 },
            Request::Buckets { index: INDEX, nodes: vec![NodeId::HEAD, nowhere] },
            Request::Continue {
                index: INDEX,
                from: nowhere,
                until: NodeId::HEAD,
                order: Order::Ascending,
                buckets_max: 1,
            },
        ];
        for request in malformed {
            let shown = format!("{request:?}");
            let refusal = ask(&world, request).await.expect_err("refused");
            assert!(matches!(refusal, Refusal::Malformed(_)), "{shown}: {refusal}");
        }
        let stale = [search(a_walk(root, 48 * 16), None), search(head(), Some(a_walk(nowhere, 48 * 16)))];
        for request in stale {
            let refusal = ask(&world, request).await.expect_err("refused");
            assert!(matches!(refusal, Refusal::Stale { .. }), "{refusal}");
        }
        let backwards = Request::Search {
            index: INDEX,
            lower: Bound::Bucket(top),
            upper: Some(head()),
            order: Order::Ascending,
            buckets_max: u32::MAX,
        };
        assert!(matches!(ask(&world, backwards).await, Err(Refusal::Damaged(_))));
        let elsewhere = Request::LoadTop { index: IndexId([1; 8]), after: None };
        assert_eq!(ask(&world, elsewhere).await, Err(Refusal::UnknownIndex));
        compare(&client.own, &twin, (0, 999), false, None).await;
    });
}

#[test]
fn changes_that_break_the_rules_are_refused() {
    run(async {
        let (world, client, twin) = grown().await;
        let (root, top) = names(&world).await;
        let index = INDEX;
        let blob = || Blob::from(vec![0; 40]);
        let circuit = |gates: usize| Circuit {
            nonce: CircuitNonce([1; 16]),
            right_select: false,
            carry: [0; 16],
            gates: vec![0; gates].into(),
            left: None,
            right: None,
            tag: [0; 16],
        };
        let tree_node = || TreeNode { left: None, right: None, sealed: blob() };
        let put = |node, circuit| Change::PutCircuit { index, node, side: Side::Lower, circuit };
        let create = |key_bytes| Change::CreateIndex {
            index: IndexId([2; 8]),
            key_bytes,
            head_bucket: blob(),
            head_sealed: blob(),
        };
        let refused = [
            put(root, circuit(10)),
            put(root, circuit(48 * 32 + 32)),
            put(top, circuit(48 * 32)),
            put(NodeId([9; 16]), circuit(48 * 32)),
            create(0),
            create(65),
            Change::LinkBuckets { index, left: top, right: Some(NodeId::HEAD) },
            Change::LinkBuckets { index, left: top, right: Some(top) },
            Change::LinkBuckets { index, left: NodeId([9; 16]), right: None },
            Change::LinkBuckets { index, left: top, right: Some(NodeId([9; 16])) },
            Change::PutNode { index, node: NodeId::HEAD, record: tree_node() },
            Change::PutTop { index, node: NodeId::HEAD, record: TopNode { gap: None, sealed: blob() } },
            Change::RemoveNode { index, node: NodeId::HEAD },
            Change::PutBucket { index: IndexId([1; 8]), node: root, sealed: blob() },
            Change::PutHead { index: IndexId([1; 8]), gap: None, sealed: blob() },
        ];
        for (sequence, change) in refused.into_iter().enumerate() {
            let shown = format!("{change:?}");
            assert!(apply(&world, Some(sequence as u64), change).await.is_err(), "{shown}");
        }
        // Structure does not come by relaxed writes.
        assert!(
            apply(&world, None, Change::PutNode { index, node: root, record: tree_node() }).await.is_err()
        );
        // What was refused changed nothing.
        compare(&client.own, &twin, (0, 999), false, None).await;
        apply(&world, Some(1000), Change::DropIndex { index }).await.expect("drops");
        assert!(world.stored().is_empty(), "nothing is left of it");
    });
}

#[test]
fn a_list_or_tree_that_runs_in_circles_ends() {
    run(async {
        let (world, client, _) = grown().await;
        let (root, top) = names(&world).await;
        let index = INDEX;
        let record = TreeNode { left: Some(root), right: Some(root), sealed: vec![0; 3000].into() };
        apply(&world, Some(1), Change::PutNode { index, node: root, record }).await.expect("applies");
        let trees = Request::LoadTrees { index, roots: vec![root], depth: u32::MAX };
        assert!(ask(&world, trees).await.is_ok(), "cut at a reply's size");
        apply(&world, Some(2), Change::LinkBuckets { index, left: top, right: Some(root) })
            .await
            .expect("applies");
        apply(&world, Some(3), Change::LinkBuckets { index, left: root, right: Some(top) })
            .await
            .expect("applies");
        for order in [Order::Ascending, Order::Descending] {
            let from =
                Request::Continue { index, from: top, until: NodeId::HEAD, order, buckets_max: u32::MAX };
            let _ = ask(&world, from).await;
            let all = client.own.index.search(vec![0, 0], vec![255, 255], order, None).await;
            drop(all.expect_err("the client does not go round with it"));
        }
    });
}

#[test]
fn truncated_requests_are_malformed() {
    run(async {
        let (world, _, _) = grown().await;
        let (root, _) = names(&world).await;
        let search = Request::Search {
            index: INDEX,
            lower: a_walk(root, 48 * 16),
            upper: Some(a_walk(root, 48 * 16)),
            order: Order::Descending,
            buckets_max: 3,
        };
        let others = [
            Request::LoadTop { index: INDEX, after: Some(root) },
            Request::LoadTrees { index: INDEX, roots: vec![root], depth: 1 },
            Request::Buckets { index: INDEX, nodes: vec![NodeId::HEAD] },
        ];
        for request in others.into_iter().chain([search]) {
            let whole = codec::encode(&request);
            for len in 0..whole.len() {
                let refusal = world.raw(Protocol::ID, &whole[..len]).expect_err("refused");
                assert!(matches!(refusal, Refusal::Malformed(_)), "{refusal}");
            }
            let longer = [whole.as_slice(), &[0]].concat();
            assert!(matches!(world.raw(Protocol::ID, &longer), Err(Refusal::Malformed(_))));
        }
    });
}

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

/// Lies of whole parts, which a flipped bit does not make.
fn lies() -> Vec<(&'static str, fn(&mut Response))> {
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
                for links in lower.iter_mut().chain(upper).flat_map(|step| [&mut step.lower, &mut step.upper])
                {
                    if let Some(links) = links {
                        (links.left, links.right) = (links.right, links.left);
                    }
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
        for (name, lie) in lies() {
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
