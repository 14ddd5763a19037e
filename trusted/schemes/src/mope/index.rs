//! Mutable order-preserving encoding as an index of documents, at a server of ours: the half that encrypts, walks the tree,
//! and opens and checks what is found.
//!
//! *Changes.* A change of the tree, if one is needed, and the entries that come and go are one step of the caller's write. Whoever
//! stages has the index alone until the write is done; searches wait for nobody. In mOPE what goes is named without asking the
//! server; in stOPE, where occurrences are counted, the server is asked first which of the entries are there, so that
//! none counts twice and none is taken away that was not.
//!
//! *State.* The head that a change leads to is recorded with the caller's intent: a start takes it up, and a server that shows an
//! older tree, or another one, is found out.

mod keeper;
mod rows;
mod search;
mod standalone;

use super::cipher::Cipher;
use super::node::SMALL_ENTRIES_MAX;
use super::{Form, Kind, Place, Settings, Stored, Tree};
use crate::contract::{
    EncryptedIndex, KeysAndRows, Pending, RangeEntry, RangePage, RangeQuery, RangeSearch, Repair, RowChange,
    Serves, Staged, State, StateChange, Steps, range_entries,
};
use crate::error::IndexError;
use crate::random::Randomness;
use arras_keys::Key;
use arras_protocol::Order;
use arras_protocol::mope::Head;
use arras_protocol::mope::index::{ASKED_MAX, Change, ENTRIES_MAX, Listed, Mope, Request, Response, Update};
use arras_protocol::ore::Width;
use arras_protocol::write::Step;
use arras_protocol::{Blob, Channel, IndexId, RowId, codec};
use keeper::Keeper;
use rand::seq::SliceRandom;
use rows::Rows;
use search::{Cursor, Range};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::OwnedMutexGuard;

/// The name of the record of the head, behind the index's.
const HEAD: &[u8] = b"head";

/// Bytes of an entry's part of a write, about: a leaf of its own, and a share of those above.
const ENTRY_BYTES: usize = 4096;

/// What an index is made or opened with.
#[derive(Debug)]
pub struct Making<'m> {
    /// What the server knows it by.
    pub index: IndexId,
    /// What the keys of its tree, entries and proofs are derived from.
    pub key: &'m Key,
    /// Its keys' width.
    pub width: Width,
    /// Which of the two schemes.
    pub kind: Kind,
    /// True: a server that lies about the tree is found out.
    pub verified: bool,
    /// Nodes have a few entries, so that a tree of a few values splits and joins them. As it was made.
    pub small_nodes: bool,
    /// Where nonces come from.
    pub randomness: Randomness,
}

impl Making<'_> {
    fn settings(&self) -> Settings {
        let form = Form::Fixed(match self.width {
            Width::Bits32 => 4,
            Width::Bits64 => 8,
        });
        Settings { form, kind: self.kind, verified: self.verified }
    }

    /// The steps that make an empty index.
    ///
    /// # Errors
    /// [`IndexError::Caller`] if no index can have such keys, or is of such a scheme.
    pub fn create(&self) -> Result<Vec<Step>, IndexError> {
        let nonces = match self.kind {
            Kind::Mope => None,
            Kind::Stope => Some(self.randomness.clone()),
            Kind::FrequencyHiding => {
                return Err(IndexError::Caller("entries of an index lie under keys of values"));
            }
        };
        let ciphertext_bytes = Cipher::new(self.key, self.settings().form, nonces)?.ciphertext_bytes();
        let ciphertext_bytes = u16::try_from(ciphertext_bytes)
            .map_err(|_| IndexError::Caller("no index has ciphertexts of that length"))?;
        Ok(vec![Step::Mope(Change::CreateIndex { index: self.index, ciphertext_bytes })])
    }

    /// The head that the changes of an index left on record; none before the first.
    ///
    /// # Errors
    /// [`IndexError::State`].
    pub fn recorded(&self, state: &dyn State) -> Result<Option<Head>, IndexError> {
        let Some(record) = state.read(&record_name(self.index))? else { return Ok(None) };
        let head = codec::decode(&record);
        head.map(Some).map_err(|_| IndexError::State("the record of a tree's head is malformed".into()))
    }
}

/// The step that drops an index and all its entries.
#[must_use]
pub fn drop_step(index: IndexId) -> Step {
    Step::Mope(Change::DropIndex { index })
}

fn record_name(index: IndexId) -> Vec<u8> {
    [index.as_bytes().as_slice(), HEAD].concat()
}

/// The keyed half of one index.
pub struct Index<C> {
    tree: Tree<Keeper<C>>,
    rows: Rows,
    width: Width,
    kind: Kind,
    randomness: Randomness,
    /// Held from the staging of a change until it is known what became of it.
    writing: Arc<tokio::sync::Mutex<()>>,
}

