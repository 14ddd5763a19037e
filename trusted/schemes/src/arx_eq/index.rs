//! The half with its channel, under the contract of indexes.

use super::ArxEq;
use super::occurrences::Occurrences;
use super::renumbering::{self, Numbered};
use super::staging::recorded;
use crate::contract::{
    Difference, EncryptedIndex, EqualityAnswer, EqualitySearch, Occasion, OnRecord, Pending, Place,
    Renumbering, RowChange, Serves, Staged, State,
};
use crate::error::IndexError;
use arras_keys::Key;
use arras_protocol::arx_eq::{ArxEq as Protocol, Entries};
use arras_protocol::{Channel, IndexId, RowId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes of one entry's steps, about, with its counter in the document's header.
const ENTRY_BYTES: usize = 70;

/// The client half of one index.
pub struct ArxEqIndex<C> {
    pub(super) channel: C,
    pub(super) keyed: ArxEq,
}

impl<C> std::fmt::Debug for ArxEqIndex<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.keyed.fmt(f)
    }
}

impl<C> ArxEqIndex<C> {
    /// Takes an index up; its state is all its caller's.
    #[must_use]
    pub fn new(channel: C, index: IndexId, key: &Key) -> Self {
        Self { channel, keyed: ArxEq::new(index, key) }
    }
}

impl<C: Channel<Protocol> + Channel<Entries> + 'static> EncryptedIndex for ArxEqIndex<C> {
    fn index(&self) -> IndexId {
        self.keyed.index()
    }

    fn entry_bytes(&self) -> usize {
        ENTRY_BYTES
    }

    fn keeps_in_headers(&self) -> bool {
        true
    }

    fn serves(&self) -> Serves {
        Serves::Equality
    }

    fn equality(self: Arc<Self>) -> Option<Arc<dyn EqualitySearch>> {
        Some(self)
    }

    fn stage(
        self: Arc<Self>,
        _place: Place,
        changes: Vec<RowChange>,
        state: Arc<dyn State>,
    ) -> Pending<'static, Result<Staged, IndexError>> {
        Box::pin(std::future::ready(self.keyed.staged(&changes, &*state)))
    }
}

impl<C: Channel<Protocol> + Channel<Entries> + 'static> EqualitySearch for ArxEqIndex<C> {
    fn search<'s>(
        self: Arc<Self>,
        values: &'s BTreeSet<Vec<u8>>,
        state: &'s dyn State,
    ) -> Pending<'s, Result<EqualityAnswer, IndexError>> {
        Box::pin(async move {
            let asked = self.keyed.asked(values, state)?;
            self.exact(&asked).await
        })
    }

    fn on_record(&self, values: &[Vec<u8>], state: &dyn State) -> Result<Vec<OnRecord>, IndexError> {
        let found = self.keyed.recorded_of(values, state)?;
        let entries = |record: &Option<Occurrences>| record.as_ref().map_or(0, Occurrences::live);
        Ok(found
            .iter()
            .map(|(name, record)| OnRecord { name: name.clone(), entries: entries(record) })
            .collect())
    }

    fn inspect(
        self: Arc<Self>,
        expected: BTreeMap<Vec<u8>, Vec<RowId>>,
        state: &dyn State,
    ) -> Pending<'_, Result<Difference, IndexError>> {
        Box::pin(async move { self.difference(expected, state).await })
    }

    fn renumbering(
        self: Arc<Self>,
        value: Vec<u8>,
        occasion: Occasion,
        state: Arc<dyn State>,
    ) -> Result<Box<dyn Renumbering>, IndexError> {
        let record = recorded(&*state, &self.keyed.record_name(&value))?;
        let pieces = renumbering::pieces(record.as_ref(), &occasion)?;
        Ok(Box::new(Numbered::new(self, value, record, pieces, state)))
    }
}
