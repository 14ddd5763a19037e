//! Times of the schemes: encrypting for storing, encrypting an end of a range, comparing.

use super::timer::time;
use super::{BenchArguments, Measured, Role};
use crate::schemes::SchemeEntry;
use crate::seed;
use arras_protocol::ore::Width;
use arras_schemes::ore::End;
use arras_server::ore::compare;
use std::hint::black_box;

/// Different values that are compared and asked for, in turn.
const VALUES: usize = 256;

/// Different values that are encrypted, in turn.
const PLAINTEXTS: usize = 4096;

pub(super) fn measure(entry: &SchemeEntry, width: Width, arguments: &BenchArguments) -> Vec<Measured> {
    let key = seed::key(arguments.seed, "bench");
    let mut prg = seed::prg(arguments.seed, "bench values");
    let mut coins = seed::prg(arguments.seed, "bench coins");
    let count = (VALUES / entry.slowness).max(2);
    let values: Vec<u64> = (0..count).map(|_| prg.next_u64() & width.greatest()).collect();
    let mut scheme = entry.make(&key, width);
    let public = scheme.scheme();
    let mut stored: Vec<Vec<u8>> = Vec::new();
    for value in &values {
        let encrypted = scheme.encrypt(*value, &mut coins).unwrap_or_default();
        for (old, new) in encrypted.replaced {
            stored.iter_mut().filter(|stored| **stored == old).for_each(|stored| stored.clone_from(&new));
        }
        stored.push(encrypted.stored);
    }
    let queries: Vec<Vec<u8>> = values
        .iter()
        .rev()
        .map(|value| scheme.bound(*value, End::Lower, &mut coins).unwrap_or_default())
        .collect();
    let mut turn = 0;
    let mut next = move || {
        turn = (turn + 1) % count;
        turn
    };
    let done = |operation: &str, role, timing| Measured {
        subject: entry.title.to_owned(),
        operation: operation.to_owned(),
        bits: Some(width.bits()),
        role,
        timing,
    };
    let comparing = time(arguments.time(), 1, || {
        let at = next();
        let _ = black_box(compare(public, black_box(&queries[at]), black_box(&stored[at])));
    });
    let asking = time(arguments.time(), 1, || {
        let _ = black_box(scheme.bound(black_box(values[next()]), End::Lower, &mut coins));
    });
    // A stateful scheme remembers what it encrypts: it begins anew before it has many times as many values.
    let plaintexts: Vec<u64> = (0..PLAINTEXTS).map(|_| prg.next_u64() & width.greatest()).collect();
    let mut made = 0usize;
    let mut fresh = entry.make(&key, width);
    let encrypting = time(arguments.time(), 1, || {
        made += 1;
        if made.is_multiple_of(100_000) {
            fresh = entry.make(&key, width);
        }
        let _ = black_box(fresh.encrypt(black_box(plaintexts[made % plaintexts.len()]), &mut coins));
    });
    vec![
        done("encrypt", Role::Client, encrypting),
        done("query", Role::Client, asking),
        done("compare", Role::Server, comparing),
    ]
}
