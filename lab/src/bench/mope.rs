//! The evaluation of the mOPE paper (Popa, Li and Zeldovich, S&P 2013, section X), on ours: its figures 8 to 12, storage,
//! rounds, and what a change of labels comes to; and in a PostgreSQL of its own figure 13, and for how long changes of labels last.
//!
//! Beside each of our values stands what the paper's text says, where it says a number; absolute ones are of its machine (2009,
//! one core, C++), ratios are to be compared. Ours are of one thread, client half and keeper in one process, encodings of 64 bits.

mod clocked;
mod database;
mod keeper;
mod latency;
mod pauses;
mod pyope;
mod queries;
mod rewrites;
mod throughput;
mod trace;
mod wanted;

use crate::private_postgres::PostgresError;
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::ChannelError;
use arras_schemes::IndexError;
use arras_schemes::mope::{Form, Kind, Settings, Tree};
use arras_schemes::random::Randomness;
use keeper::Keeper;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;
pub use wanted::Wanted;

/// What is measured, and on how much.
#[derive(Clone, Debug)]
pub struct MopeBench {
    /// Values of the largest tree.
    pub values: usize,
    /// Callers at the same time where callers are many (the paper: 5,000).
    pub callers: usize,
    /// Everything random comes from it.
    pub seed: u64,
    /// A Python that has the package `pyope`, to be measured in the same run.
    pub pyope: Option<PathBuf>,
    /// What takes a PostgreSQL, too: one of its own.
    pub postgres: bool,
    /// Only figures whose names begin so; all if there are none.
    pub figures: Vec<String>,
}

impl MopeBench {
    /// True if a figure is asked for.
    fn has(&self, figure: &str) -> bool {
        self.figures.is_empty() || self.figures.iter().any(|asked| figure.starts_with(asked))
    }
}

/// One value.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// The paper's figure, or its section.
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
    /// What is wanted of it, if anything: at the largest sizes.
    pub wanted: Option<Wanted>,
}

impl Line {
    /// Is it what is wanted?
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.wanted.is_none_or(|wanted| wanted.holds(self.ours))
    }
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum MopeError {
    /// A tree failed.
    #[error(transparent)]
    Tree(#[from] IndexError),
    /// There is no runtime to be had, or Python cannot be run.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// Python said something else than a number.
    #[error("pyope: {0}")]
    Python(String),
    /// PostgreSQL does not run.
    #[error(transparent)]
    Server(#[from] PostgresError),
    /// A statement failed.
    #[error("a statement failed: {0}")]
    Statement(#[from] tokio_postgres::Error),
    /// The tables of trees could not be made or used.
    #[error("the database: {0}")]
    Database(String),
}

impl From<ChannelError> for MopeError {
    fn from(error: ChannelError) -> Self {
        Self::Tree(error.into())
    }
}

/// Lines, as they are measured.
struct Lines<'a> {
    figure: &'static str,
    lines: Vec<Line>,
    tell: &'a dyn Fn(&str),
}

impl Lines<'_> {
    /// Begins a figure, if it is asked for.
    fn begin(&mut self, bench: &MopeBench, figure: &'static str) -> bool {
        if bench.has(figure) {
            self.figure = figure;
            (self.tell)(figure);
        }
        bench.has(figure)
    }

    fn add(
        &mut self,
        what: impl Into<String>,
        at: impl ToString,
        ours: f64,
        unit: &'static str,
        paper: &'static str,
    ) {
        let (what, at) = (what.into(), at.to_string());
        let wanted = wanted::of(self.figure, &what, &at);
        self.lines.push(Line { figure: self.figure, what, at, ours, unit, paper, wanted });
    }
}

/// Measures all of it.
///
/// # Errors
/// [`MopeError`].
pub fn run(bench: &MopeBench, tell: &dyn Fn(&str)) -> Result<Vec<Line>, MopeError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut lines = Lines { figure: "", lines: Vec::new(), tell };
        if lines.begin(bench, "8, single values") {
            throughput::single(bench, &mut lines).await?;
        }
        if lines.begin(bench, "9, batches") {
            throughput::batches(bench, &mut lines).await?;
        }
        if lines.begin(bench, "10, longer values") {
            throughput::sizes(bench, &mut lines).await?;
        }
        if lines.begin(bench, "11, a network") {
            latency::measure(bench, &mut lines).await?;
        }
        if lines.begin(bench, "12, rewrites") {
            rewrites::measure(bench, &mut lines).await?;
        }
        if lines.begin(bench, "storage, rounds") {
            throughput::storage(bench, &mut lines).await?;
        }
        if bench.postgres && lines.begin(bench, "13, SQL queries") {
            queries::measure(bench, &mut lines).await?;
        }
        if bench.postgres && lines.begin(bench, "pauses in PostgreSQL") {
            pauses::measure(bench, &mut lines).await?;
        }
        Ok(lines.lines)
    })
}

