//! Messages of `bplus`, from whichever peer.
#![no_main]

use arras_fuzz::{decodes_stably, seed};
use arras_protocol::Order;
use arras_protocol::bplus::{
    After, Bound, Change, NewEntry, Placed, Request, Response, Revision, SealedEntry, Target, TieToken,
    Wanted,
};
use arras_protocol::codec::encode;
use arras_protocol::ore::{Scheme, Width};
use arras_protocol::{Blob, IndexId};
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let (index, sealed, text) = (IndexId([1; 8]), SealedEntry([2; 32]), Blob(vec![3; 8]));
    let tie = Some(TieToken([4; 16]));
    let entry = NewEntry { query: text.clone(), stored: text.clone(), sealed, tie };
    let ends = (text.clone(), text.clone());
    let placed = vec![Placed { stored: text.clone(), sealed }];
    let (removed, inserted) = (placed.clone(), placed);
    let revision = Revision { from: 4, to: 300, moves: Blob(vec![5; 32]), removed, inserted };
    let bound = |after| Bound { query: text.clone(), after };
    let (lower, upper) = (bound(Some(After { sealed, tie })), bound(None));
    let scheme = Scheme::LewiWu { width: Width::Bits64, block_bits: 4 };
    let targets = vec![Target { query: text.clone(), sealed, tie }];
    let wanted = vec![Wanted { lower: ends.0, upper: ends.1, sealed }];
    vec![
        encode(&Request::Change(Change::CreateIndex { index, scheme, page_bytes: 4096 })),
        encode(&Request::Change(Change::DropIndex { index })),
        encode(&Request::Change(Change::Insert { index, entries: vec![entry.clone()] })),
        encode(&Request::Change(Change::Remove { index, targets })),
        encode(&Request::Change(Change::Revise { index, revision })),
        encode(&Request::Load { index, entries: vec![entry] }),
        encode(&Request::Locate { index, version: 4, wanted }),
        encode(&Request::Search {
            index,
            version: 4,
            lower,
            upper,
            order: Order::Descending,
            limit: Some(300),
        }),
        encode(&Response::Located { stored: vec![None, Some(text.clone())] }),
        encode(&Response::Found { entries: text, more: true }),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    decodes_stably::<Request>(bytes);
    decodes_stably::<Response>(bytes);
});
