//! A real PostgreSQL of one's own: a fresh folder, a private port on 127.0.0.1, stopped and removed when dropped. Tests and
//! measurements run against it; nothing of another installation is touched.
//!
//! PostgreSQL refuses to run as root. Where this process is root, PostgreSQL runs as the user `postgres` that its package
//! makes.

mod templates;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Gid, Pid, Uid, User};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs::{File, Permissions};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long PostgreSQL may take to start or to stop before that counts as a failure: not a claim about speed.
const PATIENCE: Duration = Duration::from_secs(120);

/// Between two looks at a process that starts or stops.
const PAUSE: Duration = Duration::from_millis(5);

/// The superuser of every private PostgreSQL.
pub const SUPERUSER: &str = "postgres";

/// Names a folder with `initdb` and `postgres` that is used before any other.
pub const PROGRAMS_VARIABLE: &str = "ARRAS_POSTGRES_BIN";

/// Names the folder in which each has its own; without it, the one for temporary files.
const FOLDERS: &str = "ARRAS_POSTGRES_FOLDERS";

/// How a data folder is made.
const INITDB: [&str; 6] =
    ["-U", SUPERUSER, "--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8"];

/// Ports given out by this process: the operating system may offer one again before PostgreSQL has taken it.
static PORTS: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Why a PostgreSQL does not run.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PostgresError(String);

impl PostgresError {
    fn of(what: impl Display, error: impl Display) -> Self {
        Self(format!("{what}: {error}"))
    }
}

/// How one is set up.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Lines of its configuration file.
    pub settings: Vec<(String, String)>,
    /// Its `pg_hba.conf`; where none is given, everybody on this machine is believed to be who they say.
    pub access: Option<String>,
    /// Files put into its data folder, readable by it alone: name and content (certificates, keys).
    pub files: Vec<(String, Vec<u8>)>,
}

/// A running PostgreSQL.
#[derive(Debug)]
pub struct PrivatePostgres {
    programs: PathBuf,
    user: Option<(Uid, Gid)>,
    port: u16,
    /// The process that starts all others; none while it was killed.
    postmaster: Option<Child>,
    // Goes last: the folder outlives the processes that use it.
    folder: TempDir,
}

/// The folder with `initdb` and `postgres`: the one that [`PROGRAMS_VARIABLE`] names, else the newest that Debian's packages
/// installed, else the one on the path.
///
/// # Errors
/// If there is none; says how to install it.
pub fn programs() -> Result<PathBuf, PostgresError> {
    if let Some(folder) = std::env::var_os(PROGRAMS_VARIABLE) {
        let folder = PathBuf::from(folder);
        let there = folder.join("initdb").is_file();
        return if there { Ok(folder) } else { Err(PostgresError::of(PROGRAMS_VARIABLE, "has no initdb")) };
    }
    let majors = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = majors
        .filter_map(|entry| {
            Some((entry.file_name().to_str()?.parse::<u32>().ok()?, entry.path().join("bin")))
        })
        .filter(|(_, folder)| folder.join("initdb").is_file())
        .max();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = || std::env::split_paths(&path).find(|folder| folder.join("initdb").is_file());
    newest.map(|(_, folder)| folder).or_else(on_path).ok_or_else(|| {
        PostgresError(format!(
            "PostgreSQL is not installed: on Debian and Ubuntu `apt-get install postgresql`, elsewhere set \
             {PROGRAMS_VARIABLE} to the folder of its initdb"
        ))
    })
}

impl PrivatePostgres {
    /// Starts one of the usual settings. It does not wait for the disk, which outlives all that tests kill.
    ///
    /// # Errors
    /// [`PostgresError`].
    pub fn start() -> Result<Self, PostgresError> {
        let settings = vec![("fsync".to_owned(), "off".to_owned())];
        Self::start_with(&Options { settings, ..Options::default() })
    }