fn key() -> Key {
    Key::take_from(&mut [7; 32])
}

/// A tree of values of so many bytes.
fn open<S: arras_protocol::mope::TreeStore>(
    keeper: S,
    bytes: u16,
    verified: bool,
) -> Result<Tree<S>, IndexError> {
    let settings = Settings { form: Form::Fixed(bytes), kind: Kind::Mope, verified };
    Tree::open(keeper, &key(), settings, None, Randomness::default())
}

/// In which order values come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Random,
    Sequential,
}

impl Order {
    fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Sequential => "sequential",
        }
    }

    /// So many values of so many bytes each.
    fn values(self, count: usize, bytes: usize, seed: u64) -> Vec<Vec<u8>> {
        let mut prg = Prg::new(&u128::from(seed).to_be_bytes());
        let value = |number: u64, prg: &mut Prg| {
            let mut value = vec![0; bytes];
            match self {
                Self::Random => value.fill_with(|| prg.next_u64() as u8),
                Self::Sequential => {
                    let digits = number.to_be_bytes();
                    let length = bytes.min(digits.len());
                    value[bytes - length..].copy_from_slice(&digits[digits.len() - length..]);
                }
            }
            value
        };
        (1..=count as u64).map(|number| value(number, &mut prg)).collect()
    }
}

/// Powers of ten from one on up to a number.
fn tens(from: usize, until: usize) -> impl Iterator<Item = usize> {
    std::iter::successors(Some(from), |size| size.checked_mul(10)).take_while(move |size| *size <= until)
}

/// Enters values one by one; how many a second.
async fn one_by_one(tree: &Tree<Keeper>, values: &[Vec<u8>]) -> Result<f64, IndexError> {
    let start = Instant::now();
    for value in values {
        tree.encode(std::slice::from_ref(value)).await?;
    }
    Ok(values.len() as f64 / start.elapsed().as_secs_f64())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn small() -> MopeBench {
        MopeBench { values: 1000, callers: 40, seed: 3, pyope: None, postgres: false, figures: Vec::new() }
    }

    #[test]
    fn pauses_are_measured_in_a_postgresql() {
        let lines = run(&MopeBench { postgres: true, figures: vec!["pauses".into()], ..small() }, &|_| {});
        let lines = lines.unwrap();
        assert_eq!(lines.len(), 32, "{lines:#?}");
        let (changes, worst) = (lines[0].ours, lines[4].ours);
        assert!(changes > 0.0 && worst > 0.0, "{lines:#?}");
    }

    #[test]
    fn queries_with_and_without_updates_are_measured_in_a_postgresql() {
        let lines = run(&MopeBench { postgres: true, figures: vec!["13".into()], ..small() }, &|_| {});
        let lines = lines.unwrap();
        assert_eq!(lines.len(), 2 * 2 * 2 * 4, "{lines:#?}");
        let rates: Vec<f64> =
            lines.iter().filter(|line| line.unit == "queries/s").map(|line| line.ours).collect();
        assert!(rates.len() == 16 && rates.iter().all(|rate| *rate > 0.0), "{lines:#?}");
    }

    #[test]
    fn every_figure_has_values() {
        let bench = small();
        let lines = run(&bench, &|_| {}).unwrap();
        let of = |figure: &str, what: &str| -> Vec<f64> {
            let found =
                lines.iter().filter(|line| line.figure.starts_with(figure) && line.what.contains(what));
            found.map(|line| line.ours).collect()
        };
        let counts = ["8", "9", "10", "11", "12", "storage"].map(|figure| of(figure, "").len());
        assert_eq!(counts, [15, 10, 11, 10, 24, 8], "{lines:#?}");
        assert!(lines.iter().all(|line| line.ours.is_finite() || line.what == "the paper's BCLO"));
        assert!(["8", "9", "10"].iter().all(|figure| of(figure, "mOPE").iter().all(|rate| *rate > 0.0)));
        assert!(of("11", "").iter().all(|rate| *rate > 0.0), "{lines:#?}");
        assert_eq!(of("12", "our tree, random, mean"), [0.0]);
        let paths = [of("12", "of paths, random, mean"), of("12", "of paths, sequential, mean")];
        assert!(paths[0][0] > 1.0 && paths[0][0] < 4.0 && paths[1] < paths[0], "{paths:?}");
        assert!(of("12", "the median: labels rewritten")[0] > 0.0);
        assert_eq!(of("storage", "warm"), [1.0, 1.0]);
    }

    #[test]
    fn pyope_is_measured_by_what_it_prints() {
        let missing = pyope::milliseconds(std::path::Path::new("/nowhere/python"));
        assert!(matches!(missing, Err(MopeError::Io(_))));
        let other = pyope::milliseconds(std::path::Path::new("/bin/false"));
        assert!(matches!(other, Err(MopeError::Python(_))));
    }
}
