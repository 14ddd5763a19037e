//! Kerschbaum-Tueno (ESORICS 2019; VLDB'19 comparison, §4.2): a circular array of sealed entries in order, which
//! the client searches and which is rotated by a uniform offset whenever it changes.
//!
//! An entry is two blocks; the first holds what entries are ordered by and is all that a probe of the binary search
//! moves. Positions count from 0 and end at the array's length; after the last comes the first.
//!
//! *Versions.* Every change raises the array's version, and positions are those of one version: a read or change that names another
//! is answered by [`Response::Changed`] and does nothing.
//!
//! *Leakage.* [`crate::leakage::kerschbaum_tueno::KERSCHBAUM_TUENO`].

use crate::Blob;
use crate::channel::Protocol;
use crate::ids::IndexId;
use crate::table::{self, Row};
use serde::{Deserialize, Serialize};

/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 32;

/// Bytes of an entry's first block.
pub const HEAD_BYTES: usize = 16;

/// Most entries of an array.
pub const LENGTH_MAX: u32 = 1 << 28;

/// The protocol.
#[derive(Debug)]
pub struct KerschbaumTueno;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Makes an empty array; no effect if there is one with this page size.
    CreateIndex {
        /// Drawn by the client; no index of the server has it yet, or this one.
        index: IndexId,
        /// Bytes of the pages it is stored in: at least one entry's.
        page_bytes: u32,
    },
    /// Drops an array.
    DropIndex {
        /// Which one.
        index: IndexId,
    },
    /// Reads what a search begins with.
    Begin {
        /// Where.
        index: IndexId,
    },
    /// Reads the first block of an entry.
    Head {
        /// Where.
        index: IndexId,
        /// The version that the position is of.
        version: u64,
        /// Its position.
        position: u32,
    },
    /// Reads entries, from the last on to the first.
    Entries {
        /// Where.
        index: IndexId,
        /// The version that the position is of.
        version: u64,
        /// Position of the first.
        position: u32,
        /// How many; at most two more than there are, so that a range's neighbours can be seen.
        count: u32,
    },
    /// Puts an entry before the one at `position`, or at the end, and rotates.
    Insert {
        /// Where.
        index: IndexId,
        /// The version before this change.
        version: u64,
        /// Position before the rotation.
        position: u32,
        /// The entry.
        entry: [u8; ENTRY_BYTES],
        /// By how many positions all entries move up.
        rotation: u32,
    },
    /// Takes the entry at `position` out, and rotates.
    Remove {
        /// Where.
        index: IndexId,
        /// The version before this change.
        version: u64,
        /// Position before the rotation.
        position: u32,
        /// By how many positions all entries move up.
        rotation: u32,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// Done.
    Done,
    /// The array's version is another than the request names: nothing was done.
    Changed,
    /// To [`Request::Begin`].
    Begun {
        /// The array's version.
        version: u64,
        /// Entries in the array.
        length: u32,
        /// The first block of the entry at position 0, if there is one.
        head: Option<[u8; HEAD_BYTES]>,
    },
    /// To [`Request::Head`].
    Head([u8; HEAD_BYTES]),
    /// To [`Request::Entries`]: as many as a reply holds, at least one; the rest is to be asked for again.
    Entries(Blob),
}

impl Protocol for KerschbaumTueno {
    const ROW: &'static Row = &table::KERSCHBAUM_TUENO;
    type Request = Request;
    type Response = Response;

    /// The entries returned but for the two neighbours that show the range to be complete, and that an insertion
    /// looks at.
    fn result_bytes(response: &Response) -> usize {
        match response {
            Response::Entries(entries) => entries.len().saturating_sub(2 * ENTRY_BYTES),
            _ => 0,
        }
    }
}
