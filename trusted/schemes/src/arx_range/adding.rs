//! Entries beside their buckets: many are inserted without reading and rewriting a bucket for each.

use super::ArxRange;
use super::directory::Directory;
use super::entry::Entry;
use super::secrets::Place;
use super::stage::{Batch, BucketInHand};
use crate::error::IndexError;
use arras_protocol::{NodeId, RowId};
use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, HashMap};

/// Most entries that one change adds beside a bucket; with more, it is rewritten.
const ADDED_AT_ONCE_MAX: usize = 4;

/// Buckets of which it is known what was added to them: about 10 MB an index. Of further ones it is not, and they are
/// rewritten.
const KNOWN_MAX: usize = 1 << 18;

/// How many entries are beside the buckets that this process has rewritten: room for so many. A bucket of which that is
/// not known is rewritten at its next change.
#[derive(Default)]
pub(super) struct Added(HashMap<NodeId, u8>);

impl Added {
    /// To be told which buckets a change rewrites or removes.
    pub(super) fn note_rewritten(&mut self, buckets: &BTreeMap<NodeId, BucketInHand>, removed: &[NodeId]) {
        for node in removed {
            self.0.remove(node);
        }
        for (node, _) in buckets.iter().filter(|(_, bucket)| bucket.changed) {
            let is_full = self.0.len() >= KNOWN_MAX;
            match self.0.entry(*node) {
                Slot::Occupied(mut known) => *known.get_mut() = 0,
                Slot::Vacant(unknown) if !is_full => drop(unknown.insert(0)),
                Slot::Vacant(_) => {}
            }
        }
    }

    /// Counts further entries beside a bucket, if there may be.
    fn take(&mut self, node: NodeId, entries: usize, entries_max: u64) -> bool {
        let Some(count) = self.0.get_mut(&node) else { return false };
        let room = u64::from(*count).saturating_add(entries.next_power_of_two() as u64);
        let fits = entries <= ADDED_AT_ONCE_MAX && room <= entries_max;
        if fits {
            *count = u8::try_from(room).unwrap_or(u8::MAX);
        }
        fits
    }
}

/// Inserted entries of a change that fall in one bucket.
#[derive(Default)]
struct Falling {
    names: Vec<(Place, RowId)>,
    /// True if the bucket is to be rewritten whatever was added to it.
    splits: bool,
}

impl<C> ArxRange<C> {
    /// Takes those entries out of a change that can go beside their buckets, by bucket. Of a change that removes
    /// entries, none: an entry that is to go may be beside its bucket.
    pub(super) fn take_addable(
        &self,
        directory: &mut Directory,
        batch: &mut Batch,
    ) -> Result<Vec<(NodeId, Vec<Entry>)>, IndexError> {
        // Half a bucket: what a reader of it has to open grows by no more. Aggregates count whole buckets.
        let entries_max = (self.parameters().bucket_factor / 2).min(u64::from(u8::MAX));
        if self.parameters().aggregated()
            || entries_max < ADDED_AT_ONCE_MAX as u64
            || !batch.remove.is_empty()
        {
            return Ok(Vec::new());
        }
        let mut buckets: BTreeMap<NodeId, Falling> = BTreeMap::new();
        for ((place, row), (_, replaces)) in &batch.insert {
            let Some(bucket) = known_bucket(directory, place)? else { continue };
            let falling = buckets.entry(bucket).or_default();
            falling.splits |= *replaces || self.secrets.is_separator(place);
            falling.names.push((place.clone(), *row));
        }
        let mut added = Vec::new();
        for (node, Falling { names, splits }) in buckets {
            if !splits && directory.added.take(node, names.len(), entries_max) {
                let entries =
                    names.iter().filter_map(|name| batch.insert.remove(name)).map(|(entry, _)| entry);
                added.push((node, entries.collect()));
            }
        }
        Ok(added)
    }
}

/// The bucket a place falls in, if that is known without asking.
fn known_bucket(directory: &Directory, place: &[u8]) -> Result<Option<NodeId>, IndexError> {
    let gap = directory.gap_of(place);
    let in_tree = match (&directory.gap(gap).held, directory.gap(gap).root) {
        (Some(tree), _) => tree.floor(place)?.map(|node| node.node),
        (None, None) => None,
        (None, Some(_)) => return Ok(None),
    };
    Ok(Some(in_tree.unwrap_or_else(|| directory.before(gap))))
}
