//! The proxy's record of its mark: a small text file, replaced as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What the file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// The number by which the database knows the proxy.
    pub(super) proxy: i64,
    /// The last mark that the database acknowledged.
    pub(super) raised: i64,
}

/// Where it is in a folder of heads.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("database.mark")
}

impl Record {
    /// Reads it; none if there is none.
    ///
    /// # Errors
    /// The medium's, or that it is none.
    pub(super) fn load(path: &Path) -> io::Result<Option<Self>> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut numbers = text.split_whitespace().map(str::parse);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(proxy)), Some(Ok(raised)), None) => Ok(Some(Self { proxy, raised })),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "damaged")),
        }
    }

    /// Writes it beside and puts it in the place of what was there: a crash leaves the one or the other.
    ///
    /// # Errors
    /// The medium's.
    pub(super) fn save(self, path: &Path) -> io::Result<()> {
        // Of this process: another proxy may start on the same folder before this one has ended.
        let beside = path.with_extension(format!("mark.{}", std::process::id()));
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
        writeln!(file, "{} {}", self.proxy, self.raised)?;
        file.sync_data()?;
        fs::rename(&beside, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    }
}
