//! The rows of the attacks that watch queries: how what they say of items becomes guesses of records.

use super::observed::{Grain, Observed};
use super::recording::{Recording, record};
use super::span::{Estimates, Span};
use super::{Assumption, Attack, AttackFailure, AttackWatch, Recovery, Symmetry, Target};
use super::{kkno_access, kkno_volume, lmp_auxiliary, lmp_order, lmp_rank};
use crate::protocols::ProtocolEntry;
use arras_protocol::leakage::Pattern;

const KKNO: &str = "Kellaris, Kollios, Nissim, O'Neill, CCS 2016";
const LMP: &str = "Lacharité, Minaud, Paterson, S&P 2018";

/// Most values in the span for attacks that need as many queries as there are ranges, or more.
const VALUES_MAX: u64 = 1 << 16;

/// From an access pattern and uniform queries.
pub(super) const KKNO_ACCESS: Attack = Attack {
    name: "kkno_access",
    title: "KKNO, access pattern",
    citation: KKNO,
    attacker: "watches which items searches return",
    rests_on: &[Pattern::AccessPattern],
    assumes: &[Assumption::Extremes, Assumption::UniformQueries],
    obstacle: |target| too_many(target, VALUES_MAX),
    carry: |target, protocol, watch| {
        let span = target.span();
        watched(target, protocol, watch, Symmetry::Reflection, |observed| {
            kkno_access::recover(&observed.searches, observed.items, span)
        })
    },
};

/// From volumes and uniform queries.
pub(super) const KKNO_VOLUME: Attack = Attack {
    name: "kkno_volume",
    title: "KKNO, volumes",
    citation: KKNO,
    attacker: "watches how many results searches have",
    rests_on: &[Pattern::Volume],
    assumes: &[Assumption::Extremes, Assumption::UniformQueries, Assumption::Records],
    obstacle: |target| too_many(target, kkno_volume::VALUES_MAX),
    carry: volumes,
};

/// From an access pattern and dense data.
pub(super) const LMP_ORDER: Attack = Attack {
    name: "lmp_order",
    title: "LMP, access pattern",
    citation: LMP,
    attacker: "watches which items searches return",
    rests_on: &[Pattern::AccessPattern],
    assumes: &[Assumption::Extremes, Assumption::Dense],
    obstacle: |target| too_many(target, VALUES_MAX),
    carry: |target, protocol, watch| {
        let span = target.span();
        watched(target, protocol, watch, Symmetry::Reflection, |observed| {
            lmp_order::recover(&observed.searches, observed.items, span)
        })
    },
};

/// From an access pattern, ranks and dense data.
pub(super) const LMP_RANK: Attack = Attack {
    name: "lmp_rank",
    title: "LMP, access pattern and rank",
    citation: LMP,
    attacker: "watches which items searches return and in which order",
    rests_on: &[Pattern::AccessPattern, Pattern::Order],
    assumes: &[Assumption::Extremes, Assumption::Dense],
    obstacle: |target| too_many(target, VALUES_MAX),
    carry: |target, protocol, watch| {
        let span = target.span();
        watched(target, protocol, watch, Symmetry::None, |observed| {
            lmp_rank::recover(&observed.searches, observed.items, span)
        })
    },
};

/// From an access pattern and an auxiliary distribution.
pub(super) const LMP_AUXILIARY: Attack = Attack {
    name: "lmp_auxiliary",
    title: "LMP, auxiliary distribution",
    citation: LMP,
    attacker: "watches which items searches return",
    rests_on: &[Pattern::AccessPattern],
    assumes: &[Assumption::Distribution, Assumption::Extremes, Assumption::UniformQueries],
    obstacle: |target| too_many(target, lmp_auxiliary::VALUES_MAX),
    carry: |target, protocol, watch| {
        let span = target.span();
        watched(target, protocol, watch, Symmetry::None, |observed| {
            lmp_auxiliary::recover(observed, &target.knowledge.auxiliary, span)
        })
    },
};

fn too_many(target: &Target, values_max: u64) -> Option<String> {
    let values = target.span().count();
    (values > values_max)
        .then(|| format!("{values} values from the least to the greatest; at most {values_max}"))
}

impl Target {
    /// The values that queries are about.
    #[must_use]
    pub fn span(&self) -> Span {
        Span { least: self.knowledge.least, greatest: self.knowledge.greatest }
    }

