//! Reads beside the drop of an index.
//!
//! A read takes no lock: an index that its plan reads may be dropped between the plan and the read, or in the middle. The server
//! then refuses what it is asked, and nobody has broken the protocol; or the proxy's own counters of it are gone, or the entries
//! of texts at their service, and there seems to be nothing in it. A read that has returned nothing yet begins again, by a plan
//! without that index; one that has is ended, as one whose collection was dropped.

use super::collection::Collection;
use super::error;
use super::index::LiveIndex;
use arras_service::{Fault, ServiceError};
use std::sync::Arc;

/// The indexes that a read may have begun with.
pub(super) struct Begun {
    collection: Arc<Collection>,
    indexes: Arc<Vec<Arc<LiveIndex>>>,
}

impl Begun {
    /// Those there are now.
    pub(super) fn now(collection: &Arc<Collection>) -> Self {
        Self { collection: Arc::clone(collection), indexes: collection.indexes() }
    }

    pub(super) fn collection(&self) -> &Collection {
        &self.collection
    }

    /// Whether a failure may be that of an index which was dropped since.
    fn explains(&self, failure: &ServiceError) -> bool {
        let refused = matches!(failure.fault, Fault::Peer | Fault::IndexNotFound);
        refused && self.dropped_since()
    }

    fn dropped_since(&self) -> bool {
        let left = self.collection.indexes();
        let mut parts = self.indexes.iter().flat_map(|index| &index.parts);
        let mut texts = self.indexes.iter().filter_map(|index| index.text.as_ref());
        parts.any(|part| left.iter().flat_map(|index| &index.parts).all(|other| other.id != part.id))
            || texts.any(|text| {
                left.iter().filter_map(|index| index.text.as_ref()).all(|other| other.id != text.id)
            })
    }

    /// The failure of a read that has returned something, with the right blame.
    pub(super) fn blamed(&self, failure: ServiceError) -> ServiceError {
        if self.explains(&failure) { error::index_dropped(&self.collection.ns) } else { failure }
    }
}

/// Begins a read; again, if an index was dropped under it: each time there is one fewer. What it found is as it was before only
/// if the index is still listed, for the list is what a drop changes first.
pub(super) async fn drops<T, F: Future<Output = Result<T, ServiceError>>>(
    collection: &Arc<Collection>,
    begin: impl Fn() -> F,
) -> Result<T, ServiceError> {
    loop {
        let begun = Begun::now(collection);
        match begin().await {
            Err(failure) if begun.explains(&failure) => {}
            Ok(_) if begun.dropped_since() => {}
            outcome => return outcome,
        }
    }
}
