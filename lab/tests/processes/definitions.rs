//! Collections and indexes that come and go: each made, dropped or filled wholly or not at all, whatever is killed.

use super::system::{is_unreachable, until_answered};
use arras_lab::wire_client::{ClientError, WireClient};
use bson::{Document, doc};
use std::collections::BTreeSet;

const DATABASE: &str = "definitions";
const COLLECTION: &str = "passing";
/// Documents before the index is made.
const DOCUMENTS: i32 = 40;
/// Values of the indexed field.
const VALUES: i32 = 5;

/// What is there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    collection: bool,
    ids: BTreeSet<i32>,
    index: bool,
}

/// Makes a collection, fills it, makes an index, adds to it, drops the index, drops the collection, and again.
pub(crate) struct Definer {
    state: State,
    step: usize,
}

fn with_database(mut command: Document) -> Document {
    command.insert("$db", DATABASE);
    command
}

fn documents(ids: std::ops::Range<i32>) -> Document {
    let documents: Vec<Document> = ids.map(|id| doc! { "_id": id, "a": id % VALUES }).collect();
    doc! { "insert": COLLECTION, "documents": documents }
}

/// A step of the cycle, and what it makes of a state.
fn step(step: usize, mut after: State) -> (Document, State) {
    let command = match step % 6 {
        0 => {
            after.collection = true;
            doc! { "create": COLLECTION }
        }
        1 => {
            after.ids.extend(0..DOCUMENTS);
            documents(0..DOCUMENTS)
        }
        2 => {
            after.index = true;
            doc! { "createIndexes": COLLECTION, "indexes": [{ "key": { "a": 1 }, "name": "a" }] }
        }
        3 => {
            after.ids.extend(DOCUMENTS..DOCUMENTS + 5);
            documents(DOCUMENTS..DOCUMENTS + 5)
        }
        4 => {
            after.index = false;
            doc! { "dropIndexes": COLLECTION, "index": "a" }
        }
        _ => {
            after = State::none();
            doc! { "drop": COLLECTION }
        }
    };
    (with_database(command), after)
}

impl State {
    fn none() -> Self {
        Self { collection: false, ids: BTreeSet::new(), index: false }
    }

    /// As a client finds it.
    fn found(client: &mut WireClient) -> Result<Self, ClientError> {
        let names =
            |list: Vec<Document>| list.iter().map(|d| d.get_str("name").unwrap().to_owned()).collect();
        let collections: BTreeSet<String> =
            names(client.query(&with_database(doc! { "listCollections": 1 }))?);
        if !collections.contains(COLLECTION) {
            return Ok(Self::none());
        }
        let indexes: BTreeSet<String> =
            names(client.query(&with_database(doc! { "listIndexes": COLLECTION }))?);
        let ids = Self::ids(client, doc! {})?;
        Ok(Self { collection: true, ids, index: indexes.contains("a") })
    }

    fn ids(client: &mut WireClient, filter: Document) -> Result<BTreeSet<i32>, ClientError> {
        let found = client.query(&with_database(doc! { "find": COLLECTION, "filter": filter }))?;
        let ids: BTreeSet<i32> = found.iter().map(|document| document.get_i32("_id").unwrap()).collect();
        assert_eq!(ids.len(), found.len(), "a document is returned twice");
        Ok(ids)
    }
}

impl Definer {
    pub(crate) fn new() -> Self {
        Self { state: State::none(), step: 0 }
    }

    /// Goes on until stopped, or until the outcome of a step is not known.
    pub(crate) fn run(&mut self, mut client: WireClient, stopped: impl Fn() -> bool) {
        while !stopped() {
            let (command, after) = step(self.step, self.state.clone());
            match client.command(&command) {
                Ok(_) => (self.state, self.step) = (after, self.step + 1),
                Err(ClientError::Io(_)) => return,
                Err(error) if is_unreachable(&error) => return,
                Err(error) => panic!("{error} to {command}"),
            }
        }
    }

    /// Finds out what became of the step that was under way, and asks the index, if there is one.
    pub(crate) fn check(&mut self, client: &mut WireClient) {
        let found = until_answered(|| State::found(client));
        let (command, after) = step(self.step, self.state.clone());
        if found != self.state {
            assert_eq!(found, after, "half there: {command}");
            (self.state, self.step) = (after, self.step + 1);
        }
        if !found.collection {
            return;
        }
        for value in 0..VALUES {
            let expected: BTreeSet<i32> =
                found.ids.iter().copied().filter(|id| id % VALUES == value).collect();
            assert_eq!(State::ids(client, doc! { "a": value }).unwrap(), expected, "a = {value}");
            let expected: BTreeSet<i32> =
                found.ids.iter().copied().filter(|id| id % VALUES >= value).collect();
            assert_eq!(
                State::ids(client, doc! { "a": { "$gte": value } }).unwrap(),
                expected,
                "a >= {value}"
            );
        }
        let explain = doc! { "explain": { "find": COLLECTION, "filter": { "a": 1 } } };
        let explained = client.command(&with_database(explain)).unwrap().to_string();
        // By either half of it: which one is a matter of what few entries cost.
        assert_eq!(explained.contains("\"indexName\": \"a\""), found.index, "{explained}");
    }
}
