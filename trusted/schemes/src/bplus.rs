//! B+ tree over any OPE or ORE scheme: the half that encrypts, and decrypts and checks what is found.
//!
//! *Paper.* Bogatov, Kollios, Reyzin, VLDB 2019, §4.1.
//!
//! *Rows.* Value and row are sealed beside each ciphertext ([`arras_primitives::det_pair`], bound to the index), and what
//! is sealed names the entry. A ciphertext must decrypt to the value that is sealed beside it: a server that exchanges
//! rows, or alters a ciphertext, is found out. What it has of an entry says nothing of the entry's document, and is the
//! same again only if the same pair of value and row comes again.
//!
//! *Deviations.* The paper stores rows as they are. Every entry found is opened and must lie in the range, in order and
//! once; that the server leaves none out, or keeps what was removed, is not checked, for nothing authenticates that.

mod reply;

use crate::arx_range::RangeEntry;
use crate::error::IndexError;
use crate::ore::domain::key_plaintext;
use crate::ore::{EncryptFailed, Encrypted, End, OrderScheme};
use crate::traits::RangeIndex;
use arras_keys::{Key, Purpose};
use arras_primitives::det_pair::DetPair;
use arras_primitives::prg::Prg;
use arras_protocol::arx_range::Order;
use arras_protocol::bplus::{
    After, BPlus as Protocol, Bound, NewEntry, Replacement, Request, Response, SealedEntry, Target,
};
use arras_protocol::ore::Scheme;
use arras_protocol::{Blob, Channel, ChannelError, IndexId, RowId};
use reply::{Checked, Range, Ties};
use std::collections::VecDeque;
use tokio::sync::{Mutex, MutexGuard};

/// Ciphertext bytes at which a request of many entries is sent.
const REQUEST_BYTES_SOFT: usize = 1 << 20;

/// Entries at which it is.
const REQUEST_ENTRIES_MAX: usize = 4096;

/// Replies that one search may take: at some megabytes each, more than fits in memory.
const REPLIES_MAX: usize = 1 << 14;

/// A range index in a B+ tree of ciphertexts.
///
/// # Errors
/// A stateful scheme (FH-OPE) is ahead of the server when a request is lost; what the server then has to know comes
/// before the next request.
pub struct BPlus<S, C> {
    channel: C,
    index: IndexId,
    scheme: Scheme,
    state: Mutex<State<S>>,
}

impl<S, C> std::fmt::Debug for BPlus<S, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BPlus({:?}, {})", self.index, self.scheme.name())
    }
}

struct State<S> {
    scheme: S,
    /// Seals values and rows.
    names: DetPair,
    prg: Prg,
    /// Version of the scheme's ciphertexts.
    version: u64,
    /// The last replacements that led to it, until the server is known to have them.
    pending: VecDeque<Replacement>,
}

/// Entries to be sent in one request.
struct Batch {
    /// Version of their ciphertexts.
    version: u64,
    /// What led to it, if the server does not know yet.
    replacement: Option<Replacement>,
    entries: Vec<NewEntry>,
}

impl Batch {
    fn new(version: u64, replacement: Option<Replacement>) -> Self {
        Self { version, replacement, entries: Vec::new() }
    }
}

/// The caller's plaintext.
fn plaintext(scheme: Scheme, value: &[u8]) -> Result<u64, IndexError> {
    key_plaintext(scheme.width(), value).ok_or(IndexError::Caller("a value that is not of the index's width"))
}

fn refused(error: EncryptFailed) -> IndexError {
    IndexError::Caller(match error {
        EncryptFailed::OutsideDomain => "the value is outside the scheme's domain",
        EncryptFailed::Full => "the scheme holds as many values as it can",
    })
}

impl<S: OrderScheme> State<S> {
    fn bound(&mut self, value: u64, end: End) -> Result<Blob, IndexError> {
        self.scheme.bound(value, end, &mut self.prg).map(Blob).map_err(refused)
    }

