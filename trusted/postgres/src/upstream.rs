//! The database behind the proxy: where it is, how it is known, and how the proxy logs in.

mod address;
mod dial;
mod login;
mod password;
mod tls;

pub use address::{AddressError, Upstream};
pub use password::LoginPassword;

use crate::listener::socket_path;
use crate::stream::{Socket, Stream};
use arras_transport::tcp;
use bytes::BytesMut;
use postgres_protocol::message::frontend;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

pub(crate) use login::{Begun, Login};

/// How long a connection, or a request to cancel, may take to be made.
const CONNECT: Duration = Duration::from_secs(15);

/// Why the database cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum UpstreamError {
    /// It is not to be reached.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It takes too long.
    #[error("no answer within {} s", CONNECT.as_secs())]
    Late,
    /// It does not speak TLS.
    #[error("it does not speak TLS, which the connection's sslmode asks for")]
    NoTls,
    /// It asks for a way to log in that the proxy does not go.
    #[error("{0}")]
    Method(String),
    /// What it sends is not PostgreSQL's protocol.
    #[error("it does not speak PostgreSQL's protocol: {0}")]
    Protocol(String),
}

/// How the wire to the database is protected.
#[derive(Clone)]
pub(crate) enum Protection {
    /// Not at all.
    Plain,
    /// By TLS; without it there is no connection.
    Tls(Arc<ClientConfig>, ServerName<'static>),
}

impl fmt::Debug for Protection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => out.write_str("Plain"),
            Self::Tls(_, name) => write!(out, "Tls({name:?})"),
        }
    }
}

impl Upstream {
    /// A connection, protected as configured, of which nothing was said yet.
    async fn connect(&self) -> Result<Stream, UpstreamError> {
        let connected = async {
            let stream = match self.folder() {
                Some(folder) => Socket::Unix(UnixStream::connect(socket_path(folder, self.port)).await?),
                None => {
                    let stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
                    // A database that waits for a lock reads nothing of what was sent ahead.
                    tcp::tune(&stream, None)?;
                    Socket::Tcp(stream)
                }
            };
            match &self.protection {
                Protection::Plain => Ok(Stream::Plain(stream)),
                Protection::Tls(config, name) => secure(stream, config, name).await,
            }
        };
        timeout(CONNECT, connected).await.map_err(|_| UpstreamError::Late)?
    }

    /// Asks the database to cancel what one of its connections runs. It says nothing of what comes of it.
    pub(crate) async fn cancel(&self, process: i32, secret: i32) -> Result<(), UpstreamError> {
        let mut stream = self.connect().await?;
        let asked = async {
            let mut request = BytesMut::new();
            frontend::cancel_request(process, secret, &mut request);
            stream.write_all(&request).await?;
            stream.flush().await?;
            // It closes the connection once the signal is sent.
            let mut nothing = [0];
            let _ = stream.read(&mut nothing).await;
            Ok(())
        };
        timeout(CONNECT, asked).await.map_err(|_| UpstreamError::Late)?
    }
}

/// Asks for TLS and begins it. What comes before it is read byte for byte, so that nothing in plaintext passes as
/// encrypted.
async fn secure(
    mut stream: Socket,
    config: &Arc<ClientConfig>,
    name: &ServerName<'static>,
) -> Result<Stream, UpstreamError> {
    let mut request = BytesMut::new();
    frontend::ssl_request(&mut request);
    stream.write_all(&request).await?;
    let mut answer = [0];
    stream.read_exact(&mut answer).await?;
    if answer != *b"S" {
        return Err(UpstreamError::NoTls);
    }
    let stream = TlsConnector::from(Arc::clone(config)).connect(name.clone(), stream).await?;
    Ok(Stream::Tls(Box::new(stream.into())))
}
