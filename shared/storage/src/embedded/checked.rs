//! The engine's file, every block of it checked when it is read.
//!
//! The engine checks its own page checksums only after an unclean end. Below it, each block that is written leaves
//! its sum here, and each block that is read must have it: a bit that flipped, or pages that changed places, are
//! found before anything the engine makes of them is believed.

use super::sums::{self, BLOCK_BYTES, Sums, UNKNOWN};
use redb::StorageBackend;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What takes the place of the bytes of a damaged page: no page begins with it, so that the engine stops at it. An
/// error in its place would have the engine refuse every page from then on.
const DAMAGED: u8 = 0xFF;

/// What befell the file, for those above the engine.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Sums of the file's blocks.
    pub(super) sums: Sums,
    /// Held while blocks and their sums change, and while they are compared a second time. The block that was last
    /// written in part, as it is now, with its number: the engine's header, with every commit.
    changing: Mutex<Option<(u64, Vec<u8>)>>,
    /// A block without a sum is taken as it is: the engine is checking what it reads by itself.
    learning: AtomicBool,
    /// A write or a sync failed: what the file holds is not known.
    failed: AtomicBool,
    /// Nothing comes to the file any more.
    closed_to_writes: AtomicBool,
    /// Reads that met a damaged block.
    damaged_reads: AtomicU64,
    /// The first damaged block.
    first_damaged: Mutex<Option<u64>>,
}

impl State {
    /// Of a file whose blocks have these sums, or, without them, have yet to be learnt.
    pub(super) fn new(sums: Option<Sums>) -> Self {
        Self { learning: AtomicBool::new(sums.is_none()), sums: sums.unwrap_or_default(), ..Self::default() }
    }

    /// Ends the learning: from now on a block must have been read or written before.
    pub(super) fn learnt(&self) {
        self.learning.store(false, Ordering::Release);
    }

    /// Has the engine take a step that is not whole before others, all of which are to come to the file or none: unless
    /// [`InPart::finish`] is called, no write or sync succeeds from then on.
    pub(super) fn in_part(&self) -> InPart<'_> {
        InPart(Some(self))
    }

    /// Refuses if nothing comes to the file any more.
    fn check_writes(&self) -> io::Result<()> {
        match self.closed_to_writes.load(Ordering::Acquire) {
            true => Err(io::Error::other("what is committed came into the engine in part only")),
            false => Ok(()),
        }
    }

    /// Number of reads that met a damaged block, and a description of the first one.
    pub(super) fn damage(&self) -> Option<String> {
        let reads = self.damaged_reads.load(Ordering::Acquire);
        let first = (*locked(&self.first_damaged))?;
        Some(format!(
            "the block at byte {} fails its checksum ({reads} reads met damage)",
            first * BLOCK_BYTES as u64
        ))
    }

    fn note_damage(&self, block: u64) {
        locked(&self.first_damaged).get_or_insert(block);
        self.damaged_reads.fetch_add(1, Ordering::AcqRel);
    }
}

/// While the engine has a part of what must come to the file wholly or not at all.
pub(super) struct InPart<'s>(Option<&'s State>);

impl InPart<'_> {
    /// It has all of it.
    pub(super) fn finish(mut self) {
        self.0 = None;
    }
}

