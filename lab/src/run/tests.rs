#![allow(clippy::unwrap_used)]

use super::*;
use crate::datasets::{Dataset, NumberType};
use crate::protocols;
use crate::queries::RangeQuery;

fn request(protocols: &[&str]) -> RunRequest {
    RunRequest {
        protocols: protocols.iter().map(|name| (*name).to_owned()).collect(),
        records: 300,
        queries: 12,
        query_share: 0.05,
        ..RunRequest::default()
    }
}

fn run_quietly(request: RunRequest) -> RunResult {
    let stop = AtomicBool::new(false);
    run(&request.plan().unwrap(), &Watch::new(&|_| {}, &stop))
}

fn errors(request: RunRequest) -> Vec<String> {
    request.plan().unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn every_protocol_answers_rightly_and_the_same_twice() {
    for protocol in protocols::ALL.iter().filter(|protocol| protocol.in_all) {
        let (one, other) = (run_quietly(request(&[protocol.name])), run_quietly(request(&[protocol.name])));
        let (one, other) = (&one.protocols[0], &other.protocols[0]);
        assert_eq!(one.ending, Ending::Finished, "{}", protocol.name);
        let stages: Vec<_> = one.stages.iter().map(|stage| (stage.stage, stage.operations)).collect();
        assert_eq!(stages, [(Stage::Construction, 300), (Stage::FirstQuery, 1), (Stage::Queries, 11)]);
        assert!(one.queries.iter().all(|query| query.results >= 15), "{}", protocol.name);
        for (one, other) in one.stages.iter().zip(&other.stages) {
            assert_eq!(one.cost.pages, other.cost.pages, "{}", protocol.name);
            assert_eq!(one.cost.traffic, other.cost.traffic, "{}", protocol.name);
            assert_eq!(one.cost.client_primitives, other.cost.client_primitives, "{}", protocol.name);
            assert_eq!(one.cost.server_primitives, other.cost.server_primitives, "{}", protocol.name);
        }
    }
}

#[test]
fn negative_values_and_wide_numbers_are_answered_rightly() {
    for numbers in [NumberType::I32, NumberType::I64] {
        for protocol in protocols::ALL.iter().filter(|protocol| protocol.in_all) {
            let request = RunRequest {
                data: Some(vec![-5, 3, -5, 0, 7, -2_000_000_000, 2_000_000_000, 3]),
                ranges: Some(vec![
                    RangeQuery { lower: -5, upper: 3 },
                    RangeQuery { lower: 8, upper: 9 },
                    RangeQuery { lower: i64::MIN, upper: i64::MAX },
                ]),
                dataset: Dataset::Supplied,
                records: 0,
                queries: 0,
                numbers,
                ..request(&[protocol.name])
            };
            let result = run_quietly(request);
            let result = &result.protocols[0];
            assert_eq!(result.ending, Ending::Finished, "{} {numbers:?}", protocol.name);
            assert_eq!(result.queries.iter().map(|query| query.results).collect::<Vec<_>>(), [5, 0, 8]);
        }
    }
}

#[test]
fn a_stopped_run_leaves_what_it_finished() {
    let stop = AtomicBool::new(false);
    let plan = request(&["plain"]).plan().unwrap();
    let result = run(
        &plan,
        &Watch::new(
            &|progress| {
                stop.store(progress.stage == Stage::Queries, Ordering::Relaxed);
            },
            &stop,
        ),
    );
    let protocol = &result.protocols[0];
    assert_eq!(protocol.ending, Ending::Stopped);
    assert_eq!(protocol.stage(Stage::Construction).unwrap().operations, 300);
    assert_eq!(protocol.stage(Stage::FirstQuery).unwrap().operations, 1);
    assert!(!result.finished());
}

#[test]
fn results_become_json_and_come_back() {
    let result = run_quietly(request(&["plain"]));
    let text = serde_json::to_string(&result).unwrap();
    assert_eq!(serde_json::from_str::<RunResult>(&text).unwrap(), result);
    let lines = result.json_lines();
    assert_eq!(lines.len(), 1);
    let line: serde_json::Value = serde_json::from_str(&lines[0]).unwrap();
    assert_eq!(line["request"]["seed"], 1);
    assert_eq!(line["result"]["protocol"], "plain");
    assert!(line["environment"]["commit"].is_string());
}

#[test]
fn every_mistake_is_named_by_its_field() {
    let wrong = RunRequest {
        protocols: vec!["plian".into()],
        cache_pages: 0,
        query_share: 0.0,
        records: 0,
        queries: 0,
        round_trip_us: u64::MAX,
        page_bytes: PAGE_BYTES_MAX + 1,
        ..RunRequest::default()
    };
    let fields: Vec<_> = wrong.plan().unwrap_err().into_iter().map(|error| error.field).collect();
    let expected =
        ["protocols", "cache_pages", "page_bytes", "round_trip_us", "query_share", "records", "queries"];
    assert_eq!(fields, expected);
}

#[test]
fn mistakes_are_told_in_words() {
    let base = || request(&["plain"]);
    let supplied = |data| RunRequest { dataset: Dataset::Supplied, data, records: 0, ..base() };
    for (request, expected) in [
        (
            RunRequest { page_bytes: 8, ..base() },
            "page_bytes: a page of 8 bytes is smaller than an entry: plain",
        ),
        (RunRequest { protocols: vec![], ..base() }, "protocols: choose at least one of: "),
        (RunRequest { query_share: f64::NAN, ..base() }, "query_share: a share of the data is above 0"),
        (
            RunRequest { data: Some(vec![1]), ..base() },
            "data: data comes with the data set \"supplied\" only",
        ),
        (supplied(None), "data: no data"),
        (supplied(Some(vec![])), "data: no values"),
        (supplied(Some(vec![1, 1 << 40])), "data: value 2, 1099511627776, is outside i32"),
        (RunRequest { records: 9, ..supplied(Some(vec![1])) }, "records: the data has 1 records"),
        (
            RunRequest { dataset: Dataset::RandIncome, records: 20_191, ..base() },
            "records: rand_income has 20190",
        ),
        (
            RunRequest { ranges: Some(vec![RangeQuery { lower: 2, upper: 1 }]), ..base() },
            "ranges: query 1: the lower bound is above the upper one",
        ),
        (RunRequest { records: RECORDS_MAX + 1, ..base() }, "records: at most 10000000 records"),
        (RunRequest { queries: QUERIES_MAX + 1, ..base() }, "queries: at most 1000000 queries"),
    ] {
        let errors = errors(request);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(errors[0].starts_with(expected), "{errors:?}");
    }
}

#[test]
fn unknown_fields_of_a_request_are_refused() {
    let known: RunRequest = serde_json::from_str(r#"{"records": 5, "dataset": "zipf"}"#).unwrap();
    assert_eq!((known.records, known.dataset, known.queries), (5, Dataset::Zipf, 100));
    assert!(serde_json::from_str::<RunRequest>(r#"{"recrods": 5}"#).is_err());
    assert!(serde_json::from_str::<RunRequest>(r#"{"dataset": "zapf"}"#).is_err());
}
