//! Updates: parsed, then applied. `{q: filter, u: update, f: array filters, d: document}`. What comes out is within
//! the limits and keeps its `_id`.
#![no_main]

use arras_documents::filter::Filter;
use arras_documents::limits::check_built;
use arras_documents::update::{ArrayFilters, Update};
use arras_fuzz::{document, encoded, seed};
use bson::oid::ObjectId;
use bson::{Bson, Document, doc};
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let d = doc! {"_id": 1, "a": 5, "b": [1, 2, {"c": 3}], "s": "text"};
    encoded([
        doc! {"q": {}, "u": {"$set": {"a": 1, "x.y.0": 2}, "$inc": {"n": 2_i64}, "$unset": {"s": ""}}, "d": d.clone()},
        doc! {"q": {"b": 2}, "u": {"$push": {"b": {"$each": [9, 8], "$slice": -3, "$sort": -1}}}, "d": d.clone()},
        doc! {"q": {"b": 2}, "u": {"$set": {"b.$": 7}, "$mul": {"a": 1.5}, "$rename": {"s": "t"}}, "d": d.clone()},
        doc! {"q": {}, "u": {"$set": {"b.$[i]": 0}}, "f": [{"i": {"$gte": 2}}], "d": d.clone()},
        doc! {"q": {}, "u": {"$pull": {"b": {"$gt": 1}}, "$bit": {"a": {"xor": 3}}, "$min": {"m": 1}}, "d": d.clone()},
        doc! {"q": {}, "u": {"$addToSet": {"b": {"$each": [1, 4]}}, "$pop": {"z": 1}}, "d": d.clone()},
        doc! {"q": {"k": 1}, "u": {"whole": "replacement"}, "d": d},
    ])
}

fn filters(given: &Document) -> Vec<Document> {
    let given = given.get_array("f").map(Vec::as_slice).unwrap_or_default();
    given.iter().filter_map(Bson::as_document).cloned().collect()
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    let Some(all) = document(bytes) else { return };
    let (Ok(query), Some(update), Ok(document)) = (all.get_document("q"), all.get("u"), all.get_document("d")) else {
        return;
    };
    let (Ok(filter), Ok(update)) = (Filter::parse(query), Update::parse(update)) else { return };
    let Ok(array_filters) = ArrayFilters::parse(&filters(&all)) else { return };
    if let Ok(Some(updated)) = update.apply(document, Some(&filter), &array_filters) {
        assert_eq!(check_built(&updated), Ok(updated.bytes()));
        if let Some(id) = document.get("_id") {
            assert!(updated.get("_id").is_some_and(|updated| arras_documents::order::equal(updated, id)));
        }
    }
    if let Ok(upserted) = update.upsert_document(&filter, &array_filters, ObjectId::new()) {
        assert!(upserted.contains_key("_id"));
    }
});
