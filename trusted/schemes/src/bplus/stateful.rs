//! B+ tree over a scheme whose ciphertexts are the client's state.
//!
//! *Versions.* Every change takes the index from one version to another, and every message carries the version it is for;
//! the server refuses any other. A change is found out on the tree here, which is then as it was, and made on it once the
//! server has acknowledged it. If it is unknown whether the server has it (a reply was lost, an operation was dropped), the
//! change is kept: the server tells its version with the next message, each change has a version of its own, so it is
//! known then. A change that comes late is of an earlier version, and refused.
//!
//! *Moves.* Where an insertion finds no place, ciphertexts move, all of them at times. A change moves at most 64 KiB of
//! them; more go in changes of their own before it, each of which leaves the order as it was: cut off anywhere, the index
//! is a right one, and the next insertion goes on from there.
//!
//! *Searches* go beside each other and beside a writer, without a lock while the server is asked. One that is refused,
//! because a change came between, is asked again with writers held off.
//!
//! *Entries.* Which of them the server has is state, too ([`Present`]). One that comes and is not there is put in without a look
//! for it among the entries of its value, which would be all of them for each.
//!
//! *State.* What a change makes of it comes with its steps, as records ([`StateChange`]): for each ciphertext its value,
//! for each entry a record without content, and the version. Their names are pseudorandom. They are taken up again together
//! ([`StatefulBPlus::taken_up`]). A write may hold several parts of a change; then it makes them all or none.

mod contract;
mod merged;

use super::names::Names;
use super::present::Present;
use super::reply::Range;
use super::revision::{Entry, MOVES_MAX, Step, Wish, steps};
use super::search::{Searching, ends};
use super::{REQUEST_ENTRIES_MAX, done, plaintext, refused, values};
use crate::arx_range::RangeEntry;
use crate::contract::StateChange;
use crate::error::IndexError;
use crate::ore::{End, StatefulScheme};
use crate::traits::RangeIndex;
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_primitives::uniform::shuffle;
use arras_protocol::Order;
use arras_protocol::bplus::{After, BPlus as Protocol, Bound, Change, Request, Response, Wanted};
use arras_protocol::ore::Scheme;
use arras_protocol::{Channel, ChannelError, IndexId, Refusal, RowId, write};
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use tokio::sync::OwnedMutexGuard;

/// A value and its row.
type Located = (u64, RowId);

/// Times that a change or a search is begun anew because the server is at another version.
const TRIES: usize = 4;

/// An entry as the caller names it.
type ValueAndRow = (u64, RowId);

/// The tree, and what is not known of it.
struct State<S> {
    scheme: S,
    /// Entries that are there.
    present: Present,
    version: u64,
    /// The next version that no change had.
    next: u64,
    /// Changes from this version of which it is not known whether the server made them, each whole or not at all.
    doubts: Vec<Vec<Step>>,
}

impl<S: StatefulScheme> State<S> {
    /// The server has made this change.
    fn advance(&mut self, step: &Step) -> Result<(), IndexError> {
        if !step.apply(&mut self.scheme, &mut self.present) {
            return Err(IndexError::State("a change that does not fit the tree".into()));
        }
        self.version = step.to;
        self.doubts.clear();
        Ok(())
    }

    /// The server has refused a message of version `asked`: it is at `at`.
    fn catch_up(&mut self, asked: u64, at: u64) -> Result<(), IndexError> {
        if self.version != asked {
            return Ok(());
        }
        let made = |steps: &&Vec<Step>| steps.last().is_some_and(|step| step.to == at);
        match self.doubts.iter().find(made).cloned() {
            Some(steps) => steps.iter().try_for_each(|step| self.advance(step)),
            None => Err(IndexError::Peer("the index is of another version than the state kept of it")),
        }
    }
}

struct Guarded<S> {
    state: RwLock<State<S>>,
    /// Held from the staging of a change until it is known what became of it.
    writing: Arc<tokio::sync::Mutex<()>>,
}

impl<S> Guarded<S> {
    fn read(&self) -> RwLockReadGuard<'_, State<S>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State<S>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A part of a change, to be written. The last belongs into the caller's write; those before it move ciphertexts, no more.
#[derive(Debug)]
pub struct RevisionPart {
    /// The steps.
    pub steps: Vec<write::Step>,
    /// What is to be saved with them.
    pub state: Vec<StateChange>,
}

/// A change that is ready to be written. Holds other changes off until it is committed or dropped. Dropped before, it is
/// unknown whether its next part was written: the server is asked before the next change.
pub struct StagedRevision<S: StatefulScheme> {
    shared: Arc<Guarded<S>>,
    index: IndexId,
    names: Arc<Names>,
    steps: VecDeque<Step>,
    /// How many of them were given out, from the first.
    given: usize,
    _alone: OwnedMutexGuard<()>,
}

impl<S: StatefulScheme> std::fmt::Debug for StagedRevision<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StagedRevision({} parts)", self.steps.len())
    }
}

