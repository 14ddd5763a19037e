//! Messages of `write`, and refusals.
#![no_main]

use arras_fuzz::{decodes_stably, seed};
use arras_protocol::codec::encode;
use arras_protocol::{CollectionId, IndexId, OperationId, Refusal, documents, unique, write};
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let operation = OperationId { epoch: 1, sequence: 300 };
    let steps = vec![
        write::Step::Documents(documents::Change::CreateCollection { collection: CollectionId([1; 8]) }),
        write::Step::Unique(unique::Change::CreateIndex { index: IndexId([2; 8]) }),
    ];
    vec![
        encode(&write::Request {
            operation: Some(operation),
            finished_below: operation,
            acknowledged: 0,
            steps,
        }),
        encode(&write::Response { applied: true, commits: 1 }),
        encode(&Refusal::Version { asked: 2, served: 1 }),
        encode(&Refusal::Malformed("a reason".into())),
        encode(&Refusal::Conflict { step: 70_000 }),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    decodes_stably::<write::Request>(bytes);
    decodes_stably::<write::Response>(bytes);
    decodes_stably::<Refusal>(bytes);
});
