//! What encryption costs an application of PostgreSQL: real processes, PostgreSQL's own settings, its commits on the disk.
//!
//! TPC-C and single insertions run through two proxies in front of one PostgreSQL, one with the sensitive columns declared and one
//! with none; and `pgbench -S` runs directly and through a proxy, by TCP, by sockets, and by a socket to the proxy and TCP behind it. Loads that are compared run in turns, a few rounds, and
//! the median counts. TPC-C's tables are analysed before it begins, as those of a database in use are. How much of an encrypted
//! load goes into rewriting stored encodings (the paper's section VIII, its figure 13) is what PostgreSQL itself says of the
//! function that does it.

mod tpcc;

use super::installation::{Process, ServiceError};
use super::turns::{median, ratio};
use crate::private_postgres::{Options, PostgresError, PrivatePostgres, programs};
use crate::tpcc::TpccError;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio_postgres::{Client, NoTls};

/// Connections of TPC-C and of `pgbench`.
const TERMINALS: u32 = 8;

/// One column with an order beside a plain key.
const INSERTED: &str = r#"
[tables."public.measured"]
value = { id = "70c0000000001001", type = "bigint", operations = ["order"] }
"#;

/// Rows of the table that values are inserted into, made before it is measured.
const INSERTED_BEFORE: i64 = 10_000;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct PostgresBench {
    /// Where `arras` is.
    pub directory: PathBuf,
    /// How long each load runs in each round.
    pub time: Duration,
    /// How often, three turns of TPC-C and of `pgbench -S` each.
    pub rounds: usize,
}

