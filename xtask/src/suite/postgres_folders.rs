//! Where tests have their private PostgreSQLs: in memory where there is enough of it. Each has a thousand files, and ext4 looks at all that were
//! removed in the last minutes before it makes one.

use rustix::fs::statvfs;
use std::fs::Permissions;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Names the folder to whoever starts one (`arras_proxy::private_postgres`).
pub(super) const VARIABLE: &str = "ARRAS_POSTGRES_FOLDERS";
/// A file system in memory, on Linux.
const IN_MEMORY: &str = "/dev/shm";
/// Bytes that are free there at least; a few servers run at a time, of 40 MB and what a test stores.
const FREE_BYTES_MIN: u64 = 4 << 30;

/// The folder; removed when dropped.
pub(super) struct PostgresFolders(PathBuf);

impl PostgresFolders {
    /// One in memory, if there is room.
    pub(super) fn in_memory() -> Option<Self> {
        let all = Path::new(IN_MEMORY);
        let free = statvfs(all).ok()?;
        if free.f_bavail.saturating_mul(free.f_frsize) < FREE_BYTES_MIN {
            return None;
        }
        let folder = all.join(format!("arras-tests-{}", std::process::id()));
        std::fs::DirBuilder::new().mode(0o700).create(&folder).ok()?;
        let made = Self(folder);
        // Servers run as a user of their own; each folder within is its owner's only.
        std::fs::set_permissions(&made.0, Permissions::from_mode(0o711)).ok()?;
        Some(made)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PostgresFolders {
    fn drop(&mut self) {
        // What a test left is of no use.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
