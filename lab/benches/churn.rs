//! What a history leaves behind: an equality search after many updates, and the proxy's own store after long churn at
//! a constant number of documents.
//!
//! `cargo bench -p arras-lab --bench churn -- --minutes 15`
//!
//! Both halves in one process, the proxy's store on disk, the server's in memory, so that the proxy's has as much to do
//! as it can have. First a document's value goes away and comes back `--updates` times beside one that stays: searches
//! for both values, each with one match, are timed in turns. Then `--live` documents with two equality indexes, of
//! values that are one document's alone and of values that many share, are replaced one by one for `--minutes`; a line
//! for each minute. Targets: a search for the worn value takes at most 1.5 times one for the fresh value; the proxy's
//! store at the end is at most 1.25 times what it was after the first fifth.
#![allow(missing_docs, clippy::print_stdout)]

use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_documents::update::{ArrayFilters, Update};
use arras_engine::{Engine, Settings};
use arras_lab::channel::Direct;
use arras_lab::one_process;
use arras_primitives::prg::Prg;
use arras_server::Backend;
use arras_service::interrupt::Interrupt;
use arras_service::store::{
    Cursor, DeleteStatement, IndexDefinition, InsertStatement, Namespace, Query, Store, UpdateStatement,
};
use arras_storage::{Embedded, Memory};
use bson::{Bson, Document, doc};
use clap::Parser;
use std::error::Error;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

type System = Engine<Embedded, Direct<Memory>>;

/// Searches of each value that are timed.
const SEARCHES: usize = 2000;
/// How much longer a search for the worn value may take.
const SEARCH_FACTOR: f64 = 1.5;
/// How much the proxy's store may grow after the first fifth of the churn.
const GROWTH_FACTOR: f64 = 1.25;

#[derive(Parser, Clone)]
struct Arguments {
    /// How often the value goes away and comes back.
    #[arg(long, default_value_t = 20_000)]
    updates: u64,
    /// How long documents are replaced.
    #[arg(long, default_value_t = 15)]
    minutes: u64,
    /// How many there are.
    #[arg(long, default_value_t = 12_000)]
    live: i64,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn namespace(collection: &str) -> Namespace {
    Namespace { database: "bench".into(), collection: collection.into() }
}

async fn open(folder: &Path) -> Result<System, Box<dyn Error>> {
    let server = Arc::new(Backend::open(Memory::new(), [1; 16])?);
    let channel = Arc::new(Direct::new(server));
    let local = Embedded::open(&folder.join("proxy"))?;
    Ok(one_process::open(folder, local, channel, Settings::default()).await?)
}

async fn create_indexes(engine: &System, ns: &Namespace, fields: &[&str]) -> Result<(), Box<dyn Error>> {
    let request = |field: &&str| IndexDefinition {
        name: (*field).into(),
        key: doc! { *field: 1 },
        unique: false,
        sparse: false,
        options: doc! { "storageEngine": { "arras": { "operations": ["eq"] } } },
    };
    engine.create_indexes(ns, fields.iter().map(request).collect(), Interrupt::default()).await?;
    Ok(())
}

async fn find(engine: &System, ns: &Namespace, filter: Document) -> Result<usize, Box<dyn Error>> {
    let filter = Filter::parse(&filter)?;
    let query =
        Query { filter, sort: Sort::default(), skip: 0, limit: None, hint: None, allow_disk_use: true };
    Ok(engine.find(ns, query).await?.next_batch(1000, 1 << 24).await?.len())
}

/// Gives a document a value.
async fn set(engine: &System, ns: &Namespace, id: i64, value: &str) -> Result<(), Box<dyn Error>> {
    let statement = UpdateStatement {
        filter: Filter::parse(&doc! { "_id": id })?,
        update: Update::parse(&Bson::Document(doc! { "$set": { "value": value } }))?,
        hint: None,
        array_filters: ArrayFilters::default(),
        multi: false,
        upsert: None,
        interrupt: Interrupt::default(),
    };
    engine.update(ns, statement).await?;
    Ok(())
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(0.0, Duration::as_secs_f64)
}

/// Searches for a value that went and came back, against one that stayed; true if the target is met.
async fn searches(engine: &System, updates: u64) -> Result<bool, Box<dyn Error>> {
    let ns = namespace("worn");
    create_indexes(engine, &ns, &["value"]).await?;
    let documents =
        (0..1000_i64).map(|id| doc! { "_id": id, "value": format!("value {id}"), "note": "x".repeat(100) });
    engine.insert(&ns, InsertStatement::of(documents.collect(), true)?).await?;
    let began = Instant::now();
    for _ in 0..updates {
        set(engine, &ns, 1, "elsewhere").await?;
        set(engine, &ns, 1, "value 1").await?;
    }
    println!("{updates} times away and back in {:.0} s", began.elapsed().as_secs_f64());
    let (mut worn, mut fresh) = (Vec::new(), Vec::new());
    for turn in 0..2 * SEARCHES {
        let (value, times) = if turn % 2 == 0 { ("value 1", &mut worn) } else { ("value 2", &mut fresh) };
        let began = Instant::now();
        let found = find(engine, &ns, doc! { "value": value }).await?;
        times.push(began.elapsed());
        if found != 1 {
            return Err(format!("{found} documents have {value}").into());
        }
    }
    let (worn, fresh) = (median(worn), median(fresh));
    let factor = worn / fresh;
    println!(
        "equality search with one match, median of {SEARCHES}: {:.0} µs worn, {:.0} µs fresh: {factor:.2} (at most {SEARCH_FACTOR})",
        worn * 1e6,
        fresh * 1e6
    );
    Ok(factor <= SEARCH_FACTOR)
}

/// The log of a store, which takes what its bound allows whatever the store holds: beside it a store that grew would look flat.
const LOG: &str = "arras.wal";

/// Bytes on the device of a folder's files but the log, and of the log.
fn on_device(folder: &Path) -> (u64, u64) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let (logs, others): (Vec<_>, Vec<_>) = entries.partition(|entry| entry.file_name() == LOG);
    let bytes = |entries: Vec<std::fs::DirEntry>| {
        entries.iter().filter_map(|entry| entry.metadata().ok()).map(|file| file.blocks() * 512).sum()
    };
    (bytes(others), bytes(logs))
}

