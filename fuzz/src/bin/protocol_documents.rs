//! Messages of `documents`, from whichever peer.
#![no_main]

use arras_fuzz::{decodes_stably, seed};
use arras_protocol::codec::encode;
use arras_protocol::{Blob, CollectionId, RowId, documents};
use libfuzzer_sys::fuzz_target;

fn document() -> documents::SealedDocument {
    documents::SealedDocument { row: RowId([2; 16]), header: Blob(vec![5; 60]), values: Blob(vec![4; 40]) }
}

fn seeds() -> Vec<Vec<u8>> {
    vec![
        encode(&documents::Request::Read { collection: CollectionId([1; 8]), rows: vec![RowId([2; 16]); 3] }),
        encode(&documents::Request::Scan {
            collection: CollectionId([1; 8]),
            after: None,
            documents_max: 100,
        }),
        encode(&documents::Response::Documents { documents: vec![document()], more: true, served: 1 }),
        encode(&documents::Change::Put {
            collection: CollectionId([1; 8]),
            document: document(),
            insert: true,
        }),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    decodes_stably::<documents::Request>(bytes);
    decodes_stably::<documents::Response>(bytes);
    decodes_stably::<documents::Change>(bytes);
});
