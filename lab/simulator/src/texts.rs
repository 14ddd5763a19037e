//! Texts of the workload, what is looked for in them, and what a seed adds to a plan for them: by dice of its own, so that a run without
//! texts is what it would be if there were none.

use crate::indexes::TEXT;
use crate::model::{Change, Choice, Item, Writing};
use crate::plan::{Action, Ending, Fault, Plan, Round, Which};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::fmt::Write;

/// Words by number. Two numbers that follow one another, the first of them even, are forms of one word.
const WORDS: [&str; 12] = [
    "whale", "whales", "ship", "ships", "captain", "captains", "storm", "storms", "gull", "gulls", "harpoon",
    "harpoons",
];

/// How many words there are, whatever their forms.
pub const STEMS: u8 = 6;

/// A text, word by word.
pub type Text = Vec<u8>;

/// As it stands in a document.
#[must_use]
pub fn written(text: &[u8]) -> String {
    let words = text.iter().filter_map(|word| WORDS.get(usize::from(*word))).copied();
    words.collect::<Vec<_>>().join(" ")
}

/// Back from a document; none if it was never written.
#[must_use]
pub fn read(written: &str) -> Option<Text> {
    let number = |word: &str| WORDS.iter().position(|known| *known == word);
    written.split(' ').map(|word| number(word).and_then(|number| u8::try_from(number).ok())).collect()
}

/// What a `$text` looks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sought {
    /// One of these words, unless there are phrases.
    pub any: Text,
    /// All of these, word behind word.
    pub phrases: Vec<Text>,
    /// None of these.
    pub denied: Vec<Text>,
}

impl Sought {
    /// One word.
    #[must_use]
    pub fn word(word: u8) -> Self {
        Self { any: vec![word], ..Self::default() }
    }

    /// Whether it is in a text.
    #[must_use]
    pub fn takes(&self, text: &[u8]) -> bool {
        let stems = |text: &[u8]| text.iter().map(|word| word / 2).collect::<Vec<u8>>();
        let there = stems(text);
        let has = |phrase: &[u8]| there.windows(phrase.len().max(1)).any(|place| place == stems(phrase));
        let found = if self.phrases.is_empty() {
            self.any.iter().any(|word| has(&[*word]))
        } else {
            self.phrases.iter().all(|phrase| has(phrase))
        };
        found && !self.denied.iter().any(|phrase| has(phrase))
    }

    /// As `$search` has it.
    #[must_use]
    pub fn search(&self) -> String {
        let mut search = written(&self.any);
        for phrase in &self.phrases {
            let _ = write!(search, " \"{}\"", written(phrase));
        }
        for phrase in &self.denied {
            let quote = if phrase.len() > 1 { "\"" } else { "" };
            let _ = write!(search, " -{quote}{}{quote}", written(phrase));
        }
        search
    }
}

struct Dice(StdRng);

impl Dice {
    fn one_in(&mut self, of: u32) -> bool {
        self.0.random_range(0..of) == 0
    }

    fn text(&mut self, most: usize) -> Text {
        let length = self.0.random_range(1..=most);
        (0..length).map(|_| self.0.random_range(0..2 * STEMS)).collect()
    }

    fn sought(&mut self) -> Sought {
        match self.0.random_range(0..6) {
            0..=2 => Sought { any: self.text(2), ..Sought::default() },
            3 => Sought { any: self.text(2), denied: vec![self.text(2)], ..Sought::default() },
            4 => Sought { phrases: vec![self.phrase()], ..Sought::default() },
            _ => Sought {
                any: self.text(1),
                phrases: vec![self.phrase(), self.text(1)],
                denied: vec![self.text(1)],
            },
        }
    }

    fn phrase(&mut self) -> Text {
        vec![self.0.random_range(0..2 * STEMS), self.0.random_range(0..2 * STEMS)]
    }

    fn item(&mut self, item: &mut Item) {
        if !self.one_in(4) {
            item.t = self.text(4);
        }
    }

