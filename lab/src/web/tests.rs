use super::*;
use axum::body::{Body, to_bytes};
use axum::http::Request;
use serde_json::{Value, json};
use tower::ServiceExt;

/// A website without a browser.
struct Site(Router);

impl Site {
    fn new(limits: Limits) -> Self {
        Self(router(Arc::new(Queue::start(limits).expect("a thread can be started")), limits))
    }

    async fn send(&self, request: Request<Body>) -> (StatusCode, HeaderMap, Vec<u8>) {
        let response = self.0.clone().oneshot(request).await.expect("the router answers");
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("the body is whole");
        (parts.status, parts.headers, body.to_vec())
    }

    async fn get(&self, path: &str) -> (StatusCode, Value) {
        let request = Request::get(path).body(Body::empty()).expect("a request");
        let (status, _, body) = self.send(request).await;
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn post(&self, path: &str, body: &Value) -> (StatusCode, Value) {
        let request = Request::post(path)
            .header(header::CONTENT_TYPE, "application/json")
            .body(Body::from(body.to_string()))
            .expect("a request");
        let (status, _, body) = self.send(request).await;
        (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
    }

    async fn run(&self, form: &Value) -> u64 {
        let (status, answer) = self.post("/api/runs", form).await;
        assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
        answer["id"].as_u64().expect("a number")
    }

    async fn ended(&self, id: u64) -> Value {
        loop {
            let (status, answer) = self.get(&format!("/api/runs/{id}?wait=true")).await;
            assert_eq!(status, StatusCode::OK);
            if answer["state"]["phase"] == "ended" {
                return answer;
            }
        }
    }
}

fn small() -> Value {
    json!({ "protocols": ["plain"], "records": 200, "queries": 5, "seed": 7 })
}

/// A run that takes as long as it is let: every call waits.
fn long() -> Value {
    json!({ "protocols": ["bplus_clww"], "records": 5000, "queries": 5, "round_trip_us": 20_000 })
}

fn message_of<'a>(answer: &'a Value, field: &str) -> &'a str {
    let errors = answer["errors"].as_array().expect("errors");
    let found = errors.iter().find(|error| error["field"] == field);
    found.and_then(|error| error["message"].as_str()).unwrap_or_else(|| panic!("none at {field}: {answer}"))
}

#[tokio::test]
async fn a_run_is_done_and_the_same_seed_counts_the_same() {
    let site = Site::new(Limits::default());
    let (one, other) = (site.run(&small()).await, site.run(&small()).await);
    let (one, other) = (site.ended(one).await, site.ended(other).await);
    assert_eq!(one["state"]["finished"], true, "{one}");
    let traffic = |answer: &Value| answer["result"]["protocols"][0]["stages"][0]["cost"]["traffic"].clone();
    assert!(traffic(&one).is_object());
    assert_eq!(traffic(&one), traffic(&other));
    let (status, runs) = site.get("/api/runs").await;
    assert_eq!((status, runs.as_array().map(Vec::len)), (StatusCode::OK, Some(2)));
}

