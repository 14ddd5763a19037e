//! Published attacks as experiments: what a server that looks learns about the values, measured.
//!
//! An attack sees what the server's half has after a real run (its store, or the requests it answered), and the
//! [`Knowledge`] that its paper grants the attacker. The plaintexts serve to score it. Beside each rate stands what a
//! guess without the server would have got.

mod assumption;
mod experiment;
mod grubbs_bclo;
mod grubbs_binomial;
mod grubbs_digits;
#[cfg(test)]
mod ideal;
pub mod kkno_access;
pub mod kkno_volume;
pub mod lmp_auxiliary;
pub mod lmp_order;
pub mod lmp_rank;
mod matching;
mod naveed_kamara_wright;
pub mod observed;
mod reconstruction;
pub mod recording;
mod request;
mod result;
mod score;
mod snapshot;
pub mod span;
mod split;
pub mod tape;
mod target;
#[cfg(test)]
mod tests;
mod watched;

pub(crate) use observed::{Grain, Sight, View};
pub(crate) use snapshot::{Column, Owners, Ranks};
pub(crate) use tape::Exchange;
pub(crate) use watched::WatchedRun;

pub use assumption::{Assumption, Extremes};
pub use experiment::{AttackProgress, AttackWatch, run};
pub use request::{ALL_ATTACKS, ATTACKED_RECORDS_MAX, AttackPlan, AttackRequest, Auxiliary, NO_GROUP};
pub use result::{AttackEnding, AttackResult, AttackRunResult, CurvePoint, MARK, QueryCost, UpTo};
pub use score::{Score, TOLERANCE, baseline, score, up_to_symmetry};
pub use target::{Knowledge, Target};

use crate::protocols::{self, ProtocolEntry};
use arras_protocol::leakage::Pattern;
use arras_protocol::ore::Width;

/// Why an attack came to no end.
#[derive(Debug, thiserror::Error)]
pub enum AttackFailure {
    /// The run it watches failed.
    #[error(transparent)]
    Index(#[from] arras_schemes::error::IndexError),
    /// The store failed.
    #[error(transparent)]
    Storage(#[from] arras_storage::StorageError),
    /// There was no thread to run it on.
    #[error(transparent)]
    Runtime(#[from] std::io::Error),
    /// It was stopped.
    #[error("stopped")]
    Stopped,
    /// The store or a message is not what it was taken for: a mistake in the attack.
    #[error("the attacker cannot read {0}")]
    Unreadable(&'static str),
}

/// In what the attacker is left free by what it sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Symmetry {
    /// Nothing.
    #[default]
    None,
    /// Whether the values ascend or descend: every guess may be the mirror image within the domain.
    Reflection,
    /// Where a circular order begins. `positions` are the records in that order.
    Rotation {
        /// Number of the record at each position.
        positions: Vec<usize>,
    },
}

/// What an attack came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recovery {
    /// A guess for each record, in order of insertion.
    pub guesses: Vec<i64>,
    /// What it leaves open.
    pub symmetry: Symmetry,
    /// Queries it watched.
    pub queries: u64,
    /// Guesses after fewer queries.
    pub earlier: Vec<(u64, Vec<i64>)>,
    /// What it saw beside what its row says, in words.
    pub saw: String,
}

/// Carries an attack out against a run of a protocol.
pub type Carry = fn(&Target, &'static ProtocolEntry, &AttackWatch<'_>) -> Result<Recovery, AttackFailure>;

/// An attack that can be carried out.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    /// Its name on the command line, in results and in [`arras_protocol::leakage::Leakage::attacks`].
    pub name: &'static str,
    /// Its name in tables and plots.
    pub title: &'static str,
    /// Where it was published.
    pub citation: &'static str,
    /// What the attacker has, in words; the auxiliary data are said apart.
    pub attacker: &'static str,
    /// The leakage it rests on.
    pub rests_on: &'static [Pattern],
    /// What it takes for granted without seeing it.
    pub assumes: &'static [Assumption],
    /// Why it cannot be attempted on a target, if it cannot: too many values for its running time, say.
    pub obstacle: fn(&Target) -> Option<String>,
    /// Carries it out.
    pub carry: Carry,
}

impl Attack {
    /// Whether it works against a protocol: whose leakage names it.
    #[must_use]
    pub fn concerns(&self, protocol: &str) -> bool {
        let Some(protocol) = protocols::named(protocol) else { return false };
        let is_own = |attack: &&str| attack.strip_prefix(self.name).is_some_and(|rest| rest.starts_with(':'));
        (protocol.leakage)(Width::Bits32).attacks.iter().any(is_own)
    }

