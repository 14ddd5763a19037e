//! Bulk inserts: rate, bytes sent and bytes written as a collection grows.
//!
//! `cargo bench -p arras-lab --bench bulk -- --documents 1000000`
//!
//! Both halves in one process, the server's store on disk, the proxy's in memory unless `--both-on-disk`. Each document
//! is of about 190 bytes with one random number, which has a range index; 2,000 go in one insert. `--searches N` makes N
//! range searches of ten documents at the end, and says what the files come to then. Bytes written are those this
//! process caused the file system to write (`/proc/self/io`).
//!
//! The rate at the end is that of the last quarter, since a line by itself may have or lack a merge of the server's store.
//! A first line and a last one are half a minute apart, and a machine that is shared may be twice as fast in one as in the
//! other (the first line's rate differed by that from run to run). So the first line is measured again in fresh stores, three
//! times before the last quarter and three times behind it, when all merges have ended; its median is what counts.
#![allow(missing_docs, clippy::print_stdout)]

use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_engine::channel::ServerChannel;
use arras_engine::{Engine, Settings};
use arras_lab::channel::{Counting, Direct, Traffic, TrafficTally};
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
use std::time::{Duration, Instant};

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

/// Waits until this process does nothing, merges of its stores among it.
async fn quiet() {
    const PAUSE: Duration = Duration::from_millis(300);
    loop {
        let before = processor_us();
        tokio::time::sleep(PAUSE).await;
        // The clock of processors ticks in 10,000.
        if processor_us() - before <= 10_000 {
            return;
        }
    }
}

