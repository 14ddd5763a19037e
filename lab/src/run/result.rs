//! What a run found, as values that become JSON and come back.

use super::request::RunRequest;
use crate::channel::Traffic;
use crate::pages::PageCounts;
use crate::protocols::SchemeCalls;
use arras_primitives::meter::{Primitive, Reading};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Calls of primitives by name, those that were made.
pub type PrimitiveCalls = BTreeMap<String, u64>;

/// A reading of the meter as names and numbers, zeros left out.
#[must_use]
pub fn primitive_calls(reading: &Reading) -> PrimitiveCalls {
    let calls =
        Primitive::ALL.into_iter().map(|primitive| (primitive.name().to_owned(), reading.of(primitive)));
    calls.filter(|(_, calls)| *calls > 0).collect()
}

/// What a number of operations cost together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// Pages read and written past the cache, results included; none over the network.
    pub pages: Option<PageCounts>,
    /// Messages, rounds and bytes.
    pub traffic: Traffic,
    /// Primitive calls of the client half.
    pub client_primitives: PrimitiveCalls,
    /// Primitive calls of the server half, comparisons of ciphertexts among them; none over the network.
    pub server_primitives: Option<PrimitiveCalls>,
    /// Calls of the scheme, for a protocol over one.
    pub scheme: Option<SchemeCalls>,
    /// Time it took, counting included.
    pub elapsed_ns: u64,
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Inserting the records.
    Construction,
    /// The first query: for a protocol that puts its work off unlike the others.
    FirstQuery,
    /// The queries after the first.
    Queries,
}

impl Stage {
    /// In words.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Construction => "construction",
            Self::FirstQuery => "first query",
            Self::Queries => "queries",
        }
    }
}

/// What a part of a run cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageResult {
    /// Which part.
    pub stage: Stage,
    /// Records inserted or queries answered. A bulk load counts its records.
    pub operations: u64,
    /// Records found.
    pub results: u64,
    /// What they cost together.
    pub cost: Cost,
}

impl StageResult {
    fn per_operation(&self, total: u64) -> f64 {
        total as f64 / self.operations.max(1) as f64
    }

    /// Pages read and written an operation.
    #[must_use]
    pub fn page_io(&self) -> Option<f64> {
        self.cost.pages.map(|pages| self.per_operation(pages.reads + pages.writes))
    }

    /// Messages an operation.
    #[must_use]
    pub fn messages(&self) -> f64 {
        self.per_operation(self.cost.traffic.messages)
    }

    /// Rounds an operation.
    #[must_use]
    pub fn rounds(&self) -> f64 {
        self.per_operation(self.cost.traffic.rounds)
    }

    /// Bytes an operation, results excluded.
    #[must_use]
    pub fn bytes(&self) -> f64 {
        self.per_operation(self.cost.traffic.overhead_bytes())
    }

    /// Records found an operation.
    #[must_use]
    pub fn results_found(&self) -> f64 {
        self.per_operation(self.results)
    }

    /// Microseconds an operation.
    #[must_use]
    pub fn elapsed_us(&self) -> f64 {
        self.per_operation(self.cost.elapsed_ns) / 1e3
    }
}

/// What one query cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryTrace {
    /// Pages read and written past the cache.
    pub page_io: u64,
    /// Messages.
    pub messages: u64,
    /// Bytes, results excluded.
    pub bytes: u64,
    /// Records found.
    pub results: u64,
    /// Time it took, counting included.
    pub elapsed_ns: u64,
}

/// How a protocol's run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Everything was done, and every answer was right.
    Finished,
    /// It was stopped; what was finished is there.
    Stopped,
    /// It failed, or gave a wrong answer.
    Failed(String),
}

/// What a protocol leaks, in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeakageInWords {
    /// To an attacker with one copy of the store.
    pub snapshot: Vec<String>,
    /// Added by each search.
    pub search: Vec<String>,
    /// Added by each insertion.
    pub update: Vec<String>,
    /// Published attacks.
    pub attacks: Vec<String>,
}

/// What a run of one protocol found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProtocolResult {
    /// The protocol's name.
    pub protocol: String,
    /// Its name in tables.
    pub title: String,
    /// What it leaks.
    pub leakage: LeakageInWords,
    /// What its parts cost; a part that was not begun is not there.
    pub stages: Vec<StageResult>,
    /// What each query cost.
    pub queries: Vec<QueryTrace>,
    /// Bytes of keys and values at the server in the end; none over the network.
    pub stored_bytes: Option<u64>,
    /// Bytes of a stored ciphertext, for a protocol over a scheme.
    pub ciphertext_bytes: Option<u64>,
    /// Bytes of state of the client half in the end, keys not among them.
    pub state_bytes: u64,
    /// How it ended.
    pub ending: Ending,
}

impl ProtocolResult {
    /// What a part cost.
    #[must_use]
    pub fn stage(&self, stage: Stage) -> Option<&StageResult> {
        self.stages.iter().find(|result| result.stage == stage)
    }
}

/// Where and with what a result was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Environment {
    /// The lab's version.
    pub version: String,
    /// The commit it was built from, "unknown" if nobody can say.
    pub commit: String,
    /// Processor and number of cores.
    pub machine: String,
}

/// What a run found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunResult {
    /// Where and with what.
    pub environment: Environment,
    /// What was asked for, `data` and `ranges` left out.
    pub request: RunRequest,
    /// What was found, a protocol each.
    pub protocols: Vec<ProtocolResult>,
}

impl RunResult {
    /// Whether everything was done and right.
    #[must_use]
    pub fn finished(&self) -> bool {
        self.protocols.iter().all(|protocol| protocol.ending == Ending::Finished)
    }

    /// The results as JSON lines, one a protocol, each with the seed, the commit and the machine.
    #[must_use]
    pub fn json_lines(&self) -> Vec<String> {
        let line = |protocol: &ProtocolResult| {
            let Self { environment, request, .. } = self;
            serde_json::json!({ "environment": environment, "request": request, "result": protocol })
                .to_string()
        };
        self.protocols.iter().map(line).collect()
    }
}
