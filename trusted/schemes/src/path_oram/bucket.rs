//! Buckets: the children's versions, the blocks' names, the blocks, the tag.

use super::oram::BlockId;
use crate::error::OpenFailed;
use arras_keys::Key;
use arras_primitives::gcm::{Gcm, NONCE_BYTES, TAG_BYTES};
use arras_protocol::IndexId;

/// Blocks in a bucket (Z).
pub const BLOCKS_PER_BUCKET: usize = 4;

/// The name in a slot without a block.
pub(super) const NO_BLOCK: BlockId = BlockId::MAX;

const VERSION_BYTES: usize = 8;
const ID_BYTES: usize = 4;
const HEADER_BYTES: usize = 2 * VERSION_BYTES + BLOCKS_PER_BUCKET * ID_BYTES;

/// Bytes of a sealed bucket of blocks of `block_bytes`.
#[must_use]
pub const fn bucket_bytes(block_bytes: usize) -> usize {
    HEADER_BYTES + BLOCKS_PER_BUCKET * block_bytes + TAG_BYTES
}

/// Bytes of the largest blocks whose buckets fit in `bucket_bytes`. With buckets of four pages, nothing is wasted.
#[must_use]
pub const fn largest_block(bucket_bytes: usize) -> usize {
    bucket_bytes.saturating_sub(HEADER_BYTES + TAG_BYTES) / BLOCKS_PER_BUCKET
}

/// What a bucket says besides its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Versions of the two children.
    pub(super) children: [u64; 2],
    /// Names of the blocks.
    pub(super) ids: [BlockId; BLOCKS_PER_BUCKET],
}

impl Header {
    pub(super) const EMPTY: Self = Self { children: [0; 2], ids: [NO_BLOCK; BLOCKS_PER_BUCKET] };

    /// Reads the header of an opened bucket.
    pub(super) fn read(bucket: &[u8]) -> Self {
        let (versions, rest) = bucket.split_at(2 * VERSION_BYTES);
        let mut header = Self::EMPTY;
        for (version, bytes) in header.children.iter_mut().zip(versions.as_chunks().0) {
            *version = u64::from_le_bytes(*bytes);
        }
        for (id, bytes) in header.ids.iter_mut().zip(rest.as_chunks().0) {
            *id = BlockId::from_le_bytes(*bytes);
        }
        header
    }

    /// Writes the header of a bucket to be sealed.
    pub(super) fn write(&self, bucket: &mut [u8]) {
        let (versions, rest) = bucket.split_at_mut(2 * VERSION_BYTES);
        for (version, bytes) in self.children.iter().zip(versions.as_chunks_mut().0) {
            *bytes = version.to_le_bytes();
        }
        for (id, bytes) in self.ids.iter().zip(rest.as_chunks_mut().0) {
            *bytes = id.to_le_bytes();
        }
    }
}

/// Where the block in slot `slot` of a bucket lies.
pub(super) fn block_range(slot: usize, block_bytes: usize) -> std::ops::Range<usize> {
    let start = HEADER_BYTES + slot * block_bytes;
    start..start + block_bytes
}

/// Seals and opens the buckets of one ORAM.
pub(super) struct Sealer(Gcm);

impl Sealer {
    /// For the ORAM made with `salt`, which must be uniform. `key` is that of `Purpose::PathOramSeal`.
    pub(super) fn new(index: IndexId, key: &Key, salt: &[u8; 16]) -> Self {
        let material = key.derive(&[index.as_bytes(), salt]);
        Self(Gcm::new(material.expose()))
    }

    /// Place and version: what a bucket is bound to, and never the same twice.
    fn nonce(place: u32, version: u64) -> [u8; NONCE_BYTES] {
        let mut nonce = [0; NONCE_BYTES];
        let (at, number) = nonce.split_at_mut(4);
        at.copy_from_slice(&place.to_be_bytes());
        number.copy_from_slice(&version.to_be_bytes());
        nonce
    }

    /// Seals a bucket of [`bucket_bytes`] in place.
    pub(super) fn seal(&self, place: u32, version: u64, bucket: &mut [u8]) {
        self.0.seal_in_place(Self::nonce(place, version), &[], bucket);
    }

    /// Opens a bucket in place; its header.
    pub(super) fn open(&self, place: u32, version: u64, bucket: &mut [u8]) -> Result<Header, OpenFailed> {
        let opened = self.0.open_in_place(Self::nonce(place, version), &[], bucket);
        opened.map(|body| Header::read(body)).map_err(|_| OpenFailed)
    }
}
