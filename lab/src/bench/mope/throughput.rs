//! Values a second: one by one, in batches, and of several lengths; what a value takes to keep, and rounds.

use super::{Keeper, Lines, MopeBench, MopeError, Order, key, one_by_one, open, pyope, tens};
use arras_primitives::prg::Prg;
use arras_protocol::ore::Width;
use arras_schemes::ore::OrderScheme;
use arras_schemes::ore::bclo::Bclo;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Small trees are made again until they have taken so long.
const TIME_MIN: Duration = Duration::from_millis(60);

/// Values of a slice, between which trees that are compared take turns.
const SLICE: usize = 10_000;

/// Steps of BCLO that are kept for a batch.
const BCLO_STEPS: usize = 1 << 16;

/// Encryptions a second by BCLO.
fn bclo(values: &[Vec<u8>], width: Width, mut scheme: Bclo) -> f64 {
    let mut prg = Prg::new(&[0; 16]);
    let start = Instant::now();
    let (mut count, mut rest) = (0, values.iter().cycle());
    while count < values.len() && (count < 100 || start.elapsed() < TIME_MIN * 5) {
        let value = rest.next().map_or(0, |value| width.plaintext(value).unwrap_or_default());
        let _ = black_box(scheme.encrypt(value, &mut prg));
        count += 1;
    }
    count as f64 / start.elapsed().as_secs_f64()
}

/// Into an empty tree, one by one; values a second.
async fn filled(values: &[Vec<u8>], verified: bool) -> Result<f64, MopeError> {
    let (start, mut times, mut rate) = (Instant::now(), 0.0, 0.0);
    while rate == 0.0 || start.elapsed() < TIME_MIN {
        let bytes = values.first().map_or(8, Vec::len) as u16;
        rate += one_by_one(&open(Keeper::default(), bytes, verified)?, values).await?;
        times += 1.0;
    }
    Ok(rate / times)
}

/// The same of an unverified tree and a verified one, which take turns.
async fn in_turns(values: &[Vec<u8>]) -> Result<[f64; 2], MopeError> {
    let (start, mut spent, mut entered) = (Instant::now(), [Duration::ZERO; 2], 0);
    let bytes = values.first().map_or(8, Vec::len) as u16;
    while entered == 0 || start.elapsed() < TIME_MIN {
        let trees = [open(Keeper::default(), bytes, false)?, open(Keeper::default(), bytes, true)?];
        for slice in values.chunks(SLICE) {
            for (tree, spent) in trees.iter().zip(&mut spent) {
                let begun = Instant::now();
                one_by_one(tree, slice).await?;
                *spent += begun.elapsed();
            }
        }
        entered += values.len();
    }
    Ok(spent.map(|spent| entered as f64 / spent.as_secs_f64()))
}

/// Figure 8.
pub(super) async fn single(bench: &MopeBench, lines: &mut Lines<'_>) -> Result<(), MopeError> {
    let own = bclo(
        &Order::Random.values(2000, 8, bench.seed),
        Width::Bits64,
        Bclo::with_cache(&key(), Width::Bits64, 0),
    );
    for count in tens(100, bench.values) {
        let mut sequential = 0.0;
        for (order, paper) in [(Order::Random, ""), (Order::Sequential, "3.3")] {
            let [unverified, verified] = in_turns(&order.values(count, 8, bench.seed)).await?;
            lines.add(format!("mOPE, {}", order.name()), count, unverified, "values/s", "about 10^4");
            lines.add(format!("mOPE, verified, {}", order.name()), count, verified, "values/s", "");
            let what = format!("cost of verification, {}", order.name());
            lines.add(what, count, unverified / verified, "times", paper);
            sequential = unverified;
        }
        let paper = if count == 1000 { "43" } else { "" };
        lines.add("mOPE beside our BCLO, sequential", count, sequential / own, "times", paper);
    }
    lines.add("our BCLO of 64 bits", "", own, "values/s", "");
    if let Some(python) = &bench.pyope {
        let milliseconds = pyope::milliseconds(python)?;
        lines.add("pyope's BCLO of 64 bits", "", 1e3 / milliseconds, "values/s", "");
        let rate = filled(&Order::Random.values(1000, 8, bench.seed), false).await?;
        lines.add(
            "mOPE beside pyope, random",
            1000,
            rate * milliseconds / 1e3,
            "times",
            "43 (CryptDB's BCLO)",
        );
    }
    Ok(())
}

