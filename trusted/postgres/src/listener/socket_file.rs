//! The file of a socket: one process has it at a time, and one that was left behind is replaced.
//!
//! Who has it holds a lock on a file beside it for as long as it runs, so that of two that start at once one gets it, and the
//! lock of a process that was killed is free. The lock's file has the process's number, as PostgreSQL's own has, so that a
//! PostgreSQL that is told the same folder and port does not take the socket either; and where one has it already, it answers.

use super::socket_path;
use rand::Rng;
use rustix::fs::OFlags;
use rustix::process::geteuid;
use std::fs::{self, DirBuilder, File, Metadata, Permissions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};
use tokio::net::{UnixListener, UnixStream};

/// Who may connect where nothing is said: the process's own user.
const OWN_USER: u32 = 0o600;
/// A folder of the process's own.
const OWN_FOLDER: u32 = 0o700;

/// A socket's file and its lock. Both go when it is dropped.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and number of the file that was made: another one in its place stays.
    made: (u64, u64),
    lock: PathBuf,
    locked: File,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let is_there =
            |path: &Path, own| fs::symlink_metadata(path).is_ok_and(|there| identity(&there) == own);
        if is_there(&self.path, self.made) {
            let _ = fs::remove_file(&self.path);
        }
        // A PostgreSQL of another user takes the lock of a process that it may not send signals to.
        if self.locked.metadata().is_ok_and(|own| is_there(&self.lock, identity(&own))) {
            let _ = fs::remove_file(&self.lock);
        }
    }
}

