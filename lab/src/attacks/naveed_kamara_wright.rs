//! Naveed, Kamara, Wright, "Inference attacks on property-preserving encrypted databases", CCS 2015: frequency analysis
//! (§4.1), the sorting attack (§5.1) and the cumulative attack (§5.2), on one copy of the store.
//!
//! The sorting attack takes the ciphertexts for all values of the domain; where there are fewer, they are taken to be
//! evenly spread (a sparse domain is the cumulative attack's). The cumulative attack assigns values to ciphertexts by a
//! linear program in the paper; here by the Hungarian method, which finds the same optimum.

use super::matching::{Candidate, candidates, shares, spread};
use super::snapshot::ranks;
use super::watched::WatchedRun;
use super::{AttackFailure, AttackWatch, Knowledge, Recovery, Target};
use crate::protocols::ProtocolEntry;
use crate::queries::{self, QuerySize, RangeQuery};
use pathfinding::kuhn_munkres::kuhn_munkres_min;
use pathfinding::matrix::Matrix;

/// Most different values the Hungarian method is given: its time grows with the cube.
const ASSIGNED_MAX: usize = 3_000;

/// Share of the records that each query before a look at a store finds.
const QUERY_SHARE: f64 = 0.005;

/// The queries that come before a look at the store: they sort it, where the protocol waits for them.
pub(super) fn sorting_queries(target: &Target, protocol: &ProtocolEntry) -> Vec<RangeQuery> {
    if protocol.sorted_by_queries {
        queries::generate(&target.values, QUERY_SHARE, QuerySize::Records, target.queries, target.seed)
    } else {
        Vec::new()
    }
}

fn different(values: &[i64]) -> usize {
    let mut values = values.to_vec();
    values.sort_unstable();
    values.dedup();
    values.len()
}

/// Why the cumulative attack cannot be attempted.
pub(super) fn cumulative_obstacle(target: &Target) -> Option<String> {
    let most = different(&target.values).max(target.knowledge.histogram().len());
    (most > ASSIGNED_MAX)
        .then(|| format!("{most} different values; the assignment takes {ASSIGNED_MAX} at most"))
}

/// §4.1: the most frequent ciphertext is the most frequent value, and so on.
pub(super) fn frequency(
    target: &Target,
    protocol: &'static ProtocolEntry,
    watch: &AttackWatch<'_>,
) -> Result<Recovery, AttackFailure> {
    let run = WatchedRun::new(target, protocol, &[], watch)?;
    let groups = ranks(protocol, &run)?.equal();
    let guesses = spread(&groups, by_frequency(&groups, &target.knowledge).into_iter(), target.values.len());
    Ok(Recovery { guesses, ..Recovery::default() })
}

fn by_frequency(groups: &[Vec<usize>], knowledge: &Knowledge) -> Vec<i64> {
    let mut histogram = knowledge.histogram();
    histogram.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let mut order: Vec<usize> = (0..groups.len()).collect();
    // Equally frequent ones by when the first came: the order of values is not to slip in.
    order.sort_by_key(|group| (std::cmp::Reverse(groups[*group].len()), groups[*group].iter().min()));
    let mut guesses = vec![knowledge.quantile(0.5); groups.len()];
    for (group, (value, _)) in order.into_iter().zip(histogram) {
        guesses[group] = value;
    }
    guesses
}

/// §5.1: the ciphertexts in order are the domain's values in order.
pub(super) fn sorting(
    target: &Target,
    protocol: &'static ProtocolEntry,
    watch: &AttackWatch<'_>,
) -> Result<Recovery, AttackFailure> {
    let queries = sorting_queries(target, protocol);
    let run = WatchedRun::new(target, protocol, &queries, watch)?;
    let known = &target.knowledge;
    let ranks = ranks(protocol, &run)?;
    if let Some(groups) = ranks.groups {
        let step = known.span() / groups.len().saturating_sub(1).max(1) as f64;
        let guesses = (0..groups.len()).map(|at| known.clamped(known.least as f64 + step * at as f64));
        let guesses = spread(&groups, guesses, target.values.len());
        return Ok(Recovery { guesses, ..Recovery::default() });
    }
    let values = (known.greatest as f64 - known.least as f64) + 1.0;
    let guess = |(from, until): &(f64, f64)| {
        known.clamped((known.least as f64 + f64::midpoint(*from, *until) * values).floor())
    };
    Ok(Recovery {
        guesses: ranks.intervals.iter().map(guess).collect(),
        symmetry: ranks.symmetry,
        queries: queries.len() as u64,
        saw: searched(&queries),
        ..Recovery::default()
    })
}

/// What came before the copy of the store, in words.
pub(super) fn searched(queries: &[RangeQuery]) -> String {
    if queries.is_empty() { String::new() } else { format!("the store after {} queries", queries.len()) }
}

/// §5.2: values are assigned to ciphertexts so that frequencies and cumulative frequencies agree best.
pub(super) fn cumulative(
    target: &Target,
    protocol: &'static ProtocolEntry,
    watch: &AttackWatch<'_>,
) -> Result<Recovery, AttackFailure> {
    let run = WatchedRun::new(target, protocol, &[], watch)?;
    let groups = ranks(protocol, &run)?.equal();
    let guesses = assigned(&groups, &target.knowledge).ok_or(AttackFailure::Unreadable("enough values"))?;
    Ok(Recovery { guesses: spread(&groups, guesses.into_iter(), target.values.len()), ..Recovery::default() })
}

/// Costs are whole numbers for the Hungarian method: a share of 1 squared is this.
const COST_UNIT: f64 = 1e12;

fn assigned(groups: &[Vec<usize>], knowledge: &Knowledge) -> Option<Vec<i64>> {
    let candidates = candidates(knowledge, groups.len());
    let cost = |(share, up_to): &(f64, f64), candidate: &Candidate| {
        let off = (share - candidate.share).powi(2) + (up_to - candidate.up_to).powi(2);
        (off * COST_UNIT) as i64
    };
    let rows = shares(groups);
    let cells = rows.iter().flat_map(|row| candidates.iter().map(move |candidate| cost(row, candidate)));
    let costs = Matrix::from_vec(groups.len(), candidates.len(), cells.collect()).ok()?;
    if groups.len() > candidates.len() {
        return None;
    }
    let (_, chosen) = kuhn_munkres_min(&costs);
    Some(chosen.into_iter().map(|candidate| candidates[candidate].value).collect())
}