    /// Guesses without gaps: what is not known is guessed from the auxiliary data.
    fn guesses(&self, estimates: Estimates) -> Vec<i64> {
        let guess = self.knowledge.quantile(0.5);
        estimates.into_iter().map(|estimate| estimate.unwrap_or(guess)).collect()
    }
}

/// Numbers of queries after which to look: halves of halves.
fn looks(queries: usize) -> Vec<usize> {
    let mut looks: Vec<_> =
        (0..12).map(|halvings| queries >> halvings).take_while(|queries| *queries >= 10).collect();
    looks.reverse();
    looks
}

/// Attacks after ever more queries; `of_records` makes estimates of records of what was observed.
fn looked(
    target: &Target,
    recording: &Recording,
    watch: &AttackWatch<'_>,
    mut guesses: impl FnMut(&Observed) -> Vec<i64>,
) -> Result<Recovery, AttackFailure> {
    let mut recovery = Recovery { saw: saw(&recording.observed), ..Recovery::default() };
    let queries = recording.observed.searches.len();
    for look in looks(queries) {
        watch.check()?;
        if look < queries {
            recovery.earlier.push((look as u64, guesses(&recording.observed.first(look))));
        }
    }
    recovery.queries = queries as u64;
    recovery.guesses = guesses(&recording.observed);
    debug_assert_eq!(recovery.guesses.len(), target.values.len());
    Ok(recovery)
}

fn watched(
    target: &Target,
    protocol: &'static ProtocolEntry,
    watch: &AttackWatch<'_>,
    symmetry: Symmetry,
    attack: impl Fn(&Observed) -> Estimates,
) -> Result<Recovery, AttackFailure> {
    let recording = record(target, protocol, watch)?;
    let guesses = |observed: &Observed| target.guesses(recording.of_records(&attack(observed)));
    Ok(Recovery { symmetry, ..looked(target, &recording, watch, guesses)? })
}

/// What could be seen, where it is not exactly the results.
fn saw(observed: &Observed) -> String {
    let saw = match (observed.sight.items, observed.sight.volume) {
        (Grain::Coarse, _) => "it saw the stored items that came with the results",
        (Grain::Hidden, Grain::Coarse) => "it saw how many blocks were read",
        _ => "",
    };
    saw.to_owned()
}

/// The volumes say how many records have each value, not which. This is scored as if the order of the records were known.
fn volumes(
    target: &Target,
    protocol: &'static ProtocolEntry,
    watch: &AttackWatch<'_>,
) -> Result<Recovery, AttackFailure> {
    let recording = record(target, protocol, watch)?;
    let mut by_value: Vec<usize> = (0..target.values.len()).collect();
    by_value.sort_by_key(|record| target.values[*record]);
    let span = target.span();
    let guesses = |observed: &Observed| {
        let ranks = target.guesses(kkno_volume::recover(&observed.searches, by_value.len(), span));
        ranked(target, &by_value, &ranks)
    };
    let recovery = looked(target, &recording, watch, guesses)?;
    let scored = "scored as if the records' order were known";
    let saw = if recovery.saw.is_empty() { scored.to_owned() } else { format!("{}; {scored}", recovery.saw) };
    Ok(Recovery { symmetry: Symmetry::Reflection, saw, ..recovery })
}

/// Gives the values of ranks to records, from the least or from the greatest on: whichever is nearer once mirrored back.
fn ranked(target: &Target, by_value: &[usize], ranks: &[i64]) -> Vec<i64> {
    let (mut ascending, mut descending) = (vec![0; ranks.len()], vec![0; ranks.len()]);
    for (rank, record) in by_value.iter().enumerate() {
        ascending[*record] = ranks[rank];
        descending[*record] = ranks[ranks.len() - 1 - rank];
    }
    let Span { least, greatest } = target.span();
    let error = |guesses: &[i64], mirrored: bool| -> u128 {
        let guess = |guess: &i64| {
            if mirrored { least.saturating_add_unsigned(greatest.abs_diff(*guess)) } else { *guess }
        };
        let pairs = guesses.iter().zip(&target.values);
        pairs.map(|(given, value)| u128::from(guess(given).abs_diff(*value))).sum()
    };
    if error(&ascending, false) <= error(&descending, true) { ascending } else { descending }
}

#[cfg(test)]
mod tests;
