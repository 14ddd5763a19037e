//! EQunique: labels of unique values (Arx §3, §5.1).

use crate::contract::{EncryptedIndex, Pending, Place, RowChange, Serves, Staged, State};
use crate::error::IndexError;
use arras_keys::{Key, Purpose};
use arras_primitives::det_aead::DetAead;
use arras_protocol::IndexId;
use arras_protocol::unique::{Change, Label};
use arras_protocol::write::Step;
use std::sync::Arc;

/// Bytes of one entry's steps, about.
const ENTRY_BYTES: usize = 50;

/// Labels values of one index.
pub struct UniqueLabels {
    index: IndexId,
    labels: DetAead,
}

impl std::fmt::Debug for UniqueLabels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "UniqueLabels({:?})", self.index)
    }
}

impl UniqueLabels {
    /// Derives the index's cipher from its key.
    #[must_use]
    pub fn new(index: IndexId, key: &Key) -> Self {
        Self { index, labels: DetAead::new(key.child(Purpose::UniqueLabel).expose()) }
    }

    /// The label of a value in canonical form: equal values, equal labels.
    #[must_use]
    pub fn label(&self, canonical: &[u8]) -> Label {
        Label(self.labels.tag(&[self.index.as_bytes()], canonical))
    }
}

impl EncryptedIndex for UniqueLabels {
    fn index(&self) -> IndexId {
        self.index
    }

    fn entry_bytes(&self) -> usize {
        ENTRY_BYTES
    }

    fn serves(&self) -> Serves<'_> {
        Serves::Unique(self)
    }

    fn stage(
        self: Arc<Self>,
        _place: Place,
        changes: Vec<RowChange>,
        _state: Arc<dyn State>,
    ) -> Pending<'static, Result<Staged, IndexError>> {
        let mut staged = Staged::default();
        let index = self.index;
        for RowChange { row, old, new, .. } in &changes {
            let gone = old.keys().filter(|value| !new.contains_key(*value));
            let freed = gone.map(|value| Step::Unique(Change::Remove { index, label: self.label(value) }));
            staged.steps.freed.extend(freed);
            for value in new.keys().filter(|value| !old.contains_key(*value)) {
                let label = self.label(value);
                staged.steps.entries.push(Step::Unique(Change::Insert { index, label, row: *row }));
            }
        }
        Box::pin(std::future::ready(Ok(staged)))
    }
}
