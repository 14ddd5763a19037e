//! The ORAM: an array of blocks.

use super::bucket::{BLOCKS_PER_BUCKET, Header, NO_BLOCK, Sealer, block_range, bucket_bytes};
use super::evict::{self, NO_SLOT};
use super::pool::{Pool, Slot, Use};
use crate::error::IndexError;
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::path_oram::{LEVELS_MAX, PathOram, Request, Response, Shape, WriteBack};
use arras_protocol::{Channel, IndexId};

/// Name of a block: its index in the array.
pub type BlockId = u32;

/// The position of a block that is not there.
const NOWHERE: u32 = u32::MAX;

/// Bytes of buckets in a message when a tree or a level is made.
const LOAD_BYTES: usize = 4 * 1024 * 1024;

/// What an ORAM is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OramParameters {
    /// Bytes of a block.
    pub block_bytes: usize,
    /// How many levels of the tree, from the root on, stay at the client, k. About 1.1 * 2^k blocks are then there,
    /// and the server's tree has 2^k leaves at least.
    pub cached_levels: u8,
    /// Most blocks in the stash, besides the slots of the cached levels.
    pub stash_blocks: usize,
    /// Whether each write-back is to survive a crash of the server before it is answered. A server that lost
    /// write-backs is noticed and of no more use.
    pub durable: bool,
}

impl OramParameters {
    /// The paper's bound of the stash for a failure in 2^128 (Z = 4).
    pub const STASH_BLOCKS: usize = 147;

    /// Blocks of this size and sensible values for the rest.
    #[must_use]
    pub fn of_blocks(block_bytes: usize) -> Self {
        Self { block_bytes, cached_levels: 6, stash_blocks: Self::STASH_BLOCKS, durable: true }
    }

    /// Most blocks at the client between accesses.
    fn pool_blocks_max(&self) -> usize {
        BLOCKS_PER_BUCKET * ((1 << self.cached_levels) - 1) + self.stash_blocks
    }
}

/// Paths that were read, whose blocks are at the client until the next request takes some back.
#[derive(Default)]
struct OpenPaths {
    leaves: Vec<u32>,
    /// Their buckets, and the versions of those buckets' children.
    places: Vec<u32>,
    children: Vec<[u64; 2]>,
}

/// A request whose answer is not there yet. Sent again, it is the same to the byte.
struct Flight {
    epoch: u64,
    write: Option<Outgoing>,
    /// Leaves to read, and the blocks they are read for.
    read: Vec<u32>,
    ids: Vec<BlockId>,
}

struct Outgoing {
    leaves: Vec<u32>,
    places: Vec<u32>,
    children: Vec<[u64; 2]>,
    blocks: Vec<[Slot; BLOCKS_PER_BUCKET]>,
}

/// An array of blocks on a server that learns nothing of which are accessed, or whether they change.
///
/// Blocks are worked on in the client's pool: [`Oram::fetch`] brings and pins them, [`Oram::release`] lets them go
/// with later requests.
pub struct Oram<C> {
    channel: C,
    index: IndexId,
    parameters: OramParameters,
    pub(super) shape: Shape,
    sealer: Sealer,
    random: Prg,
    /// Leaf of each block.
    positions: Vec<u32>,
    /// Names that are not in use.
    unused: Vec<BlockId>,
    pub(super) pool: Pool,
    /// Versions of the topmost buckets on the server.
    frontier: Vec<u64>,
    /// Write-backs so far.
    epoch: u64,
    open: OpenPaths,
    flight: Option<Flight>,
    /// A level is being added.
    growing: bool,
}

impl<C> std::fmt::Debug for Oram<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Oram({:?}, {:?})", self.index, self.shape)
    }
}

fn levels_for(blocks: usize, least: u8) -> u8 {
    let leaves = blocks.div_ceil(BLOCKS_PER_BUCKET).max(1).next_power_of_two();
    (leaves.trailing_zeros() as u8).max(least)
}