    fn sealed(&self, value: u64, row: RowId) -> SealedEntry {
        SealedEntry(self.names.seal(value, row.as_bytes()))
    }

    /// Both ends of a value, where its entries are several ciphertexts.
    fn target(&mut self, value: u64, row: RowId) -> Result<Target, IndexError> {
        let hides = self.scheme.scheme().hides_equality();
        let upper = if hides { Some(self.bound(value, End::Upper)?) } else { None };
        let tie = self.scheme.tie(value);
        Ok(Target { lower: self.bound(value, End::Lower)?, upper, sealed: self.sealed(value, row), tie })
    }

    fn new_entry(&mut self, value: u64, row: RowId, encrypted: Encrypted) -> Result<NewEntry, IndexError> {
        let equals = match self.scheme.scheme().hides_equality() {
            true => Some((self.bound(value, End::Lower)?, self.bound(value, End::Upper)?)),
            false => None,
        };
        let tie = self.scheme.tie(value);
        let (query, stored) = (encrypted.query.into(), encrypted.stored.into());
        Ok(NewEntry { query, stored, sealed: self.sealed(value, row), equals, tie })
    }

    /// Notes what became of earlier ciphertexts; the batch that is first to tell the server.
    fn replace(&mut self, replaced: &[(Vec<u8>, Vec<u8>)]) -> Batch {
        self.version += 1;
        let pairs: Vec<u8> = replaced.iter().flat_map(|(old, new)| [old, new]).flatten().copied().collect();
        let replacement = Replacement { version: self.version, pairs: pairs.into() };
        self.pending.push_back(replacement.clone());
        Batch::new(self.version, Some(replacement))
    }
}

impl<S: OrderScheme, C: Channel<Protocol>> BPlus<S, C> {
    /// The half of an index under its key. `prg`: of this index alone.
    #[must_use]
    pub fn new(channel: C, index: IndexId, keys: &Key, scheme: S, prg: Prg) -> Self {
        let names = DetPair::new(keys.child(Purpose::BPlusSeal).expose_16(), *index.as_bytes());
        let public = scheme.scheme();
        let state = Mutex::new(State { scheme, names, prg, version: 0, pending: VecDeque::new() });
        Self { channel, index, scheme: public, state }
    }

    /// Makes the index, or opens the one that is there. A stateful scheme opens none that has entries: its state is
    /// this process's.
    ///
    /// # Parameters
    /// `page_bytes`: the server's pages; at least three entries must fit.
    ///
    /// # Errors
    /// [`IndexError`]; pages that are too small are refused by the server.
    pub async fn create(self, page_bytes: u32) -> Result<Self, IndexError> {
        let (index, scheme) = (self.index, self.scheme);
        match self.channel.call(Request::CreateIndex { index, scheme, page_bytes }).await? {
            Response::Created { filled: true } if scheme.hides_equality() => {
                Err(IndexError::Caller("the index has entries of a scheme whose state is not at hand"))
            }
            Response::Created { .. } => Ok(self),
            _ => Err(IndexError::Peer("not the answer to a creation")),
        }
    }

