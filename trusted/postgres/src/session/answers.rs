//! The way from the database to the client.

use super::{BothWays, End, FromSide, State, ToSide};
use crate::frames::{HEAD_BYTES, Head, Inbox};
use bytes::BytesMut;
use fallible_iterator::FallibleIterator;
use postgres_protocol::message::backend::Message;
use std::io;

/// Longest `ErrorResponse` that is looked into, in bytes; a longer one ends no session.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// What was found in what has come.
struct Scanned {
    /// Bytes to pass on.
    pass: usize,
    /// Bytes of the last message that have not come yet.
    rest: usize,
    /// Somebody who waits for fewer unanswered messages is to look again.
    shorter: bool,
}

/// Passes on what the database sends until there is no more.
pub(super) async fn pass(shared: &BothWays, mut from: FromSide, to: &mut ToSide) -> End {
    let mut inbox = Inbox::new();
    let mut rest = 0;
    loop {
        let scanned = match scan(inbox.there(), rest, &mut shared.state()) {
            Ok(scanned) => scanned,
            Err(error) => return End::Lost(Some(error)),
        };
        rest = scanned.rest;
        if scanned.shorter {
            shared.shorter.notify_waiters();
        }
        if scanned.pass > 0 {
            shared.writes();
            let passed = inbox.there().get(..scanned.pass).unwrap_or_default();
            if to.write_whole(passed).await.is_err() {
                let idle = shared.state().pipeline.is_empty();
                return if idle { End::Left } else { End::Abandoned };
            }
            inbox.passed(scanned.pass);
            shared.written(rest == 0);
        }
        match inbox.fill(&mut from).await {
            Ok(1..) => {}
            Ok(0) => return ended(&shared.state(), None),
            Err(error) => return ended(&shared.state(), Some(error)),
        }
    }
}

/// How a session ends whose database closed the connection.
pub(super) fn ended(state: &State, error: Option<io::Error>) -> End {
    if state.fatal || state.terminated { End::Ended } else { End::Lost(error) }
}

/// Notes the replies in `there`, of which the first `rest` bytes belong to one that is noted already.
fn scan(there: &[u8], rest: usize, state: &mut State) -> io::Result<Scanned> {
    let mut pass = rest.min(there.len());
    let mut rest = rest - pass;
    let before = state.pipeline.len();
    while let Some(message) = there.get(pass..).filter(|message| message.len() >= HEAD_BYTES) {
        let Some(head) = Head::read(message) else {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a message of an impossible length"));
        };
        // Rows are most of what comes, and end nothing.
        if !matches!(head.kind, b'D' | b'd') {
            if head.kind == b'E' && head.total <= ERROR_BYTES_MAX {
                let Some(error) = message.get(..head.total) else { break };
                state.fatal |= is_fatal(error);
            }
            state.pipeline.answered(head.kind);
        }
        let there = head.total.min(message.len());
        (pass, rest) = (pass + there, head.total - there);
    }
    // An end of rows that nothing waited for is left out, so that nobody waits for its answer.
    let _ = state.pipeline.first();
    let shorter = state.waiting && state.pipeline.len() < before;
    state.waiting &= !shorter;
    Ok(Scanned { pass, rest, shorter })
}

/// True if an encoded `ErrorResponse` ends the session.
pub(super) fn is_fatal(error: &[u8]) -> bool {
    let Ok(Some(Message::ErrorResponse(body))) = Message::parse(&mut BytesMut::from(error)) else {
        return false;
    };
    // `V` is never translated; before PostgreSQL 9.6 there was only `S`.
    let fatal = body.fields().any(|field| {
        Ok(matches!(field.type_(), b'V' | b'S') && matches!(field.value_bytes(), b"FATAL" | b"PANIC"))
    });
    fatal.unwrap_or(false)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::pipeline::Asked;
    use crate::session::Note;

    #[test]
    fn an_end_of_rows_that_nothing_waits_for_is_not_waited_for() {
        let shared = BothWays::new(b"");
        let mut state = shared.state();
        for asked in [Asked::Query, Asked::CopyEnd] {
            let _ = state.pipeline.sent(asked, Note::default());
        }
        state.waiting = true;
        let scanned = scan(b"C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I", 0, &mut state).unwrap();
        assert!(scanned.shorter && state.pipeline.is_empty());
    }
}
