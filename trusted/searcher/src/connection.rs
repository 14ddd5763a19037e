//! Requests to the enclave that wait when it has no room.

use arras_schemes::bisen::message::{Refused, Reply, Request};
use arras_search::link::Link;
use arras_search::service::{SearchService, Unreachable};
use std::io;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// Pause before what an enclave had no room for is asked again.
const PAUSE: Duration = Duration::from_millis(50);
/// How often it is asked again.
const TRIES: usize = 1200;

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
        for _ in 1..TRIES {
            let reply = self.link.ask(request.clone())?;
            if reply != Reply::Refused(Refused::Busy) {
                return Ok(reply);
            }
            thread::sleep(PAUSE);
        }
        self.link.ask(request)
    }
}
