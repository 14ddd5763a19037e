//! What the demonstration asks, and what plaintext answers.

use super::data::Person;
use crate::wire_client::{ClientError, WireClient};
use bson::{Bson, Document, doc};

/// Database and collection.
const DATABASE: &str = "clinic";
const COLLECTION: &str = "people";

/// An answer, in a form in which two can be compared.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expected {
    /// Ids of documents in the order asked for.
    Ordered(Vec<i32>),
    /// Ids of documents in any order, sorted here.
    Set(Vec<i32>),
    /// Named numbers, to six significant digits (sums of thousands of doubles).
    Numbers(Vec<(String, String)>),
}

impl Expected {
    /// The answer in a few words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Ordered(ids) | Self::Set(ids) if ids.len() == 1 => "1 document".into(),
            Self::Ordered(ids) | Self::Set(ids) => format!("{} documents", ids.len()),
            Self::Numbers(numbers) => {
                let words: Vec<String> =
                    numbers.iter().map(|(name, value)| format!("{name} = {value}")).collect();
                words.join(", ")
            }
        }
    }
}

type Run = Box<dyn Fn(&mut WireClient) -> Result<Expected, ClientError>>;
type Expect = Box<dyn Fn(&mut Vec<Person>) -> Expected>;

/// One operation.
pub(crate) struct Operation {
    /// Kind, in a word or two.
    pub(crate) kind: &'static str,
    /// As one would type it in mongosh.
    pub(crate) text: &'static str,
    /// The `explain` command.
    pub(crate) explain: Option<Document>,
    /// Runs it over the wire.
    pub(crate) run: Run,
    /// Does the same to the plaintext.
    pub(crate) expect: Expect,
}

/// The indexes the application asks for; nothing else is declared.
pub(crate) fn create_indexes() -> Document {
    let sums = doc! { "arras": { "sums": ["medical"] } };
    doc! {
        "createIndexes": COLLECTION,
        "indexes": [
            { "name": "health_1", "key": { "health": 1 } },
            { "name": "age_1", "key": { "age": 1 }, "storageEngine": sums },
            { "name": "medical_1", "key": { "medical": 1 } },
            { "name": "site_1_year_1", "key": { "site": 1, "year": 1 } },
        ],
        "$db": DATABASE,
    }
}

/// An insert of some people.
pub(crate) fn insert(people: &[Person]) -> Document {
    let documents: Vec<Document> = people.iter().map(Person::document).collect();
    doc! { "insert": COLLECTION, "documents": documents, "$db": DATABASE }
}

fn find(filter: Document) -> Document {
    doc! { "find": COLLECTION, "filter": filter, "$db": DATABASE }
}

fn explain(mut command: Document) -> Option<Document> {
    command.remove("$db");
    Some(doc! { "explain": command, "$db": DATABASE })
}

fn ids(documents: &[Document]) -> Vec<i32> {
    documents.iter().filter_map(|document| document.get_i32("_id").ok()).collect()
}

fn set(mut ids: Vec<i32>) -> Expected {
    ids.sort_unstable();
    Expected::Set(ids)
}

fn matching(people: &[Person], matches: impl Fn(&Person) -> bool) -> Vec<i32> {
    people.iter().filter(|person| matches(person)).map(|person| person.id).collect()
}

/// A number to six significant digits.
fn rounded(value: f64) -> String {
    format!("{value:.5e}").parse::<f64>().unwrap_or(value).to_string()
}

fn number(value: Option<&Bson>) -> String {
    match value {
        Some(Bson::Int32(number)) => rounded(f64::from(*number)),
        Some(Bson::Int64(number)) => rounded(*number as f64),
        Some(Bson::Double(number)) => rounded(*number),
        _ => "none".into(),
    }
}

/// A find whose results have no order.
fn search(
    kind: &'static str,
    text: &'static str,
    filter: Document,
    matches: impl Fn(&Person) -> bool + 'static,
) -> Operation {
    let command = find(filter);
    Operation {
        kind,
        text,
        explain: explain(command.clone()),
        run: Box::new(move |client| Ok(set(ids(&client.query(&command)?)))),
        expect: Box::new(move |people| set(matching(people, &matches))),
    }
}

/// Everything, in the order of the show.
pub(crate) fn all() -> Vec<Operation> {
    let between = |age: Option<f64>, from: f64, to: f64| age.is_some_and(|age| age >= from && age < to);
    let mut operations = vec![
        search("equality", r#"find({ health: "poor" })"#, doc! { "health": "poor" }, |person| {
            person.health == "poor"
        }),
        search(
            "range",
            "find({ age: { $gte: 61, $lt: 62 } })",
            doc! { "age": { "$gte": 61, "$lt": 62 } },
            move |person| between(person.age, 61.0, 62.0),
        ),
        order_by_limit(),
        search("compound equality", "find({ site: 3, year: 2 })", doc! { "site": 3, "year": 2 }, |person| {
            person.site == 3 && person.year == 2
        }),
        search(
            "equality + range",
            r#"find({ health: "poor", age: { $gt: 60 } })"#,
            doc! { "health": "poor", "age": { "$gt": 60 } },
            |person| person.health == "poor" && person.age.is_some_and(|age| age > 60.0),
        ),
        range_sum(),
        group(),
        search(
            "no index: a scan",
            "find({ education: { $gte: 20 }, family: 1 })",
            doc! { "education": { "$gte": 20 }, "family": 1 },
            |person| person.family == 1 && person.education.is_some_and(|years| years >= 20.0),
        ),
    ];
    operations.extend(changes());
    operations
}

