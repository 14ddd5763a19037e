//! B+ tree over any OPE or ORE scheme: the half that encrypts, and decrypts and checks what is found.
//!
//! *Paper.* Bogatov, Kollios, Reyzin, VLDB 2019, §4.1.
//!
//! *Rows.* Value and row are sealed beside each ciphertext ([`arras_primitives::det_pair`], bound to the index), and what
//! is sealed names the entry. A ciphertext must decrypt to the value that is sealed beside it: a server that exchanges
//! rows, or alters a ciphertext, is found out. What it has of an entry says nothing of the entry's document, and is the
//! same again only if the same pair of value and row comes again.
//!
//! Schemes without state are [`BPlus`]: nothing is saved, and no lock is held while the server is asked. One whose
//! ciphertexts are the client's state is [`StatefulBPlus`].
//!
//! *Deviations.* The paper stores rows as they are. Every entry found is opened and must lie in the range, in order and
//! once; that the server leaves none out, or keeps what was removed, is not checked, for nothing authenticates that.

mod contract;
mod names;
mod present;
mod reply;
mod revision;
mod search;
mod stateful;

pub use present::Present;
pub(crate) use revision::{
    CIPHERTEXT as CIPHERTEXT_RECORD, ENTRY as ENTRY_RECORD, VERSION as VERSION_RECORD,
};
pub use stateful::{RevisionPart, StagedRevision, StatefulBPlus};

use crate::arx_range::RangeEntry;
use crate::error::IndexError;
use crate::ore::domain::key_plaintext;
use crate::ore::{EncryptFailed, End, OrderScheme};
use crate::traits::RangeIndex;
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::Order;
use arras_protocol::bplus::{
    After, BPlus as Protocol, Bound, Change, NewEntry, Request, Response, SealedEntry, Target,
};
use arras_protocol::ore::Scheme;
use arras_protocol::write::Step;
use arras_protocol::{Channel, IndexId, RowId};
use names::{Names, Ties};
use reply::Range;
use search::{Searching, ends};
use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard};

/// Ciphertext bytes at which a request of many entries is sent.
const REQUEST_BYTES_SOFT: usize = 1 << 20;

/// Entries at which it is.
const REQUEST_ENTRIES_MAX: usize = 4096;

/// A range index in a B+ tree of ciphertexts of a scheme without state.
pub struct BPlus<S, C> {
    channel: C,
    index: IndexId,
    public: Scheme,
    names: Names,
    scheme: RwLock<S>,
    prg: Mutex<Prg>,
}

impl<S, C> std::fmt::Debug for BPlus<S, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BPlus({:?}, {})", self.index, self.public.name())
    }
}

/// The caller's plaintext.
fn plaintext(scheme: Scheme, value: &[u8]) -> Result<u64, IndexError> {
    key_plaintext(scheme.width(), value).ok_or(IndexError::Caller("a value that is not of the index's width"))
}

/// Plaintexts and rows of entries.
fn values(scheme: Scheme, entries: &[RangeEntry]) -> Result<Vec<(u64, RowId)>, IndexError> {
    let value = |entry: &RangeEntry| Ok((plaintext(scheme, &entry.value)?, entry.row));
    entries.iter().map(value).collect()
}

fn refused(error: EncryptFailed) -> IndexError {
    IndexError::Caller(match error {
        EncryptFailed::OutsideDomain => "the value is outside the scheme's domain",
        EncryptFailed::Full => "the scheme holds as many values as it can",
    })
}

/// Pages of a server's tree, in bytes, where nothing asks for others.
const PAGE_BYTES: usize = 4096;
/// A page's head, and the longest reference to a child.
const HEAD_BYTES: usize = 40;
const CHILD_BYTES: usize = 8;

/// The smallest page of a tree over a scheme: three entries fit.
#[must_use]
pub fn page_bytes_min(scheme: Scheme) -> usize {
    HEAD_BYTES + 3 * (scheme.stored_bytes().unwrap_or(0) + SealedEntry::BYTES + CHILD_BYTES)
}

/// The page of a tree over a scheme where nothing asks for another: of the size of a disk's, unless entries are too long.
#[must_use]
pub fn page_bytes(scheme: Scheme) -> u32 {
    u32::try_from(page_bytes_min(scheme).max(PAGE_BYTES)).unwrap_or(u32::MAX)
}

