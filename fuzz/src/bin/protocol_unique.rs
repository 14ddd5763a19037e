//! Messages of `unique`, from whichever peer.
#![no_main]

use arras_fuzz::{decodes_stably, seed};
use arras_protocol::codec::encode;
use arras_protocol::{IndexId, RowId, unique};
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    vec![
        encode(&unique::Request { index: IndexId([1; 8]), labels: vec![unique::Label([2; 16]); 2] }),
        encode(&unique::Response { rows: vec![None, Some(RowId([3; 16]))] }),
        encode(&unique::Change::Insert {
            index: IndexId([1; 8]),
            label: unique::Label([2; 16]),
            row: RowId([3; 16]),
        }),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    decodes_stably::<unique::Request>(bytes);
    decodes_stably::<unique::Response>(bytes);
    decodes_stably::<unique::Change>(bytes);
});
