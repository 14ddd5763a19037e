//! Times of schemes and primitives, alone on one thread. What they are to be compared with is measured by
//! `lab/opponents`, in one run with ours. And rates of the whole system ([`service`]).

pub mod bisen;
mod installation;
pub mod memory;
pub mod mope;
pub mod plans;
pub mod postgres;
mod primitives;
mod processor;
mod schemes;
pub mod service;
mod timer;
mod turns;

pub use timer::Timing;

use crate::run::environment;
use arras_protocol::ore::Width;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// What is timed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Subject {
    /// Schemes and primitives.
    #[default]
    All,
    /// Primitives.
    Primitives,
    /// Schemes.
    Schemes,
    /// Single writes and point reads of the whole system, as processes; not among `all`.
    Service,
    /// Memory of the proxy's process under loads that would have it hold much, and what another client waits beside
    /// heavy filters; not among `all`.
    Memory,
    /// Documents fetched by the plans of sixteen shapes of queries, beside those that the best single plan fetches; not
    /// among `all`.
    Plans,
    /// What encryption costs an application of PostgreSQL (TPC-C, insertions, `pgbench -S`), as processes; not among
    /// `all`.
    Postgres,
    /// The mOPE paper's evaluation, what needs an SQL database with `--postgres`; not among `all`.
    Mope,
    /// The BISEN paper's evaluation, boolean search with host and enclave as processes; not among `all`.
    Bisen,
}

/// Arguments of `arras lab bench`.
#[derive(Args, Clone, Debug)]
pub struct BenchArguments {
    /// What to time.
    #[arg(value_enum, default_value_t)]
    pub subject: Subject,
    /// Of memory: megabytes of documents in the large collection.
    #[arg(long, default_value_t = 200)]
    pub megabytes: u64,
    /// Of plans: documents in the collection.
    #[arg(long, default_value_t = 200_000)]
    pub documents: usize,
    /// Of mope: values of the largest tree.
    #[arg(long, default_value_t = 100_000)]
    pub values: usize,
    /// Of mope: a Python that has the package `pyope`, to be measured in the same run.
    #[arg(long, value_name = "PYTHON")]
    pub pyope: Option<PathBuf>,
    /// Of mope: figure 13 and changes of labels in a PostgreSQL of its own, too.
    #[arg(long)]
    pub postgres: bool,
    /// Of mope: only figures whose names begin so: 8 to 13, storage, pauses.
    #[arg(long = "figure", value_name = "NAME")]
    pub figures: Vec<String>,
    /// Of bisen: pairs of keyword and document in the largest collection.
    #[arg(long, default_value_t = 2_000_000)]
    pub pairs: u64,
    /// Of bisen: pairs that each storage service is given.
    #[arg(long, default_value_t = 300_000)]
    pub service_pairs: u64,
    /// Of bisen: the folder whose files are the texts.
    #[arg(long, value_name = "FOLDER", default_value = "/usr/share/doc")]
    pub texts: PathBuf,
    /// Of bisen: only the storage services that arras-host has in itself, not Redis, Cassandra and PostgreSQL.
    #[arg(long)]
    pub own_services: bool,
    /// Of bisen: the same on a plain channel, too, and how the two compare; with `arras-plain-enclave` (of `arras-simulator`) beside this executable.
    #[arg(long)]
    pub plain: bool,
    /// Milliseconds for each operation; of PostgreSQL ten times that for each load, of the service and of `pgbench -S` a third of
    /// ten times that for each turn.
    #[arg(long, value_name = "MS", default_value_t = 300)]
    pub time_ms: u64,
    /// Everything random comes from it.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Print JSON lines in place of a table.
    #[arg(long)]
    pub json: bool,
    /// Another build's executables (`arras`, `arras-server`) to measure: of the service beside this one's, of memory and
    /// plans in their place.
    #[arg(long, value_name = "DIRECTORY")]
    pub before: Option<PathBuf>,
    /// Of the service, of PostgreSQL and of bisen: how often each load or search runs; of loads that are compared, three turns each.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub rounds: usize,
}

impl BenchArguments {
    /// The usual ones but for these.
    #[must_use]
    pub fn of(subject: Subject, time_ms: u64, seed: u64) -> Self {
        Self {
            subject,
            time_ms,
            seed,
            megabytes: 200,
            documents: 200_000,
            values: 100_000,
            pyope: None,
            postgres: false,
            figures: Vec::new(),
            pairs: 2_000_000,
            service_pairs: 300_000,
            texts: "/usr/share/doc".into(),
            own_services: false,
            plain: false,
            json: false,
            before: None,
            rounds: 3,
        }
    }

    /// How long one operation is timed.
    #[must_use]
    pub fn time(&self) -> Duration {
        Duration::from_millis(self.time_ms.max(1))
    }
}

/// Which side of the trust line does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The side with the keys.
    Client,
    /// Either.
    Primitive,
    /// The side without.
    Server,
}

/// How long one operation takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The scheme or primitive, as in tables.
    pub subject: String,
    /// What is done.
    pub operation: String,
    /// Bits of a plaintext, for a scheme.
    pub bits: Option<u32>,
    /// Who does it.
    pub role: Role,
    /// How long it takes.
    pub timing: Timing,
}

/// Times what is asked for, telling `tell` what comes next.
#[must_use]
pub fn run(arguments: &BenchArguments, tell: &dyn Fn(&str)) -> Vec<Measured> {
    let mut measured = Vec::new();
    if arguments.subject != Subject::Primitives {
        for width in [Width::Bits32, Width::Bits64] {
            for scheme in crate::schemes::ALL {
                tell(scheme.title);
                measured.extend(schemes::measure(scheme, width, arguments));
            }
        }
    }
    if arguments.subject != Subject::Schemes {
        tell("primitives");
        measured.extend(primitives::measure(arguments));
    }
    measured
}

/// The times as JSON lines, each with the seed, the commit and the machine.
#[must_use]
pub fn json_lines(measured: &[Measured], seed: u64) -> Vec<String> {
    let environment = environment();
    let line = |measured: &Measured| {
        serde_json::json!({ "environment": environment, "seed": seed, "measured": measured }).to_string()
    };
    measured.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_timed() {
        let arguments = BenchArguments::of(Subject::All, 1, 1);
        let measured = run(&arguments, &|_| {});
        for scheme in crate::schemes::ALL.iter().filter(|scheme| scheme.slowness == 1) {
            let operations = measured.iter().filter(|line| line.subject == scheme.title).count();
            assert_eq!(operations, 6, "{}: encrypt, query, compare; 32 and 64 bits", scheme.name);
        }
        for line in &measured {
            let Timing { least_ns, median_ns, most_ns, .. } = line.timing;
            assert!(0.0 < least_ns && least_ns <= median_ns && median_ns <= most_ns, "{line:?}");
        }
        let lines = json_lines(&measured, 1);
        assert_eq!(lines.len(), measured.len());
        assert!(lines[0].contains("\"median_ns\"") && lines[0].contains("\"commit\""));
    }
}
