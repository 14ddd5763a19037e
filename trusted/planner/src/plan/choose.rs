//! Chooses among the candidates.

use super::candidates::{Candidate, Reach, candidates, scan};
use super::{Plan, PlanError, Planner, Request};
use crate::access::Access;
use crate::advice;
use crate::conditions::Conditions;
use crate::schema::ScanPolicy;
use arras_protocol::leakage::Pattern;
use std::collections::BTreeSet;

/// The candidate to take: not dominated, leaks least, costs least.
pub(super) fn best(candidates: Vec<Candidate>) -> Option<Candidate> {
    let undominated: Vec<&Candidate> = candidates
        .iter()
        .filter(|candidate| !candidates.iter().any(|other| dominates(other, candidate)))
        .collect();
    undominated
        .into_iter()
        .min_by_key(|candidate| (telling(&candidate.leaks), candidate.cost.weight()))
        .cloned()
}

fn telling(leaks: &[Pattern]) -> Option<Pattern> {
    leaks.iter().copied().max()
}

/// Does `own` do all that `other` does, and more?
fn dominates(own: &Candidate, other: &Candidate) -> bool {
    if own.reach != other.reach {
        return own.reach > other.reach;
    }
    let at_least = own.covers.is_superset(&other.covers) && own.stops >= other.stops;
    let more = own.covers.len() > other.covers.len() || (own.stops && !other.stops);
    at_least && more && own.reach != Reach::Single
}

pub(super) fn choose(
    planner: &Planner<'_>,
    conditions: &Conditions,
    request: Request<'_>,
) -> Result<Plan, PlanError> {
    if conditions.never {
        return Ok(finish(conditions, request, nothing()));
    }
    let mut all = candidates(planner, conditions, request);
    all.push(scan(planner));
    let Some(chosen) = best(all) else {
        return Ok(finish(conditions, request, scan(planner)));
    };
    let unserved = match chosen.reach {
        Reach::Scan => !conditions.is_empty() || (!request.sort.is_empty() && request.limit.is_some()),
        Reach::Walk => true,
        Reach::Narrowed | Reach::Single => false,
    };
    if unserved && planner.scan == ScanPolicy::Refuse {
        return Err(advice::refusal(conditions, request.sort));
    }
    Ok(finish(conditions, request, chosen))
}

/// The access of a filter nothing passes.
fn nothing() -> Candidate {
    Candidate {
        access: Access::Rows { ids: Vec::new() },
        reach: Reach::Single,
        covers: BTreeSet::new(),
        exact: BTreeSet::new(),
        order: None,
        stops: true,
        leaks: Vec::new(),
        cost: crate::cost::Cost::default(),
    }
}

fn finish(conditions: &Conditions, request: Request<'_>, chosen: Candidate) -> Plan {
    let mut rechecked: Vec<(String, &'static str)> =
        conditions.opaque.iter().map(|opaque| (opaque.path.clone(), opaque.operator)).collect();
    let open = conditions.all.iter().filter(|condition| !chosen.exact.contains(&condition.id));
    rechecked.extend(open.map(|condition| (condition.path.clone(), condition.operator)));
    let alternatives = conditions.any.iter().filter(|inner| !chosen.exact.contains(&inner.id));
    rechecked.extend(alternatives.map(|_| (String::new(), "$or")));
    if conditions.never {
        rechecked.clear();
    }
    rechecked.sort();
    rechecked.dedup();
    let reads_all = matches!(chosen.reach, Reach::Scan | Reach::Walk);
    Plan {
        covers_filter: rechecked.is_empty(),
        advice: if reads_all { advice::advice(conditions, request.sort, request.limit) } else { None },
        rechecked,
        access: chosen.access,
        order: chosen.order,
        leaks: chosen.leaks,
        cost: chosen.cost,
    }
}
