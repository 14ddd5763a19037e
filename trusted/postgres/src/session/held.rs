//! Labels that a transaction holds already: what holds them is run once in a transaction, not before each statement.

use super::reading::Reading;
use super::{Note, State};
use crate::pipeline::{Asked, Entry};

/// Statements that held labels are remembered of a transaction, at most: another is run again.
const REMEMBERED_MAX: usize = 32;

/// The tags of what may have ended or taken back what a transaction had locked, or taken away the setting by which triggers know of it.
const ENDS: [&[u8]; 6] = [b"ROLLBACK", b"COMMIT", b"PREPARE TRANSACTION", b"RESET", b"DO\0", b"CALL"];

/// What has held labels in the transaction under way.
#[derive(Default)]
pub(super) struct Held(Vec<String>);

impl Held {
    /// A command of this tag is complete.
    pub(super) fn tagged(&mut self, tag: &[u8]) {
        if ENDS.iter().any(|word| tag.starts_with(word)) {
            self.0.clear();
        }
    }

    /// The database waits, in this state of the transaction.
    pub(super) fn ready(&mut self, status: u8) {
        if status != b'T' {
            self.0.clear();
        }
    }
}

impl State {
    /// What holds labels has run.
    pub(super) fn has_held(&mut self, statement: String) {
        // What is not within a block of a transaction holds to the next `Sync` at most.
        if self.status == b'T' && self.held.0.len() < REMEMBERED_MAX && !self.held.0.contains(&statement) {
            self.held.0.push(statement);
        }
    }

    /// Does the transaction hold what this statement would, when what is sent now runs?
    pub(super) fn holds(&mut self, statement: &str) -> bool {
        self.status == b'T'
            && self.keeping_back.is_none()
            && self.held.0.iter().any(|held| held == statement)
            && self.pipeline.entries().all(|entry| keeps(entry))
    }
}

/// Can what is on its way neither end the transaction nor go back to a point of it?
fn keeps(entry: &Entry<Note>) -> bool {
    match entry.asked {
        Asked::Parse | Asked::Bind | Asked::Describe | Asked::Close | Asked::Sync => true,
        // Only what was rewritten is known to be no COMMIT.
        Asked::Execute => match entry.note.reading {
            Reading::Portal(_)
            | Reading::Hidden
            | Reading::Holding(_)
            | Reading::Returning(_)
            | Reading::CopyRow(_)
            | Reading::Own(_) => true,
            Reading::Plain
            | Reading::Query(_)
            | Reading::Refused(_)
            | Reading::Statement(_)
            | Reading::Cursor(_)
            | Reading::Kept(..)
            | Reading::Closed(_)
            | Reading::Silent
            | Reading::Shape(_)
            | Reading::Emit(_)
            | Reading::EmitShape(_)
            | Reading::EmitWritten(..)
            | Reading::Step(_)
            | Reading::CopyOut(_) => false,
        },
        Asked::Query | Asked::Call | Asked::CopyEnd => false,
    }
}
