//! What to run, and whether it can be run.

use crate::datasets::{Dataset, NumberType};
use crate::pages::CachePolicy;
use crate::protocols::{self, ProtocolEntry};
use crate::queries::{self, QuerySize, RangeQuery};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Most records of a run.
pub const RECORDS_MAX: usize = 10_000_000;
/// Most queries of a run.
pub const QUERIES_MAX: usize = 1_000_000;
/// Largest page, in bytes.
pub const PAGE_BYTES_MAX: usize = 1 << 20;
/// Longest round trip, in microseconds.
pub const ROUND_TRIP_US_MAX: u64 = 10_000_000;
/// Stands for every protocol but those too slow to run unasked.
pub const ALL_PROTOCOLS: &str = "all";

/// Where the server keeps what it stores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// On the disk, in a scratch directory.
    Embedded,
    /// In memory.
    #[default]
    Memory,
}

/// How the two halves are connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelKind {
    /// In one process, on one thread.
    #[default]
    Direct,
    /// Over TLS to an `arras-server` of its own, which stores on the disk. Its page I/O and its primitive calls are
    /// not to be seen from here.
    Network,
}

/// What to run. Everything has a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunRequest {
    /// Names of protocols, or [`ALL_PROTOCOLS`].
    pub protocols: Vec<String>,
    /// How many records; with `data`, how many of those, from the first; 0 for all of them.
    pub records: usize,
    /// How many queries; with `ranges`, how many of those, from the first; 0 for all of them.
    pub queries: usize,
    /// Where the values come from.
    pub dataset: Dataset,
    /// The values, for [`Dataset::Supplied`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Vec<i64>>,
    /// The queries, if they are not to be generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranges: Option<Vec<RangeQuery>>,
    /// Share of the data's size a generated query is of, 0 to 1.
    pub query_share: f64,
    /// What that is a share of.
    pub query_size: QuerySize,
    /// Which numbers the values are of.
    pub numbers: NumberType,
    /// Everything random comes from it.
    pub seed: u64,
    /// Size of a page, in bytes.
    pub page_bytes: usize,
    /// Pages in the server's cache.
    pub cache_pages: usize,
    /// Which page leaves it.
    pub cache_policy: CachePolicy,
    /// Where the server keeps what it stores.
    pub store: StoreKind,
    /// How the two halves are connected.
    pub channel: ChannelKind,
    /// Added to every call, in microseconds.
    pub round_trip_us: u64,
}

impl Default for RunRequest {
    fn default() -> Self {
        Self {
            protocols: vec![ALL_PROTOCOLS.to_owned()],
            records: 10_000,
            queries: 100,
            dataset: Dataset::default(),
            data: None,
            ranges: None,
            query_share: 0.005,
            query_size: QuerySize::default(),
            numbers: NumberType::default(),
            seed: 1,
            page_bytes: 4096,
            cache_pages: 128,
            cache_policy: CachePolicy::default(),
            store: StoreKind::default(),
            channel: ChannelKind::default(),
            round_trip_us: 0,
        }
    }
}

/// What is wrong with a field of a [`RunRequest`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{field}: {message}")]
pub struct FieldError {
    /// The field's name.
    pub field: String,
    /// What is wrong, for a person.
    pub message: String,
}

/// A request that was found good, with its data and queries.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The request, without the data and ranges that were supplied.
    pub request: RunRequest,
    /// The protocols, in the order asked for, each once.
    pub protocols: Vec<&'static ProtocolEntry>,
    /// The records' values, in the order in which they come.
    pub values: Vec<i64>,
    /// The queries.
    pub queries: Vec<RangeQuery>,
}

impl Plan {
    /// The round trip to add to every call.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        Duration::from_micros(self.request.round_trip_us)
    }
}

struct Errors(Vec<FieldError>);

impl Errors {
    fn add(&mut self, field: &str, message: impl Into<String>) {
        self.0.push(FieldError { field: field.to_owned(), message: message.into() });
    }
}

impl RunRequest {
    /// Checks everything and makes the data and the queries, before any work starts.
    ///
    /// # Errors
    /// Every mistake, by field.
    pub fn plan(mut self) -> Result<Plan, Vec<FieldError>> {
        let mut errors = Errors(Vec::new());
        let protocols = self.chosen_protocols(&mut errors);
        self.check_sizes(&protocols, &mut errors);
        let values = self.take_values(&mut errors);
        let queries = self.take_queries(&values, &mut errors);
        if errors.0.is_empty() {
            (self.records, self.queries) = (values.len(), queries.len());
            Ok(Plan { request: self, protocols, values, queries })
        } else {
            Err(errors.0)
        }
    }

