//! Clients as the host sees them: streams of messages that only the enclave can read.
//!
//! *Framing*: the length of a message as `u32`, little endian, at most [`CLIENT_BYTES_MAX`], then the message.

use crate::host::{Limits, Said};
use crate::room::Room;
use arras_protocol::Blob;
use arras_protocol::iee::{CLIENT_BYTES_MAX, CLIENT_REQUESTS_MAX, CONNECTIONS_MAX, ConnectionId};
use arras_transport::pace::{Pace, Passing};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;
use tracing::debug;

/// What is to be done when a client has taken a part of a reply, or will not take it any more: when this goes.
pub(crate) struct Taken(Option<Box<dyn FnOnce() + Send>>);

impl Taken {
    pub(crate) fn new(then: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(then)))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|then| then());
    }
}

/// A client that is connected.
struct Client {
    replies: mpsc::UnboundedSender<(Blob, Option<Taken>)>,
    /// Bytes of replies that it has not taken.
    held: Arc<AtomicUsize>,
    /// Tells its tasks to end.
    cut: Option<oneshot::Sender<()>>,
    /// Tells them that its channel is open; nothing once it is.
    opening: Option<oneshot::Sender<()>>,
}

/// The other ends of what is known of a client, for its tasks.
pub(crate) struct Seated {
    connection: ConnectionId,
    to_send: mpsc::UnboundedReceiver<(Blob, Option<Taken>)>,
    held: Arc<AtomicUsize>,
    cut_off: oneshot::Receiver<()>,
    opened: oneshot::Receiver<()>,
}

/// All clients.
pub(crate) struct Clients {
    connected: Mutex<HashMap<ConnectionId, Client>>,
    /// Bytes of replies that nobody has taken.
    held: Arc<AtomicUsize>,
    room: Room,
    pub(crate) seats: Arc<Semaphore>,
    /// Most whose channels are not open.
    beginning_max: usize,
    limits: Limits,
    said: mpsc::UnboundedSender<Said>,
}

/// Who takes longer to open a channel is cut off.
const HANDSHAKE: Duration = Duration::from_secs(30);

/// A message is read in pieces of so many bytes: by them it is known how fast it comes.
const PIECE_BYTES: usize = 16 << 10;

impl Clients {
    /// Of whom no more than `beginning_max` have channels that are not open.
    pub(crate) fn new(limits: Limits, beginning_max: usize, said: mpsc::UnboundedSender<Said>) -> Self {
        Self {
            connected: Mutex::default(),
            held: Arc::default(),
            room: Room::new(limits.held_bytes),
            seats: Arc::new(Semaphore::new(limits.connections_max.min(CONNECTIONS_MAX))),
            beginning_max,
            limits,
            said,
        }
    }

    fn connected(&self) -> MutexGuard<'_, HashMap<ConnectionId, Client>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a reply to its client, or a part of one, behind which others come once it is taken. What is held for those that do not read has a bound: beyond it, whoever holds most is
    /// cut off.
    pub(crate) fn reply(&self, connection: ConnectionId, bytes: Blob, taken: Option<Taken>) {
        let mut connected = self.connected();
        if let Some(client) = connected.get(&connection) {
            let length = bytes.len();
            client.held.fetch_add(length, Ordering::Relaxed);
            self.held.fetch_add(length, Ordering::Relaxed);
            // Whoever is among the connected still takes what it is sent.
            let _ = client.replies.send((bytes, taken));
        }
        if self.held.load(Ordering::Relaxed) > self.limits.unread_bytes {
            let most = connected.values_mut().max_by_key(|client| client.held.load(Ordering::Relaxed));
            if let Some(cut) = most.and_then(|client| client.cut.take()) {
                let _ = cut.send(());
            }
        }
    }

    /// A client's channel is open.
    pub(crate) fn opened(&self, connection: ConnectionId) {
        let mut connected = self.connected();
        let opening = connected.get_mut(&connection).and_then(|client| client.opening.take());
        opening.into_iter().for_each(|opening| _ = opening.send(()));
    }

    /// Before one more comes: where all seats are taken, or as many as may be have not opened their channels, one of those makes place.
    /// Whoever opens many closes his own, most often.
    pub(crate) fn make_place(&self) {
        let mut connected = self.connected();
        let is_beginning = |client: &Client| client.opening.is_some() && client.cut.is_some();
        let beginning = connected.values().filter(|client| is_beginning(client)).count();
        if beginning > 0 && (beginning >= self.beginning_max || self.seats.available_permits() == 0) {
            let chosen = RandomState::new().hash_one(beginning) as usize % beginning;
            let chosen = connected.values_mut().filter(|client| is_beginning(client)).nth(chosen);
            let cut = chosen.and_then(|client| client.cut.take());
            cut.into_iter().for_each(|cut| _ = cut.send(()));
        }
    }

