//! Messages of `hello`, from whichever peer.
#![no_main]

use arras_fuzz::{decodes_stably, seed};
use arras_protocol::codec::encode;
use arras_protocol::hello;
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    vec![
        encode(&hello::Request { protocol_version: 1, purpose: hello::Purpose::Observe }),
        encode(&hello::Response {
            protocol_version: 1,
            database: [7; 16],
            incarnation: 3,
            setbacks: 0,
            engine: "memory".into(),
            newest: None,
            commits: 4,
            generation: 2,
        }),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    decodes_stably::<hello::Request>(bytes);
    decodes_stably::<hello::Response>(bytes);
});
