//! The proxy's configuration file, `arras.toml`.

use crate::postgres::Postgres;
use arras_engine::cleanup::Cleanup;
use arras_engine::index::RangeSettings;
use serde::Deserialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The file's name in a configuration directory.
pub const FILE_NAME: &str = "arras.toml";

/// Least [`Configuration::memory`]: room for the largest request beside some queries.
const MEMORY_MIN: usize = 128;

/// Why a host of boolean search is of no use.
pub(crate) const NO_SEARCH: &str = "text indexes need a build with feature `search`, and this is none";

/// What the file says. Relative paths in it are relative to the file, and absolute once read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Where applications connect, host and port.
    #[serde(deserialize_with = "crate::address::read")]
    pub listen: String,
    /// The proxy's own data directory (counters, intents, sealed under the keyring).
    pub data_dir: PathBuf,
    /// Where this machine notes how far the history has come, apart from what is backed up; nowhere if absent.
    pub witness: Option<PathBuf>,
    /// Most connections of applications at a time; one more takes the place of the one idle for longest.
    #[serde(default = "default_connections_max")]
    pub connections_max: usize,
    /// The schema file; every field is sensitive and stored if there is none.
    pub schema: Option<PathBuf>,
    /// What queries, cursors, requests and replies may hold in memory together, about, in MiB.
    #[serde(default = "default_memory")]
    pub memory: usize,
    /// What sorts, groups and cursors may have on the data directory's disk together, in MiB; without it, all that the disk has
    /// beside a reserve for what is stored.
    pub spill: Option<u64>,
    /// Form of the log.
    #[serde(default)]
    pub log_format: LogFormat,
    /// The server.
    pub server: Server,
    /// The keyring.
    pub keyring: KeyringFile,
    /// A listener for applications of PostgreSQL, and the database behind it.
    pub postgres: Option<Postgres>,
    /// The host of boolean search that keeps text indexes; without one there are none.
    pub search: Option<Search>,
    /// Parameters of range indexes.
    #[serde(default)]
    pub range_indexes: RangeSettings,
    /// Parameters of equality indexes.
    #[serde(default)]
    pub equality_indexes: EqualityIndexes,
}

/// The part `[search]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Where `arras-host` listens, host and port.
    #[serde(deserialize_with = "crate::address::read")]
    pub host: String,
    /// Who this proxy is to the enclave: its administrator, who may make collections.
    #[serde(default = "default_identity")]
    pub identity: String,
    /// Directory with ca.pem, and the identity's certificate and key, `NAME.pem` and `NAME.key`: what `arras search certify`
    /// writes, but for the authority's key.
    pub certificates: Option<PathBuf>,
    /// The release policy: which enclaves are spoken to.
    pub policy: Option<PathBuf>,
    /// In their place: speak to whatever answers, over a channel that the host reads. For trials.
    #[serde(default)]
    pub plain_channel: bool,
}

impl Search {
    /// A host at an address, by a channel of this directory of certificates and this policy, or a plain one.
    ///
    /// # Errors
    /// [`ConfigurationError`] if it is neither or both, or this build has no text indexes.
    pub fn at(
        host: &str,
        (certificates, policy): (Option<PathBuf>, Option<PathBuf>),
        plain_channel: bool,
    ) -> Result<Self, ConfigurationError> {
        let host = host.to_owned();
        let search = Self { host, identity: default_identity(), certificates, policy, plain_channel };
        match search.mistake() {
            None => Ok(search),
            Some(what) => Err(ConfigurationError { path: "--search".into(), what: what.to_owned() }),
        }
    }

    /// The directory of certificates and the policy of an attested channel; none if the channel is plain.
    #[must_use]
    pub fn attested(&self) -> Option<(&Path, &Path)> {
        self.certificates.as_deref().zip(self.policy.as_deref())
    }

    /// What is wrong with it, if anything is.
    fn mistake(&self) -> Option<&'static str> {
        if !cfg!(feature = "search") {
            return Some(NO_SEARCH);
        }
        match (&self.certificates, &self.policy, self.plain_channel) {
            (Some(_), Some(_), false) | (None, None, true) => None,
            (_, _, true) => Some("plain_channel stands in place of certificates and policy"),
            _ => Some(
                "the channel to the enclave needs certificates and policy (or, for trials, plain_channel = true)",
            ),
        }
    }

    /// Whether a configuration's part is right, or what is wrong with it.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.mistake().map_or(Ok(()), |mistake| Err(format!("[search]: {mistake}")))
    }

    pub(crate) fn relative_to(&mut self, base: &Path) {
        for path in [&mut self.certificates, &mut self.policy].into_iter().flatten() {
            *path = base.join(&*path);
        }
    }
}

