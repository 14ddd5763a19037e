//! One connection: read a message, run it, answer, again.

use crate::answer::Answer;
use crate::dispatch;
use crate::error::CommandError;
use crate::memory::{BEGINNING_BYTES, Memory, Share, UNCOUNTED_BYTES};
use crate::operations::Operation;
use crate::roster::Place;
use crate::server::ServerState;
use crate::slices;
use crate::wire::{self, HEADER_BYTES, Message, MessageBody, ReplyForm, WireError};
use arras_service::interrupt::Reason;
use arras_service::store::Store;
use arras_transport::pace::Pace;
use arras_transport::room::Refused;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::sync::watch;
use tokio::time::timeout;

/// Memory taken for a message before any of it arrived, in bytes: an announced length costs its sender nothing.
const READ_AHEAD_BYTES: usize = 64 * 1024;

/// Bytes read ahead of a command under way, to see whether its client is still there.
const AHEAD_BYTES: usize = 4096;

/// Bytes read at once of what comes next: a small message as a whole, and less than there was room for says that there
/// is no more.
const FIRST_BYTES: usize = 1024;

/// What is asked of a client within a message, in either direction.
pub(crate) const PACE: Pace = Pace::AtLeast { stall: Duration::from_secs(30), bytes_per_second: 64 * 1024 };

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    /// Counts connections from 1; `connectionId` in `hello`.
    pub(crate) number: u64,
}

/// Why a connection ended other than by its peer closing it between two messages.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectionFailure {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("no message for {} s", .0.as_secs())]
    Idle(Duration),
    #[error("its place was given to another: it was idle for longest, and there are too many connections")]
    GaveWay,
    #[error("{0}")]
    Crowded(#[from] Refused),
    #[error("protocol violation: {0}")]
    Protocol(WireError),
}

/// Serves a connection until the peer closes it, breaks the protocol or `stop` turns true.
pub(crate) async fn run<S: Store, IO>(
    shared: &ServerState<S>,
    mut stream: IO,
    peer: &Peer,
    (place, mut stop): (&Place<'_>, watch::Receiver<bool>),
) -> Result<(), ConnectionFailure>
where
    IO: AsyncRead + AsyncWrite + Unpin + Send,
{
    let idle = shared.options.connection_idle;
    let mut reply_number: i32 = 0;
    let mut ahead = Vec::new();
    loop {
        // Only waiting for a message is cut short by a stop; a command that started gets its answer.
        let received = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
            () = place.given_up() => return Err(ConnectionFailure::GaveWay),
            received = read_message((&shared.memory, place), idle, &mut ahead, &mut stream) => received,
        };
        let Some((bytes, share)) = received? else {
            return Ok(());
        };
        if !place.work() {
            return Err(ConnectionFailure::GaveWay);
        }
        reply_number = reply_number.wrapping_add(1);
        let operation = shared.operations.begin(peer);
        let answered = {
            let answer = answer(shared, peer, &operation, bytes);
            attended(answer, &operation, &mut stream, &mut ahead, &mut stop).await
        };
        drop(share);
        let (reply, form) = answered?;
        // While a client takes its time to read, only the bytes are held.
        let encoded = encode(reply_number, reply, form)?;
        place.wait();
        let Some(encoded) = encoded else {
            continue;
        };
        tokio::select! {
            biased;
            sent = shared.memory.sending(operation.let_go(), send(&mut stream, &encoded, place)) => sent??,
            () = place.given_up() => return Err(ConnectionFailure::GaveWay),
        }
    }
}

/// Waits for the answer to a command, and has the command end if its client goes away or the server stops.
async fn attended<T, IO: AsyncRead + Unpin>(
    answer: impl Future<Output = T>,
    operation: &Operation<'_>,
    stream: &mut IO,
    ahead: &mut Vec<u8>,
    stop: &mut watch::Receiver<bool>,
) -> T {
    let mut answer = std::pin::pin!(answer);
    let mut buffer = [0; AHEAD_BYTES];
    let (mut listening, mut stopping) = (ahead.is_empty(), false);
    loop {
        tokio::select! {
            biased;
            answer = &mut answer => return answer,
            _ = stop.wait_for(|stop| *stop), if !stopping => {
                stopping = true;
                operation.raise(Reason::Stopping);
            }
            read = stream.read(&mut buffer), if listening => {
                listening = false;
                match read {
                    Ok(0) | Err(_) => operation.client_is_gone(),
                    Ok(count) => ahead.extend_from_slice(buffer.get(..count).unwrap_or_default()),
                }
            }
        }
    }
}

