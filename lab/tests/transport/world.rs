//! Certificates, a listener with a scripted handler, raw peers, and the log of both halves.

use arras_certificates::Reloading;
use arras_protocol::frame::{FrameHeader, FrameKind, HEADER_BYTES};
use arras_protocol::hello::{self, Hello, SERVER_NAME};
use arras_protocol::limits::PROTOCOL_VERSION;
use arras_protocol::table::{self, Row};
use arras_protocol::{Blob, Protocol, ProtocolId, Refusal, codec};
use arras_proxy::certificates;
use arras_proxy::connection::tls::{CertificatePaths, client_config};
use arras_proxy::connection::{Connection, Settings};
use arras_server::listener::memory::Memory;
use arras_server::listener::{Handler, Limits, Listener};
use arras_server::tls as server_tls;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;

/// A deadline that no test reaches.
pub(crate) const AMPLE: Duration = Duration::from_secs(300);

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// A protocol of these tests: the request says what the server is to do.
pub(crate) struct Script;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) tag: u64,
    pub(crate) payload: Blob,
    pub(crate) reply_bytes: usize,
    pub(crate) act: Act,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Act {
    #[default]
    Answer,
    Panic,
    Refuse,
    WaitForGate,
    /// The same, and it takes so many bytes of memory beside the message meanwhile.
    WaitForGateHolding(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) tag: u64,
    pub(crate) received_bytes: usize,
    pub(crate) filler: Blob,
}

impl Protocol for Script {
    // Under the number of a protocol there is: nobody else speaks it here.
    const ROW: &'static Row = &table::DOCUMENTS;
    type Request = Ask;
    type Response = Answer;
}

pub(crate) fn ask(tag: u64) -> Ask {
    Ask { tag, ..Ask::default() }
}

pub(crate) fn gated(tag: u64) -> Ask {
    Ask { act: Act::WaitForGate, ..ask(tag) }
}

/// The handler: answers hello and scripts, and counts.
pub(crate) struct Scripted {
    pub(crate) database: [u8; 16],
    pub(crate) incarnation: u64,
    pub(crate) version: u16,
    /// How often the storage behind it failed, as it says.
    pub(crate) setbacks: AtomicU64,
    pub(crate) handled: AtomicU64,
    pub(crate) greetings: AtomicU64,
    pub(crate) waiting: AtomicUsize,
    pub(crate) gate: (Mutex<bool>, Condvar),
}

impl Scripted {
    pub(crate) fn new(incarnation: u64) -> Self {
        Self {
            database: [7; 16],
            incarnation,
            version: PROTOCOL_VERSION,
            setbacks: AtomicU64::new(0),
            handled: AtomicU64::new(0),
            greetings: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
            gate: (Mutex::new(false), Condvar::new()),
        }
    }

    /// Lets every call through that waits for the gate, now and later.
    pub(crate) fn open_gate(&self) {
        *self.gate.0.lock().unwrap() = true;
        self.gate.1.notify_all();
    }

    fn wait_for_gate(&self) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let open = self.gate.1.wait_while(self.gate.0.lock().unwrap(), |open| !*open).unwrap();
        drop(open);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    fn greet(&self, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let request: hello::Request =
            codec::decode(body).map_err(|error| Refusal::Malformed(error.to_string()))?;
        self.greetings.fetch_add(1, Ordering::SeqCst);
        if request.protocol_version != self.version {
            return Err(Refusal::Version { asked: request.protocol_version, served: self.version });
        }
        let (database, incarnation, engine) = (self.database, self.incarnation, "scripted".into());
        Ok(codec::encode(&hello::Response {
            protocol_version: self.version,
            database,
            incarnation,
            setbacks: self.setbacks.load(Ordering::SeqCst),
            engine,
            newest: None,
            commits: 0,
            generation: 1,
        }))
    }
}

impl Handler for Scripted {
    fn held_beside(&self, protocol: ProtocolId, body: &[u8]) -> usize {
        if protocol != Script::ID {
            return 0;
        }
        match codec::decode::<Ask>(body) {
            Ok(Ask { act: Act::WaitForGateHolding(bytes), .. }) => bytes,
            _ => 0,
        }
    }

