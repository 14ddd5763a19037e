//! Folders of files and mailboxes as documents: which there are, what is in them, which have changed since they were indexed.
//!
//! A file is one document, or a mailbox in which each message is one. What a file is, its name and its beginning say: a message
//! (`.eml`, or a file of a Maildir), an mbox (it begins with `From ` and a header), HTML (`.html`, `.htm`), or text. What has a
//! zero byte near its beginning is none of these and is left out.
//!
//! What is not UTF-8 is read as ISO 8859-1, byte by byte.

mod again;
mod decoding;
mod html;
mod index;
mod ledger;
mod mbox;
mod message;
mod read;
mod walk;

pub use again::{About, Look, Reread, reread, reread_mailbox};
pub use index::{Counts, IndexError, Journal, Problem, Progress, Summary, index, remove};
pub use ledger::{Entry, Ledger, LedgerError, MessageId, Place, Stamp};
pub use walk::STORE_ENTRIES;

/// Bytes of a message or of an HTML file that are read; what is behind them is left out.
pub const HELD_BYTES_MAX: usize = 64 << 20;

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
