//! `arras lab attack`.

use super::run::{one_of, read, shown};
use super::{Failure, check_plot, ended, print, stop_flag, table, write_file};
use crate::attacks::{
    self, AttackEnding, AttackProgress, AttackRequest, AttackWatch, Auxiliary, Extremes, NO_GROUP,
};
use crate::datasets::{Column, Dataset, Decimals, NumberType, import_data, import_groups};
use crate::plots;
use clap::Args;
use indicatif::ProgressBar;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The default of `--auxiliary`.
const SAME_DISTRIBUTION: &str = "same-distribution";

/// Arguments of `arras lab attack`.
#[derive(Args, Debug)]
pub struct AttackArguments {
    /// Attacks, separated by commas, or `all`.
    #[arg(long, value_name = "NAME[,NAME..]", value_delimiter = ',', required = true)]
    pub attack: Vec<String>,
    /// Protocols, separated by commas, or `all` (every one but bplus_cloz, whose comparisons take long). Only those an
    /// attack works against are attacked.
    #[arg(long, value_name = "NAME[,NAME..]", value_delimiter = ',', default_value = "all")]
    pub protocol: Vec<String>,
    /// Number of records; with --data all there are if not given.
    #[arg(long, value_name = "N")]
    pub records: Option<usize>,
    /// Data set: uniform, normal, salaries, zipf or rand_income.
    #[arg(long, value_name = "NAME", conflicts_with = "data")]
    pub dataset: Option<String>,
    /// Take the values from this table (CSV).
    #[arg(long, value_name = "FILE")]
    pub data: Option<PathBuf>,
    /// Column of the tables, by number (from 1) or name; needed if they have several.
    #[arg(long, value_name = "COLUMN")]
    pub column: Option<String>,
    /// Digits after the point to keep: 12.5 becomes 1250 with 2.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub decimals: u8,
    /// What the attacker knows of the values: a table (CSV), or `same-distribution`: a fresh sample of a generated
    /// set; of --data and rand_income a random half, which is not attacked (--group).
    #[arg(long, value_name = "FILE", default_value = SAME_DISTRIBUTION)]
    pub auxiliary: String,
    /// Whose rows stay together when data are split into the attacked and the attacker's half: a column of the table
    /// of --data, by number or name; `person` or `family` of rand_income (person if not given); `none`: row by row.
    #[arg(long, value_name = "COLUMN")]
    pub group: Option<String>,
    /// Where attackers have the least and the greatest value from: `records` (they are told the records'), `auxiliary`
    /// (those of the auxiliary data), `type` (nowhere: all that --numbers holds).
    #[arg(long, value_name = "SOURCE", default_value = "records")]
    pub extremes: String,
    /// Number of queries that are watched.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub queries: usize,
    /// Which numbers the values are of: i32, u32, i64 or u64.
    #[arg(long, value_name = "TYPE", default_value = "i32")]
    pub numbers: String,
    /// Everything random comes from it.
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Size of a page, in bytes.
    #[arg(long, value_name = "N", default_value_t = 4096)]
    pub page_bytes: usize,
    /// Print JSON lines, one an attack against a protocol, in place of tables.
    #[arg(long)]
    pub json: bool,
    /// Draw rates beside the baseline's, and rates by the number of queries, into this file.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
}

/// Carries the command out.
pub(super) fn run(arguments: AttackArguments) -> Result<(), Failure> {
    let stop = stop_flag();
    let (json, plot) = (arguments.json, arguments.plot.clone());
    check_plot(plot.as_deref())?;
    let plan = arguments.request()?.plan().map_err(Failure::Fields)?;
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(200));
    let show = |progress: &AttackProgress| {
        let AttackProgress { attack, protocol, done, of } = progress;
        spinner.set_message(format!("{} of {of}: {attack} against {protocol}", done + 1));
    };
    let result = attacks::run(&plan, &AttackWatch::new(&show, &stop));
    spinner.finish_and_clear();
    for warning in &result.warnings {
        eprintln!("arras lab: warning: {warning}");
    }
    if json {
        print(&result.json_lines().join("\n"))?;
    } else {
        print(&table::of_attacks(&result))?;
    }
    if let Some(path) = plot {
        write_file(&path, &plots::of_attacks(&result)?)?;
    }
    let failed: Vec<String> = result
        .attacks
        .iter()
        .filter(|attack| matches!(attack.ending, AttackEnding::Failed(_)))
        .map(|attack| format!("{} against {}", attack.attack, attack.protocol))
        .collect();
    ended(&failed, &stop)
}

impl AttackArguments {
    /// What is asked for, files read and checked.
    fn request(self) -> Result<AttackRequest, Failure> {
        let defaults = AttackRequest::default();
        let numbers =
            one_of("numbers", &self.numbers, NumberType::named, &NumberType::ALL.map(NumberType::name))?;
        let column = self.column.as_deref().map(Column::parse).unwrap_or_default();
        let table = |path: &Path| -> Result<Vec<i64>, Failure> {
            Ok(import_data(&shown(path), &read(path)?, &column, numbers, Decimals(self.decimals))?)
        };
        let data = self.data.as_deref().map(table).transpose()?;
        let groups = |column: &str| -> Result<Option<Vec<u64>>, Failure> {
            let (Some(path), Some(values)) = (&self.data, &data) else { return Ok(None) };
            let column = Column::parse(column);
            Ok(Some(import_groups(&shown(path), &read(path)?, &column, values.len())?))
        };
        let grouping = self.group.as_deref().filter(|column| *column != NO_GROUP);
        let group_data = grouping.map(groups).transpose()?.flatten();
        let extremes =
            one_of("extremes", &self.extremes, Extremes::named, &Extremes::ALL.map(Extremes::name))?;
        let auxiliary_data = match self.auxiliary.as_str() {
            SAME_DISTRIBUTION => None,
            path => Some(table(Path::new(path))?),
        };
        let dataset = match (&self.dataset, &data) {
            (_, Some(_)) => Dataset::Supplied,
            (Some(name), None) => {
                one_of("dataset", name, Dataset::named, &Dataset::BUILT_IN.map(Dataset::name))?
            }
            (None, None) => defaults.dataset,
        };
        Ok(AttackRequest {
            attacks: self.attack,
            protocols: self.protocol,
            records: self.records.unwrap_or(if data.is_some() { 0 } else { defaults.records }),
            dataset,
            data,
            auxiliary: if auxiliary_data.is_some() { Auxiliary::Supplied } else { defaults.auxiliary },
            auxiliary_data,
            group: self.group,
            group_data,
            extremes,
            queries: self.queries,
            numbers,
            page_bytes: self.page_bytes,
            seed: self.seed,
        })
    }
}
