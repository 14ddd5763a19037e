//! The connection that is measured: what goes over it is counted.

use super::BisenError;
use arras_attestation::channel::{Channel, Client};
use arras_schemes::bisen::message::{Reply, Request};
use arras_search::link::Link;
use arras_search::service::{SearchService, ServiceError, Unreachable};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A stream whose bytes are counted, both ways.
pub(super) struct Counted {
    stream: TcpStream,
    bytes: Arc<AtomicU64>,
}

impl Counted {
    pub(super) fn connect(address: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, bytes: Arc::default() })
    }

    fn count(&self, moved: io::Result<usize>) -> io::Result<usize> {
        self.bytes.fetch_add(*moved.as_ref().unwrap_or(&0) as u64, Ordering::Relaxed);
        moved
    }
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let moved = self.stream.read(buffer);
        self.count(moved)
    }
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let moved = self.stream.write(bytes);
        self.count(moved)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

enum Open {
    Attested(Box<Link<Counted, Channel>>),
    Plain(Link<Counted>),
}

/// A channel to the enclave, attested or plain.
pub(super) struct Linked {
    link: Open,
    bytes: Arc<AtomicU64>,
    trips: u64,
}

impl Linked {
    pub(super) fn plain(stream: Counted, name: &str) -> Result<Self, BisenError> {
        let bytes = Arc::clone(&stream.bytes);
        let link = Link::plain(stream, name).map_err(ServiceError::from)?;
        Ok(Self { link: Open::Plain(link), bytes, trips: 0 })
    }

    pub(super) fn attested(stream: Counted, client: Client) -> Result<Self, BisenError> {
        let failed = |error: &dyn std::fmt::Display| BisenError::Channel(error.to_string());
        let bytes = Arc::clone(&stream.bytes);
        let channel = client.channel().map_err(|error| failed(&error))?;
        let link = Link::open(stream, channel).map_err(|error| failed(&error))?;
        Ok(Self { link: Open::Attested(Box::new(link)), bytes, trips: 0 })
    }

    /// Bytes that went over it, both ways.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Requests that were answered.
    pub(super) fn trips(&self) -> u64 {
        self.trips
    }
}

impl SearchService for Linked {
    fn ask(&mut self, request: Request) -> Result<Reply, Unreachable> {
        self.trips += 1;
        match &mut self.link {
            Open::Attested(link) => link.ask(request),
            Open::Plain(link) => link.ask(request),
        }
    }
}