impl<C> std::fmt::Debug for Index<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Index({:?}, {:?})", self.kind, self.rows)
    }
}

/// A value and its row.
type ValueAndRow = (u64, RowId);

/// Where a value's stored neighbours are: what lies below it and above it, the value itself belonging to either.
struct Neighbours {
    below: Option<End>,
    above: Option<End>,
}

/// A stored neighbour.
struct End {
    ciphertext: Blob,
    /// It is the value itself.
    is_value: bool,
}

/// What a change comes to.
struct Worked {
    update: Update,
    staged: Option<super::StagedChange>,
    before: Option<Head>,
}

impl<C: Channel<Mope>> Index<C> {
    /// Opens an index as it is.
    ///
    /// # Parameters
    /// `acknowledged`: see [`Making::recorded`].
    ///
    /// # Errors
    /// [`IndexError::Caller`] if no index can have such keys.
    pub fn open(channel: C, making: &Making<'_>, acknowledged: Option<Head>) -> Result<Self, IndexError> {
        let Making { index, key, width, kind, .. } = *making;
        let keeper = Keeper { channel, index };
        let random = || making.randomness.clone();
        let mut tree = Tree::open(keeper, key, making.settings(), acknowledged, random())?;
        if making.small_nodes {
            tree.layout.entries_max = SMALL_ENTRIES_MAX;
        }
        Ok(Self {
            tree,
            rows: Rows::new(key, index),
            width,
            kind,
            randomness: random(),
            writing: Arc::default(),
        })
    }

    fn id(&self) -> IndexId {
        self.tree.store().index
    }

    fn channel(&self) -> &C {
        &self.tree.store().channel
    }

    fn plaintext(&self, value: &[u8]) -> Result<u64, IndexError> {
        self.width.plaintext(value).ok_or(IndexError::Caller("a value that is not of the index's width"))
    }

    fn values(&self, entries: &[RangeEntry]) -> Result<Vec<ValueAndRow>, IndexError> {
        entries.iter().map(|entry| Ok((self.plaintext(&entry.value)?, entry.row))).collect()
    }

    /// The neighbours of two values.
    async fn neighbours(&self, values: [u64; 2]) -> Result<[Neighbours; 2], IndexError> {
        let keys = values.map(|value| self.width.key(value));
        let end = |stored: &Stored, is_value| Some(End { ciphertext: stored.ciphertext.clone(), is_value });
        let neighbours = |place: &Place| match place {
            Place::At(stored) => Neighbours { below: end(stored, true), above: end(stored, true) },
            Place::Among { first, last, .. } => {
                Neighbours { below: end(first, true), above: end(last, true) }
            }
            Place::Between { below, above } => Neighbours {
                below: below.as_ref().and_then(|stored| end(stored, false)),
                above: above.as_ref().and_then(|stored| end(stored, false)),
            },
        };
        match self.tree.places(&keys).await?.as_slice() {
            [one, other] => Ok([neighbours(one), neighbours(other)]),
            _ => Err(IndexError::Peer("places of other values than asked for")),
        }
    }

    /// The ciphertexts of values, where they are deterministic.
    fn ciphertexts(&self, keys: &[Vec<u8>]) -> Result<Vec<Blob>, IndexError> {
        let cipher = &self.tree.cipher;
        let mut sealed = Vec::with_capacity(keys.len() * cipher.ciphertext_bytes());
        cipher.seal_each(cipher.plains(keys)?.chunks(cipher.plain_bytes()), &mut sealed);
        Ok(sealed.chunks(cipher.ciphertext_bytes()).map(|ciphertext| Blob(ciphertext.to_vec())).collect())
    }

    /// Ciphertexts of values that have one.
    async fn stored(&self, values: &BTreeSet<u64>) -> Result<BTreeMap<u64, Blob>, IndexError> {
        let keys: Vec<Vec<u8>> = values.iter().map(|value| self.width.key(*value)).collect();
        if self.kind == Kind::Mope {
            return Ok(values.iter().copied().zip(self.ciphertexts(&keys)?).collect());
        }
        let places = self.tree.places(&keys).await?;
        let stored = values.iter().zip(places).filter_map(|(value, place)| match place {
            Place::At(stored) => Some((*value, stored.ciphertext)),
            Place::Among { .. } | Place::Between { .. } => None,
        });
        Ok(stored.collect())
    }

