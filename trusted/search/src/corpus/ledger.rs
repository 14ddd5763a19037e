//! What was indexed, so that the next run knows what has changed: kept by the client, sealed by whoever stores it.
//!
//! A ledger is written as a journal of records, one behind the update that made it true. A run that was stopped leaves a journal
//! that says what it had done; what came after is done again, and an update that is made twice changes nothing.

use crate::update::document_name;
use arras_schemes::bisen::DocumentName;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::path::{Path, PathBuf};

/// The first half of the SHA-256 of a message without the ends of its last line: what tells the messages of a mailbox apart.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct MessageId(pub [u8; 16]);

impl fmt::Display for MessageId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

/// By what a file is seen to be as it was.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Stamp {
    /// Bytes.
    pub size: u64,
    /// Nanoseconds since 1970 of its last change.
    pub modified: i64,
    /// The first half of the SHA-256 of its content.
    pub content: [u8; 16],
}

/// A file that is in the index.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Entry {
    /// Where it is now, if not at its name: a Maildir moves a message when it is read.
    pub place: Option<String>,
    /// As it was; nothing if the last run was stopped within it.
    pub stamp: Option<Stamp>,
    /// Of a mailbox in one file, the messages.
    pub messages: Option<BTreeSet<MessageId>>,
}

/// A document that was found.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// The name of its file in the ledger.
    pub name: String,
    /// Where the file is.
    pub path: PathBuf,
    /// Which message of it, if it is a mailbox.
    pub message: Option<MessageId>,
    /// How the file was.
    pub stamp: Option<Stamp>,
}

impl Place {
    /// Whether it is a message, by where it is and how it is called.
    #[must_use]
    pub fn is_message(&self) -> bool {
        self.message.is_some() || self.is_in_maildir() || super::read::ending(&self.path) == "eml"
    }

    pub(super) fn is_in_maildir(&self) -> bool {
        Path::new(&self.name) != self.path
    }
}

/// A step of a journal.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) enum Record {
    /// A file is indexed as it is.
    Indexed { name: String, place: Option<String>, stamp: Stamp, mailbox: bool },
    /// A message of a mailbox is indexed.
    Message { name: String, id: MessageId },
    /// A message is no longer in the mailbox, nor in the index.
    MessageGone { name: String, id: MessageId },
    /// A file is no longer in the index.
    Gone { name: String },
    /// The collection has been at this revision.
    Acknowledged { revision: u128 },
}

/// A journal that cannot be read.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the record of what was indexed cannot be read")]
pub struct LedgerError;

/// What is in the index, by the files' names.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Ledger {
    entries: BTreeMap<String, Entry>,
    revision: u128,
}

impl Ledger {
    /// Takes one piece of a journal, as [`super::Journal::append`] was given it; in their order.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn replay(&mut self, piece: &[u8]) -> Result<(), LedgerError> {
        let records: Vec<Record> = postcard::from_bytes(piece).map_err(|_| LedgerError)?;
        records.into_iter().for_each(|record| self.apply(record));
        Ok(())
    }

    /// The whole as pieces of a new journal, shorter than one that has grown.
    pub fn pieces(&self) -> impl Iterator<Item = Vec<u8>> {
        let first = encode(&[Record::Acknowledged { revision: self.revision }]);
        std::iter::once(first).chain(self.entries.iter().map(|(name, entry)| {
            let id = |id: &MessageId| Record::Message { name: name.clone(), id: *id };
            let mut records: Vec<Record> = entry.messages.iter().flatten().map(id).collect();
            if let Some(stamp) = entry.stamp {
                let (place, mailbox) = (entry.place.clone(), entry.messages.is_some());
                records.push(Record::Indexed { name: name.clone(), place, stamp, mailbox });
            }
            encode(&records)
        }))
    }

    /// A revision at which the collection has been: what is older was set back.
    #[must_use]
    pub fn revision(&self) -> u128 {
        self.revision
    }

    /// How many files there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is indexed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A file by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name)
    }

    /// The files at a path or below it.
    pub(super) fn below<'l>(&'l self, root: &'l Path) -> impl Iterator<Item = (&'l str, &'l Entry)> {
        let all = self.entries.iter().map(|(name, entry)| (name.as_str(), entry));
        all.filter(move |(name, _)| Path::new(name).starts_with(root))
    }

    /// Where documents are that were found.
    #[must_use]
    pub fn find(&self, wanted: &HashSet<DocumentName>) -> HashMap<DocumentName, Place> {
        let mut found = HashMap::new();
        for (name, entry) in &self.entries {
            let mut look = |message: Option<MessageId>| {
                let document = document_name(&called(name, message));
                if wanted.contains(&document) {
                    let path = PathBuf::from(entry.place.as_ref().unwrap_or(name));
                    found.insert(document, Place { name: name.clone(), path, message, stamp: entry.stamp });
                }
            };
            match &entry.messages {
                None => look(None),
                Some(messages) => messages.iter().for_each(|id| look(Some(*id))),
            }
        }
        found
    }

    pub(super) fn apply(&mut self, record: Record) {
        match record {
            Record::Indexed { name, place, stamp, mailbox } => {
                let entry = self.entries.entry(name).or_default();
                entry.place = place;
                entry.stamp = Some(stamp);
                if mailbox {
                    entry.messages.get_or_insert_default();
                } else {
                    entry.messages = None;
                }
            }
            Record::Message { name, id } => {
                let entry = self.entries.entry(name).or_default();
                entry.messages.get_or_insert_default().insert(id);
            }
            Record::MessageGone { name, id } => {
                let messages = self.entries.get_mut(&name).and_then(|entry| entry.messages.as_mut());
                if let Some(messages) = messages {
                    messages.remove(&id);
                }
            }
            Record::Gone { name } => {
                self.entries.remove(&name);
            }
            Record::Acknowledged { revision } => self.revision = self.revision.max(revision),
        }
    }
}

/// Records as a piece of a journal.
pub(super) fn encode(records: &[Record]) -> Vec<u8> {
    // Encoding into memory does not fail.
    postcard::to_stdvec(records).unwrap_or_default()
}

/// What a document is called: its file's name, and of a mailbox which message.
pub(super) fn called(name: &str, message: Option<MessageId>) -> String {
    message.map_or_else(|| name.to_owned(), |id| format!("{name}#{id}"))
}
