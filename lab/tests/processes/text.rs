//! `$text` over real processes: proxy, server, host and enclave.

mod crash;
mod declared;
mod model;
mod semantics;

use super::process::PATIENCE;
use super::searching::Texts;
use arras_lab::wire_client::{ClientError, WireClient};
use bson::{Document, doc};
use std::time::Instant;

/// The database of these tests.
const DATABASE: &str = "texts";

impl Texts {
    fn client(&self) -> Client {
        Client(self.system.client())
    }
}

/// An application.
struct Client(WireClient);

/// What a find returned: `_id`s, in order.
fn ids(documents: &[Document]) -> Vec<i32> {
    documents.iter().map(|document| document.get_i32("_id").unwrap()).collect()
}

impl Client {
    fn command(&mut self, mut command: Document) -> Result<Document, ClientError> {
        command.insert("$db", DATABASE);
        self.0.command(&command)
    }

    /// The code that a command is refused with.
    fn code(&mut self, command: Document) -> i32 {
        let refused = self.command(command).unwrap_err();
        refused.code().unwrap_or_else(|| panic!("{refused}"))
    }

    fn query(&mut self, mut command: Document) -> Result<Vec<Document>, ClientError> {
        command.insert("$db", DATABASE);
        self.0.query(&command)
    }

    fn create_index(
        &mut self,
        collection: &str,
        key: Document,
        options: Document,
    ) -> Result<Document, ClientError> {
        let mut index = doc! { "key": key, "name": "words" };
        index.extend(options);
        self.command(doc! { "createIndexes": collection, "indexes": [index] })
    }

    fn insert(&mut self, collection: &str, documents: Vec<Document>) {
        let count = documents.len() as i32;
        let reply = self.command(doc! { "insert": collection, "documents": documents }).unwrap();
        assert_eq!(reply.get_i32("n").unwrap(), count, "{reply}");
    }

    /// `_id`s of what a `$search` finds, ascending.
    fn found(&mut self, collection: &str, search: &str) -> Vec<i32> {
        let filter = doc! { "$text": { "$search": search } };
        let mut found = ids(&self.query(doc! { "find": collection, "filter": filter }).unwrap());
        found.sort_unstable();
        found
    }
}

/// Tries until what must come to be is there.
fn until(mut there: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !there() {
        assert!(Instant::now() < end, "it never came to be");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}
