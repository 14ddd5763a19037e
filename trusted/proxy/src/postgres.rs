//! The listener for applications of PostgreSQL: its part of the configuration, and how it is opened.

mod columns;
pub(crate) mod examining;
mod known;
mod lately;
mod opening;
mod place;
mod ready;
#[cfg(feature = "search")]
mod words;
#[cfg(not(feature = "search"))]
#[path = "postgres/wordless.rs"]
mod words;

use crate::cli::Failure;
use crate::configuration::{
    ConfigurationError, KeyringFile, LogFormat, Search, default_connections_max, default_memory,
    parse_failure,
};
use arras_keys::Keyring;
use arras_postgres::{Acceptor, Access, Listener, LoginPassword, Options, Server, Upstream, Users};
pub use place::{Place, place};
use serde::Deserialize;
use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Name of the folder of heads.
const HEADS: &str = "postgres-heads";

/// `[postgres]` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Postgres {
    /// Where applications connect: host and port, or the folder of a socket; or a list of such places.
    #[serde(deserialize_with = "place::read")]
    pub listen: Vec<Place>,
    /// Who may connect by a socket, as `chmod` writes it; the proxy's own user if absent.
    #[serde(default, deserialize_with = "place::read_mode")]
    pub socket_permissions: Option<u32>,
    /// The database behind, a URL; a password may be in it.
    pub upstream: Url,
    /// The schema of tables: which columns are encrypted. Without it nothing is.
    pub schema: Option<PathBuf>,
    /// Where it is noted how far each order had come, so that a database that was set back is noticed: a folder, made if it is
    /// not there; `postgres-heads` beside the configuration if absent.
    pub heads: Option<PathBuf>,
    /// The certificate shown to applications, PEM; without one they are spoken to in plaintext.
    pub certificate: Option<PathBuf>,
    /// Its key, PEM.
    pub private_key: Option<PathBuf>,
    /// Who is let in; if nobody is named, whoever reaches the listener.
    #[serde(default)]
    pub users: Vec<User>,
}

/// A connection URL, which is not shown: a password may be in it.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Url(String);

impl std::fmt::Debug for Url {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Url(..)")
    }
}

/// Somebody who is let in.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct User {
    /// What a client gives as `user`; named once in the list.
    pub name: String,
    /// What the password is checked by, as in PostgreSQL's `pg_authid.rolpassword`.
    pub verifier: Option<String>,
    /// The operating system's user who is let in without a password by a socket: PostgreSQL's `peer`.
    pub peer: Option<String>,
}

impl Postgres {
    /// What the command line makes of a configuration; nothing if neither asks for a listener.
    ///
    /// # Errors
    /// Half of what a listener needs is missing.
    pub fn overridden(
        configured: Option<Self>,
        listen: Vec<Place>,
        upstream: Option<String>,
    ) -> Result<Option<Self>, String> {
        match (configured, upstream.map(Url)) {
            (Some(mut configured), upstream) => {
                if !listen.is_empty() {
                    configured.listen = listen;
                }
                configured.upstream = upstream.unwrap_or(configured.upstream);
                Ok(Some(configured))
            }
            // The upstream may come from the environment.
            (None, _) if listen.is_empty() => Ok(None),
            (None, Some(upstream)) => Ok(Some(Self::plain(listen, upstream))),
            (None, None) => Err("--postgres needs --upstream, or a [postgres] section".into()),
        }
    }

    /// A listener in front of a database in which nothing is encrypted.
    fn plain(listen: Vec<Place>, upstream: Url) -> Self {
        let (certificate, private_key, users) = (None, None, Vec::new());
        let (socket_permissions, schema, heads) = (None, None, None);
        Self { listen, socket_permissions, upstream, schema, heads, certificate, private_key, users }
    }

    /// A listener for development: everything that is kept is in one directory.
    pub(crate) fn for_development(
        listen: Place,
        upstream: String,
        schema: PathBuf,
        directory: &Path,
    ) -> Self {
        let (schema, heads) = (Some(schema), Some(directory.join(HEADS)));
        Self { schema, heads, ..Self::plain(vec![listen], Url(upstream)) }
    }

    /// Makes its paths relative to the configuration's directory.
    pub(crate) fn relative_to(&mut self, base: &Path) {
        self.heads.get_or_insert_with(|| HEADS.into());
        let paths = [&mut self.schema, &mut self.heads, &mut self.certificate, &mut self.private_key];
        for path in paths.into_iter().flatten() {
            *path = base.join(&*path);
        }
    }

    fn wrong(what: impl Into<String>) -> Failure {
        ConfigurationError { path: "postgres".into(), what: what.into() }.into()
    }

    /// The database behind, as the URL and the environment say.
    fn upstream(&self) -> Result<Upstream, Failure> {
        let password = std::env::var("PGPASSWORD").ok().map(LoginPassword::new);
        Upstream::parse(&self.upstream.0, password).map_err(|error| Self::wrong(error.to_string()))
    }

    fn access(&self) -> Result<Access, Failure> {
        let tls = match (&self.certificate, &self.private_key) {
            (Some(certificate), Some(private)) => {
                arras_storage::private::require_closed(private)
                    .map_err(|error| Self::wrong(format!("{}: {error}", private.display())))?;
                let acceptor = Acceptor::read(certificate, private);
                Some(acceptor.map_err(|error| Self::wrong(error.to_string()))?)
            }
            (None, None) => None,
            _ => return Err(Self::wrong("certificate and private_key are given together")),
        };
        let mut users = Users::default();
        for user in &self.users {
            user.add_to(&mut users)?;
        }
        Ok(Access::new((!self.users.is_empty()).then_some(users), tls))
    }
}

