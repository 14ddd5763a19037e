//! ArxRange over the embedded store, both halves in one process: bulk load, short searches, inserts, stored bytes.
//!
//! `cargo bench -p arras-lab --bench arx_range`; `-- VALUES VALUES_B1` sets the number of values with buckets and
//! for B = 1, the paper's index (which stores some sixteen times as much a value). Keys are 12 bytes wide: circuits of
//! 128 bits. The server's time is that of its answer, without a network; writes are synced to the disk.

#![allow(missing_docs, clippy::print_stdout)]

use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::arx_range::{ArxRange as Protocol, Order, Request, Response};
use arras_protocol::write::{self, Step, Write};
use arras_protocol::{Channel, ChannelError, IndexId, OperationId, Refusal, RowId};
use arras_schemes::arx_range::{ArxRange, ArxRangeParameters, Epochs, RangeEntry};
use arras_server::arx_range::{answer, apply};
use arras_server::configuration::CACHE_DEFAULT;
use arras_storage::{Direction, Durability, Embedded, Read, Sizes, Storage, StorageError, Table, Write as _};
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// That of the executables.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const INDEX: IndexId = IndexId([1; 8]);
const TABLES: [&str; 5] =
    ["arx_range_heads", "arx_range_top", "arx_range_nodes", "arx_range_buckets", "arx_range_circuits"];
const TURNS: usize = 2000;
const INSERTS: usize = 400;

/// The server half called directly.
struct Direct {
    store: Embedded,
    searches: Mutex<Vec<Duration>>,
}

fn storage(error: StorageError) -> ChannelError {
    Refusal::Storage(error.to_string()).into()
}

impl Channel<Protocol> for Direct {
    async fn call(&self, request: Request) -> Result<Response, ChannelError> {
        let start = Instant::now();
        let response = answer(&self.store, &request)?;
        if matches!(request, Request::Search { .. }) {
            self.searches.lock().expect("no thread panicked").push(start.elapsed());
        }
        Ok(response)
    }
}

impl Channel<Write> for Direct {
    async fn call(&self, request: write::Request) -> Result<write::Response, ChannelError> {
        let durability = if request.operation.is_some() { Durability::Durable } else { Durability::Relaxed };
        let mut writer = self.store.write().map_err(storage)?;
        for step in &request.steps {
            if let Step::ArxRange(change) = step {
                apply(&mut writer, change)?;
            }
        }
        writer.commit(durability).map_err(storage)?;
        Ok(write::Response { applied: true, commits: 1 })
    }
}

/// What was measured.
struct Measured {
    bucket_factor: u64,
    values: usize,
    load_stage: Duration,
    load_write: Duration,
    load_repair: Duration,
    walk: Vec<Duration>,
    search: Vec<Duration>,
    repair: Vec<Duration>,
    insert: Vec<Duration>,
    insert_repair: Vec<Duration>,
    stored: Vec<(&'static str, u64, u64)>,
    file_bytes: u64,
}

fn key(value: u64) -> Vec<u8> {
    let mut key = vec![0x10];
    key.extend_from_slice(&value.to_be_bytes());
    key.extend_from_slice(&[0; 3]);
    key
}

fn entry(random: &mut Prg) -> RangeEntry {
    let mut row = [0; 16];
    random.fill(&mut row);
    RangeEntry { value: key(random.next_u64()), row: RowId(row), sums: Vec::new() }
}

async fn write(channel: &Direct, sequence: u64, steps: Vec<Step>) {
    let operation = OperationId { epoch: 1, sequence };
    let request =
        write::Request { operation: Some(operation), finished_below: operation, acknowledged: 0, steps };
    Channel::<Write>::call(channel, request).await.expect("the store works");
}

async fn measure(directory: &Path, bucket_factor: u64, values: usize) -> Measured {
    let store =
        Embedded::open_with(directory, Sizes::of_server(CACHE_DEFAULT << 20)).expect("a scratch directory");
    let channel = Arc::new(Direct { store, searches: Mutex::default() });
    let parameters =
        ArxRangeParameters { key_bytes: 12, bucket_factor, top_nodes: 1024, sums: 0, aggregates: false };
    let keys = Key::generate();
    let mut random = Prg::new(&[42; 16]);
    write(&channel, 0, ArxRange::<Direct>::create(INDEX, &keys, parameters, &mut random)).await;
    let epochs = Arc::new(Epochs::new(1));
    let index = ArxRange::open(Arc::clone(&channel), INDEX, &keys, parameters, epochs, &mut random);
    let index = index.await.expect("opens");

    let entries: Vec<RangeEntry> = (0..values).map(|_| entry(&mut random)).collect();
    let start = Instant::now();
    let mut staged = index.stage(entries, Vec::new()).await.expect("stages");
    let load_stage = start.elapsed();
    let start = Instant::now();
    write(&channel, 1, std::mem::take(&mut staged.steps)).await;
    let load_write = start.elapsed();
    let start = Instant::now();
    staged.commit().run().await.expect("repairs");
    let load_repair = start.elapsed();

    let stored = TABLES.iter().map(|table| table_bytes(&channel.store, table)).collect();
    let file_bytes = directory_bytes(directory);

    let (mut search, mut repair) = (Vec::new(), Vec::new());
    channel.searches.lock().expect("no thread panicked").clear();
    for _ in 0..TURNS {
        let low = random.next_u64();
        let high = low.saturating_add(1 << 46);
        let start = Instant::now();
        let found = index.search(key(low), key(high), Order::Ascending, None).await;
        let (_, work) = found.expect("searches");
        search.push(start.elapsed());
        let start = Instant::now();
        work.run().await.expect("repairs");
        repair.push(start.elapsed());
    }
    let walk = std::mem::take(&mut *channel.searches.lock().expect("no thread panicked"));

    let (mut insert, mut insert_repair) = (Vec::new(), Vec::new());
    for turn in 0..INSERTS {
        let start = Instant::now();
        let mut staged = index.stage(vec![entry(&mut random)], Vec::new()).await.expect("stages");
        write(&channel, 2 + turn as u64, std::mem::take(&mut staged.steps)).await;
        let work = staged.commit();
        insert.push(start.elapsed());
        let start = Instant::now();
        work.run().await.expect("repairs");
        insert_repair.push(start.elapsed());
    }
    Measured {
        bucket_factor,
        values,
        load_stage,
        load_write,
        load_repair,
        walk,
        search,
        repair,
        insert,
        insert_repair,
        stored,
        file_bytes,
    }
}

/// Rows, and bytes of keys and values.
fn table_bytes(store: &Embedded, table: &'static str) -> (&'static str, u64, u64) {
    let reader = store.read().expect("the store works");
    let (mut rows, mut bytes) = (0, 0);
    let everything = (Bound::Unbounded, Bound::Unbounded);
    reader
        .scan(Table(table), everything, Direction::Ascending, &mut |key, value| {
            rows += 1;
            bytes += (key.len() + value.len()) as u64;
            ControlFlow::Continue(())
        })
        .expect("the store works");
    (table, rows, bytes)
}

fn directory_bytes(directory: &Path) -> u64 {
    let files = std::fs::read_dir(directory).expect("a scratch directory");
    files.filter_map(|file| file.ok()?.metadata().ok()).map(|metadata| metadata.len()).sum()
}

/// Quantile in microseconds.
fn micros(times: &[Duration], quantile: f64) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = (times.len().saturating_sub(1)) as f64 * quantile;
    times.get(at as usize).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}

