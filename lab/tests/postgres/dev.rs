//! `arras postgres dev` as a process, in front of a private PostgreSQL.

use arras_lab::private_postgres::PrivatePostgres;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// One of the executables: beside this test, where the test command builds them first.
pub(crate) fn executable(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let executable = profile.join(name);
    assert!(
        executable.is_file(),
        "{} is not there: `cargo build -p arras-proxy` makes it",
        executable.display()
    );
    executable
}

/// A proxy with keys of its own; killed when dropped.
pub(crate) struct Dev {
    child: Child,
    directory: TempDir,
    address: String,
    search: Option<SearchHost>,
}

/// A host of boolean search, as a proxy is told of it.
#[derive(Clone)]
pub(crate) struct SearchHost {
    pub(crate) address: String,
    /// The folder of certificates, with the policy.
    pub(crate) folder: PathBuf,
}

impl SearchHost {
    fn arguments(&self, command: &mut Command) {
        command.arg("--search").arg(&self.address).arg("--search-certificates").arg(&self.folder);
        command.arg("--search-policy").arg(self.folder.join("policy.toml"));
    }

    /// The same in a configuration.
    fn configuration(&self) -> String {
        let (address, folder) = (&self.address, self.folder.display());
        format!(
            "[search]\nhost = \"{address}\"\ncertificates = \"{folder}\"\npolicy = \"{folder}/policy.toml\"\n"
        )
    }
}

impl Dev {
    /// Starts it on what a schema declares.
    pub(crate) fn start(server: &PrivatePostgres, database: &str, schema: &str) -> Self {
        Self::start_logging(server, database, schema, "warn")
    }

    /// The same, that logs more or less.
    pub(crate) fn start_logging(server: &PrivatePostgres, database: &str, schema: &str, log: &str) -> Self {
        Self::in_front_of(&server.uri(database), schema, log)
    }

    /// The same, in front of whatever is at a URL.
    pub(crate) fn in_front_of(upstream: &str, schema: &str, log: &str) -> Self {
        Self::searching(upstream, (schema, log), None)
    }

    /// The same, with a host of boolean search.
    pub(crate) fn searching(upstream: &str, (schema, log): (&str, &str), search: Option<SearchHost>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("schema.toml"), schema).unwrap();
        let (child, address) = Self::spawn(&directory, upstream, (log, search.as_ref()));
        Self { child, directory, address, search }
    }

    fn spawn(directory: &TempDir, upstream: &str, started: (&str, Option<&SearchHost>)) -> (Child, String) {
        let said = || std::fs::read_to_string(directory.path().join("log.txt")).unwrap();
        Self::try_spawn(directory, upstream, started)
            .unwrap_or_else(|| panic!("it did not start: {}", said()))
    }

    /// The process and its address; nothing if it ends before it listens.
    fn try_spawn(
        directory: &TempDir,
        upstream: &str,
        (level, search): (&str, Option<&SearchHost>),
    ) -> Option<(Child, String)> {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(directory.path().join("log.txt"))
            .unwrap();
        let mut command = Command::new(executable("arras"));
        command.args(["postgres", "dev", "--listen", "127.0.0.1:0", "--upstream", upstream, "--schema"]);
        command
            .arg(directory.path().join("schema.toml"))
            .arg("--data-dir")
            .arg(directory.path().join("data"));
        if let Some(search) = search {
            search.arguments(&mut command);
        }
        command.env_remove("ARRAS_PASSPHRASE").env("RUST_LOG", level);
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("listening on postgres://").map(str::to_owned));
        if address.is_none() {
            child.wait().unwrap();
        }
        Some((child, address?))
    }

    /// Kills it and starts it again, which it refuses; what it says.
    pub(crate) fn refused_start(&mut self, server: &PrivatePostgres, database: &str) -> String {
        self.kill();
        let log = self.directory().join("log.txt");
        std::fs::remove_file(&log).unwrap();
        let again = Self::try_spawn(&self.directory, &server.uri(database), ("warn", self.search.as_ref()));
        let said = std::fs::read_to_string(log).unwrap();
        assert!(again.is_none(), "it starts: {said}");
        said
    }

    /// Kills it without a word and starts it again, on the same keys.
    pub(crate) fn killed_and_restarted(&mut self, server: &PrivatePostgres, database: &str) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let started = ("warn", self.search.as_ref());
        (self.child, self.address) = Self::spawn(&self.directory, &server.uri(database), started);
    }

    /// Another proxy with the same keys, and a record of orders of its own.
    pub(crate) fn beside(&self, server: &PrivatePostgres, database: &str) -> Beside {
        self.beside_named(server, database, "beside")
    }

    /// One of several.
    pub(crate) fn beside_named(&self, server: &PrivatePostgres, database: &str, name: &str) -> Beside {
        let path = self.directory().join(format!("{name}.toml"));
        std::fs::write(&path, self.configuration(server, database, &format!("{name}-heads"))).unwrap();
        let mut command = Command::new(executable("arras"));
        command
            .arg("proxy")
            .arg("--config")
            .arg(&path)
            .env_remove("ARRAS_PASSPHRASE")
            .env("RUST_LOG", "warn");
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("listening on postgres://").map(str::to_owned));
        Beside { child, address: address.expect("it starts") }
    }

    /// The configuration of a proxy with these keys.
    fn configuration(&self, server: &PrivatePostgres, database: &str, heads: &str) -> String {
        format!(
            "[postgres]\nlisten = \"127.0.0.1:0\"\nupstream = \"{}\"\nschema = \"schema.toml\"\nheads = \"{heads}\"\n\
             [keyring]\npath = \"data/keyring\"\nkey_file = \"data/keyring.key\"\n{}",
            server.uri(database),
            self.search.as_ref().map(SearchHost::configuration).unwrap_or_default()
        )
    }

    /// Stops it, and keeps its directory.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Its directory: keys, records of orders, log.
    pub(crate) fn directory(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// What `arras doctor` says of a database with these keys, and whether all is well.
    pub(crate) fn doctor(&self, server: &PrivatePostgres, database: &str, deep: bool) -> (bool, String) {
        let path = self.directory().join("arras.toml");
        let text = self.configuration(server, database, "data/postgres-heads");
        std::fs::write(&path, text).unwrap();
        let mut command = Command::new(executable("arras"));
        command.arg("doctor").arg("--config").arg(&path).env_remove("ARRAS_PASSPHRASE");
        if deep {
            command.arg("--deep");
        }
        let run = command.output().unwrap();
        let said = String::from_utf8([run.stdout, run.stderr].concat()).unwrap();
        (run.status.success(), said)
    }

    /// The most memory that the process has had, in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        self.status("VmHWM:").trim_end_matches(" kB").parse().unwrap()
    }

    /// The process's threads.
    pub(crate) fn threads(&self) -> u64 {
        self.status("Threads:").parse().unwrap()
    }

    /// Does every thread of it wait for something?
    pub(crate) fn is_waiting(&self) -> bool {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).unwrap();
        let mut states =
            threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("status")).ok());
        states.all(|status| line(&status, "State:").starts_with('S'))
    }

    fn status(&self, of: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        line(&status, of).to_owned()
    }

    /// How a client connects.
    pub(crate) fn uri(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", self.address)
    }
}

/// What a process's status says of something.
fn line<'s>(status: &'s str, of: &str) -> &'s str {
    status.lines().find_map(|line| line.strip_prefix(of)).unwrap().trim()
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A proxy beside another; killed when dropped.
pub(crate) struct Beside {
    child: Child,
    address: String,
}

impl Beside {
    /// How a client connects.
    pub(crate) fn uri(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", self.address)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
