//! The monotonic counter by which the enclave knows its newest state.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

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
        text.trim().parse().map_err(|_| {
            io::Error::other(format!(
                "{}: not a number; or the counter is in a TPM, and --tpm-counter is to say where",
                self.path.display()
            ))
        })
    }

    fn raise(&self, from: u64, to: u64) -> io::Result<u64> {
        // Two hosts may have been started on one folder: between reading and writing there is one of them.
        let lock = File::create(self.path.with_extension("lock"))?;
        lock.lock()?;
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
        let (file, memory) = (FileCounter::new(folder.path()), MemoryCounter::default());
        for counter in [&file as &dyn Counter, &memory] {
            let steps = [(0, 5), (0, 5), (3, 9), (5, 4), (5, 9)];
            let found = steps.map(|(from, to)| counter.raise(from, to).unwrap());
            assert_eq!((found, counter.read().unwrap()), ([0, 5, 5, 5, 5], 9));
        }
        assert_eq!(FileCounter::new(folder.path()).read().unwrap(), 9);
        fs::write(folder.path().join("counter"), "nine").unwrap();
        assert!(file.read().is_err() && file.raise(9, 10).is_err());
    }

    /// Hosts on one folder: the store may be elsewhere, and lock nobody out.
    #[test]
    fn of_those_that_raise_it_at_once_one_does() {
        const HOSTS: usize = 4;
        let folder = tempfile::tempdir().unwrap();
        let together = std::sync::Barrier::new(HOSTS);
        let raise = || {
            let counter = FileCounter::new(folder.path());
            let once = |from| {
                together.wait();
                // Nobody may stay away from the next one.
                counter.raise(from, from + 1).ok()
            };
            (0..50).map(once).collect::<Vec<Option<u64>>>()
        };
        let found: Vec<Vec<Option<u64>>> = std::thread::scope(|scope| {
            let hosts: Vec<_> = (0..HOSTS).map(|_| scope.spawn(raise)).collect();
            hosts.into_iter().map(|host| host.join().unwrap()).collect()
        });
        for from in 0..50 {
            let mut found: Vec<Option<u64>> =
                found.iter().map(|found| found.get(from).copied().flatten()).collect();
            found.sort_unstable();
            let from = from as u64;
            assert_eq!(found, [Some(from), Some(from + 1), Some(from + 1), Some(from + 1)]);
        }
    }
}
