//! The connection to the host that a command has started.

use arras_schemes::bisen::message::{Reply, Request};
use arras_search::link::Link;
use arras_search::service::{SearchService, Unreachable};
use std::io;
use std::net::TcpStream;

/// A client's connection through a host on this machine.
pub(crate) struct Connection {
    link: Link<TcpStream>,
}

impl Connection {
    /// Connects as `identity`.
    pub(crate) fn new(address: &str, identity: &str) -> Result<Self, Unreachable> {
        let connect = || -> io::Result<TcpStream> {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        let stream = connect().map_err(|error| Unreachable(format!("{address}: {error}")))?;
        Ok(Self { link: Link::plain(stream, identity)? })
    }
}

impl SearchService for Connection {
    fn ask(&mut self, request: Request) -> Result<Reply, Unreachable> {
        self.link.ask(request)
    }
}