    fn chosen_protocols(&self, errors: &mut Errors) -> Vec<&'static ProtocolEntry> {
        let mut chosen: Vec<&'static ProtocolEntry> = Vec::new();
        for name in &self.protocols {
            let found: Vec<_> = if name == ALL_PROTOCOLS {
                protocols::ALL.iter().filter(|protocol| protocol.in_all).collect()
            } else {
                protocols::named(name).into_iter().collect()
            };
            if found.is_empty() {
                let known = protocols::names();
                errors.add("protocols", format!("no protocol is named {name}; there are: {known}, all"));
            }
            for protocol in found {
                if !chosen.iter().any(|other| other.name == protocol.name) {
                    chosen.push(protocol);
                }
            }
        }
        if self.protocols.is_empty() {
            errors.add("protocols", format!("choose at least one of: {}, all", protocols::names()));
        }
        chosen
    }

    fn check_sizes(&self, protocols: &[&ProtocolEntry], errors: &mut Errors) {
        if self.cache_pages == 0 {
            errors.add("cache_pages", "a cache of no page: at least 1");
        }
        let least = |protocol: &&&ProtocolEntry| (protocol.page_bytes_min)(self.numbers.domain().width);
        if self.page_bytes > PAGE_BYTES_MAX {
            errors.add("page_bytes", format!("{} bytes: at most {PAGE_BYTES_MAX}", self.page_bytes));
        } else if let Some(protocol) = protocols.iter().max_by_key(least)
            && self.page_bytes < least(&protocol)
        {
            let least = least(&protocol);
            let message = format!(
                "a page of {} bytes is smaller than an entry: {} needs at least {least}",
                self.page_bytes, protocol.name
            );
            errors.add("page_bytes", message);
        }
        if self.round_trip_us > ROUND_TRIP_US_MAX {
            errors.add("round_trip_us", format!("at most {ROUND_TRIP_US_MAX} microseconds"));
        }
        if !(self.query_share > 0.0 && self.query_share <= 1.0) {
            errors.add("query_share", "a share of the data is above 0 and at most 1 (100 %)");
        }
    }

    fn take_values(&mut self, errors: &mut Errors) -> Vec<i64> {
        let supplied = self.dataset == Dataset::Supplied;
        let mut values = match (self.data.take(), supplied) {
            (Some(data), true) => data,
            (None, false) => {
                match self.dataset.records_max() {
                    Some(most) if self.records > most => {
                        errors.add("records", format!("{} has {most} records", self.dataset.name()));
                    }
                    _ if self.records == 0 => errors.add("records", "at least 1 record"),
                    _ => {}
                }
                // Drawn only if it is going to be used.
                let records = if self.records <= RECORDS_MAX { self.records } else { 1 };
                self.dataset.values(records, self.seed)
            }
            (Some(_), false) => {
                errors.add("data", "data comes with the data set \"supplied\" only");
                return Vec::new();
            }
            (None, true) => {
                errors.add("data", "no data: supply some, or choose a data set");
                return Vec::new();
            }
        };
        if supplied && self.records > values.len() {
            errors.add("records", format!("the data has {} records", values.len()));
        }
        if supplied && self.records > 0 {
            values.truncate(self.records);
        }
        if values.len() > RECORDS_MAX || self.records > RECORDS_MAX {
            errors.add("records", format!("at most {RECORDS_MAX} records"));
        }
        if supplied && values.is_empty() {
            errors.add("data", "no values");
        }
        if let Some(at) = values.iter().position(|value| !self.numbers.holds(*value)) {
            let (least, greatest) = self.numbers.domain().limits();
            let (line, value, name) = (at + 1, values[at], self.numbers.name());
            errors.add("data", format!("value {line}, {value}, is outside {name} ({least} to {greatest})"));
        }
        values
    }

    fn take_queries(&mut self, values: &[i64], errors: &mut Errors) -> Vec<RangeQuery> {
        let mut ranges = match self.ranges.take() {
            Some(ranges) => ranges,
            None if self.queries == 0 => {
                errors.add("queries", "at least 1 query");
                return Vec::new();
            }
            None if self.queries > QUERIES_MAX => Vec::new(),
            None => queries::generate(values, self.query_share, self.query_size, self.queries, self.seed),
        };
        if ranges.len() > QUERIES_MAX || self.queries > QUERIES_MAX {
            errors.add("queries", format!("at most {QUERIES_MAX} queries"));
        }
        if let Some(at) = ranges.iter().position(|range| range.lower > range.upper) {
            errors.add("ranges", format!("query {}: the lower bound is above the upper one", at + 1));
        }
        if self.queries > 0 {
            ranges.truncate(self.queries);
        }
        ranges.into_iter().map(|range| self.numbers.clamp(range)).collect()
    }
}
