//! Writes that survive a crash of either side.
//!
//! A write is recorded in the proxy's own store (with the counters it takes) before it is sent, under an
//! operation id the server applies at most once. After a crash, or when the outcome is unknown, what is
//! recorded is sent again as it was; so an acknowledged write is never lost, a write that was never
//! acknowledged is wholly there or wholly not, and no counter serves two entries.

use super::apply::COUNTERS;
use super::aside;
use super::commits::Commits;
use super::ledger::Ledger;
use super::local::{Change, LocalError, LocalStore, Sealed};
use super::upload::{self, Heading, TooLarge};
use crate::history::{Halt, History};
use crate::mutations::{Mutation, Mutations};
use arras_protocol::write::{Response, Step, Write};
use arras_protocol::{Channel, ChannelError, CollectionId, OperationId, Refusal};
use arras_storage::{Durability, Storage, StorageError, Table};
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Operation id to [`Recorded`].
pub(super) const INTENTS: Table = Table("intents");
/// Waits between attempts grow to this.
const PAUSE_MAX: Duration = Duration::from_millis(500);
/// How long the server is left alone after it was waited for in vain.
const RECENT: Duration = Duration::from_secs(1);

/// Why a write is not acknowledged.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The server refused it; nothing was applied.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The server cannot be reached; the write is recorded and will be applied (once) when it is back.
    #[error(
        "the server cannot be reached ({0}); the write is recorded in the proxy and will be completed when \
         the server is back"
    )]
    InDoubt(String),
    /// An earlier write is in doubt and must be completed first, and the server cannot be reached. Nothing of this one
    /// was recorded.
    #[error(
        "the server cannot be reached ({0}), and a write from before waits to be completed first; nothing of this \
         operation was recorded, and nothing of it will be applied"
    )]
    Unsettled(String),
    /// The proxy's own store failed in a way that leaves open whether the write is recorded there.
    #[error(
        "the proxy's store failed ({0}); whether the write is recorded there is not known: if it is, it will be \
         completed once the store can be used again"
    )]
    Undecided(String),
    /// This proxy must not go on; its attempts of this write were refused whole, or none was made. Nothing was applied.
    #[error("{why}; nothing of this write was applied")]
    Halted {
        /// For what reason, if that is known to be of its history.
        halt: Option<Halt>,
        /// The same in words.
        why: String,
    },
    /// This proxy must not go on, and an attempt of this write was made whose outcome is unknown.
    #[error("{0}; whether this write was applied is not known")]
    HaltedInDoubt(String),
    /// The server has had a write of this name: the proxy's state was set back. Nothing was applied.
    #[error(
        "the proxy's data directory is older than the server's data (a restored backup?): the server has a later \
         write under the name of this one; restore both from the same time and run `arras restore`"
    )]
    Repeated,
    /// The request cannot be sent at all; nothing was applied.
    #[error("{0}")]
    NotSent(ChannelError),
    /// It is more than a write may be; nothing was recorded or sent.
    #[error("the write is too large: {0}")]
    TooLarge(#[from] TooLarge),
    /// The proxy's own store failed; nothing of the write is recorded, and nothing was sent.
    #[error(transparent)]
    Local(#[from] LocalError),
}

/// A failure to record a write.
fn unrecorded(error: LocalError) -> WriteError {
    if error.is_undecided() { WriteError::Undecided(error.to_string()) } else { error.into() }
}

impl WriteError {
    /// True if the server has not applied the write, and will not.
    #[must_use]
    pub fn nothing_applied(&self) -> bool {
        !matches!(self, Self::InDoubt(_) | Self::Undecided(_) | Self::HaltedInDoubt(_))
    }

    /// True if the changes of the proxy's state that came with the write are on record, whatever became of the write;
    /// only records of values are taken back from one that was not applied.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        match self {
            Self::Refused(_)
            | Self::InDoubt(_)
            | Self::Halted { .. }
            | Self::HaltedInDoubt(_)
            | Self::Repeated
            | Self::NotSent(_) => true,
            Self::Unsettled(_) | Self::Undecided(_) | Self::TooLarge(_) | Self::Local(_) => false,
        }
    }
}

/// Writes that are recorded and not known to be applied.
#[derive(Debug, Default)]
struct Open {
    next: u64,
    /// `true`: its outcome is unknown and nobody is waiting for it any more.
    operations: BTreeMap<OperationId, bool>,
}

