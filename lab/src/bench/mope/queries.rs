//! Figure 13: SQL queries a second that store encodings, where those that are stored are updated and where they are not.
//!
//! "Not updated" is what the paper has: tree and OPE table change as ever, rows keep the encodings that they had. Both kinds of table
//! take turns. A query is a transaction of the application's, by one connection, behind the encoding of its value.

use super::clocked::{Clock, Clocked};
use super::database::Database;
use super::trace::{Query, Trace};
use super::{Lines, MopeBench, MopeError, key, open, tens};
use crate::tpcc::Scale;
use arras_postgres::mope::{Column, store_in};
use arras_protocol::mope::{Head, TreeChange, TreeStore};
use arras_schemes::mope::memory::MemoryStore;
use arras_schemes::mope::path_encoded::PathTree;
use arras_schemes::mope::{Form, Stored, Tree};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, Statement};

/// Queries between which the tables take turns.
const SLICE: usize = 50;
/// Rows of one statement that fills a table.
const ROWS: usize = 10_000;

/// Which tree encodes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Encodings {
    /// Ours.
    Labels,
    /// The paper's.
    Paths,
}

enum Encoder {
    Labels(Box<Tree<Clocked>>),
    Paths(PathTree<Clocked>),
}

impl Encoder {
    async fn encode(&self, value: u64) -> Result<Vec<u8>, MopeError> {
        let value = value.to_be_bytes();
        let stored = match self {
            Self::Labels(tree) => tree.encode(&[value]).await?.pop(),
            Self::Paths(tree) => Some(tree.encode(&value).await?),
        };
        Ok(stored.map(ciphertext).unwrap_or_default())
    }
}

fn ciphertext(stored: Stored) -> Vec<u8> {
    stored.ciphertext.as_slice().to_vec()
}

/// A column's tree, and the tables that store its labels.
struct Site {
    encoder: Encoder,
    column: Column,
    client: Client,
    hold: Statement,
    insert: Statement,
    update: Statement,
    spent: Duration,
    /// Of changes of labels, among it.
    clock: Clock,
}

impl Site {
    /// With values, a row for each, and rows that queries change.
    async fn new(
        database: &Database,
        number: u64,
        encodings: Encodings,
        (values, rows): (&[u64], &[u64]),
        is_updated: bool,
    ) -> Result<Self, MopeError> {
        let column = Column::from(number.to_be_bytes());
        let bytes: Vec<[u8; 8]> = values.iter().chain(rows).map(|value| value.to_be_bytes()).collect();
        let clock = Clock::default();
        let tables = Clocked { tables: database.tree(column).await?, clock: clock.clone() };
        let (encoder, ciphertexts) = encoder(tables, encodings, &bytes).await?;
        let client = database.connect().await?;
        let (inserted, changed) = ciphertexts.split_at(values.len());
        for (table, ciphertexts) in [("inserted", inserted), ("changed", changed)] {
            let table = format!("{table}_{number}");
            let columns = "(id serial PRIMARY KEY, name bytea, label bigint)";
            client.batch_execute(&format!("CREATE TABLE {table} {columns}")).await?;
            if is_updated {
                store_in(&client, column, &table, "label").await?;
            }
            let fill = format!(
                "INSERT INTO {table} (name, label) SELECT e.ciphertext, e.label \
                 FROM unnest($1::bytea[]) WITH ORDINALITY AS new (ciphertext, at) \
                 JOIN arras.mope_entry e ON e.column_id = $2 AND e.ciphertext = new.ciphertext ORDER BY new.at"
            );
            for some in ciphertexts.chunks(ROWS) {
                client.execute(&fill, &[&some, &column.number()]).await?;
            }
            client.batch_execute(&format!("CREATE INDEX ON {table} (label); ANALYZE {table}")).await?;
        }
        client.batch_execute("ANALYZE arras.mope_entry, arras.mope_node; CHECKPOINT").await?;
        let ordered = format!("arras.mope_order({}, $1)", column.number());
        let insert = format!("INSERT INTO inserted_{number} (name, label) SELECT $1, {ordered}");
        let update = format!("UPDATE changed_{number} SET name = $1, label = {ordered} WHERE id = $2");
        let hold = client.prepare("SELECT arras.mope_hold($1)").await?;
        let (insert, update) = (client.prepare(&insert).await?, client.prepare(&update).await?);
        Ok(Self { encoder, column, client, hold, insert, update, spent: Duration::ZERO, clock })
    }

    async fn store(&self, query: &Query) -> Result<(), MopeError> {
        let ciphertext = self.encoder.encode(query.value).await?;
        self.client.batch_execute("BEGIN").await?;
        self.client.execute(&self.hold, &[&self.column.number()]).await?;
        let changed = match query.row {
            None => self.client.execute(&self.insert, &[&ciphertext]).await?,
            Some(row) => self.client.execute(&self.update, &[&ciphertext, &row]).await?,
        };
        self.client.batch_execute("COMMIT").await?;
        if changed == 1 { Ok(()) } else { Err(MopeError::Database(format!("{changed} rows instead of one"))) }
    }

