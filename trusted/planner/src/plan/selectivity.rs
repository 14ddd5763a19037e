//! How many documents an access reads before it has what is asked for.

use super::candidates::{Candidate, Reach};
use super::{Planner, Request};
use crate::access::Access;
use crate::conditions::Conditions;
use crate::schema::ScanPolicy;
use std::collections::BTreeSet;

/// Part of the documents that what no index knows of is taken to let pass.
const UNKNOWN_SHARE: f64 = 0.1;

/// How many times what is expected a walk is taken to read: its first matches may come late.
const WALK_DOUBT: f64 = 3.0;

/// Sets what each candidate is likely to read. A query of limited length reads on until enough documents pass what is
/// left to check, if it reads in the order asked for or none is.
pub(super) fn estimate_reads(
    planner: &Planner<'_>,
    conditions: &Conditions,
    request: Request<'_>,
    candidates: &mut [Candidate],
) {
    let all = (planner.statistics.document_count as f64).max(1.0);
    take_exact_counts(candidates);
    let matches = all * matching_share(conditions, candidates, all);
    let counted = counted_matches(planner, conditions, candidates);
    for candidate in candidates {
        if let (Reach::Scan, Some(counted), Some(limit)) = (candidate.reach, counted, request.limit)
            && request.sort.is_empty()
        {
            // Documents are kept in a pseudorandom order: those met first are a fair sample.
            candidate.ends_early = true;
            candidate.will_read(planner, all.min(limit as f64 * all / counted.max(1.0)));
            continue;
        }
        let reads_on = candidate.order.is_some() || request.sort.is_empty();
        let reads = match request.limit {
            Some(limit) if reads_on => {
                let passing = (matches / candidate.found.max(1.0)).min(1.0);
                let doubt = if candidate.reach == Reach::Walk { WALK_DOUBT } else { 1.0 };
                candidate.found.min(doubt * limit as f64 / passing)
            }
            _ => candidate.found,
        };
        candidate.will_read(planner, reads);
    }
}

/// How many documents match, if the records of values say it of the whole filter, and a scan is allowed.
fn counted_matches(planner: &Planner<'_>, conditions: &Conditions, candidates: &[Candidate]) -> Option<f64> {
    if planner.scan == ScanPolicy::Refuse || !conditions.opaque.is_empty() || !conditions.any.is_empty() {
        return None;
    }
    let whole = |candidate: &&Candidate| {
        matches!(candidate.access, Access::Eq { .. })
            && conditions.all.iter().all(|condition| candidate.exact.contains(&condition.id))
    };
    let whole = candidates.iter().find(whole)?;
    let Access::Eq { index, values } = &whole.access else { return None };
    planner.entries.of_terms(*index, values).map(|known| known as f64)
}

/// A range that answers the same conditions as a look-up of values finds the same documents, and how many those are is
/// known exactly of values, but of a range only about.
fn take_exact_counts(candidates: &mut [Candidate]) {
    let exact: Vec<(BTreeSet<usize>, f64)> = candidates
        .iter()
        .filter(|candidate| matches!(candidate.access, Access::Eq { .. }))
        .map(|candidate| (candidate.covers.clone(), candidate.found))
        .collect();
    for candidate in candidates {
        if let Some((_, found)) = exact.iter().find(|(covers, _)| *covers == candidate.covers) {
            candidate.found = *found;
        }
    }
}

/// Part of the documents that match, as if what different indexes answer had nothing to do with each other.
fn matching_share(conditions: &Conditions, candidates: &[Candidate], all: f64) -> f64 {
    let narrowing = candidates.iter().filter(|candidate| candidate.reach > Reach::Scan);
    let mut shares: Vec<(&BTreeSet<usize>, f64)> =
        narrowing.map(|candidate| (&candidate.covers, (candidate.found / all).min(1.0))).collect();
    shares.sort_by(|(_, left), (_, right)| left.total_cmp(right));
    let (mut known, mut share) = (BTreeSet::new(), 1.0);
    for (covers, own) in shares {
        if !covers.is_empty() && covers.is_disjoint(&known) {
            share *= own;
            known.extend(covers.iter().copied());
        }
    }
    let unknown = !conditions.opaque.is_empty()
        || conditions.all.iter().any(|condition| !known.contains(&condition.id))
        || conditions.any.iter().any(|any| !known.contains(&any.id));
    if unknown { share * UNKNOWN_SHARE } else { share }
}
