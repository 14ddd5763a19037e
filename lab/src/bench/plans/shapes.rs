//! The sixteen shapes.

use super::data::times;
use bson::{Document, doc};

/// What is done with the matches.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Find { sort: Document, limit: Option<i64> },
    Count,
}

/// A query.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) name: &'static str,
    pub(super) filter: Document,
    pub(super) kind: Kind,
}

impl Shape {
    /// As the front end takes it, without a database.
    pub(super) fn command(&self, collection: &str) -> Document {
        match &self.kind {
            Kind::Count => doc! { "count": collection, "query": &self.filter },
            Kind::Find { sort, limit } => {
                let mut command = doc! { "find": collection, "filter": &self.filter };
                if !sort.is_empty() {
                    command.insert("sort", sort);
                }
                if let Some(limit) = limit {
                    command.insert("limit", *limit);
                }
                command
            }
        }
    }
}

fn find(name: &'static str, filter: Document) -> Shape {
    Shape { name, filter, kind: Kind::Find { sort: Document::new(), limit: None } }
}

fn limited(name: &'static str, filter: Document, sort: Document, limit: i64) -> Shape {
    Shape { name, filter, kind: Kind::Find { sort, limit: Some(limit) } }
}

fn count(name: &'static str, filter: Document) -> Shape {
    Shape { name, filter, kind: Kind::Count }
}

/// The shapes, over such data.
pub(super) fn sixteen(data: &[Document]) -> Vec<Shape> {
    let times = times(data.len());
    let between = |from: i64, thousandths: i64| {
        doc! { "$gte": times * from / 1000, "$lt": times * (from + thousandths) / 1000 }
    };
    let customers: Vec<i64> = (3..11).collect();
    let many: Vec<i64> = (0..65).collect();
    let union = vec![doc! { "customer": 5_i64 }, doc! { "email": "17@example.com" }];
    let ranges = vec![doc! { "placed": between(100, 2) }, doc! { "score": { "$gte": 990, "$lt": 992 } }];
    vec![
        find("unique value, 98 % value", doc! { "country": "CH", "email": "77@example.com" }),
        find("two indexes that both apply", doc! { "customer": 7_i64, "status": "done" }),
        find("98 % value, narrow range", doc! { "country": "CH", "placed": between(500, 2) }),
        find("prefix of one field", doc! { "a": 7_i64 }),
        find("prefix of two fields", doc! { "a": 7_i64, "b": 11_i64 }),
        find("prefix, range", doc! { "a": 7_i64, "b": { "$gte": 20, "$lt": 40 } }),
        limited("order, limit", doc! {}, doc! { "placed": -1 }, 10),
        limited("prefix, order, limit", doc! { "customer": 9_i64 }, doc! { "placed": -1 }, 5),
        limited("98 % value, limit", doc! { "country": "CH" }, doc! {}, 10),
        limited("2 % value, another order, limit", doc! { "status": "failed" }, doc! { "placed": 1 }, 10),
        find("union of values", doc! { "$or": union }),
        find("union of ranges", doc! { "$or": ranges }),
        count("count of a value", doc! { "status": "open" }),
        count("count of a range", doc! { "placed": { "$gte": times * 3 / 10 } }),
        limited("values, order, limit", doc! { "customer": { "$in": customers } }, doc! { "placed": -1 }, 10),
        find("65 values, a range", doc! { "a": { "$in": many }, "b": { "$gte": 50, "$lt": 52 } }),
    ]
}
