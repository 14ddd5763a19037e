//! Results that wait for their clients to take them, page by page.

use crate::documents::Documents;
use arras_protocol::iee::ConnectionId;
use arras_schemes::bisen::message::{Hit, PAGE_HITS, Page};
use arras_schemes::bisen::query::Padding;
use std::collections::BTreeMap;

/// The results of a search, of which some pages were taken.
pub(crate) struct Cursor {
    pub(crate) connection: ConnectionId,
    pub(crate) collection: u32,
    numbers: Vec<u32>,
    /// Of a ranked search.
    scores: Vec<f32>,
    /// Results taken.
    taken: usize,
    /// Slots that are still to be filled.
    slots: usize,
    matches: u32,
    /// Bytes that are counted for it.
    pub(crate) reserved: usize,
}

/// Bytes that a cursor takes whatever it holds, with its place among all.
const CURSOR_BYTES: usize = size_of::<Cursor>() + 64;

/// What is hidden by both: the request may ask for more padding than the collection, not for less.
pub(crate) fn stricter(request: Padding, collection: Padding) -> Padding {
    match (request, collection) {
        (Padding::Fixed(one), Padding::Fixed(other)) => Padding::Fixed(one.max(other)),
        (Padding::Fixed(slots), _) | (_, Padding::Fixed(slots)) => Padding::Fixed(slots),
        (Padding::PowerOfTwo, _) | (_, Padding::PowerOfTwo) => Padding::PowerOfTwo,
        (Padding::None, Padding::None) => Padding::None,
    }
}

/// How many results a padding lets through.
pub(crate) fn most(padding: Padding, top: u32) -> usize {
    let top = if top == 0 { usize::MAX } else { top as usize };
    match padding {
        Padding::None | Padding::PowerOfTwo => top,
        Padding::Fixed(slots) => top.min(slots as usize),
    }
}

impl Cursor {
    pub(crate) fn new(
        connection: ConnectionId,
        collection: u32,
        (numbers, scores): (Vec<u32>, Vec<f32>),
        matches: u32,
        padding: Padding,
    ) -> Self {
        let slots = padding.slots(numbers.len() as u32) as usize;
        Self { connection, collection, numbers, scores, taken: 0, slots, matches, reserved: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        CURSOR_BYTES + 4 * (self.numbers.len() + self.scores.len())
    }

    /// The next page, and whether it is the last. What was retired meanwhile is left out.
    fn page(&mut self, documents: &Documents, cursor: u64) -> (Page, bool) {
        let slots = self.slots.min(PAGE_HITS);
        self.slots -= slots;
        let from = self.taken;
        self.taken = self.numbers.len().min(from + slots);
        let hit = |at: usize| {
            let number = *self.numbers.get(at).filter(|number| documents.published().has(**number))?;
            Some(Hit { name: documents.name(number)?, score: self.scores.get(at).copied().unwrap_or(0.0) })
        };
        let hits: Vec<Hit> = (from..self.taken).filter_map(hit).collect();
        let is_last = self.slots == 0;
        (Page::new(hits.into_iter(), slots, self.matches, if is_last { 0 } else { cursor }), is_last)
    }
}

/// All of them, by cursor: numbers rise, so the oldest is the first.
#[derive(Default)]
pub(crate) struct Results {
    cursors: BTreeMap<u64, Cursor>,
    last: u64,
}

impl Results {
    /// The first page of new results; bytes to be let go if there is no other.
    pub(crate) fn begin(&mut self, mut cursor: Cursor, documents: &Documents) -> (Page, usize) {
        let (page, is_last) = cursor.page(documents, self.last + 1);
        if is_last {
            return (page, cursor.reserved);
        }
        self.last += 1;
        self.cursors.insert(self.last, cursor);
        (page, 0)
    }

    /// Whose results these are.
    pub(crate) fn get(&self, cursor: u64, connection: ConnectionId) -> Option<&Cursor> {
        self.cursors.get(&cursor).filter(|found| found.connection == connection)
    }

    /// The next page; bytes to be let go if it is the last.
    pub(crate) fn more(&mut self, cursor: u64, documents: &Documents) -> Option<(Page, usize)> {
        let (page, is_last) = self.cursors.get_mut(&cursor)?.page(documents, cursor);
        let freed = if is_last { self.close(cursor) } else { 0 };
        Some((page, freed))
    }

    /// Gives results up; bytes to be let go.
    pub(crate) fn close(&mut self, cursor: u64) -> usize {
        self.cursors.remove(&cursor).map_or(0, |cursor| cursor.reserved)
    }

    /// Gives the oldest up.
    pub(crate) fn close_oldest(&mut self) -> Option<usize> {
        self.cursors.pop_first().map(|(_, cursor)| cursor.reserved)
    }

    /// Gives up what a client has.
    pub(crate) fn close_all_of(&mut self, connection: ConnectionId) -> usize {
        let gone = self.cursors.extract_if(.., |_, cursor| cursor.connection == connection);
        gone.map(|(_, cursor)| cursor.reserved).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_counts_even_if_nothing_was_found() {
        let cursor = |numbers| {
            Cursor::new(ConnectionId(1), 0, (numbers, Vec::new()), 0, Padding::Fixed(2 * PAGE_HITS as u32))
        };
        let (mut results, documents) = (Results::default(), Documents::new(0));
        let none = cursor(Vec::new());
        let counted = none.bytes();
        assert!(counted >= size_of::<Cursor>() && cursor(vec![1; 100]).bytes() >= counted + 400);
        // There is a second page of it, so it waits.
        let (page, freed) = results.begin(Cursor { reserved: counted, ..none }, &documents);
        assert_eq!((page.cursor(), freed, results.close_oldest()), (1, 0, Some(counted)));
    }
}
