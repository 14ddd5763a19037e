//! What attacks found, as values that become JSON and come back.

use super::Symmetry;
use super::request::AttackRequest;
use super::score::{Score, TOLERANCE};
use crate::run::Environment;
use serde::{Deserialize, Serialize};

/// Stands behind the name of an attack whose score is up to a reflection or a rotation.
pub const MARK: &str = "*";

/// What a query of the attacked protocol costs, from a short run on the same records.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryCost {
    /// Bytes, results excluded.
    pub bytes: f64,
    /// Messages.
    pub messages: f64,
    /// Pages read and written past the cache.
    pub page_io: Option<f64>,
}

/// How good the guesses were after a number of queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Queries watched.
    pub queries: u64,
    /// The score, up to what [`AttackResult::up_to`] says.
    pub score: Score,
}

/// What an attack cannot tell, and is not scored for: as papers on reconstruction do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpTo {
    /// Whether values ascend or descend.
    Reflection,
    /// Where a circular order begins.
    Rotation,
}

impl UpTo {
    /// What a symmetry leaves open.
    pub(super) fn of(symmetry: &Symmetry) -> Option<Self> {
        match symmetry {
            Symmetry::None => None,
            Symmetry::Reflection => Some(Self::Reflection),
            Symmetry::Rotation { .. } => Some(Self::Rotation),
        }
    }

    /// In words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Reflection => "up to reflection",
            Self::Rotation => "up to rotation",
        }
    }
}

/// How an attack ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttackEnding {
    /// It was carried out.
    Finished,
    /// It was not attempted.
    Skipped(String),
    /// It was stopped.
    Stopped,
    /// It failed.
    Failed(String),
}

/// What an attack against a protocol found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttackResult {
    /// The attack's name.
    pub attack: String,
    /// Where it was published.
    pub citation: String,
    /// The protocol's name.
    pub protocol: String,
    /// Its name in tables.
    pub title: String,
    /// What the attacker has, auxiliary data included, in words.
    pub knowledge: String,
    /// The leakage it rests on, in words.
    pub leakage: Vec<String>,
    /// What it takes for granted without seeing it, in words.
    pub assumes: Vec<String>,
    /// Records attacked.
    pub records: u64,
    /// Queries watched.
    pub queries: u64,
    /// How far off a close guess may be, as a share of the values' span.
    pub tolerance: f64,
    /// What the score leaves open, if anything.
    pub up_to: Option<UpTo>,
    /// How good the guesses are, up to what is left open: the figure of tables, plots and curves.
    pub score: Score,
    /// The guesses as they are, with what is left open guessed too.
    pub as_guessed: Option<Score>,
    /// The best constant guess for each measure.
    pub baseline: Score,
    /// The score by the number of queries.
    pub curve: Vec<CurvePoint>,
    /// What a query costs.
    pub cost: Option<QueryCost>,
    /// Time the attack took, the run it watched included.
    pub elapsed_ns: u64,
    /// How it ended.
    pub ending: AttackEnding,
}

impl AttackResult {
    /// The attack's name as tables and plots have it: with a star where its score leaves something open.
    #[must_use]
    pub fn marked(&self) -> String {
        format!("{}{}", self.attack, if self.up_to.is_some() { MARK } else { "" })
    }

    pub(super) fn new(attack: &super::Attack, protocol: &crate::protocols::ProtocolEntry) -> Self {
        Self {
            attack: attack.name.to_owned(),
            citation: attack.citation.to_owned(),
            protocol: protocol.name.to_owned(),
            title: protocol.title.to_owned(),
            knowledge: attack.attacker.to_owned(),
            leakage: attack.rests_on.iter().map(|pattern| pattern.describe().to_owned()).collect(),
            assumes: attack.assumes.iter().map(|assumed| assumed.describe().to_owned()).collect(),
            records: 0,
            queries: 0,
            tolerance: TOLERANCE,
            score: Score::default(),
            up_to: None,
            as_guessed: None,
            baseline: Score::default(),
            curve: Vec::new(),
            cost: None,
            elapsed_ns: 0,
            ending: AttackEnding::Finished,
        }
    }
}

/// What attacks found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AttackRunResult {
    /// Where and with what.
    pub environment: Environment,
    /// What was asked for, `data` and `auxiliary_data` left out.
    pub request: AttackRequest,
    /// Share of the attacked records whose value the auxiliary data hold, too.
    pub shared: f64,
    /// What makes the rates other than they look.
    pub warnings: Vec<String>,
    /// What was found, an attack against a protocol each.
    pub attacks: Vec<AttackResult>,
}

impl AttackRunResult {
    /// The results as JSON lines, one an attack against a protocol, each with the seed, the commit and the machine.
    #[must_use]
    pub fn json_lines(&self) -> Vec<String> {
        let line = |attack: &AttackResult| {
            let Self { environment, request, shared, warnings, attacks: _ } = self;
            serde_json::json!({
                "environment": environment, "request": request, "shared": shared, "warnings": warnings,
                "result": attack,
            })
            .to_string()
        };
        self.attacks.iter().map(line).collect()
    }
}
