//! EQunique: labels of unique values (Arx §3, §5.1).

use arras_keys::{Key, Purpose};
use arras_primitives::det_aead::DetAead;
use arras_protocol::IndexId;
use arras_protocol::unique::Label;

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
