//! A database with a column, a client half that knows what it should be, and connections of applications.

use arras_lab::private_postgres::PrivatePostgres;
use arras_postgres::mope::{
    Column, Connections, Dial, Dialled, Duplex, Examination, Protocol, Settings, TreeTables, install,
    register, store_in,
};
use arras_protocol::Blob;
use arras_protocol::mope::{Head, Label, Summary, TreeChange, TreeStore};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio_postgres::{Client, Config, NoTls};

/// The column that most tests are about.
pub(crate) const COLUMN: [u8; 8] = [0x91, 2, 3, 4, 5, 6, 7, 8];

/// Far more than anything takes.
const LONG: Duration = Duration::from_secs(600);

/// Dials a port of this machine, without protection.
pub(crate) struct Loopback(pub(crate) u16);

impl Dial for Loopback {
    fn dial(&self) -> Dialled<'_> {
        Box::pin(async {
            let stream = TcpStream::connect(("127.0.0.1", self.0)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Duplex>)
        })
    }
}

/// How the proxy reaches a private PostgreSQL.
pub(crate) fn settings(server: &PrivatePostgres) -> Settings {
    let mut login = Config::new();
    login.user("postgres").dbname("postgres");
    Settings { dial: Arc::new(Loopback(server.port())), login, deadline: LONG, patience: LONG }
}

/// A database with one column, whose labels the table `t` stores in `label`, beside the ciphertext as `name`.
pub(crate) struct World {
    pub(crate) server: PrivatePostgres,
    pub(crate) settings: Settings,
    pub(crate) connections: Arc<Connections>,
    pub(crate) column: Column,
}

impl World {
    pub(crate) async fn new(protocol: Protocol) -> Self {
        let server = PrivatePostgres::start().unwrap();
        let settings = settings(&server);
        let connections = Arc::new(Connections::new(settings.clone()));
        let column = Column::from(COLUMN);
        let mut client = connections.open().await.unwrap();
        install(&mut client).await.unwrap();
        register(&client, column, protocol).await.unwrap();
        let client = connect(server.port(), "postgres").await;
        client
            .batch_execute("CREATE TABLE t (id serial PRIMARY KEY, name bytea, label bigint)")
            .await
            .unwrap();
        client.batch_execute("CREATE INDEX ON t (label)").await.unwrap();
        store_in(&client, column, "t", "label").await.unwrap();
        Self { server, settings, connections, column }
    }

    /// The column's tree, as a proxy with other settings reaches it.
    pub(crate) fn tables_with(&self, change: impl FnOnce(&mut Settings)) -> TreeTables {
        let mut settings = self.settings.clone();
        change(&mut settings);
        TreeTables::new(Arc::new(Connections::new(settings)), self.column)
    }

    pub(crate) fn tables(&self) -> TreeTables {
        TreeTables::new(Arc::clone(&self.connections), self.column)
    }

    /// An application's connection. It waits for no lock unless it says so: who should not be held up and is, fails.
    pub(crate) async fn application(&self) -> Client {
        let client = connect(self.server.port(), "postgres").await;
        client.batch_execute("SET lock_timeout = 1").await.unwrap();
        client
    }

    /// An application's connection that waits.
    pub(crate) async fn waiting_application(&self) -> Client {
        connect(self.server.port(), "postgres").await
    }

    /// Stores values as a statement of the proxy's does: labels are held before.
    pub(crate) async fn insert(&self, client: &Client, names: &[&str]) {
        client.batch_execute("BEGIN").await.unwrap();
        self.hold(client).await;
        for name in names {
            client.execute(&self.insertion(), &[&ciphertext(name).as_slice()]).await.unwrap();
        }
        client.batch_execute("COMMIT").await.unwrap();
    }

    pub(crate) async fn hold(&self, client: &Client) {
        client.execute("SELECT arras.mope_hold($1)", &[&self.column.number()]).await.unwrap();
    }

    pub(crate) fn insertion(&self) -> String {
        format!("INSERT INTO t (name, label) SELECT $1, arras.mope_order({}, $1)", self.column.number())
    }

    /// The names of the rows in the order of their labels.
    pub(crate) async fn ordered(&self, client: &Client) -> Vec<String> {
        names(&client.query("SELECT name FROM t ORDER BY label, id", &[]).await.unwrap())
    }

