//! What changes of labels come to in a real PostgreSQL: for how long each holds a column, and how long a reader's statements take
//! meanwhile. Every value that is entered is the median of those before, which needs as many changes as any order does. Rows are
//! stored as the proxy stores them; the settings are PostgreSQL's own.

use super::{Lines, MopeBench, MopeError, key};
use crate::private_postgres::{Options, PrivatePostgres};
use arras_postgres::mope::{
    Column, Connections, Dial, Dialled, Duplex, Protocol, Settings, TreeTables, install, register, store_in,
};
use arras_protocol::mope::{Fetch, Fetched, Round, TreeChange, TreeStore, Tried};
use arras_schemes::mope::{Form, Kind, Tree};
use arras_schemes::random::Randomness;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::net::TcpStream;
use tokio_postgres::{Client, Config, NoTls};

const COLUMN: [u8; 8] = *b"measured";
/// For whatever is waited for.
const PATIENCE: Duration = Duration::from_secs(600);
/// Values entered for each hundred that are there before.
const PER_HUNDRED: usize = 2;
/// From one value to the next of those that are there before.
const APART: u64 = 1 << 40;
/// Labels of a part of the changes, in percent, that hold the column for so long at most.
const PARTS: [(&str, usize); 4] =
    [("half of them", 50), ("90 % of them", 90), ("99 % of them", 99), ("all of them", 100)];

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

/// From when until when something took.
type Span = (Instant, Instant);

/// Tables that note when labels change.
struct Timed {
    tables: TreeTables,
    changes: Arc<Mutex<Vec<Span>>>,
}

impl Timed {
    async fn timed<T>(
        &self,
        is_of_labels: bool,
        round: Round<'_, T>,
    ) -> Result<T, arras_protocol::ChannelError> {
        let begun = Instant::now();
        let done = round.await?;
        if is_of_labels {
            self.changes.lock().unwrap_or_else(PoisonError::into_inner).push((begun, Instant::now()));
        }
        Ok(done)
    }
}

impl TreeStore for Timed {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        self.tables.fetch(fetch)
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        Box::pin(self.timed(!change.summaries.is_empty(), self.tables.commit(change)))
    }

    fn commit_if_free(&self, change: TreeChange) -> Round<'_, Tried> {
        Box::pin(self.timed(!change.summaries.is_empty(), self.tables.commit_if_free(change)))
    }
}

