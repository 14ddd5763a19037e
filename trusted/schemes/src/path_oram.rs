//! Keyed half of Path ORAM (Stefanov et al., CCS 2013; ePrint 2013/280) and the B+ tree in it (Bogatov, Kollios,
//! Reyzin, VLDB 2019, §4.5.2).
//!
//! [`Oram`] is an array of blocks on the server of which the server does not learn which are accessed; [`OramTree`]
//! keeps a B+ tree in it, a node a block, and is a [`RangeIndex`](crate::traits::RangeIndex).
//!
//! *Parameters.* Four blocks a bucket (Z = 4), a leaf of the ORAM's tree for four blocks, so that half of the slots are
//! in use when the ORAM is full. [`OramParameters`], [`OramTreeParameters`].
//!
//! *Stash.* The blocks of the topmost levels and the stash are one pool at the client. A pool leaves a block at the
//! client only if the greedy write-back found no room on the server's part of its path, so it needs no more than the
//! stash and the topmost levels' slots together: Z (2^k - 1) blocks for k cached levels, and the stash, whose overflow
//! beyond 89 blocks the paper's Table estimates at 2^-80 and beyond 147 at 2^-128 (Z = 4). In practice it holds about
//! 1.1 blocks for each of the 2^k subtrees below (measured; `oram/tests.rs` holds it to this). An overflow is an
//! error, never a lost block.
//!
//! *Integrity and freshness.* A bucket is sealed under AES-256-GCM with its place and version as nonce. A bucket holds
//! its children's versions, the client those of the topmost buckets on the server: a bucket that was moved, altered or
//! set back does not open. The version is the number of the write-back, so a nonce never comes twice: it needs no
//! randomness and no bound on the number of writes. The material is derived with a random salt each time the ORAM is
//! made, because this state lives in the client's memory and ends with it.
//!
//! *Faults.* A request without an answer is sent again, byte for byte, before anything else: paths once shown belong
//! to blocks that have moved on when the next one is asked for, whatever the fault. The server applies each write-back
//! once and in turn.
//!
//! *Leakage.* [`arras_protocol::leakage::path_oram::PATH_ORAM`].
//!
//! *Cost.* One round trip an access: the write-back of the last path travels with the next read. Client state:
//! 4 bytes a block (position map), 8 bytes a cached subtree (versions), the pool, and 24 bytes or less for each inner
//! entry of the tree above [`OramTreeParameters::oram_levels`].
//!
//! *Deviations* from the papers. The position map is the client's, not recursive. Paths are written back by the next
//! request. The tree's topmost levels are at the client. New blocks start in the stash, without an access. The ORAM
//! grows by a level below its leaves, moving each block to one of the two halves of its leaf at random. Neighbouring
//! leaves of the B+ tree are found through their parents and read in one round, so there are no sibling links. The
//! client's state is not durable: a process that starts makes its ORAM anew from the documents.

mod bucket;
mod evict;
mod load;
mod node;
mod oram;
mod pool;
mod remove;
#[cfg(test)]
mod server;
mod tree;

pub use bucket::{BLOCKS_PER_BUCKET, bucket_bytes, largest_block};
pub use oram::{BlockId, Oram, OramParameters};
pub use tree::{OramTree, OramTreeParameters};
