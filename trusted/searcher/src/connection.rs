//! The connection to the host that a command has started.

use arras_attestation::channel::{Channel, ChannelError};
use arras_schemes::bisen::message::{Reply, Request};
use arras_search::link::{Link, OpenError};
use arras_search::service::{SearchService, Unreachable};
use std::io;
use std::net::TcpStream;

/// A client's connection through a host on this machine.
pub(crate) struct Connection {
    link: Link<TcpStream, Channel>,
}

impl Connection {
    /// Connects with a channel, which judges the enclave.
    pub(crate) fn new(address: &str, channel: Channel) -> Result<Self, OpenError<ChannelError>> {
        let connect = || -> io::Result<TcpStream> {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let stream = connect().map_err(|error| Unreachable(format!("{address}: {error}")))?;
        Ok(Self { link: Link::open(stream, channel)? })
    }
}

impl SearchService for Connection {
    fn ask(&mut self, request: Request) -> Result<Reply, Unreachable> {
        self.link.ask(request)
    }
}
