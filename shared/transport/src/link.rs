//! The asking side of one live connection: a writer with a queue, a reader, and the calls that wait for their replies.

use crate::frames;
use crate::pace::Pace;
use arras_protocol::frame::{FrameHeader, FrameKind};
use arras_protocol::{ChannelError, ProtocolId};
use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::Instant;
use tracing::debug;

/// Requests handed to the writer and not yet taken by it; the bytes are bounded elsewhere.
const QUEUE: usize = 32;

/// Bytes gathered before they are written.
const WRITE_BUFFER_BYTES: usize = 64 * 1024;

/// A reply: response or refusal, and its body.
type Reply = (FrameKind, Vec<u8>);

/// A request that was not sent, and never will be by this link.
pub struct Unsent {
    /// The message.
    pub body: Vec<u8>,
    /// What was held for it.
    pub room: Option<OwnedSemaphorePermit>,
}

/// A request on its way to the writer.
struct Outgoing {
    call: u64,
    protocol: ProtocolId,
    body: Vec<u8>,
    until: Instant,
    _room: Option<OwnedSemaphorePermit>,
}

/// A call that waits for its reply.
struct Waiting {
    protocol: ProtocolId,
    reply: oneshot::Sender<Result<Reply, ChannelError>>,
}

enum Calls {
    Open(HashMap<u64, Waiting>),
    /// Why it closed.
    Closed(String),
}

/// The calls in flight on one link.
struct Pending {
    calls: Mutex<Calls>,
    /// The next call's number. The greeting was call 0.
    next: AtomicU64,
}

/// A live connection, or one that has broken.
pub struct Link {
    outgoing: mpsc::Sender<Outgoing>,
    pending: Arc<Pending>,
}

/// Takes a call off the list when its caller stops waiting.
struct Registered<'a> {
    pending: &'a Pending,
    call: u64,
}

impl Drop for Registered<'_> {
    fn drop(&mut self) {
        self.pending.take(self.call);
    }
}

impl Pending {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        // Nothing panics while it is held.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, call: u64) -> Option<Waiting> {
        match &mut *self.calls() {
            Calls::Open(calls) => calls.remove(&call),
            Calls::Closed(_) => None,
        }
    }

    fn is_waited_for(&self, call: u64) -> bool {
        matches!(&*self.calls(), Calls::Open(calls) if calls.contains_key(&call))
    }

    /// Fails every call in flight, and every later one.
    fn close(&self, why: String) {
        let before = std::mem::replace(&mut *self.calls(), Calls::Closed(why.clone()));
        if let Calls::Open(calls) = before {
            for waiting in calls.into_values() {
                let _ = waiting.reply.send(Err(ChannelError::Lost(why.clone())));
            }
        }
    }

    fn why_closed(&self) -> String {
        match &*self.calls() {
            Calls::Open(_) => "closed".into(),
            Calls::Closed(why) => why.clone(),
        }
    }

    /// Hands a reply to its call. An error breaks the connection.
    fn deliver(&self, header: FrameHeader, body: Vec<u8>) -> Result<(), String> {
        if header.kind == FrameKind::Request {
            return Err("the server sent a request".into());
        }
        let Some(waiting) = self.take(header.call) else {
            if header.call == 0 || header.call >= self.next.load(Ordering::Relaxed) {
                return Err("the server answered a call that was never made".into());
            }
            debug!(call = header.call, "late reply dropped");
            return Ok(());
        };
        if waiting.protocol != header.protocol {
            let why = "the server answered with a message of another protocol";
            let _ = waiting.reply.send(Err(ChannelError::Malformed(why.into())));
            return Err(why.into());
        }
        // The caller may have just stopped waiting.
        let _ = waiting.reply.send(Ok((header.kind, body)));
        Ok(())
    }
}

