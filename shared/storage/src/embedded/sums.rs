//! A checksum for each block of the engine's file: in memory while it is open, in a file beside it while it is
//! closed.

use crate::private;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};

/// Bytes of a block: the engine's page.
pub(super) const BLOCK_BYTES: usize = 4096;

/// What the stored form begins with.
const MAGIC: [u8; 8] = *b"ARRASUM1";

/// Bytes before the sums: the magic number and the length of the engine's file.
const HEADER_BYTES: usize = MAGIC.len() + size_of::<u64>();

/// The sum of a block nothing is known of.
pub(super) const UNKNOWN: u32 = 0;

/// The sum of the block with this number. It covers the number, so that blocks that changed places are told.
pub(super) fn sum(number: u64, block: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(block);
    hasher.finalize().max(UNKNOWN + 1)
}

/// What the stored form of the sums turned out to be.
pub(super) enum Stored {
    /// There is none, or it is damaged itself.
    Missing,
    /// The sums of a file of this many bytes.
    Of(u64, Sums),
}

/// Sums of the blocks of one file, by number.
#[derive(Debug, Default)]
pub(super) struct Sums(RwLock<Vec<AtomicU32>>);

impl Sums {
    /// The sum of a block, [`UNKNOWN`] if it has none.
    pub(super) fn get(&self, number: u64) -> u32 {
        let sums = self.0.read().unwrap_or_else(PoisonError::into_inner);
        position(number)
            .and_then(|position| sums.get(position))
            .map_or(UNKNOWN, |sum| sum.load(Ordering::Acquire))
    }

    /// Notes the sum of a block.
    pub(super) fn set(&self, number: u64, sum: u32) {
        let sums = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = position(number).and_then(|position| sums.get(position)) {
            known.store(sum, Ordering::Release);
        }
    }

    /// Makes room for a file of `bytes`, or forgets what is past its end.
    pub(super) fn resize(&self, bytes: u64) {
        let blocks = position(bytes.div_ceil(BLOCK_BYTES as u64)).unwrap_or(0);
        let mut sums = self.0.write().unwrap_or_else(PoisonError::into_inner);
        sums.resize_with(blocks, || AtomicU32::new(UNKNOWN));
    }

    /// Blocks there is room for.
    pub(super) fn blocks(&self) -> u64 {
        self.0.read().unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    /// Writes the sums of a file of `bytes` to `path`, whole or not at all.
    pub(super) fn store(&self, path: &Path, bytes: u64) -> io::Result<()> {
        let mut stored = [MAGIC.as_slice(), &bytes.to_le_bytes()].concat();
        {
            let sums = self.0.read().unwrap_or_else(PoisonError::into_inner);
            stored.extend(sums.iter().flat_map(|sum| sum.load(Ordering::Acquire).to_le_bytes()));
        }
        stored.extend(crc32fast::hash(&stored).to_le_bytes());
        let unfinished = path.with_extension("sums.new");
        // Made anew, so that it has the permissions of a file made now.
        remove(&unfinished)?;
        let mut file = private::file_options().write(true).create_new(true).open(&unfinished)?;
        file.write_all(&stored)?;
        file.sync_all()?;
        std::fs::rename(&unfinished, path)?;
        sync_directory_of(path)
    }

    /// Reads the sums at `path`.
    pub(super) fn load(path: &Path) -> io::Result<Stored> {
        match std::fs::read(path) {
            Ok(stored) => Ok(parse(&stored).unwrap_or(Stored::Missing)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Stored::Missing),
            Err(error) => Err(error),
        }
    }

    /// Sees to it that there are no sums at `path`, before the file they describe changes.
    pub(super) fn forget(path: &Path) -> io::Result<()> {
        if remove(path)? { sync_directory_of(path) } else { Ok(()) }
    }
}

fn parse(stored: &[u8]) -> Option<Stored> {
    let (body, check) = stored.split_last_chunk()?;
    let (header, sums) = body.split_at_checked(HEADER_BYTES)?;
    if crc32fast::hash(body).to_le_bytes() != *check || !header.starts_with(&MAGIC) {
        return None;
    }
    let bytes = u64::from_le_bytes(*header.last_chunk()?);
    let (sums, rest) = sums.as_chunks();
    if !rest.is_empty() || sums.len() as u64 != bytes.div_ceil(BLOCK_BYTES as u64) {
        return None;
    }
    let sums = sums.iter().map(|sum| AtomicU32::new(u32::from_le_bytes(*sum))).collect();
    Some(Stored::Of(bytes, Sums(RwLock::new(sums))))
}

fn position(number: u64) -> Option<usize> {
    usize::try_from(number).ok()
}

/// Removes a file; false if there was none.
fn remove(path: &Path) -> io::Result<bool> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn sync_directory_of(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(directory) => File::open(directory)?.sync_all(),
        None => Ok(()),
    }
}