/// Figure 9.
pub(super) async fn batches(bench: &MopeBench, lines: &mut Lines<'_>) -> Result<(), MopeError> {
    for count in tens(100, bench.values.min(100_000)) {
        let values = Order::Sequential.values(count, 8, bench.seed);
        let mut rates = [0.0_f64; 2];
        let start = Instant::now();
        while rates[1] == 0.0 || start.elapsed() < TIME_MIN * 2 {
            for (rate, verified) in rates.iter_mut().zip([false, true]) {
                let tree = open(Keeper::default(), 8, verified)?;
                let start = Instant::now();
                black_box(tree.encode(&values).await?);
                *rate = rate.max(count as f64 / start.elapsed().as_secs_f64());
            }
        }
        let cached = bclo(&values, Width::Bits64, Bclo::with_cache(&key(), Width::Bits64, BCLO_STEPS));
        let at_most = |at: usize, paper: &'static str| if count == at { paper } else { "" };
        lines.add("mOPE", count, rates[0], "values/s", "");
        lines.add("mOPE, verified", count, rates[1], "values/s", "");
        lines.add("cost of verification", count, rates[0] / rates[1], "times", "1.6");
        lines.add("our BCLO, what it can keep kept", count, cached, "values/s", "");
        lines.add("mOPE beside that", count, rates[0] / cached, "times", at_most(100_000, "83"));
    }
    Ok(())
}

/// Figure 10.
pub(super) async fn sizes(bench: &MopeBench, lines: &mut Lines<'_>) -> Result<(), MopeError> {
    for bits in [32, 64, 128, 256] {
        let values = Order::Sequential.values(1000, bits / 8, bench.seed);
        for verified in [false, true] {
            let rate = filled(&values, verified).await?;
            let what = if verified { "mOPE, verified" } else { "mOPE" };
            let paper = if bits == 256 && !verified { "more than 1000" } else { "" };
            lines.add(what, format!("{bits} bits"), rate, "values/s", paper);
        }
        // Wider than 64 bits ours is not to be had.
        let width = [(32, Width::Bits32), (64, Width::Bits64)].into_iter().find(|(of, _)| *of == bits);
        if let Some((_, width)) = width {
            let rate = bclo(&values, width, Bclo::with_cache(&key(), width, 0));
            lines.add("our BCLO", format!("{bits} bits"), rate, "values/s", "");
        }
    }
    lines.add("the paper's BCLO", "256 bits", f64::NAN, "values/s", "5.7");
    Ok(())
}

/// Bytes of a value, and rounds.
pub(super) async fn storage(bench: &MopeBench, lines: &mut Lines<'_>) -> Result<(), MopeError> {
    let count = bench.values;
    for verified in [false, true] {
        let keeper = Keeper::default();
        let tree = open(keeper.clone(), 8, verified)?;
        one_by_one(&tree, &Order::Random.values(count, 8, bench.seed)).await?;
        let name = |what: &str| format!("{what}{}", if verified { ", verified" } else { "" });
        let nodes = keeper.store.node_bytes() as f64 / count as f64;
        let table: usize = keeper.store.kept().table.keys().map(|key| key.len() + size_of::<u64>()).sum();
        lines.add(name("bytes of the tree"), count, nodes, "a value", "40");
        lines.add(name("with the OPE table"), count, nodes + table as f64 / count as f64, "a value", "");
        keeper.rounds();
        let new = Order::Random.values(200, 8, bench.seed + 1);
        one_by_one(&tree, &new).await?;
        lines.add(name("rounds to find a place, warm"), count, keeper.rounds() as f64 / 200.0, "a value", "");
        let cold = open(keeper.clone(), 8, verified)?;
        cold.encode(&Order::Random.values(1, 8, bench.seed + 2)).await?;
        lines.add(name("rounds to find a place, cold"), count, keeper.rounds() as f64, "a value", "");
    }
    Ok(())
}
