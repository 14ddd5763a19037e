//! The tree under the one contract of indexes.

use super::super::plaintext;
use super::super::reply::Range;
use super::super::search::{Searching, ends};
use super::{StagedRevision, StatefulBPlus, TRIES, other_version};
use crate::contract::{
    EncryptedIndex, KeysAndRows, Order, Pending, Place, Preceding, RangeCursor, RangePage, RangeQuery,
    RangeSearch, Repair, RowChange, Serves, Staged, State, StateChange, Steps, range_entries,
};
use crate::error::IndexError;
use crate::ore::StatefulScheme;
use crate::ore::domain::plaintext_key;
use arras_protocol::bplus::{After, BPlus as Protocol, Bound};
use arras_protocol::{Channel, IndexId, RowId};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::OwnedMutexGuard;

/// Bytes of an entry's step, with the moves that come to one when values ascend.
const ENTRY_BYTES: usize = 256;

/// Steps of one write: 256 KiB of ciphertexts that move.
const STEPS_PER_WRITE: usize = 4;

impl<S: StatefulScheme + 'static, C: Channel<Protocol> + 'static> EncryptedIndex for StatefulBPlus<S, C> {
    fn index(&self) -> IndexId {
        self.index
    }

    fn entry_bytes(&self) -> usize {
        ENTRY_BYTES
    }

    fn serves(&self) -> Serves {
        Serves::Range
    }

    fn range(self: Arc<Self>) -> Option<Arc<dyn RangeSearch>> {
        Some(self)
    }

    fn place(self: Arc<Self>) -> Pending<'static, Place> {
        Box::pin(async move { Box::new(self.alone().await) as Place })
    }

    fn stage(
        self: Arc<Self>,
        place: Place,
        changes: Vec<RowChange>,
        _state: Arc<dyn State>,
    ) -> Pending<'static, Result<Staged, IndexError>> {
        Box::pin(async move {
            let (insert, remove) = range_entries(changes);
            if insert.is_empty() && remove.is_empty() {
                return Ok(Staged::default());
            }
            let (insert, remove) =
                (super::values(self.public, &insert)?, super::values(self.public, &remove)?);
            let alone = place
                .downcast::<OwnedMutexGuard<()>>()
                .map_err(|_| IndexError::Caller("a place of another index"))?;
            let mut staged = self.stage_values(*alone, (&insert, &remove)).await?;
            let earlier = earlier(staged.steps.len());
            let last = staged.look(earlier, STEPS_PER_WRITE);
            if earlier == 0 {
                staged.give(STEPS_PER_WRITE);
            }
            let staged = Arc::new(Mutex::new(staged));
            let preceding = Earlier { staged: Arc::clone(&staged) };
            let finish = move || {
                // One that fits no longer shows at the next message: the server is at another version then.
                let _ = locked(&staged).commit_part();
                Repair::none()
            };
            Ok(Staged {
                preceding: (earlier > 0).then(|| Box::new(preceding) as Box<dyn Preceding>),
                steps: Steps { ordered: last.steps, ..Steps::default() },
                state: last.state,
                finish: Some(Box::new(finish)),
                ..Staged::default()
            })
        })
    }
}

/// Of so many steps, how many go in writes before the caller's.
fn earlier(steps: usize) -> usize {
    steps.saturating_sub(1) / STEPS_PER_WRITE * STEPS_PER_WRITE
}

fn locked<S: StatefulScheme>(
    staged: &Mutex<StagedRevision<S>>,
) -> std::sync::MutexGuard<'_, StagedRevision<S>> {
    staged.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Moves that go before.
struct Earlier<S: StatefulScheme> {
    staged: Arc<Mutex<StagedRevision<S>>>,
}

impl<S: StatefulScheme> Preceding for Earlier<S> {
    fn next(&mut self) -> Option<(Steps, Vec<StateChange>)> {
        let mut staged = locked(&self.staged);
        staged.give(STEPS_PER_WRITE);
        // What is left then is the caller's.
        (staged.steps.len() > STEPS_PER_WRITE).then(|| {
            let part = staged.look(0, STEPS_PER_WRITE);
            (Steps { ordered: part.steps, ..Steps::default() }, part.state)
        })
    }

    fn acknowledged(&mut self) -> Result<(), IndexError> {
        locked(&self.staged).commit_part()
    }
}

impl<S: StatefulScheme + 'static, C: Channel<Protocol> + 'static> RangeSearch for StatefulBPlus<S, C> {
    fn search(self: Arc<Self>, range: RangeQuery) -> Pending<'static, Result<RangePage, IndexError>> {
        Box::pin(async move {
            let RangeQuery { lower, upper, order, limit } = range;
            let (lower, upper) = (plaintext(self.public, &lower)?, plaintext(self.public, &upper)?);
            let cursor = Cursor { index: self, lower, upper, order, at: None };
            if lower > upper || limit == Some(0) {
                return Ok(RangePage { entries: Vec::new(), more: None, repair: Repair::none() });
            }
            cursor.page(limit).await
        })
    }

    fn inspect(self: Arc<Self>) -> Pending<'static, Result<KeysAndRows, IndexError>> {
        Box::pin(async move {
            let width = self.public.width();
            let [lower, upper] = [0, width.greatest()].map(|value| plaintext_key(width, value));
            let found =
                crate::traits::RangeIndex::search(&*self, lower, upper, Order::Ascending, None).await?;
            let known = self.shared.read().scheme.values();
            match found.len() == known {
                true => Ok(found),
                false => Err(IndexError::Peer("another number of entries than the client's tree has")),
            }
        })
    }

    fn entries_per_write(&self, write_bytes: usize) -> usize {
        (write_bytes / ENTRY_BYTES).max(1)
    }
}

