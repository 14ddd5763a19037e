//! Requests that are not of the protocol.

use crate::answers::{Twin, compare, entries};
use crate::world::{Client, INDEX, World, parameters, run};
use arras_protocol::arx_range::{
    ArxRange as Protocol, Bound, Change, Circuit, CircuitNonce, Order, Request, Response, Side, TopNode,
    TreeNode, Walk,
};
use arras_protocol::write::{self, Step, Write};
use arras_protocol::{Blob, IndexId, NodeId, OperationId, Protocol as _, Refusal, codec};
use std::sync::Arc;

/// An index with trees and top nodes.
pub(crate) async fn grown() -> (Arc<World>, Client, Twin) {
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
    let request =
        write::Request { operation, finished_below, acknowledged: 0, steps: vec![Step::ArxRange(change)] };
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
