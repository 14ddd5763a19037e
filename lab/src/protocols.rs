//! The protocols that can be measured: a row of [`ALL`] each.

mod arx_range;
mod bplus;
mod driven;
mod kerschbaum_tueno;
mod logarithmic_brc;
mod make;
mod mope;
mod path_oram;
mod pope;
mod watched;

pub use driven::{Answer, Driven, DrivenFuture};
pub use watched::{SchemeCalls, SchemeTally, Watched};

use crate::attacks::{AttackFailure, Ranks, View, WatchedRun};
use crate::channel::LabChannel;
use crate::compare::Evaluated;
use crate::seed;
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::IndexId;
use arras_protocol::leakage::Leakage;
use arras_protocol::ore::Width;
use arras_schemes::error::IndexError;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// What an index is made of.
#[derive(Debug)]
pub struct Making {
    /// The way to the server.
    pub channel: Arc<LabChannel>,
    /// Bits of a key.
    pub width: Width,
    /// Size of a page, in bytes: what nodes, buckets and blocks are to fit.
    pub page_bytes: usize,
    /// How many records there will be.
    pub records: usize,
    /// Everything random comes from it.
    pub seed: u64,
}

impl Making {
    /// The index's name on the server.
    #[must_use]
    pub fn index(&self) -> IndexId {
        IndexId([1; 8])
    }

    /// The index's key.
    #[must_use]
    pub fn key(&self) -> Key {
        seed::key(self.seed, "index")
    }

    /// The client half's randomness.
    #[must_use]
    pub fn prg(&self) -> Prg {
        seed::prg(self.seed, "client half")
    }
}

/// Says how large a state is.
pub type StateBytes = Box<dyn Fn() -> Pin<Box<dyn Future<Output = u64> + Send>> + Send + Sync>;

/// An index, ready to be measured.
pub struct Made {
    /// The client half.
    pub index: Box<dyn Driven>,
    /// Calls of its scheme, if it is over one.
    pub scheme: Option<SchemeTally>,
    /// Bytes of a stored ciphertext, if it is over a scheme.
    pub ciphertext_bytes: Option<u64>,
    /// Bytes of state the client half keeps besides its keys.
    pub state_bytes: StateBytes,
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Made(..)")
    }
}

/// How an index comes to its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Construction {
    /// All at once: one operation.
    Bulk,
    /// Each by an insertion of its own.
    OneByOne,
}

/// What a run takes, beside those of other protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// As most do.
    Usual,
    /// Several times as much.
    Much,
    /// More than all others together.
    Most,
}

type MakeFuture = Pin<Box<dyn Future<Output = Result<Made, IndexError>> + Send>>;

/// Reads ranks out of the store of a watched run.
pub(crate) type ReadRanks = fn(&WatchedRun) -> Result<Ranks, AttackFailure>;

/// A protocol that can be measured.
#[derive(Clone, Copy, Debug)]
pub struct ProtocolEntry {
    /// Its name on the command line and in results: one of [`arras_protocol::table::index`].
    pub name: &'static str,
    /// Its name in tables and plots.
    pub title: &'static str,
    /// What it leaks.
    pub leakage: fn(Width) -> Leakage,
    /// How it comes to its records.
    pub construction: Construction,
    /// Whether `all` means it, too. Not if a comparison takes most of a second.
    pub in_all: bool,
    /// What a run of it takes.
    pub work: Work,
    /// Bytes of the smallest page it works with.
    pub page_bytes_min: fn(Width) -> usize,
    make: fn(Making) -> MakeFuture,
    /// It sorts when it is searched: a look at its store comes after queries.
    pub(crate) sorted_by_queries: bool,
    /// What its store shows of the order, if anything.
    pub(crate) ranks: Option<ReadRanks>,
    /// What its messages show to one who watches.
    pub(crate) view: &'static View,
    /// What the comparative evaluation measured of it, if it did.
    pub(crate) table3: Option<&'static Evaluated>,
}

impl ProtocolEntry {
    /// Makes an empty index.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn make(&self, making: Making) -> Result<Made, IndexError> {
        (self.make)(making).await
    }
}

/// The rows by their modules, in the order of the tables.
const MODULES: &[&[ProtocolEntry]] = &[
    bplus::ENTRIES,
    &[kerschbaum_tueno::ENTRY, pope::ENTRY],
    mope::ENTRIES,
    &[logarithmic_brc::ENTRY, path_oram::ENTRY, arx_range::ENTRY],
];

/// All protocols, in the order of the tables.
pub const ALL: &[ProtocolEntry] = &joined::<{ count(MODULES) }>(MODULES);

const fn count(mut modules: &[&[ProtocolEntry]]) -> usize {
    let mut count = 0;
    while let [module, others @ ..] = modules {
        count += module.len();
        modules = others;
    }
    count
}

const fn joined<const COUNT: usize>(mut modules: &[&[ProtocolEntry]]) -> [ProtocolEntry; COUNT] {
    let mut rows = [arx_range::ENTRY; COUNT];
    let mut position = 0;
    while let [module, others @ ..] = modules {
        let mut module = *module;
        while let [row, further @ ..] = module {
            rows[position] = *row;
            position += 1;
            module = further;
        }
        modules = others;
    }
    rows
}

/// The protocol of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static ProtocolEntry> {
    ALL.iter().find(|protocol| protocol.name == name)
}

/// The names of all protocols, for messages.
#[must_use]
pub fn names() -> String {
    ALL.iter().map(|protocol| protocol.name).collect::<Vec<_>>().join(", ")
}
