//! Texts that are found by their words, by a host of boolean search with its enclave: `@@` on encrypted columns.

mod faults;
pub(crate) mod host;
mod killed;
mod raced;
mod same;
mod statements;
mod swept;
mod twins;

use crate::dev::Dev;
use crate::extended::connect;
use arras_lab::private_postgres::PrivatePostgres;
use host::Host;
use tokio_postgres::Client;

const SCHEMA: &str = r#"
[tables."public.articles"]
body = { id = "7a1b2c3d4e5f6d01", type = "text", operations = ["text"] }
title = { id = "7a1b2c3d4e5f6d02", type = "varchar(60)", operations = ["equality", "text"], language = "simple" }
"#;

const CREATE: &str = "CREATE TABLE articles (id int PRIMARY KEY, body text, title varchar(60))";

/// A database behind a proxy, with a host of boolean search, and the same in plaintext.
pub(crate) struct Words {
    pub(crate) host: Host,
    pub(crate) server: PrivatePostgres,
    pub(crate) proxy: Dev,
    pub(crate) plain: Client,
    pub(crate) encrypted: Client,
}

impl Words {
    pub(crate) async fn start() -> Self {
        Self::with(SCHEMA, CREATE).await
    }

    pub(crate) async fn with(schema: &str, create: &str) -> Self {
        let (host, server) = (Host::start(), PrivatePostgres::start().unwrap());
        let admin = connect(&server.uri("postgres")).await;
        for database in ["plain", "encrypted"] {
            admin.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
        }
        let proxy = Dev::searching(&server.uri("encrypted"), (schema, "info"), Some(host.told()));
        let plain = connect(&server.uri("plain")).await;
        let encrypted = connect(&proxy.uri("encrypted")).await;
        for client in [&plain, &encrypted] {
            client.batch_execute(create).await.unwrap();
        }
        Self { host, server, proxy, plain, encrypted }
    }

    /// What the database holds.
    pub(crate) async fn direct(&self) -> Client {
        connect(&self.server.uri("encrypted")).await
    }
}