fn report(measured: &Measured) {
    let Measured { bucket_factor, values, .. } = measured;
    println!("\nB = {bucket_factor}, {values} values, circuits of 128 bits, c = 1024");
    let (stage, write, repair) = (measured.load_stage, measured.load_write, measured.load_repair);
    println!(
        "  bulk load           {:9.2} s   (staged {:.2}, written {:.2}, circuits {:.2})",
        (stage + write + repair).as_secs_f64(),
        stage.as_secs_f64(),
        write.as_secs_f64(),
        repair.as_secs_f64()
    );
    let rows = [
        ("server's answer", &measured.walk),
        ("search, both halves", &measured.search),
        ("repair", &measured.repair),
        ("insert, synced", &measured.insert),
        ("its repair", &measured.insert_repair),
    ];
    for (name, times) in rows {
        println!("  {name:20}{:9.1} us median {:9.1} us 99 %", micros(times, 0.5), micros(times, 0.99));
    }
    let bytes: u64 = measured.stored.iter().map(|(_, _, bytes)| bytes).sum();
    println!("  stored              {:9.1} bytes a value, {bytes} in all", bytes as f64 / *values as f64);
    for (table, rows, bytes) in &measured.stored {
        println!("    {table:22} {rows:8} rows {:9.1} bytes a value", *bytes as f64 / *values as f64);
    }
    println!("  files               {:9.1} bytes a value", measured.file_bytes as f64 / *values as f64);
    let line = serde_json::json!({
        "benchmark": "arx_range",
        "commit": command("git", &["rev-parse", "HEAD"]),
        "machine": machine(),
        "bucket_factor": bucket_factor,
        "values": values,
        "load_seconds": (stage + write + repair).as_secs_f64(),
        "walk_us_median": micros(&measured.walk, 0.5),
        "walk_us_p99": micros(&measured.walk, 0.99),
        "search_us_median": micros(&measured.search, 0.5),
        "repair_us_median": micros(&measured.repair, 0.5),
        "insert_us_median": micros(&measured.insert, 0.5),
        "insert_repair_us_median": micros(&measured.insert_repair, 0.5),
        "stored_bytes_per_value": bytes as f64 / *values as f64,
        "file_bytes_per_value": measured.file_bytes as f64 / *values as f64,
    });
    println!("{line}");
}

fn command(program: &str, arguments: &[&str]) -> String {
    let output = std::process::Command::new(program).args(arguments).output();
    output.map_or_else(|_| "unknown".into(), |output| String::from_utf8_lossy(&output.stdout).trim().into())
}

fn machine() -> String {
    let about = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = about.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let cores = about.lines().filter(|line| line.starts_with("processor")).count();
    format!("{}, {cores} processors", model.unwrap_or("unknown"))
}

fn main() {
    let mut sizes = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let values = sizes.next().unwrap_or(100_000);
    let values_b1 = sizes.next().unwrap_or(values);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for (bucket_factor, values) in [(16, values), (1, values_b1)] {
        if values > 0 {
            let directory = tempfile::tempdir().expect("a scratch directory");
            report(&runtime.block_on(measure(directory.path(), bucket_factor, values)));
        }
    }
}
