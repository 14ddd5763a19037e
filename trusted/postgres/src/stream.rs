//! A connection, encrypted or not: to a client or to the database.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, ReadHalf, WriteHalf};
use tokio::net::{TcpStream, UnixStream, tcp, unix};
use tokio_rustls::TlsStream;

/// What bytes go over: TCP, or a socket of this machine.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection, or TLS over one.
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

/// Passes each call on to what a variant holds.
macro_rules! passed_on {
    ($this:ident, $($variant:ident)|+, $stream:ident => $call:expr) => {
        match $this.get_mut() {
            $(Self::$variant($stream) => {
                let $stream = Pin::new($stream);
                $call
            })+
        }
    };
}

macro_rules! reads {
    ($kind:ident, $($variant:ident)|+) => {
        impl AsyncRead for $kind {
            fn poll_read(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                into: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                passed_on!(self, $($variant)|+, stream => stream.poll_read(context, into))
            }
        }
    };
}

macro_rules! writes {
    ($kind:ident, $($variant:ident)|+) => {
        impl AsyncWrite for $kind {
            fn poll_write(
                self: Pin<&mut Self>,
                context: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                passed_on!(self, $($variant)|+, stream => stream.poll_write(context, bytes))
            }

            fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                passed_on!(self, $($variant)|+, stream => stream.poll_flush(context))
            }

            fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
                passed_on!(self, $($variant)|+, stream => stream.poll_shutdown(context))
            }
        }
    };
}

reads!(Socket, Tcp | Unix);
writes!(Socket, Tcp | Unix);
reads!(Stream, Plain | Tls);
writes!(Stream, Plain | Tls);
reads!(Incoming, Tcp | Unix | Tls);
writes!(Outgoing, Tcp | Unix | Tls);

/// What comes by a connection. TLS has one state for both ways, which each locks; a socket has none.
pub(crate) enum Incoming {
    Tcp(tcp::OwnedReadHalf),
    Unix(unix::OwnedReadHalf),
    Tls(ReadHalf<Box<TlsStream<Socket>>>),
}

/// What goes by a connection.
pub(crate) enum Outgoing {
    Tcp(tcp::OwnedWriteHalf),
    Unix(unix::OwnedWriteHalf),
    Tls(WriteHalf<Box<TlsStream<Socket>>>),
}

impl Stream {
    /// Its two ways.
    pub(crate) fn split(self) -> (Incoming, Outgoing) {
        match self {
            Self::Plain(Socket::Tcp(stream)) => {
                let (from, to) = stream.into_split();
                (Incoming::Tcp(from), Outgoing::Tcp(to))
            }
            Self::Plain(Socket::Unix(stream)) => {
                let (from, to) = stream.into_split();
                (Incoming::Unix(from), Outgoing::Unix(to))
            }
            Self::Tls(stream) => {
                let (from, to) = tokio::io::split(stream);
                (Incoming::Tls(from), Outgoing::Tls(to))
            }
        }
    }
}

impl Outgoing {
    /// Writes what a socket takes at once; so many bytes, none by TLS.
    pub(crate) fn write_at_once(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            Self::Tcp(socket) => socket.try_write(bytes),
            Self::Unix(socket) => socket.try_write(bytes),
            Self::Tls(_) => return Ok(0),
        };
        match written {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            other => other,
        }
    }

    /// Writes these bytes, and waits until they are taken.
    pub(crate) async fn write_whole(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.write_at_once(bytes)?;
        if let Some(rest @ [_, ..]) = bytes.get(written..) {
            self.write_all(rest).await?;
            self.flush().await?;
        }
        Ok(())
    }
}