/// The intent log.
#[derive(Debug)]
pub struct Intents<S: Storage> {
    local: Arc<LocalStore<S>>,
    /// Told of every write before it is recorded, and when its outcome is known.
    pub ledger: Arc<Ledger>,
    commits: Commits<S>,
    epoch: u64,
    open: Mutex<Open>,
    /// One settling at a time.
    settling: tokio::sync::Mutex<()>,
    /// When the server was last waited for in vain, and why.
    failed: Mutex<Option<(Instant, String)>>,
    patience: Duration,
    /// Bytes of a request above which a write is cut.
    request_bytes: usize,
    history: Arc<History>,
    pub(super) mutations: Mutations,
}

/// `first`: no attempt was made whose outcome is unknown.
fn halted(halt: Option<Halt>, why: String, first: bool) -> WriteError {
    if first { WriteError::Halted { halt, why } } else { WriteError::HaltedInDoubt(why) }
}

/// A write as it is recorded: its name, what was finished with when it was named, and its steps (all that is sent, so
/// that it is the same bytes however often it is sent); and the records of values if it comes to nothing.
type Recorded = (OperationId, OperationId, Vec<Step>, Sealed);

fn name(operation: OperationId) -> [u8; 16] {
    ((u128::from(operation.epoch) << 64) | u128::from(operation.sequence)).to_be_bytes()
}

impl<S: Storage> Intents<S> {
    /// Takes up the log under this start's `epoch`; what an earlier start left is in doubt until
    /// [`Self::settle`]. A write is tried for `patience` before it is reported in doubt, and goes in requests of
    /// about `request_bytes`.
    ///
    /// # Errors
    /// [`LocalError`] if the log cannot be read.
    pub fn open(
        local: Arc<LocalStore<S>>,
        epoch: u64,
        patience: Duration,
        history: Arc<History>,
        request_bytes: usize,
    ) -> Result<Self, LocalError> {
        let ledger = Arc::new(Ledger::open(&local, COUNTERS)?);
        let left: Vec<Recorded> = local.all(INTENTS)?;
        let operations = left.iter().map(|(operation, ..)| (*operation, true)).collect();
        left.into_iter().for_each(|(operation, _, steps, undo)| ledger.left(operation, &steps, undo));
        let open = Mutex::new(Open { next: 0, operations });
        let (settling, failed) = Default::default();
        let commits = Commits::new(Arc::clone(&local));
        Ok(Self {
            local,
            ledger,
            commits,
            epoch,
            open,
            settling,
            failed,
            patience,
            request_bytes,
            history,
            mutations: Mutations::default(),
        })
    }

