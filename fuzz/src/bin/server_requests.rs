//! Requests to the server, several in a row: it answers or refuses, and its indexes stand it.
//! Each is `protocol: u8 | length: u16 LE | body`.
#![no_main]

use arras_fuzz::seed;
use arras_protocol::codec::encode;
use arras_protocol::{Blob, CollectionId, FieldLabel, IndexId, NodeId, Protocol, ProtocolId, RowId};
use arras_protocol::{OperationId, arx_eq, arx_range, documents, hello, unique, write};
use arras_server::Backend;
use arras_storage::Memory;
use libfuzzer_sys::fuzz_target;

fn framed<P: Protocol>(requests: &[P::Request]) -> Vec<u8> {
    let frame = |request| {
        let body = encode(request);
        let length = u16::try_from(body.len()).expect("a short request").to_le_bytes();
        [vec![P::ID.0], length.to_vec(), body].concat()
    };
    requests.iter().flat_map(frame).collect()
}

fn writing(steps: Vec<write::Step>) -> Vec<u8> {
    let finished_below = OperationId { epoch: 0, sequence: 0 };
    framed::<write::Write>(&[write::Request { operation: None, finished_below, steps }])
}

fn seeds() -> Vec<Vec<u8>> {
    let (collection, index, node, row) =
        (CollectionId([1; 8]), IndexId([2; 8]), NodeId([3; 16]), RowId([4; 16]));
    let document = documents::SealedDocument {
        row,
        header: Blob(vec![5; 30]),
        fields: vec![(FieldLabel([6; 8]), Blob(vec![7; 30]))],
    };
    let stored = writing(vec![
        write::Step::Documents(documents::Change::CreateCollection { collection }),
        write::Step::Documents(documents::Change::Put { collection, document, insert: true }),
    ]);
    let read = framed::<documents::Documents>(&[
        documents::Request::Count { collection },
        documents::Request::Read { collection, rows: vec![row, RowId([9; 16])] },
        documents::Request::Scan { collection, after: None, documents_max: 10 },
    ]);
    let label = unique::Label([8; 16]);
    let indexed = writing(vec![
        write::Step::Unique(unique::Change::CreateIndex { index }),
        write::Step::Unique(unique::Change::Insert { index, label, row }),
        write::Step::ArxEq(arx_eq::Change::CreateIndex { index: IndexId([9; 8]) }),
    ]);
    let searched = framed::<unique::Unique>(&[unique::Request { index, labels: vec![label] }]);
    let tokens = vec![vec![arx_eq::SearchToken { node: [1; 16], height: 3 }]];
    let equal = framed::<arx_eq::ArxEq>(&[arx_eq::Request { index: IndexId([9; 8]), values: tokens }]);
    let ranged = framed::<arx_range::ArxRange>(&[
        arx_range::Request::LoadTop { index, after: None },
        arx_range::Request::Buckets { index, nodes: vec![node, NodeId::HEAD] },
    ]);
    let greeting = framed::<hello::Hello>(&[hello::Request { protocol_version: 1 }]);
    vec![greeting, [stored, read].concat(), [indexed, searched, equal].concat(), ranged]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    let backend = Backend::open(Memory::new(), [0; 16]).expect("an empty store opens");
    let mut rest = bytes;
    while let Some(([protocol, low, high], after)) = rest.split_first_chunk::<3>() {
        let (body, after) = after.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(after.len()));
        rest = after;
        // A refusal is a result; only a panic is not.
        let _ = backend.handle(ProtocolId(*protocol), body);
    }
});
