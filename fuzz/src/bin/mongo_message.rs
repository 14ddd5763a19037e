//! MongoDB wire messages from any client.
#![no_main]

use arras_fuzz::seed;
use arras_mongo::wire::parse_message;
use bson::{Document, doc};
use libfuzzer_sys::fuzz_target;

fn message(opcode: i32, body: &[&[u8]]) -> Vec<u8> {
    let body = body.concat();
    let length = i32::try_from(16 + body.len()).expect("a short message");
    let header = [length, 1, 0, opcode].map(i32::to_le_bytes).concat();
    [header, body].concat()
}

fn bytes(document: &Document) -> Vec<u8> {
    document.to_vec().expect("a document that encodes")
}

fn seeds() -> Vec<Vec<u8>> {
    let find = bytes(&doc! {"find": "c", "filter": {"a": 1}, "$db": "d"});
    let hello = bytes(&doc! {"isMaster": 1});
    let row = bytes(&doc! {"_id": 1});
    let sequence_bytes = i32::try_from(4 + 10 + 2 * row.len()).expect("a short section").to_le_bytes();
    vec![
        message(2013, &[&[0; 4], &[0], &find]),
        message(2013, &[&[2, 0, 0, 0], &[0], &find, &[1], &sequence_bytes, b"documents\0", &row, &row]),
        message(2013, &[&[1, 0, 0, 0], &[0], &find, &[0; 4]]),
        message(2004, &[&[0; 4], b"admin.$cmd\0", &[0; 4], &[1, 0, 0, 0], &hello]),
        message(2012, &[&[0; 9]]),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    // A refusal is a result; only a panic is not.
    let _ = parse_message(bytes);
    // The same with the length field right, which random bytes seldom have.
    let mut framed = bytes.to_vec();
    if let (Some(length), Ok(value)) = (framed.first_chunk_mut::<4>(), i32::try_from(bytes.len())) {
        *length = value.to_le_bytes();
        let _ = parse_message(&framed);
    }
});
