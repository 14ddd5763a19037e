//! Engine code, whose errors and panics become the store's.

use super::recovering::{Origin, Recovering};
use super::{contained, failed};
use crate::StorageError;
use std::sync::atomic::Ordering;

impl Recovering {
    /// True once engine code has contradicted itself: nothing runs any more.
    pub(super) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    /// Runs engine code that reads. A panic inside it is the engine's way of saying that the file contradicts itself:
    /// at a block known to be damaged that is the end of this read alone, without one nothing runs afterwards.
    pub(super) fn guarded<T>(
        &self,
        origin: &Origin,
        run: impl FnOnce() -> Result<T, redb::Error>,
    ) -> Result<T, StorageError> {
        if self.is_broken() {
            return Err(StorageError::Damaged("the engine stopped at an earlier contradiction".to_owned()));
        }
        let outcome = contained(|| Ok(run())).map_err(|panic| match origin.state.damage() {
            Some(damage) => StorageError::Damaged(damage),
            None => {
                self.broken.store(true, Ordering::Release);
                panic
            }
        })?;
        outcome.map_err(|error| {
            self.heed(origin, &error);
            failed(error)
        })
    }

    /// Runs engine code that writes: after a panic in it nothing runs.
    pub(super) fn guarded_write<T>(
        &self,
        origin: &Origin,
        run: impl FnOnce() -> Result<T, redb::Error>,
    ) -> Result<T, StorageError> {
        let before = self.is_broken();
        let mut panicked = true;
        let outcome = self.guarded(origin, || {
            let outcome = run();
            panicked = false;
            outcome
        });
        if panicked && !before {
            self.broken.store(true, Ordering::Release);
        }
        outcome
    }
}