    /// Drops the index and all its entries.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn drop_index(self) -> Result<(), IndexError> {
        match self.channel.call(Request::DropIndex { index: self.index }).await? {
            Response::Done => Ok(()),
            _ => Err(IndexError::Peer("not the answer to a drop")),
        }
    }

    /// Bytes of state that the client keeps beside keys.
    pub async fn state_bytes(&self) -> usize {
        self.state.lock().await.scheme.state_bytes()
    }

    /// Adds entries that are all greater than those that are there, in full pages: the way to fill an empty index. A
    /// scheme that hides equality inserts them one by one.
    ///
    /// # Errors
    /// [`IndexError`]; [`IndexError::Channel`] with a refusal if an entry is not greater.
    pub async fn load(&self, mut entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        if self.scheme.hides_equality() {
            return self.insert(entries).await;
        }
        entries.sort_unstable_by(|one, other| (&one.value, one.row).cmp(&(&other.value, other.row)));
        entries.dedup_by(|one, other| one.value == other.value && one.row == other.row);
        let mut values = self.values(&entries)?;
        let mut state = self.state.lock().await;
        for equal in values.chunk_by_mut(|one, other| one.0 == other.0) {
            let Some((value, _)) = equal.first() else { continue };
            let ties = Ties::new(state.scheme.tie(*value));
            equal.sort_by_cached_key(|(value, row)| ties.place(&state.sealed(*value, *row)));
        }
        let step = (REQUEST_BYTES_SOFT / self.entry_bytes()).clamp(1, REQUEST_ENTRIES_MAX);
        for chunk in values.chunks(step) {
            let mut entries = Vec::with_capacity(chunk.len());
            for (value, row) in chunk {
                let State { scheme, prg, .. } = &mut *state;
                let encrypted = scheme.encrypt(*value, prg).map_err(refused)?;
                entries.push(state.new_entry(*value, *row, encrypted)?);
            }
            match self
                .channel
                .call(Request::Load { index: self.index, version: state.version, entries })
                .await?
            {
                Response::Done => {}
                _ => return Err(IndexError::Peer("not the answer to a load")),
            }
        }
        Ok(())
    }

    fn entry_bytes(&self) -> usize {
        let bytes = |bytes: Option<usize>| bytes.unwrap_or(0);
        bytes(self.scheme.stored_bytes()) + 3 * bytes(self.scheme.query_bytes()) + SealedEntry::BYTES
    }

    /// Plaintexts and rows of entries.
    fn values(&self, entries: &[RangeEntry]) -> Result<Vec<(u64, RowId)>, IndexError> {
        let value = |entry: &RangeEntry| Ok((plaintext(self.scheme, &entry.value)?, entry.row));
        entries.iter().map(value).collect()
    }

    /// The state, once the server has what it must have before any other request.
    async fn settled(&self) -> Result<MutexGuard<'_, State<S>>, IndexError> {
        let mut state = self.state.lock().await;
        while let Some(replacement) = state.pending.front() {
            let request = Request::Replace { index: self.index, replacement: replacement.clone() };
            match self.channel.call(request).await? {
                Response::Done => drop(state.pending.pop_front()),
                _ => return Err(IndexError::Peer("not the answer to a replacement")),
            }
        }
        Ok(state)
    }

    /// Sends a batch.
    async fn send(&self, state: &mut State<S>, batch: Batch) -> Result<(), IndexError> {
        let Batch { version, replacement, entries } = batch;
        let replaces = replacement.is_some();
        if entries.is_empty() && !replaces {
            return Ok(());
        }
        let stored: Vec<Blob> = match self.scheme.hides_equality() {
            true => entries.iter().map(|entry| entry.stored.clone()).collect(),
            false => Vec::new(),
        };
        let count = entries.len();
        let request = Request::Insert { index: self.index, version, replacement, entries };
        let present = match self.channel.call(request).await {
            Ok(Response::Inserted { present }) => present,
            Ok(_) => return Err(IndexError::Peer("not the answer to an insertion")),
            Err(error) => {
                if matches!(error, ChannelError::Refused(_)) {
                    stored.iter().for_each(|stored| state.scheme.forget(stored.as_slice()));
                }
                return Err(error.into());
            }
        };
        if present.iter().any(|place| *place as usize >= count) {
            return Err(IndexError::Peer("entries that were not sent"));
        }
        if replaces {
            // All earlier ones were settled before.
            state.pending.pop_front();
        }
        for place in present {
            if let Some(stored) = stored.get(place as usize) {
                state.scheme.forget(stored.as_slice());
            }
        }
        Ok(())
    }

    /// Where a search goes on: after its last entry.
    fn resume(&self, state: &mut State<S>, last: Checked<'_>) -> Result<Bound, IndexError> {
        let query = if self.scheme.hides_equality() {
            // Each stored ciphertext is one entry's own, and asks as well.
            last.stored.to_vec().into()
        } else {
            state.bound(last.value, End::Lower)?
        };
        let after = After { sealed: last.sealed, tie: state.scheme.tie(last.value) };
        Ok(Bound { query, after: Some(after) })
    }
}

