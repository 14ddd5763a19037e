//! The way from the database to the client where statements are rewritten: what is not shown as it comes is held whole,
//! one message at a time.

use super::reading::Reading;
use super::{End, FromSide, Shared, State, ToSide};
use crate::error::SqlError;
use crate::frames::{HEAD_BYTES, Head, Inbox};
use crate::pipeline::Done;
use crate::rewriting::{MESSAGE_BYTES_MAX, Rewriting};
use std::io;
use tokio::io::AsyncWriteExt;

/// Bytes of what is written that are kept for the next time.
const KEPT_BYTES: usize = 256 * 1024;

/// What is to be done before more of what came can be read.
enum Next {
    /// More must come: a message of so many bytes is not whole.
    More(usize),
    /// All that has come is read, but so many bytes of the last message have not come yet; they pass as they are.
    Rest(usize),
}

/// Passes on what the database sends until there is no more.
pub(super) async fn pass(
    shared: &Shared,
    rewriting: &Rewriting,
    mut from: FromSide,
    to: &mut ToSide,
    whole: &mut bool,
) -> End {
    let mut inbox = Inbox::new();
    let (mut rest, mut out) = (0, Vec::new());
    let mut room = None;
    loop {
        let passed = rest.min(inbox.there().len());
        out.extend_from_slice(inbox.there().get(..passed).unwrap_or_default());
        inbox.passed(passed);
        rest -= passed;
        let mut needed = 0;
        if rest == 0 {
            drop(room.take());
            let (read, next) = match scan(inbox.there(), rewriting, &mut shared.state(), &mut out) {
                Ok(scanned) => scanned,
                Err(error) => return End::Violation(error),
            };
            inbox.passed(read);
            match next {
                Next::More(total) => needed = total,
                Next::Rest(bytes) => rest = bytes,
            }
            shared.tell_waiting();
        }
        if let Err(end) = write(shared, to, &mut out, whole, rest == 0).await {
            return end;
        }
        if needed > MESSAGE_BYTES_MAX {
            let text =
                format!("a row of {needed} bytes is more than the proxy can open ({MESSAGE_BYTES_MAX})");
            return End::Violation(SqlError::new("54000", text));
        }
        inbox.shrink();
        if needed > 0 {
            match rewriting.share(needed).await {
                Ok(share) => room = share,
                Err(error) => return End::Violation(error),
            }
            inbox.make_room(needed);
        }
        match inbox.fill(&mut from).await {
            Ok(1..) => {}
            Ok(0) => return super::answers::ended(&shared.state(), None),
            Err(error) => return super::answers::ended(&shared.state(), Some(error)),
        }
    }
}

/// Writes what is there to be written; the session's end if its client is gone.
async fn write(
    shared: &Shared,
    to: &mut ToSide,
    out: &mut Vec<u8>,
    whole: &mut bool,
    ends: bool,
) -> Result<(), End> {
    if out.is_empty() {
        return Ok(());
    }
    *whole = false;
    let written: io::Result<()> = async {
        to.write_all(out).await?;
        to.flush().await
    }
    .await;
    if written.is_err() {
        let idle = shared.state().pipeline.is_empty();
        return Err(if idle { End::Left } else { End::Abandoned });
    }
    *whole = ends;
    out.clear();
    out.shrink_to(KEPT_BYTES);
    Ok(())
}

/// Reads the replies in `there` and appends what the client is told; how many bytes were read.
fn scan(
    there: &[u8],
    rewriting: &Rewriting,
    state: &mut State,
    out: &mut Vec<u8>,
) -> Result<(usize, Next), SqlError> {
    let mut read = 0;
    while let Some(message) = there.get(read..).filter(|message| message.len() >= HEAD_BYTES) {
        let Some(head) = Head::read(message) else {
            return Err(SqlError::new("08P01", "the database sent a message of an impossible length"));
        };
        let is_row = matches!(head.kind, b'D' | b'd');
        let plain =
            is_row && state.pipeline.first().is_none_or(|entry| matches!(entry.note.reading, Reading::Plain));
        if plain {
            let there = head.total.min(message.len());
            out.extend_from_slice(message.get(..there).unwrap_or_default());
            read += there;
            if there < head.total {
                return Ok((read, Next::Rest(head.total - there)));
            }
            continue;
        }
        let Some(frame) = message.get(..head.total) else { return Ok((read, Next::More(head.total))) };
        reply(head.kind, frame, rewriting, state, out)?;
        read += head.total;
    }
    Ok((read, Next::More(0)))
}

fn reply(
    kind: u8,
    frame: &[u8],
    rewriting: &Rewriting,
    state: &mut State,
    out: &mut Vec<u8>,
) -> Result<(), SqlError> {
    match kind {
        b'E' => state.fatal |= super::answers::is_fatal(frame),
        b'S' => state.settings.read(frame),
        b'C' => state.tagged(frame),
        b'Z' => state.ready(frame.get(5).copied().unwrap_or_default(), rewriting),
        _ => {}
    }
    if kind != b'Z' {
        match state.pipeline.first() {
            Some(entry) => entry.note.reading.reply(frame, &*rewriting.columns, out)?,
            None => out.extend_from_slice(frame),
        }
    }
    match state.pipeline.answered(kind) {
        Done::Nothing if kind == b'Z' => out.extend_from_slice(frame),
        Done::Nothing => {}
        Done::Answered(entry) => {
            if let Reading::Own(exchange) = entry.note.reading {
                exchange.end();
            }
        }
        Done::Failed(entries) => {
            let mut undos = Vec::new();
            for entry in entries {
                undos.extend(entry.note.undo);
                if let Reading::Own(exchange) = entry.note.reading {
                    exchange.end();
                }
            }
            state.undo(undos);
        }
        Done::Ready(entry) => {
            let number = entry.note.number;
            if frame.get(5) == Some(&b'I') {
                state.names.transaction_ended(number);
            }
            if let Reading::Own(exchange) = entry.note.reading {
                exchange.end();
            } else {
                out.extend_from_slice(frame);
            }
        }
    }
    Ok(())
}