    fn setbacks(&self) -> u64 {
        self.setbacks.load(Ordering::SeqCst)
    }

    fn handle(&self, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        if protocol == Hello::ID {
            return self.greet(body);
        }
        let ask: Ask = codec::decode(body).map_err(|error| Refusal::Malformed(error.to_string()))?;
        match ask.act {
            Act::Answer => {}
            Act::Panic => panic!("asked to"),
            Act::Refuse => return Err(Refusal::Conflict { step: 3 }),
            Act::WaitForGate | Act::WaitForGateHolding(_) => self.wait_for_gate(),
        }
        self.handled.fetch_add(1, Ordering::SeqCst);
        let filler = vec![0x5a; ask.reply_bytes].into();
        Ok(codec::encode(&Answer { tag: ask.tag, received_bytes: ask.payload.len(), filler }))
    }
}

/// Certificates of one deployment.
pub(crate) struct World {
    _directory: TempDir,
    pub(crate) proxy: PathBuf,
    pub(crate) server: PathBuf,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::made_at(now())
    }

    pub(crate) fn made_at(now: u64) -> Self {
        start_log();
        let directory = tempfile::tempdir().unwrap();
        let (proxy, server) = (directory.path().join("proxy"), directory.path().join("server"));
        certificates::create(&proxy, &server, now).unwrap();
        Self { _directory: directory, proxy, server }
    }

    pub(crate) fn server_tls(&self) -> Arc<rustls::ServerConfig> {
        let paths = server_tls::CertificatePaths::in_directory(&self.server);
        server_tls::server_config(&paths).unwrap()
    }

    pub(crate) fn client_tls(&self) -> Arc<rustls::ClientConfig> {
        client_config(&CertificatePaths::in_directory(&self.proxy)).unwrap()
    }

    pub(crate) fn settings(&self, address: SocketAddr) -> Settings {
        let mut settings = Settings::new(address.to_string(), self.client_tls());
        (settings.deadline, settings.connect) = (AMPLE, AMPLE);
        settings
    }

    /// Serves `handler` on a free port.
    pub(crate) async fn serve(&self, handler: &Arc<Scripted>, limits: Limits) -> Served {
        self.serve_at("127.0.0.1:0".parse().unwrap(), handler, limits).await
    }

    pub(crate) async fn serve_at(
        &self,
        address: SocketAddr,
        handler: &Arc<Scripted>,
        limits: Limits,
    ) -> Served {
        serve_with(self.server_tls().into(), address, handler, limits).await
    }

    /// Serves `handler` on a free port with certificates that are read again.
    pub(crate) async fn serve_reloading(
        &self,
        handler: &Arc<Scripted>,
    ) -> (Served, Reloading<rustls::ServerConfig>) {
        let paths = server_tls::CertificatePaths::in_directory(&self.server);
        let tls = server_tls::reloading(&paths).unwrap();
        let address = "127.0.0.1:0".parse().unwrap();
        (serve_with(tls.clone(), address, handler, Limits::default()).await, tls)
    }

    pub(crate) async fn connect(&self, served: &Served) -> Connection {
        Connection::open(self.settings(served.address)).await.unwrap()
    }

    /// A peer of the server that does as the test says.
    pub(crate) async fn raw(&self, address: SocketAddr) -> TlsStream<TcpStream> {
        raw(address, self.client_tls()).await.unwrap()
    }
}

async fn serve_with(
    tls: Reloading<rustls::ServerConfig>,
    address: SocketAddr,
    handler: &Arc<Scripted>,
    limits: Limits,
) -> Served {
    let listener = loop {
        // The port of a server that was just cut off may take a moment to come free.
        match Listener::bind(address, tls.clone(), limits.clone()).await {
            Ok(listener) => break listener,
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            Err(error) => panic!("{error}"),
        }
    };
    let (address, memory) = (listener.local_addr().unwrap(), listener.memory());
    let (stop, stopped) = oneshot::channel::<()>();
    let handler = Arc::clone(handler);
    let task = tokio::spawn(async move {
        listener.serve(handler, async { stopped.await.unwrap_or(()) }).await;
    });
    Served { address, memory, stop: Some(stop), task }
}

