//! Lays the shape of a trie over a trie of known values.

use super::position::Estimate;
use std::collections::HashMap;
use std::ops::Range;

/// The shape of the trie of unknown values, ascending.
#[derive(Clone, Debug)]
pub(super) struct Trie {
    /// How often each occurs.
    pub(super) weights: Vec<f64>,
    /// The first digit in which each and the next one differ.
    pub(super) first: Vec<usize>,
    /// Where each lies by its rank, in plaintexts.
    pub(super) places: Vec<Estimate>,
}

/// A known value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaf {
    pub(super) plaintext: u64,
    /// How often it is expected to occur.
    pub(super) weight: f64,
}

/// Two nodes at the same depth: the unknown values below one, the known values below the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Pair {
    depth: usize,
    /// The digits of the known node.
    prefix: u64,
    unknown: Range<usize>,
    known: Range<usize>,
}

/// Breaks ties in favour of evenly spread digits.
const TIE: f64 = 1e-7;

/// How many independent observations all places together are worth: where one value lies too far up, so do most.
const PLACES_WORTH: f64 = 100.0;

/// The cheapest way to lay one over the other.
#[derive(Clone, Debug)]
struct Best {
    cost: f64,
    /// The digit of each child, or, of a single unknown value, the known value.
    choice: Vec<usize>,
}

/// What it costs that something has no counterpart.
fn unmatched(weight: f64) -> f64 {
    weight * weight / (weight + 1.0)
}

/// Finds a cheapest way.
pub(super) struct Overlay<'a> {
    trie: &'a Trie,
    known: &'a [Leaf],
    /// What a place counts.
    place_weight: f64,
    /// Sums of [`unmatched`] of the unknown and of the known values before each.
    unknown_before: Vec<f64>,
    known_before: Vec<f64>,
    digits: usize,
    digit_bits: u32,
    best: HashMap<Pair, Best>,
}

fn sums(weights: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sum = 0.0;
    let mut sums = vec![0.0];
    sums.extend(weights.map(|weight| {
        sum += unmatched(weight);
        sum
    }));
    sums
}

impl<'a> Overlay<'a> {
    /// `known` ascends; values have `digits` digits.
    pub(super) fn new(trie: &'a Trie, known: &'a [Leaf], digits: usize, digit_bits: u32) -> Self {
        Self {
            trie,
            known,
            place_weight: (PLACES_WORTH / trie.weights.len().max(1) as f64).min(1.0),
            unknown_before: sums(trie.weights.iter().copied()),
            known_before: sums(known.iter().map(|leaf| leaf.weight)),
            digits,
            digit_bits,
            best: HashMap::new(),
        }
    }

    /// A plaintext for each unknown value.
    pub(super) fn guesses(mut self) -> Vec<u64> {
        let root =
            Pair { depth: 0, prefix: 0, unknown: 0..self.trie.weights.len(), known: 0..self.known.len() };
        let mut guesses = vec![0; self.trie.weights.len()];
        if !guesses.is_empty() {
            self.fill(&root, &mut guesses);
        }
        guesses
    }

    /// The unknown values below each child of a node.
    fn children(&self, unknown: &Range<usize>, depth: usize) -> Vec<Range<usize>> {
        let mut children = Vec::new();
        let mut from = unknown.start;
        for at in unknown.start..unknown.end - 1 {
            if self.trie.first[at] <= depth {
                children.push(from..at + 1);
                from = at + 1;
            }
        }
        children.push(from..unknown.end);
        children
    }

    /// The known values below each child of a node, with its digit; those that have some.
    fn known_children(&self, known: &Range<usize>, depth: usize) -> Vec<(usize, Range<usize>)> {
        let shift = self.digit_bits as usize * (self.digits - 1 - depth);
        let digit = |at: usize| (self.known[at].plaintext >> shift) as usize & ((1 << self.digit_bits) - 1);
        let mut children: Vec<(usize, Range<usize>)> = Vec::new();
        for at in known.clone() {
            match children.last_mut() {
                Some((last, range)) if *last == digit(at) => range.end = at + 1,
                _ => children.push((digit(at), at..at + 1)),
            }
        }
        children
    }

    /// The least and the greatest plaintext below a node.
    fn within(&self, prefix: u64, depth: usize) -> (u64, u64) {
        let rest = self.digit_bits as usize * (self.digits - depth);
        match 1_u64.checked_shl(rest as u32) {
            Some(count) => (prefix << rest, (prefix << rest) + (count - 1)),
            None => (0, u64::MAX),
        }
    }

    /// What it costs that an unknown value lies so far from its place.
    fn misplaced(&self, unknown: usize, (least, greatest): (u64, u64)) -> f64 {
        let Estimate { mean, variance } = self.trie.places[unknown];
        let off = mean - mean.clamp(least as f64, greatest as f64);
        self.place_weight * off * off / variance
    }

    fn cost(&mut self, pair: &Pair) -> f64 {
        if pair.known.is_empty() {
            let within = self.within(pair.prefix, pair.depth);
            let misplaced: f64 = pair.unknown.clone().map(|unknown| self.misplaced(unknown, within)).sum();
            return self.unknown_before[pair.unknown.end] - self.unknown_before[pair.unknown.start]
                + misplaced;
        }
        if let Some(best) = self.best.get(pair) {
            return best.cost;
        }
        let best = if pair.unknown.len() == 1 { self.single(pair) } else { self.branch(pair) };
        let cost = best.cost;
        self.best.insert(pair.clone(), best);
        cost
    }

