//! What is at the other end: a server in this process, over any store, or a real one.

use arras_primitives::meter::{self, Reading};
use arras_protocol::{Channel, ChannelError, Protocol, codec};
use arras_proxy::connection::Connection;
use arras_server::listener::Handler;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Primitive calls of the server's half, while it runs in this process.
#[derive(Clone, Debug, Default)]
pub struct ServerMeter(Arc<Mutex<Reading>>);

impl ServerMeter {
    /// The calls so far.
    #[must_use]
    pub fn reading(&self) -> Reading {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, calls: Reading) {
        let mut reading = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *reading = *reading + calls;
    }
}

/// A way to a server.
#[derive(Clone)]
pub enum Link {
    /// In this process, on the caller's thread. Messages are encoded and decoded as on the wire.
    Direct(Arc<dyn Handler>, ServerMeter),
    /// Over TLS.
    Network(Connection),
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Direct(..) => f.write_str("Direct"),
            Self::Network(connection) => connection.fmt(f),
        }
    }
}

impl<P: Protocol> Channel<P> for Link {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        match self {
            Self::Direct(server, server_meter) => {
                let body = codec::encode(&request);
                drop(request);
                let before = meter::reading();
                let reply = server.handle(P::ID, &body);
                server_meter.add(meter::reading() - before);
                codec::decode(&reply?)
                    .map_err(|_| ChannelError::Malformed(format!("not a response of {}", P::NAME)))
            }
            Self::Network(connection) => Channel::<P>::call(connection, request).await,
        }
    }
}
