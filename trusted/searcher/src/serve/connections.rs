//! Connections of browsers: a bounded number, a request each, within a time.

use super::access::Access;
use super::page;
use super::searching::{Job, Query};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::AbortHandle;

/// Connections at a time; one more waits to be accepted.
const CONNECTIONS_MAX: usize = 256;

/// Of these, so many that have not said what they want: when one more comes, the one that has taken longest is given up.
const UNDECIDED_MAX: usize = 128;

/// How long a browser may take to say what it wants.
const REQUEST_TIME: Duration = Duration::from_secs(10);

/// How long one may take in all, its query with it.
const WHOLE_TIME: Duration = Duration::from_secs(120);

/// Bytes of a request: a query of a few thousand words.
const REQUEST_BYTES: usize = 64 << 10;

/// What answers requests.
pub(super) struct Answers {
    pub(super) access: Access,
    pub(super) jobs: super::Jobs,
}

type Reply = Response<Full<Bytes>>;

/// Connections that have not said what they want, oldest first.
#[derive(Default)]
struct Undecided(Mutex<VecDeque<(u64, AbortHandle)>>);

impl Undecided {
    /// Takes one in, and gives the oldest up if there are too many.
    fn add(&self, number: u64, connection: AbortHandle) {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.push_back((number, connection));
        if waiting.len() > UNDECIDED_MAX
            && let Some((_, oldest)) = waiting.pop_front()
        {
            oldest.abort();
        }
    }

    /// It has said what it wants, or ended.
    fn strike(&self, number: u64) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|(known, _)| *known != number);
    }
}

/// Serves browsers, for ever.
pub(super) async fn accept(listener: TcpListener, answers: Arc<Answers>) {
    let seats = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let undecided = Arc::new(Undecided::default());
    for number in 0_u64.. {
        // Never closed.
        let Ok(seat) = Arc::clone(&seats).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // Too many files are open, or the like: it passes.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let (answers, waiting) = (Arc::clone(&answers), Arc::clone(&undecided));
        let connection = tokio::spawn(async move {
            let _seat = seat;
            // Who is too slow is gone, with nothing said.
            let _ = tokio::time::timeout(WHOLE_TIME, serve(stream, number, &answers, &waiting)).await;
            waiting.strike(number);
        });
        // On one thread: the connection runs only after this.
        undecided.add(number, connection.abort_handle());
    }
}

async fn serve(stream: TcpStream, number: u64, answers: &Answers, undecided: &Undecided) {
    let service = service_fn(async |request: Request<Incoming>| {
        undecided.strike(number);
        Ok::<Reply, Infallible>(guarded(answers.answer(&request).await))
    });
    let mut builder = http1::Builder::new();
    // One request a connection: nobody sits on a seat that is not used.
    builder.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(REQUEST_TIME);
    builder.max_buf_size(REQUEST_BYTES);
    // What goes wrong here is between the browser and itself.
    let _ = builder.serve_connection(TokioIo::new(stream), service).await;
}

impl Answers {
    async fn answer(&self, request: &Request<Incoming>) -> Reply {
        let host = request.headers().get(header::HOST).map(HeaderValue::as_bytes);
        if !self.access.knows_host(host) {
            return text(StatusCode::FORBIDDEN, "this is not its address");
        }
        let Some(path) = self.access.behind_token(request.uri().path()) else {
            return text(StatusCode::FORBIDDEN, "open the address that arras search serve has printed");
        };
        if !matches!(request.method(), &Method::GET | &Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "there is nothing to change here");
        }
        match path {
            "" => self.page(request.uri().query().unwrap_or_default()).await,
            "style.css" => typed(StatusCode::OK, "text/css; charset=utf-8", page::STYLE.into()),
            _ => text(StatusCode::NOT_FOUND, "there is no such page"),
        }
    }

    /// The page, with what the query in its address finds.
    async fn page(&self, fields: &str) -> Reply {
        let query = asked(fields);
        if query.text.trim().is_empty() {
            return html(StatusCode::OK, page::empty(&query));
        }
        let (answer, answered) = oneshot::channel();
        match self.jobs.try_send(Job { query: query.clone(), answer }) {
            Ok(()) => {}
            Err(mpsc::error::TrySendError::Full(_)) => {
                let why = "Too many queries wait. Ask again.";
                return html(StatusCode::SERVICE_UNAVAILABLE, page::failed(&query, why));
            }
            Err(mpsc::error::TrySendError::Closed(_)) => {
                return html(StatusCode::SERVICE_UNAVAILABLE, page::failed(&query, "The search has ended."));
            }
        }
        match answered.await {
            Ok(Ok(found)) => html(StatusCode::OK, page::found(&query, &found)),
            Ok(Err(wrong)) => html(StatusCode::UNPROCESSABLE_ENTITY, page::wrong(&query, &wrong)),
            Err(_) => html(StatusCode::SERVICE_UNAVAILABLE, page::failed(&query, "The search has ended.")),
        }
    }
}

/// The query that a form's fields are.
fn asked(fields: &str) -> Query {
    let mut query = Query { text: String::new(), top: page::SHOWN[0] };
    for (name, value) in form_urlencoded::parse(fields.as_bytes()) {
        match name.as_ref() {
            "q" => query.text = value.into_owned(),
            "top" => {
                let offered = value.parse().ok().filter(|top| page::SHOWN.contains(top));
                query.top = offered.unwrap_or(page::SHOWN[0]);
            }
            _ => {}
        }
    }
    query
}

fn typed(status: StatusCode, kind: &'static str, body: Bytes) -> Reply {
    let mut reply = Response::new(Full::new(body));
    *reply.status_mut() = status;
    reply.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

fn html(status: StatusCode, page: String) -> Reply {
    typed(status, "text/html; charset=utf-8", page.into())
}

fn text(status: StatusCode, why: &str) -> Reply {
    typed(status, "text/plain; charset=utf-8", format!("{why}\n").into())
}

/// Tells the browser to load and to tell nothing elsewhere, and to keep nothing.
fn guarded(mut reply: Reply) -> Reply {
    const POLICY: &str = "default-src 'none'; style-src 'self'; img-src data:; form-action 'self'; base-uri 'none'; \
                          frame-ancestors 'none'";
    let headers = reply.headers_mut();
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_a_query() {
        let query = asked("q=white+whale+%22old+captain%22+caf%C3%A9&top=50&other=1");
        assert_eq!(query, Query { text: "white whale \"old captain\" café".into(), top: 50 });
        for odd in ["", "top=7", "top=-1", "q=&top=99999999999", "%", "q=%ff&top"] {
            assert_eq!(asked(odd).top, page::SHOWN[0], "{odd}");
        }
    }
}
