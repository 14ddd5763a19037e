//! The way from the database to the client where statements are rewritten: what is not shown as it comes is held whole,
//! one message at a time.

mod passing;

use super::folding::FoldedRow;
use super::reading::{Opening, Reading, shown_error, stored_by};
use super::{BothWays, End, FromSide, KeepingBack, State, ToSide};
use crate::error::SqlError;
use crate::frames::{HEAD_BYTES, Head, Inbox};
use crate::pipeline::Done;
use crate::rewriting::{MESSAGE_BYTES_MAX, Rewriting};
use crate::room::Share;
use crate::values::ConnectionKeys;
use tokio::task::coop::consume_budget;

/// Bytes of what is written that are kept for the next time.
const KEPT_BYTES: usize = 256 * 1024;

/// Rows up to this size, in bytes, are read whole, whatever is in them.
const WHOLE_BYTES: usize = 64 * 1024;

/// What the database sent is none of its protocol's messages.
const MALFORMED: &str = "08P01";

/// What is to be done before more of what came can be read.
enum Next {
    /// More must come: a message of so many bytes is not whole.
    More(usize),
    /// All that has come is read, but so many bytes of the last message have not come yet; they pass as they are.
    Rest(usize),
    /// What comes next is a row that is not held whole.
    Folded(Box<FoldedRow>),
    /// More has come, but what was made of the rest is to be written before.
    Full,
}

/// Passes on what the database sends until there is no more.
pub(super) async fn pass(
    shared: &BothWays,
    rewriting: &Rewriting,
    mut from: FromSide,
    to: &mut ToSide,
) -> End {
    let (mut inbox, mut rest, mut out) = (Inbox::new(), 0, Vec::new());
    let (mut drops, mut room, mut shown) = (false, None, Vec::new());
    let mut folded: Option<Box<FoldedRow>> = None;
    loop {
        rest = pass_rest(&mut inbox, (!drops).then_some(&mut out), rest);
        drops &= rest > 0;
        let (mut needed, mut is_done, mut reads_on) = (0, false, false);
        if let Some(row) = folded.take() {
            match read_folded(row, &mut inbox, rewriting, (&mut out, &mut shown)) {
                Ok(row) => folded = row,
                Err((left, error)) => {
                    shared.state().fail_statement(&error, &mut out);
                    (rest, drops) = (left, left > 0);
                }
            }
        }
        if rest == 0 && folded.is_none() {
            let (read, next) = match scan_told(shared, inbox.there(), rewriting, (&mut out, &mut shown)) {
                Ok(scanned) => scanned,
                Err(error) => return End::Violation(error),
            };
            inbox.passed(read);
            match next {
                Next::More(total) => needed = total,
                Next::Rest(bytes) => rest = bytes,
                Next::Folded(row) => (folded, reads_on) = (Some(row), true),
                Next::Full => reads_on = true,
            }
            if read > 0 || room.is_none() {
                inbox.shrink();
                is_done = true;
            }
        }
        // What a large message was has its room until its client has it.
        let had = room.as_ref().or(shown.first()).or_else(|| folded.as_ref().and_then(|row| row.had()));
        let ends = rest == 0 || drops;
        if let Err(end) = write((shared, rewriting), to, (&mut out, had), ends).await {
            return end;
        }
        shown.clear();
        room = room.filter(|_| !is_done);
        if needed > 0 && room.is_none() {
            match room_for(rewriting, needed).await {
                Ok(share) => {
                    room = share;
                    inbox.make_room(needed);
                }
                Err(error) if inbox.there().first() == Some(&b'D') => {
                    shared.state().fail_statement(&error, &mut out);
                    (rest, drops) = (needed, true);
                    continue;
                }
                Err(error) => return End::Violation(error),
            }
        }
        let came = if reads_on { Ok(1) } else { inbox.fill(&mut from).await };
        match came {
            Ok(1..) => {}
            ended => return super::answers::ended(&shared.state(), ended.err()),
        }
    }
}

