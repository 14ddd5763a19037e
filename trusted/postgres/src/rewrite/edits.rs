//! What is replaced in a statement's text, and the text that comes of it.

use crate::error::{SqlError, sqlstate};
use crate::plan::{Form, Piece, Source, Value};
use crate::text::{Lexemes, statements};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

/// Bytes of the text and what stands there instead. An empty range inserts.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub(super) bytes: Range<usize>,
    pub(super) pieces: Vec<Piece>,
}

/// The edits of one statement.
#[derive(Debug, Default)]
pub(super) struct Edits {
    list: Vec<Edit>,
    /// The ends of what is replaced, by their beginnings.
    covered: BTreeMap<usize, usize>,
    pub(super) values: Vec<Value>,
}

impl Edits {
    /// Takes the edits out, for a part of the text to be edited in several ways; values stay.
    pub(super) fn take(&mut self) -> Vec<Edit> {
        self.covered.clear();
        std::mem::take(&mut self.list)
    }

    /// Puts back what was taken, in place of what there is.
    pub(super) fn restore(&mut self, list: Vec<Edit>) {
        self.covered = list.iter().map(|edit| (edit.bytes.start, edit.bytes.end)).collect();
        self.covered.retain(|start, end| start < end);
        self.list = list;
    }

    /// How many edits and values there are.
    pub(super) fn mark(&self) -> (usize, usize) {
        (self.list.len(), self.values.len())
    }

    /// Takes back what came behind a mark.
    pub(super) fn back_to(&mut self, (edits, values): (usize, usize)) {
        let mut list = std::mem::take(&mut self.list);
        list.truncate(edits);
        self.restore(list);
        self.values.truncate(values);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn replace(&mut self, bytes: Range<usize>, pieces: Vec<Piece>) {
        if !bytes.is_empty() {
            self.covered.insert(bytes.start, bytes.end);
        }
        self.list.push(Edit { bytes, pieces });
    }

    pub(super) fn insert(&mut self, at: usize, text: impl Into<String>) {
        self.replace(at..at, vec![Piece::Text(text.into())]);
    }

    /// The same of what is looked at more than once.
    pub(super) fn insert_once(&mut self, at: usize, text: String) {
        let pieces = [Piece::Text(text.clone())];
        if !self.list.iter().any(|edit| edit.bytes == (at..at) && edit.pieces == pieces) {
            self.insert(at, text);
        }
    }

    /// Is that byte replaced?
    pub(super) fn covers(&self, byte: usize) -> bool {
        self.covered.range(..=byte).next_back().is_some_and(|(_, end)| byte < *end)
    }

    /// The position of a value. A plain parameter is one value however often it is used, so that the database finds one type
    /// for it.
    pub(super) fn value(&mut self, value: Value) -> usize {
        let same = |other: &Value| matches!(other.form, Form::Plain) && other.source == value.source;
        if matches!(value.form, Form::Plain)
            && let Some(position) = self.values.iter().position(same)
        {
            return position;
        }
        self.values.push(value);
        self.values.len() - 1
    }

    /// The text of some bytes of the original with what is replaced in it.
    ///
    /// # Errors
    /// Replacements that overlap: a defect of the analysis.
    pub(super) fn pieces(&self, text: &str, bytes: Range<usize>) -> Result<Vec<Piece>, SqlError> {
        let inside = |edit: &&Edit| bytes.start <= edit.bytes.start && edit.bytes.end <= bytes.end;
        let mut edits: Vec<&Edit> = self.list.iter().filter(inside).collect();
        // What is inserted before something that is replaced stands before it.
        edits.sort_by_key(|edit| (edit.bytes.start, edit.bytes.end));
        let (mut pieces, mut at) = (Vec::new(), bytes.start);
        for edit in edits {
            let between = text.get(at..edit.bytes.start).ok_or_else(|| defect("replacements overlap"))?;
            push(&mut pieces, Piece::Text(between.to_owned()));
            edit.pieces.iter().for_each(|piece| push(&mut pieces, piece.clone()));
            at = edit.bytes.end;
        }
        push(&mut pieces, Piece::Text(text.get(at..bytes.end).unwrap_or_default().to_owned()));
        Ok(pieces)
    }

    /// That the tokens which are not replaced are tokens of the new text, too, and in their places: that no replacement
    /// has grown together with what stands beside it, or has opened a quote or a comment.
    ///
    /// # Errors
    /// They are not: a defect of the analysis, and the statement is not run.
    pub(super) fn check(&self, text: &str, lexemes: &Lexemes) -> Result<(), SqlError> {
        let mut edits: Vec<&Edit> = self.list.iter().collect();
        edits.sort_by_key(|edit| (edit.bytes.start, edit.bytes.end));
        let rendered = render(&self.pieces(text, lexemes.span())?);
        let [ref after] = statements(&rendered)?[..] else {
            return Err(defect("the rewritten text is not one statement"));
        };
        let start = lexemes.span().start;
        // How much longer the text has become before the token.
        let (mut edits, mut added, mut gone) = (edits.into_iter().peekable(), 0, 0);
        for lexeme in lexemes.list.iter().filter(|lexeme| !self.covers(lexeme.bytes.start)) {
            while let Some(edit) = edits.next_if(|edit| edit.bytes.end <= lexeme.bytes.start) {
                added += render(&edit.pieces).len();
                gone += edit.bytes.len();
            }
            let place = lexeme.bytes.start - start + added - gone;
            let found = after.list.binary_search_by(|other| other.bytes.start.cmp(&place)).ok();
            let same = found.and_then(|at| after.token(at)).is_some_and(|token| *token == lexeme.token.token);
            if !same {
                return Err(defect("a token beside a replacement is not what it was"));
            }
        }
        Ok(())
    }
}

fn defect(what: &str) -> SqlError {
    SqlError::new(sqlstate::INTERNAL_ERROR, format!("the statement could not be rewritten: {what}"))
}

fn render(pieces: &[Piece]) -> String {
    let part = |piece: &Piece| match piece {
        Piece::Text(text) => text.clone(),
        Piece::Value(position) => format!("${}", position + 1),
    };
    pieces.iter().map(part).collect()
}

/// Adds a piece, texts together.
fn push(pieces: &mut Vec<Piece>, piece: Piece) {
    match (pieces.last_mut(), piece) {
        (_, Piece::Text(text)) if text.is_empty() => {}
        (Some(Piece::Text(last)), Piece::Text(text)) => last.push_str(&text),
        (_, piece) => pieces.push(piece),
    }
}

/// The pieces with the values that they use numbered from 0, and those values.
pub(super) fn compact(pieces: Vec<Piece>, values: &[Value]) -> (Vec<Piece>, Vec<Value>) {
    let (mut used, mut kept): (HashMap<usize, usize>, Vec<Value>) = (HashMap::new(), Vec::new());
    let mut renumber = |piece: Piece| match piece {
        Piece::Text(text) => Piece::Text(text),
        Piece::Value(position) => {
            let next = used.len();
            let place = *used.entry(position).or_insert_with(|| {
                kept.extend(values.get(position).cloned());
                next
            });
            Piece::Value(place)
        }
    };
    let pieces = pieces.into_iter().map(&mut renumber).collect();
    (pieces, kept)
}

/// Is it a parameter of that value's?
pub(super) fn parameter_of(value: &Value) -> Option<u16> {
    match value.source {
        Source::Parameter(number) => Some(number),
        Source::Constant(_)
        | Source::Constants(_)
        | Source::Read(_)
        | Source::Computed(_)
        | Source::Moment(_) => None,
    }
}
