//! Which sessions wait for an encoder: one of them may hold the labels that a change waits for.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The sessions that encode values of one column, by the database's process of each.
#[derive(Clone, Debug, Default)]
pub(super) struct Encoding(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    begun: u64,
    by_process: HashMap<i32, u64>,
}

/// A session encodes until this is dropped.
#[derive(Debug)]
pub struct EncodingTurn {
    all: Encoding,
    process: Option<i32>,
}

impl Encoding {
    /// A session begins to.
    pub(super) fn begin(&self, process: Option<i32>) -> EncodingTurn {
        if let Some(process) = process {
            let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.begun += 1;
            let number = waiting.begun;
            waiting.by_process.insert(process, number);
        }
        EncodingTurn { all: self.clone(), process }
    }

    /// Those of some processes that encode, each with a number that no other encoding has.
    pub(super) fn among(&self, processes: &[i32]) -> Vec<(i32, u64)> {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        processes.iter().filter_map(|process| Some((*process, *waiting.by_process.get(process)?))).collect()
    }
}

impl Drop for EncodingTurn {
    fn drop(&mut self) {
        if let Some(process) = self.process {
            self.all.0.lock().unwrap_or_else(PoisonError::into_inner).by_process.remove(&process);
        }
    }
}
