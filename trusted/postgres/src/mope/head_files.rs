//! The acknowledged heads in files of the proxy's own.

use super::{Column, Heads};
use arras_protocol::mope::{DIGEST_BYTES, Head};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Four numbers, the digest, a checksum.
const RECORD_BYTES: usize = 4 * 8 + DIGEST_BYTES + 4;

/// From one record to the other: no write of a sector touches both.
const SLOT_BYTES: u64 = 4096;

/// How long a record may be known to this machine's memory alone.
const UNSYNCED: Duration = Duration::from_millis(100);

/// One file for each column, of two records that are written in turns: a write that a crash of the machine cuts off leaves the
/// other. What was written goes to the disk behind the writer's back, a tenth of a second later at most.
#[derive(Debug)]
pub struct FileHeads {
    folder: PathBuf,
    writing: Mutex<Writing>,
}

/// What is open.
#[derive(Debug, Default)]
struct Writing {
    files: HashMap<Column, Slots>,
    syncing: Option<Syncing>,
}

/// A column's file.
#[derive(Debug)]
struct Slots {
    file: Arc<File>,
    /// Where the next record goes.
    next: u64,
}

impl FileHeads {
    /// Keeps them in a folder that is there and nobody else's.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, writing: Mutex::default() }
    }

    fn path(&self, column: Column) -> PathBuf {
        self.folder.join(format!("{column}.heads"))
    }

    fn open(&self, column: Column) -> io::Result<Slots> {
        let path = self.path(column);
        let newest = newest(&path)?;
        let file =
            File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        if newest.is_none() {
            file.sync_all()?;
            File::open(&self.folder)?.sync_all()?;
        }
        let next = newest.map_or(0, |(slot, _)| 1 - slot);
        Ok(Slots { file: Arc::new(file), next })
    }
}

impl Heads for FileHeads {
    fn load(&self, column: Column) -> io::Result<Option<Head>> {
        Ok(newest(&self.path(column))?.map(|(_, head)| head))
    }

    fn save(&self, column: Column, head: &Head) -> io::Result<()> {
        let mut writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let Writing { files, syncing } = &mut *writing;
        let slots = match files.entry(column) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(closed) => closed.insert(self.open(column)?),
        };
        slots.file.write_all_at(&record(head), slots.next * SLOT_BYTES)?;
        slots.next = 1 - slots.next;
        match syncing {
            Some(syncing) => syncing,
            None => syncing.insert(Syncing::start()?),
        }
        .soon(&slots.file)
    }
}

fn record(head: &Head) -> Vec<u8> {
    let Head { version, root, next, values, digest } = head;
    let numbers = [version, root, next, values].map(|number| number.to_be_bytes()).concat();
    let content = [&numbers[..], digest].concat();
    let checksum = crc32c::crc32c(&content).to_be_bytes();
    [&content[..], &checksum].concat()
}

/// The head that a record holds; none of one that is damaged.
fn head(record: &[u8]) -> Option<Head> {
    let (content, checksum) = record.split_at_checked(RECORD_BYTES - 4)?;
    if crc32c::crc32c(content).to_be_bytes() != checksum {
        return None;
    }
    let (numbers, digest) = content.split_at_checked(4 * 8)?;
    let mut numbers =
        numbers.chunks_exact(8).filter_map(|number| number.try_into().ok()).map(u64::from_be_bytes);
    let mut next = || numbers.next();
    let (version, root, node, values) = (next()?, next()?, next()?, next()?);
    Some(Head { version, root, next: node, values, digest: digest.try_into().ok()? })
}

/// The newest record of a file, and which it is; none if none was ever written.
fn newest(path: &Path) -> io::Result<Option<(u64, Head)>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let (mut found, mut is_damaged) = (None::<(u64, Head)>, false);
    for slot in 0..2 {
        let mut bytes = [0; RECORD_BYTES];
        let length = read_at(&file, &mut bytes, slot * SLOT_BYTES)?;
        match head(&bytes) {
            Some(head) if found.as_ref().is_none_or(|(_, other)| other.version < head.version) => {
                found = Some((slot, head));
            }
            Some(_) => {}
            // What was never written, or did not reach the disk, is nothing, or zeros.
            None => is_damaged |= bytes.iter().take(length).any(|byte| *byte != 0),
        }
    }
    if found.is_none() && is_damaged {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{} is damaged", path.display())));
    }
    Ok(found)
}

/// Fills a buffer as far as the file goes; how far.
fn read_at(file: &File, bytes: &mut [u8], at: u64) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at + length as u64) {
            Ok(0) => break,
            Ok(some) => length += some,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// A thread that brings files to the disk.
#[derive(Debug)]
struct Syncing {
    files: Option<Sender<Arc<File>>>,
    failed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Syncing {
    fn start() -> io::Result<Self> {
        let (files, written) = mpsc::channel();
        let failed = Arc::new(AtomicBool::new(false));
        let said = Arc::clone(&failed);
        let thread =
            thread::Builder::new().name("arras-heads".into()).spawn(move || sync(&written, &said))?;
        Ok(Self { files: Some(files), failed, thread: Some(thread) })
    }

    /// A file is brought there soon.
    fn soon(&self, file: &Arc<File>) -> io::Result<()> {
        let stopped = || io::Error::other("earlier heads could not be brought to the disk");
        if self.failed.load(Ordering::Acquire) {
            return Err(stopped());
        }
        let files = self.files.as_ref().ok_or_else(stopped)?;
        files.send(Arc::clone(file)).map_err(|_| stopped())
    }
}

impl Drop for Syncing {
    fn drop(&mut self) {
        self.files = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Brings files to the disk, each once for all that was written to it in a while, until no more come.
fn sync(written: &Receiver<Arc<File>>, failed: &AtomicBool) {
    while let Ok(first) = written.recv() {
        let mut files = vec![first];
        let until = Instant::now() + UNSYNCED;
        while let Ok(file) = written.recv_timeout(until.saturating_duration_since(Instant::now())) {
            if !files.iter().any(|known| Arc::ptr_eq(known, &file)) {
                files.push(file);
            }
        }
        for file in files {
            if let Err(error) = file.sync_data() {
                tracing::error!(%error, "a tree's head cannot be brought to the disk");
                failed.store(true, Ordering::Release);
            }
        }
    }
}
