//! The connection to the database, and another in its place when it has broken.
//!
//! *One at a time.* A connection holds a lock on the schema until PostgreSQL has ended all that it was asked there. So what was
//! sent on one that broke cannot be done behind what was sent again on the next, nor behind what the next host has written.

use super::super::StoreError;
use super::super::patience::patiently;
use super::servers;
use super::tables::{self, SETTINGS, Statements};
use std::error::Error as _;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::NoTlsStream;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Error, NoTls, Socket, Statement};

/// The part of the patience that a connection waits for a server, and for the lock on the schema: then the next is tried.
const STEPS: u32 = 4;

/// The part of the patience that one answer, or one server's connection, may take: what is lost without a word is asked for again within it.
const ANSWERS: u32 = 2;

/// Longest name of a schema, in bytes.
const NAME_BYTES_MAX: usize = 63;

/// Why a request was not answered.
enum Trouble {
    /// PostgreSQL says so, or the connection to it.
    Said(Error),
    /// Another connection has the schema.
    Taken,
    /// There was no answer in time.
    Late,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Said(error)
    }
}

impl Trouble {
    /// May it be answered when it is asked again: of a server that is away, begins, stops, or has too much to do?
    fn is_passing(&self) -> bool {
        let Self::Said(error) = self else { return true };
        let Some(code) = error.code() else {
            let of_system = error.source().and_then(|source| source.downcast_ref::<io::Error>());
            // The kinds of what cannot be read as PostgreSQL's.
            let is_odd =
                |error: &io::Error| matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::InvalidData);
            return error.is_closed() || of_system.is_some_and(|error| !is_odd(error));
        };
        // Connections; conflicts of transactions; what an operator does.
        let of_class = ["08", "40", "57"].iter().any(|class| code.code().starts_with(class));
        of_class && *code != SqlState::DATABASE_DROPPED || *code == SqlState::TOO_MANY_CONNECTIONS
    }

    /// PostgreSQL's own words, without the detail, which may have values.
    fn words(&self) -> String {
        match self {
            Self::Said(error) => match (error.as_db_error(), error.source()) {
                (Some(said), _) => format!("{} ({})", said.message(), said.code().code()),
                (None, Some(source)) => format!("{error}: {source}"),
                (None, None) => error.to_string(),
            },
            Self::Taken => "another host is connected to this schema".into(),
            Self::Late => "it does not answer in time".into(),
        }
    }
}

impl From<Trouble> for StoreError {
    fn from(trouble: Trouble) -> Self {
        let said = format!("PostgreSQL: {}", trouble.words());
        if trouble.is_passing() { Self::Away(said) } else { Self::Failed(said) }
    }
}

/// What carries a connection's messages, which is closed with it.
struct Carrier(AbortHandle);

impl Drop for Carrier {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A connection that holds the schema.
struct Connection {
    client: Client,
    statements: Statements,
    carrier: Carrier,
}

/// A client, and what carries its messages.
type Reached = (Client, tokio_postgres::Connection<Socket, NoTlsStream>);

/// What asks the database. An error is that of one request: the next is asked on a new connection.
pub(super) struct Link {
    /// Those that the address names.
    servers: Vec<Config>,
    schema: String,
    patience: Duration,
    /// None before the first and after one that has broken.
    connection: Mutex<Option<Arc<Connection>>>,
}

impl Link {
    /// Connects, and makes what is not there; see [`super::PostgresStore::connect`].
    pub(super) async fn connect(uri: &str, schema: &str, patience: Duration) -> Result<Self, StoreError> {
        let letters = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if schema.is_empty() || schema.len() > NAME_BYTES_MAX || !letters(schema) {
            return Err(StoreError::Failed(format!(
                "PostgreSQL: {schema:?} is no name of a schema: letters, digits and _, at most {NAME_BYTES_MAX}"
            )));
        }
        // The driver's words for what is wrong have parts of it, which may be the password's.
        let mut config = uri.parse::<Config>().map_err(|_| {
            let expected = "postgres://USER:PASSWORD@HOST:PORT/DATABASE, with %40 for @ in the password";
            StoreError::Failed(format!("PostgreSQL: the address cannot be read; expected is {expected}"))
        })?;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(patience / STEPS);
        }
        // A standby may be behind, and is told from its primary before anything is read there.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        let servers = servers::each(&config);
        let link = Self { servers, schema: schema.into(), patience, connection: Mutex::default() };
        let opened = in_time(patience, link.open(true)).await?;
        *link.connection.lock().await = Some(Arc::new(opened));
        Ok(link)
    }

