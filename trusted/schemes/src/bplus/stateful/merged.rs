//! The client's state as records, merged over the parts of a change.

use crate::contract::StateChange;
use std::collections::BTreeMap;

/// A record with the change, and without it.
type Record = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Records that several parts change, one after the other.
#[derive(Default)]
pub(super) struct Merged(BTreeMap<Vec<u8>, Record>);

impl Merged {
    pub(super) fn add(&mut self, changes: Vec<StateChange>) {
        for StateChange { name, now, otherwise } in changes {
            // What was there before the first part is there if none is made.
            self.0.entry(name).or_insert((None, otherwise)).0 = now;
        }
    }

    pub(super) fn changes(self) -> Vec<StateChange> {
        let change = |(name, (now, otherwise))| StateChange { name, now, otherwise };
        self.0.into_iter().map(change).collect()
    }
}
