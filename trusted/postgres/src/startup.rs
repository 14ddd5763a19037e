//! The beginning of a client's connection: encryption, who it is, and what it asks for.

use crate::access::Access;
use crate::error::SqlError;
use crate::fields::Fields;
use crate::frames::Head;
use crate::listener::Peer;
use crate::replies::{self, Authentication, Severity};
use crate::scram::{self, Denied, Exchange};
use crate::stream::{Socket, Stream};
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Longest start-up message, in bytes: PostgreSQL's own limit.
const STARTUP_BYTES_MAX: usize = 10_000;
/// Longest message of a log-in, in bytes.
const LOGIN_BYTES_MAX: usize = 4096;
/// What a TLS connection begins with, where it is begun without being asked for.
const TLS_HANDSHAKE: u8 = 0x16;

/// Codes in the place of a protocol version.
const CANCEL: i32 = 80_877_102;
const TLS: i32 = 80_877_103;
const GSS: i32 = 80_877_104;
/// Major version 3.
const PROTOCOL: i32 = 3;

/// Why a connection ends before a session begins.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartupFailure {
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The client was told.
    #[error("{0}")]
    Refused(SqlError),
    #[error("it does not speak PostgreSQL's protocol")]
    Malformed,
    #[error("{user:?} is not let in: {why}")]
    Denied { user: String, why: Denied },
}

/// What a client that has come wants.
pub(crate) enum Wanted {
    /// That what another connection runs is cancelled.
    Cancel {
        process: i32,
        secret: i32,
        /// Held until that is done: its end tells the client so.
        stream: Stream,
    },
    /// A session.
    Session(Opening),
}

/// A client that is known.
pub(crate) struct Opening {
    pub(crate) stream: Stream,
    pub(crate) user: String,
    /// As sent, without the user.
    pub(crate) parameters: Vec<(String, String)>,
}

/// Hears a client until it is known who it is and what it wants.
pub(crate) async fn hear(stream: Socket, peer: Peer, access: &Access) -> Result<Wanted, StartupFailure> {
    let mut stream = match (&access.tls, begins_tls(&stream).await?) {
        (Some(acceptor), true) => Stream::Tls(Box::new(acceptor.current().accept(stream).await?.into())),
        _ => Stream::Plain(stream),
    };
    loop {
        let body = packet(&mut stream).await?;
        let mut fields = Fields::new(&body);
        let code = fields.int32().ok_or(StartupFailure::Malformed)?;
        match code {
            CANCEL => {
                let (process, secret) = (fields.int32(), fields.int32());
                return process
                    .zip(secret)
                    .map(|(process, secret)| Wanted::Cancel { process, secret, stream })
                    .ok_or(StartupFailure::Malformed);
            }
            TLS => stream = encrypted(stream, access).await?,
            GSS => stream.write_all(b"N").await?,
            _ if code >> 16 == PROTOCOL => {
                let opening = open(stream, code & 0xffff, fields, (peer, access)).await?;
                return Ok(Wanted::Session(opening));
            }
            _ => {
                let text = format!("unsupported frontend protocol {}.{}", code >> 16, code & 0xffff);
                return Err(refused(&mut stream, SqlError::new("0A000", text)).await);
            }
        }
        stream.flush().await?;
    }
}

/// Does a client begin TLS without asking for it? Nobody does by a socket of this machine.
async fn begins_tls(stream: &Socket) -> io::Result<bool> {
    let Socket::Tcp(stream) = stream else { return Ok(false) };
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    Ok(first == [TLS_HANDSHAKE])
}

/// Reads a message without a type, byte for byte: what follows it may be encrypted.
async fn packet(stream: &mut Stream) -> Result<Vec<u8>, StartupFailure> {
    let length = usize::try_from(stream.read_i32().await?).map_err(|_| StartupFailure::Malformed)?;
    if !(8..=STARTUP_BYTES_MAX).contains(&length) {
        return Err(StartupFailure::Malformed);
    }
    let mut body = vec![0; length - 4];
    stream.read_exact(&mut body).await?;
    Ok(body)
}

/// Answers a wish for encryption.
async fn encrypted(stream: Stream, access: &Access) -> Result<Stream, StartupFailure> {
    match (stream, &access.tls) {
        (Stream::Plain(mut stream @ Socket::Tcp(_)), Some(acceptor)) => {
            stream.write_all(b"S").await?;
            Ok(Stream::Tls(Box::new(acceptor.current().accept(stream).await?.into())))
        }
        // As PostgreSQL, which speaks none by a socket of its machine.
        (Stream::Plain(mut stream), _) => {
            stream.write_all(b"N").await?;
            Ok(Stream::Plain(stream))
        }
        (Stream::Tls(_), _) => Err(StartupFailure::Malformed),
    }
}

/// Tells a client why its connection ends.
pub(crate) async fn refused(stream: &mut Stream, refusal: SqlError) -> StartupFailure {
    let mut out = Vec::new();
    replies::error(&mut out, &refusal, Severity::Fatal);
    let told = async {
        stream.write_all(&out).await?;
        stream.shutdown().await
    };
    match told.await {
        Ok(()) => StartupFailure::Refused(refusal),
        Err(error) => StartupFailure::Io(error),
    }
}

