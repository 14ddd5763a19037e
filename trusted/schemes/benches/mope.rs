//! mOPE at 1,000,000 values of 64 bits, on one thread, with the keeper in the same process: encodings a second, one by one and
//! in batches, with and without verification; rounds, bytes and rewritten labels; beside BCLO in the same run.
//! `cargo bench -p arras-schemes --features lab --bench mope [-- VALUES]`;
//! with `--only verified` or `--only unverified` one tree alone, for a profiler.
//!
//! Times are the thread's own, not the clock's. What is compared takes turns in short slices.
#![allow(clippy::print_stdout, clippy::expect_used)]

use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::mope::{Fetch, Fetched, Round, TreeChange, TreeStore};
use arras_protocol::ore::Width;
use arras_schemes::mope::memory::MemoryStore;
use arras_schemes::mope::path_encoded::PathTree;
use arras_schemes::mope::{Form, Kind, Settings, Tree};
use arras_schemes::ore::OrderScheme;
use arras_schemes::ore::bclo::Bclo;
use arras_schemes::random::Randomness;
use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Values of a slice, between which trees take turns.
const SLICE: usize = 10_000;
/// Values of a batch.
const BATCH: usize = 100_000;
/// How often a batch is repeated.
const ROUNDS: usize = 7;

/// The keeper, counting rounds and changes of labels.
#[derive(Clone, Default)]
struct Keeper {
    store: Arc<MemoryStore>,
    rounds: Arc<AtomicUsize>,
    rewrites: Arc<Mutex<Rewrites>>,
}

/// Labels that changes rewrite.
#[derive(Default)]
struct Rewrites {
    /// Of each change that rewrites any: how many.
    each: Vec<u64>,
    /// Those that entered a value at once.
    waited_for: u64,
    /// Nanoseconds of the longest encoding with a change of labels, by the clock.
    pause: f64,
}

impl TreeStore for Keeper {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        self.rounds.fetch_add(1, Ordering::Relaxed);
        self.store.fetch(fetch)
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        if change.summaries.is_empty() {
            return self.store.commit(change);
        }
        let entered = !change.entered.is_empty();
        let before = self.store.kept().rewritten;
        let applied = self.store.kept().apply(change);
        let mut rewrites = self.rewrites.lock().expect("one thread");
        rewrites.each.push(self.store.kept().rewritten - before);
        rewrites.waited_for += u64::from(entered);
        Box::pin(std::future::ready(applied))
    }
}

impl Keeper {
    /// What is said of its changes of labels, for so many values.
    fn rewrites(&self, values: usize) -> String {
        let mut rewrites = std::mem::take(&mut *self.rewrites.lock().expect("one thread"));
        rewrites.each.sort_unstable();
        let part = |part: f64| {
            rewrites.each.get((rewrites.each.len() as f64 * part) as usize).or(rewrites.each.last()).copied()
        };
        format!(
            "{:.3} labels rewritten a value in {} changes ({} of them with a value): half of up to {}, 99 % up to {}, the \
             largest of {}; the longest took {:.1} ms with its encoding, by the clock",
            rewrites.each.iter().sum::<u64>() as f64 / values as f64,
            rewrites.each.len(),
            rewrites.waited_for,
            part(0.5).unwrap_or(0),
            part(0.99).unwrap_or(0),
            part(1.0).unwrap_or(0),
            rewrites.pause / 1e6,
        )
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    match future.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(done) => done,
        std::task::Poll::Pending => panic!("a keeper in memory answers at once"),
    }
}

/// Nanoseconds that this thread has spent.
fn now() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// Nanoseconds that this thread spends.
fn nanoseconds(work: impl FnOnce()) -> f64 {
    let start = now();
    work();
    now() - start
}

fn key() -> Key {
    Key::take_from(&mut [7; 32])
}

