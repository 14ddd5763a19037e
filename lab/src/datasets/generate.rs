//! Values drawn from a seed.

use crate::seed;

/// As many values as a third of the records, each equally likely.
pub(super) fn uniform(records: usize, seed: u64) -> Vec<i64> {
    let mut prg = seed::prg(seed, "uniform data");
    let range = (records as u64 / 3).max(1);
    (0..records).map(|_| whole(seed::below(&mut prg, range))).collect()
}

/// Mean half the records, standard deviation a tenth of them; negative values are possible and rare.
pub(super) fn normal(records: usize, seed: u64) -> Vec<i64> {
    let mut prg = seed::prg(seed, "normal data");
    let size = records as f64;
    (0..records).map(|_| (size / 2.0 + size / 10.0 * seed::normal(&mut prg)).round() as i64).collect()
}

/// Share of the records, median in dollars, standard deviation of the logarithm.
const PAY: [(f64, f64, f64); 3] = [(0.25, 9_000.0, 1.0), (0.62, 72_000.0, 0.45), (0.13, 150_000.0, 0.35)];

/// Nobody earns so much.
const PAY_LIMIT: f64 = 500_000.0;

pub(super) fn salaries(records: usize, seed: u64) -> Vec<i64> {
    let mut prg = seed::prg(seed, "salary data");
    let draw = |_| loop {
        let mut which = seed::fraction(&mut prg);
        let kind = PAY.iter().find(|(share, ..)| {
            which -= share;
            which < 0.0
        });
        let (_, median, deviation) = *kind.unwrap_or(&PAY[0]);
        let pay = median * (deviation * seed::normal(&mut prg)).exp();
        if pay < PAY_LIMIT {
            return pay.round() as i64;
        }
    };
    (0..records).map(draw).collect()
}

/// The value of rank r, r = 1, 2, ..., comes with a frequency proportional to 1 / r.
pub(super) fn zipf(records: usize, seed: u64) -> Vec<i64> {
    let mut prg = seed::prg(seed, "zipf data");
    let mut sum = 0.0;
    let up_to: Vec<f64> = (1..=(records / 3).max(1))
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    let draw = |_| {
        let place = seed::fraction(&mut prg) * sum;
        whole(up_to.partition_point(|below| *below <= place).min(up_to.len() - 1) as u64 + 1)
    };
    (0..records).map(draw).collect()
}

/// A random part of the values, in random order.
pub(super) fn part(mut values: Vec<i64>, records: usize, seed: u64) -> Vec<i64> {
    seed::shuffle(&mut seed::prg(seed, "part of the data"), &mut values);
    values.truncate(records);
    values
}

fn whole(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