/// The step that makes an index of a scheme.
///
/// # Parameters
/// `page_bytes`: the server's pages; at least three entries must fit, or the server refuses.
#[must_use]
pub fn create(index: IndexId, scheme: Scheme, page_bytes: u32) -> Step {
    Step::Bplus(Change::CreateIndex { index, scheme, page_bytes })
}

/// The step that drops an index and all its entries.
#[must_use]
pub fn drop_index(index: IndexId) -> Step {
    Step::Bplus(Change::DropIndex { index })
}

async fn done<C: Channel<Protocol>>(channel: &C, request: Request) -> Result<(), IndexError> {
    match channel.call(request).await? {
        Response::Done => Ok(()),
        _ => Err(IndexError::Peer("not the answer to a change")),
    }
}

impl<S: OrderScheme, C> BPlus<S, C> {
    /// The half of an index under its key: opens it as it is. `prg`: of this index alone.
    #[must_use]
    pub fn new(channel: C, index: IndexId, keys: &Key, scheme: S, prg: Prg) -> Self {
        let (names, public) = (Names::new(keys, index), scheme.scheme());
        Self { channel, index, public, names, scheme: RwLock::new(scheme), prg: Mutex::new(prg) }
    }

    fn scheme(&self) -> RwLockReadGuard<'_, S> {
        self.scheme.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Randomness for one operation.
    fn random(&self) -> Prg {
        let mut seed = [0; 16];
        self.prg.lock().unwrap_or_else(PoisonError::into_inner).fill(&mut seed);
        Prg::new(&seed)
    }

    fn new_entry(&self, (value, row): (u64, RowId), random: &mut Prg) -> Result<NewEntry, IndexError> {
        let mut scheme = self.scheme.write().unwrap_or_else(PoisonError::into_inner);
        let encrypted = scheme.encrypt(value, random).map_err(refused)?;
        let (query, stored) = (encrypted.query.into(), encrypted.stored.into());
        Ok(NewEntry { query, stored, sealed: self.names.seal(value, row), tie: scheme.tie(value) })
    }

    fn target(&self, (value, row): (u64, RowId), random: &mut Prg) -> Result<Target, IndexError> {
        let scheme = self.scheme();
        let query = scheme.bound(value, End::Lower, random).map_err(refused)?.into();
        Ok(Target { query, sealed: self.names.seal(value, row), tie: scheme.tie(value) })
    }

    /// What a change adds to the caller's write: removals, then insertions. An entry that is inserted and is there stays;
    /// one that is removed and is not there is none the worse. Asks the server nothing, and nothing is to be saved.
    ///
    /// # Errors
    /// [`IndexError::Caller`] for values that the index cannot hold.
    pub fn stage(&self, insert: &[RangeEntry], remove: &[RangeEntry]) -> Result<Vec<Step>, IndexError> {
        let changes = self.removals(remove)?.into_iter().chain(self.insertions(insert)?);
        Ok(changes.map(Step::Bplus).collect())
    }

    fn insertions(&self, entries: &[RangeEntry]) -> Result<Vec<Change>, IndexError> {
        let (values, mut random) = (values(self.public, entries)?, self.random());
        let change = |chunk: &[(u64, RowId)]| {
            let entries = chunk.iter().map(|entry| self.new_entry(*entry, &mut random));
            Ok(Change::Insert { index: self.index, entries: entries.collect::<Result<_, IndexError>>()? })
        };
        values.chunks(self.step()).map(change).collect()
    }

    fn removals(&self, entries: &[RangeEntry]) -> Result<Vec<Change>, IndexError> {
        let (values, mut random) = (values(self.public, entries)?, self.random());
        let change = |chunk: &[(u64, RowId)]| {
            let targets = chunk.iter().map(|entry| self.target(*entry, &mut random));
            Ok(Change::Remove { index: self.index, targets: targets.collect::<Result<_, IndexError>>()? })
        };
        values.chunks(self.step()).map(change).collect()
    }

