//! Grubbs, Sekniqi, Bindschaedler, Naveed, Ristenpart, "Leakage-abuse attacks against order-revealing encryption", IEEE
//! S&P 2017, §5: the binomial attack on schemes that show the order and hide which values are equal (FH-OPE), on one
//! copy of the store.
//!
//! If a share p of the values is at most v, then the number of records that are is binomial with n and p. So each rank has
//! a distribution over the auxiliary values, and the likeliest is guessed. Where a store shows an interval of
//! ranks, the distributions of ranks spread over it are added.

use super::naveed_kamara_wright::{searched, sorting_queries};
use super::snapshot::ranks;
use super::watched::WatchedRun;
use super::{AttackFailure, AttackWatch, Knowledge, Recovery, Target};
use crate::protocols::ProtocolEntry;
use statrs::distribution::{Binomial, DiscreteCDF};

/// Most records it is carried out on.
const RECORDS_MAX: usize = 20_000;

/// Ranks looked at in an interval.
const RANKS: usize = 16;

/// Deviations of a binomial beyond which a value is left out.
const DEVIATIONS_MAX: f64 = 7.0;

/// Why it cannot be attempted.
pub(super) fn obstacle(target: &Target) -> Option<String> {
    let most = target.values.len().max(target.knowledge.auxiliary.len());
    (most > RECORDS_MAX).then(|| format!("{most} records or auxiliary values; at most {RECORDS_MAX}"))
}

/// Carries it out.
pub(super) fn carry(
    target: &Target,
    protocol: &'static ProtocolEntry,
    watch: &AttackWatch<'_>,
) -> Result<Recovery, AttackFailure> {
    let queries = sorting_queries(target, protocol);
    let run = WatchedRun::new(target, protocol, &queries, watch)?;
    let ranks = ranks(protocol, &run)?;
    let distribution = Distribution::new(&target.knowledge);
    let guesses = distribution.guesses(&ranks.intervals, watch)?;
    let saw = searched(&queries);
    Ok(Recovery {
        guesses,
        symmetry: ranks.symmetry,
        queries: queries.len() as u64,
        saw,
        ..Recovery::default()
    })
}

/// The auxiliary values, and the share that is at most each.
struct Distribution(Vec<(i64, f64)>);

impl Distribution {
    fn new(knowledge: &Knowledge) -> Self {
        let total = knowledge.auxiliary.len() as f64;
        let mut seen = 0;
        let share = |(value, count): (i64, usize)| {
            seen += count;
            (value, seen as f64 / total)
        };
        Self(knowledge.histogram().into_iter().map(share).collect())
    }

    fn guesses(&self, intervals: &[(f64, f64)], watch: &AttackWatch<'_>) -> Result<Vec<i64>, AttackFailure> {
        let records = intervals.len();
        let mut known = std::collections::HashMap::new();
        let mut guesses = Vec::with_capacity(records);
        for (from, until) in intervals {
            watch.check()?;
            let interval = (from.to_bits(), until.to_bits());
            let guess = *known.entry(interval).or_insert_with(|| self.likeliest(*from, *until, records));
            guesses.push(guess);
        }
        Ok(guesses)
    }

    /// The likeliest value of a record in an interval of ranks.
    fn likeliest(&self, from: f64, until: f64, records: usize) -> i64 {
        let (first, last) = (from * records as f64, (until * records as f64 - 1.0).max(0.0));
        let mut chances = vec![0.0; self.0.len()];
        let wide = last - first >= 1.0;
        for step in 0..if wide { RANKS } else { 1 } {
            let part = (step as f64 + 0.5) / RANKS as f64;
            let rank = if wide { first + (last - first) * part } else { first };
            self.add(rank.round() as u64, records as u64, &mut chances);
        }
        let likeliest = (0..chances.len()).max_by(|one, other| chances[*one].total_cmp(&chances[*other]));
        likeliest.map_or(0, |at| self.0[at].0)
    }

    /// Adds the chance of each value to be at a rank, counted from 0: that more than `rank` records are at most it, and
    /// not of the value before it.
    fn add(&self, rank: u64, records: u64, chances: &mut [f64]) {
        let mean = (rank as f64 + 0.5) / records as f64;
        let reach = DEVIATIONS_MAX * (mean * (1.0 - mean) / records as f64).sqrt() + 2.0 / records as f64;
        let near = self.0.partition_point(|(_, share)| *share < mean - reach);
        let mut before = 0.0;
        for (at, (_, share)) in self.0.iter().enumerate().skip(near) {
            let chance = match Binomial::new(share.min(1.0), records) {
                Ok(binomial) => binomial.sf(rank),
                Err(_) => 1.0,
            };
            chances[at] += chance - before;
            before = chance;
            if *share > mean + reach {
                break;
            }
        }
    }
}