fn open(keeper: &Keeper, kind: Kind, verified: bool) -> Tree<Keeper> {
    let settings = Settings { form: Form::Fixed(8), kind, verified };
    Tree::open(keeper.clone(), &key(), settings, None, Randomness::default()).expect("a column")
}

/// Encodes values one by one.
fn one_by_one(tree: &Tree<Keeper>, values: &[u64]) {
    let mut changes = 0;
    for value in values {
        let start = std::time::Instant::now();
        black_box(run(tree.encode(&[value.to_be_bytes()])).expect("encoded"));
        let mut rewrites = tree.store().rewrites.lock().expect("one thread");
        if rewrites.each.len() > changes {
            changes = rewrites.each.len();
            rewrites.pause = rewrites.pause.max(start.elapsed().as_nanos() as f64);
        }
    }
}

/// Single encodings of values, in an unverified, a verified and an unverified stOPE tree, in turns.
fn single(values: &[u64]) {
    let trees = [(Kind::Mope, false), (Kind::Mope, true), (Kind::Stope, false), (Kind::Stope, true)];
    let trees = trees.map(|(kind, verified)| {
        let keeper = Keeper::default();
        (open(&keeper, kind, verified), keeper)
    });
    let mut times = [0.0; 4];
    let mut last = [0.0; 4];
    for slice in values.chunks(SLICE) {
        for ((tree, _), (time, last)) in trees.iter().zip(times.iter_mut().zip(&mut last)) {
            *last = nanoseconds(|| one_by_one(tree, slice));
            *time += *last;
        }
    }
    let base = times[0];
    for ((tree, keeper), (time, last)) in trees.iter().zip(times.iter().zip(last)) {
        println!(
            "single, {tree:?}: {:.0}/s over all, {:.0}/s at the end, {:.2} of unverified mOPE's time",
            values.len() as f64 / time * 1e9,
            SLICE as f64 / last * 1e9,
            time / base
        );
        println!(
            "  {:.2} nodes' bytes a value, {:.3} rounds a value, {}",
            keeper.store.node_bytes() as f64 / keeper.store.kept().table.len() as f64,
            keeper.rounds.swap(0, Ordering::Relaxed) as f64 / values.len() as f64,
            keeper.rewrites(values.len())
        );
        let cold = open(keeper, tree.kind(), tree.is_verified());
        let _ = run(cold.encode(&[12_345_u64.to_be_bytes()])).expect("encoded");
        println!("  rounds of a cold client: {}", keeper.rounds.swap(0, Ordering::Relaxed));
    }
    big_batches(&trees, values);
}

/// Batches of new values into the trees, in turns.
fn big_batches(trees: &[(Tree<Keeper>, Keeper); 4], values: &[u64]) {
    let mut prg = Prg::new(&[9; 16]);
    let mut times = [0.0; 4];
    for _ in 0..2 {
        let batch: Vec<[u8; 8]> = (0..BATCH).map(|_| prg.next_u64().to_be_bytes()).collect();
        for ((tree, _), time) in trees.iter().zip(&mut times) {
            *time += nanoseconds(|| drop(black_box(run(tree.encode(&batch)).expect("encoded"))));
        }
    }
    for ((tree, _), time) in trees.iter().zip(times) {
        println!(
            "batch of {BATCH} into {} values, {tree:?}: {:.0}/s, {:.2} of unverified mOPE's time",
            values.len(),
            2.0 * BATCH as f64 / time * 1e9,
            time / times[0]
        );
    }
}

/// A batch into an empty tree.
fn batches(prg: &mut Prg) -> f64 {
    let batch: Vec<[u8; 8]> = (0..BATCH).map(|_| prg.next_u64().to_be_bytes()).collect();
    let mut times = [f64::INFINITY; 2];
    for _ in 0..ROUNDS {
        for (time, verified) in times.iter_mut().zip([false, true]) {
            let tree = open(&Keeper::default(), Kind::Mope, verified);
            *time = time.min(nanoseconds(|| drop(black_box(run(tree.encode(&batch)).expect("encoded")))));
        }
    }
    println!(
        "batch of {BATCH} into an empty tree: {:.0}/s, verified {:.0}/s: {:.2} of the time",
        BATCH as f64 / times[0] * 1e9,
        BATCH as f64 / times[1] * 1e9,
        times[1] / times[0]
    );
    times[0] / BATCH as f64
}

