//! The way from the client to the database.

use super::{BothWays, End, FromSide, Note, State, ToSide, UNANSWERED_MAX};
use crate::error::SqlError;
use crate::frames::{HEAD_BYTES, Head, Inbox};
use crate::pipeline::Asked;
use bytes::BytesMut;
use postgres_protocol::message::frontend;

/// Ends the session.
const TERMINATE: u8 = b'X';

/// What was found in what has come.
struct Scanned {
    /// Bytes to pass on.
    pass: usize,
    /// Bytes of the last message that have not come yet.
    rest: usize,
    /// As many messages are unanswered as may be.
    full: bool,
}

/// Passes on what the client sends until there is no more.
pub(super) async fn pass(shared: &BothWays, mut from: FromSide, to: &mut ToSide) -> End {
    let mut inbox = Inbox::new();
    let mut rest = 0;
    loop {
        let scanned = match scan(inbox.there(), rest, &mut shared.state()) {
            Ok(scanned) => scanned,
            Err(refusal) => return End::Violation(refusal),
        };
        rest = scanned.rest;
        if scanned.pass > 0 {
            let passed = inbox.there().get(..scanned.pass).unwrap_or_default();
            if to.write_whole(passed).await.is_err() {
                // What the database said last, or that it is gone, comes the other way.
                return std::future::pending().await;
            }
            inbox.passed(scanned.pass);
        }
        if scanned.full {
            // The database keeps replies back until it is asked for them, or has many.
            let mut flush = BytesMut::new();
            frontend::flush(&mut flush);
            if to.write_whole(&flush).await.is_err() {
                return std::future::pending().await;
            }
            shared.at_most(UNANSWERED_MAX / 2).await;
            continue;
        }
        if shared.state().terminated {
            return std::future::pending().await;
        }
        match inbox.fill(&mut from).await {
            Ok(1..) => {}
            Ok(0) | Err(_) => {
                let idle = shared.state().pipeline.is_empty();
                return if idle { End::Left } else { End::Abandoned };
            }
        }
    }
}

/// Notes the messages in `there`, of which the first `rest` bytes belong to one that is noted already.
fn scan(there: &[u8], rest: usize, state: &mut State) -> Result<Scanned, SqlError> {
    let mut pass = rest.min(there.len());
    let mut rest = rest - pass;
    while let Some(message) = there.get(pass..).filter(|message| message.len() >= HEAD_BYTES) {
        let Some(head) = Head::read(message) else {
            return Err(SqlError::new("08P01", "invalid message length"));
        };
        if let Some(asked) = Asked::by(head.kind) {
            let _ = state.pipeline.sent(asked, Note::default());
        }
        let there = head.total.min(message.len());
        (pass, rest) = (pass + there, head.total - there);
        if head.kind == TERMINATE {
            state.terminated = true;
            break;
        }
        // The rest of a message that has begun is passed on first.
        if rest == 0 && state.pipeline.len() >= UNANSWERED_MAX {
            return Ok(Scanned { pass, rest, full: true });
        }
    }
    Ok(Scanned { pass, rest, full: false })
}
