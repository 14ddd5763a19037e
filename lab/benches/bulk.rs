//! Bulk inserts: rate, bytes sent and bytes written as a collection grows.
//!
//! `cargo bench -p arras-lab --bench bulk -- --documents 1000000`
//!
//! Both halves in one process, the server's store on disk, the proxy's in memory unless `--both-on-disk`. Each document
//! is of about 190 bytes with one random number, which has a range index; 2,000 go in one insert. `--searches N` makes N
//! range searches of ten documents at the end, and says what the files come to then. Bytes written are those this
//! process caused the file system to write (`/proc/self/io`).
#![allow(missing_docs, clippy::print_stdout)]

use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_engine::channel::ServerChannel;
use arras_engine::{Engine, Settings};
use arras_lab::channel::{Counting, Direct};
use arras_lab::one_process;
use arras_primitives::prg::Prg;
use arras_server::Backend;
use arras_server::configuration::CACHE_DEFAULT;
use arras_service::interrupt::Interrupt;
use arras_service::store::{Cursor, IndexDefinition, InsertStatement, Namespace, Query, Store};
use arras_storage::{Embedded, Memory, Sizes, Storage};
use bson::{Document, doc};
use clap::Parser;
use std::error::Error;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// That of the executables.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser, Clone)]
struct Arguments {
    /// Documents to insert.
    #[arg(long, default_value_t = 200_000)]
    documents: u64,
    /// Documents of one insert.
    #[arg(long, default_value_t = 2000)]
    batch: u64,
    /// Documents of one line of the table.
    #[arg(long, default_value_t = 50_000)]
    window: u64,
    /// Two fields with plain indexes (for equality and ranges) in place of one range index.
    #[arg(long)]
    plain: bool,
    /// Make the index when all documents are there.
    #[arg(long)]
    index_last: bool,
    /// Range searches at the end.
    #[arg(long, default_value_t = 0)]
    searches: u64,
    /// Entries of a range index's bucket, about; the proxy's default if it is not given.
    #[arg(long)]
    bucket_factor: Option<u64>,
    /// Keep the proxy's own store on disk too.
    #[arg(long)]
    both_on_disk: bool,
    /// Where to keep the stores; a temporary folder if none.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Given by cargo.
    #[arg(long, hide = true)]
    bench: bool,
}

fn namespace() -> Namespace {
    Namespace { database: "bench".into(), collection: "bulk".into() }
}

fn document(id: u64, random: &mut Prg) -> Document {
    let number = random_number(random);
    let id = i64::try_from(id).unwrap_or(i64::MAX);
    doc! {
        "_id": id,
        "number": number,
        "name": format!("{:016x}", number ^ id),
        "note": "x".repeat(72),
        "place": { "x": 1.5, "y": 2.5 },
    }
}

/// From 0 on.
fn random_number(random: &mut Prg) -> i64 {
    (random.next_u64() >> 1).cast_signed()
}

/// Bytes this process has had written.
fn written() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    line.and_then(|bytes| bytes.parse().ok()).unwrap_or(0)
}

/// Microseconds that the processor worked for this process, also for the system on its behalf.
fn processor_us() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // Behind the name, which may hold anything: user's and system's time are the 12th and 13th, in hundredths.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields).split_whitespace().skip(11).take(2);
    fields.filter_map(|ticks| ticks.parse::<u64>().ok()).sum::<u64>() * 10_000
}

/// Bytes of a folder's files: as long as they are, and as they take up on the device.
fn files(directory: &Path) -> (u64, u64) {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .fold((0, 0), |(length, blocks), file| (length + file.len(), blocks + file.blocks() * 512))
}

/// What was measured over some documents: the rate, and bytes a document.
struct Window {
    rate: f64,
    /// Microseconds a document.
    processor: f64,
    sent: u64,
    written: u64,
    /// Of the server's files on the device, of all documents so far.
    files: u64,
}

impl Window {
    /// Prints the figures of the last window beside what they are to come to at a million documents; fails there if they do not.
    fn judge(&self, first: &Self, done: u64) -> Result<(), Box<dyn Error>> {
        println!("\n| of the last line | | to be at a million documents |\n|---|---|---|");
        println!("| rate against the first line's | {:.2} | at least 0.6 |", self.rate / first.rate);
        println!("| processor's time a document against it | {:.2} | |", self.processor / first.processor);
        println!("| bytes sent a document | {} | at most 3000 |", self.sent);
        println!("| bytes written a document | {} | at most 10000 |", self.written);
        println!("| bytes of the server's files a document | {} | at most 1200 |", self.files);
        let is_met = self.rate >= 0.6 * first.rate
            && self.sent <= 3000
            && self.written <= 10_000
            && self.files <= 1200;
        if is_met || done < 1_000_000 {
            return Ok(());
        }
        Err("the last line's figures are not what they are to be".into())
    }
}

/// Begins the table.
fn print_header() {
    println!(
        "| documents | per second | processor us/doc | sent B/doc | received B/doc | written B/doc | files B/doc (on device) |"
    );
    println!("|---|---|---|---|---|---|---|");
}

