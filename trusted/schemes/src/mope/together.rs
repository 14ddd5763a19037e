//! Callers that enter values at the same time share a change: whoever's turn it is enters those of all who wait.
//!
//! So a tree far away takes as many values in two rounds as callers wait for. In mOPE alone, where a value may be entered
//! again: a caller whose values were entered by another that failed enters them by itself.

use super::labels::MOVED_MAX;
use super::{Kind, Stored, Tree};
use crate::error::IndexError;
use arras_primitives::wipe::Wiped;
use arras_protocol::mope::TreeStore;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedMutexGuard, oneshot};

/// Values of all callers of a change, at most; but those of one are never parted.
const VALUES_MAX: usize = MOVED_MAX;

/// A caller that waits for its turn.
struct Caller {
    values: Vec<Wiped>,
    /// What its values are stored as.
    done: oneshot::Sender<Vec<Stored>>,
}

/// Those who wait, in the order in which they came.
#[derive(Default)]
pub(super) struct Waiting(Mutex<Vec<Caller>>);

impl Waiting {
    fn callers(&self) -> std::sync::MutexGuard<'_, Vec<Caller>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first who wait, as many as share a change.
    fn take(&self) -> Vec<Caller> {
        let mut callers = self.callers();
        let mut values = 0;
        let most = callers.iter().take_while(|caller| {
            values += caller.values.len();
            values <= VALUES_MAX
        });
        let most = most.count().max(1).min(callers.len());
        callers.drain(..most).collect()
    }
}

impl<S: TreeStore> Tree<S> {
    /// Enters values; in the turn of another if one is under way.
    pub(super) async fn enter<V: AsRef<[u8]>>(&self, values: &[V]) -> Result<Vec<Stored>, IndexError> {
        match Arc::clone(&self.turn).try_lock_owned() {
            Ok(turn) => self.change(&turn, values, &[]).await,
            Err(_) if self.kind == Kind::Mope => self.enter_together(values).await,
            Err(_) => self.change(&self.in_turn().await, values, &[]).await,
        }
    }

    /// Waits for the writer's turn.
    pub(super) async fn in_turn(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.turn).lock_owned().await
    }

    async fn enter_together<V: AsRef<[u8]>>(&self, values: &[V]) -> Result<Vec<Stored>, IndexError> {
        // What cannot be entered is this caller's error alone.
        self.cipher.plains(values)?;
        let (done, mut stored) = oneshot::channel();
        let own = values.iter().map(|value| Wiped::from(value.as_ref().to_vec())).collect();
        self.waiting.callers().push(Caller { values: own, done });
        loop {
            let turn = self.in_turn().await;
            match stored.try_recv() {
                Ok(stored) => return Ok(stored),
                // Taken by one that failed.
                Err(oneshot::error::TryRecvError::Closed) => return self.change(&turn, values, &[]).await,
                Err(oneshot::error::TryRecvError::Empty) => {}
            }
            let callers = self.waiting.take();
            let all: Vec<&[u8]> =
                callers.iter().flat_map(|caller| &caller.values).map(|value| value.as_slice()).collect();
            let mut entered = self.change(&turn, &all, &[]).await?.into_iter();
            for Caller { values, done } in callers {
                // Whoever no longer waits has no use for it.
                let _ = done.send(entered.by_ref().take(values.len()).collect());
            }
        }
    }
}
