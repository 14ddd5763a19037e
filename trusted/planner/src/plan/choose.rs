//! Chooses among the candidates.

use super::candidates::{Candidate, Reach, candidates};
use super::{Plan, PlanError, Planner, Request};
use crate::adversary::compare;
use crate::advice;
use crate::conditions::Conditions;
use crate::schema::ScanPolicy;

/// The candidate to take: comparable with the one that reads fewest documents, leaks least, reads least, costs least ([`super`]).
pub(super) fn best(planner: &Planner<'_>, candidates: Vec<Candidate>) -> Option<Candidate> {
    let reach = candidates.iter().map(|candidate| candidate.reach).max()?;
    let enough = match reach {
        Reach::Scan | Reach::Walk => reach,
        // A walk that checks most of what it meets is refused where scans are.
        Reach::Narrowed | Reach::Single if planner.scan == ScanPolicy::Refuse => Reach::Narrowed,
        Reach::Narrowed | Reach::Single => Reach::Walk,
    };
    let serving = || candidates.iter().filter(|candidate| candidate.reach >= enough || candidate.ends_early);
    let fewest = serving().map(|candidate| candidate.reads).min()?;
    let most = fewest.max(1).saturating_mul(u64::from(planner.leakage_ratio.max(1)));
    serving()
        .filter(|candidate| candidate.reads <= most)
        .map(|candidate| (planner.adversary.learns_from_search(&candidate.leaks), candidate))
        .min_by(|(one, left), (other, right)| {
            let first = (one.last(), left.reads).cmp(&(other.last(), right.reads));
            let weight = |candidate: &Candidate| candidate.cost(planner).weight();
            first.then_with(|| compare(one, other)).then_with(|| weight(left).cmp(&weight(right)))
        })
        .map(|(_, candidate)| candidate.clone())
}

/// Does an index serve the query, so that not everything is read for it?
pub(crate) fn is_served(planner: &Planner<'_>, conditions: &Conditions, request: Request<'_>) -> bool {
    conditions.never
        || candidates(planner, conditions, request)
            .iter()
            .any(|candidate| matches!(candidate.reach, Reach::Narrowed | Reach::Single))
}

pub(super) fn choose(
    planner: &Planner<'_>,
    conditions: &Conditions,
    request: Request<'_>,
) -> Result<Plan, PlanError> {
    if conditions.never {
        return Ok(finish(planner, conditions, request, Candidate::nothing()));
    }
    if conditions.text {
        // Whatever else there is: that a document has the words, only the index over them tells.
        return Ok(finish(planner, conditions, request, Candidate::text(planner)));
    }
    // A scan is always among them.
    let chosen = best(planner, candidates(planner, conditions, request)).unwrap_or_else(Candidate::nothing);
    let unserved = match chosen.reach {
        Reach::Scan if chosen.ends_early => false,
        Reach::Scan => !conditions.is_empty() || (!request.sort.is_empty() && request.limit.is_some()),
        Reach::Walk => true,
        Reach::Narrowed | Reach::Single => false,
    };
    if unserved && planner.scan == ScanPolicy::Refuse {
        return Err(advice::refusal(planner, conditions, request));
    }
    Ok(finish(planner, conditions, request, chosen))
}

fn finish(planner: &Planner<'_>, conditions: &Conditions, request: Request<'_>, chosen: Candidate) -> Plan {
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
    let reads_all = matches!(chosen.reach, Reach::Scan | Reach::Walk) && !chosen.ends_early;
    Plan {
        covers_filter: rechecked.is_empty(),
        advice: if reads_all { advice::advice(planner, conditions, request) } else { None },
        rechecked,
        cost: chosen.cost(planner),
        search: chosen.search,
        access: chosen.access,
        order: chosen.order,
        ends_early: chosen.ends_early,
        leaks: chosen.leaks,
    }
}