fn order_by_limit() -> Operation {
    let command = doc! { "find": COLLECTION, "sort": { "medical": -1 }, "limit": 5, "$db": DATABASE };
    Operation {
        kind: "order by, limit",
        text: "find().sort({ medical: -1 }).limit(5)",
        explain: explain(command.clone()),
        run: Box::new(move |client| Ok(Expected::Ordered(ids(&client.query(&command)?)))),
        expect: Box::new(|people| {
            let mut sorted: Vec<&Person> = people.iter().collect();
            let dollars = |person: &Person| person.medical.unwrap_or(f64::NEG_INFINITY);
            sorted.sort_by(|left, right| dollars(right).total_cmp(&dollars(left)));
            Expected::Ordered(sorted.into_iter().take(5).map(|person| person.id).collect())
        }),
    }
}

/// A sum that the server answers from sealed partials: no document is read.
fn range_sum() -> Operation {
    let pipeline = vec![
        doc! { "$match": { "age": { "$gte": 30, "$lt": 40 } } },
        doc! { "$group": { "_id": null, "spent": { "$sum": "$medical" }, "mean": { "$avg": "$medical" } } },
    ];
    let command = doc! { "aggregate": COLLECTION, "pipeline": pipeline, "cursor": {}, "$db": DATABASE };
    Operation {
        kind: "aggregate over a range",
        text: "aggregate([{ $match: { age: { $gte: 30, $lt: 40 } } }, { $group: { _id: null, spent: { $sum: \"$medical\" }, mean: { $avg: \"$medical\" } } }])",
        explain: explain(command.clone()),
        run: Box::new(move |client| {
            let found = client.query(&command)?;
            let value =
                |name: &str| (name.to_owned(), number(found.first().and_then(|group| group.get(name))));
            Ok(Expected::Numbers(vec![value("spent"), value("mean")]))
        }),
        expect: Box::new(|people| {
            let in_range = |person: &&Person| person.age.is_some_and(|age| (30.0..40.0).contains(&age));
            let dollars: Vec<f64> =
                people.iter().filter(in_range).filter_map(|person| person.medical).collect();
            let spent: f64 = dollars.iter().sum();
            let mean = if dollars.is_empty() { "none".into() } else { rounded(spent / dollars.len() as f64) };
            Expected::Numbers(vec![("spent".into(), rounded(spent)), ("mean".into(), mean)])
        }),
    }
}

fn group() -> Operation {
    let pipeline = vec![
        doc! { "$match": { "site": 4, "year": 1 } },
        doc! { "$group": { "_id": "$health", "visits": { "$sum": "$visits" } } },
        doc! { "$sort": { "_id": 1 } },
    ];
    let command = doc! { "aggregate": COLLECTION, "pipeline": pipeline, "cursor": {}, "$db": DATABASE };
    Operation {
        kind: "group",
        text: r#"aggregate([{ $match: { site: 4, year: 1 } }, { $group: { _id: "$health", visits: { $sum: "$visits" } } }, { $sort: { _id: 1 } }])"#,
        explain: explain(command.clone()),
        run: Box::new(move |client| {
            let groups = client.query(&command)?;
            let pair = |group: &Document| {
                (group.get_str("_id").unwrap_or_default().to_owned(), number(group.get("visits")))
            };
            Ok(Expected::Numbers(groups.iter().map(pair).collect()))
        }),
        expect: Box::new(|people| {
            let mut groups = std::collections::BTreeMap::<String, i64>::new();
            for person in people.iter().filter(|person| person.site == 4 && person.year == 1) {
                *groups.entry(person.health.clone()).or_default() += i64::from(person.visits);
            }
            Expected::Numbers(groups.into_iter().map(|(name, sum)| (name, rounded(sum as f64))).collect())
        }),
    }
}

/// Writes, each followed by the query that shows its effect through an index.
fn changes() -> Vec<Operation> {
    let counted =
        |name: &'static str, count: usize| Expected::Numbers(vec![(name.into(), rounded(count as f64))]);
    let update = doc! {
        "update": COLLECTION,
        "updates": [{ "q": { "health": "poor", "age": { "$gt": 60 } }, "u": { "$set": { "health": "frail" } }, "multi": true }],
        "$db": DATABASE,
    };
    let delete = doc! {
        "delete": COLLECTION,
        "deletes": [{ "q": { "age": { "$lt": 1 } }, "limit": 0 }],
        "$db": DATABASE,
    };
    vec![
        Operation {
            kind: "update",
            text: r#"updateMany({ health: "poor", age: { $gt: 60 } }, { $set: { health: "frail" } })"#,
            explain: explain(update.clone()),
            run: Box::new(move |client| {
                Ok(Expected::Numbers(vec![(
                    "modified".into(),
                    number(client.command(&update)?.get("nModified")),
                )]))
            }),
            expect: Box::new(move |people| {
                let older = |person: &&mut Person| {
                    person.health == "poor" && person.age.is_some_and(|age| age > 60.0)
                };
                let mut modified = 0;
                for person in people.iter_mut().filter(older) {
                    person.health = "frail".into();
                    modified += 1;
                }
                counted("modified", modified)
            }),
        },
        search("and its effect", r#"find({ health: "frail" })"#, doc! { "health": "frail" }, |person| {
            person.health == "frail"
        }),
        Operation {
            kind: "delete",
            text: "deleteMany({ age: { $lt: 1 } })",
            explain: explain(delete.clone()),
            run: Box::new(move |client| {
                Ok(Expected::Numbers(vec![("deleted".into(), number(client.command(&delete)?.get("n")))]))
            }),
            expect: Box::new(move |people| {
                let before = people.len();
                people.retain(|person| person.age.is_none_or(|age| age >= 1.0));
                counted("deleted", before - people.len())
            }),
        },
        search("and its effect", "find({ age: { $lt: 2 } })", doc! { "age": { "$lt": 2 } }, |person| {
            person.age.is_some_and(|age| age < 2.0)
        }),
    ]
}
