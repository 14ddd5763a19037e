//! `arras lab run`.

use super::{Failure, check_plot, ended, print, progress, stop_flag, table, write_file};
use crate::datasets::{Column, Dataset, Decimals, NumberType, import_data, import_queries};
use crate::pages::CachePolicy;
use crate::plots;
use crate::queries::QuerySize;
use crate::run::{self, ChannelKind, Ending, RunRequest, StoreKind, Watch};
use clap::Args;
use std::path::{Path, PathBuf};

/// Arguments of `arras lab run`.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// Protocols, separated by commas, or `all` (every one but bplus_cloz, whose comparisons take long).
    #[arg(long, value_name = "NAME[,NAME..]", value_delimiter = ',', required = true)]
    pub protocol: Vec<String>,
    /// Number of records; with --data all of them if not given.
    #[arg(long, value_name = "N")]
    pub records: Option<usize>,
    /// Number of queries; with --ranges all of them if not given.
    #[arg(long, value_name = "N")]
    pub queries: Option<usize>,
    /// Data set: uniform, normal, salaries, zipf or rand_income.
    #[arg(long, value_name = "NAME", conflicts_with = "data")]
    pub dataset: Option<String>,
    /// Take the values from this table (CSV).
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Column of the table, by number (from 1) or name; needed if it has several.
    #[arg(long, value_name = "COLUMN", requires = "data")]
    pub column: Option<String>,
    /// Digits after the point to keep: 12.5 becomes 1250 with 2.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub decimals: u8,
    /// Take the queries from this table (CSV), lower,upper on each line.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["query_share", "query_size"])]
    pub ranges: Option<PathBuf>,
    /// Which numbers the values are of: i32, u32, i64 or u64.
    #[arg(long, value_name = "TYPE", default_value = "i32")]
    pub numbers: String,
    /// Size of a query as a share of the data's size: 0.5% or 0.005.
    #[arg(long, value_name = "SHARE")]
    pub query_share: Option<String>,
    /// What that is a share of: records (each query finds so many) or values (each spans so many, as in the paper).
    #[arg(long, value_name = "WHAT")]
    pub query_size: Option<String>,
    /// Everything random comes from it.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Size of a page, in bytes.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub page_bytes: usize,
    /// Pages in the server's cache.
    #[arg(long, value_name = "N", default_value_t = 128)]
    pub cache_pages: usize,
    /// Which page leaves a full cache: lru, lfu or fifo.
    #[arg(long, value_name = "POLICY", default_value = "lru")]
    pub cache_policy: String,
    /// Where the server stores: memory or embedded (on the disk).
    #[arg(long, value_name = "STORE", default_value = "memory")]
    pub store: String,
    /// Run over TLS against an arras-server process started for this (page I/O is not seen then).
    #[arg(long)]
    pub server: bool,
    /// Add this to every call.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub round_trip_ms: u64,
    /// Print JSON lines, one a protocol, in place of tables.
    #[arg(long)]
    pub json: bool,
    /// Draw page I/O, messages and bytes into this file.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// Carries the command out.
pub(super) fn run(arguments: RunArguments) -> Result<(), Failure> {
    let stop = stop_flag();
    let (json, plot) = (arguments.json, arguments.plot.clone());
    check_plot(plot.as_deref())?;
    let plan = arguments.request()?.plan().map_err(Failure::Fields)?;
    let bar = progress::Bar::new();
    let show = |progress: &run::Progress| bar.show(progress);
    let result = run::run(&plan, &Watch::new(&show, &stop));
    drop(bar);
    if json {
        print(&result.json_lines().join("\n"))?;
    } else {
        print(&table::of_run(&result))?;
    }
    if let Some(path) = plot {
        write_file(&path, &plots::of_run(&result)?)?;
    }
    let failed: Vec<String> = result
        .protocols
        .iter()
        .filter(|protocol| matches!(protocol.ending, Ending::Failed(_)))
        .map(|protocol| protocol.protocol.clone())
        .collect();
    ended(&failed, &stop)
}

impl RunArguments {
    /// What is asked for, files read and checked.
    fn request(self) -> Result<RunRequest, Failure> {
        let defaults = RunRequest::default();
        let numbers =
            one_of("numbers", &self.numbers, NumberType::named, &NumberType::ALL.map(NumberType::name))?;
        let decimals = Decimals(self.decimals);
        let ranges = match &self.ranges {
            Some(path) => Some(import_queries(&shown(path), &read(path)?, numbers, decimals)?),
            None => None,
        };
        let column = self.column.as_deref().map(Column::parse).unwrap_or_default();
        let data = match &self.data {
            Some(path) => Some(import_data(&shown(path), &read(path)?, &column, numbers, decimals)?),
            None => None,
        };
        let dataset = match (&self.dataset, &data) {
            (_, Some(_)) => Dataset::Supplied,
            (Some(name), None) => {
                one_of("dataset", name, Dataset::named, &Dataset::BUILT_IN.map(Dataset::name))?
            }
            (None, None) => defaults.dataset,
        };
        let query_share = match &self.query_share {
            Some(text) => share(text)?,
            None => defaults.query_share,
        };
        let sizes = [QuerySize::Records, QuerySize::Values];
        let stores = [("memory", StoreKind::Memory), ("embedded", StoreKind::Embedded)];
        let store = |name: &str| stores.iter().find(|(known, _)| *known == name).map(|(_, store)| *store);
        Ok(RunRequest {
            protocols: self.protocol,
            records: self.records.unwrap_or(if data.is_some() { 0 } else { defaults.records }),
            queries: self.queries.unwrap_or(if ranges.is_some() { 0 } else { defaults.queries }),
            dataset,
            data,
            ranges,
            query_share,
            query_size: match &self.query_size {
                Some(name) => one_of(
                    "query-size",
                    name,
                    |name| sizes.into_iter().find(|size| size.name() == name),
                    &sizes.map(QuerySize::name),
                )?,
                None => defaults.query_size,
            },
            numbers,
            seed: self.seed,
            page_bytes: self.page_bytes,
            cache_pages: self.cache_pages,
            cache_policy: one_of(
                "cache-policy",
                &self.cache_policy,
                |name| CachePolicy::ALL.into_iter().find(|policy| policy.name() == name),
                &CachePolicy::ALL.map(CachePolicy::name),
            )?,
            store: one_of("store", &self.store, store, &["memory", "embedded"])?,
            channel: if self.server { ChannelKind::Network } else { ChannelKind::Direct },
            round_trip_us: self.round_trip_ms.saturating_mul(1000),
        })
    }
}

/// The value of an option that has a few.
pub(super) fn one_of<T>(
    option: &str,
    given: &str,
    named: impl Fn(&str) -> Option<T>,
    known: &[&str],
) -> Result<T, Failure> {
    named(given).ok_or_else(|| Failure::Usage(format!("--{option} {given}: there are: {}", known.join(", "))))
}

/// `0.5%` or `0.005`.
fn share(text: &str) -> Result<f64, Failure> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(number) => (number, 100.0),
        None => (text, 1.0),
    };
    let share = number.trim().parse::<f64>().ok().map(|number| number / scale);
    share.filter(|share| *share > 0.0 && *share <= 1.0).ok_or_else(|| {
        Failure::Usage(format!(
            "--query-share {text}: a share such as 0.5% or 0.005, above 0 and at most 100%"
        ))
    })
}

pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|source| Failure::Io { path: path.to_path_buf(), source })
}
