//! A search's formula, filters and scores, once all entries are there.

use crate::budget::Reserved;
use crate::documents::{Documents, Set};
use crate::fetch::Fetch;
use arras_schemes::bisen::message::{Groups, Refused};
use arras_schemes::bisen::query::{Attribute, Filter, Padding, PhraseWord, Ranking, Search, Step};
use arras_schemes::bisen::update::{Facts, Operation};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};

/// What a search is evaluated on.
pub(crate) struct Ground {
    pub(crate) search: Search,
    pub(crate) groups: Groups,
    pub(crate) padding: Padding,
    pub(crate) fetch: Fetch,
    /// The documents that were published when the search began.
    pub(crate) snapshot: Set,
    /// Numbers at that time.
    pub(crate) bound: usize,
    /// Bytes that one step may take and let go.
    pub(crate) scratch: usize,
    /// Bytes of what was asked, and of sets.
    pub(crate) held: usize,
    pub(crate) reserved: Reserved,
}

/// Numbers of documents and their scores, best first if they are ranked.
pub(crate) type Best = Vec<(u32, f32)>;

/// A formula half evaluated.
pub(crate) struct Evaluation {
    pub(crate) waiting: Vec<Set>,
    /// Of keywords that were looked at: in how many published documents they occur.
    pub(crate) frequencies: Vec<u32>,
}

impl Evaluation {
    /// What is left behind the last step: published then, still there under its name, and visible to the client.
    pub(crate) fn visible(&mut self, ground: &Ground, documents: &Documents) -> Set {
        let mut found = self.operand();
        found.intersect_with(&ground.snapshot);
        if ground.groups != Groups::All || found.difference(&documents.published).next().is_some() {
            retain(&mut found, |number| documents.shows(number, &ground.groups));
        }
        found
    }

    pub(crate) fn step(&mut self, ground: &Ground, step: &Step) -> Result<(), Refused> {
        let set = match step {
            Step::Keyword(keyword) => self.keyword(ground, usize::from(*keyword)),
            Step::Phrase(words) => self.phrase(ground, words)?,
            Step::All => ground.snapshot.clone(),
            Step::Not => {
                let mut set = ground.snapshot.clone();
                set.difference_with(&self.operand());
                set
            }
            Step::And => &self.operand() & &self.operand(),
            Step::Or => &self.operand() | &self.operand(),
        };
        self.waiting.push(set);
        Ok(())
    }

    /// The last of those that wait: the formula was checked, so there is one.
    fn operand(&mut self) -> Set {
        self.waiting.pop().unwrap_or_default()
    }

    /// The documents in which a keyword occurs: the last operation of each decides.
    fn keyword(&mut self, ground: &Ground, keyword: usize) -> Set {
        let mut set = Set::with_capacity(ground.bound);
        for (operation, number) in ground.fetch.oldest_first(keyword) {
            if operation != Operation::Continue {
                set.set(number as usize, operation == Operation::Add);
            }
        }
        if let Some(frequency) = self.frequencies.get_mut(keyword) {
            *frequency = set.intersection_count(&ground.snapshot) as u32;
        }
        set
    }

    /// The documents in which words stand at these distances.
    fn phrase(&mut self, ground: &Ground, words: &[PhraseWord]) -> Result<Set, Refused> {
        let mut candidates = ground.snapshot.clone();
        // A word that comes several times is looked at once.
        let distinct: BTreeSet<u16> = words.iter().map(|word| word.0).collect();
        for keyword in &distinct {
            candidates.intersect_with(&self.keyword(ground, usize::from(*keyword)));
        }
        let Some((first, others)) = words.split_first() else { return Ok(Set::with_capacity(ground.bound)) };
        let mut starts = positions(ground, first, &candidates)?;
        for word in others {
            let places = positions(ground, word, &candidates)?;
            starts.retain(|start| places.binary_search(start).is_ok());
        }
        let mut set = Set::with_capacity(ground.bound);
        set.extend(starts.iter().map(|start| (start >> 24) as usize));
        Ok(set)
    }
}

/// Where a phrase would begin that has a word, in order: number of the document and position, in one number.
fn positions(ground: &Ground, word: &PhraseWord, candidates: &Set) -> Result<Vec<u64>, Refused> {
    // Two such lists are there at once, and may have doubled.
    let most = ground.scratch / (4 * size_of::<u64>());
    let mut places = Vec::new();
    for (operation, number, metadata) in ground.fetch.live_among(word.0.into(), candidates.clone()) {
        let begins = metadata.positions(operation).filter_map(|at| at.checked_sub(word.1.into()));
        places.extend(begins.map(|at| u64::from(number) << 24 | u64::from(at)));
        if places.len() > most {
            let needed = places.len() as u64 * 64;
            return Err(Refused::Memory { needed, budget: ground.scratch as u64 });
        }
    }
    places.sort_unstable();
    Ok(places)
}

/// Leaves of what was found what is as a filter says.
pub(crate) fn filter(ground: &Ground, documents: &Documents, filter: &Filter, found: &mut Set) {
    let holds = |value: i64| (filter.from..=filter.until).contains(&value);
    if let Attribute::Frequency(keyword) = filter.of {
        let mut frequent = Set::with_capacity(ground.bound);
        let current = ground.fetch.current(usize::from(keyword), found);
        let is_frequent = current.filter(|(_, of)| holds(of.frequency().into()));
        frequent.extend(is_frequent.map(|(number, _)| number as usize));
        return *found = frequent;
    }
    let value = |facts: Facts| match filter.of {
        Attribute::Field(field) => facts.fields.get(usize::from(field)).map(|value| value.0),
        Attribute::Visibility => Some(facts.visibility.into()),
        Attribute::Length => Some(facts.length.into()),
        Attribute::Frequency(_) => None,
    };
    retain(found, |number| value(documents.facts(number)).is_some_and(holds));
}

/// Leaves the numbers that are to be kept.
fn retain(set: &mut Set, keep: impl Fn(u32) -> bool) {
    let mut kept = Set::with_capacity(set.len());
    kept.extend(set.ones().filter(|number| keep(*number as u32)));
    *set = kept;
}

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
    pub(crate) fn new(found: Set) -> Self {
        Self { scores: vec![0.0; found.len()], found }
    }

    /// Adds what a keyword contributes that occurs in `frequency` of the published documents.
    pub(crate) fn add(&mut self, ground: &Ground, of: &Documents, keyword: usize, frequency: u32) {
        let documents = ground.snapshot.count_ones(..).max(1) as f32;
        let average = of.total_length as f32 / of.by_name.len().max(1) as f32;
        let frequency = frequency as f32;
        let rarity = match ground.search.ranking {
            Ranking::None => return,
            Ranking::TfIdf => documents / frequency.max(1.0),
            Ranking::Bm25 => 1.0 + (documents - frequency + 0.5) / (frequency + 0.5),
        };
        let (short, by_length) =
            (SATURATION * (1.0 - NORMALISATION), SATURATION * NORMALISATION / average.max(1.0));
        for (number, metadata) in ground.fetch.current(keyword, &self.found) {
            let times = metadata.frequency().max(1) as f32;
            let weight = if ground.search.ranking == Ranking::Bm25 {
                times * (SATURATION + 1.0) / (times + short + by_length * of.facts(number).length as f32)
            } else {
                1.0 + times.ln()
            };
            self.scores[number as usize] += weight * rarity.ln();
        }
    }

    /// The best so many, best first.
    pub(crate) fn top(&self, most: usize) -> Best {
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
        best.into_sorted_vec().into_iter().map(apart).collect()
    }
}