/// Reads replies as [`scan`], and tells whoever waits for that.
fn scan_told(
    shared: &BothWays,
    there: &[u8],
    rewriting: &Rewriting,
    outs: (&mut Vec<u8>, &mut Vec<Share>),
) -> Result<(usize, Next), SqlError> {
    let mut state = shared.state();
    let scanned = scan(there, rewriting, &mut state, outs);
    // An end of rows that nothing waited for is left out, so that nobody waits for its answer.
    let _ = state.pipeline.first();
    shared.tell_waiting(&mut state);
    scanned
}

/// Passes on what has come of the rest of a message, or drops it; how much of it is still to come.
fn pass_rest(inbox: &mut Inbox, out: Option<&mut Vec<u8>>, rest: usize) -> usize {
    let passed = rest.min(inbox.there().len());
    if let Some(out) = out {
        out.extend_from_slice(inbox.there().get(..passed).unwrap_or_default());
    }
    inbox.passed(passed);
    rest - passed
}

/// Reads what has come of a row that is not held whole; the row again if more of it is to come.
fn read_folded(
    mut row: Box<FoldedRow>,
    inbox: &mut Inbox,
    rewriting: &Rewriting,
    (out, shown): (&mut Vec<u8>, &mut Vec<Share>),
) -> Result<Option<Box<FoldedRow>>, (usize, SqlError)> {
    let (read, opened) = row.read(inbox.there(), rewriting);
    inbox.passed(read);
    match opened {
        Ok(()) if row.left() > 0 => Ok(Some(row)),
        Ok(()) => {
            row.show(out);
            shown.extend(row.into_room());
            Ok(None)
        }
        Err(error) => Err((row.left(), error)),
    }
}

/// Room for a message that must be whole to be read.
async fn room_for(rewriting: &Rewriting, bytes: usize) -> Result<Option<Share>, SqlError> {
    if bytes > MESSAGE_BYTES_MAX {
        let text = format!("a row of {bytes} bytes is more than the proxy can open ({MESSAGE_BYTES_MAX})");
        return Err(SqlError::new("54000", text));
    }
    Ok(rewriting.replies.share(bytes).await?)
}

/// Writes what is there to be written, for as long as the room that it has may be had; the session's end if its client is gone.
async fn write(
    (shared, rewriting): (&BothWays, &Rewriting),
    to: &mut ToSide,
    (out, had): (&mut Vec<u8>, Option<&Share>),
    ends: bool,
) -> Result<(), End> {
    if out.is_empty() {
        return Ok(());
    }
    shared.writes();
    let mut written = to.write_at_once(out);
    if let Ok(bytes) = written
        && let Some(rest @ [_, ..]) = out.get(bytes..)
    {
        let rest = rewriting.replies.giving_up(had, to.write_whole(rest)).await;
        written = rest?.map(|()| bytes);
    }
    if written.is_err() {
        let idle = shared.state().pipeline.is_empty();
        return Err(if idle { End::Left } else { End::Abandoned });
    }
    shared.written(ends);
    out.clear();
    out.shrink_to(KEPT_BYTES);
    // What a socket takes at once is none of what the task may do in one go by itself.
    consume_budget().await;
    Ok(())
}

/// Reads the replies in `there` and appends what the client is told; how many bytes were read.
fn scan(
    there: &[u8],
    rewriting: &Rewriting,
    state: &mut State,
    (out, shares): (&mut Vec<u8>, &mut Vec<Share>),
) -> Result<(usize, Next), SqlError> {
    let mut read = passing::passed(there, rewriting, state);
    out.extend_from_slice(there.get(..read).unwrap_or_default());
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
        let Some(frame) = message.get(..head.total) else {
            let long = head.kind == b'D' && head.total > WHOLE_BYTES && state.keeping_back.is_none();
            let form =
                state.pipeline.first().filter(|_| long).and_then(|entry| entry.note.reading.folded_rows());
            return Ok(match form {
                Some(form) => {
                    (read, Next::Folded(Box::new(FoldedRow::new(form, state.viewer(), head.total))))
                }
                None => (read, Next::More(head.total)),
            });
        };
        reply(head.kind, frame, rewriting, state, (out, shares))?;
        read += head.total;
        if out.len() > KEPT_BYTES && read < there.len() {
            return Ok((read, Next::Full));
        }
    }
    Ok((read, Next::More(0)))
}

