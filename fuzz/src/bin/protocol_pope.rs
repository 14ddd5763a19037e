//! Messages of `pope`, from whichever peer.
#![no_main]

use arras_fuzz::{decodes_stably, seed};
use arras_protocol::codec::encode;
use arras_protocol::pope::{Change, Chunk, Cursor, Located, Node, Request, Response, Run, View};
use arras_protocol::{Blob, IndexId};
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let (index, version, seed, pages_max) = (IndexId([1; 8]), 8, [2; 16], 64);
    let (elements, leaf) = (Blob(vec![3; 120]), Node::leaf(300));
    let path = vec![Node::leaf(0).inner(), leaf];
    let chunk = || Some(Chunk { is_last: true, elements: elements.clone() });
    let cursor = || Some(Cursor { path: path.clone(), page: 5 });
    let inner = View::Inner { labels: elements.clone(), children: path.clone(), buffered: chunk() };
    let (lower, upper) = (path.clone(), path.clone());
    let located = Located { node: 6, element: Blob(vec![3; 60]) };
    vec![
        encode(&Request::CreateIndex { index, page_bytes: 4096, element_bytes: 60, supersede: true }),
        encode(&Request::Insert { index, epoch: 9, elements: elements.clone() }),
        encode(&Request::Look { index, nodes: Some((8, path.clone())), pages_max, seed }),
        encode(&Request::Push { index, version, path: path.clone(), children: Blob(vec![0, 1]), pages_max }),
        encode(&Request::Split { index, version, path: path.clone(), labels: elements.clone(), pages_max }),
        encode(&Request::Collect { index, version, lower, upper, resume: cursor(), seed }),
        encode(&Request::Purge { index, version, elements: vec![located] }),
        encode(&Change::CreateIndex { index, page_bytes: 4096, element_bytes: 60 }),
        encode(&Change::Append { index, elements: elements.clone() }),
        encode(&Response::Looked {
            version,
            views: vec![
                (leaf, View::Leaf),
                (leaf, View::Oversized { sample: elements.clone() }),
                (leaf.inner(), inner),
            ],
        }),
        encode(&Response::Epoch(9)),
        encode(&Response::Pushed { version, next: chunk(), restructured: true }),
        encode(&Response::Found {
            elements: elements.clone(),
            runs: vec![Run { node: 6, count: 2 }],
            next: cursor(),
        }),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    decodes_stably::<Request>(bytes);
    decodes_stably::<Change>(bytes);
    decodes_stably::<Response>(bytes);
});
