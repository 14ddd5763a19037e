//! MongoDB's `$search`: words of which one must be there, `"phrases"` that all must, and `-words` that must not.

use super::{Mistake, PARTS_MAX, QUERY_BYTES_MAX, QueryError};
use crate::formula::Formula;
use unicode_segmentation::UnicodeSegmentation;

/// Reads the `$search` of a `$text`. None if it denies only, or says nothing: then MongoDB finds nothing.
///
/// A quotation mark that is never closed begins no phrase, and no string is refused for its form, as there. Where there are
/// phrases and words, the words decide nothing; they are kept beside the phrases for the order of what is found.
///
/// # Errors
/// Too long, or too many parts.
pub fn text_search(search: &str) -> Result<Option<Formula>, QueryError> {
    if search.len() > QUERY_BYTES_MAX {
        return Err(QueryError::new(search, 0..0, Mistake::TooLong(search.len())));
    }
    let Parts { words, phrases, denied } = Parts::read(search);
    if words.len() + phrases.len() + denied.len() > PARTS_MAX {
        return Err(QueryError::new(search, 0..0, Mistake::TooManyParts));
    }
    let mut all = phrases.clone();
    let mut any = words;
    if !any.is_empty() {
        any.extend(phrases);
        all.push(join(any, Formula::Any));
    }
    if all.is_empty() {
        return Ok(None);
    }
    all.extend(denied.into_iter().map(|part| Formula::Not(Box::new(part))));
    Ok(Some(join(all, Formula::All)))
}

fn join(mut parts: Vec<Formula>, join: fn(Vec<Formula>) -> Formula) -> Formula {
    match (parts.len(), parts.pop()) {
        (1, Some(only)) => only,
        (_, last) => {
            parts.extend(last);
            join(parts)
        }
    }
}

#[derive(Default)]
struct Parts {
    words: Vec<Formula>,
    phrases: Vec<Formula>,
    denied: Vec<Formula>,
}

impl Parts {
    fn read(mut search: &str) -> Self {
        let mut parts = Self::default();
        let says = |text: &str| text.chars().any(char::is_alphanumeric);
        loop {
            search = search.trim_start();
            let behind = search.strip_prefix('-');
            let rest = behind.unwrap_or(search);
            if rest.is_empty() {
                return parts;
            }
            if let Some((phrase, after)) = rest.strip_prefix('"').and_then(|inside| inside.split_once('"')) {
                if says(phrase) {
                    let list = if behind.is_some() { &mut parts.denied } else { &mut parts.phrases };
                    list.push(Formula::Phrase(phrase.into()));
                }
                search = after;
                continue;
            }
            let rest = rest.trim_start_matches('"');
            let end = rest.find(|letter: char| letter.is_whitespace() || letter == '"').unwrap_or(rest.len());
            let (stretch, after) = rest.split_at(end);
            // Each of several (`white-whale`) is a word of its own; a minus before them is the first one's, as there.
            for (place, word) in stretch.unicode_words().enumerate() {
                let is_denied = behind.is_some() && place == 0;
                let list = if is_denied { &mut parts.denied } else { &mut parts.words };
                list.push(Formula::Phrase(word.into()));
            }
            search = after;
        }
    }
}
