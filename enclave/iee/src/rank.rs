//! Scores, and the best of them.

use crate::bitmap::{Bitmap, Ranks};
use crate::evaluate::Ground;
use arras_schemes::bisen::query::Ranking;
use arras_schemes::bisen::update::Operation;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// BM25's k1 and b.
const SATURATION: f32 = 1.2;
const NORMALISATION: f32 = 0.75;

/// Scores of the documents that match.
pub(crate) struct Scores {
    found: Ranks,
    scores: Vec<f32>,
}

/// A score that is compared: by itself, and by the document's number where two are equal, the lower one first.
#[derive(Clone, Copy, PartialEq)]
struct Scored {
    score: f32,
    number: u32,
}

impl Eq for Scored {}

impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scored {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(other.number.cmp(&self.number))
    }
}

impl Scores {
    /// Bytes for so many documents, of numbers below a bound.
    pub(crate) fn bytes_for(found: usize, bound: usize) -> usize {
        4 * found + Bitmap::bytes_for(bound) / 2
    }

    pub(crate) fn new(found: Bitmap) -> Self {
        let count = found.count() as usize;
        Self { found: found.ranks(), scores: vec![0.0; count] }
    }

    /// Adds what a keyword contributes that occurs in `frequency` of the published documents.
    pub(crate) fn add(&mut self, ground: &Ground<'_>, keyword: usize, frequency: u32) {
        let documents = ground.snapshot.count().max(1) as f32;
        let average =
            ground.documents.total_length() as f32 / ground.documents.published_count().max(1) as f32;
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
        let mut closed = Bitmap::empty(ground.bound);
        for (operation, number, metadata) in ground.fetch.newest_first(keyword) {
            if operation == Operation::Continue {
                continue;
            }
            let Some(rank) = self.found.rank(number) else { continue };
            if !closed.enter(number) || operation == Operation::Delete {
                continue;
            }
            let times = metadata.frequency().max(1) as f32;
            let weight = if okapi {
                let length = ground.documents.length(number) as f32 / average.max(1.0);
                times * (SATURATION + 1.0)
                    / (times + SATURATION * (1.0 - NORMALISATION + NORMALISATION * length))
            } else {
                1.0 + times.ln()
            };
            self.scores[rank] += weight * rarity;
        }
    }

    /// The best so many, best first.
    pub(crate) fn top(&self, most: usize) -> (Vec<u32>, Vec<f32>) {
        let mut best: BinaryHeap<Reverse<Scored>> = BinaryHeap::with_capacity(most + 1);
        for (number, score) in self.found.set().numbers().zip(&self.scores) {
            let scored = Scored { score: *score, number };
            if best.len() < most {
                best.push(Reverse(scored));
            } else if best.peek().is_some_and(|Reverse(worst)| scored > *worst) {
                best.pop();
                best.push(Reverse(scored));
            }
        }
        let sorted = best.into_sorted_vec();
        sorted.into_iter().map(|Reverse(scored)| (scored.number, scored.score)).unzip()
    }
}
