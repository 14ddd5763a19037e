//! Entries of configfs-tsm: each is a folder that the kernel fills with files, for one conversation.

use super::TsmError;
use crate::brought::FileError;
use crate::hexadecimal;
use ring::rand::{SecureRandom, SystemRandom};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::PathBuf;
use tracing::warn;

/// Where the kernel has its interface.
pub const FOLDER: &str = "/sys/kernel/config/tsm/report";

/// Most bytes that are read of a file. Most that evidence may have is half of it.
const READ_MOST: u64 = 64 * 1024;

/// Makes entries.
pub trait Interface: Send + Sync + 'static {
    /// What it makes.
    type Entry: Entry;

    /// A new entry, nobody else's.
    ///
    /// # Errors
    /// [`TsmError`].
    fn make(&self) -> Result<Self::Entry, TsmError>;
}

/// The files of an entry, by name. Dropped, it is no more.
pub trait Entry {
    /// All of a file.
    ///
    /// # Errors
    /// What the kernel says.
    fn read(&self, file: &str) -> io::Result<Vec<u8>>;

    /// Writes a file, at once. That it ended without an error does not say that the kernel took it: the files' generation does.
    ///
    /// # Errors
    /// What the kernel says.
    fn write(&self, file: &str, bytes: &[u8]) -> io::Result<()>;
}

/// The kernel's, in a folder.
pub struct Folder(PathBuf);

impl Folder {
    /// At a path: [`FOLDER`], unless configfs is mounted elsewhere.
    #[must_use]
    pub fn new(path: PathBuf) -> Self {
        Self(path)
    }
}

impl Interface for Folder {
    type Entry = Made;

    fn make(&self) -> Result<Made, TsmError> {
        let mut name = [0; 16];
        SystemRandom::new().fill(&mut name).map_err(|_| TsmError::Random)?;
        let path = self.0.join(format!("arras-{}", hexadecimal::written(&name)));
        fs::create_dir(&path).map_err(|error| {
            let path = self.0.clone();
            match Errno::from_io_error(&error) {
                Some(Errno::NOENT | Errno::NOTDIR) => TsmError::NoInterface(path),
                Some(Errno::NXIO) => TsmError::NoDriver,
                Some(Errno::ACCESS | Errno::PERM) => TsmError::NotPermitted { path, error },
                _ => FileError::System { file: path.display().to_string(), error }.into(),
            }
        })?;
        Ok(Made(path))
    }
}

/// A folder that was made, and is removed.
pub struct Made(PathBuf);

impl Entry for Made {
    fn read(&self, file: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(self.0.join(file))?.take(READ_MOST + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > READ_MOST { Err(Errno::FBIG.into()) } else { Ok(bytes) }
    }

    fn write(&self, file: &str, bytes: &[u8]) -> io::Result<()> {
        // Never made: what is not there the kernel does not have.
        OpenOptions::new().write(true).open(self.0.join(file))?.write_all(bytes)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            warn!("{}: {error}; the entry stays until the machine ends", self.0.display());
        }
    }
}

#[cfg(test)]
#[allow(clippy::panic, clippy::unwrap_used)]
mod tests {
    use super::*;

    fn entries(folder: &tempfile::TempDir) -> Vec<PathBuf> {
        fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
    }

    #[test]
    fn an_entry_is_made_under_a_name_of_its_own_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let interface = Folder::new(folder.path().into());
        let (one, other) = (interface.make().unwrap(), interface.make().unwrap());
        assert_eq!(entries(&folder).len(), 2);
        drop(one);
        assert_eq!(entries(&folder).first(), Some(&other.0));
        drop(other);
        assert!(entries(&folder).is_empty());
    }

    #[test]
    fn files_are_read_and_written_and_never_made() {
        let folder = tempfile::tempdir().unwrap();
        let entry = Folder::new(folder.path().into()).make().unwrap();
        let write = |name: &str, bytes: &[u8]| fs::write(entry.0.join(name), bytes).unwrap();
        let missing = entry.write("inblob", &[7; 64]).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        write("inblob", b"");
        entry.write("inblob", &[7; 64]).unwrap();
        assert_eq!(entry.read("inblob").unwrap(), [7; 64]);
        write("outblob", &[1; READ_MOST as usize]);
        assert_eq!(entry.read("outblob").unwrap().len() as u64, READ_MOST);
        write("outblob", &[1; READ_MOST as usize + 1]);
        assert_eq!(Errno::from_io_error(&entry.read("outblob").unwrap_err()), Some(Errno::FBIG));
        for name in ["inblob", "outblob"] {
            fs::remove_file(entry.0.join(name)).unwrap();
        }
    }

    #[test]
    fn where_the_interface_is_not_an_error_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let Err(error) = Folder::new(folder.path().join("report")).make() else { panic!("made") };
        assert!(matches!(error, TsmError::NoInterface(_)));
        let said = error.to_string();
        assert!(said.contains("modprobe sev-guest") && said.contains("mount -t configfs"), "{said}");
        fs::write(folder.path().join("file"), "").unwrap();
        let Err(error) = Folder::new(folder.path().join("file")).make() else { panic!("made") };
        assert!(matches!(error, TsmError::NoInterface(_)), "{error}");
    }
}
