//! What changes of labels come to in a real PostgreSQL: for how long each holds a column, and how long a reader's statements take
//! meanwhile. Every value that is entered is the median of those before, which needs as many changes as any order does. Rows are
//! stored as the proxy stores them; the settings are PostgreSQL's own.

use super::database::{Database, connect};
use super::{Lines, MopeBench, MopeError, open};
use arras_postgres::mope::{Column, TreeTables, store_in};
use arras_protocol::ChannelError;
use arras_protocol::mope::{Fetch, Fetched, Round, Summary, TreeChange, TreeStore, Tried};
use arras_schemes::mope::Tree;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

const COLUMN: [u8; 8] = *b"measured";
/// Values entered for each hundred that are there before.
const PER_HUNDRED: usize = 2;
/// From one value to the next of those that are there before.
const APART: u64 = 1 << 40;
/// Parts of what was measured, in percent, of which the most is told.
const PARTS: [(&str, usize); 4] =
    [("half of them", 50), ("90 % of them", 90), ("99 % of them", 99), ("all of them", 100)];
/// Changes by how many labels they rewrite: from the one before up to so many.
const SIZES: [u64; 5] = [4, 16, 64, 1024, u64::MAX];

/// From when until when something took.
type Span = (Instant, Instant);

/// A change of labels that was applied.
struct Change {
    span: Span,
    labels: u64,
}

/// Tables that note when labels change, and how many.
struct Timed {
    tables: TreeTables,
    /// Of a connection that counts labels before a change, and is not waited for by it.
    counter: Client,
    changes: Arc<Mutex<Vec<Change>>>,
}

impl Timed {
    /// Labels that summaries change.
    async fn labels(&self, summaries: &[Summary]) -> Result<u64, ChannelError> {
        const COUNTED: &str =
            "SELECT count(*) FROM arras.mope_entry WHERE column_id = $1 AND label BETWEEN $2 AND $3";
        let mut labels = 0;
        for (low, high) in summaries.iter().filter_map(Summary::range) {
            // As the tables have them: signed, in the same order.
            let [low, high] = [low, high].map(|label| (label ^ 1 << 63).cast_signed());
            let column = Column::from(COLUMN).number();
            let row = self.counter.query_one(COUNTED, &[&column, &low, &high]).await;
            let row = row.map_err(|error| ChannelError::Lost(error.to_string()))?;
            labels += row.get::<_, i64>(0).cast_unsigned();
        }
        Ok(labels)
    }

    async fn timed<T>(
        &self,
        summaries: Vec<Summary>,
        commit: Round<'_, T>,
        is_applied: fn(&T) -> bool,
    ) -> Result<T, ChannelError> {
        if summaries.is_empty() {
            return commit.await;
        }
        let labels = self.labels(&summaries).await?;
        let begun = Instant::now();
        let done = commit.await?;
        let span = (begun, Instant::now());
        if is_applied(&done) {
            self.changes.lock().unwrap_or_else(PoisonError::into_inner).push(Change { span, labels });
        }
        Ok(done)
    }
}

impl TreeStore for Timed {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        self.tables.fetch(fetch)
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        let summaries = change.summaries.clone();
        Box::pin(self.timed(summaries, self.tables.commit(change), |applied| *applied))
    }

    fn commit_within(&self, change: TreeChange, wait: Duration) -> Round<'_, Tried> {
        let summaries = change.summaries.clone();
        let is_applied = |tried: &Tried| matches!(tried, Tried::Applied);
        Box::pin(self.timed(summaries, self.tables.commit_within(change, wait), is_applied))
    }
}

/// A tree of so many values, and a table with a row for each.
async fn filled(database: &Database, values: usize) -> Result<Tree<Timed>, MopeError> {
    let column = Column::from(COLUMN);
    let (client, counter) = (database.connect().await?, database.connect().await?);
    let store = Timed { tables: database.tree(column).await?, counter, changes: Arc::default() };
    let tree = open(store, 8, true)?;
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
async fn enter(database: &Database, tree: &Tree<Timed>, from: u64, count: u64) -> Result<(), MopeError> {
    let client = database.connect().await?;
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

/// What a part of ascending numbers comes to at most.
fn at_most(taken: &[f64], percent: usize) -> f64 {
    taken.get(taken.len() * percent / 100).or(taken.last()).copied().unwrap_or(0.0)
}

/// See the module.
pub(super) async fn measure(bench: &MopeBench, lines: &mut Lines<'_>) -> Result<(), MopeError> {
    let database = Database::start().await?;
    let tree = filled(&database, bench.values).await?;
    let from = (bench.values as u64 / 2).max(1) * APART;
    let count = bench.values / 100 * PER_HUNDRED;
    let ciphertext = tree.ciphertext(&from.to_be_bytes())?.map(|blob| blob.as_slice().to_vec());
    let enough = Arc::new(AtomicBool::new(false));
    let (port, until) = (database.port(), Arc::clone(&enough));
    let reader = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(read(port, ciphertext.unwrap_or_default(), &until))
    });
    let entered = enter(&database, &tree, from, count as u64).await;
    enough.store(true, Ordering::Relaxed);
    let reads = reader.join().map_err(|_| MopeError::Database("the reader ended".into()))??;
    entered?;
    let changes = std::mem::take(&mut *tree.store().changes.lock().unwrap_or_else(PoisonError::into_inner));
    report(lines, &format!("{} and {count} more", bench.values), &changes, &reads);
    Ok(())
}

fn report(lines: &mut Lines<'_>, at: &str, changes: &[Change], reads: &[Span]) {
    lines.add("changes of labels", at, changes.len() as f64, "", "");
    let beside = |read: &&Span| changes.iter().any(|Change { span, .. }| read.0 < span.1 && span.0 < read.1);
    let (beside, alone): (Vec<&Span>, Vec<&Span>) = reads.iter().partition(beside);
    let lists = [
        ("a change of labels holds the column", milliseconds(changes.iter().map(|change| &change.span))),
        ("a reader's statement beside one takes", milliseconds(beside.into_iter())),
        ("a reader's statement beside none takes", milliseconds(alone.into_iter())),
    ];
    for (what, taken) in lists {
        for (part, percent) in PARTS {
            lines.add(format!("{what}, {part} at most"), at, at_most(&taken, percent), "ms", "");
        }
    }
    let mut labels: Vec<f64> = changes.iter().map(|change| change.labels as f64).collect();
    labels.sort_by(f64::total_cmp);
    for (part, percent) in PARTS {
        lines.add(
            format!("a change of labels rewrites, {part} at most"),
            at,
            at_most(&labels, percent),
            "labels",
            "",
        );
    }
    let mut from = 1;
    for until in SIZES {
        let of = changes.iter().filter(|change| (from..=until).contains(&change.labels.max(1)));
        let taken = milliseconds(of.map(|change| &change.span));
        let size = if until == u64::MAX {
            format!("{from} labels or more")
        } else {
            format!("{from} to {until} labels")
        };
        lines.add(format!("changes of {size}"), at, taken.len() as f64, "", "");
        lines.add(format!("changes of {size}, half of them at most"), at, at_most(&taken, 50), "ms", "");
        lines.add(format!("changes of {size}, all of them at most"), at, at_most(&taken, 100), "ms", "");
        from = until.saturating_add(1);
    }
}
