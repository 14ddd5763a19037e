//! The connection to a server or a cluster, and another in its place when it answers no more.
//!
//! The driver's connection to one server is over when the server is. Its connection to a cluster mends itself, but can
//! come to wait for itself when a server is lost (redis 1.8: what reconnects and what asks for the slots hold each other's
//! lock): then nothing is answered any more, of no server. So whatever ran out of time is not asked on again.

use super::super::StoreError;
use super::super::patience::patiently;
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::{AsyncConnectionConfig, Client, Cmd, Pipeline, RedisError, RedisResult, Value};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::timeout;

/// How often a command is sent again to a cluster, whose slots may have moved, before its failure is said.
const RETRIES: u32 = 3;

/// Least and most milliseconds between them.
const RETRY_WAITS: [u64; 2] = [50, 1000];

/// How many steps that one server may hold up a request to a cluster, or a connection to it, has at most: each has
/// its part of the time.
const STEPS: u32 = 4;

/// May it be answered when it is asked again: of a server that is away, begins, or is replaced?
pub(super) fn is_passing(error: &RedisError) -> bool {
    use redis::{ErrorKind, ServerErrorKind};
    let of_server = [
        ServerErrorKind::BusyLoading,
        ServerErrorKind::TryAgain,
        ServerErrorKind::ClusterDown,
        ServerErrorKind::MasterDown,
    ];
    error.is_io_error()
        || error.is_connection_dropped()
        || error.kind() == ErrorKind::ClusterConnectionNotFound
        || of_server.into_iter().any(|kind| error.kind() == ErrorKind::Server(kind))
}

enum Servers {
    One(Client, AsyncConnectionConfig),
    Cluster(ClusterClient),
}

#[derive(Clone)]
enum Connection {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

/// The connection in use; none before the first and after one that has broken.
#[derive(Default)]
struct Held {
    /// How many connections there were.
    number: u64,
    connection: Option<Connection>,
}

/// What asks a server or a cluster. An error is that of one request: the next is asked on a new connection, if it must be.
pub(super) struct Link {
    servers: Servers,
    held: Mutex<Held>,
    patience: Duration,
}

impl Link {
    /// Connects; `patience` is that of [`super::RedisStore::connect`].
    pub(super) async fn connect(servers: &[String], patience: Duration) -> Result<Self, StoreError> {
        let servers = match servers {
            [server] => Servers::One(
                Client::open(server.as_str())?,
                AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(patience))
                    .set_response_timeout(Some(patience)),
            ),
            servers => {
                let [least, most] = RETRY_WAITS;
                let builder = ClusterClientBuilder::new(servers.to_vec())
                    .retries(RETRIES)
                    .min_retry_wait(least)
                    .max_retry_wait(most)
                    .connection_timeout(patience / STEPS)
                    .response_timeout(patience / STEPS)
                    .overall_response_timeout(Some(patience));
                Servers::Cluster(builder.build()?)
            }
        };
        let link = Self { servers, held: Mutex::default(), patience };
        link.connection().await?;
        Ok(link)
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self.servers, Servers::Cluster(_))
    }

    /// A command's reply.
    pub(super) async fn ask(&self, command: &Cmd) -> Result<Value, StoreError> {
        Ok(patiently(self.patience, is_passing, || self.ask_once(command)).await?)
    }

    async fn ask_once(&self, command: &Cmd) -> RedisResult<Value> {
        let (number, connection) = self.connection().await?;
        let reply = timeout(self.patience, async {
            match connection {
                Connection::One(mut one) => one.req_packed_command(command).await,
                Connection::Cluster(mut cluster) => cluster.req_packed_command(command).await,
            }
        });
        self.judged(number, in_time(reply.await)).await
    }

    /// Replies of commands, in their order: of one server by one pipeline, of a cluster side by side.
    pub(super) async fn ask_all(&self, commands: Vec<Cmd>) -> Result<Vec<Value>, StoreError> {
        if self.is_cluster() {
            return futures_util::future::try_join_all(commands.iter().map(|command| self.ask(command)))
                .await;
        }
        let mut pipeline = Pipeline::with_capacity(commands.len());
        for command in commands {
            pipeline.add_command(command);
        }
        Ok(patiently(self.patience, is_passing, || self.ask_in_line(&pipeline)).await?)
    }

    async fn ask_in_line(&self, pipeline: &Pipeline) -> RedisResult<Vec<Value>> {
        let (number, Connection::One(mut one)) = self.connection().await? else {
            return Err(std::io::Error::other("a cluster has no pipeline of its own").into());
        };
        let reply = timeout(self.patience, one.req_packed_commands(pipeline, 0, pipeline.len()));
        self.judged(number, in_time(reply.await)).await
    }

    /// The connection in use with its number, a new one if there is none.
    async fn connection(&self) -> RedisResult<(u64, Connection)> {
        let mut held = self.held.lock().await;
        if let Some(connection) = &held.connection {
            return Ok((held.number, connection.clone()));
        }
        let made = in_time(timeout(self.patience, self.servers.connect()).await)?;
        held.number += 1;
        held.connection = Some(made.clone());
        Ok((held.number, made))
    }

    /// A request's result; a connection that has broken is not used again.
    async fn judged<T>(&self, number: u64, result: RedisResult<T>) -> RedisResult<T> {
        if let Err(error) = &result
            && self.is_over(error)
        {
            let mut held = self.held.lock().await;
            if held.number == number {
                held.connection = None;
            }
        }
        result
    }

    fn is_over(&self, error: &RedisError) -> bool {
        error.is_timeout() || !self.is_cluster() && error.is_unrecoverable_error()
    }
}

impl Servers {
    async fn connect(&self) -> RedisResult<Connection> {
        match self {
            Self::One(client, config) => {
                client.get_multiplexed_async_connection_with_config(config).await.map(Connection::One)
            }
            Self::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
        }
    }
}

/// What has not ended in time as the driver's own error of it.
fn in_time<T>(result: Result<RedisResult<T>, tokio::time::error::Elapsed>) -> RedisResult<T> {
    result.unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()))
}
