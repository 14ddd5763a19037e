//! The one contract for indexes: how a keyed half takes part in a write, and what it may be asked.
//!
//! *One write model.* A half *stages* a change: it may read from the server first (walks, paths), and changes nothing there
//! by itself. What it adds to its caller's write is a [`Staged`]: steps, records of the caller's own state, and what the
//! headers of the documents are to keep; what would make that write too large goes before it ([`Preceding`]). All of it becomes durable in one intent, and takes effect in one transaction, or
//! not at all. A change that is dropped without [`Staged::commit`] did not happen, or it is unknown whether it did.
//!
//! A half is a trait object, so that who plans and writes knows kinds of index only by what they serve.

mod equality;

use crate::error::IndexError;
use crate::random::Randomness;
use arras_numbers::NumberSum;
use arras_protocol::write::Step;
use arras_protocol::{IndexId, RowId};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

pub use crate::arx_range::{Epochs, RangeEntry, RangeSums, Repair};
pub use arras_protocol::Order;
pub use equality::{
    Difference, EqualityAnswer, EqualitySearch, Held, Occasion, OnRecord, Renumbered, Renumbering,
    UniqueSearch, Worn,
};

/// What an operation of a half will come to.
pub type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Entries as a search names them.
pub type KeysAndRows = Vec<(Vec<u8>, RowId)>;

/// A document's terms in one index, and the numbers summed under each (none in an index without sums).
pub type Terms = BTreeMap<Vec<u8>, Vec<NumberSum>>;

/// Values of which entries went, and the counters that these were under.
pub type Released = BTreeMap<Vec<u8>, BTreeSet<u32>>;

/// What one document's change comes to in one index.
#[derive(Clone, Debug)]
pub struct RowChange {
    /// The document.
    pub row: RowId,
    /// Its terms before; none if it is new.
    pub old: Terms,
    /// Its terms from now on; none if it goes.
    pub new: Terms,
    /// What the document's header keeps of this index, in the order of the old terms.
    pub held: Vec<Held>,
}

/// Records of the caller's durable state that halves read while they stage.
pub trait State: Send + Sync {
    /// The record of a name.
    ///
    /// # Errors
    /// [`IndexError::State`].
    fn read(&self, name: &[u8]) -> Result<Option<Vec<u8>>, IndexError>;

    /// The records of several names, in their order.
    ///
    /// # Errors
    /// [`IndexError::State`].
    fn read_many(&self, names: &[Vec<u8>]) -> Result<Vec<Option<Vec<u8>>>, IndexError> {
        names.iter().map(|name| self.read(name)).collect()
    }

    /// Visits the records whose names begin so, by name.
    ///
    /// # Errors
    /// [`IndexError::State`].
    fn each(&self, beginning: &[u8], visit: &mut dyn FnMut(&[u8], Vec<u8>)) -> Result<(), IndexError>;

    /// Where what is staged takes its randomness from: the operating system, unless its owner was given another source.
    fn randomness(&self) -> &Randomness {
        &crate::random::SYSTEM
    }
}

/// A record of the caller's durable state as it is to become; none: it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateChange {
    /// Its name: behind the index's own what the index calls it by, which is kept as it is and says nothing to one without keys.
    pub name: Vec<u8>,
    /// With the write.
    pub now: Option<Vec<u8>>,
    /// If the write is not applied.
    pub otherwise: Option<Vec<u8>>,
}

/// Steps by when they take effect. Those of a set say nothing by their order: the caller permutes them.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    /// Before everything else: what others may take in the same write. A set.
    pub freed: Vec<Step>,
    /// Before the documents. A set.
    pub entries: Vec<Step>,
    /// Before the documents, in the order given, which follows from the index's shape.
    pub ordered: Vec<Step>,
    /// After the documents. A set.
    pub removed: Vec<Step>,
}

/// Writes of an index's own that go before the write that its change belongs to, because they are too large for one: each leaves
/// what the index answers as it was. Dropped in between, the index is a right one, and the change did not happen.
pub trait Preceding: Send {
    /// The next of them, with the records of the caller's state; none if they are done.
    fn next(&mut self) -> Option<(Steps, Vec<StateChange>)>;

    /// The server has acknowledged the one given last.
    ///
    /// # Errors
    /// [`IndexError::State`].
    fn acknowledged(&mut self) -> Result<(), IndexError>;
}

/// Ends a staged change that was applied; what is left to do behind it.
type Finish = Box<dyn FnOnce() -> Repair + Send>;

/// A change that is ready to be written.
#[derive(Default)]
pub struct Staged {
    /// To be written before, if there are any.
    pub preceding: Option<Box<dyn Preceding>>,
    /// For the caller's write.
    pub steps: Steps,
    /// To be recorded with the caller's intent.
    pub state: Vec<StateChange>,
    /// For each change, what the document's header is to keep, in the order of its new terms; empty for an index that keeps
    /// nothing there.
    pub held: Vec<Vec<Held>>,
    /// What may be worth cleaning up once the change is applied.
    pub released: Released,
    /// Called by [`Self::commit`]; what it holds goes with it.
    pub finish: Option<Finish>,
}

impl std::fmt::Debug for Staged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Staged({} state records)", self.state.len())
    }
}

impl Staged {
    /// To be called when the server has acknowledged the write. Dropping instead means that nothing was applied, or that the
    /// outcome is unknown; such a write must be settled before this is dropped.
    pub fn commit(self) -> Repair {
        self.finish.map_or_else(Repair::none, |finish| finish())
    }
}

/// A writer's place at an index: given up when dropped.
pub type Place = Box<dyn Any + Send>;

