//! Messages of `kerschbaum_tueno`, from whichever peer.
#![no_main]

use arras_fuzz::{decodes_stably, seed};
use arras_protocol::codec::encode;
use arras_protocol::kerschbaum_tueno::{Request, Response};
use arras_protocol::{Blob, IndexId};
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let index = IndexId([1; 8]);
    vec![
        encode(&Request::CreateIndex { index, page_bytes: 4096 }),
        encode(&Request::DropIndex { index }),
        encode(&Request::Begin { index }),
        encode(&Request::Head { index, version: 9, position: 7 }),
        encode(&Request::Entries { index, version: 9, position: 7, count: 300 }),
        encode(&Request::Insert { index, version: 9, position: 3, entry: [4; 32], rotation: 8 }),
        encode(&Request::Remove { index, version: 9, position: 3, rotation: 8 }),
        encode(&Response::Done),
        encode(&Response::Changed),
        encode(&Response::Begun { version: 9, length: 9, head: Some([5; 16]) }),
        encode(&Response::Head([5; 16])),
        encode(&Response::Entries(Blob(vec![6; 64]))),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    decodes_stably::<Request>(bytes);
    decodes_stably::<Response>(bytes);
});
