//! One connection: a reader that dispatches requests, the requests at work, and a writer of their replies.

use super::admission::Seat;
use super::memory::Room;
use super::{Handler, Limits, Serving};
use crate::{Caller, halves};
use arras_protocol::frame::{FrameHeader, FrameKind};
use arras_protocol::hello::Hello;
use arras_protocol::limits::FRAME_BYTES_MAX;
use arras_protocol::{Protocol, ProtocolId, Refusal, codec, write};
use arras_transport::frames::{self, Announced, ReadError};
use arras_transport::handshakes::Handshake;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufWriter};
use tokio::net::TcpStream;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, SemaphorePermit, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::server::TlsStream;
use tracing::{debug, error, info, warn};

/// Small replies that leave together, in bytes.
const WRITE_CHUNK_BYTES: usize = 64 * 1024;

/// A quick request is answered by the reader itself if the one before took no longer, in microseconds: what has to be
/// fetched from a disk is fetched on threads that may wait, for many requests at a time.
const AT_ONCE_US: u64 = 100;

/// Bytes held for a connection, counted so that its reader can wait for room.
#[derive(Default)]
struct Account {
    bytes: AtomicUsize,
    released: Notify,
}

impl Account {
    fn hold(self: &Arc<Self>, bytes: usize) -> Held {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
        Held { account: Arc::clone(self), bytes }
    }

    async fn below(&self, max: usize) {
        loop {
            let released = self.released.notified();
            if self.bytes.load(Ordering::Acquire) <= max {
                return;
            }
            released.await;
        }
    }
}

/// Bytes held until this is dropped.
struct Held {
    account: Arc<Account>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.account.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.account.released.notify_one();
    }
}

/// A reply on its way out; the request counts as in flight until it is written.
struct Reply {
    header: FrameHeader,
    body: Vec<u8>,
    _held: Held,
    _room: Room,
    _in_flight: Option<OwnedSemaphorePermit>,
}

/// A request as it was read.
struct Received {
    header: FrameHeader,
    body: Vec<u8>,
    at: Instant,
    is_quick: bool,
    /// It is answered where it was read.
    at_once: bool,
    /// What it takes in memory until it was worked on.
    room: Room,
}

/// What became of a request.
struct Worked {
    /// None if nobody waits for the answer any more.
    answered: Option<Result<Vec<u8>, Refusal>>,
    /// What the answer takes in memory.
    room: Room,
    /// How long the handler ran.
    worked: Duration,
}

/// What a connection did, for the log.
#[derive(Default)]
struct Tally {
    requests: AtomicU64,
    received_bytes: AtomicU64,
    sent_bytes: AtomicU64,
    /// How long the handler took for the last quick request.
    quick_us: AtomicU64,
}

/// What the parts of one connection share.
struct Connection<H> {
    serving: Arc<Serving<H>>,
    peer: SocketAddr,
    in_flight: Arc<Semaphore>,
    account: Arc<Account>,
    replies: mpsc::Sender<Reply>,
    tally: Arc<Tally>,
    /// Setbacks of the handler when the connection began.
    setbacks: u64,
    /// Told when an answer comes from after a later one.
    set_back: Arc<Notify>,
    caller: Arc<Caller>,
}

impl<H> Clone for Connection<H> {
    fn clone(&self) -> Self {
        Self {
            serving: Arc::clone(&self.serving),
            peer: self.peer,
            in_flight: Arc::clone(&self.in_flight),
            account: Arc::clone(&self.account),
            replies: self.replies.clone(),
            tally: Arc::clone(&self.tally),
            setbacks: self.setbacks,
            set_back: Arc::clone(&self.set_back),
            caller: Arc::clone(&self.caller),
        }
    }
}

