//! Garbling and evaluating comparators beside the limit that AES sets, in one run.
//!
//! After criterion's own report (skipped with `-- --table`) comes a table: nanoseconds a gate, and how many
//! times the AES calls a gate needs (4 garbling, 2 evaluating) at the price of 256 blocks under one key, by
//! the `aes` crate or by this one, whichever is faster. Depending on what the allocator gave back before,
//! large batches of garbling may also pay for fresh pages: 4 KiB of gates for each circuit of 128 bits.

#![allow(missing_docs, clippy::print_stdout)]

use aes::Aes128;
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use arras_primitives::Block;
use arras_primitives::garble::{
    Comparator, Evaluation, Garbled, delta_from, derive_labels, encode, evaluate_on, garble_on,
    open_transition, seal_transition,
};
use arras_primitives::ggm;
use arras_primitives::lanes::Backend;
use arras_primitives::prg::{self, Prg};
use criterion::{BenchmarkId, Criterion, Throughput};
use std::hint::black_box;
use std::time::Instant;

/// Circuits of one width with all that garbling and evaluating them takes.
struct Circuits {
    delta: Block,
    nonces: Vec<Block>,
    thresholds: Vec<Vec<u8>>,
    labels: Vec<(Vec<Block>, Block)>,
    active: Vec<Vec<Block>>,
    garbled: Vec<Garbled>,
}

impl Circuits {
    fn new(bits: usize, count: usize) -> Self {
        let mut generator = Prg::new(&[7; 16]);
        let mut block = || {
            let mut block = [0; 16];
            generator.fill(&mut block);
            block
        };
        let delta = delta_from(&block());
        let material = block();
        let nonces: Vec<Block> = (0..count).map(|_| block()).collect();
        let value = |block: Block| block.repeat(2)[..bits / 8].to_vec();
        let thresholds: Vec<Vec<u8>> = (0..count).map(|_| value(block())).collect();
        let labels: Vec<_> = nonces.iter().map(|nonce| derive_labels(&material, nonce, bits)).collect();
        let active = labels.iter().map(|(labels, _)| encode(labels, &delta, &value(block()))).collect();
        let mut circuits = Self { delta, nonces, thresholds, labels, active, garbled: Vec::new() };
        circuits.garbled = garble_on(Backend::best(), &delta, &circuits.comparators());
        circuits
    }

    fn comparators(&self) -> Vec<Comparator<'_>> {
        (0..self.nonces.len())
            .map(|position| Comparator {
                nonce: self.nonces[position],
                labels: &self.labels[position].0,
                carry: self.labels[position].1,
                threshold: &self.thresholds[position],
            })
            .collect()
    }

    fn evaluations(&self) -> Vec<Evaluation<'_>> {
        (0..self.nonces.len())
            .map(|position| Evaluation {
                nonce: self.nonces[position],
                labels: &self.active[position],
                carry: self.labels[position].1,
                gates: &self.garbled[position].gates,
            })
            .collect()
    }
}

/// Median time of a call in nanoseconds, over runs of about a millisecond.
fn median_ns<T>(mut call: impl FnMut() -> T) -> f64 {
    let start = Instant::now();
    for _ in 0..10 {
        black_box(call());
    }
    let calls = (1_000_000 / (start.elapsed().as_nanos() / 10 + 1)).max(1) as u32;
    let mut runs: Vec<f64> = (0..301)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                black_box(call());
            }
            start.elapsed().as_nanos() as f64 / f64::from(calls)
        })
        .collect();
    runs.sort_by(f64::total_cmp);
    runs[runs.len() / 2]
}