impl Drop for InPart<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.0 {
            state.closed_to_writes.store(true, Ordering::Release);
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the engine's bytes are kept on.
pub(crate) trait Medium: StorageBackend {
    /// Has later reads answered by the device, not by what the operating system holds in memory. After a sync that
    /// failed that memory still has what never reached the device, and counts as written: reading it, and syncing it
    /// once more, would make a lost commit look durable.
    ///
    /// # Errors
    /// If the operating system refuses.
    fn forget_cached(&self) -> io::Result<()>;
}

/// A file as the engine wants it. Locking is the data directory's.
#[derive(Debug)]
pub(super) struct Plain(pub(super) File);

impl Medium for Plain {
    fn forget_cached(&self) -> io::Result<()> {
        // Only pages that count as written are given up: the others are written first. If that fails they count as
        // written, so that they are given up too; a failure that lasts is met by the engine's own writes.
        if let Err(failure) = self.0.sync_data() {
            tracing::debug!(%failure, "the device does not take what is yet to be written");
        }
        Ok(rustix::fs::fadvise(&self.0, 0, None, rustix::fs::Advice::DontNeed)?)
    }
}

impl StorageBackend for Plain {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}

/// A file whose blocks are checked.
#[derive(Debug)]
pub(super) struct Checked {
    file: Arc<dyn StorageBackend>,
    /// Bytes of the file, which changes through this alone.
    len: AtomicU64,
    state: Arc<State>,
    /// Where the sums are left when the file is closed.
    stored_at: Option<PathBuf>,
}

impl Checked {
    /// Over `file`, leaving the sums at `stored_at` when it is closed.
    pub(super) fn new(
        file: Arc<dyn StorageBackend>,
        state: Arc<State>,
        stored_at: Option<PathBuf>,
    ) -> io::Result<Self> {
        let len = file.len()?;
        state.sums.resize(len);
        Ok(Self { file, len: AtomicU64::new(len), state, stored_at })
    }

    fn failing<T>(&self, outcome: io::Result<T>) -> io::Result<T> {
        if outcome.is_err() {
            self.state.failed.store(true, Ordering::Release);
        }
        outcome
    }

    /// Checks the blocks numbered from `first` whose bytes these are. None, or the first that is not as it was.
    fn mismatch(&self, first: u64, bytes: &[u8]) -> Option<u64> {
        let learning = self.state.learning.load(Ordering::Acquire);
        (first..).zip(bytes.chunks(BLOCK_BYTES)).find_map(|(number, block)| {
            let found = sums::sum(number, block);
            match self.state.sums.get(number) {
                UNKNOWN if learning => {
                    self.state.sums.set(number, found);
                    None
                }
                known => (known != found).then_some(number),
            }
        })
    }

    /// Bytes of the whole blocks that `offset` and `len` touch, within the file.
    fn around(&self, offset: u64, len: usize) -> Range<u64> {
        let block = BLOCK_BYTES as u64;
        let end = (offset + len as u64).next_multiple_of(block).min(self.len.load(Ordering::Acquire));
        offset / block * block..end
    }

    /// The whole blocks that `offset` and `len` touch.
    fn blocks_around(&self, offset: u64, len: usize) -> io::Result<(u64, Vec<u8>)> {
        let range = self.around(offset, len);
        let mut bytes = vec![0; usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(0)];
        self.file.read(range.start, &mut bytes)?;
        Ok((range.start, bytes))
    }

    /// Writes what is not whole blocks.
    fn write_part(&self, in_part: &mut Option<(u64, Vec<u8>)>, offset: u64, data: &[u8]) -> io::Result<()> {
        let range = self.around(offset, data.len());
        let first = range.start / BLOCK_BYTES as u64;
        let blocks = first..range.end.div_ceil(BLOCK_BYTES as u64);
        // What is not known after a failure is read anew.
        let known = in_part.take().filter(|(number, _)| *number == first && blocks.end == first + 1);
        blocks.clone().for_each(|block| self.state.sums.set(block, UNKNOWN));
        self.failing(self.file.write(offset, data))?;
        let skipped = usize::try_from(offset - range.start).unwrap_or(usize::MAX);
        let bytes = match known {
            Some((_, mut bytes)) => {
                let part = bytes.get_mut(skipped..).and_then(|bytes| bytes.get_mut(..data.len()));
                part.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
                bytes
            }
            None => self.blocks_around(offset, data.len())?.1,
        };
        for (number, block) in blocks.clone().zip(bytes.chunks(BLOCK_BYTES)) {
            self.state.sums.set(number, sums::sum(number, block));
        }
        if blocks.end == first + 1 {
            *in_part = Some((first, bytes));
        }
        Ok(())
    }

