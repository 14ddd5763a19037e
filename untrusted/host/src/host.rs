//! The host's work: who says what to whom.

use crate::attestation::{Attester, Question};
use crate::certificate::certificate;
use crate::clients::{Clients, Taken};
use crate::counter::Counter;
use crate::enclave::{Enclave, EnclaveError, FromEnclave, ToEnclave, ended};
use crate::seen::Seen;
use crate::store::{FIRST, Store, StoreError};
use crate::waiting::awaited;
use arras_protocol::Blob;
use arras_protocol::codec::encode;
use arras_protocol::iee::{AskId, ConnectionId, HANDSHAKE_BYTES, Incoming, Outgoing, counter_value};
use arras_transport::pace::Pace;
use arras_transport::tcp;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::interval;
use tracing::{info, warn};

/// Bounds of what clients may take of the host.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections at a time: one more waits to be accepted.
    pub connections_max: usize,
    /// Bytes of clients' messages that are held until the enclave takes them. Whoever has more to say waits.
    pub held_bytes: usize,
    /// Bytes of replies that are held for clients that do not read.
    pub unread_bytes: usize,
    /// How slow a client may be within a message.
    pub pace: Pace,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 4096,
            held_bytes: 64 << 20,
            unread_bytes: 64 << 20,
            pace: Pace::AtLeast { stall: Duration::from_secs(10), bytes_per_second: 16 << 10 },
        }
    }
}

/// Why the host stops.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The enclave.
    #[error(transparent)]
    Enclave(#[from] EnclaveError),
    /// Storage: what the enclave asked for cannot be had, and it must not wait for ever.
    #[error("storage: {0}")]
    Store(#[from] StoreError),
    /// The monotonic counter.
    #[error("the monotonic counter: {0}")]
    Counter(io::Error),
    /// Evidence of the enclave.
    #[error("evidence of the enclave: {0}")]
    Evidence(io::Error),
}

/// Evidence is renewed so often, in seconds of the clock by which clients judge its age: that goes on while the machine sleeps, and may be set.
const RENEWAL: u64 = 10 * 60;

/// What an enclave says first: that it wants evidence, or, with plain channels, its state.
const FIRST_WORD: &str =
    "the enclave's first word, for which it needs, in SGX, its quote by Intel's quoting service (aesmd),";

/// The clock is looked at so often.
const TICK: Duration = Duration::from_secs(10);

/// What a client has to do with the enclave.
pub(crate) enum Said {
    Connected(ConnectionId),
    Message { connection: ConnectionId, bytes: Blob, room: Option<OwnedSemaphorePermit> },
    Gone(ConnectionId),
}

/// What the enclave is told when it is started, and who vouches for it.
pub struct Launch {
    /// Most bytes that it may take for counters, documents and searches.
    pub memory_bytes: u64,
    /// Who may make collections and say what others may do.
    pub administrator: String,
    /// The administrator's authority (DER), whose certificates clients have; empty where channels are plain.
    pub authority: Vec<u8>,
    /// Makes its evidence.
    pub attester: Arc<dyn Attester>,
    /// How long the enclave may take until it asks for evidence, and that until it is there.
    pub patience: Duration,
}

/// What of the enclave's is kept where, and what is counted of it.
pub struct Keeping<S, C> {
    /// Its entries and state.
    pub store: S,
    /// Its counter.
    pub counter: C,
    /// Counts of what it and its clients say.
    pub seen: Arc<Seen>,
}

/// Serves an enclave and its clients until `stop`, or until one of the parties fails.
///
/// # Errors
/// [`HostError`].
pub async fn serve<S: Store, C: Counter>(
    enclave: Enclave,
    launch: Launch,
    keeping: Keeping<S, C>,
    listener: TcpListener,
    limits: Limits,
    stop: impl Future<Output = ()>,
) -> Result<(), HostError> {
    let Enclave { process, input, output } = enclave;
    let (said, heard) = mpsc::unbounded_channel();
    // What they may have said of a handshake, the enclave counts nowhere else: an eighth of its memory is for it.
    let beginning_max = usize::try_from(launch.memory_bytes / 8).unwrap_or(usize::MAX) / HANDSHAKE_BYTES;
    let clients = Arc::new(Clients::new(limits, beginning_max, said));
    let (answers, answered) = mpsc::unbounded_channel();
    let (failures, mut failed) = mpsc::unbounded_channel();
    let again = Arc::new(Notify::new());
    let ready = Arc::new(Notify::new());
    let seen = Arc::clone(&keeping.seen);
    let talk = Talk { answered, heard, again: Arc::clone(&again), seen };
    let moving = Moving {
        attester: Arc::clone(&launch.attester),
        patience: launch.patience,
        keeping: Arc::new(keeping),
        clients: Arc::clone(&clients),
        doing: JoinSet::new(),
        answers,
        failures,
        again,
        ready: Arc::clone(&ready),
    };
    let served = tokio::select! {
        ended = talk.to(input, launch) => ended,
        ended = moving.from(output) => ended,
        Some(failure) = failed.recv() => Err(failure),
        () = accept(&clients, listener, &ready) => Ok(()),
        () = stop => Ok(()),
    };
    match served {
        Err(HostError::Enclave(EnclaveError::Ended)) => Err(ended(process).await.into()),
        // It has ended before it was told anything.
        Err(HostError::Enclave(EnclaveError::Link(error))) if error.kind() == io::ErrorKind::BrokenPipe => {
            Err(ended(process).await.into())
        }
        served => served,
    }
}

/// Seats clients, for ever, once the enclave has its state.
async fn accept(clients: &Arc<Clients>, listener: TcpListener, ready: &Notify) {
    ready.notified().await;
    let next = AtomicU64::new(0);
    let mut served = JoinSet::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                // Out of file descriptors, most often: it passes, or nothing helps.
                warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        clients.make_place();
        let Ok(seat) = Arc::clone(&clients.seats).acquire_owned().await else { return };
        let _ = stream.set_nodelay(true);
        let _ = tcp::tune(&stream, Some(Duration::from_secs(60)));
        let connection = ConnectionId(next.fetch_add(1, Ordering::Relaxed));
        let (seated, clients) = (clients.seat(connection), Arc::clone(clients));
        served.spawn(async move {
            clients.serve(seated, stream).await;
            drop(seat);
        });
        while served.try_join_next().is_some() {}
    }
}

