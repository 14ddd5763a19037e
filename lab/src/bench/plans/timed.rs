//! Queries that are to take no longer than a target, or than others that ask for about as much.

use super::{DATABASE, PlansError, insert, median, median_ms, once_ms};
use crate::wire_client::WireClient;
use bson::{Document, doc};
use serde::{Deserialize, Serialize};

/// Documents of the collections in which a frequent value has an index.
const FREQUENT: i64 = 40_000;
/// How often two queries take turns.
const TURNS: usize = 15;
/// Part of the documents that a range counts, in tenths.
const COUNTED_TENTHS: i64 = 7;

/// A query's time and what it is compared with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timed {
    /// The query, in words.
    pub what: String,
    /// The median of how long it takes.
    pub milliseconds: f64,
    /// The same of what it is compared with, if it is.
    pub beside: Option<f64>,
    /// Most milliseconds, or times that of what it is compared with.
    pub at_most: f64,
}

impl Timed {
    /// What is compared with `at_most`.
    #[must_use]
    pub fn measured(&self) -> f64 {
        self.beside.map_or(self.milliseconds, |beside| self.milliseconds / beside)
    }
}

/// The medians of two commands that take turns, so that what else the machine does meets both.
fn in_turns(client: &mut WireClient, commands: [&Document; 2]) -> Result<[f64; 2], PlansError> {
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..TURNS {
        for (command, times) in commands.iter().zip(&mut times) {
            times.push(once_ms(client, command)?);
        }
    }
    Ok(times.map(median))
}

fn index(fields: Document, unique: bool) -> Document {
    let name = fields.keys().cloned().collect::<Vec<_>>().join("_");
    doc! { "key": fields, "name": name, "unique": unique }
}

fn create(client: &mut WireClient, collection: &str, index: Document) -> Result<(), PlansError> {
    client.command(&doc! { "createIndexes": collection, "indexes": [index], "$db": DATABASE })?;
    Ok(())
}

/// Loads what each needs and times it.
pub(super) fn lines(
    client: &mut WireClient,
    documents: usize,
    seed: u64,
    tell: &dyn Fn(&str),
) -> Result<Vec<Timed>, PlansError> {
    let mut lines = Vec::new();
    for [first, second] in [["email", "country"], ["country", "email"]] {
        tell(&format!("{FREQUENT} documents, indexes on {first}, then {second}"));
        lines.push(frequent(client, first, second)?);
    }
    tell(&format!("{documents} documents in a range index with sums"));
    lines.push(count_and_sum(client, documents as i64)?);
    tell("65 values beside 64");
    lines.push(values(client, documents, seed)?);
    Ok(lines)
}

/// A unique value and one that nearly all documents have.
fn frequent(client: &mut WireClient, first: &str, second: &str) -> Result<Timed, PlansError> {
    let collection = format!("frequent_{first}");
    let document = |id: i64| {
        doc! { "_id": id, "email": format!("{id}@x"), "country": if id % 50 == 0 { "LI" } else { "CH" } }
    };
    insert(client, &collection, &(0..FREQUENT).map(document).collect::<Vec<_>>())?;
    for field in [first, second] {
        create(client, &collection, index(doc! { field: 1 }, field == "email"))?;
    }
    let filter = doc! { "email": "777@x", "country": "CH" };
    let milliseconds = median_ms(client, &doc! { "find": collection, "filter": filter, "$db": DATABASE })?;
    let what = format!("unique value and a 98 % value of {FREQUENT}; {first} indexed first");
    Ok(Timed { what, milliseconds, beside: None, at_most: 3.0 })
}

/// The count of a range, and its sum, of one index.
fn count_and_sum(client: &mut WireClient, documents: i64) -> Result<Timed, PlansError> {
    let collection = "sums";
    let document = |id: i64| doc! { "_id": id, "placed": id, "total": (id % 1000) as f64 };
    insert(client, collection, &(0..documents).map(document).collect::<Vec<_>>())?;
    let mut with_sums = index(doc! { "placed": 1 }, false);
    with_sums.insert("storageEngine", doc! { "arras": { "operations": ["range"], "sums": ["total"] } });
    create(client, collection, with_sums)?;
    let counted = documents * COUNTED_TENTHS / 10;
    let filter = doc! { "placed": { "$gte": documents - counted } };
    let group = doc! { "$group": { "_id": null, "total": { "$sum": "$total" } } };
    let pipeline = vec![doc! { "$match": &filter }, group];
    let sum = doc! { "aggregate": collection, "pipeline": pipeline, "cursor": {}, "$db": DATABASE };
    let count = doc! { "count": collection, "query": filter, "$db": DATABASE };
    let [milliseconds, sum] = in_turns(client, [&count, &sum])?;
    let what = format!("count of a range with {counted} matches, beside its sum");
    Ok(Timed { what, milliseconds, beside: Some(sum), at_most: 2.0 })
}

/// One value more than there may be ranges read side by side, and as many.
fn values(client: &mut WireClient, documents: usize, seed: u64) -> Result<Timed, PlansError> {
    let customers = super::data::orders(documents.min(1000), seed);
    let mut known: Vec<i64> = customers.iter().filter_map(|order| order.get_i64("customer").ok()).collect();
    known.sort_unstable();
    known.dedup();
    let of = |count: usize| {
        let filter = doc! { "customer": { "$in": known.iter().take(count).copied().collect::<Vec<_>>() } };
        doc! { "find": super::ORDERS, "filter": filter, "$db": DATABASE }
    };
    let [milliseconds, fewer] = in_turns(client, [&of(65), &of(64)])?;
    let what = "65 values, beside 64".to_owned();
    Ok(Timed { what, milliseconds, beside: Some(fewer), at_most: 1.2 })
}
