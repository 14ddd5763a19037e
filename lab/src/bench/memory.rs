//! What the proxy's process takes in memory under loads that would have it hold much, and what another client waits
//! beside heavy filters. Real processes; a new proxy for each line, as what one load leaves is not the next one's.

use super::installation::{Installation, ServiceError};
use crate::wire_client::{ClientError, WireClient};
use bson::{Bson, Document, doc};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const DATABASE: &str = "bench";
const BULK: &str = "bulk";
/// Bytes of a document's body.
const BODY_BYTES: usize = 1000;
/// Documents of one insert.
const BATCH: u64 = 2000;
/// Cursors that wait, and documents they are on.
const CURSORS: i32 = 1000;
const CURSOR_DOCUMENTS: u64 = 2000;
/// Clients that do not read.
const SILENT: usize = 30;
/// How long they do not.
const SILENCE: Duration = Duration::from_secs(8);
/// How long a new proxy is left alone before its load: its store takes up what the log holds.
const REST: Duration = Duration::from_secs(4);
/// Documents that heavy filters look at, values of one, and how many there are at a time.
const FILTERED: u64 = 60_000;
const MEMBERS: u64 = 100_000;
const HEAVY: u64 = 8;
/// How long another client is watched beside them.
const WATCHED: Duration = Duration::from_secs(20);

/// What is asked for.
#[derive(Clone, Debug)]
pub struct MemoryBench {
    /// Executables: `arras`, `arras-server`.
    pub directory: PathBuf,
    /// Megabytes of documents in the large collection.
    pub megabytes: u64,
}

/// A figure and what it is to be at most.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Of what.
    pub what: String,
    /// At most.
    pub target: f64,
    /// What was measured.
    pub measured: f64,
    /// `MB` or `ms`.
    pub unit: &'static str,
}

/// The most memory a process has had resident, in megabytes.
fn peak_megabytes(process: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) / 1024.0
}

fn command(mut command: Document) -> Document {
    command.insert("$db", DATABASE);
    command
}

fn document(number: u64) -> Document {
    let number = number.cast_signed();
    doc! { "_id": number, "group": number / 10, "body": format!("{number:020}").repeat(BODY_BYTES / 20) }
}

fn fill(
    client: &mut WireClient,
    collection: &str,
    count: u64,
    make: fn(u64) -> Document,
) -> Result<(), ClientError> {
    for first in (0..count).step_by(BATCH as usize) {
        let documents: Vec<Document> = (first..count.min(first + BATCH)).map(make).collect();
        client.command(&command(doc! { "insert": collection, "documents": documents }))?;
    }
    Ok(())
}

/// Runs a query to its end without keeping what comes; how many documents came.
fn drain(client: &mut WireClient, query: &Document) -> Result<u64, ClientError> {
    let malformed = |_| ClientError::Wire("no cursor".into());
    let (mut reply, mut count) = (client.command(query)?, 0);
    loop {
        let cursor = reply.get_document("cursor").map_err(malformed)?;
        let batch = cursor.get_array("firstBatch").or_else(|_| cursor.get_array("nextBatch"));
        count += batch.map_err(malformed)?.len() as u64;
        let id = cursor.get_i64("id").map_err(malformed)?;
        if id == 0 {
            return Ok(count);
        }
        reply = client.command(&command(doc! { "getMore": id, "collection": BULK }))?;
    }
}

/// From now on a process has had no more resident than it has.
fn forget_peak(process: u32) -> Result<(), ServiceError> {
    // `proc_pid_clear_refs(5)`: 5 resets `VmHWM`.
    fs::write(format!("/proc/{process}/clear_refs"), "5")
        .map_err(|source| ServiceError::Process { what: "resetting the peak of memory".into(), source })
}

/// What a new proxy takes in memory to take up its store after one that was killed.
fn opening_peak(installation: &mut Installation) -> Result<f64, ServiceError> {
    installation.restart_proxy()?;
    // It serves: the store is open.
    installation.client()?.command(&command(doc! { "ping": 1 }))?;
    Ok(peak_megabytes(installation.proxy_process()))
}

/// Does something with a new proxy; what it has in memory at most meanwhile.
fn peak(
    installation: &mut Installation,
    load: impl FnOnce(&Installation) -> Result<(), ServiceError>,
) -> Result<f64, ServiceError> {
    opening_peak(installation)?;
    thread::sleep(REST);
    forget_peak(installation.proxy_process())?;
    load(installation)?;
    Ok(peak_megabytes(installation.proxy_process()))
}

fn idle_cursors(installation: &Installation) -> Result<(), ServiceError> {
    let mut client = installation.client()?;
    for _ in 0..CURSORS {
        client.command(&command(doc! { "find": "few", "batchSize": 2 }))?;
    }
    Ok(())
}

fn silent_clients(installation: &Installation) -> Result<(), ServiceError> {
    let mut clients = Vec::new();
    for _ in 0..SILENT {
        let mut client = installation.client()?;
        client.send(&command(doc! { "find": BULK, "batchSize": 1_000_000 }))?;
        clients.push(client);
    }
    thread::sleep(SILENCE);
    Ok(())
}

fn one(installation: &Installation, asked: Document) -> Result<(), ServiceError> {
    installation.client()?.command(&command(asked))?;
    Ok(())
}

