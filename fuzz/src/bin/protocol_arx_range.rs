//! Messages of `arx_range`, from whichever peer.
#![no_main]

use arras_fuzz::{decodes_stably, seed};
use arras_protocol::codec::encode;
use arras_protocol::{Blob, IndexId, NodeId, arx_range};
use arx_range::{Bound, Change, Circuit, CircuitNonce, Order, Request, Response, Side, Transition, Walk};
use libfuzzer_sys::fuzz_target;

fn circuit() -> Circuit {
    let transition = Transition { child: CircuitNonce([9; 16]), rows: Blob(vec![1; 64]) };
    Circuit {
        nonce: CircuitNonce([8; 16]),
        right_select: true,
        carry: [2; 16],
        gates: Blob(vec![3; 64]),
        left: Some(transition),
        right: None,
        tag: [4; 16],
    }
}

fn walk() -> Bound {
    Bound::Walk(Walk {
        root: NodeId([5; 16]),
        side: Side::Lower,
        nonce: CircuitNonce([8; 16]),
        labels: Blob(vec![6; 32]),
        both_sides: true,
        before: NodeId::HEAD,
    })
}

fn seeds() -> Vec<Vec<u8>> {
    let (index, node) = (IndexId([1; 8]), NodeId([5; 16]));
    let upper = Some(Bound::Bucket(node));
    vec![
        encode(&Request::LoadTop { index, after: None }),
        encode(&Request::LoadTrees { index, roots: vec![node; 3], depth: 4 }),
        encode(&Request::Buckets { index, nodes: vec![node, NodeId::HEAD] }),
        encode(&Request::Search { index, lower: walk(), upper, order: Order::Descending, buckets_max: 10 }),
        encode(&Response::Top {
            head_gap: Some(node),
            head_sealed: Blob(vec![7; 40]),
            nodes: Vec::new(),
            more: false,
        }),
        encode(&Change::PutCircuit { index, node, side: Side::Upper, circuit: circuit() }),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    decodes_stably::<Request>(bytes);
    decodes_stably::<Response>(bytes);
    decodes_stably::<Change>(bytes);
});
