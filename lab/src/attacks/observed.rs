//! What searches show to one who watches the server's half, read from the recorded messages of each protocol: how
//! many results there are and which stored items they are, as far as the protocol shows it.
//!
//! Items have the names under which the server keeps them (sealed entry, sealed element, bucket), never plaintexts.

use super::tape::Exchange;
use arras_protocol::arx_range::{self, ArxRange};
use arras_protocol::bplus::{self, BPlus, SealedEntry};
use arras_protocol::kerschbaum_tueno::{self, ENTRY_BYTES, KerschbaumTueno};
use arras_protocol::logarithmic_brc::{self, LogarithmicBrc};
use arras_protocol::path_oram::{self, PathOram};
use arras_protocol::pope::{self, Pope};
use arras_protocol::{Protocol, ProtocolId};
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
        let sight = |volume, items, in_order| Self { volume, items, in_order };
        match protocol {
            BPlus::ID | KerschbaumTueno::ID => sight(Grain::Exact, Grain::Exact, true),
            // The elements of the range's two end leaves come with the results, unsorted.
            Pope::ID => sight(Grain::Coarse, Grain::Coarse, false),
            // A record has a sealed copy in each list that holds it, and no two of them look related.
            LogarithmicBrc::ID => sight(Grain::Exact, Grain::Hidden, false),
            PathOram::ID => sight(Grain::Coarse, Grain::Hidden, false),
            // Buckets, padded.
            ArxRange::ID => sight(Grain::Coarse, Grain::Coarse, true),
            _ => sight(Grain::Hidden, Grain::Hidden, false),
        }
    }
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

/// Names in the order in which they came, and a volume that is not their number.
#[derive(Default)]
struct Seen {
    names: Vec<Vec<u8>>,
    volume: Option<u64>,
}

impl Observer {
    /// Begins with the messages that made the index.
    #[must_use]
    pub fn new(made: &[Exchange]) -> Self {
        let mut observer = Self {
            sight: Sight { volume: Grain::Hidden, items: Grain::Hidden, in_order: false },
            entry_bytes: 0,
            numbers: HashMap::new(),
            searches: Vec::new(),
        };
        for exchange in made {
            match (exchange.of::<BPlus>(), exchange.of::<Pope>()) {
                (Some((bplus::Request::Change(bplus::Change::CreateIndex { scheme, .. }), _)), _) => {
                    observer.entry_bytes = scheme.stored_bytes().unwrap_or(0) + SealedEntry::BYTES;
                }
                (_, Some((pope::Request::CreateIndex { element_bytes, .. }, _))) => {
                    observer.entry_bytes = usize::from(element_bytes);
                }
                _ => {}
            }
        }
        observer
    }

    /// The name under which the server keeps the one record that these messages have inserted, if it can be told.
    #[must_use]
    pub fn inserted(exchanges: &[Exchange]) -> Option<Vec<u8>> {
        exchanges.iter().find_map(|exchange| {
            if let Some((request, _)) = exchange.of::<BPlus>() {
                return match request {
                    bplus::Request::Change(bplus::Change::Insert { entries, .. })
                    | bplus::Request::Load { entries, .. } => {
                        entries.first().map(|entry| entry.sealed.as_bytes().to_vec())
                    }
                    bplus::Request::Change(bplus::Change::Revise { revision, .. }) => {
                        revision.inserted.first().map(|entry| entry.sealed.as_bytes().to_vec())
                    }
                    _ => None,
                };
            }
            if let Some((kerschbaum_tueno::Request::Insert { entry, .. }, _)) =
                exchange.of::<KerschbaumTueno>()
            {
                return Some(entry.to_vec());
            }
            match exchange.of::<Pope>() {
                Some((pope::Request::Insert { elements, .. }, _)) => Some(elements.0),
                _ => None,
            }
        })
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
        let mut lists: HashMap<_, u64> = HashMap::new();
        for exchange in exchanges {
            if let Some((_, bplus::Response::Found { entries, .. })) = exchange.of::<BPlus>() {
                let entries = entries.as_slice().chunks_exact(self.entry_bytes.max(1));
                let name = |entry: &[u8]| entry[entry.len().saturating_sub(SealedEntry::BYTES)..].to_vec();
                seen.names.extend(entries.map(name));
            } else if let Some((_, kerschbaum_tueno::Response::Entries(entries))) =
                exchange.of::<KerschbaumTueno>()
            {
                seen.names.extend(entries.as_slice().chunks_exact(ENTRY_BYTES).map(<[u8]>::to_vec));
            } else if let Some((_, pope::Response::Found { elements, .. })) = exchange.of::<Pope>() {
                let elements = elements.as_slice().chunks_exact(self.entry_bytes.max(1));
                seen.names.extend(elements.map(<[u8]>::to_vec));
            } else if let Some((path_oram::Request::Access { read, .. }, _)) = exchange.of::<PathOram>() {
                *seen.volume.get_or_insert(0) += read.len() as u64;
            } else if let Some((_, arx_range::Response::Found { buckets, .. })) = exchange.of::<ArxRange>() {
                seen.names.extend(buckets.iter().map(|found| found.node.as_bytes().to_vec()));
            } else if let Some((
                logarithmic_brc::Request::Search { asked, .. },
                logarithmic_brc::Response::Found { records, .. },
            )) = exchange.of::<LogarithmicBrc>()
            {
                // A list that did not fit into one reply is asked for again, with the same token.
                let tokens = asked
                    .iter()
                    .flat_map(|asked| asked.tokens.iter().map(move |token| (asked.instance, token.0)));
                lists.extend(tokens.zip(records.into_iter().map(u64::from)));
                seen.volume = Some(lists.values().sum());
            }
        }
        let is_array = exchanges.iter().any(|exchange| exchange.protocol == KerschbaumTueno::ID);
        if is_array && seen.names.len() >= 2 {
            // The first and the last one read are the range's neighbours.
            seen.names.pop();
            seen.names.remove(0);
        }
        seen
    }
}
