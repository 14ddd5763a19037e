//! The proxy's own two connections to the database that keeps its trees: one for rounds that only read, which many callers
//! share and no lock ever holds up, one for changes, one at a time.

use super::strangers;
use arras_protocol::{ChannelError, Refusal};
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, NoTls, Statement};

/// A stream in both directions, with whatever protects it.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// What dialling comes to.
pub type Dialled<'a> = Pin<Box<dyn Future<Output = io::Result<Box<dyn Duplex>>> + Send + 'a>>;

/// Opens streams to the database, TLS included where that is asked for.
pub trait Dial: Send + Sync {
    /// Opens one, at whose other end PostgreSQL waits for a start-up message.
    fn dial(&self) -> Dialled<'_>;
}

/// How the database is reached, and for how long anything is waited for.
#[derive(Clone)]
pub struct Settings {
    /// Opens streams.
    pub dial: Arc<dyn Dial>,
    /// User, password and database; where to connect is left to `dial`.
    pub login: Config,
    /// For an answer.
    pub deadline: Duration,
    /// For transactions that hold labels, where these must change.
    pub patience: Duration,
}

impl fmt::Debug for Settings {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dial: _, login: _, deadline, patience } = self;
        out.debug_struct("Settings")
            .field("deadline", deadline)
            .field("patience", patience)
            .finish_non_exhaustive()
    }
}

/// A connection, and its statements: prepared once.
pub(super) struct Prepared {
    pub(super) client: Client,
    pub(super) fetch: Statement,
    pub(super) commit: Statement,
}

pub(super) const FETCH: &str = "SELECT version, root, next, \"values\", digest, epoch, contents, root_content, labels \
                     FROM arras.mope_fetch($1, $2, $3, $4)";
const COMMIT: &str = "SELECT arras.mope_commit($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, \
                      $17, $18, $19, $20, $21)";
/// Whatever the database's defaults are: a statement sees what was committed before it, all rows or an error, waits for a
/// lock as long as the function says, and what is acknowledged outlives a crash of the database, since the proxy remembers it.
/// Names and operators are PostgreSQL's own, whoever else may set a path or create in a schema on it; the path that there was is remembered for
/// the triggers of applications. A role that the database's owner has all sessions begin with is left: code of its members would take it for
/// the proxy's, and go back to the role that logged in. One that the login's own settings name stays.
const PREPARE: &str = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; \
                       SET lock_timeout = 0; SET statement_timeout = 0; SET idle_session_timeout = 0; \
                       SET synchronous_commit = on; \
                       SELECT pg_catalog.set_config('arras.search_path', pg_catalog.current_setting('search_path'), false); \
                       SET search_path = pg_catalog, pg_temp; \
                       SELECT set_config('role', 'none', false) WHERE NOT EXISTS (SELECT FROM pg_db_role_setting s \
                       JOIN pg_roles r ON r.oid = s.setrole, unnest(s.setconfig) AS c (setting) WHERE r.rolname = session_user \
                       AND s.setdatabase IN (0, (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())) \
                       AND c.setting LIKE 'role=%')";

/// Both connections; made when they are first needed, and anew when they are lost.
pub struct Connections {
    settings: Settings,
    reading: Mutex<Option<Arc<Prepared>>>,
    writing: Mutex<Option<Arc<Prepared>>>,
}