fn default_identity() -> String {
    "administrator".to_owned()
}

/// Parameters of equality indexes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EqualityIndexes {
    /// When the entries of a value are numbered anew.
    pub cleanup: Cleanup,
}

/// Where the server is and how it is known.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Host and port.
    #[serde(deserialize_with = "crate::address::read")]
    pub address: String,
    /// Directory with ca.pem, proxy.pem and proxy.key.
    pub certificates: PathBuf,
    /// How long one call to the server may take, in seconds.
    #[serde(default = "default_deadline_seconds")]
    pub deadline_seconds: u64,
}

/// Where the keyring is and what unlocks it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyringFile {
    /// The keyring file.
    pub path: PathBuf,
    /// The key file that unlocks it; a passphrase does if there is none.
    pub key_file: Option<PathBuf>,
}

/// Form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object a line, for log collectors.
    Json,
    /// For people.
    #[default]
    Text,
}

pub(crate) fn default_connections_max() -> usize {
    arras_mongo::Options::default().connections_max
}

pub(crate) fn default_memory() -> usize {
    512
}

fn default_deadline_seconds() -> u64 {
    30
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {what}")]
pub struct ConfigurationError {
    /// The file.
    pub path: PathBuf,
    /// What is wrong, and where.
    pub what: String,
}

impl Configuration {
    /// Reads the file.
    ///
    /// # Errors
    /// [`ConfigurationError`] if it cannot be read, or does not parse; unknown names are errors.
    pub fn read(path: &Path) -> Result<Self, ConfigurationError> {
        let wrong = |what: String| ConfigurationError { path: path.to_path_buf(), what };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let mut read: Self = toml::from_str(&text).map_err(|error| wrong(parse_failure(&text, &error)))?;
        if read.server.deadline_seconds == 0 {
            return Err(wrong("server.deadline_seconds is 0: no call could ever be answered".into()));
        }
        if read.connections_max == 0 {
            return Err(wrong("connections_max is 0: nobody could ever connect".into()));
        }
        if read.memory < MEMORY_MIN {
            return Err(wrong(format!(
                "memory is {}: the proxy needs at least {MEMORY_MIN} (MiB)",
                read.memory
            )));
        }
        if let Some(search) = &read.search {
            search.check().map_err(wrong)?;
        }
        if read.range_indexes.bucket_factor == 0 {
            return Err(wrong(
                "range_indexes.bucket_factor is 0: a bucket cannot hold less than an entry".into(),
            ));
        }
        let base = path.parent().unwrap_or(Path::new(""));
        if let Some(postgres) = &mut read.postgres {
            postgres.relative_to(base);
        }
        if let Some(search) = &mut read.search {
            search.relative_to(base);
        }
        let witness = read.witness.as_mut();
        let paths = [Some(&mut read.data_dir), witness, read.schema.as_mut(), read.keyring.key_file.as_mut()];
        let paths = paths.into_iter().flatten();
        for relative in paths.chain([&mut read.keyring.path, &mut read.server.certificates]) {
            *relative = base.join(&*relative);
        }
        Ok(read)
    }
}

/// A mistake in a configuration file, on one line.
pub(crate) fn parse_failure(text: &str, error: &toml::de::Error) -> String {
    let line = error
        .span()
        .map_or(1, |span| 1 + text.bytes().take(span.start).filter(|byte| *byte == b'\n').count());
    format!("line {line}: {}", error.message().lines().collect::<Vec<_>>().join("; "))
}

/// What goes into a new file.
#[derive(Debug)]
pub struct Values<'a> {
    /// See [`Configuration::listen`].
    pub listen: &'a str,
    /// See [`Server::address`].
    pub server: &'a str,
    /// See [`Configuration::data_dir`].
    pub data_dir: &'a Path,
    /// See [`Configuration::witness`].
    pub witness: &'a Path,
    /// See [`KeyringFile::key_file`].
    pub key_file: Option<&'a Path>,
}