impl<S: OrderScheme, C: Channel<Protocol>> RangeIndex for BPlus<S, C> {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        let values = self.values(&entries)?;
        let mut state = self.settled().await?;
        let step = (REQUEST_BYTES_SOFT / self.entry_bytes()).clamp(1, REQUEST_ENTRIES_MAX);
        let mut batch = Batch::new(state.version, None);
        for (value, row) in values {
            let State { scheme, prg, .. } = &mut *state;
            let encrypted = match scheme.encrypt(value, prg) {
                Ok(encrypted) => encrypted,
                Err(error) => {
                    self.send(&mut state, batch).await?;
                    return Err(refused(error));
                }
            };
            let replaces = !encrypted.replaced.is_empty();
            if replaces || batch.entries.len() >= step {
                let next = Batch::new(state.version, None);
                let sent = self.send(&mut state, std::mem::replace(&mut batch, next)).await;
                if replaces {
                    // Even if the batch before it is lost: the scheme has gone on.
                    batch = state.replace(&encrypted.replaced);
                }
                if sent.is_err() {
                    state.scheme.forget(&encrypted.stored);
                }
                sent?;
            }
            let entry = state.new_entry(value, row, encrypted)?;
            batch.entries.push(entry);
        }
        self.send(&mut state, batch).await
    }

    async fn remove(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        let values = self.values(&entries)?;
        let mut state = self.settled().await?;
        let step = (REQUEST_BYTES_SOFT / self.entry_bytes()).clamp(1, REQUEST_ENTRIES_MAX);
        for chunk in values.chunks(step) {
            let targets: Result<Vec<_>, _> =
                chunk.iter().map(|(value, row)| state.target(*value, *row)).collect();
            let request = Request::Remove { index: self.index, version: state.version, targets: targets? };
            let Response::Removed { stored } = self.channel.call(request).await? else {
                return Err(IndexError::Peer("not the answer to a removal"));
            };
            if stored.len() != chunk.len() {
                return Err(IndexError::Peer("not one answer a target"));
            }
            for ((value, _), stored) in chunk.iter().zip(stored) {
                let Some(stored) = stored else { continue };
                if state.scheme.decrypt(stored.as_slice())? != *value {
                    return Err(IndexError::Peer("another entry was removed"));
                }
                state.scheme.forget(stored.as_slice());
            }
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
        let (lower, upper) = (plaintext(self.scheme, &lower)?, plaintext(self.scheme, &upper)?);
        if lower > upper || limit == Some(0) {
            return Ok(Vec::new());
        }
        let mut state = self.settled().await?;
        let mut low = Bound { query: state.bound(lower, End::Lower)?, after: None };
        let mut high = Bound { query: state.bound(upper, End::Upper)?, after: None };
        let mut range = Range::new(self.scheme, lower, upper, order, limit);
        for _ in 0..REPLIES_MAX {
            let limit = range.remaining().map(|remaining| remaining as u64);
            let request =
                Request::Search { index: self.index, lower: low.clone(), upper: high.clone(), order, limit };
            let Response::Found { entries, more } = self.channel.call(request).await? else {
                return Err(IndexError::Peer("not the answer to a search"));
            };
            range.take(&state.scheme, &state.names, entries.as_slice())?;
            if !more || range.remaining() == Some(0) {
                return Ok(range.found);
            }
            let Some(last) = range.last.as_ref().filter(|_| !entries.is_empty()) else {
                return Err(IndexError::Peer("more to come after nothing"));
            };
            let bound = self.resume(&mut state, last.entry())?;
            match order {
                Order::Ascending => low = bound,
                Order::Descending => high = bound,
            }
        }
        Err(IndexError::Peer("a search without an end"))
    }
}
