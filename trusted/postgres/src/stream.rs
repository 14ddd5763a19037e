//! A connection, encrypted or not: to a client or to the database.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
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

macro_rules! stream_of {
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

stream_of!(Socket, Tcp | Unix);
stream_of!(Stream, Plain | Tls);
