//! Filters: parsed, then matched against a document. `{q: filter, d: document}`.
#![no_main]

use arras_documents::filter::Filter;
use arras_fuzz::{document, encoded, seed};
use bson::doc;
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let d = doc! {"a": 5, "b": ["x", {"c": 1.5}], "n": null, "s": "text"};
    encoded([
        doc! {"q": {"a": {"$gt": 3, "$lte": 9_i64}, "n": null}, "d": d.clone()},
        doc! {"q": {"$or": [{"a": {"$in": [1, 5, "x"]}}, {"b.c": {"$exists": true}}]}, "d": d.clone()},
        doc! {"q": {"b": {"$elemMatch": {"c": {"$ne": 2}}}, "s": {"$regex": "^te", "$options": "i"}}, "d": d.clone()},
        doc! {"q": {"b": {"$all": ["x"], "$size": 2}, "a": {"$mod": [2, 1], "$bitsAllSet": 5}}, "d": d.clone()},
        doc! {"q": {"a": {"$not": {"$type": ["string", 16]}}, "$nor": [{"b.1.c": {"$nin": [1]}}]}, "d": d.clone()},
        doc! {"q": {"$expr": {"$and": [{"$lt": ["$a", {"$add": ["$a", 1]}]}, {"$eq": ["$s", "text"]}]}}, "d": d},
    ])
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    let Some(both) = document(bytes) else { return };
    let (Ok(query), Ok(document)) = (both.get_document("q"), both.get_document("d")) else { return };
    if let Ok(filter) = Filter::parse(query) {
        // MongoDB's errors at run time are results too; only a panic is not.
        let _ = filter.matches(document);
        let _ = filter.array_offset(document, "b");
    }
});
