//! A file system with room for a few megabytes, to be filled.

use std::fs::{File, metadata};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system of its own, unmounted when dropped.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Of `mebibytes`, in a new folder that belongs to the owner of the folder around it. None, and a note, where this process
    /// may not mount.
    pub(crate) fn mount(folder: &Path, mebibytes: u32) -> Option<Self> {
        std::fs::create_dir(folder).unwrap();
        let owner = metadata(folder.parent().unwrap()).unwrap().uid();
        let options = format!("size={mebibytes}m,mode=0700,uid={owner}");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(folder).output();
        match mounted {
            Ok(output) if output.status.success() => Some(Self(folder.to_path_buf())),
            refused => {
                eprintln!("SKIPPED: no small file system can be mounted here: {refused:?}");
                None
            }
        }
    }

    /// Writes until there is no room left; where.
    pub(crate) fn fill(&self) -> PathBuf {
        let ballast = self.0.join("ballast");
        let mut file = File::create(&ballast).unwrap();
        while file.write_all(&[1; 4096]).is_ok() {}
        ballast
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}
