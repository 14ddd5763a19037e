//! Logarithmic-BRC, both halves in one process over memory: setup, and searches by the result.
//!
//! `cargo bench -p arras-lab --bench logarithmic_brc`. Messages are encoded and decoded. Two loads: that of the
//! published figure of Clusion's 2Lev, 1,000 keywords of 50 records each; and the comparative evaluation's, 247,000
//! records of 32 bits and ranges of half a percent.

#![allow(missing_docs, clippy::print_stdout)]

use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::Order;
use arras_protocol::ore::Width;
use arras_protocol::{Channel, ChannelError, IndexId, Protocol, RowId, codec};
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::logarithmic_brc::{LogarithmicBrc, Packing, Parameters};
use arras_schemes::ore::domain::plaintext_key;
use arras_schemes::traits::RangeIndex;
use arras_server::Backend;
use arras_storage::Memory;
use std::sync::Arc;
use std::time::Instant;

/// Clusion's RR2Lev, measured on a machine like this: nanoseconds a result, and a pair at setup (two threads).
const CLUSION_NS: (f64, f64) = (1700.0, 10_000.0);
/// What is aimed at, nanoseconds a result.
const AIM_NS: f64 = 300.0;
/// Searches are repeated so often; the fastest run counts.
const RUNS: usize = 7;

struct Direct(Backend<Memory>);

impl<P: Protocol> Channel<P> for Direct {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        let reply = self.0.handle(P::ID, &codec::encode(&request))?;
        codec::decode(&reply).map_err(|_| ChannelError::Malformed("a reply".into()))
    }
}

/// Loads values, searches ranges, and prints what a pair and a result cost.
async fn measure(name: &str, parameters: Parameters, values: &[u64], ranges: &[(u64, u64)]) {
    let backend = Backend::open(Memory::new(), [1; 16]).expect("memory does not fail");
    let channel = Arc::new(Direct(backend));
    let key = Key::take_from(&mut [7; 32]);
    let index = LogarithmicBrc::new(IndexId([1; 8]), parameters, &key, channel, Prg::new(&[3; 16]))
        .expect("the parameters make sense");
    let entries = values.iter().zip(0_u128..).map(|(value, row)| RangeEntry {
        value: plaintext_key(parameters.width, *value),
        row: RowId(row.to_be_bytes()),
        sums: Vec::new(),
    });
    let entries: Vec<_> = entries.collect();
    let start = Instant::now();
    index.bulk_load(entries).await.expect("loads");
    let setup = start.elapsed();
    let levels = usize::from(parameters.domain_bits) + 1;
    let setup_ns = setup.as_nanos() as f64 / (values.len() * levels) as f64;
    let mut best = f64::INFINITY;
    for _ in 0..RUNS {
        let (start, mut results) = (Instant::now(), 0);
        for (lower, upper) in ranges {
            let [low, high] = [lower, upper].map(|bound| plaintext_key(parameters.width, *bound));
            results += index.search(low, high, Order::Ascending, None).await.expect("searches").len();
        }
        best = best.min(start.elapsed().as_nanos() as f64 / results.max(1) as f64);
    }
    println!(
        "{name}: {best:.0} ns a result (aim {AIM_NS:.0}, Clusion 2Lev {:.0}); setup {:.2} s, {setup_ns:.0} ns a pair \
         (Clusion {:.0})",
        CLUSION_NS.0,
        setup.as_secs_f64(),
        CLUSION_NS.1,
    );
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let mut prg = Prg::new(&[9; 16]);
        let values: Vec<u64> = (0..50_000).map(|record| record % 1000).collect();
        let points: Vec<(u64, u64)> = (0..1000).map(|value| (value, value)).collect();
        for packing in [Packing::Packed, Packing::Basic] {
            let parameters = Parameters { packing, domain_bits: 10, ..Parameters::new(Width::Bits32) };
            let name = format!("1,000 keywords of 50, {packing:?}");
            measure(&name, parameters, &values, &points).await;
        }
        let values: Vec<u64> = (0..247_000).map(|_| prg.next_u64() >> 32).collect();
        let width = (1_u64 << 32) / 200;
        let ranges: Vec<(u64, u64)> = (0..300)
            .map(|_| prg.next_u64() % ((1 << 32) - width))
            .map(|lower| (lower, lower + width - 1))
            .collect();
        let parameters = Parameters::new(Width::Bits32);
        measure("247,000 uniform records, ranges of 0.5 %", parameters, &values, &ranges).await;
    });
}
