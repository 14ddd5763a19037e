//! A PostgreSQL of the bench's own, with its own settings, and trees in it.

use super::MopeError;
use crate::private_postgres::{Options, PrivatePostgres};
use arras_postgres::mope::{
    Column, Connections, Dial, Dialled, Duplex, Protocol, Settings, TreeTables, install, register,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_postgres::{Client, Config, NoTls};

/// For whatever is waited for.
const PATIENCE: Duration = Duration::from_secs(600);

struct Loopback(u16);

impl Dial for Loopback {
    fn dial(&self) -> Dialled<'_> {
        Box::pin(async {
            let stream = TcpStream::connect(("127.0.0.1", self.0)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    }
}

/// See the module.
pub(super) struct Database {
    server: PrivatePostgres,
    connections: Arc<Connections>,
}

impl Database {
    pub(super) async fn start() -> Result<Self, MopeError> {
        let server = PrivatePostgres::start_with(&Options::default())?;
        let mut login = Config::new();
        login.user("postgres").dbname("postgres");
        let dial = Arc::new(Loopback(server.port()));
        let settings = Settings { dial, login, deadline: PATIENCE, patience: PATIENCE };
        let connections = Arc::new(Connections::new(settings));
        let mut client = connections.open().await?;
        install(&mut client).await.map_err(|error| MopeError::Database(error.to_string()))?;
        Ok(Self { server, connections })
    }

    pub(super) fn port(&self) -> u16 {
        self.server.port()
    }

    pub(super) async fn connect(&self) -> Result<Client, MopeError> {
        connect(self.port()).await
    }

    /// The tree of a column that is new.
    pub(super) async fn tree(&self, column: Column) -> Result<TreeTables, MopeError> {
        register(&self.connect().await?, column, Protocol::Mope).await?;
        Ok(TreeTables::new(Arc::clone(&self.connections), column))
    }
}

pub(super) async fn connect(port: u16) -> Result<Client, MopeError> {
    let mut config = Config::new();
    config.user("postgres").dbname("postgres").host("127.0.0.1").port(port);
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}
