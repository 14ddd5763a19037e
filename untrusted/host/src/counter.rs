//! The monotonic counter by which the enclave knows its newest state.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A number that only grows.
pub trait Counter: Send + Sync + 'static {
    /// Its value; 0 if it was never raised.
    ///
    /// # Errors
    /// What is behind it fails.
    fn read(&self) -> io::Result<u64>;

    /// Raises it to `to`, durably, if its value is `from`; the value it had. One that is elsewhere stays there.
    ///
    /// # Errors
    /// What is behind it fails; it may have been raised.
    fn raise(&self, from: u64, to: u64) -> io::Result<u64>;
}

impl<C: Counter + ?Sized> Counter for Box<C> {
    fn read(&self) -> io::Result<u64> {
        (**self).read()
    }

    fn raise(&self, from: u64, to: u64) -> io::Result<u64> {
        (**self).raise(from, to)
    }
}

/// How long a counter is waited for whose last host has just ended.
const PATIENCE: Duration = Duration::from_secs(5);

/// The file of a counter, for one host as long as it runs: two would write their records over one another's.
///
/// # Errors
/// [`io::ErrorKind::WouldBlock`]: another host has it.
pub(crate) fn locked(path: &Path, patience: Duration) -> io::Result<File> {
    let file = File::options().create(true).append(true).open(path)?;
    let end = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < end => sleep(Duration::from_millis(20)),
            Err(TryLockError::WouldBlock) => {
                let what = format!("{}: another host has this counter", path.display());
                return Err(io::Error::new(io::ErrorKind::WouldBlock, what));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// A file in the place of a counter in hardware. It protects against nobody who may write files here: set back together with
/// the store, the enclave cannot tell. For trials, and where the machine's administrator is trusted with that.
pub struct FileCounter {
    path: PathBuf,
    directory: PathBuf,
    /// One at a time; it is locked while this host runs.
    turn: Mutex<File>,
}

impl FileCounter {
    /// Of a folder that is there.
    ///
    /// # Errors
    /// Another host has it.
    pub fn open(directory: &Path) -> io::Result<Self> {
        let turn = Mutex::new(locked(&directory.join("counter.lock"), PATIENCE)?);
        Ok(Self { path: directory.join("counter"), directory: directory.to_path_buf(), turn })
    }
}

impl Counter for FileCounter {
    fn read(&self) -> io::Result<u64> {
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            text => text?,
        };
        text.trim().parse().map_err(|_| {
            io::Error::other(format!(
                "{}: not a number; or the counter is in a TPM, and --tpm-counter is to say where",
                self.path.display()
            ))
        })
    }

    fn raise(&self, from: u64, to: u64) -> io::Result<u64> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let value = self.read()?;
        if value != from || to <= value {
            return Ok(value);
        }
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        writeln!(file, "{to}")?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        File::open(&self.directory)?.sync_all()?;
        Ok(value)
    }
}

/// Gone with the process, for a store that is.
#[derive(Default)]
pub struct MemoryCounter(AtomicU64);

impl Counter for MemoryCounter {
    fn read(&self) -> io::Result<u64> {
        Ok(self.0.load(Ordering::SeqCst))
    }

    fn raise(&self, from: u64, to: u64) -> io::Result<u64> {
        let raised = |value| (value == from && to > value).then_some(to);
        let before = self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, raised);
        Ok(before.unwrap_or_else(|value| value))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_from_where_it_stands_and_for_one_of_two() {
        let folder = tempfile::tempdir().unwrap();
        let (file, memory) = (FileCounter::open(folder.path()).unwrap(), MemoryCounter::default());
        for counter in [&file as &dyn Counter, &memory] {
            let steps = [(0, 5), (0, 5), (3, 9), (5, 4), (5, 9)];
            let found = steps.map(|(from, to)| counter.raise(from, to).unwrap());
            assert_eq!((found, counter.read().unwrap()), ([0, 5, 5, 5, 5], 9));
        }
        // Another host is held off while this one runs: the store may be elsewhere, and lock nobody out.
        assert!(FileCounter::open(folder.path()).is_err());
        drop(file);
        let file = FileCounter::open(folder.path()).unwrap();
        assert_eq!(file.read().unwrap(), 9);
        fs::write(folder.path().join("counter"), "nine").unwrap();
        assert!(file.read().is_err() && file.raise(9, 10).is_err());
    }
}