/// A new configuration file, commented.
#[must_use]
pub fn template(values: &Values<'_>) -> String {
    let quoted = |text: &str| toml::Value::from(text).to_string();
    let key_file = match values.key_file {
        Some(path) => format!("key_file = {}", quoted(&path.to_string_lossy())),
        None => "# key_file = \"/run/secrets/arras.key\"".to_owned(),
    };
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write!(
        text,
        "# The Arras proxy. Relative paths are relative to this file.\n\
         \n\
         # Where applications connect. It speaks plaintext to them: keep it on the application's side.\n\
         listen = {listen}\n\
         \n\
         # The proxy's own state: counters and unfinished writes, sealed under the keyring. Back it up together\n\
         # with the keyring and the server's data directory, the proxy stopped; after restoring them run `arras restore`.\n\
         data_dir = {data_dir}\n\
         \n\
         # Where this machine notes how far the history has come. Not to be backed up or restored with the directories\n\
         # above: it is what tells that both were set back. Without it only `arras restore` says so.\n\
         witness = {witness}\n\
         \n\
         # Most connections of applications at a time. One more takes the place of the one idle for longest.\n\
         # connections_max = 1000\n\
         \n\
         # What may be asked of which field. Without it every field is sensitive: stored, not searchable.\n\
         # schema = \"schema.toml\"\n\
         \n\
         # What queries, cursors, requests and replies may hold in memory together, about, in MiB. Sorts and groups\n\
         # that do not fit use the data directory's disk, sealed under a key that dies with the process.\n\
         # memory = 512\n\
         # spill = 10240  # MiB that they have there at most; without it, all but a reserve for what is stored\n\
         \n\
         # \"text\" or \"json\"; RUST_LOG sets the level.\n\
         log_format = \"text\"\n\
         \n\
         [server]\n\
         # Where arras-server runs. Copy the directory `server`, beside this file, to that machine and start:\n\
         #   arras-server --data-dir DIR --listen HOST:PORT --certificates server\n\
         address = {server}\n\
         certificates = \"certificates\"\n\
         # How long one call to it may take.\n\
         deadline_seconds = 30\n\
         \n\
         [keyring]\n\
         # The root keys. Without this file and what unlocks it the data cannot be read by anybody: back it up.\n\
         path = \"keyring.json\"\n\
         # The key file that unlocks it. Without one the passphrase is asked for, or taken from the environment\n\
         # variable ARRAS_PASSPHRASE.\n\
         {key_file}\n\
         \n\
         # [range_indexes]\n\
         # Entries a bucket holds on average, of indexes made from now on: the more, the less the server\n\
         # learns and the more a search reads.\n\
         # bucket_factor = 32\n\
         # Separators of each index that the proxy keeps in memory.\n\
         # top_nodes = 1024\n\
         \n\
         # [equality_indexes]\n\
         # When entries that are gone are cleaned away: \"threshold\" behind a search that met more of them than of\n\
         # others, \"each_delete\" with every deletion, which then shows the server the value's other entries.\n\
         # cleanup = \"threshold\"\n",
        listen = quoted(values.listen),
        data_dir = quoted(&values.data_dir.to_string_lossy()),
        witness = quoted(&values.witness.to_string_lossy()),
        server = quoted(values.server),
    );
    text + SEARCH + POSTGRES
}

/// The part about boolean search.
const SEARCH: &str = "\
         \n\
         # [search]\n\
         # Where arras-host runs, which keeps text indexes (createIndexes with \"text\", $text) and words of PostgreSQL's columns (@@);\n\
         # without it there are none.\n\
         # host = \"127.0.0.1:27300\"\n\
         # ca.pem, and administrator.pem and .key, as `arras search certify` makes them; and which enclaves are spoken to\n\
         # (docs/host.md). For trials, plain_channel = true in place of both.\n\
         # certificates = \"search\"\n\
         # policy = \"search/policy.toml\"\n";

/// The part about PostgreSQL.
const POSTGRES: &str = "\
         \n\
         # A PostgreSQL that applications reach through this proxy.\n\
         # [postgres]\n\
         # listen = \"127.0.0.1:5433\"\n\
         # Its certificate and name are verified; ?sslmode= and ?sslrootcert= as in libpq. The password may be in the\n\
         # environment variable PGPASSWORD.\n\
         # upstream = \"postgres://app@db.example/shop\"\n\
         # Which columns are encrypted, and what must work on them. Without it nothing is encrypted.\n\
         # schema = \"tables.toml\"\n\
         # TLS towards applications; without it keep the listener on the application's side.\n\
         # certificate = \"postgres.pem\"\n\
         # private_key = \"postgres.key\"\n\
         # Who is let in, by SCRAM-SHA-256, with verifiers as in PostgreSQL's pg_authid. Without any, whoever reaches the\n\
         # listener, which must be on this machine's loopback address then.\n\
         # [[postgres.users]]\n\
         # name = \"app\"\n\
         # verifier = \"SCRAM-SHA-256$4096:...\"\n";
