//! The listener for applications of PostgreSQL: its part of the configuration, and how it is opened.

use crate::cli::Failure;
use crate::configuration::ConfigurationError;
use arras_postgres::{Acceptor, Access, Options, Server, Upstream, Users};
use serde::Deserialize;
use std::future::Future;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tokio::net::TcpListener;

/// `[postgres]` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Postgres {
    /// Where applications connect, host and port.
    pub listen: String,
    /// The database behind, a URL; a password may be in it.
    pub upstream: Url,
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
    /// The name.
    pub name: String,
    /// What the password is checked by, as in PostgreSQL's `pg_authid.rolpassword`.
    pub verifier: String,
}

impl Postgres {
    /// What the command line makes of a configuration; nothing if neither asks for a listener.
    ///
    /// # Errors
    /// Half of what a listener needs is missing.
    pub fn overridden(
        configured: Option<Self>,
        listen: Option<String>,
        upstream: Option<String>,
    ) -> Result<Option<Self>, String> {
        match (configured, listen, upstream.map(Url)) {
            (Some(mut configured), listen, upstream) => {
                configured.listen = listen.unwrap_or(configured.listen);
                configured.upstream = upstream.unwrap_or(configured.upstream);
                Ok(Some(configured))
            }
            (None, Some(listen), Some(upstream)) => {
                let (certificate, private_key) = (None, None);
                Ok(Some(Self { listen, upstream, certificate, private_key, users: Vec::new() }))
            }
            (None, Some(_), None) => Err("--postgres needs --upstream, or a [postgres] section".into()),
            // It may come from the environment.
            (None, None, _) => Ok(None),
        }
    }

    /// Makes its paths relative to the configuration's directory.
    pub(crate) fn relative_to(&mut self, base: &Path) {
        for path in [&mut self.certificate, &mut self.private_key].into_iter().flatten() {
            *path = base.join(&*path);
        }
    }

    fn wrong(what: impl Into<String>) -> Failure {
        ConfigurationError { path: "postgres".into(), what: what.into() }.into()
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
        for User { name, verifier } in &self.users {
            let verifier = verifier
                .parse()
                .map_err(|error| Self::wrong(format!("the verifier of {name:?}: {error}")))?;
            if !users.add(name.clone(), verifier) {
                return Err(Self::wrong(format!("the user {name:?} is named twice")));
            }
        }
        Ok(Access::new((!self.users.is_empty()).then_some(users), tls))
    }
}

/// A listener that is open.
pub(crate) struct Listening {
    listener: TcpListener,
    server: Server,
}

impl Listening {
    /// Opens the listener, and says so on standard output.
    pub(crate) async fn open(postgres: &Postgres, connections_max: usize) -> Result<Self, Failure> {
        let upstream = Upstream::parse(&postgres.upstream.0, std::env::var("PGPASSWORD").ok())
            .map_err(|error| Postgres::wrong(error.to_string()))?;
        let access = postgres.access()?;
        let failed = |source| Failure::Listen { address: postgres.listen.clone(), source };
        let listener = TcpListener::bind(&postgres.listen).await.map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        if postgres.users.is_empty() && !bound.ip().is_loopback() {
            return Err(Postgres::wrong(format!(
                "whoever reaches {bound} would be let in: name users, or listen on a loopback address"
            )));
        }
        // For whoever started the proxy with port 0; nobody reading is no reason to stop.
        let _ = writeln!(io::stdout(), "listening on postgres://{bound}");
        let _ = io::stdout().flush();
        tracing::info!(address = %bound, %upstream, "listening on postgres://{bound}");
        let options = Options { connections_max, ..Options::default() };
        Ok(Self { listener, server: Server::new(upstream, access, options) })
    }

    /// Serves until `stop` completes.
    pub(crate) async fn serve(self, stop: impl Future<Output = ()>) {
        self.server.serve(self.listener, stop).await;
    }
}