    async fn run(&mut self, queries: &[Query]) -> Result<(), MopeError> {
        let begun = Instant::now();
        for query in queries {
            self.store(query).await?;
        }
        self.spent += begun.elapsed();
        Ok(())
    }
}

/// A tree with values, and their ciphertexts. The paper's takes a round a level and value: it is made in memory, and put down as one
/// change.
async fn encoder(
    tables: Clocked,
    encodings: Encodings,
    values: &[[u8; 8]],
) -> Result<(Encoder, Vec<Vec<u8>>), MopeError> {
    if encodings == Encodings::Labels {
        let tree = open(tables, 8, true)?;
        let stored = tree.encode(values).await?;
        return Ok((Encoder::Labels(Box::new(tree)), stored.into_iter().map(ciphertext).collect()));
    }
    let tree = PathTree::open(MemoryStore::default(), &key(), Form::Fixed(8))?;
    let mut ciphertexts = Vec::with_capacity(values.len());
    for value in values {
        ciphertexts.push(ciphertext(tree.encode(value).await?));
    }
    if !values.is_empty() {
        let kept = tree.store().kept().clone();
        let change = TreeChange {
            expected: 0,
            head: Head { version: 1, ..kept.head },
            nodes: kept.nodes.into_iter().map(|(node, bytes)| (node, Some(bytes))).collect(),
            left: Vec::new(),
            summaries: Vec::new(),
            entered: kept
                .table
                .iter()
                .map(|(ciphertext, label)| (ciphertext.to_vec().into(), *label))
                .collect(),
        };
        tables.commit(change).await?;
    }
    Ok((Encoder::Paths(PathTree::open(tables, &key(), Form::Fixed(8))?), ciphertexts))
}

/// Which queries, at a database of so many queries before.
struct Series<'a> {
    name: &'a str,
    encodings: Encodings,
    size: usize,
    paper: &'static str,
}

impl Series<'_> {
    async fn measure(
        &self,
        (database, number): (&Database, u64),
        trace: &mut Trace,
        count: usize,
        lines: &mut Lines<'_>,
    ) -> Result<(), MopeError> {
        let before: Vec<Query> = trace.take(self.size).collect();
        let values: Vec<u64> =
            before.iter().filter(|query| query.row.is_none()).map(|query| query.value).collect();
        let given = (values.as_slice(), trace.rows());
        let mut sites = [
            Site::new(database, 2 * number, self.encodings, given, true).await?,
            Site::new(database, 2 * number + 1, self.encodings, given, false).await?,
        ];
        let queries: Vec<Query> = trace.take(count).collect();
        let before = sites.each_ref().map(|site| site.clock.spent());
        for (turn, queries) in queries.chunks(SLICE).enumerate() {
            let [updated, not] = &mut sites;
            let sites = if turn % 2 == 0 { [updated, not] } else { [not, updated] };
            for site in sites {
                site.run(queries).await?;
            }
        }
        // What changes of labels took more where rows have these: the rest of both is the same work, and the disk's noise.
        let [relabelled, kept] = [0, 1].map(|at| (sites[at].clock.spent() - before[at]).as_secs_f64());
        let of_updates = 100.0 * (relabelled - kept) / sites[0].spent.as_secs_f64();
        let [updated, not] = sites.map(|site| queries.len() as f64 / site.spent.as_secs_f64());
        let name = |what: &str| format!("{}, {what}", self.name);
        lines.add(name("encodings updated"), self.size, updated, "queries/s", "");
        lines.add(name("not updated"), self.size, not, "queries/s", "");
        lines.add(name("time of updates"), self.size, of_updates, "%", "");
        lines.add(name("less by updates"), self.size, 100.0 * (1.0 - updated / not), "%", self.paper);
        Ok(())
    }
}

/// See the module.
pub(super) async fn measure(bench: &MopeBench, lines: &mut Lines<'_>) -> Result<(), MopeError> {
    let count = (bench.values / 50).clamp(2 * SLICE, 2000);
    let items = Scale::full(1).items.unsigned_abs() as usize;
    let items = items.min(bench.values);
    let database = Database::start().await?;
    let mut number = 0;
    for encodings in [Encodings::Labels, Encodings::Paths] {
        for is_sequential in [true, false] {
            for size in std::iter::once(0).chain(tens(1000, bench.values)) {
                let (queries, paper) = match is_sequential {
                    true => ("sequential INSERTs", "less than 15"),
                    false => ("TPC-C's INSERTs and UPDATEs", "less than sequential"),
                };
                let tree = if encodings == Encodings::Labels { "our tree" } else { "path-encoded tree" };
                let name = &format!("{queries}, {tree}");
                let mut trace =
                    if is_sequential { Trace::Sequential(0) } else { Trace::tpcc(bench.seed, items) };
                number += 1;
                (lines.tell)(&format!("13, {name}, {size}"));
                let series = Series { name, encodings, size, paper };
                series.measure((&database, number), &mut trace, count, lines).await?;
            }
        }
    }
    Ok(())
}