impl<S: StatefulScheme> StagedRevision<S> {
    /// The next part; `None` if there is nothing more to write.
    pub fn part(&mut self) -> Option<RevisionPart> {
        self.steps.front()?;
        self.give(1);
        Some(self.look(0, 1))
    }

    /// From now on it is unknown whether the next so many parts are written.
    fn give(&mut self, count: usize) {
        self.given = count.min(self.steps.len());
    }

    /// Parts from one on, as one, for a write that holds them all.
    fn look(&self, from: usize, count: usize) -> RevisionPart {
        let (mut steps, mut state) = (Vec::new(), merged::Merged::default());
        for step in self.steps.iter().skip(from).take(count) {
            let change = Change::Revise { index: self.index, revision: step.revision() };
            steps.push(write::Step::Bplus(change));
            state.add(step.state(self.index, &self.names));
        }
        RevisionPart { steps, state: state.changes() }
    }

    /// The server has acknowledged what was given last.
    ///
    /// # Errors
    /// [`IndexError::State`] if the tree was changed behind this change's back.
    pub fn commit_part(&mut self) -> Result<(), IndexError> {
        let given = std::mem::take(&mut self.given);
        self.steps.drain(..given).try_for_each(|step| self.shared.write().advance(&step))
    }

    /// The server has refused the part that was given last: nothing of it was made.
    pub fn abort(mut self) {
        self.given = 0;
    }

    /// The version that the next part begins at.
    fn from(&self) -> Option<u64> {
        self.steps.front().map(|step| step.from)
    }
}

impl<S: StatefulScheme> Drop for StagedRevision<S> {
    fn drop(&mut self) {
        if self.given > 0 {
            let given = self.steps.drain(..self.given).collect();
            self.shared.write().doubts.push(given);
        }
    }
}

/// A range index in a B+ tree of ciphertexts of a scheme with state.
pub struct StatefulBPlus<S, C> {
    moves_max: usize,
    channel: C,
    index: IndexId,
    public: Scheme,
    names: Arc<Names>,
    prg: Mutex<Prg>,
    shared: Arc<Guarded<S>>,
}

impl<S, C> std::fmt::Debug for StatefulBPlus<S, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StatefulBPlus({:?}, {})", self.index, self.public.name())
    }
}

impl<S: StatefulScheme, C> StatefulBPlus<S, C> {
    /// The half of an empty index under its key. `prg`: of this index alone.
    #[must_use]
    pub fn new(channel: C, index: IndexId, keys: &Key, scheme: S, prg: Prg) -> Self {
        let (names, public) = (Arc::new(Names::new(keys, index)), scheme.scheme());
        let state = RwLock::new(State {
            scheme,
            present: Present::default(),
            version: 0,
            next: 1,
            doubts: Vec::new(),
        });
        let shared = Arc::new(Guarded { state, writing: Arc::default() });
        Self { moves_max: MOVES_MAX, channel, index, public, names, prg: Mutex::new(prg), shared }
    }

    /// The same with steps of at most so many moves, for tests of what goes in several steps and in several writes.
    #[must_use]
    pub fn with_moves_max(self, moves_max: usize) -> Self {
        Self { moves_max, ..self }
    }

    /// The same for an index that is at this version and has these entries, of which the scheme has the state.
    #[must_use]
    pub fn taken_up(self, version: u64, present: Present) -> Self {
        {
            let mut state = self.shared.write();
            (state.version, state.next, state.present) = (version, version + 1, present);
        }
        self
    }

    /// Bytes of state that the client keeps beside keys.
    #[must_use]
    pub fn state_bytes(&self) -> usize {
        let state = self.shared.read();
        state.scheme.state_bytes() + state.present.bytes()
    }

    /// Randomness for one operation.
    fn random(&self) -> Prg {
        let mut seed = [0; 16];
        self.prg.lock().unwrap_or_else(PoisonError::into_inner).fill(&mut seed);
        Prg::new(&seed)
    }

    /// Takes a reply's entries in; where the search goes on.
    fn take(&self, range: &mut Range, entries: &[u8], version: u64) -> Result<Option<Bound>, IndexError> {
        let state = self.shared.read();
        // What is sealed tells the value. The tree, if it has not gone on since, must tell the same.
        let known = state.version == version;
        let agrees = |stored: &[u8], value| !known || state.scheme.decrypt(stored) == Ok(value);
        range.take(&self.names, entries, agrees, |_| None)?;
        Ok(range.last.as_ref().map(|last| Bound {
            // Each stored ciphertext is one entry's own, and asks as well.
            query: last.stored.clone().into(),
            after: Some(After { sealed: last.sealed, tie: None }),
        }))
    }

