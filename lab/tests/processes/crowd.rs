//! Many writers of one collection at once, each of documents of its own: their writes are joined, and each must still
//! be told, and find, what became of its own.

use super::dice::Dice;
use super::model::DATABASE;
use super::process::PATIENCE;
use super::system::{is_unreachable, until_answered};
use arras_lab::wire_client::{ClientError, WireClient};
use bson::{Document, doc};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

const COLLECTION: &str = "crowd";
const WRITERS: i32 = 12;
/// Ids of one writer.
const IDS_EACH: i32 = 1_000_000;

/// Ids and counters.
type Counters = BTreeMap<i32, i32>;

/// One of them.
pub(crate) struct Writer {
    number: i32,
    next: i32,
    dice: Dice,
    /// As acknowledged.
    state: Counters,
    /// As it is if the write whose outcome is not known was applied.
    in_doubt: Option<Counters>,
}

/// All of them.
pub(crate) struct Crowd {
    pub(crate) writers: Vec<Writer>,
    /// Writes acknowledged.
    pub(crate) acknowledged: u64,
}

impl Crowd {
    pub(crate) fn new(dice: &mut Dice) -> Self {
        let writer = |number| Writer {
            number,
            next: 0,
            dice: Dice::new(dice.next()),
            state: Counters::new(),
            in_doubt: None,
        };
        Self { writers: (0..WRITERS).map(writer).collect(), acknowledged: 0 }
    }

    /// Every writer's documents are as it was told, and there are no others.
    pub(crate) fn check(&mut self, client: &mut WireClient) {
        let query = doc! { "find": COLLECTION, "filter": {}, "$db": DATABASE };
        let documents = until_answered(|| client.query(&query));
        let mut found: BTreeMap<i32, Counters> = BTreeMap::new();
        for document in &documents {
            let [id, n] = ["_id", "n"].map(|field| document.get_i32(field).expect("a number"));
            let twice = found.entry(id / IDS_EACH).or_default().insert(id, n);
            assert_eq!(twice, None, "{id} is returned twice");
        }
        for writer in &mut self.writers {
            let found = found.remove(&writer.number).unwrap_or_default();
            let in_doubt = writer.in_doubt.take();
            assert!(
                found == writer.state || in_doubt.as_ref() == Some(&found),
                "writer {}: found {found:?}\nacknowledged {:?}\nor {in_doubt:?}",
                writer.number,
                writer.state
            );
            writer.state = found;
        }
        assert!(found.is_empty(), "documents that nobody wrote: {found:?}");
    }
}

impl Writer {
    /// A write, and what it makes of the documents.
    fn operation(&mut self) -> (Document, Counters) {
        let mut after = self.state.clone();
        let chosen = self.state.keys().nth(self.dice.below(self.state.len().max(1) as u64) as usize).copied();
        match (self.dice.below(4), chosen) {
            (0, Some(id)) => {
                after.remove(&id);
                let delete = doc! { "q": { "_id": id }, "limit": 1 };
                (doc! { "delete": COLLECTION, "deletes": [delete], "$db": DATABASE }, after)
            }
            (1, Some(id)) => {
                after.entry(id).and_modify(|n| *n += 1);
                let update = doc! { "q": { "_id": id }, "u": { "$inc": { "n": 1 } } };
                (doc! { "update": COLLECTION, "updates": [update], "$db": DATABASE }, after)
            }
            _ => {
                let id = self.number * IDS_EACH + self.next;
                self.next += 1;
                after.insert(id, 0);
                let document = doc! { "_id": id, "n": 0, "text": "x".repeat(100) };
                (doc! { "insert": COLLECTION, "documents": [document], "$db": DATABASE }, after)
            }
        }
    }

    /// Writes until stopped, or until the outcome of a write is not known; how many were acknowledged.
    pub(crate) fn write(&mut self, address: &str, stop: &AtomicBool) -> u64 {
        let Ok(mut client) = WireClient::connect(address, PATIENCE) else { return 0 };
        let mut acknowledged = 0;
        while !stop.load(Ordering::SeqCst) {
            let (command, after) = self.operation();
            match client.command(&command) {
                Ok(reply) => {
                    assert_eq!(reply.get_i32("n").ok(), Some(1), "{reply} to {command}");
                    self.state = after;
                    acknowledged += 1;
                }
                Err(error) => {
                    let is_lost =
                        matches!(&error, ClientError::Io(io) if io.kind() != std::io::ErrorKind::WouldBlock);
                    assert!(is_lost || is_unreachable(&error), "{error} to {command}");
                    self.in_doubt = Some(after);
                    break;
                }
            }
        }
        acknowledged
    }
}
