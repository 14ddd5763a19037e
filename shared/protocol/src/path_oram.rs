//! Path ORAM (Stefanov et al., CCS 2013; ePrint 2013/280), the store of an oblivious B+ tree (Bogatov, Kollios,
//! Reyzin, VLDB 2019, §4.5.2).
//!
//! The server keeps a complete binary tree of sealed *buckets*, all of one size, without its topmost levels, whose
//! blocks the client keeps. A bucket is named by its place: the root is 1, the children of `p` are `2p` and `2p + 1`.
//! One request writes back the paths that the last one read and reads the next ones.
//!
//! *Leakage.* Snapshot: size. A watcher sees paths to leaves that are uniform and independent of everything else,
//! and how many: [`crate::leakage::path_oram::PATH_ORAM`].

use crate::bytes::Blob;
use crate::channel::Protocol;
use crate::ids::IndexId;
use crate::table::{self, Row};
use serde::{Deserialize, Serialize};

/// The protocol.
#[derive(Debug)]
pub struct PathOram;

/// Most paths one request reads.
pub const PATHS_MAX: usize = 64;

/// Deepest tree: the level of its leaves, the root being at level 0.
pub const LEVELS_MAX: u8 = 28;

/// Largest bucket, in bytes.
pub const BUCKET_BYTES_MAX: u32 = 1 << 20;

/// Most bytes of buckets in one message.
pub const BUCKETS_BYTES_MAX: usize = 40 * 1024 * 1024;

/// The tree's measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shape {
    /// Level of the leaves, the root being at level 0: there are `2^levels` leaves.
    pub levels: u8,
    /// How many levels from the root on the client keeps: the server's first level.
    pub cached_levels: u8,
    /// Bytes of a sealed bucket.
    pub bucket_bytes: u32,
}

impl Shape {
    /// Whether such a tree is within bounds.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.levels <= LEVELS_MAX
            && self.cached_levels <= self.levels
            && (1..=BUCKET_BYTES_MAX).contains(&self.bucket_bytes)
    }

    /// Number of leaves.
    #[must_use]
    pub fn leaves(&self) -> u32 {
        1 << self.levels.min(LEVELS_MAX)
    }

    /// Place of the first bucket that the server keeps.
    #[must_use]
    pub fn first_place(&self) -> u32 {
        1 << self.cached_levels.min(LEVELS_MAX)
    }

    /// One more than the place of the last bucket.
    #[must_use]
    pub fn end_place(&self) -> u32 {
        2 << self.levels.min(LEVELS_MAX)
    }

    /// Buckets of a path that the server keeps.
    #[must_use]
    pub fn path_buckets(&self) -> usize {
        usize::from(self.levels.saturating_sub(self.cached_levels)) + 1
    }

    /// How many paths may be asked for at once, so that the answer fits in a message; 0 if not even one.
    #[must_use]
    pub fn paths_max(&self) -> usize {
        (BUCKETS_BYTES_MAX / (self.path_buckets() * self.bucket_bytes.max(1) as usize)).min(PATHS_MAX)
    }

    /// Places of the buckets on the paths to `leaves` that the server keeps, each once, parents before children:
    /// the order of buckets in messages. Leaves that are not in the tree count modulo its size.
    #[must_use]
    pub fn places(&self, leaves: &[u32]) -> Vec<u32> {
        let mut places = Vec::with_capacity(leaves.len() * self.path_buckets());
        for leaf in leaves {
            let mut place = self.leaves() | (leaf & (self.leaves() - 1));
            while place >= self.first_place() {
                places.push(place);
                place >>= 1;
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }
}

/// Buckets on their way back to the paths they came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteBack {
    /// The leaves that the paths end at.
    pub leaves: Vec<u32>,
    /// Their buckets, in the order of [`Shape::places`].
    pub buckets: Blob,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Writes paths back, then reads paths.
    Access {
        /// Where.
        index: IndexId,
        /// How many write-backs there were, `write` included. The server applies each once and in turn.
        epoch: u64,
        /// What to write first. Not applied again if the server is at `epoch` already.
        write: Option<WriteBack>,
        /// Leaves whose paths to read.
        read: Vec<u32>,
        /// Whether the write is to survive a crash once answered.
        durable: bool,
    },
    /// Makes an empty tree in place of any that is there; its buckets follow by [`Request::Load`].
    Create {
        /// Drawn by the client; no index of the server has it yet, or this one.
        index: IndexId,
        /// Its measures.
        shape: Shape,
    },
    /// Drops a tree; no effect if there is none.
    Drop {
        /// Drawn by the client; no index of the server has it yet, or this one.
        index: IndexId,
    },
    /// Adds a level below the leaves; its buckets follow by [`Request::Load`]. No effect if it is there already.
    Grow {
        /// Where.
        index: IndexId,
        /// Level of the leaves from now on.
        levels: u8,
    },
    /// Brings the buckets of a new tree or level, in order of their places. No effect on those that are there.
    Load {
        /// Where.
        index: IndexId,
        /// Place of the first one.
        first: u32,
        /// Buckets of consecutive places.
        buckets: Blob,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Response {
    /// It is done.
    Done,
    /// The buckets of the paths asked for, in the order of [`Shape::places`].
    Paths(Blob),
}

impl Protocol for PathOram {
    const ROW: &'static Row = &table::PATH_ORAM;
    type Request = Request;
    type Response = Response;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_each_once_and_parents_first() {
        let shape = Shape { levels: 3, cached_levels: 1, bucket_bytes: 10 };
        assert_eq!(shape.places(&[5]), [3, 6, 13]);
        assert_eq!(shape.places(&[5, 4, 0]), [2, 3, 4, 6, 8, 12, 13]);
        assert_eq!(shape.places(&[5 + 8]), shape.places(&[5]));
        assert_eq!((shape.first_place(), shape.end_place(), shape.path_buckets()), (2, 16, 3));
    }

    #[test]
    fn bounds_hold() {
        let shape = Shape { levels: 3, cached_levels: 3, bucket_bytes: 1 };
        assert!(shape.is_valid());
        assert!(!Shape { cached_levels: 4, ..shape }.is_valid());
        assert!(!Shape { levels: LEVELS_MAX + 1, ..shape }.is_valid());
        assert!(!Shape { bucket_bytes: 0, ..shape }.is_valid());
        assert!(!Shape { bucket_bytes: BUCKET_BYTES_MAX + 1, ..shape }.is_valid());
        let widest = Shape { levels: LEVELS_MAX, cached_levels: 0, bucket_bytes: BUCKET_BYTES_MAX };
        assert!(widest.paths_max() >= 1);
    }
}