    /// What to ask for: those entries that are there, as far as is known here. Each with its place in the list.
    fn wanted(
        &self,
        state: &State<S>,
        entries: &[(u64, RowId)],
        random: &mut Prg,
    ) -> Result<Vec<(usize, Wanted)>, IndexError> {
        let mut wanted = Vec::new();
        for (place, (value, row)) in entries.iter().enumerate() {
            let sealed = self.names.seal(*value, *row);
            if !state.present.may_have(&sealed) {
                continue;
            }
            let lower = state.scheme.bound(*value, End::Lower, random).map_err(refused)?;
            let upper = state.scheme.bound(*value, End::Upper, random).map_err(refused)?;
            if lower <= upper {
                wanted.push((place, Wanted { lower: lower.into(), upper: upper.into(), sealed }));
            }
        }
        Ok(wanted)
    }
}

/// The version that a server at another one tells.
fn other_version(error: &IndexError) -> Option<u64> {
    match error {
        IndexError::Channel(ChannelError::Refused(Refusal::OtherVersion { version })) => Some(*version),
        _ => None,
    }
}

impl<S: StatefulScheme, C: Channel<Protocol>> StatefulBPlus<S, C> {
    /// Makes the index. One that has entries is opened only with their state ([`Self::taken_up`]).
    ///
    /// # Parameters
    /// `page_bytes`: the server's pages; at least three entries must fit.
    ///
    /// # Errors
    /// [`IndexError`]; pages that are too small are refused by the server.
    pub async fn create(self, page_bytes: u32) -> Result<Self, IndexError> {
        let (index, scheme) = (self.index, self.public);
        match self.channel.call(Request::Change(Change::CreateIndex { index, scheme, page_bytes })).await? {
            Response::Created { filled: true } if self.shared.read().version == 0 => {
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
        done(&self.channel, Request::Change(Change::DropIndex { index: self.index })).await
    }

    /// Stages a change: entries that go, and others that come; one in both lists stays. Waits for the change before it.
    /// Asks the server where entries are that go, and, if it is not known what became of the last change, for its version.
    /// An entry that comes and is there stays as it is.
    ///
    /// # Errors
    /// [`IndexError`]; nothing has changed then.
    pub async fn stage(
        &self,
        insert: &[RangeEntry],
        remove: &[RangeEntry],
    ) -> Result<StagedRevision<S>, IndexError> {
        let (insert, remove) = (values(self.public, insert)?, values(self.public, remove)?);
        let alone = self.alone().await;
        self.stage_values(alone, (&insert, &remove)).await
    }

    /// Waits until no other change is staged.
    async fn alone(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.shared.writing).lock_owned().await
    }

    async fn stage_values(
        &self,
        alone: OwnedMutexGuard<()>,
        (insert, remove): (&[ValueAndRow], &[ValueAndRow]),
    ) -> Result<StagedRevision<S>, IndexError> {
        let come: HashSet<_> = insert.iter().copied().collect();
        let go: BTreeSet<_> = remove.iter().filter(|entry| !come.contains(entry)).copied().collect();
        let go: Vec<_> = go.into_iter().collect();
        let mut come: Vec<_> = come.into_iter().collect();
        come.sort_unstable();
        let mut random = self.random();
        // Ciphertexts follow from the order in which they are made: it says nothing of that of the values, or of documents.
        shuffle(&mut come, &mut random);
        for _ in 0..TRIES {
            let (version, asks) = {
                let state = self.shared.read();
                (state.version, !state.doubts.is_empty())
            };
            let located = self.located(version, asks, (&go, &come), &mut random).await;
            let (leaving, present) = match located {
                Err(error) => match other_version(&error) {
                    Some(at) => {
                        self.shared.write().catch_up(version, at)?;
                        continue;
                    }
                    None => return Err(error),
                },
                Ok(located) => located,
            };
            let mut place = 0..;
            come.retain(|_| place.next().is_none_or(|place| !present.contains(&place)));
            let mut state = self.shared.write();
            let State { scheme, next, .. } = &mut *state;
            let wish = Wish { insert: &come, remove: leaving };
            let steps = steps(scheme, &self.names, wish, (version, next), self.moves_max, &mut random)?;
            drop(state);
            let (shared, names) = (Arc::clone(&self.shared), Arc::clone(&self.names));
            return Ok(StagedRevision { shared, index: self.index, names, steps, given: 0, _alone: alone });
        }
        Err(IndexError::Peer("a version that does not stay"))
    }

    /// Of the entries that go, those that are there; of those that come, the places of those that are there.
    async fn located(
        &self,
        version: u64,
        asks: bool,
        (go, come): (&[Located], &[Located]),
        random: &mut Prg,
    ) -> Result<(Vec<Entry>, HashSet<usize>), IndexError> {
        let (leaving, coming) = {
            let state = self.shared.read();
            (self.wanted(&state, go, random)?, self.wanted(&state, come, random)?)
        };
        let split = leaving.len();
        let wanted: Vec<_> = leaving.iter().chain(&coming).map(|(_, wanted)| wanted.clone()).collect();
        let mut stored = Vec::with_capacity(wanted.len());
        let mut chunks: Vec<&[Wanted]> = wanted.chunks(REQUEST_ENTRIES_MAX).collect();
        if chunks.is_empty() && asks {
            chunks.push(&[]);
        }
        for chunk in chunks {
            let request = Request::Locate { index: self.index, version, wanted: chunk.to_vec() };
            match self.channel.call(request).await? {
                Response::Located { stored: some } if some.len() == chunk.len() => stored.extend(some),
                _ => return Err(IndexError::Peer("not the answer to a look for entries")),
            }
        }
        let state = self.shared.read();
        let mut found = Vec::new();
        for ((place, wanted), stored) in leaving.iter().zip(&stored) {
            let Some(stored) = stored else { continue };
            let (value, _) = go[*place];
            if state.scheme.decrypt(stored.as_slice())? != value {
                return Err(IndexError::Peer("another entry was found"));
            }
            let ciphertext = stored.as_slice().try_into().map_or(0, u64::from_be_bytes);
            found.push(Entry { value, ciphertext, sealed: wanted.sealed });
        }
        let there = coming.iter().zip(&stored[split..]).filter(|(_, stored)| stored.is_some());
        Ok((found, there.map(|((place, _), _)| *place).collect()))
    }

    /// Makes a change by itself, outside any write.
    async fn change(&self, insert: &[(u64, RowId)], remove: &[(u64, RowId)]) -> Result<(), IndexError> {
        for _ in 0..TRIES {
            let alone = self.alone().await;
            let mut staged = self.stage_values(alone, (insert, remove)).await?;
            let Err(error) = self.write(&mut staged).await else { return Ok(()) };
            match error {
                IndexError::Channel(ChannelError::Refused(Refusal::OtherVersion { version })) => {
                    let from = staged.from().unwrap_or_default();
                    let caught_up = self.shared.write().catch_up(from, version);
                    staged.abort();
                    caught_up?;
                }
                IndexError::Channel(ChannelError::Refused(Refusal::Undecided(_))) => return Err(error),
                IndexError::Channel(ChannelError::Refused(_)) => {
                    staged.abort();
                    return Err(error);
                }
                error => return Err(error),
            }
        }
        Err(IndexError::Peer("a version that does not stay"))
    }

    async fn write(&self, staged: &mut StagedRevision<S>) -> Result<(), IndexError> {
        while let Some(part) = staged.part() {
            for step in part.steps {
                let write::Step::Bplus(change) = step else { continue };
                done(&self.channel, Request::Change(change)).await?;
            }
            staged.commit_part()?;
        }
        Ok(())
    }
}

impl<S: StatefulScheme, C: Channel<Protocol>> RangeIndex for StatefulBPlus<S, C> {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        for chunk in values(self.public, &entries)?.chunks(REQUEST_ENTRIES_MAX) {
            self.change(chunk, &[]).await?;
        }
        Ok(())
    }

    async fn remove(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        for chunk in values(self.public, &entries)?.chunks(REQUEST_ENTRIES_MAX) {
            self.change(&[], chunk).await?;
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
        let mut alone = None;
        for _ in 0..TRIES {
            let (version, ends) = {
                let state = self.shared.read();
                (state.version, ends(&state.scheme, (lower, upper), &mut random)?)
            };
            let mut range = Range::new(self.public, (lower, upper), order, limit);
            let searching = Searching { channel: &self.channel, index: self.index, version };
            let take = |range: &mut Range, entries: &[u8]| self.take(range, entries, version);
            match searching.through(ends, &mut range, take).await {
                Ok(()) => return Ok(range.found),
                Err(error) => {
                    let Some(at) = other_version(&error) else { return Err(error) };
                    if alone.is_none() {
                        alone = Some(self.alone().await);
                    }
                    self.shared.write().catch_up(version, at)?;
                }
            }
        }
        Err(IndexError::Peer("a version that does not stay"))
    }
}