impl<C: Channel<PathOram>> Oram<C> {
    /// Makes an ORAM of `count` blocks, whatever was there under this name before. `key` is the index's, of
    /// `Purpose::PathOramSeal`. `fill` writes the content of a block. `random` must be seeded uniformly, and never the same for two ORAMs of one index.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if the parameters are out of bounds, and what the channel reports.
    pub async fn create(
        channel: C,
        index: IndexId,
        key: &Key,
        parameters: OramParameters,
        mut random: Prg,
        count: usize,
        fill: &mut (dyn FnMut(BlockId, &mut [u8]) + Send),
    ) -> Result<Self, IndexError> {
        let levels = levels_for(count, parameters.cached_levels);
        let bucket_bytes = u32::try_from(bucket_bytes(parameters.block_bytes)).unwrap_or(u32::MAX);
        let shape = Shape { levels, cached_levels: parameters.cached_levels, bucket_bytes };
        if parameters.block_bytes == 0 || !shape.is_valid() || shape.paths_max() == 0 {
            return Err(IndexError::Caller("an ORAM of this size is out of bounds"));
        }
        let mut salt = [0; 16];
        random.fill(&mut salt);
        let mut oram = Self {
            channel,
            index,
            parameters,
            shape,
            sealer: Sealer::new(index, key, &salt),
            random,
            positions: Vec::with_capacity(count),
            unused: Vec::new(),
            pool: Pool::new(parameters.block_bytes),
            frontier: vec![0; shape.first_place() as usize],
            epoch: 0,
            open: OpenPaths::default(),
            flight: None,
            growing: false,
        };
        oram.done(Request::Create { index, shape }).await?;
        let buckets = oram.scatter(count, fill);
        oram.load(shape.first_place(), shape.end_place(), &buckets, fill).await?;
        oram.check_stash()?;
        Ok(oram)
    }

    /// Gives each of `count` blocks a leaf and a bucket on its path; those without room go to the pool. The blocks
    /// of each bucket of the server.
    fn scatter(
        &mut self,
        count: usize,
        fill: &mut (dyn FnMut(BlockId, &mut [u8]) + Send),
    ) -> Vec<[BlockId; BLOCKS_PER_BUCKET]> {
        let first = self.shape.first_place();
        let mut buckets = vec![[NO_BLOCK; BLOCKS_PER_BUCKET]; (self.shape.end_place() - first) as usize];
        let mut content = vec![0; self.parameters.block_bytes];
        for id in 0..count as BlockId {
            let leaf = self.uniform_leaf();
            self.positions.push(leaf);
            let mut place = self.shape.leaves() | leaf;
            let room = loop {
                if place < first {
                    break None;
                }
                let bucket = &mut buckets[(place - first) as usize];
                if let Some(slot) = bucket.iter_mut().find(|slot| **slot == NO_BLOCK) {
                    break Some(slot);
                }
                place >>= 1;
            };
            if let Some(slot) = room {
                *slot = id;
            } else {
                content.fill(0);
                fill(id, &mut content);
                self.pool.put(id, &content, Use::Held);
            }
        }
        buckets
    }

    /// Brings buckets to the server that were never there: those from place `first` on, of version 0.
    async fn load(
        &self,
        first: u32,
        end: u32,
        buckets: &[[BlockId; BLOCKS_PER_BUCKET]],
        fill: &mut (dyn FnMut(BlockId, &mut [u8]) + Send),
    ) -> Result<(), IndexError> {
        let bucket_bytes = self.shape.bucket_bytes as usize;
        let at_once = (LOAD_BYTES / bucket_bytes).max(1);
        let mut next = first;
        while next < end {
            let count = at_once.min((end - next) as usize);
            let mut sealed = vec![0; count * bucket_bytes];
            for (place, bucket) in (next..end).zip(sealed.chunks_exact_mut(bucket_bytes)) {
                let ids = buckets.get((place - first) as usize).copied().unwrap_or(Header::EMPTY.ids);
                Header { ids, ..Header::EMPTY }.write(bucket);
                for (slot, id) in ids.into_iter().enumerate().filter(|(_, id)| *id != NO_BLOCK) {
                    fill(id, &mut bucket[block_range(slot, self.parameters.block_bytes)]);
                }
                self.sealer.seal(place, 0, bucket);
            }
            self.done(Request::Load { index: self.index, first: next, buckets: sealed.into() }).await?;
            next += count as u32;
        }
        Ok(())
    }