async fn create_index<S: Storage, C: ServerChannel>(
    engine: &Engine<S, C>,
    plain: bool,
) -> Result<(), Box<dyn Error>> {
    let request = |field: &str, options: Document| IndexDefinition {
        name: field.into(),
        key: doc! { field: 1 },
        unique: false,
        sparse: false,
        options,
    };
    let requests = if plain {
        vec![request("number", Document::new()), request("name", Document::new())]
    } else {
        vec![request("number", doc! { "storageEngine": { "arras": { "operations": ["range"] } } })]
    };
    engine.create_indexes(&namespace(), requests, Interrupt::default()).await?;
    Ok(())
}

/// The server's half, over a store as `arras-server` opens it.
fn open_server(directory: &Path) -> Result<Arc<Backend<Embedded>>, Box<dyn Error>> {
    let store = Embedded::open_with(directory, Sizes::of_server(CACHE_DEFAULT << 20))?;
    Ok(Arc::new(Backend::open(store, [1; 16])?))
}

async fn measure<S: Storage>(arguments: &Arguments, folder: &Path, local: S) -> Result<(), Box<dyn Error>> {
    let store = folder.join("server");
    let channel = Arc::new(Counting::new(Direct::new(open_server(&store)?)));
    let tally = channel.tally();
    let mut settings = Settings::default();
    settings.range.bucket_factor = arguments.bucket_factor.unwrap_or(settings.range.bucket_factor);
    let engine = one_process::open(folder, local, channel, settings).await?;
    if !arguments.index_last {
        create_index(&engine, arguments.plain).await?;
    }
    let mut random = Prg::new(&[1; 16]);
    print_header();
    let mark = || (tally.traffic(), written(), processor_us());
    let line = |done: u64, count: u64, began: Instant, before: (arras_lab::channel::Traffic, u64, u64)| {
        let traffic = tally.traffic() - before.0;
        let (length, blocks) = files(&store);
        let window = Window {
            rate: count as f64 / began.elapsed().as_secs_f64(),
            processor: (processor_us() - before.2) as f64 / count as f64,
            sent: traffic.sent_bytes / count,
            written: (written() - before.1) / count,
            files: blocks / done,
        };
        let Window { rate, processor, sent, written, files } = window;
        let (received, length) = (traffic.received_bytes / count, length / done);
        println!(
            "| {done} | {rate:.0} | {processor:.1} | {sent} | {received} | {written} | {length} ({files}) |"
        );
        window
    };
    let (mut done, mut windows) = (0, Vec::new());
    while done < arguments.documents {
        let (began, before, first) = (Instant::now(), mark(), done);
        while done < arguments.documents && done - first < arguments.window {
            let batch = (done..done + arguments.batch).map(|id| document(id, &mut random)).collect();
            engine.insert(&namespace(), InsertStatement::of(batch, true)?).await?;
            done += arguments.batch;
        }
        windows.push(line(done, done - first, began, before));
    }
    if let ([first, ..], [.., last]) = (windows.as_slice(), windows.as_slice())
        && !arguments.index_last
        && !arguments.plain
    {
        last.judge(first, done)?;
    }
    if arguments.index_last {
        let (began, before) = (Instant::now(), mark());
        create_index(&engine, arguments.plain).await?;
        println!("index:");
        line(done, done, began, before);
    }
    if arguments.searches > 0 {
        let before = mark();
        let rate = search(&engine, arguments.searches, done, &mut random).await?;
        let traffic = tally.traffic() - before.0;
        let (length, blocks) = files(&store);
        println!(
            "{} searches: {rate:.0} a second, {} B sent, {} B received, {} B written each; files {} ({}) B a document",
            arguments.searches,
            traffic.sent_bytes / arguments.searches,
            traffic.received_bytes / arguments.searches,
            (written() - before.1) / arguments.searches,
            length / done,
            blocks / done,
        );
    }
    Ok(())
}

/// Searches ranges of ten of so many documents; how many a second.
async fn search(
    engine: &impl Store,
    searches: u64,
    documents: u64,
    random: &mut Prg,
) -> Result<f64, Box<dyn Error>> {
    let began = Instant::now();
    let width = i64::MAX / i64::try_from(documents.max(10) / 10)?;
    for _ in 0..searches {
        let from = random_number(random).saturating_sub(width).max(0);
        let filter = Filter::parse(&doc! { "number": { "$gte": from, "$lt": from + width } })?;
        let query =
            Query { filter, sort: Sort::default(), skip: 0, limit: None, hint: None, allow_disk_use: true };
        engine.find(&namespace(), query).await?.next_batch(1000, 1 << 24).await?;
    }
    Ok(searches as f64 / began.elapsed().as_secs_f64())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let temporary = tempfile::tempdir()?;
    let folder = arguments.directory.clone().unwrap_or_else(|| temporary.path().to_owned());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    if arguments.both_on_disk {
        let local = Embedded::open(&folder.join("proxy"))?;
        runtime.block_on(measure(&arguments, &folder, local))
    } else {
        runtime.block_on(measure(&arguments, &folder, Memory::new()))
    }
}