    /// Ends a connection once what it was sent before has been delivered.
    pub(crate) fn close(&self, connection: ConnectionId) {
        self.connected().remove(&connection);
    }

    /// Counts one that is connected, at once, and tells the enclave; to be served then.
    pub(crate) fn seat(&self, connection: ConnectionId) -> Seated {
        let (replies, to_send) = mpsc::unbounded_channel();
        let (cut, cut_off) = oneshot::channel();
        let (opening, opened) = oneshot::channel();
        let held = Arc::new(AtomicUsize::new(0));
        let client = Client { replies, held: Arc::clone(&held), cut: Some(cut), opening: Some(opening) };
        self.connected().insert(connection, client);
        let _ = self.said.send(Said::Connected(connection));
        Seated { connection, to_send, held, cut_off, opened }
    }

    /// Serves one client until it goes, or is cut off.
    pub(crate) async fn serve<S>(&self, seated: Seated, stream: S)
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let Seated { connection, mut to_send, held, cut_off, opened } = seated;
        let under_way = Semaphore::new(CLIENT_REQUESTS_MAX);
        let (reading, mut writing) = tokio::io::split(stream);
        let ended = tokio::select! {
            ended = self.read(connection, BufReader::new(reading), &under_way) => ended,
            ended = async {
                while let Some((reply, taken)) = to_send.recv().await {
                    self.write(&mut writing, &reply).await?;
                    held.fetch_sub(reply.len(), Ordering::Relaxed);
                    self.held.fetch_sub(reply.len(), Ordering::Relaxed);
                    // Opening a channel takes more replies than it has requests.
                    if let Some(taken) = taken {
                        drop(taken);
                    } else if under_way.available_permits() < CLIENT_REQUESTS_MAX {
                        under_way.add_permits(1);
                    }
                }
                Ok(())
            } => ended,
            Err(_) = timeout(HANDSHAKE, opened) => Err(io::Error::other("it does not open its channel")),
            Ok(()) = cut_off => Err(io::Error::other("it makes place for others")),
        };
        self.connected().remove(&connection);
        to_send.close();
        self.held.fetch_sub(held.load(Ordering::Relaxed), Ordering::Relaxed);
        let _ = self.said.send(Said::Gone(connection));
        match ended {
            Ok(()) => debug!(connection = connection.0, "gone"),
            Err(error) => debug!(connection = connection.0, %error, "cut off"),
        }
    }

    /// Passes on what a client says. It is read no further while it has as many requests under way as it may have.
    async fn read<R: AsyncRead + Unpin>(
        &self,
        connection: ConnectionId,
        mut stream: R,
        under_way: &Semaphore,
    ) -> io::Result<()> {
        let mut first = true;
        loop {
            // The first message opens the channel.
            if !std::mem::take(&mut first)
                && let Ok(permit) = under_way.acquire().await
            {
                permit.forget();
            }
            let Some((bytes, room)) = self.message(connection, &mut stream).await? else { return Ok(()) };
            if self.said.send(Said::Message { connection, bytes: bytes.into(), room }).is_err() {
                return Ok(());
            }
        }
    }

    /// The next message and the room that it takes; none at the stream's end.
    async fn message<R: AsyncRead + Unpin>(
        &self,
        connection: ConnectionId,
        stream: &mut R,
    ) -> io::Result<Option<(Vec<u8>, Option<OwnedSemaphorePermit>)>> {
        let mut length = Vec::with_capacity(4);
        // A client may be silent for as long as it likes, between messages.
        Pace::Any.begin().fill(stream, &mut length, 1, |_| ()).await?;
        if length.is_empty() {
            return Ok(None);
        }
        let mut passing: Passing = self.limits.pace.begin();
        passing.fill(stream, &mut length, 4, |_| ()).await?;
        let length = <[u8; 4]>::try_from(length).map_err(|_| io::ErrorKind::UnexpectedEof)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > CLIENT_BYTES_MAX {
            return Err(io::Error::other("a message that is too long"));
        }
        let before = tokio::time::Instant::now();
        let claim = self.room.claim(connection, length).await;
        let claim = claim.ok_or_else(|| io::Error::other("there is no room for messages"))?;
        passing.put_off(before.elapsed());
        let mut bytes = Vec::new();
        let read = async {
            while bytes.len() < length {
                let had = bytes.len();
                passing.fill(stream, &mut bytes, length.min(had + PIECE_BYTES), |_| ()).await?;
                if bytes.len() == had {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
                }
                claim.passed(bytes.len() - had);
            }
            Ok(())
        };
        tokio::select! {
            read = read => read?,
            () = claim.given_up() => return Err(io::Error::other("too slow a message, while others wait")),
        }
        Ok(Some((bytes, claim.settle())))
    }

    async fn write<W: AsyncWrite + Unpin>(&self, stream: &mut W, reply: &Blob) -> io::Result<()> {
        let mut passing = self.limits.pace.begin();
        let length = u32::try_from(reply.len()).map_err(io::Error::other)?;
        passing.write(stream, &length.to_le_bytes(), || ()).await?;
        passing.write(stream, reply.as_slice(), || ()).await?;
        passing.flush(stream).await
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, clippy::unwrap_used)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn who_holds_most_of_what_nobody_reads_is_cut_off_and_nobody_else() {
        let (said, _heard) = mpsc::unbounded_channel();
        let limits = Limits { unread_bytes: 100_000, ..Limits::default() };
        let clients = Arc::new(Clients::new(limits, 100, said));
        // Either takes a little before it reads.
        let (mut modest, ours) = tokio::io::duplex(1000);
        let (_greedy, theirs) = tokio::io::duplex(1000);
        let serve = |number, stream| {
            let clients = Arc::clone(&clients);
            let seated = clients.seat(ConnectionId(number));
            tokio::spawn(async move { clients.serve(seated, stream).await })
        };
        let (modest_serving, greedy_serving) = (serve(1, ours), serve(2, theirs));
        while clients.connected().len() < 2 {
            tokio::task::yield_now().await;
        }
        let reply = |number: u64| clients.reply(ConnectionId(number), vec![7; 10_000].into(), None);
        reply(1);
        reply(1);
        (0..8).for_each(|_| reply(2));
        tokio::task::yield_now().await;
        assert!(!greedy_serving.is_finished(), "there is room for so much");
        reply(2);
        greedy_serving.await.unwrap();
        assert_eq!(clients.held.load(Ordering::Relaxed), 20_000);
        // Who is left has all that it was sent.
        let mut bytes = vec![0; 2 * 10_004];
        modest.read_exact(&mut bytes).await.unwrap();
        drop(modest);
        modest_serving.await.unwrap();
        assert_eq!(clients.held.load(Ordering::Relaxed), 0);
    }

    #[tokio::test]
    async fn a_part_of_a_reply_is_told_when_it_is_taken_and_ends_no_request() {
        let (said, mut heard) = mpsc::unbounded_channel();
        let clients = Arc::new(Clients::new(Limits::default(), 100, said));
        let (ours, mut theirs) = tokio::io::duplex(1000);
        let (connection, serving) = (ConnectionId(1), Arc::clone(&clients));
        let seated = clients.seat(connection);
        tokio::spawn(async move { serving.serve(seated, ours).await });
        clients.opened(connection);
        // One opens the channel, as many may be under way, and one waits.
        for _ in 0..CLIENT_REQUESTS_MAX + 2 {
            theirs.write_all(&[1, 0, 0, 0, 9]).await.unwrap();
        }
        for _ in 0..CLIENT_REQUESTS_MAX + 2 {
            heard.recv().await.unwrap();
        }
        let (tell, mut told) = mpsc::unbounded_channel();
        let part = || {
            let tell = tell.clone();
            clients.reply(connection, vec![7; 10_000].into(), Some(Taken::new(move || _ = tell.send(()))));
        };
        part();
        tokio::task::yield_now().await;
        assert!(told.try_recv().is_err(), "nobody has read it");
        let mut bytes = vec![0; 10_004];
        theirs.read_exact(&mut bytes).await.unwrap();
        told.recv().await.unwrap();
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(heard.try_recv().is_err(), "as many are under way as before");
        clients.reply(connection, vec![7; 10].into(), None);
        assert!(matches!(heard.recv().await, Some(Said::Message { .. })));
        // Or when nobody will take it: the enclave has an answer to whatever it asks.
        part();
        assert!(told.try_recv().is_err());
        drop(theirs);
        while !matches!(heard.recv().await, Some(Said::Gone(_))) {}
        told.try_recv().unwrap();
        part();
        told.try_recv().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_open_a_channel_makes_place_for_others_or_is_cut_off_in_time() {
        let (said, _heard) = mpsc::unbounded_channel();
        let clients = Arc::new(Clients::new(Limits::default(), 2, said));
        let (mut streams, mut serving) = (Vec::new(), Vec::new());
        for number in 0..4 {
            clients.make_place();
            let (ours, theirs) = tokio::io::duplex(1000);
            streams.push(ours);
            let (serve, seated) = (Arc::clone(&clients), clients.seat(ConnectionId(number)));
            serving.push(tokio::spawn(async move { serve.serve(seated, theirs).await }));
            if number == 0 {
                clients.opened(ConnectionId(0));
            }
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        // One is open, and of the others two may be there.
        assert!(!serving[0].is_finished() && !serving[3].is_finished());
        assert_eq!(serving.iter().filter(|serving| serving.is_finished()).count(), 1);
        tokio::time::sleep(HANDSHAKE).await;
        assert!(!serving[0].is_finished() && serving[1..].iter().all(|serving| serving.is_finished()));
    }
}
