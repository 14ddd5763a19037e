//! What a start would find of the two sides' histories, for `arras doctor`: nothing is recorded.

use super::local::LocalStore;
use super::restore::{self, Restored};
use super::{DATABASE, EPOCH, NEWEST, OpenError, STATE, accepted, seen};
use crate::history::History;
use crate::witness::Witness;
use arras_protocol::hello;
use arras_storage::Storage;

/// Compares what the proxy's own store knows with what the server said at its greeting and what this machine has
/// witnessed. What was declared to be restored, which the next start deals with.
///
/// # Errors
/// [`OpenError`], as a start would end with it.
pub fn compare<S: Storage>(
    local: &LocalStore<S>,
    server: &hello::Response,
    witness: Option<&Witness>,
) -> Result<Option<Restored>, OpenError> {
    let (database, newest) = (local.get(STATE, DATABASE)?, local.get(STATE, NEWEST)?);
    let restored = restore::declared(local)?;
    let acknowledged = accepted::acknowledged(local, restored, server)?;
    History::observer().take_up(database, newest, acknowledged, server)?;
    if let (None, Some(witness)) = (restored, witness) {
        let last = local.get::<u64>(STATE, EPOCH)?.unwrap_or(0);
        witness.check(seen(server, last))?;
    }
    Ok(restored)
}
