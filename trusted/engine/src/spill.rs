//! Where sorts and groups put what does not fit memory: a file without a name, sealed under a key that dies with the
//! process.
//!
//! Records are cut into blocks, each sealed by itself and bound to its run and its place in it; a block's nonce is a
//! count that never repeats under the key. The file never has a name (where the file system cannot make such a file, it is
//! removed as soon as it is open), so that nothing is left when the process ends, however it ends.
//!
//! The disk is that of what has to be durable: some of it is left for that. Where there is no more room, idle cursors give
//! way ([`Relief`]); if none has anything there, whoever spills is refused.
//!
//! *Leakage.* To who reads the disk: how much was spilled and when.

mod slots;

pub(super) use slots::SpillFile;

use arras_documents::QueryError;
use arras_documents::spill::{Run, RunReader, RunWriter, Spill};
use arras_primitives::aead::{NONCE_BYTES, OVERHEAD_BYTES};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of a whole block before it is sealed.
const BLOCK_BYTES: usize = 32 * 1024;
/// Bytes a block takes in the file.
const SLOT_BYTES: u64 = (BLOCK_BYTES + OVERHEAD_BYTES) as u64;

fn failed(error: &io::Error) -> QueryError {
    QueryError::no_disk(error)
}

/// What a block belongs to: its run, and its place in it.
fn place(run: u64, block: usize) -> [u8; 16] {
    ((u128::from(run) << 64) | block as u128).to_be_bytes()
}

/// The spill file, as those who spill see it.
pub(super) struct Spilling(pub(super) Arc<SpillFile>);

impl Spill for Spilling {
    fn run(&self) -> Result<Box<dyn RunWriter>, QueryError> {
        let number = self.0.runs.fetch_add(1, Ordering::Relaxed);
        let written = Written { spill: Arc::clone(&self.0), number, file: None, blocks: Vec::new() };
        Ok(Box::new(Writer { written, open: Vec::new() }))
    }
}

/// A slot of the file, and how many bytes of it are used.
struct Block {
    slot: u64,
    bytes: usize,
}

/// Blocks of a run; free again when dropped.
struct Written {
    spill: Arc<SpillFile>,
    number: u64,
    file: Option<Arc<File>>,
    blocks: Vec<Block>,
}

impl Written {
    fn add(&mut self, plaintext: &[u8]) -> Result<(), QueryError> {
        let mut nonce = [0; NONCE_BYTES];
        let seal = self.spill.seals.fetch_add(1, Ordering::Relaxed);
        nonce[NONCE_BYTES - 8..].copy_from_slice(&seal.to_be_bytes());
        let sealed = self.spill.aead.seal(&nonce, &place(self.number, self.blocks.len()), plaintext);
        let (file, slot) = self.spill.take()?;
        // Noted first: a slot that could not be written is given back like the others.
        self.blocks.push(Block { slot, bytes: sealed.len() });
        self.file = Some(Arc::clone(&file));
        file.write_all_at(&sealed, slot * SLOT_BYTES).map_err(|error| failed(&error))
    }

    /// The bytes of a block; none after the last.
    fn read(&self, block: usize) -> Result<Option<Vec<u8>>, QueryError> {
        let (Some(at), Some(file)) = (self.blocks.get(block), &self.file) else {
            return Ok(None);
        };
        let mut sealed = vec![0; at.bytes];
        file.read_exact_at(&mut sealed, at.slot * SLOT_BYTES).map_err(|error| failed(&error))?;
        let opened = self.spill.aead.open(&place(self.number, block), &sealed);
        opened.map(Some).map_err(|_| failed(&io::Error::from(io::ErrorKind::InvalidData)))
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        self.spill.give_back(self.blocks.iter().map(|block| block.slot));
    }
}

struct Writer {
    written: Written,
    /// Bytes that do not make a block yet.
    open: Vec<u8>,
}

impl RunWriter for Writer {
    fn append(&mut self, record: &[u8]) -> Result<(), QueryError> {
        let length = u32::try_from(record.len()).map_err(|_| QueryError::overflow("a record is too long"))?;
        self.open.extend_from_slice(&length.to_le_bytes());
        self.open.extend_from_slice(record);
        let whole = self.open.len() / BLOCK_BYTES * BLOCK_BYTES;
        for block in self.open.chunks_exact(BLOCK_BYTES) {
            self.written.add(block)?;
        }
        self.open.drain(..whole);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Arc<dyn Run>, QueryError> {
        if !self.open.is_empty() {
            self.written.add(&self.open)?;
        }
        Ok(Arc::new(self.written))
    }
}

impl Run for Written {
    fn reader(self: Arc<Self>) -> Box<dyn RunReader> {
        Box::new(Reader { written: self, block: 0, open: Vec::new(), taken: 0 })
    }
}

struct Reader {
    written: Arc<Written>,
    block: usize,
    /// Bytes read, of which so many are taken.
    open: Vec<u8>,
    taken: usize,
}

impl Reader {
    /// Has at least `bytes` bytes at hand; false at the end.
    fn fill(&mut self, bytes: usize) -> Result<bool, QueryError> {
        while self.open.len() - self.taken < bytes {
            self.open.drain(..self.taken);
            self.taken = 0;
            let Some(further) = self.written.read(self.block)? else {
                return Ok(false);
            };
            self.block += 1;
            self.open.extend(further);
        }
        Ok(true)
    }
}

impl RunReader for Reader {
    fn next(&mut self) -> Result<Option<Vec<u8>>, QueryError> {
        if !self.fill(4)? {
            return Ok(None);
        }
        let head = self.open.get(self.taken..).and_then(|rest| rest.first_chunk::<4>());
        let length = head.map_or(0, |head| u32::from_le_bytes(*head)) as usize;
        if !self.fill(4 + length)? {
            return Err(failed(&io::Error::from(io::ErrorKind::UnexpectedEof)));
        }
        let start = self.taken + 4;
        let record = self.open.get(start..start + length).unwrap_or_default().to_vec();
        self.taken = start + length;
        Ok(Some(record))
    }
}

#[cfg(test)]
mod tests;
