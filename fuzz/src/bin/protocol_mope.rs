//! Messages of `mope`, from whichever peer.
#![no_main]

use arras_fuzz::{decodes_stably, seed};
use arras_protocol::Order;
use arras_protocol::codec::encode;
use arras_protocol::mope::index::{
    Bound, Change, Group, Listed, Request, Response, SealedRow, Search, Side, Update,
};
use arras_protocol::mope::{Fetch, Fetched, Head, Summary, TreeChange};
use arras_protocol::{Blob, IndexId};
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let (index, ciphertext, sealed) = (IndexId([1; 8]), Blob(vec![2; 16]), SealedRow([3; 32]));
    let listed = Listed { ciphertext: ciphertext.clone(), sealed };
    let head = Head { version: 4, root: 5, next: 6, values: 7, digest: [8; 32] };
    let tree = TreeChange {
        expected: 3,
        head,
        nodes: vec![(5, Some(Blob(vec![9; 40]))), (2, None)],
        left: vec![ciphertext.clone()],
        summaries: vec![Summary::Spread { low: 10, high: 20, start: 5, step: 3 }],
        entered: vec![(ciphertext.clone(), 1 << 40)],
    };
    let update =
        Update { removed: vec![listed.clone()], tree: Some(Box::new(tree)), added: vec![listed.clone()] };
    let bound = |side| Some(Bound { ciphertext: ciphertext.clone(), side });
    let search = Search {
        lower: bound(Side::After(sealed)),
        upper: bound(Side::Beyond),
        order: Order::Descending,
        limit: Some(9),
    };
    let fetch = Fetch { nodes: vec![1, 2], root: true, ciphertexts: vec![ciphertext.clone()] };
    let fetched = Fetched { head, nodes: vec![Some(Blob(vec![9; 40])), None], labels: vec![Some(5), None] };
    let groups = vec![Group { ciphertext: ciphertext.clone(), sealed: Blob(vec![4; 64]) }];
    vec![
        encode(&Request::Change(Change::CreateIndex { index, ciphertext_bytes: 16 })),
        encode(&Request::Change(Change::Update { index, update })),
        encode(&Request::Fetch { index, fetch }),
        encode(&Request::Look { index, entries: vec![listed] }),
        encode(&Request::Search { index, search }),
        encode(&Change::DropIndex { index }),
        encode(&Response::Fetched(fetched)),
        encode(&Response::There(vec![true, false])),
        encode(&Response::Found { groups, more: true }),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    decodes_stably::<Request>(bytes);
    decodes_stably::<Change>(bytes);
    decodes_stably::<Response>(bytes);
});
