//! Connecting: TCP, TLS, and the greeting.

use super::Settings;
use super::tls::describe_failure;
use arras_certificates::Certificate;
use arras_engine::history::Halt;
use arras_protocol::frame::{FrameHeader, FrameKind};
use arras_protocol::hello::{self, Hello, SERVER_NAME};
use arras_protocol::limits::PROTOCOL_VERSION;
use arras_protocol::{Protocol, Refusal, codec};
use arras_transport::frames::{self, ReadError};
use arras_transport::link::Link;
use arras_transport::pace::Pace;
use arras_transport::{tcp, tls};
use rustls::pki_types::ServerName;
use std::io;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// How long sent bytes may stay unacknowledged.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(30);

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Nothing listens there, or the network does not lead there.
    #[error("{address}: {source}; is arras-server running there?")]
    Unreachable {
        /// Host and port, as configured.
        address: String,
        /// What the operating system says.
        source: io::Error,
    },
    /// Something listens, and is silent.
    #[error("{address}: no answer within {limit_ms} ms")]
    Silent {
        /// Host and port, as configured.
        address: String,
        /// How long it was waited.
        limit_ms: u64,
    },
    /// Something listens, and the connection to it broke before the greeting was over.
    #[error("{address}: {what}")]
    Interrupted {
        /// Host and port, as configured.
        address: String,
        /// What happened.
        what: String,
    },
    /// One side does not accept the other's certificate, or it is no TLS server.
    #[error("{address}: {what}")]
    Tls {
        /// Host and port, as configured.
        address: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// Another version of the protocol is spoken there.
    #[error(
        "{address}: the server speaks protocol version {theirs}, this proxy {ours}; update the older one"
    )]
    Version {
        /// Host and port, as configured.
        address: String,
        /// This proxy's.
        ours: u16,
        /// The server's.
        theirs: u16,
    },
    /// Another proxy is connected.
    #[error(
        "{address}: another proxy uses this server's database; stop it first, or start this one with --take-over, \
         which ends the other's writes for good"
    )]
    Leased {
        /// Host and port, as configured.
        address: String,
    },
    /// The server's history and this proxy's are not one.
    #[error(transparent)]
    Halted(#[from] Halt),
    /// The server declined the greeting for another reason.
    #[error("{address}: the server refused the connection: {refusal}")]
    Refused {
        /// Host and port, as configured.
        address: String,
        /// Its reason.
        refusal: Refusal,
    },
    /// The server has the data of another deployment.
    #[error("{address}: the server holds another database than this proxy's; check its --data-dir")]
    OtherDatabase {
        /// Host and port, as configured.
        address: String,
    },
    /// What listens there does not keep to the protocol.
    #[error("{address}: the server broke the protocol: {what}")]
    Malformed {
        /// Host and port, as configured.
        address: String,
        /// What of the protocol was broken.
        what: String,
    },
}

impl ConnectError {
    /// True if waiting may help: the server is not there yet, starting, stopping or overwhelmed. False for what only a
    /// person can mend.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            // A name that is no address stays none.
            Self::Unreachable { source, .. } => source.kind() != io::ErrorKind::InvalidInput,
            Self::Silent { .. } | Self::Interrupted { .. } => true,
            Self::Refused { refusal, .. } => matches!(refusal, Refusal::Stopping),
            Self::Tls { .. }
            | Self::Version { .. }
            | Self::Leased { .. }
            | Self::Halted(_)
            | Self::OtherDatabase { .. }
            | Self::Malformed { .. } => false,
        }
    }
}

/// A connection that was greeted on.
pub(super) struct Dialled {
    pub(super) link: Link,
    pub(super) server: hello::Response,
    /// What the server showed.
    pub(super) certificate: Option<Certificate>,
}