    /// What is contradictory: in the database's own terms, and in those of a client half that knows the labels.
    pub(crate) async fn contradictions(&self, model: &Model) -> Vec<String> {
        let examination =
            Examination::begin(self.connections.open().await.unwrap(), self.column).await.unwrap();
        let mut found = examination.contradictions().await.unwrap();
        let mut entries = BTreeMap::new();
        let mut above = 0;
        loop {
            let some = examination.entries(above, 3).await.unwrap();
            let Some((_, last)) = some.last() else {
                break;
            };
            above = *last;
            entries
                .extend(some.into_iter().map(|(ciphertext, label)| (ciphertext.as_slice().to_vec(), label)));
        }
        if entries != model.labels {
            found.push(format!("the table is {entries:?}, not {:?}", model.labels));
        }
        let client = self.application().await;
        // As no examination without keys can: each row's label is that of its own value.
        let statement = "SELECT count(*) FROM t LEFT JOIN arras.mope_entry e ON e.column_id = $1 \
                         AND e.ciphertext = t.name WHERE t.name IS NOT NULL AND t.label IS DISTINCT FROM e.label";
        let wrong: i64 = client.query_one(statement, &[&self.column.number()]).await.unwrap().get(0);
        if wrong > 0 {
            found.push(format!("{wrong} rows have the label of another value"));
        }
        found
    }
}

/// The names that rows have first.
pub(crate) fn names(rows: &[tokio_postgres::Row]) -> Vec<String> {
    let name = |row: &tokio_postgres::Row| row.get::<_, Vec<u8>>(0);
    rows.iter().map(|row| String::from_utf8(name(row)).unwrap().trim_end().to_owned()).collect()
}

pub(crate) async fn connect(port: u16, user: &str) -> Client {
    let mut config = Config::new();
    config.user(user).dbname("postgres").host("127.0.0.1").port(port);
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// A ciphertext that a person can read.
pub(crate) fn ciphertext(name: &str) -> Vec<u8> {
    format!("{name:16}").into_bytes()
}

/// A client half's knowledge: a tree of one node, whose content is its version.
#[derive(Clone, Default)]
pub(crate) struct Model {
    pub(crate) head: Head,
    pub(crate) labels: BTreeMap<Vec<u8>, Label>,
}

impl Model {
    /// A column with values of these labels, stored.
    pub(crate) async fn store(store: &dyn TreeStore, values: &[(&str, Label)]) -> Self {
        let mut model = Self::default();
        let change = model.change(Vec::new(), values, &[]);
        assert!(store.commit(change).await.unwrap());
        model
    }

    /// The change to the next version; the model is what it comes to.
    pub(crate) fn change(
        &mut self,
        summaries: Vec<Summary>,
        entered: &[(&str, Label)],
        left: &[&str],
    ) -> TreeChange {
        let expected = self.head.version;
        let left: Vec<Vec<u8>> = left.iter().map(|name| ciphertext(name)).collect();
        self.labels.retain(|ciphertext, _| !left.contains(ciphertext));
        for summary in &summaries {
            let (low, _) = summary.range().unwrap();
            let mut sorted: Vec<Label> =
                self.labels.values().copied().filter(|label| *label >= low).collect();
            sorted.sort_unstable();
            for label in self.labels.values_mut() {
                let rank = sorted.iter().position(|other| other == label).unwrap_or(0);
                *label = summary.transform(*label, rank as u64);
            }
        }
        let entered: Vec<(Blob, Label)> =
            entered.iter().map(|(name, label)| (Blob::from(ciphertext(name)), *label)).collect();
        self.labels
            .extend(entered.iter().map(|(ciphertext, label)| (ciphertext.as_slice().to_vec(), *label)));
        let version = expected + 1;
        let values = self.labels.len() as u64;
        self.head = Head { version, root: 1, next: 2, values, digest: [version.to_le_bytes()[0]; 32] };
        TreeChange {
            expected,
            head: self.head,
            nodes: vec![(1, Some(Blob::from(version.to_be_bytes().to_vec())))],
            left: left.into_iter().map(Blob::from).collect(),
            summaries,
            entered,
        }
    }
}

/// Spreads all that lies between two labels.
pub(crate) fn spread(low: Label, high: Label, start: Label, step: u64) -> Summary {
    Summary::Spread { low, high, start, step }
}

/// Waits until so many connections wait for locks that others have.
pub(crate) async fn until_waiting(client: &Client, connections: i64) {
    let waits = "SELECT count(DISTINCT pid) FROM pg_locks WHERE NOT granted";
    while client.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) < connections {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