#[tokio::test]
async fn results_and_plots_are_there_once_a_run_has_ended() {
    let site = Site::new(Limits::default());
    let id = site.run(&small()).await;
    site.ended(id).await;
    let request = Request::get(format!("/api/runs/{id}/result.json")).body(Body::empty()).expect("a request");
    let (status, headers, body) = site.send(request).await;
    assert_eq!(status, StatusCode::OK);
    assert!(headers[header::CONTENT_DISPOSITION].to_str().is_ok_and(|text| text.starts_with("attachment")));
    let result: crate::run::RunResult = serde_json::from_slice(&body).expect("a result");
    assert_eq!(result.request.seed, 7);
    let path = format!("/api/plot.svg?runs={id}");
    let (status, headers, body) = site.send(Request::get(path).body(Body::empty()).expect("a request")).await;
    assert_eq!(
        (status, &headers[header::CONTENT_TYPE]),
        (StatusCode::OK, &HeaderValue::from_static("image/svg+xml"))
    );
    assert!(String::from_utf8_lossy(&body).contains("No encryption"));
    assert_eq!(site.get("/api/plot.svg?runs=99").await.0, StatusCode::NOT_FOUND);
    assert_eq!(site.get("/api/plot.svg").await.0, StatusCode::BAD_REQUEST);
    assert_eq!(site.get("/api/runs/99").await.0, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn every_mistake_is_named_at_its_field() {
    let site = Site::new(Limits::default());
    let form = json!({
        "protocols": ["plain", "nope"], "records": "many", "queries": 0, "cache_pages": 0, "page_bytes": 3,
        "query_share": 7, "dataset": "supplied", "data": "value\n12\n1x\n", "ranges": "5,1", "colour": "red",
    });
    let (status, answer) = site.post("/api/runs", &form).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(message_of(&answer, "protocols").contains("nope"));
    assert!(message_of(&answer, "records").contains("many"));
    assert!(message_of(&answer, "cache_pages").contains("at least 1"));
    assert!(message_of(&answer, "page_bytes").contains("smaller than an entry"));
    assert!(message_of(&answer, "query_share").contains("share"));
    assert!(message_of(&answer, "data").starts_with("line 3, column 1: \"1x\""));
    assert!(message_of(&answer, "ranges").starts_with("line 1"));
    assert!(message_of(&answer, "colour").contains("no such field"));
    for slow in crate::protocols::ALL.iter().filter(|protocol| !protocol.in_all) {
        let form = json!({ "protocols": [slow.name], "records": 1000, "queries": 1 });
        let (status, answer) = site.post("/api/runs", &form).await;
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(message_of(&answer, "records").contains("at most"));
    }
}

#[tokio::test]
async fn size_and_queue_are_bounded() {
    let limits = Limits { records_max: 10_000, queue_max: 1, body_bytes_max: 1000, ..Limits::default() };
    let site = Site::new(limits);
    let big = json!({ "protocols": ["plain"], "records": 10_001, "queries": 1 });
    assert!(message_of(&site.post("/api/runs", &big).await.1, "records").contains("10000"));
    let heavy = json!({ "protocols": ["plain"], "dataset": "supplied", "data": "1\n".repeat(1000) });
    assert_eq!(site.post("/api/runs", &heavy).await.0, StatusCode::PAYLOAD_TOO_LARGE);
    let running = site.run(&long()).await;
    while site.get(&format!("/api/runs/{running}")).await.1["state"]["phase"] != "running" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let waiting = site.run(&small()).await;
    assert_eq!(
        site.get(&format!("/api/runs/{waiting}")).await.1["state"],
        json!({"phase": "queued", "ahead": 1})
    );
    assert_eq!(site.post("/api/runs", &small()).await.0, StatusCode::SERVICE_UNAVAILABLE);
    site.post(&format!("/api/runs/{running}/stop"), &Value::Null).await;
    assert_eq!(site.ended(waiting).await["state"]["finished"], true);
}

#[tokio::test]
async fn a_stopped_run_keeps_what_it_finished() {
    let site = Site::new(Limits::default());
    let mut form = long();
    form["protocols"] = json!(["plain", "bplus_clww"]);
    form["records"] = json!(100);
    let id = site.run(&form).await;
    while site.get(&format!("/api/runs/{id}")).await.1["state"]["step"]["place"] != 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    site.post(&format!("/api/runs/{id}/stop"), &Value::Null).await;
    let answer = site.ended(id).await;
    assert_eq!(answer["state"]["finished"], false);
    assert!(answer["state"]["note"].as_str().is_some_and(|note| note.contains("stopped")));
    assert_eq!(answer["result"]["protocols"][0]["ending"], "finished");
    assert_eq!(answer["result"]["protocols"][1]["ending"], "stopped");
}

#[tokio::test]
async fn a_run_over_its_time_is_stopped() {
    let site = Site::new(Limits { run_time_max: Duration::from_millis(200), ..Limits::default() });
    let id = site.run(&long()).await;
    let answer = site.ended(id).await;
    assert!(answer["state"]["note"].as_str().is_some_and(|note| note.contains("longest")), "{answer}");
}

#[tokio::test]
async fn old_runs_are_forgotten() {
    let site = Site::new(Limits { kept_max: 1, ..Limits::default() });
    for _ in 0..3 {
        let id = site.run(&small()).await;
        site.ended(id).await;
    }
    assert_eq!(site.get("/api/runs/1").await.0, StatusCode::NOT_FOUND);
    assert_eq!(site.get("/api/runs/3").await.0, StatusCode::OK);
}

#[tokio::test]
async fn other_sites_cannot_start_runs_nor_be_loaded_from() {
    let site = Site::new(Limits::default());
    let from = |name: &'static str, value: &'static str| {
        Request::post("/api/runs")
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::HOST, "127.0.0.1:1")
            .header(name, value)
            .body(Body::from(small().to_string()))
            .expect("a request")
    };
    assert_eq!(site.send(from("sec-fetch-site", "cross-site")).await.0, StatusCode::FORBIDDEN);
    assert_eq!(site.send(from("origin", "http://evil.example")).await.0, StatusCode::FORBIDDEN);
    assert_eq!(site.send(from("origin", "http://127.0.0.1:1")).await.0, StatusCode::ACCEPTED);
    let (status, headers, page) = site.send(Request::get("/").body(Body::empty()).expect("a request")).await;
    assert_eq!(status, StatusCode::OK);
    assert!(
        headers[header::CONTENT_SECURITY_POLICY]
            .to_str()
            .is_ok_and(|policy| policy.contains("default-src 'none'"))
    );
    let page = String::from_utf8_lossy(&page).replace("http://www.w3.org", "");
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("<script>"));
}
