//! The comparative evaluation's tables and figures, measured here, each value beside the paper's.
//!
//! *Paper.* Bogatov, Kollios, Reyzin, *A comparative evaluation of order-revealing encryption schemes and secure
//! range-query protocols*, PVLDB 12(8), 2019: tables 3 and 4, figures 1 to 4.

mod cell;
mod figures;
mod jobs;
mod table3;
mod table4;
#[cfg(test)]
mod tests;

pub use cell::{Band, Cell, unexplained};
pub use figures::{Figure, figure1, figure2, figures3_and_4};
pub use jobs::{Jobs, Tell};
pub use table3::table3;
pub(crate) use table3::{
    CONSTRUCTION_BYTES, CONSTRUCTION_IO, CONSTRUCTION_MESSAGES, Evaluated, QUERY_BYTES, QUERY_IO,
    QUERY_MESSAGES, Row,
};
pub use table4::table4;

use crate::datasets::Dataset;
use crate::pages::CachePolicy;
use crate::protocols;
use crate::queries::QuerySize;
use crate::run::{FieldError, RunRequest, RunResult};
use clap::Args;
use std::path::PathBuf;

/// Arguments of `arras lab compare`.
#[derive(Args, Clone, Debug)]
pub struct CompareArguments {
    /// Number of records; the paper's by default. Fewer give a quick look: then not every ratio means something.
    #[arg(long, value_name = "N", default_value_t = PAPER_RECORDS)]
    pub records: usize,
    /// Number of queries.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub queries: usize,
    /// Everything random comes from it.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Protocols run at once.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub workers: usize,
    /// Only these protocols, separated by commas.
    #[arg(long, value_name = "NAME[,NAME..]", value_delimiter = ',')]
    pub protocol: Vec<String>,
    /// Draw figures 1 to 4 into this directory (as many records again, several times).
    #[arg(long, value_name = "DIR")]
    pub figures: Option<PathBuf>,
    /// Print JSON lines in place of tables.
    #[arg(long)]
    pub json: bool,
}

/// Records of the paper's runs.
pub const PAPER_RECORDS: usize = 247_000;

/// Data sets of the comparison; the paper's table shows the last, on real salaries.
pub const DATASETS: [Dataset; 3] = [Dataset::Uniform, Dataset::Normal, Dataset::Salaries];

impl CompareArguments {
    /// The protocols asked for.
    #[must_use]
    pub fn protocols(&self) -> Vec<String> {
        if !self.protocol.is_empty() {
            return self.protocol.clone();
        }
        // Those of the paper; of the B+ tree over CLOZ it ran a stub.
        let compared = protocols::ALL.iter().filter(|protocol| protocol.table3.is_some());
        compared.map(|protocol| protocol.name.to_owned()).collect()
    }

    /// The run of section 5.3.3 on a data set: pages of 4 KiB, a cache of 128, queries of 0.5 %.
    #[must_use]
    pub fn request(&self, dataset: Dataset) -> RunRequest {
        RunRequest {
            protocols: self.protocols(),
            records: self.records,
            queries: self.queries,
            dataset,
            query_share: 0.005,
            query_size: QuerySize::Values,
            seed: self.seed,
            page_bytes: 4096,
            cache_pages: 128,
            cache_policy: CachePolicy::Lru,
            ..RunRequest::default()
        }
    }

    /// Runs everything of table 3.
    ///
    /// # Errors
    /// What cannot be run, by field.
    pub fn run(&self, jobs: &Jobs<'_>) -> Result<Vec<RunResult>, Vec<FieldError>> {
        jobs.run(DATASETS.iter().map(|dataset| self.request(*dataset)).collect())
    }
}