/// Reads one message, the bytes `ahead` first, and may leave what follows it there; `None` if the peer closed the
/// connection between two.
async fn read_message<IO: AsyncRead + Unpin>(
    keeper: (&Memory, &Place<'_>),
    idle: Duration,
    ahead: &mut Vec<u8>,
    stream: &mut IO,
) -> Result<Option<(Vec<u8>, Option<Share>)>, ConnectionFailure> {
    if ahead.is_empty() {
        ahead.reserve_exact(FIRST_BYTES);
        let first = (&mut *stream).take(FIRST_BYTES as u64);
        let came = timeout(idle, std::pin::pin!(first).read_buf(ahead)).await;
        if came.map_err(|_| ConnectionFailure::Idle(idle))?? == 0 {
            return Ok(None);
        }
    }
    let before = std::mem::take(ahead);
    let mut rest = before.as_slice();
    let message = read_whole(keeper, idle, &mut (&mut rest).chain(stream)).await?;
    *ahead = rest.to_vec();
    Ok(message)
}

/// Reads one message, when there is room for it. It may be waited for as long as the peer may be idle; once it has
/// begun, it must go on.
async fn read_whole<IO: AsyncRead + Unpin>(
    (memory, place): (&Memory, &Place<'_>),
    idle: Duration,
    stream: &mut IO,
) -> Result<Option<(Vec<u8>, Option<Share>)>, ConnectionFailure> {
    let mut head = [0; HEADER_BYTES];
    let first = timeout(idle, stream.read(&mut head)).await.map_err(|_| ConnectionFailure::Idle(idle))??;
    let Some(begun) = head.get(..first).filter(|begun| !begun.is_empty()) else {
        return Ok(None);
    };
    let mut bytes = begun.to_vec();
    // A peer that sends keeps its place, as one does whose command is done.
    PACE.begin().fill(stream, &mut bytes, HEADER_BYTES, |_| place.wait()).await?;
    let cut = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let head = bytes.first_chunk::<HEADER_BYTES>().ok_or_else(cut)?;
    let header = wire::parse_header(head).map_err(ConnectionFailure::Protocol)?;
    // Announced alone, a message takes no room from others.
    let uncounted = header.message_bytes.min(UNCOUNTED_BYTES);
    bytes.reserve(uncounted.saturating_sub(HEADER_BYTES));
    PACE.begin().fill(stream, &mut bytes, uncounted, |_| place.wait()).await?;
    let beginning = memory.beginning(header.message_bytes).await?;
    if let Some(beginning) = &beginning {
        place.wait();
        let mut passing = PACE.begin();
        let came = |bytes| {
            place.wait();
            beginning.came(bytes);
        };
        let filled = passing.fill(stream, &mut bytes, BEGINNING_BYTES, came);
        memory.beginning_with(beginning, filled).await??;
    }
    let share = memory.request(header.message_bytes).await?;
    drop(beginning);
    if let Some(share) = &share {
        // It was this server that made it wait.
        place.wait();
        bytes.reserve(header.message_bytes.saturating_sub(bytes.len()).min(READ_AHEAD_BYTES));
        let mut passing = PACE.begin();
        let came = |bytes| {
            place.wait();
            share.came(bytes);
        };
        let filled = passing.fill(stream, &mut bytes, header.message_bytes, came);
        memory.receiving(share, filled).await??;
    }
    if bytes.len() < header.message_bytes {
        return Err(cut().into());
    }
    Ok(Some((bytes, share)))
}

/// Sends a reply. A client that takes it keeps its place.
async fn send<IO: AsyncWrite + Unpin>(stream: &mut IO, reply: &[u8], place: &Place<'_>) -> io::Result<()> {
    let mut passing = PACE.begin();
    passing.write(stream, reply, || place.wait()).await?;
    passing.flush(stream).await
}

/// A reply and the number of the request it answers.
struct Reply {
    response_to: i32,
    answer: Answer,
}

/// Answers a message; a large one where reading it and planning with its values hold up no other connection.
async fn answer<S: Store>(
    shared: &ServerState<S>,
    peer: &Peer,
    operation: &Operation<'_>,
    bytes: Vec<u8>,
) -> Result<(Reply, ReplyForm), ConnectionFailure> {
    let size = bytes.len();
    slices::apart(size, answer_here(shared, peer, operation, bytes)).await
}

async fn answer_here<S: Store>(
    shared: &ServerState<S>,
    peer: &Peer,
    operation: &Operation<'_>,
    bytes: Vec<u8>,
) -> Result<(Reply, ReplyForm), ConnectionFailure> {
    let response_to = request_id(&bytes);
    let parsed = wire::parse_message(&bytes);
    drop(bytes);
    let (answer, form) = match parsed {
        Ok(Message { body: MessageBody::Command { command, sequences, unacknowledged }, .. }) => {
            if !unacknowledged {
                operation.is_waited_for();
            }
            let answer = dispatch::run(shared, peer, operation, command, sequences).await;
            (answer, if unacknowledged { ReplyForm::Silent } else { ReplyForm::Message })
        }
        Ok(Message { body: MessageBody::LegacyCommand { database, command }, .. }) => {
            operation.is_waited_for();
            (dispatch::run_legacy(shared, peer, operation, &database, command).await, ReplyForm::Legacy)
        }
        Err(WireError::Refused { code, code_name, message, reply }) => {
            (Answer::Document(CommandError::new(code, code_name, message).to_reply()), reply)
        }
        Err(error @ WireError::Broken(_)) => return Err(ConnectionFailure::Protocol(error)),
    };
    Ok((Reply { response_to, answer }, form))
}

fn request_id(message: &[u8]) -> i32 {
    let head = message.first_chunk::<HEADER_BYTES>();
    head.and_then(|head| wire::parse_header(head).ok()).map_or(0, |header| header.request_id)
}

fn encode(number: i32, reply: Reply, form: ReplyForm) -> Result<Option<Vec<u8>>, ConnectionFailure> {
    let encode = match form {
        ReplyForm::Silent => return Ok(None),
        ReplyForm::Message => wire::encode_reply,
        ReplyForm::Legacy => wire::encode_legacy_reply,
    };
    let encoded = match (&reply.answer, form) {
        (Answer::Document(document), _) => encode(number, reply.response_to, document),
        (Answer::Batch(batch), ReplyForm::Message) => wire::encode_batch(number, reply.response_to, batch),
        // No command that came in the old form opens a cursor.
        (Answer::Batch(_), ReplyForm::Legacy | ReplyForm::Silent) => {
            Err(WireError::Broken("a batch in a form that has none".into()))
        }
    };
    let encoded = encoded.or_else(|error| {
        let substitute =
            CommandError::new(17420, "Location17420", format!("reply could not be sent: {error}"));
        encode(number, reply.response_to, &substitute.to_reply())
    });
    encoded.map(Some).map_err(ConnectionFailure::Protocol)
}

#[cfg(test)]
mod tests;
