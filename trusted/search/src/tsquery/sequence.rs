//! Words one behind the other.

use crate::condition::Condition;

/// Keywords at their places, and how many words they are with those that say nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Sequence {
    /// Places ascend; several words may have one.
    pub(super) words: Vec<(u32, String)>,
    pub(super) width: u32,
}

impl Sequence {
    /// It, and another that begins so many words behind its last one.
    pub(super) fn then(&self, distance: u32, next: &Self) -> Self {
        let start = self.width.saturating_sub(1).saturating_add(distance);
        let mut words = self.words.clone();
        words.extend(next.words.iter().map(|(place, word)| (place.saturating_add(start), word.clone())));
        words.sort_by_key(|(place, _)| *place);
        Self { words, width: start.saturating_add(next.width).max(self.width) }
    }

    /// That a text has it; none if nothing of it says anything.
    pub(super) fn into_condition(self) -> Option<Condition> {
        let first = self.words.first()?.0;
        let mut words: Vec<_> = self.words.into_iter().map(|(place, word)| (place - first, word)).collect();
        match words.len() {
            1 => words.pop().map(|(_, keyword)| Condition::Keyword(keyword)),
            _ => Some(Condition::Phrase(words)),
        }
    }
}