    /// Entries of one request.
    fn step(&self) -> usize {
        let bytes = |bytes: Option<usize>| bytes.unwrap_or(0);
        let entry_bytes =
            bytes(self.public.stored_bytes()) + bytes(self.public.query_bytes()) + SealedEntry::BYTES;
        (REQUEST_BYTES_SOFT / entry_bytes).clamp(1, REQUEST_ENTRIES_MAX)
    }
}

impl<S: OrderScheme, C: Channel<Protocol>> BPlus<S, C> {
    /// Makes the index, or opens the one that is there.
    ///
    /// # Parameters
    /// `page_bytes`: the server's pages; at least three entries must fit.
    ///
    /// # Errors
    /// [`IndexError`]; pages that are too small are refused by the server. [`IndexError::Caller`] for a scheme with state.
    pub async fn create(self, page_bytes: u32) -> Result<Self, IndexError> {
        let (index, scheme) = (self.index, self.public);
        if scheme.hides_equality() {
            return Err(IndexError::Caller("a scheme with state is for `StatefulBPlus`"));
        }
        match self.channel.call(Request::Change(Change::CreateIndex { index, scheme, page_bytes })).await? {
            Response::Created { .. } => Ok(self),
            _ => Err(IndexError::Peer("not the answer to a creation")),
        }
    }

    /// Drops the index and all its entries.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn drop_index(self) -> Result<(), IndexError> {
        done(&self.channel, Request::Change(Change::DropIndex { index: self.index })).await
    }

    /// Adds entries that are all greater than those that are there, in full pages: the way to fill an empty index.
    ///
    /// # Errors
    /// [`IndexError`]; [`IndexError::Channel`] with a refusal if an entry is not greater.
    pub async fn load(&self, mut entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        entries.sort_unstable_by(|one, other| (&one.value, one.row).cmp(&(&other.value, other.row)));
        entries.dedup_by(|one, other| one.value == other.value && one.row == other.row);
        let mut values = values(self.public, &entries)?;
        for equal in values.chunk_by_mut(|one, other| one.0 == other.0) {
            let Some((value, _)) = equal.first() else { continue };
            let ties = Ties::new(self.scheme().tie(*value));
            equal.sort_by_cached_key(|(value, row)| ties.place(&self.names.seal(*value, *row)));
        }
        let mut random = self.random();
        for chunk in values.chunks(self.step()) {
            let entries = chunk.iter().map(|entry| self.new_entry(*entry, &mut random));
            let entries = entries.collect::<Result<_, _>>()?;
            done(&self.channel, Request::Load { index: self.index, entries }).await?;
        }
        Ok(())
    }
}

impl<S: OrderScheme, C: Channel<Protocol>> RangeIndex for BPlus<S, C> {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        for change in self.insertions(&entries)? {
            done(&self.channel, Request::Change(change)).await?;
        }
        Ok(())
    }

    async fn remove(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        for change in self.removals(&entries)? {
            done(&self.channel, Request::Change(change)).await?;
        }
        Ok(())
    }

    async fn search(
        &self,
        lower: Vec<u8>,
        upper: Vec<u8>,
        order: Order,
        limit: Option<usize>,
    ) -> Result<Vec<(Vec<u8>, RowId)>, IndexError> {
        let (lower, upper) = (plaintext(self.public, &lower)?, plaintext(self.public, &upper)?);
        if lower > upper || limit == Some(0) {
            return Ok(Vec::new());
        }
        let mut random = self.random();
        let ends = ends(&*self.scheme(), (lower, upper), &mut random)?;
        let mut range = Range::new(self.public, (lower, upper), order, limit);
        let searching = Searching { channel: &self.channel, index: self.index, version: 0 };
        searching
            .through(ends, &mut range, |range, entries| {
                let scheme = self.scheme();
                let agrees = |stored: &[u8], value: u64| scheme.decrypt(stored) == Ok(value);
                range.take(&self.names, entries, agrees, |value| scheme.tie(value))?;
                let Some(last) = &range.last else { return Ok(None) };
                let query = scheme.bound(last.value, End::Lower, &mut random).map_err(refused)?.into();
                let after = After { sealed: last.sealed, tie: scheme.tie(last.value) };
                Ok(Some(Bound { query, after: Some(after) }))
            })
            .await?;
        Ok(range.found)
    }
}