/// Connects and greets. A server with another database than `database` is refused.
pub(super) async fn dial(settings: &Settings, database: Option<[u8; 16]>) -> Result<Dialled, ConnectError> {
    let address = || settings.address.clone();
    let reached = timeout(settings.connect, reach(settings)).await.unwrap_or_else(|_| {
        let limit_ms = u64::try_from(settings.connect.as_millis()).unwrap_or(u64::MAX);
        Err(ConnectError::Silent { address: address(), limit_ms })
    });
    if let Err(ConnectError::Refused { refusal, .. }) = &reached
        && let Some(halt) = settings.history.refused(refusal)
    {
        return Err(halt.into());
    }
    let (stream, server) = reached?;
    if server.protocol_version != PROTOCOL_VERSION {
        let (ours, theirs) = (PROTOCOL_VERSION, server.protocol_version);
        return Err(ConnectError::Version { address: address(), ours, theirs });
    }
    if database.is_some_and(|database| database != server.database) {
        return Err(ConnectError::OtherDatabase { address: address() });
    }
    // Before the link is to be had: no call is answered by a server that was set back.
    settings.history.greeted(&server)?;
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
    let certificate = shown.and_then(|shown| Certificate::from_der(shown).ok());
    Ok(Dialled { link: Link::new(stream), server, certificate })
}

async fn reach(settings: &Settings) -> Result<(TlsStream<TcpStream>, hello::Response), ConnectError> {
    let address = || settings.address.clone();
    let unreachable = |source| ConnectError::Unreachable { address: address(), source };
    let failed = |error: &io::Error| {
        let what = describe_failure(error);
        if tls::failure(error).is_some() {
            ConnectError::Tls { address: address(), what }
        } else {
            ConnectError::Interrupted { address: address(), what }
        }
    };
    let stream = TcpStream::connect(&settings.address).await.map_err(unreachable)?;
    tcp::tune(&stream, Some(UNACKNOWLEDGED_MAX)).map_err(unreachable)?;
    let name = ServerName::try_from(SERVER_NAME)
        .map_err(|error| ConnectError::Tls { address: address(), what: error.to_string() })?;
    let connector = TlsConnector::from(settings.tls.current());
    let mut stream = connector.connect(name, stream).await.map_err(|error| failed(&error))?;
    let written = write_hello(&mut stream, settings.history.purpose()).await;
    // In TLS 1.3 the server judges this side's certificate after the handshake is over here: its verdict is
    // what is read, whatever became of the writing.
    let read = frames::read(&mut stream, Pace::Any).await;
    match (read, written) {
        (Ok(Some((header, body))), _) => Ok((stream, greeted(&address, header, &body)?)),
        (Err(ReadError::Stream(error)), _) | (Ok(None), Err(error)) => Err(failed(&error)),
        (Ok(None), Ok(())) => Err(failed(&io::ErrorKind::UnexpectedEof.into())),
        (Err(error), _) => Err(ConnectError::Malformed { address: address(), what: error.to_string() }),
    }
}

async fn write_hello(stream: &mut TlsStream<TcpStream>, purpose: hello::Purpose) -> io::Result<()> {
    let body = codec::encode(&hello::Request { protocol_version: PROTOCOL_VERSION, purpose });
    let body_bytes = u32::try_from(body.len()).map_err(io::Error::other)?;
    let header =
        FrameHeader { call: 0, kind: FrameKind::Request, protocol: Hello::ID, deadline_ms: 0, body_bytes };
    frames::write(stream, Pace::Any, header, &body).await?;
    stream.flush().await
}

fn greeted(
    address: &dyn Fn() -> String,
    header: FrameHeader,
    body: &[u8],
) -> Result<hello::Response, ConnectError> {
    let malformed = |what: &str| ConnectError::Malformed { address: address(), what: what.into() };
    if header.call != 0 || header.protocol != Hello::ID {
        return Err(malformed("the first reply is not to hello"));
    }
    match header.kind {
        FrameKind::Response => codec::decode(body).map_err(|error| malformed(&error.to_string())),
        FrameKind::Refusal => match codec::decode(body) {
            Ok(Refusal::Version { asked, served }) => {
                Err(ConnectError::Version { address: address(), ours: asked, theirs: served })
            }
            Ok(Refusal::Leased) => Err(ConnectError::Leased { address: address() }),
            Ok(refusal) => Err(ConnectError::Refused { address: address(), refusal }),
            Err(error) => Err(malformed(&error.to_string())),
        },
        FrameKind::Request => Err(malformed("a request in place of a reply to hello")),
    }
}
