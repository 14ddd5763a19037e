//! What the page asks for while it runs.

use super::form;
use super::queue::{Job, Phase, Queue};
use crate::datasets::{Dataset, NumberType};
use crate::pages::CachePolicy;
use crate::plots;
use crate::protocols;
use crate::run::{RunRequest, RunResult};
use arras_protocol::leakage::Pattern;
use arras_protocol::ore::Width;
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

type Jobs = State<Arc<Queue>>;

/// Longest wait for news of a run; the page asks again then.
const NEWS_WAIT: Duration = Duration::from_secs(10);

/// Least time between two pieces of news.
const NEWS_STEP: Duration = Duration::from_millis(100);

/// A mistake that is not of one field.
fn wrong(status: StatusCode, message: &str) -> Response {
    (status, Json(json!({ "message": message }))).into_response()
}

fn no_run() -> Response {
    wrong(StatusCode::NOT_FOUND, "there is no such run; only the newest are kept, and none after a restart")
}

/// What can be chosen.
pub(super) async fn options(State(queue): Jobs) -> Json<Value> {
    let protocols: Vec<Value> = protocols::ALL
        .iter()
        .map(|protocol| {
            let worst = (protocol.leakage)(Width::Bits32).worst().map(Pattern::describe);
            json!({ "name": protocol.name, "title": protocol.title, "in_all": protocol.in_all, "worst": worst })
        })
        .collect();
    let datasets: Vec<Value> = Dataset::BUILT_IN
        .into_iter()
        .chain([Dataset::Supplied])
        .map(|dataset| {
            json!({ "name": dataset.name(), "title": dataset.describe(), "records_max": dataset.records_max() })
        })
        .collect();
    let numbers: Vec<&str> = NumberType::ALL.into_iter().map(NumberType::name).collect();
    Json(json!({
        "protocols": protocols,
        "datasets": datasets,
        "numbers": numbers,
        "cache_policies": CachePolicy::ALL,
        "defaults": RunRequest::default(),
        "limits": {
            "records": queue.limits.records_max,
            "queries": queue.limits.queries_max,
            "run_seconds": queue.limits.run_time_max.as_secs(),
            "queue": queue.limits.queue_max,
        },
    }))
}

/// What each protocol leaks.
pub(super) async fn leakage() -> Json<Value> {
    let words = |patterns: &[Pattern]| patterns.iter().map(|pattern| pattern.describe()).collect::<Vec<_>>();
    let rows: Vec<Value> = protocols::ALL
        .iter()
        .map(|protocol| {
            let leakage = (protocol.leakage)(Width::Bits32);
            json!({
                "name": protocol.name,
                "title": protocol.title,
                "snapshot": words(leakage.snapshot),
                "search": words(leakage.search),
                "update": words(leakage.update),
                "attacks": leakage.attacks,
            })
        })
        .collect();
    Json(Value::Array(rows))
}

fn summary(job: &Job) -> Value {
    json!({ "id": job.id, "request": job.request, "state": job.phase() })
}

/// The runs there are.
pub(super) async fn list(State(queue): Jobs) -> Json<Value> {
    Json(queue.jobs().iter().map(|job| summary(job)).collect())
}

/// Starts a run.
pub(super) async fn start(State(queue): Jobs, Json(fields): Json<Map<String, Value>>) -> Response {
    let limits = queue.limits;
    let planned = tokio::task::spawn_blocking(move || form::plan(&fields, &limits)).await;
    match planned {
        Err(_) => wrong(StatusCode::INTERNAL_SERVER_ERROR, "the form could not be read"),
        Ok(Err(errors)) => {
            (StatusCode::UNPROCESSABLE_ENTITY, Json(json!({ "errors": errors }))).into_response()
        }
        Ok(Ok(plan)) => match queue.add(plan) {
            Some(job) => (StatusCode::ACCEPTED, Json(summary(&job))).into_response(),
            None => wrong(
                StatusCode::SERVICE_UNAVAILABLE,
                "too many runs are waiting; try again when some have ended",
            ),
        },
    }
}

/// What the page knows already.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Known {
    /// Waits for news if set.
    #[serde(default)]
    wait: bool,
}

/// Where a run is: at once, or when it has got on.
pub(super) async fn state(State(queue): Jobs, Path(id): Path<u64>, Query(known): Query<Known>) -> Response {
    let Some(job) = queue.job(id) else { return no_run() };
    if known.wait && !matches!(job.phase(), Phase::Ended { .. }) {
        let mut news = job.watch();
        tokio::time::sleep(NEWS_STEP).await;
        if !matches!(job.phase(), Phase::Running { .. } | Phase::Ended { .. }) {
            // Silence is news as well: the page asks again.
            let _ = tokio::time::timeout(NEWS_WAIT, news.changed()).await;
        }
    }
    let mut answer = summary(&job);
    if let Some(result) = job.result() {
        answer["result"] = serde_json::to_value(&*result).unwrap_or_default();
    }
    Json(answer).into_response()
}

/// Stops a run.
pub(super) async fn stop(State(queue): Jobs, Path(id): Path<u64>) -> Response {
    let Some(job) = queue.job(id) else { return no_run() };
    queue.stop(&job);
    Json(summary(&job)).into_response()
}

/// What a run found, as a file.
pub(super) async fn result(State(queue): Jobs, Path(id): Path<u64>) -> Response {
    let Some(result) = queue.job(id).and_then(|job| job.result()) else { return no_run() };
    let name = format!("attachment; filename=\"arras-lab-run-{id}.json\"");
    let text = serde_json::to_string_pretty(&*result).unwrap_or_default();
    ([(header::CONTENT_TYPE, "application/json".to_owned()), (header::CONTENT_DISPOSITION, name)], text)
        .into_response()
}

/// Which plot.
#[derive(Debug, Deserialize)]
pub(super) struct Plot {
    /// Numbers of runs, separated by commas.
    runs: String,
}

/// Most runs beside each other.
const COMPARED_MAX: usize = 6;

/// A chart of one or more runs.
pub(super) async fn plot(State(queue): Jobs, Query(plot): Query<Plot>) -> Response {
    let ids: Vec<u64> = plot.runs.split(',').filter_map(|id| id.parse().ok()).take(COMPARED_MAX).collect();
    let results: Vec<(String, Arc<RunResult>)> =
        ids.into_iter().filter_map(|id| Some((format!("run {id}"), queue.job(id)?.result()?))).collect();
    if results.is_empty() {
        return no_run();
    }
    let runs: Vec<(&str, &RunResult)> =
        results.iter().map(|(name, result)| (name.as_str(), &**result)).collect();
    match plots::of_runs(&runs) {
        // A chart has its colours for light and dark ground in a style of its own.
        Ok(svg) => {
            let policy = "default-src 'none'; style-src 'unsafe-inline'";
            let headers =
                [(header::CONTENT_TYPE, "image/svg+xml"), (header::CONTENT_SECURITY_POLICY, policy)];
            (headers, svg).into_response()
        }
        Err(error) => wrong(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}
