//! The form of the page, checked field by field.

use super::Limits;
use crate::datasets::{self, Column, Dataset, Decimals, NumberType};
use crate::pages::CachePolicy;
use crate::queries::QuerySize;
use crate::run::{ALL_PROTOCOLS, ChannelKind, FieldError, Plan, RunRequest, StoreKind};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// What the page sends: a JSON object whose fields are those of [`RunRequest`], but for `data` and `ranges`, which are
/// texts as a person pastes them.
struct Fields<'a> {
    values: &'a Map<String, Value>,
    errors: Vec<FieldError>,
}

impl Fields<'_> {
    fn wrong(&mut self, field: &str, message: impl Into<String>) {
        self.errors.push(FieldError { field: field.to_owned(), message: message.into() });
    }

    /// The value of a field, or `otherwise` if it is not there; a wrong one is noted as not being `what`.
    fn take<T: DeserializeOwned>(&mut self, field: &str, otherwise: T, what: &str) -> T {
        match self.values.get(field) {
            None => otherwise,
            Some(value) => serde_json::from_value(value.clone()).unwrap_or_else(|_| {
                let shown: String = value.to_string().chars().take(40).collect();
                self.wrong(field, format!("{shown} is not {what}"));
                otherwise
            }),
        }
    }

    fn text(&mut self, field: &str) -> Option<String> {
        let text = self.take(field, String::new(), "a text");
        (!text.trim().is_empty()).then_some(text)
    }
}

const KNOWN: [&str; 17] = [
    "cache_pages",
    "cache_policy",
    "channel",
    "data",
    "dataset",
    "decimals",
    "numbers",
    "page_bytes",
    "protocols",
    "queries",
    "query_share",
    "query_size",
    "ranges",
    "records",
    "round_trip_us",
    "seed",
    "store",
];

/// The plan of a form, or every mistake in it.
pub(super) fn plan(values: &Map<String, Value>, limits: &Limits) -> Result<Plan, Vec<FieldError>> {
    let mut fields = Fields { values, errors: Vec::new() };
    for unknown in values.keys().filter(|name| !KNOWN.contains(&name.as_str())) {
        fields.wrong(unknown, "there is no such field");
    }
    let request = request(&mut fields);
    bound(&request, limits, &mut fields);
    let Fields { mut errors, .. } = fields;
    // A field that was wrong already is not complained of twice.
    match request.plan() {
        Ok(plan) if errors.is_empty() => Ok(plan),
        Ok(_) => Err(errors),
        Err(more) => {
            let new: Vec<_> = more
                .into_iter()
                .filter(|error| !errors.iter().any(|known| known.field == error.field))
                .collect();
            errors.extend(new);
            Err(errors)
        }
    }
}

fn request(fields: &mut Fields<'_>) -> RunRequest {
    let usual = RunRequest::default();
    let number = "a whole number of 0 or more";
    let mut request = RunRequest {
        protocols: fields.take("protocols", vec![], "a list of protocols"),
        records: fields.take("records", usual.records, number),
        queries: fields.take("queries", usual.queries, number),
        dataset: fields.take("dataset", Dataset::default(), "a data set there is"),
        data: None,
        ranges: None,
        query_share: fields.take("query_share", usual.query_share, "a number"),
        query_size: fields.take("query_size", QuerySize::default(), "records or values"),
        numbers: fields.take("numbers", NumberType::default(), "i32, u32, i64 or u64"),
        seed: fields.take("seed", usual.seed, number),
        page_bytes: fields.take("page_bytes", usual.page_bytes, number),
        cache_pages: fields.take("cache_pages", usual.cache_pages, number),
        cache_policy: fields.take("cache_policy", CachePolicy::default(), "lru, lfu or fifo"),
        store: fields.take("store", StoreKind::default(), "memory or embedded"),
        channel: fields.take("channel", ChannelKind::default(), "direct or network"),
        round_trip_us: fields.take("round_trip_us", 0, number),
    };
    let decimals = Decimals(fields.take("decimals", 0_u8, "a number of digits").min(9));
    if request.dataset == Dataset::Supplied {
        let text = fields.text("data").unwrap_or_default();
        match datasets::import_data("data", text.as_bytes(), &Column::Only, request.numbers, decimals) {
            Ok(data) => request.data = Some(data),
            Err(error) => fields.wrong("data", located(&error)),
        }
    }
    if let Some(text) = fields.text("ranges") {
        match datasets::import_queries("ranges", text.as_bytes(), request.numbers, decimals) {
            Ok(ranges) => request.ranges = Some(ranges),
            Err(error) => fields.wrong("ranges", located(&error)),
        }
    }
    request
}

/// An error of a pasted text, without a file's name.
fn located(error: &datasets::ImportError) -> String {
    match (error.line, error.column) {
        (Some(line), Some(column)) => format!("line {line}, column {column}: {}", error.what),
        (Some(line), None) => format!("line {line}: {}", error.what),
        _ => error.what.clone(),
    }
}

fn bound(request: &RunRequest, limits: &Limits, fields: &mut Fields<'_>) {
    let records = request.data.as_ref().map_or(request.records, Vec::len);
    let queries = request.ranges.as_ref().map_or(request.queries, Vec::len);
    let slow = request
        .protocols
        .iter()
        .filter(|name| *name != ALL_PROTOCOLS)
        .find(|name| crate::protocols::named(name).is_some_and(|protocol| !protocol.in_all));
    match slow {
        Some(name) if records > limits.slow_records_max => {
            let most = limits.slow_records_max;
            fields.wrong(
                "records",
                format!("at most {most} records with {name}: it takes most of a second to compare two"),
            );
        }
        _ if records > limits.records_max => {
            fields.wrong(
                "records",
                format!("at most {} records here; the command line takes more", limits.records_max),
            );
        }
        _ => {}
    }
    if queries > limits.queries_max {
        fields.wrong(
            "queries",
            format!("at most {} queries here; the command line takes more", limits.queries_max),
        );
    }
}
