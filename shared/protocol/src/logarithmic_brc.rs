//! Logarithmic-BRC (Demertzis et al., SIGMOD 2016): range covers over an encrypted multimap.
//!
//! A record of value `x` stands in the lists of all nodes `(x >> i, i)` above it in a binary tree over the domain; a
//! range is searched by the lists of the nodes that cover it. The lists are an encrypted multimap: [`cjjkrs`] is
//! its dictionary, [`cjjjkrs`] how long lists are packed. The index is a set of *instances*, each a multimap of
//! its own that is built once and never changed: one if it is static, about a logarithm of its size if it is updated.
//!
//! *Leakage.* [`crate::leakage::logarithmic_brc::LOGARITHMIC_BRC`]. The server learns the lists' lengths when it is given their tokens,
//! not what is in them: the client opens them. It is given tokens of lists beside a range, too, if an instance has nothing
//! in it ([`Request::Heads`]).

pub mod cjjjkrs;
pub mod cjjkrs;

use crate::bytes::Blob;
use crate::channel::Protocol;
use crate::ids::IndexId;
use crate::table::{self, Row};
use cjjjkrs::Shape;
use cjjkrs::{Label, SearchToken};
use serde::{Deserialize, Serialize};

/// The protocol.
#[derive(Debug)]
pub struct LogarithmicBrc;

/// Most tokens in one search.
pub const TOKENS_MAX: usize = 8192;

/// Most records in one instance.
pub const RECORDS_MAX: u32 = 1 << 30;

/// An instance of the multimap; random, never used again. Every write makes one and keys follow from it, so it is long
/// enough that none comes twice by chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstanceId(pub [u8; 16]);

/// A page of the dictionary.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// Its place, from 0.
    pub place: u32,
    /// Its cells, ordered by label.
    pub cells: Blob,
}

/// A page of records of one long list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Where it is found.
    pub label: Label,
    /// The records.
    pub sealed: Blob,
}

/// The lists asked for in one instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The instance.
    pub instance: InstanceId,
    /// One token a list.
    pub tokens: Vec<SearchToken>,
}

/// What becomes of the other instances when one is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Others {
    /// These stay.
    pub kept: Vec<InstanceId>,
    /// These go, as far as they are there. A complete instance that is in neither list is one that the client does not know
    /// of: the build is refused, and nothing goes.
    pub replaced: Vec<InstanceId>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Adds pages to an instance that is being built; the first such request begins it.
    Build {
        /// Whose instances are meant.
        index: IndexId,
        /// The instance.
        instance: InstanceId,
        /// Its shape, the same in all requests.
        shape: Shape,
        /// Pages of its dictionary.
        bins: Vec<Bin>,
        /// Pages of its lists.
        blocks: Vec<Block>,
        /// Given with the last pages: the instance is complete from here on.
        others: Option<Others>,
    },
    /// Drops all instances but these, complete ones that the client does not know of as well.
    Retain {
        /// Whose instances are meant.
        index: IndexId,
        /// Those that stay.
        instances: Vec<InstanceId>,
    },
    /// Reads lists.
    Search {
        /// Whose instances are meant.
        index: IndexId,
        /// The lists; at most [`TOKENS_MAX`].
        asked: Vec<Asked>,
        /// Cells and blocks of the first list to leave out, because an earlier reply brought them.
        skip: u32,
    },
    /// Reads the first cells of lists: by what is in them a client proves that an instance has nothing in a range.
    Heads {
        /// Whose instances are meant.
        index: IndexId,
        /// The lists; at most [`TOKENS_MAX`].
        asked: Vec<Asked>,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// Built, or dropped.
    Done,
    /// Lists, in the order of the request. A reply that grows beyond [`crate::limits::REPLY_BYTES_SOFT`] ends early,
    /// at any cell or block; the rest is asked for again.
    Found {
        /// Records of each list; 0 if there is no such list.
        records: Vec<u32>,
        /// Their sealed cells, then their sealed blocks, list by list, of the lengths that the shape says; to
        /// [`Request::Heads`] the first cell of each.
        sealed: Blob,
    },
}

impl Protocol for LogarithmicBrc {
    const ROW: &'static Row = &table::LOGARITHMIC_BRC;
    type Request = Request;
    type Response = Response;

    /// The sealed lists.
    fn result_bytes(response: &Response) -> usize {
        match response {
            Response::Done => 0,
            Response::Found { sealed, .. } => sealed.len(),
        }
    }
}
