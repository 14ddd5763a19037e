//! The blocks at the client: the stash and the tree's topmost levels.

use super::bucket::NO_BLOCK;
use super::oram::BlockId;
use std::collections::HashMap;

/// Where a block lies in the pool.
pub(super) type Slot = u32;

/// What a slot is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Nothing.
    Free,
    /// A block that may be written back.
    Held,
    /// A block in the way to the server: in a request without an answer yet.
    Leaving,
    /// A block that is worked on.
    Pinned,
}

/// The pool. Slots are used again, so blocks are allocated only when it is fuller than ever before.
pub(super) struct Pool {
    block_bytes: usize,
    ids: Vec<BlockId>,
    uses: Vec<Use>,
    contents: Vec<Box<[u8]>>,
    free: Vec<Slot>,
    /// Slots of the blocks that are here; those that are leaving are not.
    slots: HashMap<BlockId, Slot>,
}

impl Pool {
    pub(super) fn new(block_bytes: usize) -> Self {
        Self {
            block_bytes,
            ids: Vec::new(),
            uses: Vec::new(),
            contents: Vec::new(),
            free: Vec::new(),
            slots: HashMap::new(),
        }
    }

    /// Number of blocks here.
    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Number of slots ever used at once.
    pub(super) fn slots_len(&self) -> usize {
        self.ids.len()
    }

    pub(super) fn find(&self, id: BlockId) -> Option<Slot> {
        self.slots.get(&id).copied()
    }

    pub(super) fn content(&self, slot: Slot) -> &[u8] {
        &self.contents[slot as usize]
    }

    pub(super) fn content_mut(&mut self, slot: Slot) -> &mut [u8] {
        &mut self.contents[slot as usize]
    }

    pub(super) fn id(&self, slot: Slot) -> BlockId {
        self.ids[slot as usize]
    }

    /// Takes a block in; `content` is of the block's length.
    pub(super) fn put(&mut self, id: BlockId, content: &[u8], to: Use) {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.ids.push(NO_BLOCK);
                self.uses.push(Use::Free);
                self.contents.push(vec![0; self.block_bytes].into());
                (self.ids.len() - 1) as Slot
            }
        };
        self.ids[slot as usize] = id;
        self.uses[slot as usize] = to;
        self.contents[slot as usize].copy_from_slice(content);
        self.slots.insert(id, slot);
    }

    /// Forgets a block.
    pub(super) fn remove(&mut self, id: BlockId) {
        if let Some(slot) = self.slots.remove(&id) {
            self.vacate(slot);
        }
    }

    fn vacate(&mut self, slot: Slot) {
        self.ids[slot as usize] = NO_BLOCK;
        self.uses[slot as usize] = Use::Free;
        self.free.push(slot);
    }

    pub(super) fn pin(&mut self, slot: Slot) {
        self.uses[slot as usize] = Use::Pinned;
    }

    /// Unpins all blocks.
    pub(super) fn unpin(&mut self) {
        for state in self.uses.iter_mut().filter(|state| **state == Use::Pinned) {
            *state = Use::Held;
        }
    }

    /// The block is in a request from now on, and no longer here.
    pub(super) fn leave(&mut self, slot: Slot) {
        self.slots.remove(&self.ids[slot as usize]);
        self.uses[slot as usize] = Use::Leaving;
    }

    /// The server has the block.
    pub(super) fn left(&mut self, slot: Slot) {
        self.vacate(slot);
    }

    /// Slots of blocks that may be written back, with their names.
    pub(super) fn held(&self) -> impl Iterator<Item = (Slot, BlockId)> + '_ {
        let slots = self.uses.iter().zip(&self.ids).enumerate();
        slots.filter(|(_, (state, _))| **state == Use::Held).map(|(slot, (_, id))| (slot as Slot, *id))
    }
}
