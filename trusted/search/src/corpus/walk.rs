//! The files there are.

use super::index::Problem;
use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Folders one within another.
const DEPTH_MAX: usize = 100;

/// A file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct File {
    /// What it is called in the ledger: its path, or of a message in a Maildir what stays when it is moved and flagged.
    pub(super) name: String,
    /// Where it is, if that is not its name.
    pub(super) place: Option<String>,
    /// Whether it is a message by where it is.
    pub(super) is_message: bool,
    /// Bytes.
    pub(super) size: u64,
    /// Nanoseconds since 1970 of its last change.
    pub(super) modified: i64,
}

impl File {
    pub(super) fn path(&self) -> &Path {
        Path::new(self.place.as_ref().unwrap_or(&self.name))
    }
}

/// What was found, in the order of the names.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) files: Vec<File>,
    /// What could not be looked into.
    pub(super) problems: Vec<Problem>,
}

/// A file that every store of this search has.
const OF_A_STORE: &str = "client/keyring.key";

/// The files at a path or below it. Symbolic links are not followed, but for the path itself; what begins with a dot is left
/// out, but for folders of a Maildir.
pub(super) fn walk(root: &Path, found: &mut Found) -> io::Result<()> {
    let metadata = fs::metadata(root)?;
    if metadata.is_dir() {
        folder(root, 0, found);
    } else {
        file(root, &metadata, false, found);
    }
    Ok(())
}

fn folder(path: &Path, depth: usize, found: &mut Found) {
    // An index's own keys, and its record of other files, are no texts.
    if path.join(OF_A_STORE).is_file() {
        return;
    }
    let is_maildir = ["cur", "new", "tmp"].iter().all(|name| path.join(name).is_dir());
    let mut entries = match list(path) {
        Ok(entries) => entries,
        Err(error) => return found.problems.push(Problem::new(path, &error)),
    };
    if depth > DEPTH_MAX {
        let what = io::Error::other(format!("more than {DEPTH_MAX} folders one within another"));
        return found.problems.push(Problem::new(path, &what));
    }
    entries.sort();
    if is_maildir {
        // A message is moved from there to `cur` when it is read: it is found in one of them.
        entries.sort_by_key(|entry| entry.file_name().is_none_or(|name| name != "new"));
    }
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let metadata = match fs::symlink_metadata(&path) {
            Ok(metadata) => metadata,
            Err(error) => {
                found.problems.push(Problem::new(&path, &error));
                continue;
            }
        };
        if metadata.is_dir() {
            match name.as_str() {
                "cur" | "new" if is_maildir => messages(&path, found),
                "tmp" if is_maildir => {}
                _ if is_maildir || !name.starts_with('.') => folder(&path, depth + 1, found),
                _ => {}
            }
        } else if metadata.is_file() && !name.starts_with('.') {
            file(&path, &metadata, false, found);
        }
    }
}

/// The messages in one of the folders of a Maildir.
fn messages(path: &Path, found: &mut Found) {
    let mut entries = match list(path) {
        Ok(entries) => entries,
        Err(error) => return found.problems.push(Problem::new(path, &error)),
    };
    entries.sort();
    for path in entries {
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_file() => file(&path, &metadata, true, found),
            Ok(_) => {}
            // It was moved while this went on: the next run finds it.
            Err(error) => found.problems.push(Problem::new(&path, &error)),
        }
    }
}

fn list(path: &Path) -> io::Result<Vec<PathBuf>> {
    fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect()
}

fn file(path: &Path, metadata: &Metadata, is_message: bool, found: &mut Found) {
    let Some(place) = path.to_str() else {
        let what = io::Error::other("its name is not UTF-8");
        return found.problems.push(Problem::new(path, &what));
    };
    let modified = metadata.modified().ok().map_or(0, |time| match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => {
            i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |nanoseconds| -nanoseconds)
        }
    });
    let name = if is_message { lasting_name(path) } else { None };
    let (name, place) = match name {
        Some(name) => (name, Some(place.to_owned())),
        None => (place.to_owned(), None),
    };
    found.files.push(File { name, place, is_message, size: metadata.len(), modified });
}

/// `INBOX/cur/1234.host:2,S` is `INBOX/1234.host` as long as it is there.
fn lasting_name(path: &Path) -> Option<String> {
    let base = path.file_name()?.to_str()?.split(':').next()?;
    Some(path.parent()?.parent()?.join(base).to_str()?.to_owned())
}