/// A TLS client without any protocol.
pub(crate) async fn raw(
    address: SocketAddr,
    tls: Arc<rustls::ClientConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(address).await?;
    tokio_rustls::TlsConnector::from(tls).connect(SERVER_NAME.try_into().unwrap(), tcp).await
}

/// A listener that runs.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) memory: Memory,
    stop: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<()>,
}

impl Served {
    /// Asks it to stop.
    pub(crate) fn stop(&mut self) {
        let _ = self.stop.take().unwrap().send(());
    }

    /// Cuts it off in the middle of whatever it does: sockets close, nothing is answered.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.is_err());
    }
}

/// A TLS server that does as the test says, one connection after another; greets before it hands them over.
pub(crate) struct RawServer {
    pub(crate) address: SocketAddr,
    tcp: TcpListener,
    acceptor: tokio_rustls::TlsAcceptor,
}

impl RawServer {
    pub(crate) async fn new(world: &World) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(world.server_tls());
        Self { address: tcp.local_addr().unwrap(), tcp, acceptor }
    }

    pub(crate) async fn greeted(&self) -> tokio_rustls::server::TlsStream<TcpStream> {
        let (tcp, _) = self.tcp.accept().await.unwrap();
        let mut stream = self.acceptor.accept(tcp).await.unwrap();
        let (header, body) = read_frame(&mut stream).await.unwrap();
        let hello = Scripted::new(1).greet(&body).unwrap();
        stream.write_all(&frame(header.call, FrameKind::Response, Hello::ID, &hello)).await.unwrap();
        stream.flush().await.unwrap();
        stream
    }
}

/// The bytes of a frame.
pub(crate) fn frame(call: u64, kind: FrameKind, protocol: ProtocolId, body: &[u8]) -> Vec<u8> {
    let body_bytes = u32::try_from(body.len()).unwrap();
    let header = FrameHeader { call, kind, protocol, deadline_ms: 0, body_bytes };
    [header.to_bytes().as_slice(), body].concat()
}

pub(crate) fn hello_frame() -> Vec<u8> {
    let body = codec::encode(&hello::Request {
        protocol_version: PROTOCOL_VERSION,
        purpose: hello::Purpose::Observe,
    });
    frame(0, FrameKind::Request, Hello::ID, &body)
}

pub(crate) fn script_frame(call: u64, ask: &Ask) -> Vec<u8> {
    frame(call, FrameKind::Request, Script::ID, &codec::encode(ask))
}

/// Reads a frame; an error where the peer has closed.
pub(crate) async fn read_frame<S: tokio::io::AsyncRead + Unpin>(
    stream: &mut S,
) -> io::Result<(FrameHeader, Vec<u8>)> {
    let mut bytes = [0; HEADER_BYTES];
    stream.read_exact(&mut bytes).await?;
    let header = FrameHeader::from_bytes(&bytes).map_err(io::Error::other)?;
    let mut body = vec![0; usize::try_from(header.body_bytes).unwrap()];
    stream.read_exact(&mut body).await?;
    Ok((header, body))
}

/// Reads until the peer closes, cleanly or not.
pub(crate) async fn read_to_close<S: tokio::io::AsyncRead + Unpin>(stream: &mut S) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while let Ok(len @ 1..) = stream.read(&mut chunk).await {
        bytes.extend_from_slice(&chunk[..len]);
    }
    bytes
}

/// Waits until something that will happen has happened.
pub(crate) async fn until(mut happened: impl FnMut() -> bool) {
    while !happened() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Collects what both halves log, at every level.
fn start_log() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_ansi(false)
            .with_writer(|| LogWriter)
            .init();
    });
}

/// What was logged so far.
pub(crate) fn log() -> String {
    String::from_utf8_lossy(&LOG.lock().unwrap()).into_owned()
}

/// Waits for a line of the server about the peer at `address`.
pub(crate) async fn logged_about(address: SocketAddr, words: &str) {
    let peer = address.to_string();
    until(|| log().lines().any(|line| line.contains(&peer) && line.contains(words))).await;
}
