//! The files there are.

use super::index::Problem;
use super::read::NO_FILE;
use rustix::fs::statfs;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
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
#[derive(Debug)]
pub(super) struct Found<'s> {
    pub(super) files: Vec<File>,
    /// What could not be looked into.
    pub(super) problems: Vec<Problem>,
    /// What is left out, and why.
    pub(super) left_out: Vec<Problem>,
    /// Whether the search for files is to end.
    stop: &'s AtomicBool,
}

impl<'s> Found<'s> {
    /// Nothing yet.
    pub(super) fn new(stop: &'s AtomicBool) -> Self {
        Self { files: Vec::new(), problems: Vec::new(), left_out: Vec::new(), stop }
    }

    /// Whether there may be more than was found.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// A file that every store of this search has.
const OF_A_STORE: &str = "client/keyring.key";
/// What a store of this search has in its folder, beside which there may be others' files.
pub const STORE_ENTRIES: [&str; 7] = [
    "client",
    "development-root",
    "development-root.new",
    "development-root.public",
    "enclave-key",
    "enclave-key.new",
    "server",
];

/// The files at a path or below it. Symbolic links are not followed, but for the path itself; what begins with a dot is left
/// out, but for folders of a Maildir, and so are file systems that are no disk's.
pub(super) fn walk(root: &Path, found: &mut Found<'_>) -> io::Result<()> {
    let metadata = fs::metadata(root)?;
    if let Some(system) = pseudo(root) {
        let what = io::Error::other(format!("it is of {system}, whose files are no documents"));
        found.problems.push(Problem::new(root, &what));
    } else if is_of_a_store(root) {
        found.problems.push(Problem::new(root, &io::Error::other("it is an index's own, no document")));
    } else if metadata.is_dir() {
        folder(root, metadata.dev(), 0, found);
    } else if metadata.is_file() {
        file(root, &metadata, false, found);
    } else {
        found.problems.push(Problem::new(root, &io::Error::other(NO_FILE)));
    }
    Ok(())
}

/// What a folder is of whose files the kernel makes up: reading them may change something, or never end.
fn pseudo(path: &Path) -> Option<&'static str> {
    // By the numbers of `linux/magic.h`. That of devices has the one of memory's, which has documents.
    let number = statfs(path).ok()?.f_type as u32;
    Some(match number {
        0x0000_9fa0 => "proc",
        0x6265_6572 => "sysfs",
        0x0000_1cd1 => "devpts",
        0x0027_e0eb | 0x6367_7270 => "cgroup",
        0x6462_6720 => "debugfs",
        0x7472_6163 => "tracefs",
        0x7363_6673 => "securityfs",
        0xf97c_ff8c => "selinuxfs",
        0x6165_676c => "pstore",
        0xde5e_81e4 => "efivarfs",
        0xcafe_4a11 => "bpf",
        0x6265_6570 => "configfs",
        0x4249_4e4d => "binfmt_misc",
        0x6573_5543 => "fusectl",
        0x1980_0202 => "mqueue",
        0x9584_58f6 => "hugetlbfs",
        0x6e73_6673 => "nsfs",
        0x6759_6969 => "rpc_pipefs",
        0x6e66_7364 => "nfsd",
        _ => return None,
    })
}

/// Whether a folder has a store of this search.
fn has_store(folder: &Path) -> bool {
    folder.join(OF_A_STORE).is_file()
}

/// Whether a path is that of a store's own file or folder, or below one.
fn is_of_a_store(path: &Path) -> bool {
    path.ancestors().any(|ancestor| {
        let name = ancestor.file_name().unwrap_or_default();
        STORE_ENTRIES.iter().any(|entry| name == *entry) && ancestor.parent().is_some_and(has_store)
    })
}

/// A folder within one of a device.
fn inner(path: &Path, metadata: &Metadata, device: u64, depth: usize, found: &mut Found<'_>) {
    match pseudo(path).filter(|_| metadata.dev() != device) {
        Some(system) => {
            let what = io::Error::other(format!("{system}, no disk's file system"));
            found.left_out.push(Problem::new(path, &what));
        }
        None => folder(path, metadata.dev(), depth, found),
    }
}

fn folder(path: &Path, device: u64, depth: usize, found: &mut Found<'_>) {
    // An index's own keys, and its record of other files, are no texts; what lies beside them may be.
    let has_store = has_store(path);
    if has_store {
        let what = format!("the index's own files ({})", STORE_ENTRIES.join(", "));
        found.left_out.push(Problem::new(path, &io::Error::other(what)));
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
        if found.is_stopped() {
            return;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if has_store && STORE_ENTRIES.contains(&name.as_str()) {
            continue;
        }
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
                _ if is_maildir || !name.starts_with('.') => {
                    inner(&path, &metadata, device, depth + 1, found);
                }
                _ => {}
            }
        } else if metadata.is_file() && !name.starts_with('.') {
            file(&path, &metadata, false, found);
        }
    }
}

/// The messages in one of the folders of a Maildir.
fn messages(path: &Path, found: &mut Found<'_>) {
    let mut entries = match list(path) {
        Ok(entries) => entries,
        Err(error) => return found.problems.push(Problem::new(path, &error)),
    };
    entries.sort();
    for path in entries {
        if found.is_stopped() {
            return;
        }
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

fn file(path: &Path, metadata: &Metadata, is_message: bool, found: &mut Found<'_>) {
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_makes_up_is_not_entered() {
        let stop = AtomicBool::new(false);
        let mut found = Found::new(&stop);
        walk(Path::new("/proc/self"), &mut found).unwrap();
        assert_eq!((found.files.len(), found.problems.len()), (0, 1));
        assert_eq!(found.problems[0].what, "it is of proc, whose files are no documents");
        // As it is met in `/`.
        let mut found = Found::new(&stop);
        let metadata = fs::metadata("/proc").unwrap();
        inner(Path::new("/proc"), &metadata, fs::metadata("/").unwrap().dev(), 1, &mut found);
        assert_eq!((found.files.len(), found.problems.len()), (0, 0));
        assert_eq!((found.left_out[0].path.as_path(), found.left_out.len()), (Path::new("/proc"), 1));
        assert_eq!(pseudo(tempfile::tempdir().unwrap().path()), None);
    }
}
