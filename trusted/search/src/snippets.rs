//! The lines around what was found, with the words marked: made at the client, from the text as it is there.

use crate::analysis::{Analyzer, Word};
use crate::condition::Condition;
use crate::language::Language;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

/// Bytes of a line; a longer one is looked at in parts.
const LINE_BYTES_MAX: usize = 8 << 10;
/// Letters of a line that are shown.
const SHOWN: usize = 160;
/// Of those, before the first word that is marked.
const SHOWN_BEFORE: usize = 60;
/// What stands for letters that are left out.
const LEFT_OUT: char = '…';

/// A line with words that were looked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Snippet {
    /// Which line, from 1.
    pub line: u64,
    /// The line, or a part of it; without control characters.
    pub text: String,
    /// Where the words are in `text`, in bytes, ascending.
    pub marks: Vec<Range<usize>>,
    /// How many different things that were looked for it has.
    pub found: usize,
}

/// Finds the lines of a text that have most of what a condition wants.
pub struct Finder<'c> {
    analyzer: Analyzer,
    wanted: Vec<&'c Condition>,
    most: usize,
    line: String,
    number: u64,
    best: Vec<Snippet>,
}

impl<'c> Finder<'c> {
    /// Looks for what a condition wants, in at most so many lines. What it wants of fields is not in the text.
    #[must_use]
    pub fn new(condition: &'c Condition, language: Language, most: usize) -> Self {
        Self {
            analyzer: Analyzer::new(language),
            wanted: condition.wanted(),
            most,
            line: String::new(),
            number: 1,
            best: Vec::new(),
        }
    }

    /// Takes the next piece of the text.
    pub fn feed(&mut self, piece: &str) {
        for part in piece.split_inclusive('\n') {
            let mut part = part;
            while self.line.len() + part.len() > LINE_BYTES_MAX {
                let room = part.floor_char_boundary(LINE_BYTES_MAX.saturating_sub(self.line.len()));
                let (first, rest) = part.split_at(room);
                self.line.push_str(first);
                self.end_line();
                part = rest;
            }
            self.line.push_str(part);
            if part.ends_with('\n') {
                self.end_line();
                self.number += 1;
            }
        }
    }

    /// The lines, in the order of the text.
    #[must_use]
    pub fn finish(mut self) -> Vec<Snippet> {
        self.end_line();
        self.best.sort_by_key(|snippet| snippet.line);
        self.best
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        let words: Vec<Word> = self.analyzer.words(&line).collect();
        let mut marks = BTreeSet::new();
        let mut found = 0;
        for wanted in &self.wanted {
            let before = marks.len();
            let has = mark(wanted, &words, &mut marks);
            found += usize::from(has || marks.len() > before);
        }
        let worst = self.best.iter().map(|snippet| snippet.found).min().unwrap_or(0);
        if found > 0 && self.most > 0 && (self.best.len() < self.most || found > worst) {
            let marks: Vec<Range<usize>> = marks.into_iter().map(|word| words[word].place.clone()).collect();
            let (text, marks) = shortened(&line, &marks);
            if self.best.len() == self.most
                && let Some(last) = self.best.iter().rposition(|snippet| snippet.found == worst)
            {
                self.best.remove(last);
            }
            self.best.push(Snippet { line: self.number, text, marks, found });
        }
        self.line = line;
        self.line.clear();
    }
}

/// Marks the words of a line that are what is wanted; whether there are any.
fn mark(wanted: &Condition, words: &[Word], marks: &mut BTreeSet<usize>) -> bool {
    let is = |word: &Word, keyword: &str| word.keyword.as_deref() == Some(keyword);
    match wanted {
        Condition::Keyword(keyword) => {
            let before = words.iter().enumerate().filter(|(_, word)| is(word, keyword));
            let found: Vec<usize> = before.map(|(place, _)| place).collect();
            marks.extend(&found);
            !found.is_empty()
        }
        Condition::Phrase(parts) => {
            let mut any = false;
            for start in 0..words.len() {
                // Positions in a line have no gaps, so a distance is one of places, too.
                let places: VecDeque<usize> =
                    parts.iter().map(|(distance, _)| start + *distance as usize).collect();
                let all = places
                    .iter()
                    .zip(parts)
                    .all(|(place, (_, keyword))| words.get(*place).is_some_and(|word| is(word, keyword)));
                if all {
                    any = true;
                    marks.extend(places);
                }
            }
            any
        }
        Condition::Range(_) | Condition::All(_) | Condition::Any(_) | Condition::Not(_) => false,
    }
}

