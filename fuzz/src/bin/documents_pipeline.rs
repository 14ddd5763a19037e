//! Aggregations: parsed, then run over a few documents. `{p: [stages], d: [documents]}`.
#![no_main]

use arras_documents::pipeline::Pipeline;
use arras_fuzz::{document, encoded, seed};
use bson::{Bson, Document, doc};
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let d = vec![doc! {"_id": 1, "a": 5, "t": ["x", "y"]}, doc! {"_id": 2, "a": 7.5, "t": []}];
    let pipelines = [
        vec![
            doc! {"$match": {"a": {"$gt": 1}}},
            doc! {"$sort": {"a": -1}},
            doc! {"$skip": 1},
            doc! {"$limit": 5},
        ],
        vec![doc! {"$unwind": "$t"}, doc! {"$group": {"_id": "$t", "n": {"$sum": 1}, "m": {"$avg": "$a"}}}],
        vec![doc! {"$project": {"a": {"$add": ["$a", 1]}, "u": {"$toUpper": {"$arrayElemAt": ["$t", 0]}}}}],
        vec![doc! {"$addFields": {"b": {"$map": {"input": "$t", "in": {"$concat": ["$$this", "!"]}}}}}],
        vec![
            doc! {"$replaceRoot": {"newRoot": {"$mergeObjects": ["$$ROOT", {"z": 1}]}}},
            doc! {"$count": "n"},
        ],
        vec![doc! {"$bucket": {"groupBy": "$a", "boundaries": [0, 6, 10]}}, doc! {"$unset": "count"}],
        vec![doc! {"$sortByCount": {"$cond": [{"$gte": ["$a", 6]}, "high", "low"]}}],
    ];
    encoded(pipelines.into_iter().map(|stages| doc! {"p": stages, "d": d.clone()}))
}

fn documents(given: &Document, name: &str) -> Vec<Document> {
    let given = given.get_array(name).map(Vec::as_slice).unwrap_or_default();
    given.iter().filter_map(Bson::as_document).cloned().collect()
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    let Some(both) = document(bytes) else { return };
    if let Ok(pipeline) = Pipeline::parse(&documents(&both, "p")) {
        // MongoDB's errors at run time are results too; only a panic is not.
        let _ = pipeline.run(documents(&both, "d"));
    }
});