/// The entry that a page ended with.
struct At {
    /// The version its ciphertext is of.
    version: u64,
    value: u64,
    bound: Bound,
    /// Rows of its value that were returned: if the ciphertexts have changed since, the value is begun anew, and they are
    /// left out.
    returned: HashSet<RowId>,
}

/// Where a search left off, and in which index.
struct Cursor<S, C> {
    index: Arc<StatefulBPlus<S, C>>,
    lower: u64,
    upper: u64,
    order: Order,
    at: Option<At>,
}

impl<S, C> std::fmt::Debug for Cursor<S, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Cursor({:?})", self.index)
    }
}

impl<S: StatefulScheme + 'static, C: Channel<Protocol> + 'static> Cursor<S, C> {
    async fn page(mut self, limit: Option<usize>) -> Result<RangePage, IndexError> {
        if limit == Some(0) {
            let more = Some(Box::new(self) as Box<dyn RangeCursor>);
            return Ok(RangePage { entries: Vec::new(), more, repair: Repair::none() });
        }
        let mut alone = None;
        let mut tries = 0;
        loop {
            match self.ask(limit).await {
                Ok((entries, true)) if entries.is_empty() => {
                    // Every entry of this page came before. Writers that come between would have it begin again for ever.
                    if alone.is_none() {
                        alone = Some(self.index.alone().await);
                    }
                }
                Ok((entries, more)) => {
                    let more = more.then(|| Box::new(self) as Box<dyn RangeCursor>);
                    return Ok(RangePage { entries, more, repair: Repair::none() });
                }
                Err((asked, error)) => {
                    let Some(version) = other_version(&error).filter(|_| tries < TRIES) else {
                        return Err(error);
                    };
                    tries += 1;
                    if alone.is_none() {
                        alone = Some(self.index.alone().await);
                    }
                    self.index.shared.write().catch_up(asked, version)?;
                }
            }
        }
    }

    /// Asks once; entries that are new, and whether there is more. Of a failure, the version asked for, too.
    async fn ask(&mut self, limit: Option<usize>) -> Result<(KeysAndRows, bool), (u64, IndexError)> {
        let index = Arc::clone(&self.index);
        let mut random = index.random();
        let (mut lower, mut upper) = (self.lower, self.upper);
        let asked = {
            let state = index.shared.read();
            let version = state.version;
            let after = self.at.as_ref().filter(|at| at.version == version).map(|at| at.bound.clone());
            if let Some(at) = &self.at {
                match self.order {
                    Order::Ascending => lower = at.value,
                    Order::Descending => upper = at.value,
                }
            }
            ends(&state.scheme, (lower, upper), &mut random)
                .map(|ends| (version, ends, after))
                .map_err(|error| (version, error))
        };
        let (version, mut ends, after) = asked?;
        if let Some(after) = after {
            match self.order {
                Order::Ascending => ends.0 = after,
                Order::Descending => ends.1 = after,
            }
        }
        let mut range = Range::new(index.public, (lower, upper), self.order, limit);
        let searching = Searching { channel: &index.channel, index: index.index, version };
        let take = |range: &mut Range, entries: &[u8]| index.take(range, entries, version);
        let next = searching.once(ends, &mut range, take).await.map_err(|error| (version, error))?;
        // The limit is one of a page: there may be more behind it.
        let more = next.is_some() || range.remaining() == Some(0);
        let Some(last) = &range.last else { return Ok((range.found, more)) };
        let width = index.public.width();
        let (value, key) = (last.value, plaintext_key(width, last.value));
        let bound = Bound {
            query: last.stored.clone().into(),
            after: Some(After { sealed: last.sealed, tie: None }),
        };
        let here = range.found.iter().rev().take_while(|(other, _)| *other == key);
        let mut returned: HashSet<RowId> = here.map(|(_, row)| *row).collect();
        if let Some(at) = self.at.take() {
            let before = plaintext_key(width, at.value);
            range.found.retain(|(key, row)| *key != before || !at.returned.contains(row));
            if at.value == value {
                returned.extend(at.returned);
            }
        }
        self.at = Some(At { version, value, bound, returned });
        Ok((range.found, more))
    }
}

impl<S: StatefulScheme + 'static, C: Channel<Protocol> + 'static> RangeCursor for Cursor<S, C> {
    fn next(self: Box<Self>, limit: Option<usize>) -> Pending<'static, Result<RangePage, IndexError>> {
        Box::pin(async move { self.page(limit).await })
    }
}
