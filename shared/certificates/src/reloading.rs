//! Settings made from files, made again when the files have changed.

use std::fmt::{self, Display};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// What tells a changed file from the same one: device and inode, length, times of change in nanoseconds; `None` if it is
/// not there.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp(Option<[i64; 6]>);

impl Stamp {
    fn of(path: &Path) -> Self {
        let parts = |metadata: fs::Metadata| {
            let whole = |number: u64| number.cast_signed();
            [
                whole(metadata.ino()),
                whole(metadata.size()),
                metadata.mtime(),
                metadata.mtime_nsec(),
                metadata.ctime(),
                metadata.ctime_nsec(),
            ]
        };
        Self(fs::metadata(path).ok().map(parts))
    }
}

/// What a look at the files came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    /// Nothing has changed.
    Same,
    /// They were read, and what they say is in force for new connections.
    Loaded,
    /// They cannot be used, which is said here; what was in force before stays. `news` is false if the last look found the
    /// same.
    Kept {
        /// Why they cannot be used.
        what: String,
        /// Whether this differs from what the last look found.
        news: bool,
    },
}

type Load<T> = dyn Fn() -> Result<Arc<T>, String> + Send + Sync;

struct Seen {
    stamps: Vec<Stamp>,
    failed: Option<String>,
}

struct Inner<T> {
    files: Vec<PathBuf>,
    load: Box<Load<T>>,
    current: RwLock<Arc<T>>,
    seen: Mutex<Seen>,
}

/// Settings made from files; clones share them. Whoever needs them takes the current ones; what was taken stays as it
/// was.
pub struct Reloading<T>(Arc<Inner<T>>);

impl<T> Clone for Reloading<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Reloading<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Reloading({:?})", self.0.files)
    }
}

/// Settings that do not change.
impl<T: Send + Sync + 'static> From<Arc<T>> for Reloading<T> {
    fn from(current: Arc<T>) -> Self {
        let same = Arc::clone(&current);
        Self::over(Vec::new(), move || Ok(Arc::clone(&same)), Vec::new(), current)
    }
}

impl<T> Reloading<T> {
    /// Reads the files for the first time by `first`, and later by `again`, which may ask more of them: the first time
    /// there is nothing else to go by.
    ///
    /// # Errors
    /// What `first` says.
    pub fn open<E: Display>(
        files: Vec<PathBuf>,
        first: impl FnOnce() -> Result<Arc<T>, E>,
        again: impl Fn() -> Result<Arc<T>, E> + Send + Sync + 'static,
    ) -> Result<Self, E> {
        // Taken before the files are read: what changes meanwhile is seen at the next look.
        let stamps = files.iter().map(|path| Stamp::of(path)).collect();
        let current = first()?;
        Ok(Self::over(files, move || again().map_err(|error| error.to_string()), stamps, current))
    }

    fn over(
        files: Vec<PathBuf>,
        load: impl Fn() -> Result<Arc<T>, String> + Send + Sync + 'static,
        stamps: Vec<Stamp>,
        current: Arc<T>,
    ) -> Self {
        let seen = Mutex::new(Seen { stamps, failed: None });
        Self(Arc::new(Inner { files, load: Box::new(load), current: RwLock::new(current), seen }))
    }

    /// The settings in force.
    #[must_use]
    pub fn current(&self) -> Arc<T> {
        Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        // Its fields are written one by one, each whole.
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the files if they have changed, or if they could not be used when they were last read; `anyway`, in
    /// every case.
    ///
    /// A connection that is under way keeps what it began with.
    pub fn look(&self, anyway: bool) -> Looked {
        let mut seen = self.seen();
        let stamps: Vec<Stamp> = self.0.files.iter().map(|path| Stamp::of(path)).collect();
        let changed = stamps != seen.stamps;
        if !anyway && !changed && seen.failed.is_none() {
            return Looked::Same;
        }
        seen.stamps = stamps;
        match (self.0.load)() {
            Ok(loaded) => {
                *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = loaded;
                seen.failed = None;
                Looked::Loaded
            }
            Err(what) => {
                let news = anyway || seen.failed.as_ref() != Some(&what);
                seen.failed = Some(what.clone());
                Looked::Kept { what, news }
            }
        }
    }
}