    /// The names of the protocols it works against.
    #[must_use]
    pub fn protocols(&self) -> Vec<&'static str> {
        protocols::ALL.iter().map(|protocol| protocol.name).filter(|name| self.concerns(name)).collect()
    }
}

/// All attacks. One more is one more row.
pub const ALL: &[Attack] = &[
    Attack {
        name: "nkw_frequency",
        title: "Frequency analysis",
        citation: "Naveed, Kamara, Wright, CCS 2015",
        attacker: "one copy of the store",
        rests_on: &[Pattern::Frequency],
        assumes: &[Assumption::Distribution],
        obstacle: |_| None,
        carry: naveed_kamara_wright::frequency,
    },
    Attack {
        name: "nkw_sorting",
        title: "Sorting attack",
        citation: "Naveed, Kamara, Wright, CCS 2015",
        attacker: "one copy of the store",
        rests_on: &[Pattern::Order, Pattern::Frequency],
        assumes: &[Assumption::Extremes, Assumption::Dense],
        obstacle: |_| None,
        carry: naveed_kamara_wright::sorting,
    },
    Attack {
        name: "nkw_cumulative",
        title: "Cumulative attack",
        citation: "Naveed, Kamara, Wright, CCS 2015",
        attacker: "one copy of the store",
        rests_on: &[Pattern::Order, Pattern::Frequency],
        assumes: &[Assumption::Distribution, Assumption::Extremes],
        obstacle: naveed_kamara_wright::cumulative_obstacle,
        carry: naveed_kamara_wright::cumulative,
    },
    Attack {
        name: "grubbs_bclo",
        title: "Attack on high bits",
        citation: "Grubbs, Sekniqi, Bindschaedler, Naveed, Ristenpart, S&P 2017",
        attacker: "one copy of the store",
        rests_on: &[Pattern::Order, Pattern::Frequency, Pattern::HighBits],
        assumes: &[Assumption::Distribution, Assumption::Extremes],
        obstacle: grubbs_bclo::obstacle,
        carry: grubbs_bclo::carry,
    },
    Attack {
        name: "grubbs_clww",
        title: "Attack on first differing bits",
        citation: "Grubbs, Sekniqi, Bindschaedler, Naveed, Ristenpart, S&P 2017",
        attacker: "one copy of the store",
        rests_on: &[Pattern::Order, Pattern::Frequency, Pattern::DifferingBit],
        assumes: &[Assumption::Distribution, Assumption::Extremes],
        obstacle: grubbs_digits::obstacle,
        carry: grubbs_digits::bits,
    },
    Attack {
        name: "grubbs_lewi_wu",
        title: "Attack on first differing blocks",
        citation: "Grubbs, Sekniqi, Bindschaedler, Naveed, Ristenpart, S&P 2017",
        attacker: "the store and every insertion, whose query ciphertexts it kept",
        rests_on: &[Pattern::Order, Pattern::Frequency, Pattern::DifferingBlock],
        assumes: &[Assumption::Distribution, Assumption::Extremes],
        obstacle: grubbs_digits::obstacle,
        carry: grubbs_digits::blocks,
    },
    Attack {
        name: "grubbs_binomial",
        title: "Binomial attack",
        citation: "Grubbs, Sekniqi, Bindschaedler, Naveed, Ristenpart, S&P 2017",
        attacker: "one copy of the store",
        rests_on: &[Pattern::Order],
        assumes: &[Assumption::Distribution],
        obstacle: grubbs_binomial::obstacle,
        carry: grubbs_binomial::carry,
    },
    reconstruction::KKNO_ACCESS,
    reconstruction::KKNO_VOLUME,
    reconstruction::LMP_ORDER,
    reconstruction::LMP_RANK,
    reconstruction::LMP_AUXILIARY,
];

/// The attack of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Attack> {
    ALL.iter().find(|attack| attack.name == name)
}

/// The names of all attacks, for messages.
#[must_use]
pub fn names() -> String {
    ALL.iter().map(|attack| attack.name).collect::<Vec<_>>().join(", ")
}