impl User {
    /// Lets the user in, by each way that the configuration names.
    fn add_to(&self, users: &mut Users) -> Result<(), Failure> {
        let Self { name, verifier, peer } = self;
        let twice = || Postgres::wrong(format!("the user {name:?} is named twice"));
        if verifier.is_none() && peer.is_none() {
            return Err(Postgres::wrong(format!("the user {name:?} has neither verifier nor peer")));
        }
        if let Some(verifier) = verifier {
            let verifier = verifier
                .parse()
                .map_err(|error| Postgres::wrong(format!("the verifier of {name:?}: {error}")))?;
            users.add(name.clone(), verifier).then_some(()).ok_or_else(twice)?;
        }
        if let Some(peer) = peer {
            let found = nix::unistd::User::from_name(peer).ok().flatten();
            let number = found.map(|user| user.uid.as_raw());
            let unknown = || Postgres::wrong(format!("this machine has no user {peer:?}"));
            let number = number.ok_or_else(unknown)?;
            users.add_peer(name.clone(), number).then_some(()).ok_or_else(twice)?;
        }
        Ok(())
    }
}

/// The configuration of a proxy that serves PostgreSQL alone: a file without a `[server]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alone {
    /// The listener.
    pub postgres: Postgres,
    /// The keyring.
    pub keyring: KeyringFile,
    /// Most sessions at a time.
    #[serde(default = "default_connections_max")]
    pub connections_max: usize,
    /// What messages and prepared statements may hold in memory together, about, in MiB.
    #[serde(default = "default_memory")]
    pub memory: usize,
    /// Form of the log.
    #[serde(default)]
    pub log_format: LogFormat,
    /// The host of boolean search that keeps words of texts; without one none are kept.
    pub search: Option<Search>,
}

impl Alone {
    /// Reads the file; nothing if it has a `[server]`, or no `[postgres]`.
    ///
    /// # Errors
    /// [`ConfigurationError`] if it does not parse.
    pub fn read(path: &Path) -> Result<Option<Self>, ConfigurationError> {
        let wrong = |what: String| ConfigurationError { path: path.to_path_buf(), what };
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        let table: toml::Table =
            toml::from_str(&text).map_err(|error| wrong(parse_failure(&text, &error)))?;
        if table.contains_key("server") || !table.contains_key("postgres") {
            return Ok(None);
        }
        let mut read: Self = toml::from_str(&text).map_err(|error| wrong(parse_failure(&text, &error)))?;
        let base = path.parent().unwrap_or(Path::new(""));
        read.postgres.relative_to(base);
        if let Some(search) = &mut read.search {
            search.check().map_err(wrong)?;
            search.relative_to(base);
        }
        read.keyring.path = base.join(&read.keyring.path);
        if let Some(key_file) = &mut read.keyring.key_file {
            *key_file = base.join(&*key_file);
        }
        Ok(Some(read))
    }
}

/// A listener that is open.
pub(crate) struct Listening {
    listeners: Vec<Listener>,
    server: Server,
}

impl Listening {
    /// Opens the listeners, and says so on standard output.
    ///
    /// At most so many sessions, whose messages and prepared statements may hold so many MiB.
    pub(crate) async fn open(
        postgres: &Postgres,
        (connections_max, memory): (usize, usize),
        keyring: Option<&Keyring>,
        search: Option<&Search>,
    ) -> Result<Self, Failure> {
        let upstream = postgres.upstream()?;
        let rewriting = match (&postgres.schema, keyring) {
            (Some(schema), Some(keyring)) => {
                let folder = postgres.heads.as_deref().unwrap_or(Path::new(HEADS));
                let memory_bytes = memory.saturating_mul(1024 * 1024);
                let upstream = &upstream;
                let asked = opening::Asked { schema, keyring, upstream, folder, search, memory_bytes };
                Some(opening::open(asked).await?)
            }
            (Some(_), None) => return Err(Postgres::wrong("a schema needs a keyring")),
            (None, _) => None,
        };
        let access = postgres.access()?;
        let mut listeners = Vec::new();
        for place in &postgres.listen {
            let failed = |source| Failure::Listen { address: place.to_string(), source };
            let (listener, bound, others) = place.open(postgres.socket_permissions).await.map_err(failed)?;
            if postgres.users.is_empty() && others {
                return Err(Postgres::wrong(format!(
                    "whoever reaches {place} would be let in: name users, or listen on a loopback address or a socket of the \
                     proxy's own user"
                )));
            }
            // For whoever started the proxy with port 0; nobody reading is no reason to stop.
            let _ = writeln!(io::stdout(), "listening on postgres://{bound}");
            let _ = io::stdout().flush();
            tracing::info!(address = %bound, %upstream, "listening on postgres://{bound}");
            listeners.push(listener);
        }
        let options = Options { connections_max, ..Options::default() };
        Ok(Self { listeners, server: Server::new(upstream, access, options, rewriting) })
    }

    /// Serves until `stop` completes.
    pub(crate) async fn serve(self, stop: impl Future<Output = ()>) {
        let stopping = watch::Sender::new(false);
        let mut served = JoinSet::new();
        for listener in self.listeners {
            let (server, mut stopping) = (self.server.clone(), stopping.subscribe());
            served.spawn(async move {
                // The sender outlives this.
                server
                    .serve(listener, async move { _ = stopping.wait_for(|stopping| *stopping).await })
                    .await;
            });
        }
        stop.await;
        stopping.send_replace(true);
        while served.join_next().await.is_some() {}
    }
}
