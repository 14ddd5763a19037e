//! The access pattern, over any [`Storage`].

use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::time::{Duration, Instant};

use arras_storage::{Direction, Durability, Read, Storage, StorageError, Table, Write};

/// Garbled circuits of a tree index: rewritten whenever a query passes.
const CIRCUITS: Table = Table("circuits");
/// Documents, tokens, counters: written durably in small batches.
const ROWS: Table = Table("rows");

/// Circuits stored; 10 KB on average, so about 200 MB.
const CIRCUIT_COUNT: u64 = 20_000;
const BATCH: u64 = 2000;
const PER_QUERY: u64 = 25;
const QUERIES_PER_DURABLE: u64 = 20;
const REWRITES: u64 = 10;

/// A small generator (splitmix64): the workload must not depend on the speed of a good one.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Incompressible bytes, as ciphertexts are.
    fn bytes(&mut self, low: u64, high: u64) -> Vec<u8> {
        let len = (low + self.below(high - low)) as usize;
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }
}

fn print(name: &str, value: impl std::fmt::Display) {
    println!("{name} {value}");
}

/// Prints the median, 99th percentile and maximum of `times`, in microseconds.
fn print_times(name: &str, mut times: Vec<Duration>) {
    times.sort();
    for (label, position) in
        [("p50", times.len() / 2), ("p99", times.len() * 99 / 100), ("max", times.len() - 1)]
    {
        print(&format!("{name}_us_{label}"), times[position].as_micros());
    }
    print(&format!("{name}_us_mean"), times.iter().sum::<Duration>().as_micros() / times.len() as u128);
}