/// What goes to the enclave, in the order of what must not wait.
struct Talk {
    answered: mpsc::UnboundedReceiver<Incoming>,
    heard: mpsc::UnboundedReceiver<Said>,
    again: Arc<Notify>,
    seen: Arc<Seen>,
}

impl Talk {
    /// Answers come before clients' messages, which would only make it ask more; what it has put off comes last.
    async fn to<W: AsyncWrite + Unpin>(
        mut self,
        mut enclave: ToEnclave<W>,
        launch: Launch,
    ) -> Result<(), HostError> {
        let Launch { memory_bytes, administrator, authority, .. } = launch;
        let authority = authority.into();
        enclave.say(&Incoming::Launch { memory_bytes, administrator, authority }).await?;
        loop {
            if self.answered.is_empty() && self.heard.is_empty() {
                enclave.flush().await?;
            }
            // How long the message has a claim on the room for messages.
            let mut _held = None;
            let message = tokio::select! {
                biased;
                Some(answer) = self.answered.recv() => answer,
                Some(said) = self.heard.recv() => match said {
                    Said::Connected(connection) => Incoming::Connected { connection, seconds: now() },
                    Said::Gone(connection) => Incoming::Disconnected(connection),
                    Said::Message { connection, bytes, room } => {
                        _held = room;
                        Incoming::FromClient { connection, bytes }
                    }
                },
                () = self.again.notified() => Incoming::Again,
            };
            self.seen.incoming(&message);
            enclave.say(&message).await?;
        }
    }
}