    /// One unknown value: the known value whose frequency is most like its.
    fn single(&self, pair: &Pair) -> Best {
        let weight = self.trie.weights[pair.unknown.start];
        let all = self.known_before[pair.known.end] - self.known_before[pair.known.start];
        let with = |at: usize| {
            let Leaf { plaintext, weight: known } = self.known[at];
            (weight - known).powi(2) / (weight + known + 1.0) - unmatched(known)
                + self.misplaced(pair.unknown.start, (plaintext, plaintext))
        };
        let chosen = pair.known.clone().min_by(|one, other| with(*one).total_cmp(&with(*other)));
        let chosen = chosen.unwrap_or(pair.known.start);
        Best { cost: all + with(chosen), choice: vec![chosen] }
    }

    /// Gives the children digits, ascending.
    fn branch(&mut self, pair: &Pair) -> Best {
        let children = self.children(&pair.unknown, pair.depth);
        let mut known = vec![pair.known.start..pair.known.start; 1 << self.digit_bits];
        for (digit, range) in self.known_children(&pair.known, pair.depth) {
            known[digit] = range;
        }
        let slots = known.len();
        let skipped: Vec<f64> =
            known.iter().map(|range| self.known_before[range.end] - self.known_before[range.start]).collect();
        // Least cost of the children so far in the digits so far; whether the last digit is the last child's.
        let mut best = vec![f64::INFINITY; slots + 1];
        best[0] = 0.0;
        for digit in 0..slots {
            best[digit + 1] = best[digit] + skipped[digit];
        }
        let mut taken = vec![false; children.len() * slots];
        for (at, unknown) in children.iter().enumerate() {
            let mut next = vec![f64::INFINITY; slots + 1];
            let even = (at as f64 + 0.5) * slots as f64 / children.len() as f64 - 0.5;
            for digit in at..=(slots + at).saturating_sub(children.len()).min(slots - 1) {
                let below = self.below(pair, digit, unknown.clone(), known[digit].clone());
                let with = best[digit] + self.cost(&below) + TIE * (digit as f64 - even).abs();
                let without = next[digit] + skipped[digit];
                taken[at * slots + digit] = with < without;
                next[digit + 1] = with.min(without);
            }
            for digit in (slots + at + 1).saturating_sub(children.len())..slots {
                next[digit + 1] = next[digit] + skipped[digit];
            }
            best = next;
        }
        let mut choice = vec![0; children.len()];
        let mut digit = slots;
        for at in (0..children.len()).rev() {
            digit = digit.saturating_sub(1);
            while digit > 0 && !taken[at * slots + digit] {
                digit -= 1;
            }
            choice[at] = digit;
        }
        Best { cost: best[slots], choice }
    }

    /// The child of a pair at a digit.
    fn below(&self, pair: &Pair, digit: usize, unknown: Range<usize>, known: Range<usize>) -> Pair {
        Pair { depth: pair.depth + 1, prefix: pair.prefix << self.digit_bits | digit as u64, unknown, known }
    }

    fn fill(&mut self, pair: &Pair, guesses: &mut [u64]) {
        let left = self.digits - pair.depth;
        if left == 0 {
            guesses[pair.unknown.clone()].fill(pair.prefix);
            return;
        }
        if pair.known.is_empty() {
            self.fill_unknown(pair, guesses);
            return;
        }
        self.cost(pair);
        let Some(Best { choice, .. }) = self.best.get(pair).cloned() else { return };
        if pair.unknown.len() == 1 {
            guesses[pair.unknown.start] = self.known[choice[0]].plaintext;
            return;
        }
        let known = self.known_children(&pair.known, pair.depth);
        for (unknown, digit) in self.children(&pair.unknown, pair.depth).into_iter().zip(choice) {
            let below = known.iter().find(|(known, _)| *known == digit);
            let known = below.map_or(pair.known.start..pair.known.start, |(_, range)| range.clone());
            let below = self.below(pair, digit, unknown, known);
            self.fill(&below, guesses);
        }
    }

    /// Nothing is known of what is below but where ranks say that it lies: each child gets the digit nearest to that
    /// which leaves one for every other.
    fn fill_unknown(&self, pair: &Pair, guesses: &mut [u64]) {
        let (least, greatest) = self.within(pair.prefix, pair.depth);
        let mean = |unknown: &Range<usize>| {
            let sum: f64 = unknown.clone().map(|at| self.trie.places[at].mean).sum();
            (sum / unknown.len() as f64).clamp(least as f64, greatest as f64)
        };
        if pair.unknown.len() == 1 {
            guesses[pair.unknown.start] = (mean(&pair.unknown).round() as u64).clamp(least, greatest);
            return;
        }
        let children = self.children(&pair.unknown, pair.depth);
        let (slots, count) = (1_usize << self.digit_bits, children.len());
        let slot_size = (greatest as f64 - least as f64 + 1.0) / slots as f64;
        let mut free = 0;
        for (at, unknown) in children.into_iter().enumerate() {
            let wanted = ((mean(&unknown) - least as f64) / slot_size).floor() as usize;
            let digit = wanted.clamp(free, (slots + at).saturating_sub(count).max(free));
            free = digit + 1;
            let below = self.below(pair, digit, unknown, pair.known.clone());
            if below.depth == self.digits {
                guesses[below.unknown].fill(below.prefix);
            } else {
                self.fill_unknown(&below, guesses);
            }
        }
    }
}