    /// `alone`: changes are of one document, by its `_id`.
    fn writing(&mut self, writing: &mut Writing, alone: bool) {
        if let Writing::Insert(items) = writing {
            return items.iter_mut().for_each(|item| self.item(item));
        }
        let (change_it, choose_it) = (self.one_in(2), self.one_in(3) && !alone);
        let (text, sought) = (self.text(4), self.sought());
        match writing {
            Writing::Update(choice, change) | Writing::FindAndModify(choice, _, change) => {
                if change_it {
                    *change = Change::T(text);
                }
                if choose_it {
                    *choice = Choice::Text(sought);
                }
            }
            Writing::UpdateOne(_, change) if change_it => *change = Change::T(text),
            Writing::Delete(choice) if choose_it && change_it => *choice = Choice::Text(sought),
            Writing::UpdateOne(..) | Writing::Delete(_) | Writing::Insert(_) => {}
        }
    }

    fn action(&mut self, action: &mut Action, application: usize, alone: bool) {
        match action {
            Action::Write(writing) => self.writing(writing, alone),
            Action::Find(choice) | Action::Sorted(choice, ..) | Action::Count(choice) => {
                if self.one_in(2) {
                    *choice = Choice::Text(self.sought());
                }
            }
            Action::CreateIndex(index) | Action::DropIndex(index) => {
                if self.one_in(3) {
                    *index = TEXT;
                }
            }
            Action::Wait(_) => match self.0.random_range(0..12) {
                0 if application == 0 => *action = Action::CreateIndex(TEXT),
                1 if application == 0 => *action = Action::DropIndex(TEXT),
                2..=6 => *action = Action::Find(Choice::Text(self.sought())),
                _ => {}
            },
            Action::Sum(..) => {}
        }
    }

    fn fault(&mut self) -> Fault {
        if self.one_in(4) {
            Fault::Kill(Which::Search, self.0.random_range(0..600))
        } else {
            let trouble = crate::plan::trouble(self.0.random_range(0..5), self.0.random_range(1..5));
            Fault::Store(Which::Search, self.0.random_range(0..120), trouble)
        }
    }

    fn round(&mut self, round: &mut Round, alone: bool, faulty: bool) {
        for (application, actions) in round.actions.iter_mut().enumerate() {
            actions.iter_mut().for_each(|action| self.action(action, application, alone));
        }
        if faulty {
            let count = self.0.random_range(0..3);
            round.faults.extend((0..count).map(|_| self.fault()));
        }
    }
}

/// Adds texts to the plans of half of all seeds.
pub(crate) fn add(plan: &mut Plan) {
    let mut dice = Dice(StdRng::seed_from_u64(plan.seed ^ 0x0074_6578_7473));
    if dice.one_in(2) {
        return;
    }
    plan.texts = true;
    let (alone, faulty) = (plan.is_cut(), !dice.one_in(8));
    for round in &mut plan.rounds {
        dice.round(round, alone, faulty);
    }
    if !dice.one_in(8) {
        plan.indexes.push(TEXT);
    }
    plan.ending = match dice.0.random_range(0..6) {
        0 => Ending::SearchSetBack,
        1 => Ending::SearchAndCounterSetBack,
        2 => Ending::SearchAndCounterSetBackAtStart,
        _ => plan.ending,
    };
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_is_looked_for_is_found_as_mongodb_says() {
        let text = [0, 3, 4];
        assert_eq!(written(&text), "whale ships captain");
        assert_eq!(read("whale ships captain").unwrap(), text);
        assert_eq!(read("whale goat"), None);
        let phrase = |words: &[u8]| Sought { phrases: vec![words.to_vec()], ..Sought::default() };
        assert!(Sought::word(1).takes(&text) && !Sought::word(6).takes(&text));
        assert!(phrase(&[1, 2]).takes(&text) && !phrase(&[2, 0]).takes(&text));
        let denied = Sought { denied: vec![vec![2, 5]], ..Sought::word(0) };
        assert!(!denied.takes(&text) && denied.takes(&[0, 2]));
        assert_eq!(denied.search(), "whale -\"ship captains\"");
        assert!(
            !Sought { denied: vec![vec![9]], ..Sought::default() }.takes(&text),
            "what denies only finds nothing"
        );
    }
}
