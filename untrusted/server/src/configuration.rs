//! The server's settings: command line over configuration file over defaults.

use crate::tls::CertificatePaths;
use clap::{Parser, Subcommand, ValueEnum};
use serde::Deserialize;
use std::path::{Path, PathBuf};

/// Where the server listens unless told otherwise: this machine only.
pub const DEFAULT_LISTEN: &str = "127.0.0.1:7411";

/// Least [`Configuration::memory`], in MiB: with less, hardly anything would be worked on at a time.
pub const MEMORY_MIN: usize = 16;

/// [`Configuration::cache`] unless told otherwise, in MiB: twice that of a store in a process that does other work, too. What it gains
/// is in `docs/storage.md`.
pub const CACHE_DEFAULT: usize = 512;

/// Least [`Configuration::cache`], in MiB.
pub const CACHE_MIN: usize = 16;

/// Most of it: what is above is a mistake, in another unit.
pub const CACHE_MAX: usize = 1 << 22;

/// The command line.
#[derive(Debug, Default, Parser)]
#[command(
    name = "arras-server",
    version,
    args_conflicts_with_subcommands = true,
    about = "The keyless half of Arras: stores ciphertext and answers queries on it",
    long_about = "The keyless half of Arras. It stores sealed documents and encrypted indexes in its data \
        directory and answers the queries of one proxy, which holds the keys. It needs no key of the data, \
        no password and no network but the port it listens on.\n\n\
        Who may connect is settled by certificates: `arras init`, run where the proxy runs, makes a directory \
        `server` with ca.pem, server.pem and server.key. Copy it here and name it with --certificates.",
    after_help = "Example:\n  arras-server --data-dir /var/lib/arras --listen 0.0.0.0:7411 --certificates \
        /etc/arras/server\n\n\
        Configuration file (all optional, flags win):\n  data_dir = \"/var/lib/arras\"\n  \
        listen = \"0.0.0.0:7411\"\n  certificates = \"/etc/arras/server\"\n  connections_max = 64\n  memory = 256\n  \
        cache = 512\n  log_format = \"json\"\n\n\
        Log: to standard error; RUST_LOG sets the level (error, warn, info, debug). Neither names nor values \
        of the data are ever logged.\n\n\
        Certificates are read again when their files change (looked at every 10 s) and at SIGHUP; connections that \
        stand go on.\n\n\
        Stop: SIGTERM or ctrl-C finishes what is under way (at most 10 s); a second one stops at once.\n\n\
        Exit codes: 0 stopped, 2 usage or configuration, 3 certificates, 4 data directory, 5 network, 130 stopped at once by \
        a second signal."
)]
pub struct Arguments {
    /// In place of serving.
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Directory of the database; made if it does not exist. One server at a time.
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,

    /// Address to listen on; port 0 takes a free one, printed as `listening on ADDRESS` [default: 127.0.0.1:7411]
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,

    /// Directory with ca.pem, server.pem and server.key.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["ca", "cert", "private"])]
    pub certificates: Option<PathBuf>,

    /// Certificate authority of this deployment, PEM; with --cert and --key in place of --certificates.
    #[arg(long, value_name = "FILE", requires_all = ["cert", "private"])]
    pub ca: Option<PathBuf>,

    /// The server's certificate, PEM.
    #[arg(long, value_name = "FILE", requires_all = ["ca", "private"])]
    pub cert: Option<PathBuf>,

    /// The certificate's private key, PEM.
    #[arg(long = "key", value_name = "FILE", requires_all = ["ca", "cert"])]
    pub private: Option<PathBuf>,

    /// Configuration file.
    #[arg(long, value_name = "FILE.toml")]
    pub config: Option<PathBuf>,

    /// Most connections of proxies at a time; one more takes the place of the one unused for longest [default: 64]
    #[arg(long, value_name = "N")]
    pub connections_max: Option<usize>,

    /// MiB of memory for the pages of the database's file; what was written a moment ago takes up to nine sixteenths as much
    /// beside them. At least 16 [default: 512]
    #[arg(long, value_name = "MIB")]
    pub cache: Option<usize>,

    /// MiB that requests, what is applied of them, and replies may hold beside the store's cache; what finds no room waits
    /// for its turn. At least 16 [default: 256]
    #[arg(long, value_name = "MIB")]
    pub memory: Option<usize>,

    /// Form of the log [default: text]
    #[arg(long, value_name = "FORM")]
    pub log_format: Option<LogFormat>,

    /// Write down every message of the proxy and its answer, as JSON lines: what this side sees.
    #[arg(long, value_name = "FILE")]
    pub transcript: Option<PathBuf>,

    /// Bytes of each message to write down.
    #[arg(long, value_name = "N", default_value_t = 256)]
    pub transcript_bytes: usize,

    /// MiB a second at which the database's file is read again, once a day, to find damage early; 0: not at all.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub scrub_rate: u64,

    /// Stop when standard input ends, as it does with the process that started the server and holds the other end.
    #[arg(long)]
    pub stop_with_stdin: bool,
}

/// What `arras-server` does in place of serving.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Check the files of a stopped server: every block, every page, every value. Exit code 4 if there is damage.
    Verify {
        /// Directory of the database.
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
    },
}

/// Form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object a line, for log collectors.
    Json,
    /// For people.
    #[default]
    Text,
}

