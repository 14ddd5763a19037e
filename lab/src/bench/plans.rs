//! What the planner's choices cost: documents fetched for queries of many shapes, beside those that the best single
//! plan fetches, found by trying every plan on the plaintext data.
//!
//! Data and queries come from a seed. The front end is driven as an application drives it; what was fetched is what
//! `explain` counts, and results are compared with the plaintext's.

mod data;
mod oracle;
mod shapes;
mod timed;

pub use timed::Timed;

use super::installation::{Installation, PATIENCE, ServiceError};
use super::turns::median;
use crate::wire_client::{ClientError, WireClient};
use bson::{Document, doc};
use serde::{Deserialize, Serialize};
use shapes::{Kind, Shape};
use std::path::Path;
use std::time::{Duration, Instant};

/// Documents of one insert.
const BATCH: usize = 1000;
/// How often a query is timed; fewer times if it takes long.
const TIMES: usize = 9;
/// Longer than this in all no query is timed.
const TIME_MAX: Duration = Duration::from_secs(5);
const DATABASE: &str = "bench";
const ORDERS: &str = "orders";

/// Most documents a query may fetch, in those its best single plan fetches.
pub const RATIO_MAX: f64 = 2.0;

/// One shape's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fetched {
    /// The shape, in words.
    pub shape: String,
    /// Documents the result has, or counts.
    pub results: u64,
    /// Documents that came from the server.
    pub fetched: u64,
    /// Documents the best single plan fetches.
    pub best: u64,
    /// Which plan that is.
    pub best_plan: String,
    /// Which plan was taken.
    pub plan: String,
    /// The median of how long it takes; none if nothing was timed.
    pub milliseconds: Option<f64>,
}

impl Fetched {
    /// Documents fetched for each that the best plan fetches; where that one fetches none, for one.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.fetched as f64 / self.best.max(1) as f64
    }
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum PlansError {
    /// No process, or no reply.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The result is not that of the plaintext.
    #[error("{shape}: {found} results where the plaintext has {expected}")]
    Wrong {
        /// Of which shape.
        shape: String,
        /// Results there are.
        expected: u64,
        /// Results that came.
        found: u64,
    },
}

impl From<ClientError> for PlansError {
    fn from(error: ClientError) -> Self {
        Self::Service(error.into())
    }
}

/// A proxy and its server, of these executables, with data of their own.
pub struct Started(Installation);

impl std::fmt::Debug for Started {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Started").field(&self.address()).finish()
    }
}

impl Started {
    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> &str {
        self.0.address()
    }
}

/// Starts a proxy and its server.
///
/// # Errors
/// [`PlansError::Service`].
pub fn start(executables: &Path) -> Result<Started, PlansError> {
    Ok(Started(Installation::start(executables)?))
}

/// Loads data through the front end at an address and measures each shape; times it if `timed`.
///
/// # Errors
/// [`PlansError`]: also if a result is not that of the plaintext.
pub fn fetched(
    address: &str,
    documents: usize,
    seed: u64,
    timed: bool,
    tell: &dyn Fn(&str),
) -> Result<Vec<Fetched>, PlansError> {
    let mut client = WireClient::connect(address, PATIENCE).map_err(ServiceError::from)?;
    let data = data::orders(documents, seed);
    tell(&format!("{documents} documents"));
    insert(&mut client, ORDERS, &data)?;
    for index in data::indexes() {
        tell(&format!("index {}", index.name()));
        let spec = index.request();
        client.command(&doc! { "createIndexes": ORDERS, "indexes": [spec], "$db": DATABASE })?;
    }
    let mut figures = Vec::new();
    for shape in shapes::sixteen(&data) {
        let figure = measure(&mut client, &shape, &data, timed)?;
        tell(&format!("{}: {} fetched, {} at best", figure.shape, figure.fetched, figure.best));
        figures.push(figure);
    }
    Ok(figures)
}

/// Times the pairs of queries that are to take about as long as one another, or no longer than a target.
///
/// # Errors
/// [`PlansError`].
pub fn timed(
    address: &str,
    documents: usize,
    seed: u64,
    tell: &dyn Fn(&str),
) -> Result<Vec<Timed>, PlansError> {
    let mut client = WireClient::connect(address, PATIENCE).map_err(ServiceError::from)?;
    timed::lines(&mut client, documents, seed, tell)
}

fn insert(client: &mut WireClient, collection: &str, documents: &[Document]) -> Result<(), PlansError> {
    for batch in documents.chunks(BATCH) {
        client.command(&doc! { "insert": collection, "documents": batch.to_vec(), "$db": DATABASE })?;
    }
    Ok(())
}

fn measure(
    client: &mut WireClient,
    shape: &Shape,
    data: &[Document],
    timed: bool,
) -> Result<Fetched, PlansError> {
    let best = oracle::best(shape, data, &data::indexes());
    let command = shape.command(ORDERS);
    let explain = doc! { "explain": &command, "verbosity": "executionStats", "$db": DATABASE };
    let reply = client.command(&explain)?;
    let number = |document: Option<&Document>, name: &str| {
        document.and_then(|found| found.get(name)).and_then(as_u64).unwrap_or(u64::MAX)
    };
    let stats = reply.get_document("executionStats").ok();
    let results = match shape.kind {
        Kind::Find { .. } => number(stats, "nReturned"),
        Kind::Count => number(stats.and_then(|s| s.get_document("executionStages").ok()), "nCounted"),
    };
    if results != best.results {
        return Err(PlansError::Wrong { shape: shape.name.into(), expected: best.results, found: results });
    }
    let mut command = command;
    command.insert("$db", DATABASE);
    let milliseconds = if timed { Some(median_ms(client, &command)?) } else { None };
    Ok(Fetched {
        shape: shape.name.to_owned(),
        results,
        fetched: number(stats, "totalDocsExamined"),
        best: best.fetched,
        best_plan: best.plan,
        plan: plan_of(&reply),
        milliseconds,
    })
}

fn as_u64(value: &bson::Bson) -> Option<u64> {
    match value {
        bson::Bson::Int32(number) => u64::try_from(*number).ok(),
        bson::Bson::Int64(number) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// The indexes a plan uses, as `explain` names them.
fn plan_of(reply: &Document) -> String {
    let indexes = reply.get_document("arras").and_then(|arras| arras.get_array("indexes"));
    let named = indexes.into_iter().flatten();
    let names: Vec<&str> = named.filter_map(|index| index.as_document()?.get_str("index").ok()).collect();
    if names.is_empty() { "scan or _id".to_owned() } else { names.join(" and ") }
}

/// How long a command takes with its cursor read to the end, in the middle of several times.
fn median_ms(client: &mut WireClient, command: &Document) -> Result<f64, PlansError> {
    let (mut times, began) = (Vec::new(), Instant::now());
    while times.len() < TIMES && (times.is_empty() || began.elapsed() < TIME_MAX) {
        times.push(once_ms(client, command)?);
    }
    Ok(median(times))
}

fn once_ms(client: &mut WireClient, command: &Document) -> Result<f64, PlansError> {
    let start = Instant::now();
    if command.contains_key("count") {
        client.command(command)?;
    } else {
        client.query(command)?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e3)
}