    /// Starts one.
    ///
    /// # Errors
    /// [`PostgresError`].
    pub fn start_with(options: &Options) -> Result<Self, PostgresError> {
        let all = std::env::var_os(FOLDERS).map_or_else(std::env::temp_dir, PathBuf::from);
        let folder = tempfile::Builder::new()
            .prefix("arras-postgres-")
            .tempdir_in(all)
            .map_err(|error| PostgresError::of("no temporary folder", error))?;
        let mut server =
            Self { programs: programs()?, user: unprivileged()?, port: 0, postmaster: None, folder };
        server.own(server.folder.path())?;
        server.initialise(options)?;
        loop {
            server.port = free_port()?;
            match server.launch() {
                Ok(()) => return Ok(server),
                // Somebody else took the port in between.
                Err(error) if error.0.contains("Address already in use") => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes the data folder.
    fn initialise(&self, options: &Options) -> Result<(), PostgresError> {
        let mut initdb = self.command("initdb");
        initdb.arg("-D").arg(self.data()).args(INITDB);
        templates::fill(&self.data(), &mut initdb)?;
        let settings = options.settings.iter().map(|(name, value)| format!("{name} = '{value}'\n"));
        let path = self.data().join("postgresql.conf");
        let mut file =
            File::options().append(true).open(&path).map_err(|error| PostgresError::of("settings", error))?;
        file.write_all(settings.collect::<String>().as_bytes())
            .map_err(|error| PostgresError::of("settings", error))?;
        let access = options.access.iter().map(|text| ("pg_hba.conf", text.as_bytes()));
        let files = options.files.iter().map(|(name, content)| (name.as_str(), content.as_slice()));
        for (name, content) in access.chain(files) {
            let path = self.data().join(name);
            std::fs::write(&path, content).map_err(|error| PostgresError::of(name, error))?;
            std::fs::set_permissions(&path, Permissions::from_mode(0o600))
                .map_err(|error| PostgresError::of(name, error))?;
            self.own(&path)?;
        }
        Ok(())
    }

    /// Starts the postmaster and waits until it answers.
    fn launch(&mut self) -> Result<(), PostgresError> {
        let log = self.log();
        let begun = std::fs::metadata(&log).map_or(0, |file| file.len());
        let open = File::options().create(true).append(true).open(&log);
        let output = open.map_err(|error| PostgresError::of(log.display(), error))?;
        let errors = output.try_clone().map_err(|error| PostgresError::of(log.display(), error))?;
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-k"]);
        command.arg(self.folder.path()).stdin(Stdio::null()).stdout(output).stderr(errors);
        let mut child = command.spawn().map_err(|error| PostgresError::of("postgres", error))?;
        let deadline = Instant::now() + PATIENCE;
        let id = child.id().to_string();
        // Its last line says `ready` once connections are taken.
        let ready = || {
            let file = std::fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
            file.lines().next() == Some(&id)
                && file.lines().nth(7).is_some_and(|state| state.trim() == "ready")
        };
        while !ready() {
            let ended = child.try_wait().map_err(|error| PostgresError::of("postgres", error))?;
            if ended.is_some() || Instant::now() > deadline {
                let text = std::fs::read(&log).unwrap_or_default();
                let new = text.get(usize::try_from(begun).unwrap_or(0)..).unwrap_or_default();
                let _ = child.kill();
                let _ = child.wait();
                return Err(PostgresError::of("PostgreSQL does not start", String::from_utf8_lossy(new)));
            }
            sleep(PAUSE);
        }
        self.postmaster = Some(child);
        Ok(())
    }

    /// The port it listens on at 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of its Unix socket.
    #[must_use]
    pub fn socket_folder(&self) -> &Path {
        self.folder.path()
    }

    /// Its data folder.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The file of its log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    /// Numbers of its processes that run now: the one that starts all others, and those.
    #[must_use]
    pub fn processes(&self) -> Vec<u32> {
        let Some(postmaster) = self.postmaster.as_ref().map(Child::id) else { return Vec::new() };
        let others = children(process(postmaster)).into_iter().map(|id| id.as_raw().cast_unsigned());
        [postmaster].into_iter().chain(others).collect()
    }

    /// How the superuser connects, as drivers take it.
    #[must_use]
    pub fn uri(&self, database: &str) -> String {
        format!("postgres://{SUPERUSER}@127.0.0.1:{}/{database}", self.port)
    }

    /// One of PostgreSQL's own programs (`psql`, `pgbench`, `pg_dump`), as the user that PostgreSQL runs as.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        // What surrounds this process must not say where to connect, nor in which language to answer.
        for (name, _) in std::env::vars_os() {
            let chosen = name.to_str().is_some_and(|name| name.starts_with("PG") || name.starts_with("LC_"));
            if chosen || name == "LANG" || name == "LANGUAGE" {
                command.env_remove(name);
            }
        }
        if let Some((user, group)) = self.user {
            command.uid(user.as_raw()).gid(group.as_raw());
        }
        command.current_dir(self.folder.path());
        command
    }

    /// `kill -9` of all its processes at once, as a machine that loses power ends them.
    ///
    /// # Errors
    /// [`PostgresError`] if it does not run.
    pub fn kill(&mut self) -> Result<(), PostgresError> {
        let mut child = self.postmaster.take().ok_or(PostgresError("PostgreSQL does not run".into()))?;
        let id = process(child.id());
        // Stopped first, so that it starts none while they are listed.
        let _ = kill(id, Signal::SIGSTOP);
        let children = children(id);
        let _ = kill(id, Signal::SIGKILL);
        for child in &children {
            // One that is gone is what is wanted.
            let _ = kill(*child, Signal::SIGKILL);
        }
        child.wait().map_err(|error| PostgresError::of("postgres", error))?;
        let deadline = Instant::now() + PATIENCE;
        while children.iter().any(|child| Path::new(&format!("/proc/{child}")).exists()) {
            if Instant::now() > deadline {
                return Err(PostgresError("a process of PostgreSQL does not end".into()));
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// `kill -9` of the process of one connection (`pg_backend_pid()`): PostgreSQL ends all others and recovers.
    ///
    /// # Errors
    /// [`PostgresError`] if there is no such process.
    pub fn kill_backend(&self, backend: u32) -> Result<(), PostgresError> {
        kill(process(backend), Signal::SIGKILL)
            .map_err(|error| PostgresError::of(format!("process {backend}"), error))
    }

    /// Stops it as its administrator would: connections are ended, all is written.
    ///
    /// # Errors
    /// [`PostgresError`].
    pub fn stop(&mut self) -> Result<(), PostgresError> {
        // Its "fast" shutdown.
        self.end_by(Signal::SIGINT)
    }

    fn end_by(&mut self, signal: Signal) -> Result<(), PostgresError> {
        let Some(mut child) = self.postmaster.take() else {
            return Ok(());
        };
        let _ = kill(process(child.id()), signal);
        let deadline = Instant::now() + PATIENCE;
        while child.try_wait().map_err(|error| PostgresError::of("postgres", error))?.is_none() {
            if Instant::now() > deadline {
                let _ = child.kill();
                let _ = child.wait();
                return Err(PostgresError("PostgreSQL does not stop".into()));
            }
            sleep(PAUSE);
        }
        Ok(())
    }

    /// Starts it again on its port, after [`Self::kill`] or [`Self::stop`]. It recovers first.
    ///
    /// # Errors
    /// [`PostgresError`].
    pub fn restart(&mut self) -> Result<(), PostgresError> {
        self.stop()?;
        self.launch()
    }

    /// Gives a file to the user that PostgreSQL runs as.
    fn own(&self, path: &Path) -> Result<(), PostgresError> {
        let Some((user, group)) = self.user else {
            return Ok(());
        };
        std::os::unix::fs::chown(path, Some(user.as_raw()), Some(group.as_raw()))
            .map_err(|error| PostgresError::of(path.display(), error))
    }
}

impl PrivatePostgres {
    /// Frees the segment of shared memory by which servers know that one has the folder: who was killed has left it, and none
    /// comes that would.
    fn free_segment(&self) {
        let Ok(file) = std::fs::read_to_string(self.data().join("postmaster.pid")) else { return };
        let segment = file.lines().nth(6).and_then(|line| line.split_whitespace().nth(1));
        if let Some(segment) = segment {
            let _ = Command::new("ipcrm").args(["-m", segment]).stderr(Stdio::null()).status();
        }
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        // Its "immediate" shutdown: what it holds goes with it.
        let _ = self.end_by(Signal::SIGQUIT);
        self.free_segment();
    }
}

/// Whom PostgreSQL runs as; none: this process's own user.
fn unprivileged() -> Result<Option<(Uid, Gid)>, PostgresError> {
    if !Uid::effective().is_root() {
        return Ok(None);
    }
    let user = User::from_name(SUPERUSER).map_err(|error| PostgresError::of("the user postgres", error))?;
    let user =
        user.ok_or(PostgresError("PostgreSQL does not run as root, and there is no user postgres".into()))?;
    Ok(Some((user.uid, user.gid)))
}

fn free_port() -> Result<u16, PostgresError> {
    let mut given = PORTS.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let address = listener.and_then(|listener| listener.local_addr());
        let port = address.map_err(|error| PostgresError::of("no free port", error))?.port();
        if given.insert(port) {
            return Ok(port);
        }
    }
}

fn process(id: u32) -> Pid {
    Pid::from_raw(i32::try_from(id).unwrap_or(i32::MAX))
}

/// The processes that one has started and that run still.
fn children(parent: Pid) -> Vec<Pid> {
    let list = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|id| id.parse().ok()).map(Pid::from_raw).collect()
}