impl PostgresBench {
    /// How often two that are compared take turns.
    const fn turns(&self) -> usize {
        3 * self.rounds
    }
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum PostgresBenchError {
    /// PostgreSQL does not run.
    #[error(transparent)]
    Server(#[from] PostgresError),
    /// The proxy does not.
    #[error(transparent)]
    Proxy(#[from] ServiceError),
    /// A transaction failed.
    #[error(transparent)]
    Tpcc(#[from] TpccError),
    /// What a process has taken of the processor is not known.
    #[error("the processor time of a process: {0}")]
    Processor(#[from] std::io::Error),
    /// A statement failed.
    #[error("a statement failed: {0}")]
    Statement(#[from] tokio_postgres::Error),
    /// `pgbench` failed.
    #[error("pgbench: {0}")]
    Pgbench(String),
}

/// A measured figure.
#[derive(Clone, Debug, Serialize)]
pub struct Figure {
    /// Of what.
    pub what: &'static str,
    /// In what.
    pub unit: &'static str,
    /// How much.
    pub measured: f64,
    /// What it is to be.
    pub target: Target,
}

/// What a figure is to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Target {
    /// It is for orientation.
    None,
    /// That or more.
    AtLeast(f64),
    /// That or less.
    AtMost(f64),
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::AtLeast(least) => write!(f, "at least {least}"),
            Self::AtMost(most) => write!(f, "at most {most}"),
        }
    }
}

impl Figure {
    /// Is it not what it is to be? What was not measured is not.
    #[must_use]
    pub fn is_missed(&self) -> bool {
        match self.target {
            Target::None => false,
            Target::AtLeast(least) => self.measured.is_nan() || self.measured < least,
            Target::AtMost(most) => self.measured.is_nan() || self.measured > most,
        }
    }
}

fn figure(what: &'static str, unit: &'static str, measured: f64, target: Target) -> Figure {
    Figure { what, unit, measured, target }
}

/// A proxy in front of one database.
struct Proxy {
    process: Process,
    database: &'static str,
    _directory: TempDir,
}

impl Proxy {
    fn start(
        executables: &Path,
        server: &PrivatePostgres,
        database: &'static str,
        schema: &str,
    ) -> Result<Self, PostgresBenchError> {
        Self::start_at(executables, ("127.0.0.1:0", &server.uri(database)), database, schema)
    }

    /// The same with where it listens and what it is in front of.
    fn start_at(
        executables: &Path,
        (listen, upstream): (&str, &str),
        database: &'static str,
        schema: &str,
    ) -> Result<Self, PostgresBenchError> {
        let failed = |source| ServiceError::Process { what: "a temporary directory".into(), source };
        let directory = tempfile::tempdir().map_err(failed)?;
        let schema_path = directory.path().join("tables.toml");
        std::fs::write(&schema_path, schema).map_err(failed)?;
        let mut command = Command::new(executables.join("arras"));
        command.args(["postgres", "dev", "--listen", listen, "--upstream", upstream]);
        command.arg("--schema").arg(schema_path);
        command.arg("--data-dir").arg(directory.path().join("data")).env_remove("ARRAS_PASSPHRASE");
        Ok(Self { process: Process::start(command)?, database, _directory: directory })
    }

    fn uri(&self) -> String {
        format!("postgres://postgres@{}/{}", self.process.address, self.database)
    }
}

async fn connect(uri: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(uri, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Milliseconds that a database has spent in rewriting stored encodings.
async fn rewriting(server: &PrivatePostgres, database: &str) -> Result<f64, PostgresBenchError> {
    const ASKED: &str =
        "SELECT coalesce(sum(total_time), 0) FROM pg_stat_user_functions WHERE funcname = 'mope_relabel'";
    let client = connect(&server.uri(database)).await?;
    // What sessions have done is counted when they are idle for a while.
    tokio::time::sleep(Duration::from_millis(1500)).await;
    Ok(client.query_one(ASKED, &[]).await?.get(0))
}

/// Measures everything, telling `tell` what comes next.
///
/// # Errors
/// [`PostgresBenchError`].
pub fn run(bench: &PostgresBench, tell: &dyn Fn(&str)) -> Result<Vec<Figure>, PostgresBenchError> {
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|source| ServiceError::Process { what: "a runtime".into(), source })?;
    runtime.block_on(async {
        let settings = [("track_functions", "all"), ("max_connections", "200")];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let server = PrivatePostgres::start_with(&Options { settings, ..Options::default() })?;
        let mut figures = tpcc::measured(bench, &server, tell).await?;
        figures.extend(insertions(bench, &server, tell).await?);
        figures.extend(pgbench(bench, &server, tell).await?);
        Ok(figures)
    })
}

async fn make_databases(server: &PrivatePostgres, names: &[&str]) -> Result<(), PostgresBenchError> {
    let admin = connect(&server.uri("postgres")).await?;
    for name in names {
        admin.batch_execute(&format!("CREATE DATABASE {name}")).await?;
    }
    Ok(())
}

/// One client that inserts, a row a statement; rows a second.
async fn insert(
    client: &Client,
    next: &mut i64,
    value: &dyn Fn(i64) -> i64,
    time: Duration,
) -> Result<f64, PostgresBenchError> {
    let statement = client.prepare("INSERT INTO measured (key, value) VALUES ($1, $2)").await?;
    let (began, first) = (Instant::now(), *next);
    while began.elapsed() < time {
        client.execute(&statement, &[next, &value(*next)]).await?;
        *next += 1;
    }
    Ok((*next - first) as f64 / began.elapsed().as_secs_f64())
}

/// A permutation of 63 bits: an order without order.
fn scattered(number: i64) -> i64 {
    number.wrapping_mul(0x2545_F491_4F6C_DD1D) & i64::MAX
}

async fn insertions(
    bench: &PostgresBench,
    server: &PrivatePostgres,
    tell: &dyn Fn(&str),
) -> Result<Vec<Figure>, PostgresBenchError> {
    make_databases(server, &["inserted_plain", "inserted_ascending", "inserted_scattered"]).await?;
    let mut figures = Vec::new();
    type Value = fn(i64) -> i64;
    let kinds: [(&'static str, &str, Value, [&'static str; 2], Target); 3] = [
        (
            "inserted_plain",
            "",
            |number| number,
            ["insertions of plaintext through the proxy", ""],
            Target::None,
        ),
        (
            "inserted_ascending",
            INSERTED,
            |number| number,
            [
                "sequential insertions, encrypted",
                "sequential insertions, of the time for rewriting encodings",
            ],
            Target::AtMost(5.0),
        ),
        (
            "inserted_scattered",
            INSERTED,
            scattered,
            ["random insertions, encrypted", "random insertions, of the time for rewriting encodings"],
            Target::None,
        ),
    ];
    for (database, schema, value, [rate_of, share_of], target) in kinds {
        let proxy = Proxy::start(&bench.directory, server, database, schema)?;
        let client = connect(&proxy.uri()).await?;
        client.batch_execute("CREATE TABLE measured (key bigint PRIMARY KEY, value bigint)").await?;
        if !schema.is_empty() {
            client.batch_execute("CREATE INDEX measured_value ON measured (value)").await?;
        }
        let mut next = 0;
        while next < INSERTED_BEFORE {
            let rows: Vec<String> =
                (next..next + 500).map(|key| format!("({key}, {})", value(key))).collect();
            client
                .batch_execute(&format!("INSERT INTO measured (key, value) VALUES {}", rows.join(", ")))
                .await?;
            next += 500;
        }
        let (rates, spent) = match schema {
            "" => (insert(&client, &mut next, &value, bench.time * 2).await?, 0.0),
            _ => {
                let before = rewriting(server, database).await?;
                let rate = insert(&client, &mut next, &value, bench.time * 2).await?;
                (rate, rewriting(server, database).await? - before)
            }
        };
        tell(&format!("{database}: {rates:.0} a second"));
        figures.push(figure(rate_of, "rows/s", rates, Target::None));
        if !share_of.is_empty() {
            let took = bench.time.as_secs_f64() * 2000.0;
            figures.push(figure(share_of, "%", 100.0 * spent / took, target));
        }
    }
    Ok(figures)
}

/// Where `pgbench` connects to: an address or a socket's folder, and the port.
struct Destination {
    host: String,
    port: String,
}

/// `pgbench -S`; transactions a second.
fn selects(to: &Destination, database: &str, time: Duration) -> Result<f64, PostgresBenchError> {
    let failed = |what: &dyn std::fmt::Display| PostgresBenchError::Pgbench(what.to_string());
    // Sockets of the proxy are its own user's.
    let mut pgbench = Command::new(programs()?.join("pgbench"));
    pgbench.args(["-h", &to.host, "-U", "postgres", "-p", &to.port, "-n", "-S", "-M", "prepared", "-j", "1"]);
    pgbench.args(["-c", &TERMINALS.to_string(), "-T", &time.as_secs().max(1).to_string(), database]);
    let output = pgbench.output().map_err(|error| failed(&error))?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let rate = said.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    rate.ok_or_else(|| failed(&String::from_utf8_lossy(&output.stderr)))
}

/// `pgbench -S` directly and through a proxy, both reached by TCP; then with the proxy beside its client, which reaches it by
/// a socket, and PostgreSQL by TCP as before; then all by sockets.
async fn pgbench(
    bench: &PostgresBench,
    server: &PrivatePostgres,
    tell: &dyn Fn(&str),
) -> Result<Vec<Figure>, PostgresBenchError> {
    make_databases(server, &["selected"]).await?;
    let mut fill = server.command("pgbench");
    let port = server.port().to_string();
    fill.args(["-h", "127.0.0.1", "-U", "postgres", "-p", &port, "-i", "-q", "-s", "10", "selected"]);
    fill.output().map_err(|error| PostgresBenchError::Pgbench(error.to_string()))?;
    let loopback = |port: &str| Destination { host: "127.0.0.1".to_owned(), port: port.to_owned() };
    let proxy = Proxy::start(&bench.directory, server, "selected", INSERTED)?;
    let proxied = proxy.process.address.rsplit(':').next().unwrap_or_default();
    let mut figures = compared(
        [loopback(&port), loopback(proxied)],
        [
            "pgbench -S, prepared, direct",
            "pgbench -S, prepared, through the proxy",
            "pgbench -S, through the proxy against direct",
        ],
        bench,
        tell,
    )?;
    drop(proxy);
    let socket =
        |folder: &Path, port: &str| Destination { host: folder.display().to_string(), port: port.to_owned() };
    let folder = tempfile::tempdir()
        .map_err(|source| ServiceError::Process { what: "a temporary directory".into(), source })?;
    let place = format!("{}:{port}", folder.path().display());
    let beside = Proxy::start_at(&bench.directory, (&place, &server.uri("selected")), "selected", INSERTED)?;
    figures.extend(compared(
        [loopback(&port), socket(folder.path(), &port)],
        [
            "pgbench -S, prepared, direct, again",
            "pgbench -S, prepared, through the proxy beside its client",
            "pgbench -S, through the proxy beside its client against direct",
        ],
        bench,
        tell,
    )?);
    drop(beside);
    let direct = socket(server.socket_folder(), &port);
    let upstream = format!("host={} port={port} user=postgres dbname=selected", direct.host);
    let _proxy = Proxy::start_at(&bench.directory, (&place, &upstream), "selected", INSERTED)?;
    figures.extend(compared(
        [direct, socket(folder.path(), &port)],
        [
            "pgbench -S, prepared, direct, by a socket",
            "pgbench -S, prepared, through the proxy, by sockets",
            "pgbench -S, by sockets, through the proxy against direct",
        ],
        bench,
        tell,
    )?);
    Ok(figures)
}

/// `pgbench -S` at both in short turns: the median of each, and that of the ratios of each turn.
fn compared(
    both: [Destination; 2],
    called: [&'static str; 3],
    bench: &PostgresBench,
    tell: &dyn Fn(&str),
) -> Result<Vec<Figure>, PostgresBenchError> {
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..bench.turns() {
        for ((to, what), rates) in both.iter().zip(called).zip(&mut rates) {
            let rate = selects(to, "selected", bench.time / 3)?;
            tell(&format!("{what}: {rate:.0} a second"));
            rates.push(rate);
        }
    }
    let ratio = ratio(&rates[1], &rates[0]);
    let [direct, proxied] = rates.map(median);
    let [direct_called, proxied_called, ratio_called] = called;
    Ok(vec![
        figure(direct_called, "transactions/s", direct, Target::None),
        figure(proxied_called, "transactions/s", proxied, Target::None),
        figure(ratio_called, "ratio", ratio, Target::AtLeast(0.6)),
    ])
}
