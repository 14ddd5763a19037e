//! What a session's statements did, by the replies that end them.

use super::State;
use crate::Freshness;
use crate::frames::HEAD_BYTES;
use crate::rewriting::Rewriting;
use std::time::SystemTime;

/// Commands after which the database is as it was.
const ONLY_READ: [&[u8]; 13] = [
    b"BEGIN",
    b"START",
    b"SET",
    b"SHOW",
    b"ROLLBACK",
    b"SAVEPOINT",
    b"RELEASE",
    b"DECLARE",
    b"MOVE",
    b"CLOSE",
    b"PREPARE\0",
    b"DEALLOCATE",
    b"DISCARD",
];

/// Those that come the most, of all others. A SELECT calls functions.
const MAY_WRITE: [&[u8]; 4] = [b"SELECT", b"INSERT", b"UPDATE", b"DELETE"];

/// May a command of this tag have changed something?
fn may_write(tag: &[u8]) -> bool {
    let begins = |words: &[&[u8]]| words.iter().any(|word| tag.starts_with(word));
    begins(&MAY_WRITE) || !begins(&ONLY_READ)
}

/// May a command have ended a transaction, or changed tables? Most say so by their first letter.
fn may_end_or_change(tag: &[u8]) -> bool {
    matches!(tag.first(), Some(b'A' | b'C' | b'D' | b'P' | b'R'))
}

impl State {
    /// A command is complete.
    pub(super) fn tagged(&mut self, frame: &[u8]) {
        let tag = frame.get(HEAD_BYTES..).unwrap_or_default();
        self.wrote = self.wrote || may_write(tag);
        if !may_end_or_change(tag) {
            return;
        }
        self.held.tagged(tag);
        if [&b"CREATE"[..], b"ALTER", b"DROP", b"DO\0"].iter().any(|word| tag.starts_with(word)) {
            (self.changing_tables, self.changed_tables) = (true, true);
        } else if tag.starts_with(b"ROLLBACK") && self.changing_tables {
            self.changed_tables = true;
        }
    }

    /// The database waits for the next message.
    pub(super) fn ready(&mut self, frame: &[u8], rewriting: &Rewriting) {
        self.status = frame.get(HEAD_BYTES).copied().unwrap_or_default();
        self.held.ready(self.status);
        if self.status != b'I' {
            return;
        }
        // By now it is committed.
        if std::mem::take(&mut self.wrote) {
            rewriting.freshness().into_iter().for_each(Freshness::wrote);
        }
        if std::mem::take(&mut self.changing_tables) {
            rewriting.changed();
        }
    }

    /// The database waits behind the message of a number.
    pub(super) fn waits_behind(&mut self, number: u64, rewriting: &Rewriting) {
        // It has said which zone the session is in.
        let _ = self.zone_doubted.take_if(|doubted| *doubted <= number);
        if self.status == b'I' {
            // What is on its way begins one now.
            self.began = (!self.pipeline.is_empty()).then(SystemTime::now);
            self.names.transaction_ended(number);
            self.settings.transaction_ended();
            self.changes_end(number, rewriting);
        }
    }
}
