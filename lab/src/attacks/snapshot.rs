//! What one copy of the server's store shows of order and equality, read from its pages without a key.

mod bplus;

pub(crate) use bplus::Column;

use super::tape::Exchange;
use super::watched::WatchedRun;
use super::{AttackFailure, Symmetry};
use crate::protocols::ProtocolEntry;

/// What is visible of the records' order.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Ranks {
    /// Between which shares (0 to 1) of the records, in order of value, each record lies; by record.
    pub(crate) intervals: Vec<(f64, f64)>,
    /// What of the order is open.
    pub(crate) symmetry: Symmetry,
    /// The records of equal values, ascending, where the store shows which are equal.
    pub(crate) groups: Option<Vec<Vec<usize>>>,
}

impl Ranks {
    /// The records of equal values, ascending; where the store shows nothing of equality, a record each.
    pub(super) fn equal(self) -> Vec<Vec<usize>> {
        let Self { intervals, groups, .. } = self;
        groups.unwrap_or_else(|| {
            let mut order: Vec<usize> = (0..intervals.len()).collect();
            order.sort_by(|one, other| intervals[*one].0.total_cmp(&intervals[*other].0));
            order.into_iter().map(|record| vec![record]).collect()
        })
    }
}

/// What the store of a protocol shows of the order.
///
/// # Errors
/// [`AttackFailure`]; [`AttackFailure::Unreadable`] for a protocol whose store shows none.
pub(super) fn ranks(protocol: &ProtocolEntry, run: &WatchedRun) -> Result<Ranks, AttackFailure> {
    protocol
        .ranks
        .map_or(Err(AttackFailure::Unreadable("the order in this protocol's store")), |ranks| ranks(run))
}

/// The records that stored bytes belong to, by the requests that brought them: for scoring.
pub(crate) struct Owners(std::collections::HashMap<Vec<u8>, usize>);

impl Owners {
    /// Takes for each record the bytes that `brought` finds in the requests of its insertion.
    pub(crate) fn new(
        run: &WatchedRun,
        brought: impl Fn(&Exchange) -> Option<Vec<u8>>,
    ) -> Result<Self, AttackFailure> {
        let mut owners = std::collections::HashMap::new();
        for (record, exchanges) in run.insertions.iter().enumerate() {
            let bytes = exchanges.iter().find_map(&brought);
            owners.insert(bytes.ok_or(AttackFailure::Unreadable("an insertion"))?, record);
        }
        Ok(Self(owners))
    }

    pub(crate) fn of(&self, bytes: &[u8]) -> Result<usize, AttackFailure> {
        self.0.get(bytes).copied().ok_or(AttackFailure::Unreadable("whose entry this is"))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