    /// The first column of the first row that a statement returns, if there is one.
    pub(super) async fn ask(
        &self,
        statement: impl Fn(&Statements) -> &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let ask = || self.ask_once(&statement, parameters);
        Ok(patiently(self.patience, Trouble::is_passing, ask).await?)
    }

    async fn ask_once(
        &self,
        statement: impl Fn(&Statements) -> &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Vec<u8>>, Trouble> {
        let connection = self.connection().await?;
        let asked = in_time(self.patience / ANSWERS, async {
            let rows = connection.client.query(statement(&connection.statements), parameters).await?;
            Ok(rows.first().map(|row| row.try_get(0)).transpose()?.flatten())
        });
        let asked = asked.await;
        if asked.is_err() {
            self.give_up(&connection).await;
        }
        asked
    }

    /// The connection in use, a new one if there is none.
    async fn connection(&self) -> Result<Arc<Connection>, Trouble> {
        let mut held = self.connection.lock().await;
        if let Some(connection) = &*held {
            return Ok(Arc::clone(connection));
        }
        let opened = Arc::new(in_time(self.patience, self.open(false)).await?);
        *held = Some(Arc::clone(&opened));
        Ok(opened)
    }

    /// Ends a connection, with all that others wait for on it: they ask again.
    async fn give_up(&self, connection: &Arc<Connection>) {
        connection.carrier.0.abort();
        let mut held = self.connection.lock().await;
        held.take_if(|held| Arc::ptr_eq(held, connection));
    }

    async fn open(&self, is_first: bool) -> Result<Connection, Trouble> {
        let (client, messages) = self.reach().await?;
        // How it ends is said to who asks next.
        let carrier = Carrier(tokio::spawn(async { drop(messages.await) }).abort_handle());
        client.batch_execute(SETTINGS).await?;
        self.take(&client).await?;
        if is_first {
            tables::make(&client, &self.schema).await?;
        }
        let statements = Statements::prepare(&client, &self.schema).await?;
        Ok(Connection { client, statements, carrier })
    }

    /// Connects to the first of the servers that takes it.
    async fn reach(&self) -> Result<Reached, Trouble> {
        let mut reached = Err(Trouble::Late);
        for server in &self.servers {
            let connect = async { Ok(server.connect(NoTls).await?) };
            reached = in_time(self.patience / ANSWERS, connect).await;
            if reached.is_ok() {
                break;
            }
        }
        reached
    }

    /// Takes the lock on the schema for as long as the connection is there.
    async fn take(&self, client: &Client) -> Result<(), Trouble> {
        let wait = (self.patience / STEPS).as_millis();
        client.batch_execute(&format!("SET lock_timeout = {wait}")).await?;
        let lock = "SELECT pg_advisory_lock(hashtextextended('arras-host ' || $1, 0))";
        client.query(lock, &[&self.schema]).await.map_err(|error| {
            if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) { Trouble::Taken } else { error.into() }
        })?;
        Ok(client.batch_execute("SET lock_timeout = 0").await?)
    }
}

/// What has not ended in time is late.
async fn in_time<T>(
    patience: Duration,
    work: impl Future<Output = Result<T, Trouble>>,
) -> Result<T, Trouble> {
    timeout(patience, work).await.unwrap_or(Err(Trouble::Late))
}