async fn connect(port: u16) -> Result<Client, MopeError> {
    let mut config = Config::new();
    config.user("postgres").dbname("postgres").host("127.0.0.1").port(port);
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A tree of so many values, and a table with a row for each.
async fn filled(server: &PrivatePostgres, values: usize) -> Result<Tree<Timed>, MopeError> {
    let mut login = Config::new();
    login.user("postgres").dbname("postgres");
    let dial = Arc::new(Loopback(server.port()));
    let connections =
        Arc::new(Connections::new(Settings { dial, login, deadline: PATIENCE, patience: PATIENCE }));
    let column = Column::from(COLUMN);
    let mut client = connections.open().await?;
    install(&mut client).await.map_err(|error| MopeError::Database(error.to_string()))?;
    register(&client, column, Protocol::Mope).await?;
    let settings = arras_schemes::mope::Settings { form: Form::Fixed(8), kind: Kind::Mope, verified: true };
    let tables = TreeTables::new(connections, column);
    let store = Timed { tables, changes: Arc::default() };
    let tree = Tree::open(store, &key(), settings, None, Randomness::default())?;
    let before: Vec<[u8; 8]> = (1..=values as u64).map(|at| (at * APART).to_be_bytes()).collect();
    tree.encode(&before).await?;
    client
        .batch_execute("CREATE TABLE measured (id bigserial PRIMARY KEY, name bytea, label bigint)")
        .await?;
    store_in(&client, column, "measured", "label").await?;
    let rows = "INSERT INTO measured (name, label) SELECT ciphertext, label FROM arras.mope_entry \
                WHERE column_id = $1 ORDER BY ciphertext";
    client.execute(rows, &[&column.number()]).await?;
    client.batch_execute("CREATE INDEX ON measured (label); ANALYZE; CHECKPOINT").await?;
    Ok(tree)
}

/// Reads the hundred rows from a value on, again and again. A statement that waits for a lock fails.
async fn read(port: u16, ciphertext: Vec<u8>, enough: &AtomicBool) -> Result<Vec<Span>, MopeError> {
    let client = connect(port).await?;
    client.batch_execute("SET lock_timeout = 1").await?;
    let column = Column::from(COLUMN).number();
    let asked = format!(
        "SELECT count(*) FROM (SELECT FROM measured WHERE label >= arras.mope_order({column}, $1) \
         ORDER BY label LIMIT 100) AS next"
    );
    let asked = client.prepare(&asked).await?;
    let mut spans = Vec::new();
    while !enough.load(Ordering::Relaxed) {
        let begun = Instant::now();
        client.query_one(&asked, &[&ciphertext]).await?;
        spans.push((begun, Instant::now()));
        tokio::time::sleep(Duration::from_micros(500)).await;
    }
    Ok(spans)
}

/// Enters values, each the median of those before, and a row for each.
async fn enter(server: &PrivatePostgres, tree: &Tree<Timed>, from: u64, count: u64) -> Result<(), MopeError> {
    let client = connect(server.port()).await?;
    let column = Column::from(COLUMN).number();
    let hold = client.prepare("SELECT arras.mope_hold($1)").await?;
    let row = format!("INSERT INTO measured (name, label) SELECT $1, arras.mope_order({column}, $1)");
    let row = client.prepare(&row).await?;
    for at in 1..=count / 2 {
        for value in [from + at, from + APART - at] {
            let stored = tree.encode(&[value.to_be_bytes()]).await?;
            client.batch_execute("BEGIN").await?;
            client.execute(&hold, &[&column]).await?;
            for stored in stored {
                client.execute(&row, &[&stored.ciphertext.as_slice()]).await?;
            }
            client.batch_execute("COMMIT").await?;
        }
    }
    Ok(())
}

/// Milliseconds of spans, in ascending order.
fn milliseconds<'a>(spans: impl Iterator<Item = &'a Span>) -> Vec<f64> {
    let mut taken: Vec<f64> = spans.map(|(begun, done)| (*done - *begun).as_secs_f64() * 1000.0).collect();
    taken.sort_by(f64::total_cmp);
    taken
}

/// See the module.
pub(super) async fn measure(bench: &MopeBench, lines: &mut Lines<'_>) -> Result<(), MopeError> {
    let server = PrivatePostgres::start_with(&Options::default())?;
    let tree = filled(&server, bench.values).await?;
    let from = (bench.values as u64 / 2).max(1) * APART;
    let count = bench.values / 100 * PER_HUNDRED;
    let ciphertext = tree.ciphertext(&from.to_be_bytes())?.map(|blob| blob.as_slice().to_vec());
    let changes = Arc::clone(&tree.store().changes);
    changes.lock().unwrap_or_else(PoisonError::into_inner).clear();
    let enough = Arc::new(AtomicBool::new(false));
    let (port, until) = (server.port(), Arc::clone(&enough));
    let reader = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(read(port, ciphertext.unwrap_or_default(), &until))
    });
    let entered = enter(&server, &tree, from, count as u64).await;
    enough.store(true, Ordering::Relaxed);
    let reads = reader.join().map_err(|_| MopeError::Database("the reader ended".into()))??;
    entered?;
    let changes = changes.lock().unwrap_or_else(PoisonError::into_inner);
    let at = format!("{} and {count} more", bench.values);
    let pauses = milliseconds(changes.iter());
    lines.add("changes of labels", &at, pauses.len() as f64, "", "");
    let beside = |read: &&Span| changes.iter().any(|change| read.0 < change.1 && change.0 < read.1);
    let (beside, alone): (Vec<&Span>, Vec<&Span>) = reads.iter().partition(beside);
    let lists = [
        ("a change of labels holds the column", pauses),
        ("a reader's statement beside one takes", milliseconds(beside.into_iter())),
        ("a reader's statement beside none takes", milliseconds(alone.into_iter())),
    ];
    for (what, taken) in lists {
        for (part, percent) in PARTS {
            let most = taken.get(taken.len() * percent / 100).or(taken.last()).copied().unwrap_or(0.0);
            lines.add(format!("{what}, {part} at most"), &at, most, "ms", "");
        }
    }
    Ok(())
}
