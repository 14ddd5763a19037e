//! `arras postgres dev` as a process, in front of a private PostgreSQL.

use arras_lab::private_postgres::PrivatePostgres;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// One of the executables: beside this test, where the test command builds them first.
fn executable(name: &str) -> PathBuf {
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
}

impl Dev {
    /// Starts it on what a schema declares.
    pub(crate) fn start(server: &PrivatePostgres, database: &str, schema: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("schema.toml"), schema).unwrap();
        let (child, address) = Self::spawn(&directory, &server.uri(database));
        Self { child, directory, address }
    }

    fn spawn(directory: &TempDir, upstream: &str) -> (Child, String) {
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
        command.env_remove("ARRAS_PASSPHRASE").env("RUST_LOG", "warn");
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).stderr(log).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let address = lines.find_map(|line| line.strip_prefix("listening on postgres://").map(str::to_owned));
        let said = || std::fs::read_to_string(directory.path().join("log.txt")).unwrap();
        let address = address.unwrap_or_else(|| panic!("it did not start: {}", said()));
        (child, address)
    }

    /// Kills it without a word and starts it again, on the same keys.
    pub(crate) fn killed_and_restarted(&mut self, server: &PrivatePostgres, database: &str) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        (self.child, self.address) = Self::spawn(&self.directory, &server.uri(database));
    }

    /// The most memory that the process has had, in KiB.
    pub(crate) fn peak_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    /// How a client connects.
    pub(crate) fn uri(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", self.address)
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
