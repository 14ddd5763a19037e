//! What a start would find of the two sides' histories, for `arras doctor`: nothing is recorded.

use super::local::LocalStore;
use super::{DATABASE, EPOCH, NEWEST, OpenError, STATE, restore, seen};
use crate::history::History;
use crate::witness::Witness;
use arras_protocol::hello;
use arras_storage::Storage;

/// Compares what the proxy's own store knows with what the server said at its greeting and what this machine has
/// witnessed. True if a restore was declared, which the next start deals with.
///
/// # Errors
/// [`OpenError`], as a start would end with it.
pub fn compare<S: Storage>(
    local: &LocalStore<S>,
    server: &hello::Response,
    witness: Option<&Witness>,
) -> Result<bool, OpenError> {
    let (database, newest) = (local.get(STATE, DATABASE)?, local.get(STATE, NEWEST)?);
    History::observer().take_up(database, newest, local.acknowledged_before()?, server)?;
    let restored = restore::declared(local)?;
    if let (false, Some(witness)) = (restored, witness) {
        let last = local.get::<u64>(STATE, EPOCH)?.unwrap_or(0);
        witness.check(seen(server, last))?;
    }
    Ok(restored)
}