/// Reads what a client begins with, and who it is.
async fn open(
    mut stream: Stream,
    minor: i32,
    mut fields: Fields<'_>,
    (peer, access): (Peer, &Access),
) -> Result<Opening, StartupFailure> {
    let (mut user, mut parameters, mut unknown) = (None, Vec::new(), Vec::new());
    loop {
        let name = fields.string().ok_or(StartupFailure::Malformed)?;
        if name.is_empty() {
            break;
        }
        let value = fields.string().ok_or(StartupFailure::Malformed)?;
        if name.starts_with(b"_pq_.") {
            unknown.push(name);
            continue;
        }
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).map_err(|_| StartupFailure::Malformed);
        let (name, value) = (text(name)?, text(value)?);
        if name == "user" {
            user = Some(value);
        } else {
            parameters.push((name, value));
        }
    }
    let Some(user) = user.filter(|user| !user.is_empty() && fields.is_done()) else {
        let text = "no PostgreSQL user name specified in startup packet";
        return Err(refused(&mut stream, SqlError::new("28000", text)).await);
    };
    let no = |text: &str| SqlError::new("0A000", text);
    let replication = parameters.iter().any(|(name, value)| {
        name == "replication" && !matches!(value.as_str(), "false" | "off" | "no" | "0")
    });
    if replication {
        let text = "replication does not go through the proxy";
        let refusal = no(text).hint("Connect the replica to the database: it holds ciphertext.");
        return Err(refused(&mut stream, refusal).await);
    }
    if access.tls.is_some() && !peer.is_local() && matches!(stream, Stream::Plain(_)) {
        let refusal =
            SqlError::new("28000", "the proxy is connected to with TLS only").hint("Set sslmode=require.");
        return Err(refused(&mut stream, refusal).await);
    }
    if minor > 0 || !unknown.is_empty() {
        let mut out = Vec::new();
        replies::negotiate(&mut out, &unknown);
        stream.write_all(&out).await?;
    }
    authenticate(&mut stream, &user, (peer, access)).await?;
    Ok(Opening { stream, user, parameters })
}

/// Has a client prove who it is. That it is let in is not said yet: the database has a word in that.
async fn authenticate(
    stream: &mut Stream,
    user: &str,
    (peer, access): (Peer, &Access),
) -> Result<(), StartupFailure> {
    let Some(users) = &access.users else { return Ok(()) };
    if users.is_peer(user, peer.user()) {
        return Ok(());
    }
    match scram(stream, user.as_bytes(), users.verifier(user), &access.mask).await? {
        Ok(()) => Ok(()),
        Err(why) => {
            let text = format!("password authentication failed for user \"{user}\"");
            match refused(stream, SqlError::new("28P01", text)).await {
                StartupFailure::Refused(_) => Err(StartupFailure::Denied { user: user.to_owned(), why }),
                failure => Err(failure),
            }
        }
    }
}

async fn scram(
    stream: &mut Stream,
    user: &[u8],
    verifier: Option<scram::Verifier>,
    mask: &[u8; 32],
) -> Result<Result<(), Denied>, StartupFailure> {
    say(stream, &Authentication::Mechanisms(&[scram::MECHANISM])).await?;
    let body = proof(stream).await?;
    let mut fields = Fields::new(&body);
    let chosen = fields.string().filter(|name| *name == scram::MECHANISM.as_bytes());
    let Some(Some(first)) = chosen.and_then(|_| fields.value()) else { return Ok(Err(Denied::Malformed)) };
    let (exchange, answer) = match Exchange::begin(verifier, user, mask, first) {
        Ok(begun) => begun,
        Err(denied) => return Ok(Err(denied)),
    };
    say(stream, &Authentication::Continue(answer.as_bytes())).await?;
    let last = proof(stream).await?;
    match exchange.finish(&last) {
        Ok(answer) => {
            say(stream, &Authentication::Final(answer.as_bytes())).await?;
            Ok(Ok(()))
        }
        Err(denied) => Ok(Err(denied)),
    }
}

async fn say(stream: &mut Stream, message: &Authentication<'_>) -> io::Result<()> {
    let mut out = Vec::new();
    message.encode(&mut out);
    stream.write_all(&out).await?;
    stream.flush().await
}

/// A message of the family that `p` begins.
async fn proof(stream: &mut Stream) -> Result<Vec<u8>, StartupFailure> {
    let mut head = [0; 5];
    stream.read_exact(&mut head).await?;
    let total = Head::read(&head)
        .filter(|head| head.kind == b'p' && head.total <= LOGIN_BYTES_MAX)
        .map(|head| head.total)
        .ok_or(StartupFailure::Malformed)?;
    let mut body = vec![0; total - head.len()];
    stream.read_exact(&mut body).await?;
    Ok(body)
}
