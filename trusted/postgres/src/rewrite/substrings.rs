//! Names that are looked for in a text all at once, however many they are.

use aho_corasick::AhoCorasick;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// Names that may be parts of a text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Substrings {
    names: Arc<BTreeSet<String>>,
    /// What finds them, made when a text is first searched; copies have it in common. None within: it cannot be made.
    finder: Arc<OnceLock<Option<AhoCorasick>>>,
}

impl PartialEq for Substrings {
    fn eq(&self, other: &Self) -> bool {
        self.names == other.names
    }
}

impl Eq for Substrings {}

impl FromIterator<String> for Substrings {
    fn from_iter<I: IntoIterator<Item = String>>(names: I) -> Self {
        Self { names: Arc::new(names.into_iter().collect()), finder: Arc::default() }
    }
}

impl Substrings {
    /// With further names.
    pub(crate) fn with(&self, names: impl IntoIterator<Item = String>) -> Self {
        self.names.iter().cloned().chain(names).collect()
    }

    /// All of them.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.names.iter().cloned()
    }

    /// Is one of them a part of the text?
    pub(crate) fn are_in(&self, text: &str) -> bool {
        if self.names.is_empty() {
            return false;
        }
        match self.finder.get_or_init(|| AhoCorasick::new(&*self.names).ok()) {
            Some(finder) => finder.is_match(text),
            None => self.names.iter().any(|name| text.contains(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn they_are_in_a_text_as_by_themselves(
            names in proptest::collection::vec("[ab\u{e9}]{1,4}", 0..6),
            further in proptest::collection::vec("[abc]{1,3}", 0..3),
            text in "[abc\u{e9}]{0,12}",
        ) {
            let substrings: Substrings = names.iter().cloned().collect();
            prop_assert_eq!(substrings.are_in(&text), names.iter().any(|name| text.contains(name)));
            let more = substrings.with(further.clone());
            prop_assert_eq!(more.are_in(&text), names.iter().chain(&further).any(|name| text.contains(name)));
        }
    }
}
