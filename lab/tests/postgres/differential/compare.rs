//! One side of a comparison, and what of a reply is compared.

use super::RandomSchema;
use super::parameters::{Parameter, Raw};
use super::statements::Statement;
use bytes::Bytes;
use futures_util::{SinkExt, TryStreamExt};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, NoTls, SimpleQueryMessage};

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

    /// Why it cannot be asked of a column, if it cannot.
    pub(crate) fn refusal(&self) -> Option<&str> {
        match self {
            Self::Failed(code, message) if code == "0A000" => Some(message),
            Self::Failed(..) | Self::Done(_) => None,
        }
    }

    /// An error that one row's values are the cause of (out of range, or against a constraint), or a lock on it.
    pub(crate) fn is_of_a_row(&self) -> bool {
        matches!(self, Self::Failed(code, _) if code == "22003" || code == "55P03" || code.starts_with("23"))
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

fn failed(text: &str, error: &Error) -> Reply {
    let said = error.as_db_error().unwrap_or_else(|| panic!("{text}: {error:?}"));
    Reply::Failed(said.code().code().to_owned(), said.message().to_owned())
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

    /// Runs a text on one of the connections.
    pub(crate) async fn ask(&mut self, at: usize, statement: &Statement) -> Reply {
        if let Some(bound) = &statement.bound {
            return self.ask_bound(at, &statement.text, bound).await;
        }
        if statement.text.starts_with("COPY ") {
            return self.copy(at, &statement.text).await;
        }
        let client = &self.clients[at];
        let result = client.simple_query(&statement.text).await;
        let messages = match result {
            Ok(messages) => messages,
            Err(error) => return failed(&statement.text, &error),
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

    /// Sends or takes the rows of `COPY`; those that are sent are behind the statement's line.
    async fn copy(&self, at: usize, text: &str) -> Reply {
        let client = &self.clients[at];
        let Some((statement, rows)) = text.split_once('\n') else {
            let came = match client.copy_out(text).await {
                Ok(stream) => stream.try_collect::<Vec<Bytes>>().await,
                Err(error) => return failed(text, &error),
            };
            let lines = match came {
                Ok(parts) if text.contains("binary") => format!("{:?}", parts.concat()),
                Ok(parts) => String::from_utf8(parts.concat()).unwrap(),
                Err(error) => return failed(text, &error),
            };
            let lines: Vec<_> = lines.lines().map(|line| vec![Some(line.to_owned())]).collect();
            return Reply::Done(vec![(Vec::new(), lines, 0)]);
        };
        let sent = async {
            let mut sink = std::pin::pin!(client.copy_in(statement).await?);
            sink.send(Bytes::from(format!("{rows}\n"))).await?;
            sink.finish().await
        };
        match sent.await {
            Ok(count) => Reply::Done(vec![(Vec::new(), Vec::new(), count)]),
            Err(error) => failed(text, &error),
        }
    }

    /// Prepares a text, binds parameters and runs it; types of parameters and columns are compared, too, and values as they
    /// come in binary.
    async fn ask_bound(&self, at: usize, text: &str, bound: &[Parameter]) -> Reply {
        let client = &self.clients[at];
        let prepared = match client.prepare(text).await {
            Ok(prepared) => prepared,
            Err(error) => return failed(text, &error),
        };
        // Beside an integer constant in a list PostgreSQL takes a parameter for an integer, too, where the proxy takes it for
        // a value of the column.
        let comparable = !text.contains(" IN (");
        // A parameter that is stored beside what is read may be told as text where it is a varchar.
        let oid = |ty: &Type| if *ty == Type::VARCHAR { Type::TEXT.oid() } else { ty.oid() };
        let types = prepared.params().iter().filter(|_| comparable).map(|ty| format!("${}", oid(ty)));
        let columns =
            prepared.columns().iter().map(|column| format!("{}: {}", column.name(), column.type_().oid()));
        let names = types.chain(columns).collect();
        let rows = match client.query_raw(&prepared, bound.iter().cloned()).await {
            Ok(rows) => rows,
            Err(error) => return failed(text, &error),
        };
        let mut rows = std::pin::pin!(rows);
        let mut found = Vec::new();
        loop {
            match rows.try_next().await {
                Ok(Some(row)) => {
                    found.push(
                        (0..row.len()).map(|at| row.get::<_, Option<Raw>>(at).map(|raw| raw.0)).collect(),
                    );
                }
                Ok(None) => break,
                Err(error) => return failed(text, &error),
            }
        }
        Reply::Done(vec![(names, found, rows.rows_affected().unwrap_or_default())])
    }
}
