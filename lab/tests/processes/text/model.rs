//! A collection as it must be: documents as lists of words, and what MongoDB's `$search` means of them, by itself.

use super::super::dice::Dice;
use bson::{Document, doc};
use std::collections::BTreeMap;

/// Few words, so that they meet; none of them is another's form.
const WORDS: [&str; 12] = ["ab", "bc", "cd", "de", "ef", "fg", "gh", "hi", "ij", "jk", "kl", "lm"];

/// Words of documents by `_id`.
pub(super) type State = BTreeMap<i32, Vec<&'static str>>;

/// A `$search` by its parts.
pub(super) struct Search {
    words: Vec<&'static str>,
    phrases: Vec<Vec<&'static str>>,
    denied: Vec<&'static str>,
}

impl Search {
    pub(super) fn random(dice: &mut Dice) -> Self {
        let mut list = |most: u64| (0..dice.below(most)).map(|_| word(dice)).collect::<Vec<_>>();
        let (words, first, denied) = (list(4), list(3), list(2));
        let phrases = if first.len() > 1 { vec![first] } else { Vec::new() };
        Self { words, phrases, denied }
    }

    /// As an application writes it.
    pub(super) fn text(&self) -> String {
        let phrases = self.phrases.iter().map(|phrase| format!("\"{}\"", phrase.join(" ")));
        let denied = self.denied.iter().map(|word| format!("-{word}"));
        let words = self.words.iter().map(|word| (*word).to_owned());
        denied.chain(words).chain(phrases).collect::<Vec<_>>().join(" ")
    }

    pub(super) fn finds(&self, text: &[&str]) -> bool {
        let has = |word: &&str| text.contains(word);
        let has_phrase = |phrase: &Vec<&str>| text.windows(phrase.len()).any(|part| part == phrase);
        let any = self.words.iter().any(has) || !self.phrases.is_empty();
        any && self.phrases.iter().all(has_phrase) && !self.denied.iter().any(has)
    }

    pub(super) fn of(&self, state: &State) -> Vec<i32> {
        state.iter().filter(|(_, text)| self.finds(text)).map(|(id, _)| *id).collect()
    }
}

fn word(dice: &mut Dice) -> &'static str {
    WORDS[dice.below(WORDS.len() as u64) as usize]
}

fn text(dice: &mut Dice) -> Vec<&'static str> {
    (0..dice.below(6)).map(|_| word(dice)).collect()
}

/// A write, and what it must make of the state.
pub(super) struct Operation {
    pub(super) command: Document,
    pub(super) after: State,
}

impl Operation {
    pub(super) fn random(state: &State, next: &mut i32, dice: &mut Dice) -> Self {
        let mut after = state.clone();
        let any = |dice: &mut Dice| {
            let at = dice.below(state.len().max(1) as u64) as usize;
            state.keys().nth(at).copied().unwrap_or(-1)
        };
        let search = Search::random(dice);
        let by_text = doc! { "$text": { "$search": search.text() } };
        let matched = search.of(state);
        let new = text(dice);
        let set = doc! { "$set": { "t": new.join(" ") } };
        let choice = dice.below(10);
        let command = match choice {
            0..=3 => {
                let documents: Vec<Document> = (0..=dice.below(3))
                    .map(|_| {
                        *next += 1;
                        let words = text(dice);
                        let document = doc! { "_id": *next, "t": words.join(" ") };
                        after.insert(*next, words);
                        document
                    })
                    .collect();
                doc! { "insert": "words", "documents": documents }
            }
            4..=6 => {
                let id = any(dice);
                if after.contains_key(&id) {
                    after.insert(id, new);
                }
                doc! { "update": "words", "updates": [{ "q": { "_id": id }, "u": set }] }
            }
            7 => {
                matched.into_iter().for_each(|id| drop(after.insert(id, new.clone())));
                doc! { "update": "words", "updates": [{ "q": by_text, "u": set, "multi": true }] }
            }
            8 => {
                let id = any(dice);
                after.remove(&id);
                doc! { "delete": "words", "deletes": [{ "q": { "_id": id }, "limit": 1 }] }
            }
            _ => {
                let filter = doc! { "$and": [by_text, { "_id": { "$mod": [3, 0] } }] };
                matched.into_iter().filter(|id| id % 3 == 0).for_each(|id| drop(after.remove(&id)));
                doc! { "delete": "words", "deletes": [{ "q": filter, "limit": 0 }] }
            }
        };
        Self { command, after }
    }
}

/// What a scan returned.
pub(super) fn state(documents: &[Document]) -> State {
    let known = |word: &str| WORDS.iter().find(|known| **known == word).copied();
    documents
        .iter()
        .map(|found| {
            let text = found.get_str("t").unwrap_or_default();
            (found.get_i32("_id").unwrap(), text.split_whitespace().filter_map(known).collect())
        })
        .collect()
}
