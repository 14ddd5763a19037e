//! FH-OPE at 100,000 stored values: time of an encryption, a decryption and a bound; ciphertexts that rebalancing
//! moves; bytes of state. `cargo bench -p arras-schemes --bench fh_ope`
#![allow(clippy::print_stdout, clippy::expect_used)]

use arras_primitives::prg::Prg;
use arras_protocol::ore::Width;
use arras_schemes::ore::fh_ope::FhOpe;
use arras_schemes::ore::{End, OrderScheme};
use std::hint::black_box;
use std::time::Instant;

const STORED: u64 = 100_000;
const CALLS: u64 = 2_000;

/// A name, and the value at each time of insertion.
type Input = (&'static str, fn(u64, &mut Prg) -> u64);

/// The least of several rounds: others use the machine too.
fn nanoseconds(mut round: impl FnMut()) -> f64 {
    let times = (0..9).map(|_| {
        let start = Instant::now();
        round();
        start.elapsed().as_nanos() as f64 / CALLS as f64
    });
    times.fold(f64::INFINITY, f64::min)
}

fn main() {
    let mut prg = Prg::new(&[1; 16]);
    let inputs: [Input; 5] = [
        ("uniform, 32 bits", |_, prg| prg.next_u64() >> 32),
        ("1,000 different values", |_, prg| prg.next_u64() % 1000),
        ("all equal", |_, _| 7),
        ("ascending", |at, _| at),
        ("descending", |at, _| u64::from(u32::MAX) - at),
    ];
    println!(
        "{:24} {:>10} {:>10} {:>10} {:>8} {:>12} {:>12}",
        "at 100,000 values", "encrypt ns", "decrypt ns", "bound ns", "moved", "state bytes", "stored bytes"
    );
    for (name, value) in inputs {
        let mut scheme = FhOpe::new(Width::Bits32);
        let (mut stored, mut moved) = (Vec::new(), 0);
        for at in 0..STORED {
            let encrypted = scheme.encrypt(value(at, &mut prg), &mut prg).expect("room");
            moved += encrypted.replaced.len();
            stored.push(encrypted.stored);
        }
        let (state_bytes, to_bytes) = (scheme.state_bytes(), scheme.to_bytes().len());
        let decrypt = nanoseconds(|| {
            for at in 0..CALLS {
                let _ = black_box(scheme.decrypt(&stored[(at * 48_271 % STORED) as usize]));
            }
        });
        let bound = nanoseconds(|| {
            for at in 0..CALLS {
                let _ =
                    black_box(scheme.bound(value(at * 37, &mut prg), End::Lower, &mut Prg::new(&[0; 16])));
            }
        });
        let mut at = STORED;
        let encrypt = nanoseconds(|| {
            for _ in 0..CALLS {
                let _ = black_box(scheme.encrypt(value(at, &mut prg), &mut prg));
                at += 1;
            }
        });
        let moved = moved as f64 / STORED as f64;
        println!(
            "{name:24} {encrypt:10.0} {decrypt:10.0} {bound:10.0} {moved:8.2} {state_bytes:12} {to_bytes:12}"
        );
    }
}
