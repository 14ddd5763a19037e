//! What the database keeps of columns whose texts are found by their words.

use crate::{Connections, failure};
use arras_protocol::ChannelError;
use arras_service::{Fault, ServiceError};
use std::sync::Arc;
use tokio::sync::Mutex;
use tokio_postgres::{Client, Error, Statement};

const EPOCH: &str = "SELECT epoch FROM arras.text_column WHERE id = $1";

/// A connection, and its statement.
struct Asking {
    client: Client,
    epoch: Statement,
}

/// What the database keeps, over a connection of its own, which is opened when it is first needed, and anew when it is lost.
pub struct WordTables {
    connections: Arc<Connections>,
    asking: Mutex<Option<Arc<Asking>>>,
}

impl std::fmt::Debug for WordTables {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("WordTables")
    }
}

/// What the database kept of a column before it was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    /// Nothing.
    New,
    /// That it was entered as the store enters it.
    Same,
    /// That it was entered by an analysis that finds other words.
    Otherwise,
}

/// An error of the proxy's own connection, for a statement.
pub(super) fn unanswered(error: &ChannelError) -> ServiceError {
    ServiceError::new(Fault::Unreachable, format!("the names of texts: {error}"))
}

/// The same of PostgreSQL's.
pub(super) fn refused(error: &Error) -> ServiceError {
    unanswered(&failure(error))
}

impl WordTables {
    /// Over these connections; none is opened yet.
    #[must_use]
    pub fn new(connections: Arc<Connections>) -> Self {
        Self { connections, asking: Mutex::new(None) }
    }

    /// A connection for something that takes its time.
    pub(super) async fn open(&self) -> Result<Client, ServiceError> {
        self.connections.open().await.map_err(|error| unanswered(&error))
    }

    async fn asking(&self) -> Result<Arc<Asking>, ServiceError> {
        let mut held = self.asking.lock().await;
        if let Some(asking) = held.as_ref().filter(|asking| !asking.client.is_closed()) {
            return Ok(Arc::clone(asking));
        }
        let client = self.open().await?;
        let epoch = client.prepare(EPOCH).await.map_err(|error| refused(&error))?;
        Ok(Arc::clone(held.insert(Arc::new(Asking { client, epoch }))))
    }

    /// The epoch of a column's names.
    pub(super) async fn epoch(&self, column: i64) -> Result<i64, ServiceError> {
        let asking = self.asking().await?;
        let asked = async {
            let row =
                asking.client.query_one(&asking.epoch, &[&column]).await.map_err(|error| failure(&error))?;
            row.try_get(0).map_err(|error| ChannelError::Malformed(error.to_string()))
        };
        self.connections.within(asked).await.map_err(|error| unanswered(&error))
    }

    /// Makes a column known.
    pub(super) async fn register(
        &self,
        column: i64,
        fingerprint: [u8; 8],
    ) -> Result<Registered, ServiceError> {
        let client = self.open().await?;
        let statement =
            "INSERT INTO arras.text_column (id, fingerprint) VALUES ($1, $2) ON CONFLICT (id) DO NOTHING";
        let made = client.execute(statement, &[&column, &&fingerprint[..]]).await;
        if made.map_err(|error| refused(&error))? > 0 {
            return Ok(Registered::New);
        }
        let statement = "SELECT fingerprint FROM arras.text_column WHERE id = $1";
        let row = client.query_one(statement, &[&column]).await.map_err(|error| refused(&error))?;
        let kept: &[u8] = row.try_get(0).map_err(|error| refused(&error))?;
        Ok(if kept == fingerprint { Registered::Same } else { Registered::Otherwise })
    }
}
