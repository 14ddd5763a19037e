//! Results that wait for their clients to take them, page by page.

use crate::budget::{Reserved, Share};
use crate::documents::Documents;
use crate::state::State;
use arras_protocol::iee::ConnectionId;
use arras_schemes::bisen::message::{Groups, Hit, PAGE_HITS, Page};
use arras_schemes::bisen::query::Padding;
use std::collections::BTreeMap;

/// The results of a search, of which some pages were taken.
pub(crate) struct Cursor {
    connection: ConnectionId,
    collection: u32,
    /// Of which its client may see documents.
    groups: Groups,
    best: Best,
    /// Results taken.
    taken: usize,
    /// Slots that are still to be filled.
    slots: usize,
    matches: u32,
    reserved: Reserved,
}

/// Numbers of documents and their scores, best first if they are ranked.
pub(crate) type Best = Vec<(u32, f32)>;

/// Bytes that a cursor takes whatever it holds, with its place among all.
const CURSOR_BYTES: usize = size_of::<Cursor>() + 64;

/// Bytes that a list of groups takes, about.
pub(crate) fn groups_bytes(groups: &Groups) -> usize {
    if let Groups::Only(groups) = groups { 16 * groups.len() } else { 0 }
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
        (connection, collection, groups): (ConnectionId, u32, Groups),
        mut best: Best,
        matches: u32,
        padding: Padding,
    ) -> Self {
        best.shrink_to_fit();
        let slots = padding.slots(best.len() as u32) as usize;
        let reserved = Reserved::default();
        Self { connection, collection, groups, best, taken: 0, slots, matches, reserved }
    }

    pub(crate) fn bytes(&self) -> usize {
        // Slots, not results: padded, it takes as much whatever was found.
        let slots = (self.taken + self.slots).max(self.best.len());
        CURSOR_BYTES + groups_bytes(&self.groups) + 8 * slots
    }

    /// The next page, and whether it is the last. What went meanwhile is left out.
    fn page(&mut self, documents: &Documents, cursor: u64) -> (Page, bool) {
        let slots = self.slots.min(PAGE_HITS);
        self.slots -= slots;
        let from = self.taken;
        self.taken = self.best.len().min(from + slots);
        let hit = |(number, score): &(u32, f32)| {
            let shown = documents.get(*number).filter(|_| documents.shows(*number, &self.groups));
            shown.map(|version| Hit { name: version.name, score: *score })
        };
        let hits = self.best[from..self.taken].iter().filter_map(hit).collect();
        let is_last = self.slots == 0;
        (Page::new(hits, slots, self.matches, if is_last { 0 } else { cursor }), is_last)
    }
}

/// All of them, by cursor: numbers rise, so the oldest is the first.
#[derive(Default)]
pub(crate) struct Results {
    cursors: BTreeMap<u64, Cursor>,
    last: u64,
}

impl Results {
    /// The first page of new results, for which these bytes are counted.
    pub(crate) fn begin(&mut self, mut cursor: Cursor, reserved: Reserved, documents: &Documents) -> Page {
        cursor.reserved = reserved;
        let (page, is_last) = cursor.page(documents, self.last + 1);
        if !is_last {
            self.last += 1;
            self.cursors.insert(self.last, cursor);
        }
        page
    }

    /// The next page of a client's results.
    pub(crate) fn more(&mut self, number: u64, connection: ConnectionId, state: &State) -> Option<Page> {
        let cursor = self.cursors.get_mut(&number).filter(|cursor| cursor.connection == connection)?;
        let (page, is_last) = cursor.page(&state.collection(cursor.collection).ok()?.documents, number);
        if is_last {
            self.cursors.remove(&number);
        }
        Some(page)
    }

    /// Gives the oldest up, or the oldest of those who have no less than a client, if there are any.
    pub(crate) fn close_oldest(&mut self, of: Option<&Share>) -> bool {
        let is_its = |cursor: &Cursor| of.is_none_or(|share| cursor.reserved.is_of_no_less(share));
        let oldest = self.cursors.iter().find(|(_, cursor)| is_its(cursor)).map(|(number, _)| *number);
        oldest.and_then(|number| self.cursors.remove(&number)).is_some()
    }

    /// Gives up what a client has.
    pub(crate) fn close_all_of(&mut self, connection: ConnectionId) {
        self.cursors.retain(|_, cursor| cursor.connection != connection);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Budget;

    #[test]
    fn what_waits_counts_even_if_nothing_was_found() {
        let padded = |numbers, padding| Cursor::new((ConnectionId(1), 0, Groups::All), numbers, 0, padding);
        let cursor = |numbers| padded(numbers, Padding::Fixed(2 * PAGE_HITS as u32));
        let (mut results, documents) = (Results::default(), Documents::default());
        let none = cursor(Vec::new());
        let counted = none.bytes();
        assert!(counted >= size_of::<Cursor>());
        assert_eq!(cursor(vec![(1, 0.0); 100]).bytes(), counted, "padded, it says nothing of what was found");
        let open = |numbers| padded(numbers, Padding::None).bytes();
        assert!(open(vec![(1, 0.0); 100]) >= open(Vec::new()) + 400);
        let mut grown = Vec::with_capacity(5000);
        grown.resize(2600, (1, 0.0));
        let grown = padded(grown, Padding::None);
        assert!(
            CURSOR_BYTES + 8 * grown.best.capacity() <= grown.bytes(),
            "what is free behind it counts, too"
        );
        // There is a second page of it, so it waits.
        let budget = Budget::new(1 << 20);
        let (free, reserved) = (budget.free(), budget.reserve(counted, &Share::default()));
        let page = results.begin(none, reserved.unwrap_or_default(), &documents);
        assert_eq!((page.cursor(), budget.free()), (1, free - counted));
        assert!(results.close_oldest(None) && budget.free() == free);
    }
}
