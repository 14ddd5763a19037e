//! Projections and sorts: parsed, then applied. `{p: projection, s: sort, d: document, e: document}`.
#![no_main]

use arras_documents::projection::Projection;
use arras_documents::sort::Sort;
use arras_fuzz::{document, encoded, seed};
use bson::doc;
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let (d, e) = (doc! {"_id": 1, "a": [1, {"b": 2}], "c": "x"}, doc! {"_id": 2, "a": 1.5});
    encoded([
        doc! {"p": {"a": 1, "_id": 0}, "s": {"a": 1, "c": -1}, "d": d.clone(), "e": e.clone()},
        doc! {"p": {"a.b": 0}, "s": {"a.b": -1}, "d": d.clone(), "e": e.clone()},
        doc! {"p": {"a": {"$slice": [1, 2]}}, "s": {"_id": 1}, "d": d.clone(), "e": e.clone()},
        doc! {"p": {"a": {"$elemMatch": {"b": 2}}, "k": {"$literal": 1}}, "s": {}, "d": d, "e": e},
    ])
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    let Some(all) = document(bytes) else { return };
    let (Ok(left), Ok(right)) = (all.get_document("d"), all.get_document("e")) else { return };
    if let Some(projection) = all.get_document("p").ok().and_then(|given| Projection::parse(given).ok()) {
        // MongoDB's errors at run time are results too; only a panic is not.
        let _ = projection.apply(left, None);
    }
    if let Some(sort) = all.get_document("s").ok().and_then(|given| Sort::parse(given).ok()) {
        assert_eq!(sort.compare(left, right), sort.compare(right, left).reverse());
    }
});
