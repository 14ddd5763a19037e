//! Scores, and the best of them.

use crate::documents::{Documents, Set};
use crate::evaluate::Ground;
use arras_schemes::bisen::query::Ranking;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// BM25's k1 and b.
const SATURATION: f32 = 1.2;
const NORMALISATION: f32 = 0.75;

/// Scores of the documents that match, by their numbers.
pub(crate) struct Scores {
    found: Set,
    scores: Vec<f32>,
}

/// A score as a number that orders as it does, scores being no less than 0, and among equal ones by the document's number, the lower one
/// last.
fn order(score: f32, number: u32) -> u64 {
    u64::from(score.to_bits()) << 32 | u64::from(!number)
}

impl Scores {
    /// Bytes for numbers below a bound.
    pub(crate) fn bytes_for(bound: usize) -> usize {
        size_of::<f32>() * bound
    }

    pub(crate) fn new(found: Set) -> Self {
        Self { scores: vec![0.0; found.len()], found }
    }

    /// Adds what a keyword contributes that occurs in `frequency` of the published documents.
    pub(crate) fn add(&mut self, ground: &Ground, of: &Documents, keyword: usize, frequency: u32) {
        let documents = ground.snapshot.count_ones(..).max(1) as f32;
        let average = of.total_length as f32 / of.published_count().max(1) as f32;
        let frequency = frequency as f32;
        let okapi = match ground.search.ranking {
            Ranking::None => return,
            Ranking::TfIdf => false,
            Ranking::Bm25 => true,
        };
        let rarity = if okapi {
            (1.0 + (documents - frequency + 0.5) / (frequency + 0.5)).ln()
        } else {
            (documents / frequency.max(1.0)).ln()
        };
        let (short, by_length) =
            (SATURATION * (1.0 - NORMALISATION), SATURATION * NORMALISATION / average.max(1.0));
        for (number, metadata) in ground.fetch.current(keyword, &self.found) {
            let times = metadata.frequency().max(1) as f32;
            let weight = if okapi {
                times * (SATURATION + 1.0) / (times + short + by_length * of.length(number) as f32)
            } else {
                1.0 + times.ln()
            };
            self.scores[number as usize] += weight * rarity;
        }
    }

    /// The best so many, best first.
    pub(crate) fn top(&self, most: usize) -> (Vec<u32>, Vec<f32>) {
        let mut best = BinaryHeap::with_capacity(most + 1);
        for number in self.found.ones() {
            let scored = order(self.scores[number], number as u32);
            if best.len() < most {
                best.push(Reverse(scored));
            } else if best.peek().is_some_and(|Reverse(worst)| scored > *worst) {
                best.pop();
                best.push(Reverse(scored));
            }
        }
        let apart = |Reverse(scored): Reverse<u64>| (!(scored as u32), f32::from_bits((scored >> 32) as u32));
        best.into_sorted_vec().into_iter().map(apart).unzip()
    }
}
