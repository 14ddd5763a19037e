//! Rows in the order of a sort, of one range of an index or of several side by side.

use super::Shared;
use super::channel::ServerChannel;
use super::collection::Collection;
use super::ledger::Watch;
use super::read::RangeRows;
use arras_planner::access::{Access, RangeAccess};
use arras_planner::physical::PhysicalIndex;
use arras_protocol::RowId;
use arras_service::ServiceError;
use arras_storage::Storage;
use rand::seq::SliceRandom;
use std::collections::VecDeque;
use std::sync::Arc;

/// The ranges of an access that comes in the order of the sort.
pub(super) fn ordered(access: &Access) -> Option<Vec<&RangeAccess>> {
    let ranges: Vec<&RangeAccess> = match access {
        Access::Range(range) => vec![range],
        Access::Union(branches) => branches.iter().map(one).collect::<Option<_>>()?,
        Access::Eq { .. } | Access::Rows { .. } | Access::Scan | Access::Text | Access::Unique { .. } => {
            return None;
        }
    };
    (!ranges.is_empty() && ranges.iter().all(|range| range.order.is_some())).then_some(ranges)
}

fn one(access: &Access) -> Option<&RangeAccess> {
    match access {
        Access::Range(range) => Some(range),
        Access::Eq { .. }
        | Access::Rows { .. }
        | Access::Scan
        | Access::Text
        | Access::Union(_)
        | Access::Unique { .. } => None,
    }
}

/// One of the ranges: what it has next, by the part of the key that orders.
struct Source {
    rows: RangeRows,
    next: VecDeque<(Vec<u8>, RowId)>,
    ended: bool,
}

/// The rows. A document may come several times.
pub(super) struct OrderedRows {
    sources: Vec<Source>,
    range: RangeAccess,
    index: PhysicalIndex,
    descending: bool,
}

impl OrderedRows {
    /// Searches the ranges, of one index, for somebody for whom `wanted` rows may do.
    pub(super) async fn begin<S: Storage, C: ServerChannel>(
        shared: &Arc<Shared<S, C>>,
        collection: &Collection,
        ranges: &[&RangeAccess],
        index: &PhysicalIndex,
        wanted: Option<usize>,
    ) -> Result<Option<Self>, ServiceError> {
        let Some(range) = ranges.first().map(|range| (*range).clone()) else {
            return Ok(None);
        };
        // Not in the order of the query, which may be that of its values.
        let mut ranges = ranges.to_vec();
        ranges.shuffle(&mut shared.settings.random.rng());
        let mut sources = Vec::with_capacity(ranges.len());
        for range in ranges {
            let rows = RangeRows::begin(shared, collection, range, wanted).await?;
            sources.push(Source { rows, next: VecDeque::new(), ended: false });
        }
        let descending = range.order.is_some_and(|order| order.descending);
        Ok(Some(Self { sources, range, index: index.clone(), descending }))
    }

    /// Of writes since before the first search.
    pub(super) fn watch(&self) -> Option<&Watch> {
        self.sources.first().map(|source| &source.rows.watch)
    }

    /// The next rows, in order, each after the part of its key that orders; none at the end.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<(Vec<u8>, RowId)>>, ServiceError> {
        if let [only] = self.sources.as_mut_slice() {
            let entries = only.rows.next_entries().await?;
            let ordering = |place: Vec<u8>| self.range.merge_key(&place, &self.index).to_vec();
            return Ok(
                entries.map(|entries| entries.into_iter().map(|(key, row)| (ordering(key), row)).collect())
            );
        }
        for source in &mut self.sources {
            while source.next.is_empty() && !source.ended {
                match source.rows.next_entries().await? {
                    Some(entries) => source.next.extend(
                        entries
                            .into_iter()
                            .map(|(key, row)| (self.range.merge_key(&key, &self.index).to_vec(), row)),
                    ),
                    None => source.ended = true,
                }
            }
        }
        let mut rows = Vec::new();
        // Until one of them has to be read on.
        while let Some(first) = self.first() {
            let Some(source) = self.sources.get_mut(first) else { break };
            rows.extend(source.next.pop_front());
            if source.next.is_empty() && !source.ended {
                break;
            }
        }
        Ok((!rows.is_empty()).then_some(rows))
    }

    /// The source whose next entry is the first.
    fn first(&self) -> Option<usize> {
        let heads = self.sources.iter().enumerate();
        let heads = heads.filter_map(|(at, source)| source.next.front().map(|(key, _)| (key, at)));
        if self.descending { heads.max().map(|(_, at)| at) } else { heads.min().map(|(_, at)| at) }
    }
}

#[cfg(test)]
mod tests;