    fn open_writes(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a write with the changes of the proxy's state it depends on, sends it, and returns once it is
    /// durable on the server.
    ///
    /// # Errors
    /// [`WriteError`]; only one that is not [`WriteError::nothing_applied`] leaves the write to be applied later.
    pub async fn perform<C: Channel<Write>>(
        &self,
        channel: &C,
        steps: Vec<Step>,
        changes: Vec<Change>,
    ) -> Result<(), WriteError> {
        upload::check(&steps)?;
        let (operation, finished_below) = self.note(&steps, changes, false).await.map_err(unrecorded)?;
        if self.mutations.has(Mutation::IntentStruckEarly) {
            self.local.apply(&[self.local.unset(INTENTS, &name(operation))], Durability::Durable)?;
        }
        let outcome = self.send(channel, operation, finished_below, steps, true).await;
        if matches!(outcome, Err(WriteError::InDoubt(_) | WriteError::HaltedInDoubt(_))) {
            self.open_writes().operations.insert(operation, true);
            return outcome;
        }
        match (self.finish(operation, outcome.is_ok()).await, outcome) {
            (Ok(()), outcome) => outcome,
            (Err(failed), Ok(())) => Err(WriteError::Undecided(failed.to_string())),
            (Err(failed), Err(refused)) => Err(WriteError::Undecided(format!("{failed}, after: {refused}"))),
        }
    }

    /// Records a write like [`Self::perform`], to be sent by [`Self::settle`] after those that are in doubt already.
    ///
    /// # Errors
    /// [`WriteError`]; nothing is recorded unless it is [`WriteError::Undecided`].
    pub async fn record(&self, steps: &[Step], changes: Vec<Change>) -> Result<(), WriteError> {
        self.note(steps, changes, true).await.map(drop).map_err(unrecorded)
    }

    /// Names a write and records it; its name, and below which one everything is finished. If nobody knows whether it
    /// is recorded it stays in doubt: to be sent, as any other, if the log turns out to have it.
    async fn note(
        &self,
        steps: &[Step],
        mut changes: Vec<Change>,
        in_doubt: bool,
    ) -> Result<(OperationId, OperationId), LocalError> {
        let (operation, finished_below) = {
            let mut open = self.open_writes();
            let operation = OperationId { epoch: self.epoch, sequence: open.next };
            open.next += 1;
            open.operations.insert(operation, false);
            // The strike of everything below is durable no later than this write's record, so before the server
            // hears of it: the server may forget what this log can no longer replay.
            (operation, open.operations.keys().next().copied().unwrap_or(operation))
        };
        let undo = self.ledger.begin(operation, steps, &changes);
        changes.push(self.local.set(INTENTS, &name(operation), &(operation, finished_below, steps, undo)));
        if let Err(error) = self.commits.record(operation, changes).await {
            if error.is_undecided() {
                self.history.recorded(operation);
                self.open_writes().operations.insert(operation, true);
                return Err(error);
            }
            self.open_writes().operations.remove(&operation);
            self.ledger.end(operation, false, &self.local);
            return Err(error);
        }
        self.history.recorded(operation);
        if in_doubt {
            self.open_writes().operations.insert(operation, true);
        }
        Ok((operation, finished_below))
    }

    /// True if a write is recorded whose outcome nobody knows: [`Self::settle`] before anything else.
    pub fn in_doubt(&self) -> bool {
        !self.mutations.has(Mutation::DoubtForgotten)
            && self.open_writes().operations.values().any(|in_doubt| *in_doubt)
    }

    /// Sends again, in order, what is in doubt; how many writes that were. While the steps of one are sent, what
    /// `hold` makes of them is held: nobody may go by a state that they are about to change.
    ///
    /// # Errors
    /// [`WriteError::Unsettled`] if the server cannot be reached. Those who come while, or just after, it was waited for in vain
    /// fail with it rather than wait one after the other.
    pub async fn settle<C, H, F>(&self, channel: &C, hold: impl Fn(&[Step]) -> F) -> Result<usize, WriteError>
    where
        C: Channel<Write>,
        F: Future<Output = H>,
    {
        let began = Instant::now();
        let _one_at_a_time = self.settling.lock().await;
        let failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match failed {
            Some((when, why)) if self.in_doubt() && (when >= began || when.elapsed() < RECENT) => {
                Err(WriteError::Unsettled(why))
            }
            _ => self.send_again(channel, hold).await,
        }
    }

    async fn send_again<C, H, F>(&self, channel: &C, hold: impl Fn(&[Step]) -> F) -> Result<usize, WriteError>
    where
        C: Channel<Write>,
        F: Future<Output = H>,
    {
        let in_doubt: Vec<OperationId> =
            self.open_writes().operations.iter().filter(|(_, doubt)| **doubt).map(|(id, _)| *id).collect();
        for operation in &in_doubt {
            let intent: Option<Recorded> = self.local.get(INTENTS, &name(*operation))?;
            let Some((_, finished_below, steps, _)) = intent else {
                self.finish(*operation, false).await?;
                continue;
            };
            let _held = hold(&steps).await;
            let outcome = self.send(channel, *operation, finished_below, steps, false).await;
            let applied = outcome.is_ok();
            match outcome {
                Ok(()) => {}
                // It was refused whole when first sent too: there is nothing to complete.
                Err(WriteError::Refused(refusal)) => {
                    tracing::warn!(?operation, %refusal, "a recorded write was refused by the server");
                }
                Err(WriteError::NotSent(error)) => {
                    tracing::warn!(?operation, %error, "a recorded write cannot be sent, and never was");
                }
                // What is in doubt is another's: the one who waits for it has recorded nothing.
                Err(WriteError::InDoubt(why)) => return Err(WriteError::Unsettled(why)),
                Err(WriteError::HaltedInDoubt(why)) => {
                    return Err(WriteError::Halted { halt: self.history.halted(), why });
                }
                Err(error) => return Err(error),
            }
            self.finish(*operation, applied).await?;
        }
        Ok(in_doubt.len())
    }

    /// Sends until the outcome is known or patience ends. `first`: it was never sent before.
    async fn send<C: Channel<Write>>(
        &self,
        channel: &C,
        operation: OperationId,
        finished_below: OperationId,
        steps: Vec<Step>,
        mut first: bool,
    ) -> Result<(), WriteError> {
        let began = Instant::now();
        let mut pause = Duration::from_millis(10);
        loop {
            let acknowledged = self.history.acknowledged(0);
            let heading = Heading { operation, finished_below, acknowledged };
            let why = match upload::send(channel, heading, &steps, self.request_bytes).await {
                Ok(Response { applied: false, .. }) | Err(ChannelError::Refused(Refusal::Finished))
                    if first =>
                {
                    return Err(WriteError::Repeated);
                }
                Ok(Response { commits, .. }) => {
                    self.local.acknowledged(self.history.acknowledged(commits));
                    return Ok(());
                }
                Err(ChannelError::Halted(why)) => return Err(halted(self.history.halted(), why, first)),
                Err(ChannelError::Refused(refusal @ (Refusal::Fenced | Refusal::SetBack))) => {
                    let halt = self.history.refused(&refusal);
                    let why = halt.map_or_else(|| refusal.to_string(), |halt| halt.to_string());
                    return Err(halted(halt, why, first));
                }
                // A failing store says nothing of what an earlier attempt came to.
                Err(ChannelError::Refused(refusal @ (Refusal::Storage(_) | Refusal::Full(_)))) if !first => {
                    refusal.to_string()
                }
                Err(ChannelError::Refused(refusal @ (Refusal::Stopping | Refusal::Undecided(_)))) => {
                    refusal.to_string()
                }
                Err(ChannelError::Refused(refusal)) => return Err(refusal.into()),
                Err(error) if error.outcome_unknown() => error.to_string(),
                Err(error) => return Err(WriteError::NotSent(error)),
            };
            if began.elapsed() >= self.patience {
                let mut failed = self.failed.lock().unwrap_or_else(PoisonError::into_inner);
                *failed = Some((Instant::now(), why.clone()));
                return Err(WriteError::InDoubt(why));
            }
            first = false;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Takes a collection's count from a scan beside which nothing was written. If the record of it is lost with the
    /// process, the next start counts again.
    pub(super) fn counted(&self, collection: CollectionId, documents: u64) {
        // In the order of the counts that writes record.
        let _no_strike = self.open_writes();
        self.commits.send_along(vec![self.ledger.counted(collection, documents, &self.local)]);
    }

    /// Strikes a write whose outcome is known. One that was applied, durably before the next one is recorded: if the
    /// strike is lost with the process, the replay changes nothing. One that was not, durably at once.
    ///
    /// # Errors
    /// [`LocalError`] if one that was not applied cannot be struck: it stays in doubt. A later start may send it again,
    /// and the next write of its values must not go by the records it changed.
    async fn finish(&self, operation: OperationId, applied: bool) -> Result<(), LocalError> {
        let strike = self.local.unset(INTENTS, &name(operation));
        let mut along = Vec::new();
        if applied {
            along.push(strike);
        } else if let Err(error) = self.take_back(operation, strike).await {
            tracing::error!(%error, ?operation, "a write that was not applied cannot be struck off the log");
            self.open_writes().operations.insert(operation, true);
            return Err(error);
        }
        // Together, so that the counts are recorded in the order in which they came about.
        let mut open = self.open_writes();
        along.extend(self.ledger.end(operation, applied, &self.local));
        self.commits.send_along(along);
        // Only now: what is finished below must have its strike under way.
        open.operations.remove(&operation);
        Ok(())
    }

    /// Strikes a write that was not applied, and takes back what was recorded with it: durably, since its sender is
    /// told that it was not applied, and together, since the next one goes by these records and a replay is of those
    /// now there.
    async fn take_back(&self, operation: OperationId, strike: Change) -> Result<(), LocalError> {
        let mut changes = self.ledger.undo(operation);
        if self.mutations.has(Mutation::RefusalNotTakenBack) {
            changes.clear();
        }
        changes.push(strike);
        let local = Arc::clone(&self.local);
        let written = aside::run(move || local.apply(&changes, Durability::Durable));
        written.await.unwrap_or_else(|_| {
            Err(StorageError::Undecided("the thread that writes it failed".into()).into())
        })
    }
}

#[cfg(test)]
mod tests;
