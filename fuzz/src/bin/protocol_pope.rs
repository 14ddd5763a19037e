//! Messages of `pope`, from whichever peer.
#![no_main]

use arras_fuzz::{decodes_stably, seed};
use arras_protocol::codec::encode;
use arras_protocol::pope::{Chunk, Cursor, Located, Node, Request, Response, Run, View};
use arras_protocol::{Blob, IndexId};
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let (index, seed, pages_max) = (IndexId([1; 8]), [2; 16], 64);
    let (elements, leaf) = (Blob(vec![3; 120]), Node::leaf(300));
    let path = vec![Node::leaf(0).inner(), leaf];
    let chunk = || Some(Chunk { page: 4, elements: elements.clone() });
    let cursor = || Some(Cursor { path: path.clone(), page: 5 });
    let inner = View::Inner { labels: elements.clone(), children: path.clone(), buffered: chunk() };
    let (lower, upper) = (path.clone(), path.clone());
    let located = Located { node: 6, page: 7, element: Blob(vec![3; 60]) };
    vec![
        encode(&Request::CreateIndex { index, page_bytes: 4096, element_bytes: 60 }),
        encode(&Request::Insert { index, elements: elements.clone() }),
        encode(&Request::Look { index, nodes: path.clone(), pages_max, seed }),
        encode(&Request::Push { index, path: path.clone(), page: 8, children: Blob(vec![0, 1]), pages_max }),
        encode(&Request::Split { index, path: path.clone(), labels: elements.clone(), pages_max }),
        encode(&Request::Collect { index, lower, upper, resume: cursor(), seed }),
        encode(&Request::Remove { index, elements: vec![located] }),
        encode(&Response::Looked(vec![
            (leaf, View::Leaf),
            (leaf, View::Oversized { sample: elements.clone() }),
            (leaf.inner(), inner),
        ])),
        encode(&Response::Pushed { next: chunk(), restructured: true }),
        encode(&Response::Found {
            elements: elements.clone(),
            runs: vec![Run { node: 6, page: 7, count: 2 }],
            next: cursor(),
        }),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    decodes_stably::<Request>(bytes);
    decodes_stably::<Response>(bytes);
});