impl Link {
    /// Drives a stream on which the peers have greeted each other (call 0), until either side closes it. Must be called in
    /// a runtime.
    pub fn new<S: AsyncRead + AsyncWrite + Send + 'static>(stream: S) -> Self {
        let (outgoing, queue) = mpsc::channel(QUEUE);
        let calls = Mutex::new(Calls::Open(HashMap::new()));
        let pending = Arc::new(Pending { calls, next: AtomicU64::new(1) });
        tokio::spawn(run(stream, queue, Arc::clone(&pending)));
        Self { outgoing, pending }
    }

    /// False once no call can be made on it any more.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(&*self.pending.calls(), Calls::Open(_))
    }

    /// Sends a request and waits for its reply; the inner error is the call's. The caller bounds the time, and the server
    /// is told that it ends at `until`. `room` is given back when the request was written.
    ///
    /// # Errors
    /// [`Unsent`] if the link broke before the request was handed to it.
    pub async fn exchange(
        &self,
        protocol: ProtocolId,
        body: Vec<u8>,
        until: Instant,
        room: Option<OwnedSemaphorePermit>,
    ) -> Result<Result<Reply, ChannelError>, Unsent> {
        let (reply, replied) = oneshot::channel();
        let call = self.pending.next.fetch_add(1, Ordering::Relaxed);
        match &mut *self.pending.calls() {
            Calls::Open(calls) => calls.insert(call, Waiting { protocol, reply }),
            Calls::Closed(_) => return Err(Unsent { body, room }),
        };
        let _registered = Registered { pending: &self.pending, call };
        let request = Outgoing { call, protocol, body, until, _room: room };
        if let Err(unsent) = self.outgoing.send(request).await {
            let Outgoing { body, _room: room, .. } = unsent.0;
            return Err(Unsent { body, room });
        }
        Ok(replied.await.unwrap_or_else(|_| Err(ChannelError::Lost(self.pending.why_closed()))))
    }
}

/// Drives a stream until either side closes it.
async fn run<S: AsyncRead + AsyncWrite + Send + 'static>(
    stream: S,
    queue: mpsc::Receiver<Outgoing>,
    pending: Arc<Pending>,
) {
    let (reader, writer) = tokio::io::split(stream);
    let mut writer = tokio::spawn(write_requests(writer, queue, Arc::clone(&pending)));
    let why = tokio::select! {
        why = read_replies(reader, &pending) => why,
        ended = &mut writer => match ended {
            Ok(Ok(())) => "closed on this side".to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "the writer failed".to_owned(),
        },
    };
    writer.abort();
    tracing::info!("connection to the server closed: {why}");
    pending.close(why);
}

/// Reads replies until the stream ends; says why it did.
async fn read_replies<R: AsyncRead + Unpin>(mut stream: R, pending: &Pending) -> String {
    loop {
        match frames::read(&mut stream, Pace::Any).await {
            Ok(Some((header, body))) => {
                if let Err(why) = pending.deliver(header, body) {
                    return why;
                }
            }
            Ok(None) => return "the server closed the connection".into(),
            Err(error) => return error.to_string(),
        }
    }
}

/// Writes requests as they come, until nobody can send any more; then closes the stream.
async fn write_requests<W: AsyncWrite + Unpin>(
    stream: W,
    mut queue: mpsc::Receiver<Outgoing>,
    pending: Arc<Pending>,
) -> io::Result<()> {
    let mut stream = BufWriter::with_capacity(WRITE_BUFFER_BYTES, stream);
    while let Some(first) = queue.recv().await {
        // Those about to ask go first, and share the record: a record costs both sides more than a request in it.
        yield_now().await;
        let mut next = Some(first);
        while let Some(request) = next {
            if pending.is_waited_for(request.call) {
                write_request(&mut stream, &request).await?;
            }
            next = queue.try_recv().ok();
        }
        stream.flush().await?;
    }
    stream.shutdown().await
}

async fn write_request<W: AsyncWrite + Unpin>(stream: &mut W, request: &Outgoing) -> io::Result<()> {
    let left = request.until.saturating_duration_since(Instant::now()).as_millis();
    let header = FrameHeader {
        call: request.call,
        kind: FrameKind::Request,
        protocol: request.protocol,
        // 0 would mean "no deadline".
        deadline_ms: u32::try_from(left).unwrap_or(u32::MAX).max(1),
        body_bytes: u32::try_from(request.body.len()).map_err(io::Error::other)?,
    };
    frames::write(stream, Pace::Any, header, &request.body).await.map(drop)
}

#[cfg(test)]
mod tests;