/// A line without what is too far from its first mark, and where the marks are then.
fn shortened(line: &str, marks: &[Range<usize>]) -> (String, Vec<Range<usize>>) {
    let first = marks.first().map_or(0, |mark| mark.start);
    let end = line.trim_end().len().max(marks.last().map_or(0, |mark| mark.end));
    let indent = line.len() - line.trim_start().len();
    let back = line[..first].char_indices().rev().nth(SHOWN_BEFORE - 1).map_or(0, |(at, _)| at);
    let start = back.max(indent.min(first));
    let until = line[start..end].char_indices().nth(SHOWN).map_or(end, |(at, _)| start + at);
    let mut text = String::new();
    if start > indent {
        text.push(LEFT_OUT);
    }
    let mut shown = Vec::new();
    let mut marks = marks.iter().filter(|mark| mark.end <= until).peekable();
    for (at, letter) in line[start..until].char_indices() {
        let at = start + at;
        if marks.peek().is_some_and(|mark| mark.start == at) {
            shown.push(text.len()..text.len());
        }
        text.push(if letter.is_control() { ' ' } else { letter });
        if marks.peek().is_some_and(|mark| mark.end == at + letter.len_utf8()) {
            marks.next();
            if let Some(mark) = shown.last_mut() {
                mark.end = text.len();
            }
        }
    }
    if until < end {
        text.push(LEFT_OUT);
    }
    (text, shown)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Finder, Snippet};
    use crate::condition::Condition;
    use crate::grammar::parse;
    use crate::language::Language;

    fn find(query: &str, text: &str, most: usize) -> Vec<Snippet> {
        let condition = Condition::new(&parse(query).unwrap(), Language::English).unwrap();
        let mut finder = Finder::new(&condition, Language::English, most);
        // Pieces as they come from a file.
        let (one, other) = text.split_at(text.floor_char_boundary(text.len() / 2));
        finder.feed(one);
        finder.feed(other);
        finder.finish()
    }

    fn marked(snippet: &Snippet) -> Vec<&str> {
        snippet.marks.iter().map(|mark| &snippet.text[mark.clone()]).collect()
    }

    const TEXT: &str =
        "Call me Ishmael.\nThe white whales swam.\n\n  A Whale, white as snow; the ship of whales.\nShips!\n";

    #[test]
    fn lines_with_most_of_what_is_wanted_are_shown_with_its_words_marked() {
        let found = find("whale ship", TEXT, 2);
        assert_eq!(found.iter().map(|it| it.line).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(marked(&found[1]), ["Whale", "ship", "whales"]);
        assert_eq!(found[1].text, "A Whale, white as snow; the ship of whales.");
        assert_eq!(find("whale ship", TEXT, 1)[0].line, 4);
        assert_eq!(find("whale ship", TEXT, 9).len(), 3);
        assert_eq!(find("captain", TEXT, 9), []);
        assert_eq!(find("whale", TEXT, 0), []);
    }

    #[test]
    fn of_a_phrase_only_the_whole_is_marked_and_nothing_that_must_not_be_there() {
        let found = find("\"white whale\" -ship", TEXT, 9);
        assert_eq!(found.len(), 1);
        assert_eq!(marked(&found[0]), ["white", "whales"]);
        let phrase = find("\"ship of whales\"", TEXT, 9);
        assert_eq!(marked(&phrase[0]), ["ship", "whales"]);
    }

    #[test]
    fn a_long_line_is_shown_around_its_first_mark() {
        let text = format!("{}\u{7}the größte whale {}", "é".repeat(3000), "ü ".repeat(5000));
        let found = find("whale", &text, 3);
        assert_eq!(marked(&found[0]), ["whale"]);
        let shown = &found[0].text;
        assert!(shown.starts_with('…') && shown.ends_with('…') && shown.chars().count() <= 162, "{shown}");
        assert!(shown.contains(" the größte whale ü"), "{shown}");
    }
}
