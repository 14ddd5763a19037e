//! Messages of `bplus`, from whichever peer.
#![no_main]

use arras_fuzz::{decodes_stably, seed};
use arras_protocol::arx_range::Order;
use arras_protocol::bplus::{
    After, Bound, NewEntry, Replacement, Request, Response, SealedEntry, Target, TieToken,
};
use arras_protocol::codec::encode;
use arras_protocol::ore::{Scheme, Width};
use arras_protocol::{Blob, IndexId};
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let (index, sealed, text) = (IndexId([1; 8]), SealedEntry([2; 32]), Blob(vec![3; 8]));
    let tie = Some(TieToken([4; 16]));
    let ends = Some((text.clone(), text.clone()));
    let entry = NewEntry { query: text.clone(), stored: text.clone(), sealed, equals: ends, tie };
    let replacement = Replacement { version: 4, pairs: Blob(vec![5; 32]) };
    let bound = |after| Bound { query: text.clone(), after };
    let (lower, upper) = (bound(Some(After { sealed, tie })), bound(None));
    let scheme = Scheme::LewiWu { width: Width::Bits64, block_bits: 4 };
    vec![
        encode(&Request::CreateIndex { index, scheme, page_bytes: 4096 }),
        encode(&Request::DropIndex { index }),
        encode(&Request::Insert {
            index,
            version: 4,
            replacement: Some(replacement.clone()),
            entries: vec![entry.clone()],
        }),
        encode(&Request::Load { index, version: 4, entries: vec![entry] }),
        encode(&Request::Remove {
            index,
            version: 4,
            targets: vec![Target { lower: text.clone(), upper: Some(text.clone()), sealed, tie }],
        }),
        encode(&Request::Replace { index, replacement }),
        encode(&Request::Search { index, lower, upper, order: Order::Descending, limit: Some(300) }),
        encode(&Response::Inserted { present: vec![0, 900] }),
        encode(&Response::Removed { stored: vec![None, Some(text.clone())] }),
        encode(&Response::Found { entries: text, more: true }),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    decodes_stably::<Request>(bytes);
    decodes_stably::<Response>(bytes);
});
