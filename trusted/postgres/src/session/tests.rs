//! What tests of a session's parts go by.
#![allow(clippy::unwrap_used)]

use super::{Ends, Surroundings, run};
use crate::cancel::{Cancellable, Key};
use crate::replies;
use crate::rewriting::Rewriting;
use crate::schema::Schema;
use crate::stream::{Socket, Stream};
use crate::upstream::Upstream;
use arras_service::columns::{ColumnKeys, Columns, OrderEncoder, OrderTerms};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::sync::watch;

/// Nothing is encrypted.
struct NoColumns;

impl Columns for NoColumns {
    fn keys(&self, _: [u8; 8]) -> Option<Arc<dyn ColumnKeys>> {
        None
    }

    fn encoder(&self, _: [u8; 8]) -> Option<Arc<dyn OrderEncoder>> {
        None
    }

    fn order_terms(&self, _: [u8; 8]) -> Option<Arc<dyn OrderTerms>> {
        None
    }
}

/// What sessions share, with nothing declared.
pub(super) fn rewriting() -> Rewriting {
    Rewriting::new(Arc::new(Schema::parse("", "empty").unwrap()), Arc::new(NoColumns), 0)
}

/// A reply of about so many bytes.
fn reply(bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while out.len() < bytes {
        replies::message(&mut out, b'D', |out| out.resize(out.len() + 1000, b'x'));
    }
    replies::message(&mut out, b'C', |out| replies::string(out, b"SELECT 1"));
    replies::message(&mut out, b'Z', |out| out.push(b'I'));
    out
}

/// What a client gets of a reply that it reads only once the proxy stops.
async fn read_late(rewriting: Option<&Rewriting>, reply: &[u8]) -> Vec<u8> {
    let entered = Cancellable::default().enter(Key { process: 1, secret: 1 });
    let upstream = Upstream::parse("postgresql://127.0.0.1/bank", None).unwrap();
    let around = Surroundings { entered: &entered, upstream: &upstream, rewriting, database: "bank" };
    let (mut driver, client) = UnixStream::pair().unwrap();
    let (database, mut server) = UnixStream::pair().unwrap();
    let [client, database] = [client, database].map(|socket| Stream::Plain(Socket::Unix(socket)));
    let (stopping, stop) = watch::channel(false);
    let mut got = Vec::new();
    let talk = async {
        let mut asked = Vec::new();
        replies::message(&mut asked, b'S', |_| ());
        driver.write_all(&asked).await.unwrap();
        server.read_exact(&mut asked).await.unwrap();
        let answers = async { server.write_all(reply).await };
        // Until the session has what it can get rid of: the rest is for who reads.
        let fills = async {
            for _ in 0..2000 {
                tokio::task::yield_now().await;
            }
            stopping.send_replace(true);
            for _ in 0..200 {
                tokio::task::yield_now().await;
            }
            driver.read_to_end(&mut got).await
        };
        let (_, read) = tokio::join!(answers, fills);
        read.unwrap();
    };
    tokio::join!(run(Ends { client, database, beginning: Vec::new() }, around, stop), talk);
    got
}

#[tokio::test]
async fn a_stop_lets_a_client_read_the_reply_that_it_has_begun() {
    let rewriting = rewriting();
    for rewriting in [None, Some(&rewriting)] {
        // Some of these fill what a socket holds but for the last piece.
        for bytes in (100_000..500_000).step_by(8_000) {
            let reply = reply(bytes);
            let got = read_late(rewriting, &reply).await;
            let rest = got.strip_prefix(&reply[..]);
            assert!(rest.is_some(), "{} of {} bytes", got.len(), reply.len());
            assert!(rest.unwrap().windows(5).any(|code| code == b"57P01"), "{bytes}");
        }
    }
}
