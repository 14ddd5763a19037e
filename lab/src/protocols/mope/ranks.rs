//! The entries of a column, value by value. The layout is that of `arras_server::mope`.

use super::added;
use crate::attacks::{AttackFailure, Owners, Ranks, Symmetry, WatchedRun};
use arras_protocol::mope::index::SealedRow;
use arras_storage::Table;
use std::collections::HashMap;

const LABELS: Table = Table("mope_labels");
const ENTRIES: Table = Table("mope_entries");

/// Entries under one ciphertext are of equal values; ciphertexts are in the order of their labels.
pub(crate) fn ranks(run: &WatchedRun) -> Result<Ranks, AttackFailure> {
    const UNREADABLE: AttackFailure = AttackFailure::Unreadable("an entry");
    let owners = Owners::new(run, added)?;
    let mut entries: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    for (key, _) in run.table(ENTRIES)? {
        let split = key.len().checked_sub(SealedRow::BYTES).ok_or(UNREADABLE)?;
        let (ciphertext, name) = key.split_at(split);
        entries.entry(ciphertext.to_vec()).or_default().push(owners.of(name)?);
    }
    let ordered = run.table(LABELS)?.into_iter().filter_map(|(_, ciphertext)| entries.remove(&ciphertext));
    let groups: Vec<Vec<usize>> = ordered.collect();
    let count = owners.len() as f64;
    let mut intervals = vec![(0.0, 1.0); owners.len()];
    for (below, record) in (0_u32..).zip(groups.iter().flatten()) {
        intervals[*record] = (f64::from(below) / count, f64::from(below + 1) / count);
    }
    Ok(Ranks { intervals, symmetry: Symmetry::None, groups: Some(groups) })
}