fn identity(file: &Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

fn in_use(path: &Path) -> io::Error {
    let text = format!("a process that runs has the socket {}", path.display());
    io::Error::new(ErrorKind::AddrInUse, text)
}

impl SocketFile {
    /// Opens the socket of a port in a folder.
    ///
    /// # Errors
    /// The socket is used by a process that runs, or cannot be made.
    pub(super) async fn open(
        folder: &Path,
        port: u16,
        mode: Option<u32>,
    ) -> io::Result<(UnixListener, Self)> {
        let path = socket_path(folder, port);
        // It is made by a shorter path than clients connect to.
        SocketAddr::from_pathname(&path)?;
        match DirBuilder::new().mode(OWN_FOLDER).create(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let lock = folder.join(format!(".s.PGSQL.{port}.lock"));
        let mut locked = locked(&lock)?.ok_or_else(|| in_use(&path))?;
        require_unused(&path).await?;
        require_own(&locked, &lock)?;
        locked.set_len(0)?;
        writeln!(locked, "{}", std::process::id())?;
        let listener = bound(folder, &path, mode.unwrap_or(OWN_USER))?;
        let made = identity(&fs::symlink_metadata(&path)?);
        Ok((listener, Self { path, made, lock, locked }))
    }
}

/// Locks a file; none if another process has locked it.
fn locked(path: &Path) -> io::Result<Option<File>> {
    loop {
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(OWN_USER)
            .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
            .open(path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // Who had it may have removed it meanwhile: then another file is there, or none.
        let own = identity(&file.metadata()?);
        match fs::symlink_metadata(path) {
            Ok(there) if identity(&there) == own => return Ok(Some(file)),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
}

/// That a lock is written to as what it is: in a folder where others write it might be any file.
fn require_own(lock: &File, path: &Path) -> io::Result<()> {
    let there = lock.metadata()?;
    if there.is_file() && there.nlink() == 1 && there.uid() == geteuid().as_raw() {
        return Ok(());
    }
    let text = format!("{} is there, and is no lock of the proxy's user", path.display());
    Err(io::Error::new(ErrorKind::AlreadyExists, text))
}

/// That nobody answers at a socket's file, if there is one.
async fn require_unused(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            let text = format!("{} is there, and is no socket", path.display());
            return Err(io::Error::new(ErrorKind::AlreadyExists, text));
        }
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    }
    match UnixStream::connect(path).await {
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => Ok(()),
        // One whose queue is full runs, too.
        Ok(_) => Err(in_use(path)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Err(in_use(path)),
        Err(error) => Err(error),
    }
}

/// Makes the socket out of others' reach, and puts it in its place once it has its rights: there is no moment at which others
/// connect.
fn bound(folder: &Path, path: &Path, mode: u32) -> io::Result<UnixListener> {
    let beside = folder.join(format!(".{:08x}", rand::rng().next_u32()));
    DirBuilder::new().mode(OWN_FOLDER).create(&beside)?;
    let made = beside.join("s");
    let listener = UnixListener::bind(&made).and_then(|listener| {
        fs::set_permissions(&made, Permissions::from_mode(mode))?;
        fs::rename(&made, path)?;
        Ok(listener)
    });
    let _ = fs::remove_file(&made);
    let _ = fs::remove_dir(&beside);
    listener
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn a_socket_is_its_owners_and_goes_with_its_listener() {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("run");
        let (listener, file) = SocketFile::open(&folder, 5432, None).await.unwrap();
        let path = folder.join(".s.PGSQL.5432");
        assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
        let number = fs::read_to_string(folder.join(".s.PGSQL.5432.lock")).unwrap();
        assert_eq!(number.trim(), std::process::id().to_string());
        UnixStream::connect(&path).await.unwrap();
        drop((listener, file));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "nothing is left");
        let (_listener, _file) = SocketFile::open(&folder, 5432, Some(0o660)).await.unwrap();
        assert_eq!(mode(&path), 0o660);
    }

    #[tokio::test]
    async fn one_that_is_left_behind_is_replaced_and_one_that_is_used_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".s.PGSQL.6000");
        // As by a process that was killed: a file that nobody listens at, and a lock that nobody holds.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        fs::write(folder.path().join(".s.PGSQL.6000.lock"), "99999999\n").unwrap();
        let (_listener, file) = SocketFile::open(folder.path(), 6000, None).await.unwrap();
        UnixStream::connect(&path).await.unwrap();
        let again = SocketFile::open(folder.path(), 6000, None).await.unwrap_err();
        assert_eq!(again.kind(), ErrorKind::AddrInUse, "{again}");
        UnixStream::connect(&path).await.unwrap();
        // Another port is another socket.
        SocketFile::open(folder.path(), 6001, None).await.unwrap();
        // Another's file that has come in its place stays.
        fs::remove_file(&path).unwrap();
        let _other = UnixListener::bind(&path).unwrap();
        drop(file);
        UnixStream::connect(&path).await.unwrap();
        // And one that runs and locks nothing keeps it.
        let taken = SocketFile::open(folder.path(), 6000, None).await.unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse, "{taken}");
        UnixStream::connect(&path).await.unwrap();
    }

    #[tokio::test]
    async fn what_is_no_socket_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".s.PGSQL.6000");
        fs::write(&path, "kept").unwrap();
        let error = SocketFile::open(folder.path(), 6000, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
        // A lock that leads elsewhere is not followed.
        let elsewhere = folder.path().join("elsewhere");
        fs::write(&elsewhere, "kept").unwrap();
        std::os::unix::fs::symlink(&elsewhere, folder.path().join(".s.PGSQL.6001.lock")).unwrap();
        assert!(SocketFile::open(folder.path(), 6001, None).await.is_err());
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "kept");
        // Nor is a file written that has another name, too.
        fs::hard_link(&elsewhere, folder.path().join(".s.PGSQL.6002.lock")).unwrap();
        let error = SocketFile::open(folder.path(), 6002, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "kept");
    }

    #[tokio::test]
    async fn a_lock_that_another_process_put_in_its_place_stays() {
        let folder = tempfile::tempdir().unwrap();
        let opened = SocketFile::open(folder.path(), 6000, None).await.unwrap();
        let lock = folder.path().join(".s.PGSQL.6000.lock");
        fs::remove_file(&lock).unwrap();
        fs::write(&lock, "another's").unwrap();
        drop(opened);
        assert_eq!(fs::read_to_string(&lock).unwrap(), "another's");
    }

    #[tokio::test]
    async fn a_socket_has_a_path_that_clients_can_connect_to() {
        let outer = tempfile::tempdir().unwrap();
        let folder = |path_bytes: usize| {
            let others = outer.path().as_os_str().len() + "//.s.PGSQL.6000".len();
            outer.path().join("f".repeat(path_bytes - others))
        };
        let (longest, longer) = (folder(107), folder(108));
        let error = SocketFile::open(&longer, 6000, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(!longer.exists());
        let _opened = SocketFile::open(&longest, 6000, None).await.unwrap();
        UnixStream::connect(longest.join(".s.PGSQL.6000")).await.unwrap();
    }
}
