//! The lab's website: choose protocols, data and queries, run, watch, compare, download.
//!
//! Everything is served from this program: nothing is fetched from elsewhere, and a strict content security policy says
//! so to the browser. Runs are queued and done one at a time; their number, size and duration are bounded
//! ([`Limits`]). It is a tool for one person or a group that trusts one another: no accounts, no data kept after it
//! ends.

mod answers;
mod form;
mod page;
mod queue;
#[cfg(test)]
mod tests;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use queue::Queue;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// What one visitor can ask of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most records of a run.
    pub records_max: usize,
    /// Most queries of a run.
    pub queries_max: usize,
    /// Most records of a run whose protocol compares for most of a second.
    pub slow_records_max: usize,
    /// Runs waiting; a further one is refused.
    pub queue_max: usize,
    /// Ended runs that are kept; the oldest goes first.
    pub kept_max: usize,
    /// Longest run; what it has by then is kept.
    pub run_time_max: Duration,
    /// Largest request, in bytes.
    pub body_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            records_max: 250_000,
            queries_max: 10_000,
            slow_records_max: 50,
            queue_max: 16,
            kept_max: 64,
            run_time_max: Duration::from_secs(300),
            body_bytes_max: 4 << 20,
        }
    }
}

/// Serves the website until `stop` is ready. The run under way is stopped then.
///
/// # Errors
/// [`io::Error`] if the listener fails.
pub async fn serve(
    listener: TcpListener,
    limits: Limits,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let queue = Arc::new(Queue::start(limits)?);
    let app = router(Arc::clone(&queue), limits);
    let served = axum::serve(listener, app)
        .with_graceful_shutdown(async move {
            stop.await;
            queue.close();
        })
        .await;
    tracing::debug!("the website has ended");
    served
}

fn router(queue: Arc<Queue>, limits: Limits) -> Router {
    Router::new()
        .route("/", get(page::html))
        .route("/style.css", get(page::style))
        .route("/script.js", get(page::script))
        .route("/icon.svg", get(page::icon))
        .route("/api/options", get(answers::options))
        .route("/api/leakage", get(answers::leakage))
        .route("/api/runs", get(answers::list).post(answers::start))
        .route("/api/runs/{id}", get(answers::state))
        .route("/api/runs/{id}/stop", post(answers::stop))
        .route("/api/runs/{id}/result.json", get(answers::result))
        .route("/api/plot.svg", get(answers::plot))
        .layer(DefaultBodyLimit::max(limits.body_bytes_max))
        .layer(middleware::from_fn(guard))
        .with_state(queue)
}

/// Refuses what another site's page sends, and tells the browser to load nothing from elsewhere.
async fn guard(request: axum::extract::Request, next: Next) -> Response {
    if request.method() == Method::POST && !same_origin(request.headers()) {
        return (StatusCode::FORBIDDEN, "requests from other sites are refused\n").into_response();
    }
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                          connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in fixed {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    response
}

/// Whether a request comes from this site's own page, or from no page at all.
fn same_origin(headers: &HeaderMap) -> bool {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let site = headers.get("sec-fetch-site").and_then(|value| value.to_str().ok());
    if !matches!(site, None | Some("same-origin" | "none")) {
        return false;
    }
    match (text(header::ORIGIN), text(header::HOST)) {
        (None, _) => true,
        (Some(origin), Some(host)) => origin.split_once("://").is_some_and(|(_, from)| from == host),
        (Some(_), None) => false,
    }
}
