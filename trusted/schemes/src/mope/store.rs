//! Where a column's tree is kept: at a server of ours, or in the tables of an ordinary database.

use crate::contract::Pending;
use crate::error::IndexError;
use arras_protocol::mope::{Fetch, Fetched, TreeChange};

/// Carries the client half's rounds to whoever keeps the tree. Not trusted with anything but keeping it.
pub trait TreeStore: Send + Sync {
    /// One round: nodes and labels, all of one version.
    ///
    /// # Errors
    /// [`IndexError`].
    fn fetch(&self, fetch: Fetch) -> Pending<'_, Result<Fetched, IndexError>>;

    /// Applies a change if the tree is at the version it was worked out from. False: it is at another one, and nothing was
    /// done.
    ///
    /// # Errors
    /// [`IndexError`]; it is then unknown whether it was applied, unless the error says so.
    fn commit(&self, change: TreeChange) -> Pending<'_, Result<bool, IndexError>>;
}
