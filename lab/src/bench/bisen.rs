//! The evaluation of the BISEN paper (Ferreira and others, TDSC, section 6), on ours: storage, updates (figure 3), participants'
//! shares of a search (figure 4), shape and size of formulas (5), selectivity (6), negations (table 1), ranked against exact
//! (7), storage services (8). Of the comparison with IEX-2LEV (table 2) BISEN's part is measured, and stands beside what the paper
//! says of both; no IEX-2LEV is run.
//!
//! Host and enclave are the processes that `arras search` starts, over loopback, and the channel is the attested one, as in the paper;
//! the client is this process. Texts are those of a
//! folder, in documents of 2,048 bytes, taken again under other names as often as the wanted pairs need. The paper's
//! dataset is Wikipedia's: beside each of our values stands what its text says at its sizes, where it says a number. Its machines
//! are a laptop's processor of 2017 with SGX and a network in between; ratios and what is linear in what are to be compared.

mod channels;
mod searches;
mod services;
mod small;
mod system;
mod texts;
mod updates;
mod wire;

use super::turns::median;
use arras_search::corpus::IndexError;
use arras_search::service::ServiceError;
use serde::Serialize;
use std::path::PathBuf;
use system::{Channels, Service, System};
use texts::Texts;

/// What is measured, and on how much.
#[derive(Clone, Debug)]
pub struct BisenBench {
    /// Where `arras-host` and `arras-enclave` are.
    pub executables: PathBuf,
    /// Files below it are the texts.
    pub texts: PathBuf,
    /// Pairs of keyword and document in the largest collection.
    pub pairs: u64,
    /// Pairs that each storage service is given.
    pub service_pairs: u64,
    /// How often each search runs.
    pub rounds: usize,
    /// Whether services that must be started (Redis, Cassandra, PostgreSQL) are measured, too.
    pub services: bool,
    /// Whether the plain channel is measured beside the attested one.
    pub plain: bool,
}

/// One value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The paper's figure, table or section.
    pub figure: &'static str,
    /// What was measured.
    pub what: String,
    /// At what: of the figure's horizontal axis.
    pub at: String,
    /// Our value.
    pub ours: f64,
    /// Of what.
    pub unit: &'static str,
    /// What the paper says of it; nothing where it has a curve alone.
    pub paper: &'static str,
    /// What issue and design ask for; nothing where they ask for nothing.
    pub wanted: &'static str,
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum BisenError {
    /// The enclave refused, or its host is gone.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// The texts cannot be indexed.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// A process cannot be started or watched, or a text not read.
    #[error("{what}: {source}")]
    Io {
        /// The process or file.
        what: String,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// The channel: certificates, or what is at its other end.
    #[error("the channel to the enclave: {0}")]
    Channel(String),
    /// The texts have too little to choose keywords from.
    #[error("{0}: too little text; name another folder by --texts")]
    Texts(PathBuf),
}

/// Names what failed.
fn failed(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> BisenError {
    let what = what.into();
    move |source| BisenError::Io { what, source }
}

/// Lines, as they are measured.
struct Lines<'a> {
    figure: &'static str,
    lines: Vec<Line>,
    tell: &'a dyn Fn(&str),
}

impl Lines<'_> {
    fn begin(&mut self, figure: &'static str) {
        self.figure = figure;
        (self.tell)(figure);
    }

    fn add(
        &mut self,
        what: impl Into<String>,
        at: impl ToString,
        ours: f64,
        unit: &'static str,
        paper: &'static str,
    ) {
        self.wanted(what, at, ours, unit, [paper, ""]);
    }

    /// The paper's value, and what is wanted.
    fn wanted(
        &mut self,
        what: impl Into<String>,
        at: impl ToString,
        ours: f64,
        unit: &'static str,
        [paper, wanted]: [&'static str; 2],
    ) {
        let (what, at) = (what.into(), at.to_string());
        // As it comes: what was measured counts also if the run is stopped, or a service fails later.
        (self.tell)(&format!("{}: {what}, {at}: {ours:.4} {unit}", self.figure));
        self.lines.push(Line { figure: self.figure, what, at, ours, unit, paper, wanted });
    }
}

/// Measures all of it.
///
/// # Errors
/// [`BisenError`].
pub fn run(bench: &BisenBench, tell: &dyn Fn(&str)) -> Result<Vec<Line>, BisenError> {
    let mut lines = Lines { figure: "", lines: Vec::new(), tell };
    tell("texts");
    let texts = Texts::read(&bench.texts)?;
    let mut system = System::start(&bench.executables, Service::Memory, Channels::Attested)?;
    let mut loading = updates::Loading::new(&texts);
    // The paper's sizes are a thirteenth, a sixth, a third, three quarters, all.
    for part in [16, 4, 1] {
        updates::measure(&mut system, &mut loading, bench.pairs / part, &mut lines)?;
        searches::at_size(&mut system, &texts, loading.pairs(), bench.rounds, &mut lines)?;
    }
    searches::at_end(&mut system, &texts, bench.rounds, &mut lines)?;
    updates::storage(&mut system, &loading, &mut lines)?;
    drop(system);
    small::measure(bench, &texts, &mut lines)?;
    if bench.plain {
        channels::measure(bench, &texts, &mut lines)?;
    }
    services::measure(bench, &texts, &mut lines)?;
    // Sorted by what the paper has, as sizes come one after the other.
    let mut sorted = lines.lines;
    sorted.sort_by_key(|line| line.figure);
    Ok(sorted)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