    /// Which of the entries, each with the ciphertext of its value, if it has one, are there.
    async fn there(&self, listed: &[Option<Listed>]) -> Result<Vec<bool>, IndexError> {
        let asked: Vec<Listed> = listed.iter().flatten().cloned().collect();
        let mut there = Vec::with_capacity(asked.len());
        for some in asked.chunks(ASKED_MAX) {
            let request = Request::Look { index: self.id(), entries: some.to_vec() };
            match self.channel().call(request).await? {
                Response::There(some_there) if some_there.len() == some.len() => there.extend(some_there),
                _ => return Err(IndexError::Peer("not the answer to a look for entries")),
            }
        }
        let mut there = there.into_iter();
        Ok(listed.iter().map(|entry| entry.is_some() && there.next().unwrap_or_default()).collect())
    }

    /// Works a change out, in the caller's turn. An entry that goes and comes stays.
    async fn work(&self, insert: &[ValueAndRow], remove: &[ValueAndRow]) -> Result<Worked, IndexError> {
        let mut come: BTreeSet<ValueAndRow> = insert.iter().copied().collect();
        let mut go: BTreeSet<ValueAndRow> =
            remove.iter().filter(|entry| !come.contains(entry)).copied().collect();
        let values = |entries: &BTreeSet<ValueAndRow>| entries.iter().map(|entry| entry.0).collect();
        let mut asked: BTreeSet<u64> = values(&go);
        if self.kind == Kind::Stope {
            asked.append(&mut values(&come));
        }
        let stored = if asked.is_empty() { BTreeMap::new() } else { self.stored(&asked).await? };
        let listed = |(value, row): &ValueAndRow| {
            stored.get(value).map(|ciphertext| self.rows.seal(ciphertext.as_slice(), *value, *row))
        };
        if self.kind == Kind::Stope {
            let entries: Vec<Option<Listed>> = come.iter().chain(&go).map(listed).collect();
            let mut there = self.there(&entries).await?.into_iter();
            come.retain(|_| !there.next().unwrap_or_default());
            go.retain(|_| there.next().unwrap_or_default());
        }
        let removed: Vec<Listed> = go.iter().filter_map(listed).collect();
        let keys = |entries: &BTreeSet<ValueAndRow>| {
            entries.iter().map(|(value, _)| self.width.key(*value)).collect::<Vec<_>>()
        };
        // In mOPE a value's further occurrences are nothing to the tree, and what goes stays in it.
        let (inserted, gone) = match self.kind {
            Kind::Mope => (self.distinct(&come), Vec::new()),
            Kind::Stope | Kind::FrequencyHiding => (keys(&come), keys(&go)),
        };
        if inserted.is_empty() && gone.is_empty() {
            let update = Update { removed, ..Update::default() };
            let before = self.tree.acknowledged();
            return Ok(Worked { update, staged: None, before });
        }
        let mut staged = self.tree.stage(&inserted, &gone).await?;
        // Only now: staging asks for a head that was in doubt, which is the one to go back to.
        let before = self.tree.acknowledged();
        let tree = staged.take().map(Box::new);
        let ciphertexts: BTreeMap<&Vec<u8>, &Stored> = inserted.iter().zip(staged.stored()).collect();
        let listed = |(value, row): &ValueAndRow| {
            let stored = ciphertexts.get(&self.width.key(*value))?;
            Some(self.rows.seal(stored.ciphertext.as_slice(), *value, *row))
        };
        let added: Vec<Listed> = come.iter().filter_map(listed).collect();
        let update = Update { removed, tree, added };
        Ok(Worked { update, staged: Some(staged), before })
    }

    /// The values of entries, each once.
    fn distinct(&self, entries: &BTreeSet<ValueAndRow>) -> Vec<Vec<u8>> {
        let values: BTreeSet<u64> = entries.iter().map(|entry| entry.0).collect();
        values.into_iter().map(|value| self.width.key(value)).collect()
    }

    /// The changes that make up an update: one, unless it is about more entries than one may be.
    fn changes(&self, update: Update) -> Vec<Change> {
        let Update { mut removed, tree, mut added } = update;
        // Both follow the values until here.
        removed.shuffle(&mut self.randomness.rng());
        added.shuffle(&mut self.randomness.rng());
        let mut updates = vec![Update { tree, ..Update::default() }];
        for (some, which) in removed.chunks(ENTRIES_MAX).zip(0..) {
            match updates.first_mut().filter(|_| which == 0) {
                Some(last) => last.removed = some.to_vec(),
                None => updates.insert(0, Update { removed: some.to_vec(), ..Update::default() }),
            }
        }
        for (some, which) in added.chunks(ENTRIES_MAX).zip(0..) {
            match updates.last_mut().filter(|_| which == 0) {
                Some(first) => first.added = some.to_vec(),
                None => updates.push(Update { added: some.to_vec(), ..Update::default() }),
            }
        }
        let is_empty =
            |update: &Update| update.tree.is_none() && update.removed.is_empty() && update.added.is_empty();
        updates.retain(|update| !is_empty(update));
        let index = self.id();
        updates.into_iter().map(|update| Change::Update { index, update }).collect()
    }

