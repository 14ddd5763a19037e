//! The monotonic counter by which the enclave knows its newest state.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A number that only grows.
pub trait Counter: Send + Sync + 'static {
    /// Its value; 0 if it was never raised.
    ///
    /// # Errors
    /// What is behind it fails.
    fn read(&self) -> io::Result<u64>;

    /// Raises it to at least `to`, durably; its value then.
    ///
    /// # Errors
    /// What is behind it fails; it may have been raised.
    fn raise(&self, to: u64) -> io::Result<u64>;
}

/// A file in the place of a counter in hardware. It protects against nobody who may write files here: set back together with
/// the store, the enclave cannot tell. For trials, and where the machine's administrator is trusted with that.
pub struct FileCounter {
    path: PathBuf,
    directory: PathBuf,
}

impl FileCounter {
    /// Of a folder that is there.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { path: directory.join("counter"), directory: directory.to_path_buf() }
    }
}

impl Counter for FileCounter {
    fn read(&self) -> io::Result<u64> {
        let text = match fs::read_to_string(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            text => text?,
        };
        text.trim().parse().map_err(|_| io::Error::other(format!("{}: not a number", self.path.display())))
    }

    fn raise(&self, to: u64) -> io::Result<u64> {
        let value = self.read()?;
        if to <= value {
            return Ok(value);
        }
        let new = self.path.with_extension("new");
        let mut file = File::create(&new)?;
        writeln!(file, "{to}")?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        File::open(&self.directory)?.sync_all()?;
        Ok(to)
    }
}

/// Gone with the process, for a store that is.
#[derive(Default)]
pub struct MemoryCounter(std::sync::atomic::AtomicU64);

impl Counter for MemoryCounter {
    fn read(&self) -> io::Result<u64> {
        Ok(self.0.load(std::sync::atomic::Ordering::SeqCst))
    }

    fn raise(&self, to: u64) -> io::Result<u64> {
        Ok(self.0.fetch_max(to, std::sync::atomic::Ordering::SeqCst).max(to))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn it_only_grows() {
        let folder = tempfile::tempdir().unwrap();
        let (file, memory) = (FileCounter::new(folder.path()), MemoryCounter::default());
        for counter in [&file as &dyn Counter, &memory] {
            let raised = [5, 3, 9].map(|to| counter.raise(to).unwrap());
            assert_eq!((raised, counter.read().unwrap()), ([5, 5, 9], 9));
        }
        assert_eq!(FileCounter::new(folder.path()).read().unwrap(), 9);
        fs::write(folder.path().join("counter"), "nine").unwrap();
        assert!(file.read().is_err() && file.raise(10).is_err());
    }
}