    async fn done(&self, request: Request) -> Result<(), IndexError> {
        match self.channel.call(request).await? {
            Response::Done => Ok(()),
            Response::Paths(_) => Err(IndexError::Peer("paths that nobody asked for")),
        }
    }

    fn uniform_leaf(&mut self) -> u32 {
        // There is a power of two of leaves.
        self.random.next_u64() as u32 & (self.shape.leaves() - 1)
    }

    /// Number of blocks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.positions.len() - self.unused.len()
    }

    /// Whether there is no block.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of blocks at which the ORAM grows by a level.
    #[must_use]
    pub fn capacity(&self) -> usize {
        BLOCKS_PER_BUCKET * self.shape.leaves() as usize
    }

    /// Number of blocks at the client.
    #[must_use]
    pub fn pool_len(&self) -> usize {
        self.pool.len()
    }

    /// Bytes of the client's state: positions, versions and the pool's blocks.
    #[must_use]
    pub fn client_bytes(&self) -> usize {
        let pool = self.pool.slots_len() * (self.parameters.block_bytes + size_of::<BlockId>());
        self.positions.len() * size_of::<u32>() + self.frontier.len() * size_of::<u64>() + pool
    }

    /// How many blocks [`Oram::fetch`] takes at once.
    #[must_use]
    pub fn fetch_max(&self) -> usize {
        self.shape.paths_max()
    }

    /// Works on one block.
    ///
    /// # Errors
    /// As [`Oram::fetch`].
    pub async fn access<R>(
        &mut self,
        id: BlockId,
        work: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, IndexError> {
        self.fetch(&[id]).await?;
        let result = self.block_mut(id).map(work);
        self.release();
        result.ok_or(IndexError::Caller("no such block"))
    }

    /// Brings blocks to the client and pins them: one round trip and as many paths as there are blocks. On an error,
    /// nothing is pinned.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if a block is not there, comes twice, or there are too many; [`IndexError::Open`] if
    /// the server's buckets are not the latest; [`IndexError::State`] if the stash overflows, and what the channel
    /// reports. The next call takes up where this one failed.
    pub async fn fetch(&mut self, ids: &[BlockId]) -> Result<(), IndexError> {
        let result = self.try_fetch(ids).await;
        if result.is_err() {
            self.release();
        }
        result
    }

    async fn try_fetch(&mut self, ids: &[BlockId]) -> Result<(), IndexError> {
        if ids.len() > self.fetch_max() {
            return Err(IndexError::Caller("too many blocks at once"));
        }
        if ids.iter().enumerate().any(|(at, id)| ids[..at].contains(id)) {
            return Err(IndexError::Caller("a block comes twice"));
        }
        if ids.iter().any(|id| self.positions.get(*id as usize).is_none_or(|leaf| *leaf == NOWHERE)) {
            return Err(IndexError::Caller("no such block"));
        }
        self.resume().await?;
        self.pin(ids);
        let read = ids.iter().map(|id| self.positions[*id as usize]).collect();
        self.take_off(read, ids.to_vec())?;
        self.exchange().await?;
        if self.pin(ids) == ids.len() {
            Ok(())
        } else {
            Err(IndexError::State("a block of the ORAM is on no bucket of its path".into()))
        }
    }

    /// Pins those of the blocks that are in the pool; how many.
    fn pin(&mut self, ids: &[BlockId]) -> usize {
        let slots = ids.iter().filter_map(|id| self.pool.find(*id));
        slots.collect::<Vec<_>>().into_iter().map(|slot| self.pool.pin(slot)).count()
    }

    /// A block that is at the client.
    #[must_use]
    pub fn block(&self, id: BlockId) -> Option<&[u8]> {
        self.pool.find(id).map(|slot| self.pool.content(slot))
    }

    /// A block that is at the client, to be changed.
    pub fn block_mut(&mut self, id: BlockId) -> Option<&mut [u8]> {
        self.pool.find(id).map(|slot| self.pool.content_mut(slot))
    }

    /// Lets pinned blocks go.
    pub fn release(&mut self) {
        self.pool.unpin();
    }

    /// Makes a block, pinned, of at most [`OramParameters::block_bytes`] of content. [`Oram::reserve`] comes first.
    pub fn add(&mut self, content: &[u8]) -> BlockId {
        let leaf = self.uniform_leaf();
        let id = match self.unused.pop() {
            Some(id) => id,
            None => {
                self.positions.push(NOWHERE);
                (self.positions.len() - 1) as BlockId
            }
        };
        self.positions[id as usize] = leaf;
        let mut block = vec![0; self.parameters.block_bytes];
        let used = content.len().min(block.len());
        block[..used].copy_from_slice(&content[..used]);
        self.pool.put(id, &block, Use::Pinned);
        id
    }

    /// Drops a block that is at the client. Its name may be given to another.
    pub fn discard(&mut self, id: BlockId) {
        if self.pool.find(id).is_some() {
            self.pool.remove(id);
            self.positions[id as usize] = NOWHERE;
            self.unused.push(id);
        }
    }

    /// Grows until there is room for `more` blocks.
    ///
    /// # Errors
    /// [`IndexError::Caller`] at the largest size, and what the channel reports.
    pub async fn reserve(&mut self, more: usize) -> Result<(), IndexError> {
        while self.len() + more > self.capacity() {
            if self.shape.levels >= LEVELS_MAX {
                return Err(IndexError::Caller("the ORAM is full"));
            }
            self.settle().await?;
            self.growing = true;
            self.resume().await?;
        }
        Ok(())
    }

    /// Writes back what can be, so that no path is open.
    ///
    /// # Errors
    /// As [`Oram::fetch`].
    pub async fn settle(&mut self) -> Result<(), IndexError> {
        self.resume().await?;
        if self.open.leaves.is_empty() {
            return Ok(());
        }
        self.take_off(Vec::new(), Vec::new())?;
        self.exchange().await
    }

    /// Finishes what an earlier call began and could not finish.
    async fn resume(&mut self) -> Result<(), IndexError> {
        if self.flight.is_some() {
            self.exchange().await?;
        }
        if self.growing {
            self.grow().await?;
        }
        Ok(())
    }

    /// Adds a level of empty buckets below the leaves. No path is open.
    async fn grow(&mut self) -> Result<(), IndexError> {
        let levels = self.shape.levels + 1;
        let first = self.shape.end_place();
        self.done(Request::Grow { index: self.index, levels }).await?;
        self.load(first, 2 * first, &[], &mut |_, _| {}).await?;
        self.shape.levels = levels;
        let Self { positions, random, .. } = self;
        for leaf in positions.iter_mut().filter(|leaf| **leaf != NOWHERE) {
            *leaf = *leaf << 1 | (random.next_u64() & 1) as u32;
        }
        self.growing = false;
        Ok(())
    }

    /// Most blocks that are not pinned stay at the client.
    fn check_stash(&self) -> Result<(), IndexError> {
        let (held, most) = (self.pool.held().count(), self.parameters.pool_blocks_max());
        if held > most {
            return Err(IndexError::State(format!(
                "the ORAM's stash overflows: {held} blocks are at the client, the bound is {most}; nothing is lost"
            )));
        }
        Ok(())
    }

    /// Fixes the next request: blocks for the open paths' buckets, and the paths to read.
    fn take_off(&mut self, read: Vec<u32>, ids: Vec<BlockId>) -> Result<(), IndexError> {
        let OpenPaths { leaves, places, .. } = &self.open;
        let blocks = evict::plan(&self.pool, &self.positions, &self.shape, leaves, places);
        let leaving = blocks.iter().flatten().filter(|slot| **slot != NO_SLOT).count();
        if self.pool.held().count() - leaving > self.parameters.pool_blocks_max() {
            return self.check_stash();
        }
        for slot in blocks.iter().flatten().filter(|slot| **slot != NO_SLOT) {
            self.pool.leave(*slot);
        }
        let OpenPaths { leaves, places, children } = std::mem::take(&mut self.open);
        let write = (!leaves.is_empty()).then_some(Outgoing { leaves, places, children, blocks });
        if let Some(write) = &write {
            self.epoch += 1;
            let first = self.shape.first_place();
            for place in write.places.iter().filter(|place| **place < 2 * first) {
                self.frontier[(place - first) as usize] = self.epoch;
            }
        }
        self.flight = Some(Flight { epoch: self.epoch, write, read, ids });
        Ok(())
    }

    /// Sends the request that is in flight and takes in the answer.
    async fn exchange(&mut self) -> Result<(), IndexError> {
        let Some(flight) = &self.flight else { return Ok(()) };
        let write = flight.write.as_ref().map(|write| WriteBack {
            leaves: write.leaves.clone(),
            buckets: self.seal(flight.epoch, write).into(),
        });
        let request = Request::Access {
            index: self.index,
            epoch: flight.epoch,
            write,
            read: flight.read.clone(),
            durable: self.parameters.durable,
        };
        match self.channel.call(request).await? {
            Response::Paths(buckets) => self.land(buckets.0),
            Response::Done => Err(IndexError::Peer("no paths")),
        }
    }

    /// Seals the buckets of a write-back. The same each time it is called.
    fn seal(&self, epoch: u64, write: &Outgoing) -> Vec<u8> {
        let bucket_bytes = self.shape.bucket_bytes as usize;
        let mut sealed = vec![0; write.places.len() * bucket_bytes];
        let buckets = sealed.chunks_exact_mut(bucket_bytes).zip(&write.places);
        for ((bucket, place), (slots, children)) in buckets.zip(write.blocks.iter().zip(&write.children)) {
            let mut header = Header { children: *children, ..Header::EMPTY };
            for (child, version) in (2 * place..).zip(&mut header.children) {
                if write.places.binary_search(&child).is_ok() {
                    *version = epoch;
                }
            }
            for (at, slot) in slots.iter().enumerate().filter(|(_, slot)| **slot != NO_SLOT) {
                header.ids[at] = self.pool.id(*slot);
                bucket[block_range(at, self.parameters.block_bytes)]
                    .copy_from_slice(self.pool.content(*slot));
            }
            header.write(bucket);
            self.sealer.seal(*place, epoch, bucket);
        }
        sealed
    }

    /// Takes in the answer to the request in flight: nothing, unless all of it is in order.
    fn land(&mut self, mut buckets: Vec<u8>) -> Result<(), IndexError> {
        let Some(flight) = &self.flight else { return Ok(()) };
        let bucket_bytes = self.shape.bucket_bytes as usize;
        let places = self.shape.places(&flight.read);
        if buckets.len() != places.len() * bucket_bytes {
            return Err(IndexError::Peer("another number of buckets than the paths have"));
        }
        let first = self.shape.first_place();
        let mut headers: Vec<Header> = Vec::with_capacity(places.len());
        for (place, bucket) in places.iter().zip(buckets.chunks_exact_mut(bucket_bytes)) {
            let version = match places.binary_search(&(place >> 1)) {
                Ok(parent) => headers[parent].children[(place & 1) as usize],
                Err(_) => self.frontier[(place - first) as usize],
            };
            headers.push(self.sealer.open(*place, version, bucket)?);
        }
        let Some(Flight { write, read, ids, .. }) = self.flight.take() else { return Ok(()) };
        for slot in write.iter().flat_map(|write| write.blocks.iter().flatten()) {
            if *slot != NO_SLOT {
                self.pool.left(*slot);
            }
        }
        for (header, bucket) in headers.iter().zip(buckets.chunks_exact(bucket_bytes)) {
            for (slot, id) in header.ids.into_iter().enumerate().filter(|(_, id)| *id != NO_BLOCK) {
                self.pool.put(id, &bucket[block_range(slot, self.parameters.block_bytes)], Use::Held);
            }
        }
        let children = headers.into_iter().map(|header| header.children).collect();
        self.open = OpenPaths { leaves: read, places, children };
        for id in ids {
            if self.positions[id as usize] != NOWHERE {
                self.positions[id as usize] = self.uniform_leaf();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
