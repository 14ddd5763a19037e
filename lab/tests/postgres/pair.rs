//! One application's statements on two databases.

use crate::dev::Dev;
use crate::encrypted::rows;
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;
use tokio_postgres::Client;

/// A database in plaintext, and one behind a proxy.
pub(crate) struct Pair {
    pub(crate) server: PrivatePostgres,
    pub(crate) proxy: Dev,
    pub(crate) plain: Client,
    pub(crate) encrypted: Client,
}

impl Pair {
    /// Both with the tables that some text makes.
    pub(crate) async fn start(schema: &str, create: &str) -> Self {
        let server = PrivatePostgres::start().unwrap();
        let admin = connect(&server.uri("postgres")).await;
        for database in ["plain", "encrypted"] {
            admin.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
        }
        let proxy = Dev::start(&server, "encrypted", schema);
        let plain = connect(&server.uri("plain")).await;
        let encrypted = connect(&proxy.uri("encrypted")).await;
        for client in [&plain, &encrypted] {
            client.batch_execute(create).await.unwrap();
        }
        Self { server, proxy, plain, encrypted }
    }

    /// Runs a statement on both: the same rows come of it.
    pub(crate) async fn same(&self, statement: &str) -> usize {
        let expected = rows(&self.plain, statement).await;
        assert_eq!(rows(&self.encrypted, statement).await, expected, "{statement}");
        expected.len()
    }

    /// What the database behind the proxy holds.
    pub(crate) async fn direct(&self) -> Client {
        connect(&self.server.uri("encrypted")).await
    }

    /// How the server runs a statement of its own.
    pub(crate) async fn explained(&self, statement: &str) -> String {
        let direct = self.direct().await;
        direct.batch_execute("SET enable_seqscan = off; SET enable_bitmapscan = off").await.unwrap();
        let plan = rows(&direct, &format!("EXPLAIN {statement}")).await;
        plan.into_iter().flatten().flatten().collect::<Vec<_>>().join("\n")
    }

    /// A statement that the proxy refuses: the SQLSTATE, the message with its hint, and the place.
    pub(crate) async fn refused(&self, statement: &str) -> (String, String, Option<u32>) {
        let error = self.encrypted.simple_query(statement).await.expect_err(statement);
        let error = error.as_db_error().unwrap();
        let place = error.position().map(|at| match at {
            tokio_postgres::error::ErrorPosition::Original(at) => *at,
            tokio_postgres::error::ErrorPosition::Internal { position, .. } => *position,
        });
        let hint = error.hint().unwrap_or_default();
        (error.code().code().to_owned(), format!("{} {hint}", error.message()), place)
    }
}