/// What was measured over some documents: the rate, and bytes a document.
#[derive(Clone, Copy)]
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
    /// Prints the figures of the end beside what they are to come to at a million documents; fails there if they do not.
    /// `firsts` are first lines, of this store and of fresh ones.
    fn judge(windows: &[Self], firsts: &[Self], done: u64) -> Result<(), Box<dyn Error>> {
        let ([first, ..], [.., last]) = (windows, windows) else { return Ok(()) };
        let quarter = &windows[windows.len() - windows.len().div_ceil(4)..];
        // Lines are of as many documents each: the time they took together.
        let rate = quarter.len() as f64 / quarter.iter().map(|window| 1.0 / window.rate).sum::<f64>();
        let of_first = median(firsts.iter().map(|window| window.rate).collect());
        let processor = quarter.iter().map(|window| window.processor).sum::<f64>() / quarter.len() as f64;
        let processor_of_first = median(firsts.iter().map(|window| window.processor).collect());
        println!("\n| at the end | | to be at a million documents |\n|---|---|---|");
        println!(
            "| rate of the last quarter ({rate:.0}) against the first line's ({of_first:.0}) | {:.2} | at least 0.6 |",
            rate / of_first
        );
        println!("| the last line's against this store's first | {:.2} | |", last.rate / first.rate);
        println!(
            "| processor's time a document, quarter against first | {:.2} | |",
            processor / processor_of_first
        );
        println!("| bytes sent a document | {} | at most 3000 |", last.sent);
        println!("| bytes written a document | {} | at most 10000 |", last.written);
        println!("| bytes of the server's files a document | {} | at most 1200 |", last.files);
        let is_met =
            rate >= 0.6 * of_first && last.sent <= 3000 && last.written <= 10_000 && last.files <= 1200;
        if is_met || done < 1_000_000 {
            return Ok(());
        }
        Err("the figures at the end are not what they are to be".into())
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
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

/// What is measured: the whole system over one store.
struct Measured<S: Storage, C: ServerChannel> {
    engine: Engine<S, C>,
    tally: TrafficTally,
    store: PathBuf,
    random: Prg,
    done: u64,
}

/// What had been sent and written, and the processor's time, when something began.
struct Mark {
    began: Instant,
    traffic: Traffic,
    written: u64,
    processor: u64,
}

async fn open<S: Storage>(
    arguments: &Arguments,
    folder: &Path,
    local: S,
) -> Result<Measured<S, Counting<Direct<Embedded>>>, Box<dyn Error>> {
    let store = folder.join("server");
    let channel = Arc::new(Counting::new(Direct::new(open_server(&store)?)));
    let tally = channel.tally();
    let mut settings = Settings::default();
    settings.range.bucket_factor = arguments.bucket_factor.unwrap_or(settings.range.bucket_factor);
    let engine = one_process::open(folder, local, channel, settings).await?;
    if !arguments.index_last {
        create_index(&engine, arguments.plain).await?;
    }
    Ok(Measured { engine, tally, store, random: Prg::new(&[1; 16]), done: 0 })
}

impl<S: Storage, C: ServerChannel> Measured<S, C> {
    fn mark(&self) -> Mark {
        Mark {
            began: Instant::now(),
            traffic: self.tally.traffic(),
            written: written(),
            processor: processor_us(),
        }
    }

    /// Prints and returns what `count` documents took since `before`.
    fn line(&self, called: &str, count: u64, before: &Mark) -> Window {
        let traffic = self.tally.traffic() - before.traffic;
        let (length, blocks) = files(&self.store);
        let window = Window {
            rate: count as f64 / before.began.elapsed().as_secs_f64(),
            processor: (processor_us() - before.processor) as f64 / count as f64,
            sent: traffic.sent_bytes / count,
            written: (written() - before.written) / count,
            files: blocks / self.done,
        };
        let Window { rate, processor, sent, written, files } = window;
        let (received, length) = (traffic.received_bytes / count, length / self.done);
        println!(
            "| {called} | {rate:.0} | {processor:.1} | {sent} | {received} | {written} | {length} ({files}) |"
        );
        window
    }

    /// Inserts the documents of one line.
    async fn window(&mut self, arguments: &Arguments, called: &str) -> Result<Window, Box<dyn Error>> {
        let (before, first) = (self.mark(), self.done);
        while self.done < arguments.documents && self.done - first < arguments.window {
            let ids = self.done..self.done + arguments.batch;
            let batch = ids.map(|id| document(id, &mut self.random)).collect();
            self.engine.insert(&namespace(), InsertStatement::of(batch, true)?).await?;
            self.done += arguments.batch;
        }
        let called = if called.is_empty() { self.done.to_string() } else { called.to_owned() };
        Ok(self.line(&called, self.done - first, &before))
    }

    /// Searches, and says what that comes to.
    async fn search(&mut self, searches: u64) -> Result<(), Box<dyn Error>> {
        let before = self.mark();
        let rate = search(&self.engine, searches, self.done, &mut self.random).await?;
        let traffic = self.tally.traffic() - before.traffic;
        let (length, blocks) = files(&self.store);
        println!(
            "{searches} searches: {rate:.0} a second, {} B sent, {} B received, {} B written each; files {} ({}) B a document",
            traffic.sent_bytes / searches,
            traffic.received_bytes / searches,
            (written() - before.written) / searches,
            length / self.done,
            blocks / self.done,
        );
        Ok(())
    }
}

/// First lines of three fresh stores, when nothing else goes on.
async fn first_lines(arguments: &Arguments, folder: &Path) -> Result<Vec<Window>, Box<dyn Error>> {
    let mut lines = Vec::new();
    for _ in 0..3 {
        quiet().await;
        let folder = tempfile::tempdir_in(folder)?;
        let line = if arguments.both_on_disk {
            let local = Embedded::open(&folder.path().join("proxy"))?;
            open(arguments, folder.path(), local).await?.window(arguments, "first").await?
        } else {
            open(arguments, folder.path(), Memory::new()).await?.window(arguments, "first").await?
        };
        lines.push(line);
    }
    quiet().await;
    Ok(lines)
}

async fn measure<S: Storage>(arguments: &Arguments, folder: &Path, local: S) -> Result<(), Box<dyn Error>> {
    let mut measured = open(arguments, folder, local).await?;
    print_header();
    let lines = arguments.documents.div_ceil(arguments.window);
    let is_judged = !arguments.index_last && !arguments.plain;
    let (mut windows, mut firsts) = (Vec::new(), Vec::new());
    for number in 0..lines {
        if is_judged && number == lines - lines.div_ceil(4) {
            firsts.extend(first_lines(arguments, folder).await?);
        }
        windows.push(measured.window(arguments, "").await?);
    }
    if is_judged {
        firsts.extend(first_lines(arguments, folder).await?);
        firsts.extend(windows.first());
        Window::judge(&windows, &firsts, measured.done)?;
    }
    if arguments.index_last {
        let before = measured.mark();
        create_index(&measured.engine, arguments.plain).await?;
        println!("index:");
        measured.line("all", measured.done, &before);
    }
    if arguments.searches > 0 {
        measured.search(arguments.searches).await?;
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
