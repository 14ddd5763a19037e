//! Requests to the server, several in a row: it answers or refuses, and its indexes stand it.
#![no_main]

use arras_fuzz::{framed, seed, serve};
use arras_protocol::{Blob, CollectionId, IndexId, NodeId, RowId};
use arras_protocol::{OperationId, arx_eq, arx_range, documents, hello, unique, write};
use libfuzzer_sys::fuzz_target;

fn writing(steps: Vec<write::Step>) -> Vec<u8> {
    let finished_below = OperationId { epoch: 0, sequence: 0 };
    framed::<write::Write>(&[write::Request { operation: None, finished_below, acknowledged: 0, steps }])
}

fn seeds() -> Vec<Vec<u8>> {
    let (collection, index, node, row) =
        (CollectionId([1; 8]), IndexId([2; 8]), NodeId([3; 16]), RowId([4; 16]));
    let document = documents::SealedDocument { row, header: Blob(vec![5; 30]), values: Blob(vec![7; 30]) };
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
    let greeting =
        framed::<hello::Hello>(&[hello::Request { protocol_version: 1, purpose: hello::Purpose::Observe }]);
    vec![greeting, [stored, read].concat(), [indexed, searched, equal].concat(), ranged]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| serve(bytes));