    /// Reads the blocks again while nothing changes: the first damaged one, or none, and then `out` is what they hold
    /// now, not what was read of them before.
    fn damaged_again(&self, offset: u64, out: &mut [u8]) -> io::Result<Option<u64>> {
        let _unchanging = locked(&self.state.changing);
        let (start, bytes) = self.blocks_around(offset, out.len())?;
        let damaged = self.mismatch(start / BLOCK_BYTES as u64, &bytes);
        let skipped = usize::try_from(offset - start).unwrap_or(usize::MAX);
        let asked = bytes.get(skipped..).and_then(|bytes| bytes.get(..out.len()));
        match asked {
            Some(asked) => out.copy_from_slice(asked),
            None => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        Ok(damaged)
    }
}

/// Blocks looked at in one step of a scrub, during which no write goes on.
const SCRUB_BLOCKS: u64 = 64;

impl State {
    /// Compares the blocks from number `from` on with what `file` holds of them, as many as one step takes, and notes
    /// those that differ in `damaged`. None at the end; else where to go on.
    pub(super) fn scrub_step(
        &self,
        file: &dyn StorageBackend,
        from: u64,
        damaged: &mut Vec<u64>,
    ) -> io::Result<Option<u64>> {
        let _unchanging = locked(&self.changing);
        let until = (from + SCRUB_BLOCKS).min(self.sums.blocks());
        if from >= until {
            return Ok(None);
        }
        let start = from * BLOCK_BYTES as u64;
        let end = (until * BLOCK_BYTES as u64).min(file.len()?);
        let mut bytes = vec![0; usize::try_from(end.saturating_sub(start)).unwrap_or(0)];
        file.read(start, &mut bytes)?;
        for (number, block) in (from..until).zip(bytes.chunks(BLOCK_BYTES)) {
            let known = self.sums.get(number);
            if known != UNKNOWN && known != sums::sum(number, block) {
                damaged.push(number);
            }
        }
        Ok(Some(until))
    }
}

fn is_aligned(offset: u64, len: usize) -> bool {
    offset.is_multiple_of(BLOCK_BYTES as u64) && len.is_multiple_of(BLOCK_BYTES)
}

impl StorageBackend for Checked {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len.load(Ordering::Acquire))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let first = offset / BLOCK_BYTES as u64;
        self.file.read(offset, out)?;
        // Parts of a block are read of the header alone, at an opening.
        if is_aligned(offset, out.len()) && self.mismatch(first, out).is_none() {
            return Ok(());
        }
        if let Some(block) = self.damaged_again(offset, out)? {
            self.state.note_damage(block);
            out.fill(DAMAGED);
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut in_part = locked(&self.state.changing);
        *in_part = None;
        self.failing(self.state.check_writes())?;
        self.failing(self.file.set_len(len))?;
        self.len.store(len, Ordering::Release);
        self.state.sums.resize(len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.failing(self.state.check_writes())?;
        self.failing(self.file.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut in_part = locked(&self.state.changing);
        self.failing(self.state.check_writes())?;
        // The file grows with what is written past its end.
        self.len.fetch_max(offset + data.len() as u64, Ordering::AcqRel);
        if !is_aligned(offset, data.len()) {
            return self.write_part(&mut in_part, offset, data);
        }
        let first = offset / BLOCK_BYTES as u64;
        let blocks = first..first + (data.len() / BLOCK_BYTES) as u64;
        if in_part.as_ref().is_some_and(|(number, _)| blocks.contains(number)) {
            *in_part = None;
        }
        blocks.clone().for_each(|block| self.state.sums.set(block, UNKNOWN));
        self.failing(self.file.write(offset, data))?;
        for (number, block) in blocks.zip(data.chunks(BLOCK_BYTES)) {
            self.state.sums.set(number, sums::sum(number, block));
        }
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        // What was learnt counts only once the engine has found it whole.
        let truthful =
            !self.state.learning.load(Ordering::Acquire) && !self.state.failed.load(Ordering::Acquire);
        if let Some(path) = &self.stored_at
            && truthful
        {
            self.file.sync_data()?;
            self.state.sums.store(path, self.file.len()?)?;
        }
        self.file.close()
    }
}