impl fmt::Debug for Connections {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Connections").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Connections {
    /// Opens none yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, reading: Mutex::new(None), writing: Mutex::new(None) }
    }

    /// For how long transactions that hold labels are waited for.
    pub(super) fn patience(&self) -> Duration {
        self.settings.patience
    }

    /// Opens a connection of nobody else's, as set up as the two: for an installation, or an examination.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub async fn open(&self) -> Result<Client, ChannelError> {
        let connecting = async {
            let stream =
                self.settings.dial.dial().await.map_err(|error| ChannelError::Lost(error.to_string()))?;
            let (client, connection) =
                self.settings.login.connect_raw(stream, NoTls).await.map_err(|error| failure(&error))?;
            // Ends with the client, or with the stream, which the client's calls then say.
            tokio::spawn(connection);
            client.batch_execute(PREPARE).await.map_err(|error| failure(&error))?;
            let stranger = strangers::of_schema(&client).await.map_err(|error| failure(&error))?;
            if let Some(owner) = stranger {
                return Err(ChannelError::Refused(Refusal::Storage(strangers::refusal(&owner))));
            }
            Ok(client)
        };
        self.within(connecting).await
    }

    async fn session(&self) -> Result<Arc<Prepared>, ChannelError> {
        let client = self.open().await?;
        let preparing = async {
            let fetch = client.prepare(FETCH).await.map_err(|error| failure(&error))?;
            let commit = client.prepare(COMMIT).await.map_err(|error| failure(&error))?;
            Ok((fetch, commit))
        };
        let (fetch, commit) = self.within(preparing).await?;
        Ok(Arc::new(Prepared { client, fetch, commit }))
    }

    /// The connection for rounds that only read. Callers do not wait for one another's rounds.
    pub(super) async fn reading(&self) -> Result<Arc<Prepared>, ChannelError> {
        let mut held = self.reading.lock().await;
        self.standing(&mut held).await
    }

    /// The connection for changes, for one caller.
    pub(super) async fn writing(&self) -> Result<Writing<'_>, ChannelError> {
        let mut held = self.writing.lock().await;
        let session = self.standing(&mut held).await?;
        Ok(Writing { held, session })
    }

    async fn standing(&self, held: &mut Option<Arc<Prepared>>) -> Result<Arc<Prepared>, ChannelError> {
        if let Some(session) = held.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(Arc::clone(session));
        }
        Ok(Arc::clone(held.insert(self.session().await?)))
    }

    /// Drops the connection for reading if it is this one: it does not answer.
    pub(super) async fn give_up(&self, session: &Arc<Prepared>) {
        let mut held = self.reading.lock().await;
        if held.as_ref().is_some_and(|held| Arc::ptr_eq(held, session)) {
            *held = None;
        }
    }

    /// What comes of something, or that nothing came in time.
    pub(crate) async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, ChannelError>>,
    ) -> Result<T, ChannelError> {
        let late = || {
            let milliseconds = self.settings.deadline.as_millis();
            ChannelError::Deadline(u64::try_from(milliseconds).unwrap_or(u64::MAX))
        };
        timeout(self.settings.deadline, work).await.unwrap_or_else(|_| Err(late()))
    }
}

/// The connection for changes, held.
pub(super) struct Writing<'a> {
    held: MutexGuard<'a, Option<Arc<Prepared>>>,
    pub(super) session: Arc<Prepared>,
}

impl Writing<'_> {
    /// Drops it: it does not answer, and what it was sent must not be taken for another's.
    pub(super) fn give_up(mut self) {
        *self.held = None;
    }
}

/// An error of PostgreSQL's own says that the statement came to nothing, but where it ends the connection: then it may say
/// no more than that the answer is lost.
pub(crate) fn failure(error: &tokio_postgres::Error) -> ChannelError {
    let Some(answer) = error.as_db_error() else {
        return ChannelError::Lost(chain(error));
    };
    let (code, message) = (answer.code(), answer.message());
    let ended = [
        SqlState::ADMIN_SHUTDOWN,
        SqlState::CRASH_SHUTDOWN,
        SqlState::CANNOT_CONNECT_NOW,
        SqlState::IDLE_SESSION_TIMEOUT,
    ];
    if ended.contains(code) {
        return ChannelError::Lost(message.to_owned());
    }
    ChannelError::Refused(Refusal::Storage(format!("PostgreSQL: {message} ({})", code.code())))
}

/// Did PostgreSQL have no room for a change: no disk, no memory? Nothing of it was done.
#[must_use]
pub fn lacks_room(error: &ChannelError) -> bool {
    // As `failure` writes the code, of the class "insufficient resources".
    matches!(error, ChannelError::Refused(Refusal::Storage(said)) if said.contains(" (53"))
}

/// An error and what it comes from.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}