/// Why a connection ends early.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("no hello in time")]
    NoHello,
    #[error("too many handshakes, and this was the oldest of its address")]
    Dropped,
    #[error("hello was refused: {0}")]
    Refused(Refusal),
    #[error("the peer broke the protocol: {0}")]
    Peer(&'static str),
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// Tells the handler of a connection's end, however it comes.
struct Ended<H: Handler> {
    handler: Arc<H>,
    caller: Arc<Caller>,
}

impl<H: Handler> Drop for Ended<H> {
    fn drop(&mut self) {
        self.handler.ended(&self.caller);
    }
}

/// Serves a connection to its end. The handshake is over once the peer has said hello, which it must `until` then.
pub(super) async fn serve<H: Handler>(
    serving: Arc<Serving<H>>,
    stream: TlsStream<TcpStream>,
    peer: SocketAddr,
    handshake: (Handshake<IpAddr>, Instant),
    seat: &Seat,
) {
    let opened = Instant::now();
    let (mut reader, writer) = tokio::io::split(stream);
    let (replies, outgoing) = mpsc::channel(serving.limits.in_flight_max.max(1));
    let connection = Connection {
        in_flight: seat.in_flight(),
        account: Arc::default(),
        tally: Arc::default(),
        setbacks: serving.handler.setbacks(),
        set_back: Arc::default(),
        caller: Arc::default(),
        serving,
        peer,
        replies,
    };
    let tally = Arc::clone(&connection.tally);
    let _ended =
        Ended { handler: Arc::clone(&connection.serving.handler), caller: Arc::clone(&connection.caller) };
    // A set, because that aborts the writer if this connection is dropped.
    let mut writing = JoinSet::new();
    let limits = connection.serving.limits.clone();
    writing.spawn(write_replies(writer, outgoing, limits, (Arc::clone(&tally), seat.in_flight())));
    info!(%peer, "connection opened");
    let mut cut = false;
    tokio::select! {
        ended = connection.read_requests(&mut reader, handshake, seat) => {
            match ended {
                Ok(()) => cut = true,
                // What was queued for the peer (the refusal of its hello) still goes out.
                Err(broken) => warn!(%peer, "closing the connection: {broken}"),
            }
        }
        ended = writing.join_next() => {
            cut = true;
            if let Some(Ok(Err(error))) = ended {
                warn!(%peer, %error, "closing the connection: cannot write to it");
            }
        }
        () = connection.set_back.notified() => {
            cut = true;
            warn!(%peer, "closing the connection: the store was set back");
        }
        () = connection.drained_after_stop() => {}
        () = seat.given_up() => {
            cut = true;
            warn!(%peer, "closing the connection: there are too many, and it was unused for longest");
        }
    }
    drop(connection);
    if cut {
        writing.abort_all();
    }
    while writing.join_next().await.is_some() {}
    info!(
        %peer,
        requests = tally.requests.load(Ordering::Relaxed),
        received_bytes = tally.received_bytes.load(Ordering::Relaxed),
        sent_bytes = tally.sent_bytes.load(Ordering::Relaxed),
        seconds = opened.elapsed().as_secs_f64(),
        "connection closed"
    );
}

impl<H: Handler> Connection<H> {
    fn limits(&self) -> &Limits {
        &self.serving.limits
    }

    /// Reads requests until the peer closes (`Ok`) or breaks the protocol.
    async fn read_requests<R: AsyncRead + Unpin>(
        &self,
        stream: &mut R,
        (handshake, until): (Handshake<IpAddr>, Instant),
        seat: &Seat,
    ) -> Result<(), Broken> {
        let first = tokio::select! {
            first = timeout_at(until, self.read_hello(stream)) => first.map_err(|_| Broken::NoHello)??,
            () = handshake.dropped() => return Err(Broken::Dropped),
        };
        let Some(hello) = first else {
            return Ok(());
        };
        self.greet(hello).await?;
        drop(handshake);
        loop {
            self.account.below(self.limits().held_bytes_max).await;
            let Some(begun) = frames::begin(stream, self.limits().pace()).await? else {
                return Ok(());
            };
            let sending = seat.in_use();
            let mut announced = begun.header(stream).await?;
            let header = announced.header;
            if header.kind != FrameKind::Request {
                return Err(Broken::Peer("a reply where a request was expected"));
            }
            let room = self.room(&mut announced).await;
            let body = announced.body(stream).await?;
            let received = Instant::now();
            self.count(&body);
            if *self.serving.stop.borrow() {
                self.refuse(header, &Refusal::Stopping).await;
                continue;
            }
            let held = self.account.hold(body.len());
            let Ok(permit) = Arc::clone(&self.in_flight).acquire_owned().await else {
                return Ok(());
            };
            // From here on the permit shows that the seat is in use.
            drop(sending);
            let is_quick = self.serving.handler.is_quick(header.protocol, &body);
            let at_once = is_quick && self.tally.quick_us.load(Ordering::Relaxed) <= AT_ONCE_US;
            let request = Received { header, body, at: received, is_quick, at_once, room };
            if at_once {
                // Sooner done than handed to another thread.
                self.answer(request, (held, permit)).await;
            } else {
                let connection = self.clone();
                tokio::spawn(async move { connection.answer(request, (held, permit)).await });
            }
        }
    }

    /// Waits for room for a request that is announced, in turn.
    async fn room(&self, announced: &mut Announced) -> Room {
        let FrameHeader { protocol, .. } = announced.header;
        let bytes = announced.body_bytes;
        let turn = async {
            // Who has room must not wait for one more request to be in flight: that is up to a peer that reads.
            // Once the server stops, all it gets is a refusal.
            let mut stop = self.serving.stop.clone();
            tokio::select! {
                permit = self.in_flight.acquire() => drop(permit),
                _ = stop.wait_for(|stop| *stop) => {}
            }
            self.serving.memory.request(protocol, bytes).await
        };
        announced.after(turn).await
    }

    /// Reads the first frame; `None` where the stream ends before it.
    async fn read_hello<R: AsyncRead + Unpin>(&self, stream: &mut R) -> Result<Option<Received>, ReadError> {
        let Some(begun) = frames::begin(stream, self.limits().pace()).await? else {
            return Ok(None);
        };
        let mut announced = begun.header(stream).await?;
        let room = self.room(&mut announced).await;
        let header = announced.header;
        let body = announced.body(stream).await?;
        Ok(Some(Received { header, body, at: Instant::now(), is_quick: false, at_once: false, room }))
    }

    fn count(&self, body: &[u8]) {
        self.tally.requests.fetch_add(1, Ordering::Relaxed);
        self.tally.received_bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
    }

    /// The first frame: it must be a hello that the handler accepts.
    async fn greet(&self, hello: Received) -> Result<(), Broken> {
        let header = hello.header;
        self.count(&hello.body);
        if header.kind != FrameKind::Request || header.protocol != Hello::ID {
            let refusal = Refusal::Malformed("the first call on a connection must be hello".into());
            self.refuse(header, &refusal).await;
            return Err(Broken::Refused(refusal));
        }
        let Worked { answered, room, .. } = self.work(hello).await;
        match answered.unwrap_or(Err(Refusal::Stopping)) {
            Ok(_) if self.serving.handler.setbacks() != self.setbacks => {
                Err(Broken::Peer("the store was set back while it said hello"))
            }
            Ok(body) => {
                self.send(header, FrameKind::Response, body, (room, None)).await;
                Ok(())
            }
            Err(refusal) => {
                drop(room);
                self.refuse(header, &refusal).await;
                Err(Broken::Refused(refusal))
            }
        }
    }

    /// Answers one request.
    async fn answer(&self, request: Received, (held, permit): (Held, OwnedSemaphorePermit)) {
        let (header, request_bytes, received) = (request.header, request.body.len(), request.at);
        let Worked { answered, room, worked } = self.work(request).await;
        drop(held);
        let to_send = (room, Some(permit));
        if self.serving.handler.setbacks() != self.setbacks {
            return self.set_back.notify_one();
        }
        let protocol = halves::name(header.protocol);
        let peer = self.peer;
        let waited_us = (received.elapsed().saturating_sub(worked)).as_micros();
        let worked_us = worked.as_micros();
        match answered {
            None => {
                debug!(%peer, protocol, request_bytes, waited_us, "request dropped: its deadline is over")
            }
            Some(Ok(body)) => {
                let reply_bytes = body.len();
                debug!(%peer, protocol, request_bytes, reply_bytes, waited_us, worked_us, "request answered");
                self.send(header, FrameKind::Response, body, to_send).await;
            }
            Some(Err(refusal)) => {
                match &refusal {
                    Refusal::Damaged(_) | Refusal::Storage(_) | Refusal::Undecided(_) | Refusal::Full(_) => {
                        error!(%peer, protocol, request_bytes, worked_us, "request failed: {refusal}");
                    }
                    _ => debug!(%peer, protocol, request_bytes, worked_us, "request refused: {refusal}"),
                }
                self.send(header, FrameKind::Refusal, codec::encode(&refusal), to_send).await;
            }
        }
    }

    /// Runs the handler, in its turn for memory, on a blocking thread unless it is to be answered at once or is the one
    /// write at work.
    async fn work(&self, request: Received) -> Worked {
        // Writes wait for each other, to share a commit: one of them works at a time, and those that wait must not
        // take the places of readers.
        let Received { header, body, at: received, is_quick, at_once, room: mut asked } = request;
        let is_write = header.protocol == write::Write::ID;
        let beside = self.serving.handler.held_beside(header.protocol, &body);
        if beside > 0 {
            asked.grow(beside).await;
        }
        // It is never closed.
        let _worker = if at_once || is_write { None } else { self.serving.workers.acquire().await.ok() };
        let memory = &self.serving.memory;
        let mut room = match (is_write, is_quick) {
            (true, _) => memory.made(0),
            (false, true) => memory.small_reply().await,
            (false, false) => memory.reply().await,
        };
        let deadline = Duration::from_millis(u64::from(header.deadline_ms));
        if !deadline.is_zero() && received.elapsed() > deadline {
            return Worked { answered: None, room, worked: Duration::ZERO };
        }
        let started = Instant::now();
        let handler = Arc::clone(&self.serving.handler);
        let caller = Arc::clone(&self.caller);
        let tally = Arc::clone(&self.tally);
        let handle = move || {
            let began = Instant::now();
            let answered = handler.handle_for(&caller, header.protocol, &body);
            if is_quick {
                let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                tally.quick_us.store(took, Ordering::Relaxed);
            }
            answered
        };
        let worked = if at_once {
            catch_unwind(AssertUnwindSafe(handle)).map_err(drop)
        } else if let Some(_alone) = self.may_work_here(header.protocol) {
            catch_unwind(AssertUnwindSafe(|| tokio::task::block_in_place(handle))).map_err(drop)
        } else {
            tokio::task::spawn_blocking(handle).await.map_err(drop)
        };
        let answered = match worked {
            Ok(Ok(reply)) if reply.len() > FRAME_BYTES_MAX => {
                Err(Refusal::Limit(format!("the reply would be {} bytes", reply.len())))
            }
            Ok(answered) => answered,
            Err(()) => {
                error!(peer = %self.peer, protocol = halves::name(header.protocol), "the handler panicked");
                Err(Refusal::Storage("the request failed inside the server; its log says more".into()))
            }
        };
        room.resize(answered.as_ref().map_or(0, Vec::len));
        Worked { answered: Some(answered), room, worked: started.elapsed() }
    }

    /// One write at a time is worked on where it was received, which saves a lone one the way to another thread and
    /// back. Others wait for it on threads of their own: they must not take all those that serve connections.
    fn may_work_here(&self, protocol: ProtocolId) -> Option<SemaphorePermit<'_>> {
        let can_block = Handle::current().runtime_flavor() == RuntimeFlavor::MultiThread;
        if can_block && protocol == write::Write::ID { self.serving.here.try_acquire().ok() } else { None }
    }

    async fn refuse(&self, header: FrameHeader, refusal: &Refusal) {
        let body = codec::encode(refusal);
        let room = self.serving.memory.made(body.len());
        self.send(header, FrameKind::Refusal, body, (room, None)).await;
    }

    /// Queues a reply. If the connection is gone there is nobody to tell.
    async fn send(
        &self,
        request: FrameHeader,
        kind: FrameKind,
        body: Vec<u8>,
        (room, in_flight): (Room, Option<OwnedSemaphorePermit>),
    ) {
        let Ok(body_bytes) = u32::try_from(body.len()) else {
            return;
        };
        let header =
            FrameHeader { call: request.call, kind, protocol: request.protocol, deadline_ms: 0, body_bytes };
        let held = self.account.hold(body.len());
        let reply = Reply { header, body, _held: held, _room: room, _in_flight: in_flight };
        let _ = self.replies.send(reply).await;
    }

    /// Completes once the server is stopping and nothing is in flight here.
    async fn drained_after_stop(&self) {
        let mut stop = self.serving.stop.clone();
        let _ = stop.wait_for(|stop| *stop).await;
        let all = u32::try_from(self.limits().in_flight_max).unwrap_or(u32::MAX);
        let _ = self.in_flight.acquire_many(all).await;
    }
}

/// Writes replies as they come, until all senders are gone; then closes the stream.
async fn write_replies<W: AsyncWrite + Unpin>(
    stream: W,
    mut outgoing: mpsc::Receiver<Reply>,
    limits: Limits,
    (tally, in_flight): (Arc<Tally>, Arc<Semaphore>),
) -> io::Result<()> {
    let mut stream = BufWriter::with_capacity(WRITE_CHUNK_BYTES, stream);
    while let Some(reply) = outgoing.recv().await {
        let passing = frames::write(&mut stream, limits.pace(), reply.header, &reply.body).await?;
        // This one is in flight until it is written.
        let others = in_flight.available_permits().saturating_add(1) < limits.in_flight_max;
        if outgoing.is_empty() && others {
            // Those about to answer go first, and share the record.
            tokio::task::yield_now().await;
        }
        if outgoing.is_empty() {
            passing.flush(&mut stream).await?;
        }
        tally.sent_bytes.fetch_add(reply.body.len() as u64, Ordering::Relaxed);
    }
    timeout(limits.stall, stream.shutdown()).await?
}
