//! Messages of `arx_eq`, from whichever peer.
#![no_main]

use arras_fuzz::{decodes_stably, seed};
use arras_protocol::codec::encode;
use arras_protocol::{IndexId, RowId, arx_eq};
use libfuzzer_sys::fuzz_target;

fn token(height: u8) -> arx_eq::SearchToken {
    arx_eq::SearchToken { node: [6; 16], height }
}

fn seeds() -> Vec<Vec<u8>> {
    vec![
        encode(&arx_eq::Request {
            index: IndexId([1; 8]),
            values: vec![vec![token(0), token(31)], Vec::new()],
        }),
        encode(&arx_eq::Response {
            values: vec![arx_eq::Matches { rows: vec![RowId([3; 16])], missing: 1 }],
        }),
        encode(&arx_eq::Change::Insert {
            index: IndexId([1; 8]),
            label: arx_eq::Label([4; 16]),
            row: arx_eq::MaskedRow([5; 16]),
        }),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    decodes_stably::<arx_eq::Request>(bytes);
    decodes_stably::<arx_eq::Response>(bytes);
    decodes_stably::<arx_eq::Change>(bytes);
});