/// Measures memory, telling `tell` what comes next.
///
/// # Errors
/// [`ServiceError`].
pub fn run(bench: &MemoryBench, tell: &dyn Fn(&str)) -> Result<Vec<Figure>, ServiceError> {
    let mut installation = Installation::start(&bench.directory)?;
    let count = bench.megabytes * 1024 * 1024 / BODY_BYTES as u64;
    tell("inserting");
    fill(&mut installation.client()?, BULK, count, document)?;
    fill(&mut installation.client()?, "few", CURSOR_DOCUMENTS, document)?;
    let mut figures = Vec::new();
    let mut figure = |what: &str, target: f64, measured: f64| {
        tell(what);
        figures.push(Figure { what: what.to_owned(), target, measured, unit: "MB" });
    };
    figure("opening after a kill", f64::INFINITY, opening_peak(&mut installation)?);
    tell("cursors and silent clients");
    figure("1,000 idle cursors on 2,000 documents", 150.0, peak(&mut installation, idle_cursors)?);
    figure("30 clients that do not read batches of 16 MB", 600.0, peak(&mut installation, silent_clients)?);
    let found = peak(&mut installation, |installation| {
        let met = drain(&mut installation.client()?, &command(doc! { "find": BULK }))?;
        assert_eq!(met, count, "documents are missing");
        Ok(())
    });
    figure("find({}), read to its end", 600.0, found?);
    let sum = doc! { "_id": "$group", "n": { "$sum": 1 }, "last": { "$max": "$body" } };
    let group = command(doc! { "aggregate": BULK, "pipeline": [{ "$group": sum }], "cursor": {} });
    let grouped = peak(&mut installation, |installation| {
        let met = drain(&mut installation.client()?, &group)?;
        assert_eq!(met, count.div_ceil(10), "groups are missing");
        Ok(())
    });
    figure("$group, a group for ten documents", 600.0, grouped?);
    let update = doc! { "q": {}, "u": { "$set": { "group": -1 } }, "multi": true };
    let updated = peak(&mut installation, |now| one(now, doc! { "update": BULK, "updates": [update] }));
    figure("updateMany({}, …)", 600.0, updated?);
    let delete = doc! { "q": {}, "limit": 0 };
    let deleted = peak(&mut installation, |now| one(now, doc! { "delete": BULK, "deletes": [delete] }));
    figure("deleteMany({})", 600.0, deleted?);
    Ok(figures)
}

/// The heavy filter of a number: `$in` of very many strings, or what no index serves.
fn heavy(number: u64) -> Document {
    match number % 2 {
        0 => {
            let members = (0..MEMBERS).map(|member| Bson::String(format!("absent {number} {member}")));
            doc! { "name": { "$in": members.collect::<Vec<_>>() } }
        }
        _ => {
            doc! { "$or": [{ "body": { "$regex": "z[0-9]*z" } }, { "number": { "$mod": [70_000, 69_999] } }] }
        }
    }
}

/// Measures what another client waits beside heavy filters: the median, and what one read in a hundred exceeds.
///
/// # Errors
/// [`ServiceError`].
pub fn beside_heavy_filters(directory: &Path, tell: &dyn Fn(&str)) -> Result<Vec<Figure>, ServiceError> {
    let installation = Installation::start(directory)?;
    tell("another client beside heavy filters");
    let make = |number: u64| {
        let number = number.cast_signed();
        let body = format!("{number:020}").repeat(5);
        doc! { "_id": number, "number": number, "name": format!("name {number}"), "body": body }
    };
    fill(&mut installation.client()?, "filtered", FILTERED, make)?;
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut waits = thread::scope(|scope| -> Result<Vec<Duration>, ServiceError> {
        let workers: Vec<_> = (0..HEAVY)
            .map(|number| {
                let (installation, stop, done) = (&installation, &stop, &done);
                scope.spawn(move || -> Result<(), ServiceError> {
                    let mut client = installation.client()?;
                    let query = command(doc! { "find": "filtered", "filter": heavy(number) });
                    while !stop.load(Ordering::Relaxed) {
                        client.command(&query)?;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(())
                })
            })
            .collect();
        let mut client = installation.client()?;
        let (began, mut waits) = (Instant::now(), Vec::new());
        while began.elapsed() < WATCHED {
            let id = (waits.len() as u64 * 7919 % FILTERED).cast_signed();
            let asked = Instant::now();
            client.command(&command(doc! { "find": "filtered", "filter": { "_id": id }, "limit": 1 }))?;
            waits.push(asked.elapsed());
            thread::sleep(Duration::from_millis(2));
        }
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            let ended = worker.join();
            ended.unwrap_or_else(|_| Err(ClientError::Wire("a client panicked".into()).into()))?;
        }
        Ok(waits)
    })?;
    waits.sort();
    let at = |place: usize| waits.get(place).map_or(f64::NAN, |wait| wait.as_secs_f64() * 1000.0);
    let line = |what: &str, target, measured| Figure { what: what.to_owned(), target, measured, unit: "ms" };
    let beside =
        format!("beside {HEAVY} heavy filters ({} reads, {} filters)", waits.len(), done.into_inner());
    Ok(vec![
        line(&format!("p50 of a read by _id {beside}"), f64::INFINITY, at(waits.len() / 2)),
        line("p99 of them", 100.0, at(waits.len() * 99 / 100)),
        line("the longest of them", f64::INFINITY, at(waits.len().saturating_sub(1))),
    ])
}