/// The keyed half of an index.
pub trait EncryptedIndex: Send + Sync + std::fmt::Debug {
    /// Its name on the server.
    fn index(&self) -> IndexId;

    /// Bytes of one entry's steps, about, and rather too many.
    fn entry_bytes(&self) -> usize;

    /// True if it keeps something of each term in the document's header.
    fn keeps_in_headers(&self) -> bool {
        false
    }

    /// True if entries of a new index are best entered in the order of their keys; else they come in a random one, which says
    /// nothing of keys nor of documents.
    fn fills_in_order(&self) -> bool {
        false
    }

    /// What it can be asked.
    fn serves(&self) -> Serves;

    /// Itself as what says who has a value, if it does.
    fn unique(self: Arc<Self>) -> Option<Arc<dyn UniqueSearch>> {
        None
    }

    /// Itself as what answers equality, if it does.
    fn equality(self: Arc<Self>) -> Option<Arc<dyn EqualitySearch>> {
        None
    }

    /// Itself as what answers ranges, if it does.
    fn range(self: Arc<Self>) -> Option<Arc<dyn RangeSearch>> {
        None
    }

    /// Waits to have the index for a change. A caller who changes several takes all places before the first is staged, in an
    /// order that every caller keeps to.
    fn place(self: Arc<Self>) -> Pending<'static, Place> {
        Box::pin(std::future::ready(Box::new(()) as Place))
    }

    /// Stages a change, in a place it was given. Entries that are there already, or not there to be removed, are none the
    /// worse.
    ///
    /// # Errors
    /// [`IndexError`]; nothing has changed then.
    fn stage(
        self: Arc<Self>,
        place: Place,
        changes: Vec<RowChange>,
        state: Arc<dyn State>,
    ) -> Pending<'static, Result<Staged, IndexError>>;

    /// Waits to have the index alone while a write of steps computed earlier is sent again: what is known here of the index
    /// is loaded anew behind it.
    fn suspend(self: Arc<Self>) -> Pending<'static, Place> {
        self.place()
    }

    /// The server was found to have started anew: what must not be used twice across its starts is made again.
    fn server_restarted(self: Arc<Self>) -> Pending<'static, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// What an index can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// Whether a value is taken, and by whom: see [`EncryptedIndex::unique`].
    Unique,
    /// The rows of values: see [`EncryptedIndex::equality`].
    Equality,
    /// Ranges of keys: see [`EncryptedIndex::range`].
    Range,
}

/// A range of keys to be searched.
#[derive(Clone, Debug)]
pub struct RangeQuery {
    /// Lowest key.
    pub lower: Vec<u8>,
    /// Highest key.
    pub upper: Vec<u8>,
    /// From which end.
    pub order: Order,
    /// Most entries of the first page; none: as many as fit one reply.
    pub limit: Option<usize>,
}

/// Some entries of a range.
#[derive(Debug)]
pub struct RangePage {
    /// Keys and rows, in the order asked for; rows of equal keys in an order that means nothing.
    pub entries: KeysAndRows,
    /// How to go on, if there may be more.
    pub more: Option<Box<dyn RangeCursor>>,
    /// To be run behind the results.
    pub repair: Repair,
}

/// Where a search left off.
pub trait RangeCursor: Send + std::fmt::Debug {
    /// The next page. It goes on behind the last entry, whatever was written in between.
    fn next(self: Box<Self>, limit: Option<usize>) -> Pending<'static, Result<RangePage, IndexError>>;
}

/// An index that answers ranges.
pub trait RangeSearch: EncryptedIndex {
    /// The entries with `lower <= key <= upper`, from the end that the order says.
    ///
    /// # Errors
    /// [`IndexError`]; nothing is returned in part.
    fn search(self: Arc<Self>, range: RangeQuery) -> Pending<'static, Result<RangePage, IndexError>>;

    /// Every entry, compared with whatever the index knows of itself: for an inspection that nothing writes beside.
    ///
    /// # Errors
    /// [`IndexError`].
    fn inspect(self: Arc<Self>) -> Pending<'static, Result<KeysAndRows, IndexError>>;

    /// Count and sums of a range without its entries; none if the index keeps none.
    ///
    /// # Errors
    /// [`IndexError`].
    fn sums(
        self: Arc<Self>,
        lower: Vec<u8>,
        upper: Vec<u8>,
    ) -> Pending<'static, Result<Option<(RangeSums, Repair)>, IndexError>> {
        drop((lower, upper));
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Whether it can mostly say how many entries a range has, without asking the server.
    fn estimates(&self) -> bool {
        false
    }

    /// About how many of `entries` entries a range has, where that is known here.
    fn estimate(&self, lower: &[u8], upper: &[u8], entries: u64) -> Option<u64> {
        let _ = (lower, upper, entries);
        None
    }

    /// Entries of one write when a new index is filled, for a write of about so many bytes.
    fn entries_per_write(&self, write_bytes: usize) -> usize;
}

/// Entries to add and to remove; one whose sums change is both.
#[must_use]
pub fn range_entries(changes: Vec<RowChange>) -> (Vec<RangeEntry>, Vec<RangeEntry>) {
    let (mut insert, mut remove) = (Vec::new(), Vec::new());
    for RowChange { row, mut old, mut new, .. } in changes {
        old.retain(|key, sums| {
            let same = new.get(key) == Some(sums);
            if same {
                new.remove(key);
            }
            !same
        });
        let entry = |(value, sums)| RangeEntry { value, row, sums };
        remove.extend(old.into_iter().map(entry));
        insert.extend(new.into_iter().map(entry));
    }
    (insert, remove)
}
