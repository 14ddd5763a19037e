//! What attacks found, as values that become JSON and come back.

use super::request::AttackRequest;
use super::score::{Score, TOLERANCE};
use crate::run::Environment;
use serde::{Deserialize, Serialize};

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
    /// The score, the symmetry resolved.
    pub score: Score,
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
    /// Records attacked.
    pub records: u64,
    /// Queries watched.
    pub queries: u64,
    /// How far off a close guess may be, as a share of the domain's span.
    pub tolerance: f64,
    /// The guesses as they are.
    pub score: Score,
    /// The guesses in the best of the forms left open (mirrored, rotated), if any are.
    pub score_up_to_symmetry: Option<Score>,
    /// The best guesses without the server.
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
    /// The score with what the attacker cannot see resolved for it.
    #[must_use]
    pub fn resolved(&self) -> Score {
        self.score_up_to_symmetry.unwrap_or(self.score)
    }

    pub(super) fn new(attack: &super::Attack, protocol: &crate::protocols::ProtocolEntry) -> Self {
        Self {
            attack: attack.name.to_owned(),
            citation: attack.citation.to_owned(),
            protocol: protocol.name.to_owned(),
            title: protocol.title.to_owned(),
            knowledge: attack.attacker.to_owned(),
            leakage: attack.rests_on.iter().map(|pattern| pattern.describe().to_owned()).collect(),
            records: 0,
            queries: 0,
            tolerance: TOLERANCE,
            score: Score::default(),
            score_up_to_symmetry: None,
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
    /// What was found, an attack against a protocol each.
    pub attacks: Vec<AttackResult>,
}

impl AttackRunResult {
    /// The results as JSON lines, one an attack against a protocol, each with the seed, the commit and the machine.
    #[must_use]
    pub fn json_lines(&self) -> Vec<String> {
        let line = |attack: &AttackResult| {
            let Self { environment, request, .. } = self;
            serde_json::json!({ "environment": environment, "request": request, "result": attack })
                .to_string()
        };
        self.attacks.iter().map(line).collect()
    }
}
