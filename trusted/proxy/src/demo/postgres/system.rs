//! The system under demonstration: a private PostgreSQL, and `arras postgres dev` in front of it as a child process.

use super::SCHEMA;
use crate::cli::Failure;
use crate::private_postgres::{Options, PrivatePostgres};
use arras_storage::private;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// The running system.
pub(super) struct System {
    child: Child,
    server: PrivatePostgres,
    _directory: TempDir,
    /// Where applications connect.
    pub(super) proxied: String,
    /// The database itself.
    pub(super) direct: String,
}

impl System {
    pub(super) fn start() -> Result<Self, Failure> {
        let settings = [("log_statement", "all"), ("log_parameter_max_length", "200"), ("fsync", "off")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let server = PrivatePostgres::start_with(&Options { settings, ..Options::default() })
            .map_err(|error| Failure::Check(error.to_string()))?;
        let directory = tempfile::Builder::new().prefix("arras-demo-").tempdir()?;
        let schema = directory.path().join("schema.toml");
        let file = private::file_options().write(true).create_new(true).open(&schema);
        file.and_then(|mut file| file.write_all(SCHEMA.as_bytes()))
            .map_err(|source| Failure::Io { path: schema.clone(), source })?;
        let log_path = directory.path().join("log.txt");
        let log = private::file_options().write(true).create_new(true).open(&log_path);
        let log = log.map_err(|source| Failure::Io { path: log_path.clone(), source })?;
        let direct = server.uri("postgres");
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["postgres", "dev", "--listen", "127.0.0.1:0", "--upstream", &direct]);
        command.arg("--schema").arg(&schema).arg("--data-dir").arg(directory.path().join("proxy"));
        let mut child = command.stdout(Stdio::piped()).stdin(Stdio::null()).stderr(log).spawn()?;
        let address = child.stdout.take().and_then(|stdout| {
            let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
            lines.find_map(|line| line.strip_prefix("listening on postgres://").map(str::to_owned))
        });
        let proxied = address.as_ref().map(|address| format!("postgres://postgres@{address}/postgres"));
        let system = Self {
            child,
            server,
            _directory: directory,
            proxied: proxied.clone().unwrap_or_default(),
            direct,
        };
        if proxied.is_none() {
            let log = std::fs::read_to_string(&log_path).unwrap_or_default();
            return Err(Failure::Check(format!("arras postgres dev did not start:\n{}", log.trim())));
        }
        Ok(system)
    }

    /// Process id of the proxy.
    pub(super) fn proxy(&self) -> u32 {
        self.child.id()
    }

    /// Port of PostgreSQL.
    pub(super) fn port(&self) -> u16 {
        self.server.port()
    }

    /// PostgreSQL's major version.
    pub(super) fn version(&self) -> String {
        std::fs::read_to_string(self.server.data().join("PG_VERSION")).unwrap_or_default().trim().to_owned()
    }

    /// PostgreSQL's log.
    pub(super) fn log(&self) -> PathBuf {
        self.server.log()
    }

    /// Stops the proxy; PostgreSQL goes with this value.
    pub(super) fn stop(&mut self) {
        let terminated = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        if terminated.is_ok_and(|status| status.success()) {
            let _ = self.child.wait();
        }
    }
}

impl Drop for System {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.stop();
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