fn replaced(id: i64, random: &mut Prg) -> Document {
    let number = random.next_u64();
    doc! {
        "_id": id,
        "own": format!("{number:016x}"),
        "shared": i64::try_from(number % 100).unwrap_or(0),
        "note": "x".repeat(100),
    }
}

/// Replaces documents, each by one of another `_id` and other values; true if the target is met.
async fn churn(engine: &System, folder: &Path, arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let ns = namespace("churn");
    create_indexes(engine, &ns, &["own", "shared"]).await?;
    let mut random = Prg::new(&[2; 16]);
    for first in (0..arguments.live).step_by(2000) {
        let last = arguments.live.min(first + 2000);
        let documents = (first..last).map(|id| replaced(id, &mut random)).collect();
        engine.insert(&ns, InsertStatement::of(documents, true)?).await?;
    }
    println!("| minute | replaced | proxy's store, KiB on the device | its log |");
    println!("|---|---|---|---|");
    let (began, mut next, mut sizes) = (Instant::now(), arguments.live, Vec::new());
    for minute in 1..=arguments.minutes {
        while began.elapsed() < Duration::from_secs(60 * minute) {
            engine.insert(&ns, InsertStatement::of(vec![replaced(next, &mut random)], true)?).await?;
            let filter = Filter::parse(&doc! { "_id": next - arguments.live })?;
            let interrupt = Interrupt::default();
            engine.delete(&ns, DeleteStatement { filter, hint: None, multi: false, interrupt }).await?;
            if next % 50 == 0 {
                // Cleanup comes behind searches.
                let shared = i64::try_from(random.next_u64() % 100)?;
                find(engine, &ns, doc! { "shared": shared }).await?;
            }
            next += 1;
        }
        let (size, log) = on_device(&folder.join("proxy"));
        println!("| {minute} | {} | {} | {} |", next - arguments.live, size >> 10, log >> 10);
        sizes.push(size);
    }
    let after_a_fifth = sizes.get(sizes.len() / 5).copied().unwrap_or(0);
    let growth = sizes.last().copied().unwrap_or(0) as f64 / after_a_fifth.max(1) as f64;
    println!("proxy's store at the end against after a fifth: {growth:.2} (at most {GROWTH_FACTOR})");
    Ok(growth <= GROWTH_FACTOR)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let folder = tempfile::tempdir()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let engine = open(folder.path()).await?;
        let as_fast = searches(&engine, arguments.updates).await?;
        let flat = arguments.minutes == 0 || churn(&engine, folder.path(), &arguments).await?;
        if as_fast && flat { Ok(()) } else { Err("a target is missed".into()) }
    })
}