/// Gives the enclave a certificate of its key, again and again with new evidence.
async fn attest(
    (attester, patience): (Arc<dyn Attester>, Duration),
    question: Question,
    public: Blob,
    answers: mpsc::UnboundedSender<Incoming>,
    failures: mpsc::UnboundedSender<HostError>,
    clock: impl Fn() -> u64,
) {
    let (mut ticking, mut renewed) = (interval(TICK), None::<u64>);
    loop {
        ticking.tick().await;
        let now = clock();
        if renewed.is_some_and(|renewed| now.abs_diff(renewed) < RENEWAL) {
            continue;
        }
        renewed = Some(now);
        let (attester, question) = (Arc::clone(&attester), question.clone());
        let source = attester.source();
        let evidence = spawn_blocking(move || attester.attest(&question));
        let evidence = awaited(source, patience, evidence).await;
        // Whoever would hear of it has ended, if sending fails.
        match evidence.and_then(|evidence| evidence.map_err(io::Error::other)?) {
            Ok(evidence) => {
                let certificate = certificate(public.as_slice(), &encode(&evidence));
                let _ = answers.send(Incoming::Certificate(certificate.into()));
            }
            Err(error) => return drop(failures.send(HostError::Evidence(error))),
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// What comes from the enclave.
struct Moving<S, C> {
    keeping: Arc<Keeping<S, C>>,
    clients: Arc<Clients>,
    attester: Arc<dyn Attester>,
    patience: Duration,
    doing: JoinSet<()>,
    answers: mpsc::UnboundedSender<Incoming>,
    failures: mpsc::UnboundedSender<HostError>,
    again: Arc<Notify>,
    ready: Arc<Notify>,
}

impl<S: Store, C: Counter> Moving<S, C> {
    /// Does what the enclave asks, each by itself: it never waits to say the next.
    async fn from<R: AsyncRead + Unpin>(mut self, mut enclave: FromEnclave<R>) -> Result<(), HostError> {
        let first = awaited(FIRST_WORD, self.patience, enclave.hear()).await;
        let mut message = first.map_err(HostError::Evidence)??;
        loop {
            self.take(message);
            message = enclave.hear().await?;
            while self.doing.try_join_next().is_some() {}
        }
    }

    fn take(&mut self, message: Outgoing) {
        self.keeping.seen.outgoing(&message);
        match message {
            Outgoing::Ready => {
                info!("the enclave is ready");
                self.ready.notify_one();
            }
            Outgoing::ToClient { connection, bytes } => self.clients.reply(connection, bytes, None),
            Outgoing::Part { ask, connection, bytes } => {
                let answers = self.answers.clone();
                let taken = Taken::new(move || drop(answers.send(Incoming::Answer { ask, bytes: None })));
                self.clients.reply(connection, bytes, Some(taken));
            }
            Outgoing::Opened(connection) => self.clients.opened(connection),
            Outgoing::Close(connection) => self.clients.close(connection),
            Outgoing::Again => self.again.notify_one(),
            Outgoing::Get { ask, labels } => self.keep(async move |kept| {
                let bytes = Some(kept.store.get(labels).await?.into());
                Ok(Incoming::Answer { ask, bytes })
            }),
            Outgoing::Put { ask, entries } => self.keep(async move |kept| {
                kept.store.put(entries).await?;
                Ok(Incoming::Answer { ask, bytes: None })
            }),
            Outgoing::Remove { ask, labels } => self.keep(async move |kept| {
                kept.store.remove(labels).await?;
                Ok(Incoming::Answer { ask, bytes: None })
            }),
            Outgoing::Save { ask, name, state } => self.keep(async move |kept| {
                if name == FIRST {
                    kept.store.begin(state).await?;
                } else {
                    kept.store.save(name, state).await?;
                }
                Ok(Incoming::Answer { ask, bytes: None })
            }),
            Outgoing::Load { ask, name } => self.keep(async move |kept| {
                let bytes = kept.store.load(name).await?.map(Blob::from);
                kept.seen.loaded(bytes.as_ref());
                Ok(Incoming::Answer { ask, bytes })
            }),
            Outgoing::Forget { ask, until } => self.keep(async move |kept| {
                kept.store.forget(until).await?;
                Ok(Incoming::Answer { ask, bytes: None })
            }),
            Outgoing::ReadCounter(ask) => self.count(ask, C::read),
            Outgoing::RaiseCounter { ask, from, to } => {
                self.count(ask, move |counter| counter.raise(from, to))
            }
            Outgoing::Attest { public, binding, debug, version, quote } => {
                let question = Question { binding, debug, version, quote: quote.0 };
                let attester = Arc::clone(&self.attester);
                self.doing.spawn(attest(
                    (attester, self.patience),
                    question,
                    public,
                    self.answers.clone(),
                    self.failures.clone(),
                    now,
                ));
            }
        }
    }

    /// Does one thing beside all others, and answers.
    fn keep<F>(&mut self, work: impl FnOnce(Arc<Keeping<S, C>>) -> F)
    where
        F: Future<Output = Result<Incoming, HostError>> + Send + 'static,
    {
        let (answers, failures) = (self.answers.clone(), self.failures.clone());
        let work = work(Arc::clone(&self.keeping));
        self.doing.spawn(async move {
            // Whoever would hear of it has ended, if sending fails.
            match work.await {
                Ok(answer) => drop(answers.send(answer)),
                Err(failure) => drop(failures.send(failure)),
            }
        });
    }

    fn count(&mut self, ask: AskId, work: impl FnOnce(&C) -> io::Result<u64> + Send + 'static) {
        self.keep(async move |kept| {
            let value = spawn_blocking(move || work(&kept.counter)).await.map_err(io::Error::other);
            let value = value.and_then(|value| value).map_err(HostError::Counter)?;
            Ok(Incoming::Answer { ask, bytes: counter_value(value) })
        });
    }
}

#[cfg(test)]
#[allow(clippy::panic, clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::counter::MemoryCounter;
    use crate::enclave::Loader;
    use crate::store::MemoryStore;
    use arras_protocol::evidence::Evidence;
    use arras_protocol::iee::Fault;
    use std::path::Path;

    struct Vouching;

    impl Attester for Vouching {
        fn attest(&self, _question: &Question) -> io::Result<Evidence> {
            Ok(Evidence::Tpm { attest: vec![1; 300].into(), signature: vec![2; 64].into() })
        }

        fn source(&self) -> &'static str {
            "its word"
        }
    }

    const PATIENCE: Duration = Duration::from_secs(300);

    #[tokio::test]
    async fn an_enclave_that_ends_before_it_is_told_anything_is_heard_why() {
        let code = Fault::NoSealingKey.code();
        let arguments = ["-c".into(), format!("exit {code}").into()];
        let mut enclave = Enclave::start(Path::new("/bin/sh"), Loader::System(&arguments), None).unwrap();
        enclave.process.wait().await.unwrap();
        let launch = Launch {
            memory_bytes: 32 << 20,
            administrator: "ada".into(),
            authority: Vec::new(),
            attester: Arc::new(Vouching),
            patience: PATIENCE,
        };
        let kept = Keeping {
            store: MemoryStore::default(),
            counter: MemoryCounter::default(),
            seen: Arc::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let served = serve(enclave, launch, kept, listener, Limits::default(), std::future::pending()).await;
        let Err(HostError::Enclave(EnclaveError::Fault(fault))) = served else { panic!("{served:?}") };
        assert_eq!(fault, Fault::NoSealingKey);
    }

    #[tokio::test(start_paused = true)]
    async fn evidence_is_renewed_by_the_clock_that_tells_its_age() {
        let ((answers, mut answered), (failures, _failed)) =
            (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let question = Question { binding: [0; 32], debug: false, version: 1, quote: Vec::new() };
        let begun = tokio::time::Instant::now();
        let asleep = Arc::new(AtomicU64::new(0));
        let slept = Arc::clone(&asleep);
        let clock = move || begun.elapsed().as_secs() + slept.load(Ordering::Relaxed);
        let attester: (Arc<dyn Attester>, _) = (Arc::new(Vouching), PATIENCE);
        tokio::spawn(attest(attester, question, vec![0x30, 0].into(), answers, failures, clock));
        let mut renewed = async || {
            let Some(Incoming::Certificate(certificate)) = answered.recv().await else {
                panic!("no certificate")
            };
            assert!(certificate.len() > 300);
            begun.elapsed()
        };
        assert!(renewed().await < TICK);
        for renewal in 1..3 {
            let due = Duration::from_secs(RENEWAL * renewal);
            assert!((due..due + TICK * 2).contains(&renewed().await));
        }
        // The machine was asleep meanwhile.
        let before = begun.elapsed();
        asleep.store(2 * 60 * 60, Ordering::Relaxed);
        assert!(renewed().await <= before + TICK * 2);
    }
}
