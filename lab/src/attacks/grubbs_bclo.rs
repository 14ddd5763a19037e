//! Grubbs, Sekniqi, Bindschaedler, Naveed, Ristenpart, "Leakage-abuse attacks against order-revealing encryption", IEEE
//! S&P 2017, §6.1: BCLO, on one copy of the store.
//!
//! A ciphertext is about the plaintext times the range's share of the domain: this gives each value to about the square
//! root of the domain's size, and distances of near values to the square root of the distance (Boldyreva, Chenette,
//! O'Neill, CRYPTO 2011). Values are then assigned by a non-crossing matching of least weight on frequencies,
//! cumulative frequencies and distance to this estimate.
//!
//! *Deviation.* The paper cuts the known bits off and matches the rest; here the estimate has a variance and goes into
//! the weights, and it is counted from a quantile of the auxiliary values where distances tell more than positions do.

use super::matching::{CELLS_MAX, Candidate, candidates, non_crossing, shares, spread};
use super::snapshot::Column;
use super::watched::WatchedRun;
use super::{AttackFailure, AttackWatch, Knowledge, Recovery, Target};
use crate::protocols::ProtocolEntry;

/// Deviations of the estimate beyond which no assignment is believed.
const DEVIATIONS_MAX: f64 = 4.0;

/// Parts of the ranks, at the borders of which distances are measured from.
const ANCHORS: usize = 20;

/// Why it cannot be attempted.
pub(super) fn obstacle(target: &Target) -> Option<String> {
    let (most, known) = (target.values.len(), target.knowledge.histogram().len());
    (most.saturating_mul(known.max(most) * 4) > CELLS_MAX)
        .then(|| "too many values for the matching: fewer records or auxiliary values".to_owned())
}

/// Carries it out.
pub(super) fn carry(
    target: &Target,
    protocol: &'static ProtocolEntry,
    watch: &AttackWatch<'_>,
) -> Result<Recovery, AttackFailure> {
    let run = WatchedRun::new(target, protocol, &[], watch)?;
    let column = Column::read(&run)?;
    let groups = column.groups()?;
    let ciphertexts = column.ciphertexts();
    let number = |group: &Vec<usize>| {
        let bytes = group.first().and_then(|record| ciphertexts.get(record).copied()).unwrap_or_default();
        bytes.iter().fold(0_u128, |number, byte| number << 8 | u128::from(*byte))
    };
    let numbers: Vec<u128> = groups.iter().map(number).collect();
    let guesses = matched(&groups, &numbers, &target.knowledge);
    Ok(Recovery { guesses: spread(&groups, guesses.into_iter(), target.values.len()), ..Recovery::default() })
}

/// What ciphertexts say of a value: mean and variance.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    mean: f64,
    variance: f64,
}

/// The approximate inverses, by position in the domain or by distance from a known quantile, whichever tells most.
fn estimates(groups: &[Vec<usize>], numbers: &[u128], knowledge: &Knowledge) -> Vec<Estimate> {
    let domain = knowledge.numbers.domain();
    let bits = domain.width.bits();
    let size = 2_f64.powi(bits as i32);
    let least = domain.limits().0 as f64;
    // Whole plaintexts and the part behind the point.
    let inverse =
        |number: u128| (number >> bits) as f64 + (number & ((1 << bits) - 1)) as f64 / size - 0.5 + least;
    let anchors = anchors(groups, knowledge);
    let estimate = |number: &u128| {
        let here = inverse(*number);
        let share = (here - least) / size;
        let by_position = Estimate { mean: here, variance: size * share * (1.0 - share) + 1.0 };
        let by_distance = anchors.iter().map(|(group, anchor)| {
            let distance = here - inverse(numbers[*group]);
            Estimate { mean: anchor.mean + distance, variance: anchor.variance + distance.abs() }
        });
        by_distance.fold(by_position, |best, other| if other.variance < best.variance { other } else { best })
    };
    numbers.iter().map(estimate).collect()
}

/// Groups at some ranks, with what the auxiliary values say of them: where values are dense, much.
fn anchors(groups: &[Vec<usize>], knowledge: &Knowledge) -> Vec<(usize, Estimate)> {
    let rows = shares(groups);
    let total = groups.iter().map(Vec::len).sum::<usize>().max(1) as f64;
    let anchor = |step: usize| {
        let share = step as f64 / ANCHORS as f64;
        let group = rows.partition_point(|(_, up_to)| *up_to < share).min(rows.len().saturating_sub(1));
        // How far the same quantile of two samples is apart: a deviation of the share of both together.
        let off = (share * (1.0 - share) * (1.0 / total + 1.0 / knowledge.auxiliary.len() as f64)).sqrt();
        let reach = knowledge.quantile(share + off) as f64 - knowledge.quantile(share - off) as f64;
        (group, Estimate { mean: knowledge.quantile(share) as f64, variance: (reach / 2.0).powi(2) + 1.0 })
    };
    (1..ANCHORS).map(anchor).collect()
}

fn matched(groups: &[Vec<usize>], numbers: &[u128], knowledge: &Knowledge) -> Vec<i64> {
    let candidates = candidates(knowledge, groups.len());
    let rows = shares(groups);
    let estimates = estimates(groups, numbers, knowledge);
    let records = groups.iter().map(Vec::len).sum::<usize>() as f64;
    // Shares of two samples differ by about this much, squared.
    let noise = 1.0 / records + 1.0 / knowledge.auxiliary.len() as f64;
    // Minus the logarithm of how likely the frequencies and the estimate are, but for constants.
    let cost = |row: usize, column: usize| {
        let ((share, up_to), estimate): (_, &Estimate) = (rows[row], &estimates[row]);
        let candidate: &Candidate = &candidates[column];
        let frequency = (share - candidate.share).powi(2) / ((share + candidate.share) * noise);
        // The middle of the group: a group may lie a record to either side.
        let (mine, theirs) = (up_to - share / 2.0, candidate.up_to - candidate.share / 2.0);
        let cumulative = (mine - theirs).powi(2) / ((mine * (1.0 - mine) + noise) * noise);
        let position = (candidate.value as f64 - estimate.mean).powi(2) / estimate.variance;
        frequency + cumulative + position
    };
    let assigned = non_crossing(groups.len(), candidates.len(), cost);
    let guess = |(row, estimate): (usize, &Estimate)| {
        let chosen = assigned.as_ref().map(|assigned| candidates[assigned[row]].value);
        let near =
            |value: &i64| (*value as f64 - estimate.mean).abs() <= DEVIATIONS_MAX * estimate.variance.sqrt();
        chosen.filter(near).unwrap_or_else(|| knowledge.clamped(estimate.mean))
    };
    estimates.iter().enumerate().map(guess).collect()
}