/// The configuration file; its names are those of the flags.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    data_dir: Option<PathBuf>,
    listen: Option<String>,
    certificates: Option<PathBuf>,
    ca: Option<PathBuf>,
    cert: Option<PathBuf>,
    #[serde(rename = "key")]
    private: Option<PathBuf>,
    connections_max: Option<usize>,
    cache: Option<usize>,
    memory: Option<usize>,
    log_format: Option<LogFormat>,
}

/// What the server runs with.
#[derive(Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Directory of the database.
    pub data_dir: PathBuf,
    /// Address to listen on.
    pub listen: String,
    /// Certificates.
    pub certificates: CertificatePaths,
    /// Most connections at a time; the listener's own limit if `None`.
    pub connections_max: Option<usize>,
    /// Memory for the pages of the database's file, in MiB.
    pub cache: usize,
    /// What requests and replies may hold in memory, in MiB; the listener's own limit if `None`.
    pub memory: Option<usize>,
    /// Form of the log.
    pub log_format: LogFormat,
    /// Where to write down what this side sees, and how many bytes of each message.
    pub transcript: Option<(PathBuf, usize)>,
    /// MiB a second at which the file is read again; 0: not at all.
    pub scrub_rate: u64,
    /// The end of standard input is a reason to stop.
    pub stop_with_stdin: bool,
}

/// Why there is no configuration to run with.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file cannot be read or parsed.
    #[error("{path}: {what}")]
    File {
        /// The configuration file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// Something needed was given nowhere.
    #[error("{0} is needed: give {1} or set it in the --config file (see --help)")]
    Missing(&'static str, &'static str),
    /// A server that nobody may connect to.
    #[error("connections_max is 0: no proxy could ever connect")]
    NoConnections,
    /// Too small a budget.
    #[error("memory is {0}: at least {MEMORY_MIN} (MiB) are needed")]
    LittleMemory(usize),
    /// Too small or too large a cache.
    #[error("cache is {0}: it is in MiB, from {CACHE_MIN} to {CACHE_MAX}")]
    Cache(usize),
    /// Certificates were given in both ways.
    #[error("certificates are given twice: name either a directory or ca, cert and key")]
    Twice,
}

impl Configuration {
    /// Puts flags, file and defaults together. Relative paths in the file are relative to the file.
    ///
    /// # Errors
    /// [`ConfigurationError`], saying what to give where.
    pub fn new(arguments: Arguments) -> Result<Self, ConfigurationError> {
        let file = match &arguments.config {
            Some(path) => read(path)?,
            None => File::default(),
        };
        let flagged = arguments.certificates.is_some() || arguments.ca.is_some();
        let certificates = if flagged {
            certificate_paths(arguments.certificates, [arguments.ca, arguments.cert, arguments.private])?
        } else {
            certificate_paths(file.certificates, [file.ca, file.cert, file.private])?
        };
        let connections_max = arguments.connections_max.or(file.connections_max);
        if connections_max == Some(0) {
            return Err(ConfigurationError::NoConnections);
        }
        let memory = arguments.memory.or(file.memory);
        if let Some(little) = memory.filter(|memory| *memory < MEMORY_MIN) {
            return Err(ConfigurationError::LittleMemory(little));
        }
        let cache = arguments.cache.or(file.cache).unwrap_or(CACHE_DEFAULT);
        if !(CACHE_MIN..=CACHE_MAX).contains(&cache) {
            return Err(ConfigurationError::Cache(cache));
        }
        Ok(Self {
            connections_max,
            cache,
            memory,
            data_dir: arguments
                .data_dir
                .or(file.data_dir)
                .ok_or(ConfigurationError::Missing("a data directory", "--data-dir DIR"))?,
            listen: arguments.listen.or(file.listen).unwrap_or_else(|| DEFAULT_LISTEN.into()),
            certificates,
            log_format: arguments.log_format.or(file.log_format).unwrap_or_default(),
            transcript: arguments.transcript.map(|path| (path, arguments.transcript_bytes)),
            scrub_rate: arguments.scrub_rate,
            stop_with_stdin: arguments.stop_with_stdin,
        })
    }
}

fn certificate_paths(
    directory: Option<PathBuf>,
    files: [Option<PathBuf>; 3],
) -> Result<CertificatePaths, ConfigurationError> {
    match (directory, files) {
        (Some(directory), [None, None, None]) => Ok(CertificatePaths::in_directory(&directory)),
        (Some(_), _) => Err(ConfigurationError::Twice),
        (None, [Some(authority), Some(certificate), Some(private)]) => {
            Ok(CertificatePaths { authority, certificate, private })
        }
        (None, _) => Err(ConfigurationError::Missing(
            "a certificate",
            "--certificates DIR (or --ca, --cert and --key)",
        )),
    }
}

fn read(path: &Path) -> Result<File, ConfigurationError> {
    let wrong = |what: String| ConfigurationError::File { path: path.to_path_buf(), what };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let mut file: File = toml::from_str(&text).map_err(|error| wrong(parse_failure(&text, &error)))?;
    let base = path.parent().unwrap_or(Path::new(""));
    for relative in
        [&mut file.data_dir, &mut file.certificates, &mut file.ca, &mut file.cert, &mut file.private]
            .into_iter()
            .flatten()
    {
        *relative = base.join(&*relative);
    }
    Ok(file)
}

/// A mistake in a configuration file, on one line.
fn parse_failure(text: &str, error: &toml::de::Error) -> String {
    let line = error
        .span()
        .map_or(1, |span| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count());
    format!("line {line}: {}", error.message().lines().collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests;