/// Bytes the files of `directory` occupy on the device.
pub fn bytes_in(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(directory) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// A number the kernel keeps about this process.
fn kernel_count(file: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/self/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// The main phase.
pub fn work(store: &impl Storage, directory: &Path) -> Result<(), StorageError> {
    let mut random = Random(1);
    load(store, &mut random)?;
    print("bytes_loaded", bytes_in(directory));
    mixed(store, &mut random)?;
    let live = live_bytes(store)?;
    print("bytes_live", live);
    print("bytes_rewritten", bytes_in(directory));
    point_reads(store, &mut random)?;
    short_scans(store, &mut random)?;
    relaxed_only(store, &mut random)?;
    print("bytes_relaxed_only", bytes_in(directory));
    print("peak_memory_kib", kernel_count("status", "VmHWM:"));
    print("device_bytes_written", kernel_count("io", "write_bytes:"));
    Ok(())
}

/// Bulk load: circuits and rows in batches, the last one durable.
fn load(store: &impl Storage, random: &mut Random) -> Result<(), StorageError> {
    let start = Instant::now();
    let mut bytes = 0;
    for batch in 0..CIRCUIT_COUNT / BATCH {
        let mut writer = store.write()?;
        for number in batch * BATCH..(batch + 1) * BATCH {
            let circuit = random.bytes(4096, 16_384);
            let row = random.bytes(100, 300);
            bytes += circuit.len() + row.len();
            writer.put(CIRCUITS, &number.to_be_bytes(), &circuit)?;
            // Rows are named by pseudorandom labels.
            writer.put(ROWS, &Random(number).next().to_be_bytes(), &row)?;
        }
        writer.commit(Durability::Relaxed)?;
    }
    store.write()?.commit(Durability::Durable)?;
    print("load_mb_per_s", (bytes as f64 / 1e6 / start.elapsed().as_secs_f64()).round());
    Ok(())
}

/// One range query: read and rewrite the circuits on a path.
fn query(store: &impl Storage, random: &mut Random) -> Result<u64, StorageError> {
    let mut writer = store.write()?;
    let mut bytes = 0;
    for _ in 0..PER_QUERY {
        let name = random.below(CIRCUIT_COUNT).to_be_bytes();
        let old = writer.get(CIRCUITS, &name)?;
        assert!(old.is_some(), "a circuit is missing");
        let circuit = random.bytes(4096, 16_384);
        bytes += circuit.len() as u64;
        writer.put(CIRCUITS, &name, &circuit)?;
    }
    writer.commit(Durability::Relaxed)?;
    Ok(bytes)
}

fn durable_batch(store: &impl Storage, random: &mut Random) -> Result<u64, StorageError> {
    let mut writer = store.write()?;
    let mut bytes = 0;
    for _ in 0..5 + random.below(46) {
        let row = random.bytes(100, 4096);
        bytes += row.len() as u64;
        let owner = random.below(CIRCUIT_COUNT);
        writer.put(ROWS, &Random(owner).next().to_be_bytes(), &row)?;
    }
    writer.commit(Durability::Durable)?;
    Ok(bytes)
}

/// Queries with durable batches between them, until every circuit was rewritten ten times on average.
fn mixed(store: &impl Storage, random: &mut Random) -> Result<(), StorageError> {
    let (mut relaxed, mut durable) = (Vec::new(), Vec::new());
    let start = Instant::now();
    let mut bytes = 0;
    for number in 0..CIRCUIT_COUNT * REWRITES / PER_QUERY {
        let begin = Instant::now();
        bytes += query(store, random)?;
        relaxed.push(begin.elapsed());
        if number % QUERIES_PER_DURABLE == 0 {
            let begin = Instant::now();
            bytes += durable_batch(store, random)?;
            durable.push(begin.elapsed());
        }
    }
    print("mixed_s", format!("{:.2}", start.elapsed().as_secs_f64()));
    print("mixed_bytes_put", bytes);
    print_times("relaxed_query", relaxed);
    print_times("durable_batch", durable);
    let mut alone = Vec::new();
    for _ in 0..300 {
        let begin = Instant::now();
        durable_batch(store, random)?;
        alone.push(begin.elapsed());
    }
    print_times("durable_alone", alone);
    Ok(())
}

fn relaxed_only(store: &impl Storage, random: &mut Random) -> Result<(), StorageError> {
    let mut times = Vec::new();
    for _ in 0..2 * CIRCUIT_COUNT / PER_QUERY {
        let begin = Instant::now();
        query(store, random)?;
        times.push(begin.elapsed());
    }
    print_times("relaxed_only", times);
    Ok(())
}

fn point_reads(store: &impl Storage, random: &mut Random) -> Result<(), StorageError> {
    let mut times = Vec::new();
    for _ in 0..20_000 {
        let begin = Instant::now();
        let value = store.read()?.get(CIRCUITS, &random.below(CIRCUIT_COUNT).to_be_bytes())?;
        times.push(begin.elapsed());
        assert!(value.is_some(), "a circuit is missing");
    }
    print_times("point_read", times);
    Ok(())
}

fn short_scans(store: &impl Storage, random: &mut Random) -> Result<(), StorageError> {
    let mut times = Vec::new();
    for _ in 0..10_000 {
        let low = random.next().to_be_bytes();
        let begin = Instant::now();
        let mut left = 20;
        let range = (Bound::Included(&low[..]), Bound::Unbounded);
        store.read()?.scan(ROWS, range, Direction::Ascending, &mut |_, _| {
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        times.push(begin.elapsed());
    }
    print_times("scan_20_rows", times);
    Ok(())
}

fn live_bytes(store: &impl Storage) -> Result<u64, StorageError> {
    let reader = store.read()?;
    let mut bytes = 0;
    for table in [CIRCUITS, ROWS] {
        let everything = (Bound::Unbounded, Bound::Unbounded);
        reader.scan(table, everything, Direction::Ascending, &mut |key, value| {
            bytes += (key.len() + value.len()) as u64;
            ControlFlow::Continue(())
        })?;
    }
    Ok(bytes)
}

/// Rewrites until killed; says when the first queries are through.
pub fn rewrite_forever(store: &impl Storage) -> Result<(), StorageError> {
    let mut random = Random(2);
    for number in 0.. {
        query(store, &mut random)?;
        if number % QUERIES_PER_DURABLE == 0 {
            durable_batch(store, &mut random)?;
        }
        if number == 100 {
            println!("ready 1");
        }
    }
    Ok(())
}

/// After an opening timed by the caller: everything must still be there.
pub fn reopened(store: &impl Storage, took: Duration) -> Result<(), StorageError> {
    print("reopen_ms", took.as_millis());
    let begin = Instant::now();
    store.read()?.get(CIRCUITS, &7_u64.to_be_bytes())?;
    print("first_read_us", begin.elapsed().as_micros());
    let reader = store.read()?;
    let mut count = 0;
    let everything = (Bound::Unbounded, Bound::Unbounded);
    reader.scan(CIRCUITS, everything, Direction::Ascending, &mut |_, _| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    assert_eq!(count, CIRCUIT_COUNT, "circuits were lost");
    Ok(())
}
