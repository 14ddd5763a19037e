//! What searches show to one who watches the server's half, read from the recorded messages of each protocol: how
//! many results there are and which stored items they are, as far as the protocol shows it.
//!
//! Items have the names under which the server keeps them (sealed entry, sealed element, bucket), never plaintexts.

use super::tape::Exchange;
use crate::protocols;
use arras_protocol::ProtocolId;
use std::collections::HashMap;

/// How much of something is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grain {
    /// Nothing.
    Hidden,
    /// With others beside it, or rounded: pages, buckets, blocks.
    Coarse,
    /// Exactly the results.
    Exact,
}

/// What the searches of a protocol show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The number of results.
    pub volume: Grain,
    /// Which stored items they are.
    pub items: Grain,
    /// Whether the items come in the order of their values.
    pub in_order: bool,
}

impl Sight {
    /// Of a protocol. Nothing if it is none that is known here.
    #[must_use]
    pub fn of(protocol: ProtocolId) -> Self {
        view(protocol).map_or(Self::NOTHING, |view| view.sight)
    }

    const NOTHING: Self = Self { volume: Grain::Hidden, items: Grain::Hidden, in_order: false };
}

/// How the messages of a protocol are read for what they show.
pub(crate) struct View {
    /// Whose messages.
    pub(crate) protocol: ProtocolId,
    /// What its searches show.
    pub(crate) sight: Sight,
    /// Bytes of a stored entry, said by a message that makes an index.
    pub(crate) entry_bytes: fn(&Exchange) -> Option<usize>,
    /// The name under which the server keeps the one record that a message inserts, if it can be told.
    pub(crate) inserted: fn(&Exchange) -> Option<Vec<u8>>,
    /// What a message of a search shows; with the bytes of an entry, at least 1.
    pub(crate) seen: fn(&Exchange, usize, &mut Seen),
    /// Whether the first and the last item read are results, and not their neighbours.
    pub(crate) ends_are_results: bool,
}

impl std::fmt::Debug for View {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "View({:?})", self.protocol)
    }
}

fn view(protocol: ProtocolId) -> Option<&'static View> {
    protocols::ALL.iter().map(|entry| entry.view).find(|view| view.protocol == protocol)
}

/// What one search showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Returned {
    /// Number of results, or of what [`Sight::volume`] says comes with them.
    pub volume: u64,
    /// The items, in the order in which they came, each by its number; none if they are hidden.
    pub items: Vec<u32>,
}

/// What all searches showed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// What can be seen at all.
    pub sight: Sight,
    /// Number of different items; they are numbered from 0.
    pub items: usize,
    /// One search after the other.
    pub searches: Vec<Returned>,
}

impl Observed {
    /// The first searches alone.
    #[must_use]
    pub fn first(&self, searches: usize) -> Self {
        let searches = self.searches[..searches.min(self.searches.len())].to_vec();
        Self { searches, ..*self }
    }
}

/// Reads recorded messages.
#[derive(Debug)]
pub struct Observer {
    sight: Sight,
    /// Bytes of a stored entry or element, if they are all of one length.
    entry_bytes: usize,
    numbers: HashMap<Vec<u8>, u32>,
    searches: Vec<Returned>,
}

/// What the messages of one search showed.
#[derive(Default)]
pub(crate) struct Seen {
    /// Names of items in the order in which they came.
    pub(crate) names: Vec<Vec<u8>>,
    /// A volume that is not their number.
    pub(crate) volume: Option<u64>,
    /// Results in each list that was asked for.
    pub(crate) lists: HashMap<Vec<u8>, u64>,
}

impl Observer {
    /// Begins with the messages that made the index.
    #[must_use]
    pub fn new(made: &[Exchange]) -> Self {
        let mut observer =
            Self { sight: Sight::NOTHING, entry_bytes: 0, numbers: HashMap::new(), searches: Vec::new() };
        for exchange in made {
            let bytes = view(exchange.protocol).and_then(|view| (view.entry_bytes)(exchange));
            observer.entry_bytes = bytes.unwrap_or(observer.entry_bytes);
        }
        observer
    }

    /// The name under which the server keeps the one record that these messages have inserted, if it can be told.
    #[must_use]
    pub fn inserted(exchanges: &[Exchange]) -> Option<Vec<u8>> {
        exchanges.iter().find_map(|exchange| (view(exchange.protocol)?.inserted)(exchange))
    }

    /// Takes the messages of one search for what they show.
    pub fn search(&mut self, exchanges: &[Exchange]) {
        if let Some(exchange) = exchanges.first() {
            self.sight = Sight::of(exchange.protocol);
        }
        let mut seen = self.seen(exchanges);
        if self.sight.items == Grain::Hidden {
            seen.names.clear();
        }
        let volume = seen.volume.unwrap_or(seen.names.len() as u64);
        let items = seen.names.into_iter().map(|name| self.number(name)).collect();
        self.searches.push(Returned { volume, items });
    }

    fn number(&mut self, name: Vec<u8>) -> u32 {
        let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(name).or_insert(next)
    }

    /// The number of an item that was seen.
    #[must_use]
    pub fn number_of(&self, name: &[u8]) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// The first item of the search observed last.
    #[must_use]
    pub fn last_item(&self) -> Option<u32> {
        self.searches.last().and_then(|returned| returned.items.first()).copied()
    }

    /// How many searches were observed.
    #[must_use]
    pub fn searches(&self) -> usize {
        self.searches.len()
    }

    /// What was observed.
    #[must_use]
    pub fn observed(self) -> Observed {
        Observed { sight: self.sight, items: self.numbers.len(), searches: self.searches }
    }

    fn seen(&self, exchanges: &[Exchange]) -> Seen {
        let mut seen = Seen::default();
        for exchange in exchanges {
            if let Some(view) = view(exchange.protocol) {
                (view.seen)(exchange, self.entry_bytes.max(1), &mut seen);
            }
        }
        let mut views = exchanges.iter().filter_map(|exchange| view(exchange.protocol));
        if views.any(|view| !view.ends_are_results) && seen.names.len() >= 2 {
            seen.names.pop();
            seen.names.remove(0);
        }
        seen
    }
}
