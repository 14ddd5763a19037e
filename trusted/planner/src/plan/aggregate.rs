//! Aggregates answered by a range index alone (Arx §6, §7.2).

use super::candidates::bounds_are_exact;
use super::{IndexState, Planner};
use crate::access::{Access, RangeAccess};
use crate::conditions::{Conditions, at_path};
use crate::cost::{self, Cost};
use crate::interval::Interval;
use crate::physical::PhysicalIndex;
use arras_protocol::leakage::Pattern;
use arras_service::store::{Aggregate, AggregateFunction};
use std::collections::BTreeSet;

/// How aggregates will be answered.
#[derive(Clone, Debug, PartialEq)]
pub struct AggregatePlan {
    /// The range; always exact.
    pub range: RangeAccess,
    /// What each aggregate is made from, in the order asked for.
    pub outputs: Vec<AggregateOutput>,
    /// What the search adds to what an attacker who watches knows.
    pub leaks: Vec<Pattern>,
    /// An estimate.
    pub cost: Cost,
}

/// What an aggregate is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregateOutput {
    /// The mean of the index's sum of this offset.
    Average(usize),
    /// The number of entries.
    Count,
    /// The index's sum of this offset.
    Sum(usize),
}

pub(super) fn plan(
    planner: &Planner<'_>,
    conditions: &Conditions,
    aggregates: &[Aggregate],
) -> Option<AggregatePlan> {
    if conditions.never
        || !conditions.opaque.is_empty()
        || !conditions.any.is_empty()
        || aggregates.is_empty()
    {
        return None;
    }
    let mut plans: Vec<(usize, AggregatePlan)> = planner
        .indexes
        .iter()
        .filter_map(|state| {
            let outputs = outputs(&state.index, aggregates)?;
            let range = exact_range(state, conditions)?;
            Some((state.index.key_bytes()?, finish(planner, state, range, outputs)))
        })
        .collect();
    // The narrowest key has the smallest circuits.
    plans.sort_by_key(|(key_bytes, _)| *key_bytes);
    plans.into_iter().next().map(|(_, plan)| plan)
}

fn outputs(index: &PhysicalIndex, aggregates: &[Aggregate]) -> Option<Vec<AggregateOutput>> {
    let PhysicalIndex::Range { aggregates: Some(sums), .. } = index else {
        return None;
    };
    let offset = |field: &String| sums.iter().position(|summed| summed == field);
    let output = |aggregate: &Aggregate| match &aggregate.function {
        AggregateFunction::Count => Some(AggregateOutput::Count),
        AggregateFunction::Sum(field) => offset(field).map(AggregateOutput::Sum),
        AggregateFunction::Average(field) => offset(field).map(AggregateOutput::Average),
    };
    aggregates.iter().map(output).collect()
}

/// The conditions as one range of the index, if they are exactly that.
fn exact_range(state: &IndexState, conditions: &Conditions) -> Option<RangeAccess> {
    if state.multikey || state.inexact {
        return None;
    }
    let mut open: BTreeSet<usize> = conditions.all.iter().map(|condition| condition.id).collect();
    let mut range =
        RangeAccess { index: state.id, equal: Vec::new(), interval: Interval::ALL, exact: true, order: None };
    let mut present = false;
    let fields = state.index.fields();
    for (position, field) in fields.iter().enumerate() {
        let Some((values, ids)) = at_path(conditions.all.iter(), field, false) else {
            break;
        };
        if !values.exact || !bounds_are_exact(&values, &state.index) {
            return None;
        }
        present |= !values.has_null();
        ids.iter().for_each(|id| {
            open.remove(id);
        });
        match (values.points.as_slice(), values.intervals.as_slice()) {
            ([point], []) if position + 1 < fields.len() => range.equal.push(point.clone()),
            ([point], []) => range.interval = Interval::point(point.clone()),
            ([], [interval]) => {
                range.interval = interval.clone();
                break;
            }
            _ => return None,
        }
    }
    (open.is_empty() && (present || !state.sparse)).then_some(range)
}

fn finish(
    planner: &Planner<'_>,
    state: &IndexState,
    range: RangeAccess,
    outputs: Vec<AggregateOutput>,
) -> AggregatePlan {
    let whole = range.equal.is_empty() && range.interval.is_all();
    let found = |pattern: &Pattern| !(whole && *pattern == Pattern::BucketRank);
    let access = Access::Range(Box::new(range.clone()));
    let search = cost::search(&access, Some(state), 0.0, planner.statistics);
    AggregatePlan {
        range,
        outputs,
        leaks: state.leakage().search.iter().copied().filter(found).collect(),
        // No documents are fetched: the sealed partials come with the search.
        cost: Cost { rounds: 1, ..search },
    }
}
