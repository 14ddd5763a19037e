//! CLOZ: time of an encryption, of its halves, and of a comparison as a server does it, over random plaintexts; bytes.
//! `cargo bench -p arras-schemes --bench cloz`
#![allow(clippy::print_stdout, clippy::expect_used)]

use arras_keys::Key;
use arras_primitives::pph::{QueryHashes, StoredHashes, find_neighbours};
use arras_primitives::prg::Prg;
use arras_protocol::ore::Width;
use arras_protocol::ore::cloz::stored_hash_bytes;
use arras_schemes::ore::cloz::Cloz;
use arras_schemes::ore::{End, OrderScheme};
use std::hint::black_box;
use std::time::Instant;

const ENCRYPTIONS: usize = 40;
const COMPARISONS: usize = 60;

/// Time that this thread has had on a processor, in nanoseconds: of use on a machine that has other work too.
fn processor_ns() -> Option<u64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}

/// Mean processor time, mean and least wall time of calls, in milliseconds.
fn milliseconds(calls: usize, mut call: impl FnMut(usize)) -> [f64; 3] {
    let before = processor_ns();
    let times: Vec<f64> = (0..calls)
        .map(|at| {
            let start = Instant::now();
            call(at);
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    let processor = before.zip(processor_ns()).map_or(f64::NAN, |(before, after)| (after - before) as f64);
    let mean = times.iter().sum::<f64>() / calls as f64;
    [processor / 1e6 / calls as f64, mean, times.iter().copied().fold(f64::INFINITY, f64::min)]
}

fn main() {
    let mut prg = Prg::new(&[1; 16]);
    println!("{:34} {:>12} {:>10} {:>10} {:>8}", "", "processor ms", "wall ms", "least ms", "bytes");
    for width in [Width::Bits32, Width::Bits64] {
        let bits = width.bits() as usize;
        let mut scheme = Cloz::new(&Key::take_from(&mut [5; 32]), width);
        let values: Vec<u64> = (0..ENCRYPTIONS).map(|_| prg.next_u64() & width.greatest()).collect();
        // The tables of the generators' multiples are made once.
        let _ = scheme.encrypt(0, &mut prg);
        let mut encrypted = Vec::new();
        let row = |name: &str, [processor, mean, least]: [f64; 3], bytes: usize| {
            let name = format!("{bits} bits, {name}");
            println!("{name:34} {processor:12.2} {mean:10.2} {least:10.2} {bytes:8}");
        };
        let time = milliseconds(ENCRYPTIONS, |at| {
            encrypted.push(scheme.encrypt(values[at], &mut prg).expect("in the domain"));
        });
        row("encrypt, both halves", time, encrypted[0].stored.len() + encrypted[0].query.len());
        let time = milliseconds(ENCRYPTIONS, |at| {
            let _ = black_box(scheme.bound(values[at], End::Lower, &mut prg));
        });
        row("encrypt, query half", time, encrypted[0].query.len());
        let time = milliseconds(ENCRYPTIONS, |at| {
            let _ = black_box(scheme.decrypt(&encrypted[at].stored));
        });
        row("decrypt", time, encrypted[0].stored.len());
        let stored = |at: usize| {
            let stored = &encrypted[at % ENCRYPTIONS].stored[..stored_hash_bytes(width)];
            StoredHashes::from_bytes(stored, bits).expect("points")
        };
        let query =
            |at: usize| QueryHashes::from_bytes(&encrypted[at % ENCRYPTIONS].query, bits).expect("points");
        row("check of points", milliseconds(COMPARISONS, |at| drop((stored(at), query(at)))), 0);
        let time = milliseconds(COMPARISONS, |at| {
            assert!(find_neighbours(&query(at), &stored(at + 1 + at / ENCRYPTIONS)).is_some());
        });
        row("compare", time, 0);
        let time = milliseconds(COMPARISONS / 3, |at| {
            assert!(find_neighbours(&query(at), &stored(at)).is_none());
        });
        row("compare equal plaintexts", time, 0);
    }
}
