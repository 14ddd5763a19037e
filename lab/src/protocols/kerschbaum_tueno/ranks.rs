//! The entries of a rotated array, by position.

use crate::attacks::{AttackFailure, Owners, Ranks, Symmetry, WatchedRun};
use arras_protocol::kerschbaum_tueno::{ENTRY_BYTES, KerschbaumTueno, Request};
use arras_storage::Table;

const PAGES: Table = Table("kerschbaum_tueno_pages");

/// A position each; the smallest value may be at any of them.
pub(super) fn ranks(run: &WatchedRun) -> Result<Ranks, AttackFailure> {
    let owners = Owners::new(run, |exchange| match exchange.of::<KerschbaumTueno>()?.0 {
        Request::Insert { entry, .. } => Some(entry.to_vec()),
        _ => None,
    })?;
    let mut positions = Vec::new();
    for (_, page) in run.table(PAGES)? {
        for entry in page.chunks_exact(ENTRY_BYTES) {
            positions.push(owners.of(entry)?);
        }
    }
    let count = positions.len() as f64;
    let mut intervals = vec![(0.0, 1.0); owners.len()];
    for (position, record) in positions.iter().enumerate() {
        intervals[*record] = (position as f64 / count, (position + 1) as f64 / count);
    }
    Ok(Ranks { intervals, symmetry: Symmetry::Rotation { positions }, groups: None })
}