fn summary() {
    let cipher = Aes128::new(&[3; 16].into());
    let mut blocks = [aes::Block::default(); 256];
    let mut stream = [[0; 16]; 256];
    let aes_ns = median_ns(|| cipher.encrypt_blocks(black_box(&mut blocks))) / 256.0;
    let stream_ns = median_ns(|| prg::stream(&[3; 16], black_box(&mut stream))) / 256.0;
    let limit_ns = aes_ns.min(stream_ns);
    println!(
        "\nAES-128 on 256 blocks under one key: aes crate {aes_ns:.2} ns/block, this crate {stream_ns:.2} ns/block"
    );
    println!(
        "x limit: times the price of the AES calls a gate needs (4 garbling, 2 evaluating) at the lower of the two"
    );
    println!(
        "{:<10} {:>5} {:>6} | {:>12} {:>9} {:>8} | {:>12} {:>9} {:>8}",
        "back end", "bits", "batch", "garble/circ", "ns/gate", "x limit", "eval/circ", "ns/gate", "x limit"
    );
    for backend in Backend::ALL.into_iter().filter(|backend| backend.is_available()) {
        for bits in [32, 64, 128] {
            for batch in [1, 4, 8, 16, 64, 256] {
                let circuits = Circuits::new(bits, batch);
                let (comparators, evaluations) = (circuits.comparators(), circuits.evaluations());
                let gates = (bits * batch) as f64;
                let garble = median_ns(|| garble_on(backend, &circuits.delta, &comparators)) / gates;
                let evaluate = median_ns(|| evaluate_on(backend, &evaluations)) / gates;
                println!(
                    "{:<10} {bits:>5} {batch:>6} | {:>9.0} ns {garble:>9.2} {:>8.2} | {:>9.0} ns {evaluate:>9.2} {:>8.2}",
                    format!("{backend:?}"),
                    garble * bits as f64,
                    garble / (4.0 * limit_ns),
                    evaluate * bits as f64,
                    evaluate / (2.0 * limit_ns),
                );
            }
        }
    }
    let circuits = Circuits::new(128, 2);
    let (nonce, outcome) = (&circuits.nonces[0], &circuits.garbled[0].outcome);
    let (own, child) = (&circuits.labels[0].0, &circuits.labels[1].0);
    let rows = seal_transition(nonce, outcome, own, child);
    println!(
        "transition of 128 rows: seal {:.0} ns, open {:.0} ns; labels of 128 bits: derive {:.0} ns, encode {:.0} ns",
        median_ns(|| seal_transition(nonce, outcome, own, child)),
        median_ns(|| open_transition(nonce, outcome, &rows, &circuits.active[0])),
        median_ns(|| derive_labels(&circuits.delta, nonce, 128)),
        median_ns(|| encode(own, &circuits.delta, nonce)),
    );
    let leaves = 1 << 14;
    let expand = median_ns(|| ggm::expand(nonce, 14, leaves).last()) / leaves as f64;
    let some: Vec<Block> = ggm::expand(nonce, 8, 256).collect();
    let entries = median_ns(|| ggm::labels_and_masks(&some)) / some.len() as f64;
    let mut bytes = vec![0; 1 << 14];
    let fill = median_ns(|| Prg::new(nonce).fill(&mut bytes)) / bytes.len() as f64;
    println!(
        "token tree: {expand:.1} ns a leaf, {entries:.1} ns for a label and a mask; generator: {:.1} GB/s",
        1.0 / fill
    );
}

fn criterion_groups(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("aes128_encrypt_blocks");
    let cipher = Aes128::new(&[3; 16].into());
    let mut blocks = [aes::Block::default(); 256];
    group.throughput(Throughput::Elements(256));
    group.bench_function("256", |bench| bench.iter(|| cipher.encrypt_blocks(black_box(&mut blocks))));
    group.finish();
    let best = Backend::best();
    for (name, batch) in [("single", 1), ("batched", 256)] {
        let circuits = Circuits::new(128, batch);
        let (comparators, evaluations) = (circuits.comparators(), circuits.evaluations());
        let mut group = criterion.benchmark_group(format!("comparator128_{name}"));
        group.throughput(Throughput::Elements(128 * batch as u64));
        group.bench_function(BenchmarkId::new("garble", batch), |bench| {
            bench.iter(|| garble_on(best, &circuits.delta, &comparators));
        });
        group.bench_function(BenchmarkId::new("evaluate", batch), |bench| {
            bench.iter(|| evaluate_on(best, &evaluations));
        });
        group.finish();
    }
}

fn main() {
    if !std::env::args().any(|argument| argument == "--table") {
        let mut criterion = Criterion::default().configure_from_args();
        criterion_groups(&mut criterion);
        criterion.final_summary();
    }
    if !std::env::args().any(|argument| argument == "--test") {
        summary();
    }
}
