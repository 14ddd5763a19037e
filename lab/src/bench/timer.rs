//! Repeats an operation until its time can be told.

use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// Samples taken, if there is time for so many.
const SAMPLES: usize = 25;

/// A sample takes at least this long, so that the clock's grain does not matter.
const SAMPLE: Duration = Duration::from_micros(200);

/// How long one operation takes, over a number of samples of many operations each.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// The quickest sample, in nanoseconds an operation.
    pub least_ns: f64,
    /// The middle one.
    pub median_ns: f64,
    /// The slowest one.
    pub most_ns: f64,
    /// Samples taken.
    pub samples: usize,
}

/// Times `operation`, which does `count` operations at each call, for about `time`.
pub(super) fn time(time: Duration, count: usize, mut operation: impl FnMut()) -> Timing {
    let began = Instant::now();
    operation();
    // How many calls are one sample: enough for the clock, few enough for all samples to fit.
    let mut once = began.elapsed();
    let mut calls = 1u32;
    while once < SAMPLE && began.elapsed() < time {
        calls = calls.saturating_mul(2);
        let start = Instant::now();
        (0..calls).for_each(|_| operation());
        once = start.elapsed();
    }
    let per_sample = time / u32::try_from(SAMPLES).unwrap_or(1);
    while once * 2 < per_sample {
        (calls, once) = (calls.saturating_mul(2), once * 2);
    }
    let mut samples = Vec::new();
    while samples.is_empty() || (samples.len() < SAMPLES && began.elapsed() < time * 2) {
        let start = Instant::now();
        (0..calls).for_each(|_| operation());
        samples.push(start.elapsed().as_secs_f64() * 1e9 / f64::from(calls) / count as f64);
    }
    samples.sort_unstable_by(f64::total_cmp);
    let at = |place: usize| samples.get(place).copied().unwrap_or(f64::NAN);
    Timing {
        least_ns: at(0),
        median_ns: at(samples.len() / 2),
        most_ns: at(samples.len() - 1),
        samples: samples.len(),
    }
}
