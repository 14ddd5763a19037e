//! One side of a comparison, and what of a reply is compared.

use super::RandomSchema;
use super::statements::Statement;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Names of columns, rows as text, and the count of the command's tag.
type Result = (Vec<String>, Vec<Vec<Option<String>>>, u64);

/// What a statement came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    /// One of each for each statement of the text.
    Done(Vec<Result>),
    /// SQLSTATE and message.
    Failed(String, String),
}

impl Reply {
    /// A serialization failure.
    pub(crate) fn is_to_be_tried_again(&self) -> bool {
        matches!(self, Self::Failed(code, _) if code == "40001")
    }

    /// An error that one row's values are the cause of: out of range, or against a constraint.
    pub(crate) fn is_of_a_row(&self) -> bool {
        matches!(self, Self::Failed(code, _) if code == "22003" || code.starts_with("23"))
    }

    pub(crate) fn is_error(&self) -> bool {
        matches!(self, Self::Failed(..))
    }
}

/// A reply with rows of no order sorted, and an error as its code.
pub(crate) fn comparable(reply: &Reply, is_ordered: bool) -> Reply {
    match reply {
        Reply::Done(results) => {
            let mut results = results.clone();
            if !is_ordered {
                results.iter_mut().for_each(|(_, rows, _)| rows.sort());
            }
            Reply::Done(results)
        }
        Reply::Failed(code, _) => Reply::Failed(code.clone(), String::new()),
    }
}

/// Connections to one database, directly or through the proxy.
pub(crate) struct Side {
    clients: Vec<Client>,
}

impl Side {
    /// Opens connections whose statements do not wait long for a lock: the runs are one after the other, and a wait would be
    /// for ever.
    pub(crate) async fn connect(uri: &str, connections: usize) -> Self {
        let mut clients = Vec::new();
        for _ in 0..connections {
            let (client, connection) = tokio_postgres::connect(uri, NoTls).await.unwrap();
            tokio::spawn(connection);
            client.batch_execute("SET lock_timeout = '40ms'").await.unwrap();
            clients.push(client);
        }
        Self { clients }
    }

    pub(crate) fn connections(&self) -> usize {
        self.clients.len()
    }

    pub(crate) async fn create_database(&self, name: &str) {
        self.clients[0].batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    }

    /// Makes the schema's tables.
    pub(crate) async fn create(&self, schema: &RandomSchema) {
        for statement in schema.create() {
            self.clients[0]
                .batch_execute(&statement)
                .await
                .unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        }
    }

    /// Runs a text on one of the connections: by the simple protocol, or prepared without parameters.
    pub(crate) async fn ask(&mut self, at: usize, statement: &Statement) -> Reply {
        let client = &self.clients[at];
        let result = client.simple_query(&statement.text).await;
        let messages = match result {
            Ok(messages) => messages,
            Err(error) => {
                let said = error.as_db_error().unwrap_or_else(|| panic!("{}: {error:?}", statement.text));
                return Reply::Failed(said.code().code().to_owned(), said.message().to_owned());
            }
        };
        let mut results = Vec::new();
        let (mut names, mut rows) = (Vec::new(), Vec::new());
        for message in messages {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    names = columns.iter().map(|column| column.name().to_owned()).collect();
                }
                SimpleQueryMessage::Row(row) => {
                    rows.push((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect());
                }
                SimpleQueryMessage::CommandComplete(count) => {
                    results.push((std::mem::take(&mut names), std::mem::take(&mut rows), count));
                }
                other => panic!("{other:?}"),
            }
        }
        Reply::Done(results)
    }
}