/// Labels rewritten by other orders of insertion.
fn orders(count: u64, prg: &mut Prg) {
    let runs: Vec<u64> = (0..count / 1000)
        .flat_map(|_| {
            let from = prg.next_u64() >> 1;
            (0..1000).map(move |at| from + at)
        })
        .collect();
    let below_fixed: Vec<u64> = std::iter::once(u64::MAX).chain(0..count - 1).collect();
    let median: Vec<u64> = (0..count / 2).flat_map(|at| [at, u64::MAX - at]).collect();
    let orders = [
        ("ascending", (0..count).collect()),
        ("descending", (0..count).rev().collect()),
        ("ascending below a fixed last value", below_fixed),
        ("runs of 1,000 at random places", runs),
        ("every value to the median", median),
    ];
    for (name, values) in orders {
        let values: Vec<u64> = values;
        let tree = open(&Keeper::default(), Kind::Mope, false);
        let time = nanoseconds(|| one_by_one(&tree, &values));
        println!(
            "{name}: {:.0}/s, {}; {:.2} bytes a value",
            values.len() as f64 / time * 1e9,
            tree.store().rewrites(values.len()),
            tree.store().store.node_bytes() as f64 / values.len() as f64
        );
    }
}

/// The paper's own tree.
fn baseline(values: &[u64]) {
    let values = &values[..values.len().min(100_000)];
    let mut ascending = values.to_vec();
    ascending.sort_unstable();
    for (name, values) in [("random", values), ("ascending", &ascending)] {
        let keeper = Keeper::default();
        let tree = PathTree::open(keeper.clone(), &key(), Form::Fixed(8)).expect("a column");
        let time = nanoseconds(|| {
            for value in values {
                black_box(run(tree.encode(&value.to_be_bytes())).expect("encoded"));
            }
        });
        println!(
            "4-way, path-encoded, {} {name} values: {:.0}/s, {:.2} labels rewritten a value, {:.2} rounds a value",
            values.len(),
            values.len() as f64 / time * 1e9,
            keeper.store.kept().rewritten as f64 / values.len() as f64,
            keeper.rounds.swap(0, Ordering::Relaxed) as f64 / values.len() as f64
        );
    }
}

/// Encodes into one tree: for a profiler.
fn only(verified: bool, values: &[u64]) {
    let tree = open(&Keeper::default(), Kind::Mope, verified);
    let time = nanoseconds(|| one_by_one(&tree, values));
    println!("{tree:?}: {:.0} ns a value", time / values.len() as f64);
}

fn main() {
    let count = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(1_000_000_usize);
    let mut prg = Prg::new(&[1; 16]);
    if let Some(tree) = std::env::args().skip_while(|argument| argument != "--only").nth(1) {
        let values: Vec<u64> = (0..count).map(|_| prg.next_u64()).collect();
        return only(tree == "verified", &values);
    }
    let mut bclo = Bclo::new(&key(), Width::Bits64);
    let mut bclo_time = nanoseconds(|| {
        for _ in 0..20_000 {
            black_box(bclo.encrypt(prg.next_u64(), &mut Prg::new(&[0; 16])).expect("in the domain"));
        }
    });
    bclo_time /= 20_000.0;
    let batch = batches(&mut prg);
    println!(
        "BCLO of 64 bits, random: {:.0}/s; a batch's value takes {:.3} of that",
        1e9 / bclo_time,
        batch / bclo_time
    );
    let values: Vec<u64> = (0..count).map(|_| prg.next_u64()).collect();
    single(&values);
    baseline(&values);
    orders(count as u64, &mut prg);
}
