//! Which blocks go where when paths are written back: each as deep as there is room.

use super::bucket::BLOCKS_PER_BUCKET;
use super::pool::{Pool, Slot};
use arras_protocol::path_oram::Shape;

/// A slot of a bucket that stays empty, or the end of a list.
pub(super) const NO_SLOT: Slot = Slot::MAX;

/// Chooses blocks of the pool for the buckets at `places`, which are those of the paths to `leaves`. Bucket by bucket.
pub(super) fn plan(
    pool: &Pool,
    positions: &[u32],
    shape: &Shape,
    leaves: &[u32],
    places: &[u32],
) -> Vec<[Slot; BLOCKS_PER_BUCKET]> {
    // Lists of candidates, one a bucket, linked through `next`.
    let mut first = vec![NO_SLOT; places.len()];
    let mut next = vec![NO_SLOT; pool.slots_len()];
    for (slot, id) in pool.held() {
        if let Some(bucket) = deepest(positions[id as usize], shape, leaves, places) {
            next[slot as usize] = std::mem::replace(&mut first[bucket], slot);
        }
    }
    let mut chosen = vec![[NO_SLOT; BLOCKS_PER_BUCKET]; places.len()];
    for bucket in (0..places.len()).rev() {
        let mut candidate = first[bucket];
        for place in &mut chosen[bucket] {
            if candidate == NO_SLOT {
                break;
            }
            *place = candidate;
            candidate = next[candidate as usize];
        }
        if candidate == NO_SLOT {
            continue;
        }
        if let Ok(parent) = places.binary_search(&(places[bucket] >> 1)) {
            let mut last = candidate;
            while next[last as usize] != NO_SLOT {
                last = next[last as usize];
            }
            next[last as usize] = std::mem::replace(&mut first[parent], candidate);
        }
    }
    chosen
}

/// The deepest bucket of these paths that is on the path to `position`; none if they part above the server's part.
fn deepest(position: u32, shape: &Shape, leaves: &[u32], places: &[u32]) -> Option<usize> {
    let parted = leaves.iter().map(|leaf| u32::BITS - (leaf ^ position).leading_zeros()).min()?;
    let level = u32::from(shape.levels) - parted.min(u32::from(shape.levels));
    let above = level.checked_sub(u32::from(shape.cached_levels))?;
    if leaves.len() == 1 {
        return Some(above as usize);
    }
    places.binary_search(&((shape.leaves() | position) >> parted)).ok()
}
