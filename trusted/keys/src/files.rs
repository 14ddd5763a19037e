//! Private files: read only if nobody else may, written whole or not at all.

use crate::error::KeyringError;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// More than any keyring or key file holds, in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Bytes that tell the files of two replacements apart.
const SUFFIX_BYTES: usize = 8;

fn io_error(path: &Path) -> impl FnOnce(io::Error) -> KeyringError + '_ {
    move |source| KeyringError::Io { path: path.to_path_buf(), source }
}

/// Reads a file that only its owner may read or write.
pub(crate) fn read_private(path: &Path) -> Result<Vec<u8>, KeyringError> {
    let file = File::open(path).map_err(io_error(path))?;
    let metadata = file.metadata().map_err(io_error(path))?;
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(KeyringError::Permissions { path: path.to_path_buf(), mode });
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(KeyringError::Damaged { path: path.to_path_buf(), what: "too long" });
    }
    // Room for all of it at once: a growing buffer would leave copies of a secret behind.
    let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or(0) + 1);
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).map_err(io_error(path))?;
    Ok(bytes)
}

/// Creates a file that must not exist yet; durable once this returns.
pub(crate) fn create(path: &Path, bytes: &[u8]) -> Result<(), KeyringError> {
    let temporary = write_beside(path, bytes)?;
    // A link, unlike a rename, fails if the name is taken.
    let linked = match fs::hard_link(&temporary, path) {
        // File systems of sticks and some of networks have no links.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) =>
        {
            write_new(path, bytes)
        }
        linked => linked,
    };
    fs::remove_file(&temporary).map_err(io_error(&temporary))?;
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            Err(KeyringError::Exists { path: path.to_path_buf() })
        }
        Err(error) => Err(io_error(path)(error)),
        Ok(()) => sync_parent(path),
    }
}

/// Replaces a file; after a crash it holds either the old bytes or the new ones. The old ones are overwritten where they
/// were, which a device or file system that writes elsewhere does not honour.
/// Of a link, the file that it leads to is replaced.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), KeyringError> {
    let path = &behind(path);
    let old = OpenOptions::new().write(true).open(path);
    let temporary = write_beside(path, bytes)?;
    fs::rename(&temporary, path).map_err(io_error(path))?;
    sync_parent(path)?;
    if let Ok(old) = old {
        // The new file is there: what becomes of the old one's bytes is no failure of the replacement.
        let _ = overwrite(old);
    }
    Ok(())
}

/// The file that a link leads to; itself, if it is none or not there.
fn behind(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Overwrites a file that has no name any more; one that an administrator has linked elsewhere is left alone.
fn overwrite(mut file: File) -> io::Result<()> {
    let metadata = file.metadata()?;
    if metadata.nlink() > 0 {
        return Ok(());
    }
    let length = usize::try_from(metadata.len().min(FILE_BYTES_MAX)).unwrap_or(0);
    file.write_all(&vec![0; length])?;
    file.sync_all()
}

/// Removes what replacements of a file have left that did not come to their end (a crash before the renaming). Nobody else
/// may be replacing it.
pub(crate) fn sweep(path: &Path) -> Result<(), KeyringError> {
    let path = &behind(path);
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    for entry in fs::read_dir(parent(path)).map_err(io_error(path))? {
        let entry = entry.map_err(io_error(path))?;
        let found = entry.file_name().to_string_lossy().into_owned();
        let middle = found.strip_prefix(&format!("{name}.")).and_then(|rest| rest.strip_suffix(".new"));
        if middle.and_then(from_hex).is_some_and(|suffix| suffix.len() == SUFFIX_BYTES) {
            let left = entry.path();
            let file = OpenOptions::new().write(true).open(&left).map_err(io_error(&left))?;
            fs::remove_file(&left).map_err(io_error(&left))?;
            let _ = overwrite(file);
        }
    }
    Ok(())
}

/// Holds other processes off this directory's files until the returned handle is dropped.
pub(crate) fn lock_parent(path: &Path) -> Result<File, KeyringError> {
    let directory = File::open(parent(&behind(path))).map_err(io_error(path))?;
    directory.lock().map_err(io_error(path))?;
    Ok(directory)
}

/// Writes a file that must not exist yet under its own name.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if written.is_err() {
        // Half of one must not be taken for a whole one.
        let _ = fs::remove_file(path);
    }
    written
}

pub(crate) fn write_beside(path: &Path, bytes: &[u8]) -> Result<PathBuf, KeyringError> {
    let mut suffix = [0; SUFFIX_BYTES];
    getrandom::fill(&mut suffix).map_err(|error| io_error(path)(io::Error::other(error)))?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.new", to_hex(&suffix)));
    let temporary = path.with_file_name(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&temporary)
        .map_err(io_error(&temporary))?;
    let written = file.write_all(bytes).and_then(|()| file.sync_all());
    if let Err(error) = written {
        let _ = fs::remove_file(&temporary);
        return Err(io_error(&temporary)(error));
    }
    Ok(temporary)
}

fn sync_parent(path: &Path) -> Result<(), KeyringError> {
    File::open(parent(path)).and_then(|directory| directory.sync_all()).map_err(io_error(path))
}

fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Lower-case hexadecimal.
pub(crate) fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Bytes of lower-case hexadecimal; `None` for anything else.
pub(crate) fn from_hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else {
        return None;
    };
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let mut bytes = Vec::with_capacity(pairs.len());
    for [high, low] in pairs {
        bytes.push(digit(*high)? << 4 | digit(*low)?);
    }
    Some(bytes)
}