/// Appends what the client is told of a reply.
fn shown(
    kind: u8,
    frame: &[u8],
    rewriting: &Rewriting,
    state: &mut State,
    (out, shares): (&mut Vec<u8>, &mut Vec<Share>),
) -> Result<(), SqlError> {
    let viewer = state.viewer();
    let Some(entry) = state.pipeline.first() else {
        out.extend_from_slice(frame);
        return Ok(());
    };
    let reading = &mut entry.note.reading;
    if let (b'D', Reading::Own(exchange)) = (kind, &mut *reading) {
        exchange.take_room(rewriting, frame.len());
    }
    let shown = if kind == b'E' { shown_error(frame, rewriting.schema(), stored_by(reading)) } else { None };
    let keys = ConnectionKeys::new(&*rewriting.columns, viewer);
    let mut opening = Opening { keys, room: &rewriting.replies, shares };
    let number = entry.note.number;
    let naming = if kind == b'C' { reading.naming().cloned() } else { None };
    let held = match reading {
        Reading::Holding(statement) if kind == b'C' => Some(std::mem::take(statement)),
        _ => None,
    };
    if state.keeping_back.is_some() && !matches!(reading, Reading::Own(_)) {
        if matches!(kind, b'S' | b'N' | b'A') || super::answers::is_fatal(frame) {
            out.extend_from_slice(frame);
        }
    } else if let Err(error) = reading.reply(shown.as_deref().unwrap_or(frame), &mut opening, out) {
        if error.sqlstate == MALFORMED {
            return Err(error);
        }
        state.fail_statement(&error, out);
    }
    if let Some(held) = held {
        state.has_held(held);
    }
    if let Some(naming) = naming {
        state.names.apply(&naming, number);
    }
    Ok(())
}

impl State {
    /// What the database sent cannot be shown: the client is told so as of an error of its statement. What the database sends
    /// up to its next `ReadyForQuery` is for a statement that has failed, or was behind one.
    fn fail_statement(&mut self, error: &SqlError, out: &mut Vec<u8>) {
        crate::replies::error(out, error, crate::replies::Severity::Error);
        self.keeping_back = Some(KeepingBack { followed: false });
        // The client need not wait for the end of the statement before it sends more.
        self.failed_here = self.status == b'T';
    }

    /// The client is told that the database waits, and of a transaction that has failed for it.
    fn tell_ready(&mut self, frame: &[u8], out: &mut Vec<u8>) {
        match self.keeping_back.take() {
            Some(KeepingBack { followed }) if frame.get(5) == Some(&b'T') => {
                self.failed_here = !followed;
                crate::replies::message(out, b'Z', |out| out.push(b'E'));
            }
            Some(_) => {
                self.failed_here = false;
                out.extend_from_slice(frame);
            }
            None => out.extend_from_slice(frame),
        }
    }
}

fn reply(
    kind: u8,
    frame: &[u8],
    rewriting: &Rewriting,
    state: &mut State,
    (out, shares): (&mut Vec<u8>, &mut Vec<Share>),
) -> Result<(), SqlError> {
    match kind {
        b'E' => state.fatal |= super::answers::is_fatal(frame),
        b'S' => {
            state.settings.read(frame);
            state.settings.look_up_zone(&rewriting.zones);
        }
        b'C' => state.tagged(frame),
        b'Z' => state.ready(frame, rewriting),
        _ => {}
    }
    if kind != b'Z' {
        shown(kind, frame, rewriting, state, (out, shares))?;
    }
    match state.pipeline.answered(kind) {
        Done::Nothing if kind == b'Z' => state.tell_ready(frame, out),
        Done::Nothing => {}
        Done::Answered(entry) => {
            if let Reading::Own(exchange) = entry.note.reading {
                exchange.end();
            }
        }
        Done::Failed(entries) => {
            let mut undos = Vec::new();
            for entry in entries {
                undos.extend(entry.note.undo.map(|undo| *undo));
                if let Reading::Own(exchange) = entry.note.reading {
                    exchange.end();
                }
            }
            state.undo(undos);
        }
        Done::Ready(entry) => {
            state.waits_behind(entry.note.number, rewriting);
            match entry.note.reading {
                Reading::Own(exchange) => exchange.end(),
                Reading::Silent => {}
                _ => state.tell_ready(frame, out),
            }
        }
    }
    Ok(())
}
