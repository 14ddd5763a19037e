//! Documents from the network: what is accepted becomes an owned document that is accepted again.
#![no_main]

use arras_documents::limits::{check_built, check_document};
use arras_fuzz::{document, encoded, seed};
use bson::{Bson, Document, doc};
use libfuzzer_sys::fuzz_target;

fn nested(depth: usize) -> Document {
    (0..depth).fold(doc! {}, |inner, _| doc! {"a": inner})
}

fn seeds() -> Vec<Vec<u8>> {
    let values = doc! {
        "double": 1.5, "text": "ü", "array": [1, 2_i64, Bson::Null], "id": bson::oid::ObjectId::from_bytes([1; 12]),
        "binary": bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: vec![1, 2, 3] },
        "regex": bson::Regex { pattern: bson::cstr!("^a").into(), options: bson::cstr!("i").into() },
        "least": Bson::MinKey, "most": Bson::MaxKey, "flag": true, "date": bson::DateTime::from_millis(1),
        "code": Bson::JavaScriptCode("f()".into()), "decimal": "1.5".parse::<bson::Decimal128>().map_or(Bson::Null, Bson::from),
    };
    encoded([doc! {}, values, nested(50), nested(101)])
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    if let Some(document) = document(bytes) {
        assert!(check_built(&document).is_ok());
        let again = document.to_vec().expect("an accepted document encodes");
        assert!(check_document(&again).is_ok());
    }
});
