//! What this machine has seen of the history that proxy and server share, kept apart from both their data directories.
//!
//! When *both* directories are set back to one earlier time they agree with each other, and nothing in them tells. The
//! witness is a small file that is not part of the backup: it says up to which start of the proxy and up to how many
//! acknowledged writes the history has come. A start whose state is from before that is refused.
//!
//! *Limits.* It is brought up to date at every start and stop, and every [`STEP`] in between: directories set back to a
//! copy that was made of a *running* system less than that before it crashed are not told. A machine that is set back
//! as a whole, or another machine, has no witness of what came after; an absent one is begun with a warning. It holds no
//! secret and is not sealed: who may write it may have any restore pass, or refused.

use arras_storage::private;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between two looks at whether there is something new to note.
pub const STEP: Duration = Duration::from_secs(10);

/// The first line of the file.
const TITLE: &str = "arras witness 1";

/// How far the history of a database has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The server's name of the database.
    pub database: [u8; 16],
    /// The proxy's newest epoch: rises with every start.
    pub epoch: u64,
    /// Writes that the server has acknowledged.
    pub commits: u64,
}

/// Why a start is refused.
#[derive(Debug, thiserror::Error)]
pub enum WitnessError {
    /// Both sides are from before what the witness says.
    #[error(
        "the proxy's data, and the server's with them, are older than what this machine has seen of them ({path}): \
         they were restored from a backup, and nobody has said so. Run `arras restore` and start the proxy again; without it the \
         server could link equal values of before and after"
    )]
    SetBack {
        /// The witness.
        path: PathBuf,
    },
    /// The file cannot be read or written.
    #[error("the witness {path}: {source}")]
    Io {
        /// The witness.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The file is not a witness.
    #[error(
        "{path} is not a witness of this program; if no backup was restored since it was one, remove it and start again"
    )]
    Damaged {
        /// The witness.
        path: PathBuf,
    },
}

/// A witness in a file.
#[derive(Debug)]
pub struct Witness {
    path: PathBuf,
    mark: Mutex<Option<Mark>>,
}

impl Witness {
    /// Opens the witness at `path`; its directory is made, and closed to other users, if it is not there. An absent
    /// file is begun with the first [`Witness::advance`].
    ///
    /// # Errors
    /// [`WitnessError::Io`], [`WitnessError::Damaged`].
    pub fn open(path: &Path) -> Result<Self, WitnessError> {
        let io_error = |source| WitnessError::Io { path: path.to_path_buf(), source };
        if let Some(directory) = path.parent() {
            private::make_directory(directory).map_err(io_error)?;
        }
        let mark = match fs::read_to_string(path) {
            Ok(text) => Some(parse(&text).ok_or_else(|| WitnessError::Damaged { path: path.to_path_buf() })?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                tracing::warn!(
                    path = %path.display(),
                    "there is no witness here yet: if both sides were restored from a backup, this start cannot tell"
                );
                None
            }
            Err(error) => return Err(io_error(error)),
        };
        Ok(Self { path: path.to_path_buf(), mark: Mutex::new(mark) })
    }

    fn mark(&self) -> MutexGuard<'_, Option<Mark>> {
        self.mark.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Compares what both sides have at a start with what was seen: `found` has the epoch of the proxy's last start
    /// and the server's count. Of another database nothing was seen.
    ///
    /// # Errors
    /// [`WitnessError::SetBack`].
    pub fn check(&self, found: Mark) -> Result<(), WitnessError> {
        match *self.mark() {
            Some(seen) if seen.database != found.database => {
                tracing::warn!(path = %self.path.display(), "the witness was of another database; it is begun anew");
                Ok(())
            }
            Some(seen) if found.epoch < seen.epoch || found.commits < seen.commits => {
                Err(WitnessError::SetBack { path: self.path.clone() })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Notes how far the history has come, durably. `over`: although it has come less far, after a restore that was
    /// declared.
    ///
    /// # Errors
    /// [`WitnessError::Io`].
    pub fn advance(&self, to: Mark, over: bool) -> Result<(), WitnessError> {
        let mut mark = self.mark();
        let next = match *mark {
            Some(seen) if seen.database == to.database && !over => Mark {
                database: to.database,
                epoch: to.epoch.max(seen.epoch),
                commits: to.commits.max(seen.commits),
            },
            Some(_) | None => to,
        };
        if *mark != Some(next) {
            self.write(next).map_err(|source| WitnessError::Io { path: self.path.clone(), source })?;
            *mark = Some(next);
        }
        Ok(())
    }

    /// Notes that the server has acknowledged so many writes since the last start was noted.
    ///
    /// # Errors
    /// [`WitnessError::Io`].
    pub fn acknowledged(&self, commits: u64) -> Result<(), WitnessError> {
        let seen = *self.mark();
        seen.map_or(Ok(()), |seen| self.advance(Mark { commits, ..seen }, false))
    }

    /// Whole or not at all, whatever crash intervenes.
    fn write(&self, mark: Mark) -> io::Result<()> {
        let unfinished = self.path.with_extension("new");
        let mut file = private::file_options().write(true).create(true).truncate(true).open(&unfinished)?;
        file.write_all(text(mark).as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, &self.path)?;
        match self.path.parent() {
            Some(directory) => fs::File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    }
}

fn text(mark: Mark) -> String {
    let Mark { database, epoch, commits } = mark;
    let database = u128::from_be_bytes(database);
    format!("{TITLE}\ndatabase {database:032x}\nepoch {epoch}\ncommits {commits}\n")
}

fn parse(text: &str) -> Option<Mark> {
    let lines: Vec<&str> = text.lines().collect();
    let [TITLE, database, epoch, commits] = lines.as_slice() else { return None };
    let database = u128::from_str_radix(database.strip_prefix("database ")?, 16).ok()?.to_be_bytes();
    let epoch = epoch.strip_prefix("epoch ")?.parse().ok()?;
    let commits = commits.strip_prefix("commits ")?.parse().ok()?;
    Some(Mark { database, epoch, commits })
}

/// Where the machine keeps the state of its programs, apart from their data: `$XDG_STATE_HOME`, `~/.local/state`, or
/// `/var/lib` for who has no home.
#[must_use]
pub fn state_directory() -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .unwrap_or_else(|| PathBuf::from("/var/lib"))
        .join("arras")
}

#[cfg(test)]
mod tests;