    async fn alone(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.writing).lock_owned().await
    }
}

/// An index held alone while a change of it is sent again that was staged earlier. Once this is dropped, the head is asked for
/// before it is relied on: it may have been asked for last before that change was made.
struct Suspended<C: Channel<Mope>> {
    index: Arc<Index<C>>,
    _alone: OwnedMutexGuard<()>,
}

impl<C: Channel<Mope>> Drop for Suspended<C> {
    fn drop(&mut self) {
        self.index.tree.shared.doubt();
    }
}

/// A caller's durable record of a head.
fn record(head: &Head) -> Vec<u8> {
    codec::encode(head)
}

impl<C: Channel<Mope> + 'static> EncryptedIndex for Index<C> {
    fn index(&self) -> IndexId {
        self.id()
    }

    fn entry_bytes(&self) -> usize {
        ENTRY_BYTES
    }

    fn fills_in_order(&self) -> bool {
        // A tree filled in order is the smallest, and says nothing of another order.
        true
    }

    fn serves(&self) -> Serves {
        Serves::Range
    }

    fn range(self: Arc<Self>) -> Option<Arc<dyn RangeSearch>> {
        Some(self)
    }

    fn place(self: Arc<Self>) -> Pending<'static, crate::contract::Place> {
        Box::pin(async move { Box::new(self.alone().await) as crate::contract::Place })
    }

    fn suspend(self: Arc<Self>) -> Pending<'static, crate::contract::Place> {
        Box::pin(async move {
            let alone = self.alone().await;
            Box::new(Suspended { index: self, _alone: alone }) as crate::contract::Place
        })
    }

    fn stage(
        self: Arc<Self>,
        place: crate::contract::Place,
        changes: Vec<RowChange>,
        _state: Arc<dyn State>,
    ) -> Pending<'static, Result<Staged, IndexError>> {
        Box::pin(async move {
            let (insert, remove) = range_entries(changes);
            let (insert, remove) = (self.values(&insert)?, self.values(&remove)?);
            let Worked { update, staged, before } = self.work(&insert, &remove).await?;
            let state = update.tree.as_ref().map(|tree| StateChange {
                name: record_name(self.id()),
                now: Some(record(&tree.head)),
                otherwise: before.as_ref().map(record),
            });
            let ordered = self.changes(update).into_iter().map(Step::Mope).collect();
            let finish = move || {
                if let Some(staged) = staged {
                    let _ = staged.finish();
                }
                drop(place);
                Repair::none()
            };
            Ok(Staged {
                steps: Steps { ordered, ..Steps::default() },
                state: state.into_iter().collect(),
                finish: Some(Box::new(finish)),
                ..Staged::default()
            })
        })
    }
}

impl<C: Channel<Mope> + 'static> RangeSearch for Index<C> {
    fn search(self: Arc<Self>, range: RangeQuery) -> Pending<'static, Result<RangePage, IndexError>> {
        Box::pin(async move {
            let RangeQuery { lower, upper, order, limit } = range;
            let (lower, upper) = (self.plaintext(&lower)?, self.plaintext(&upper)?);
            if lower > upper || limit == Some(0) {
                return Ok(RangePage { entries: Vec::new(), more: None, repair: Repair::none() });
            }
            Cursor { index: self, range: Range::new((lower, upper), order) }.page(limit).await
        })
    }

    fn inspect(self: Arc<Self>) -> Pending<'static, Result<KeysAndRows, IndexError>> {
        Box::pin(async move {
            let found = self.all((0, self.width.greatest()), Order::Ascending, None).await?;
            let distinct = found.chunk_by(|one, next| one.0 == next.0).count() as u64;
            // What is known of the head may be older than a write that was completed meanwhile.
            let values = self.tree.ask(Vec::new()).await?.0.values;
            let agrees = match self.kind {
                // Values stay in the tree when their entries go.
                Kind::Mope => distinct <= values,
                Kind::Stope | Kind::FrequencyHiding => distinct == values,
            };
            match agrees {
                true => Ok(found),
                false => Err(IndexError::Peer("another number of values than the tree has")),
            }
        })
    }

    fn entries_per_write(&self, write_bytes: usize) -> usize {
        // In order, entries share their leaves.
        (write_bytes / 128).clamp(1, ENTRIES_MAX)
    }
}
