//! What the server's half is asked and answers, kept as it passes: all that one who watches it has.

use arras_protocol::{Protocol, ProtocolId, Refusal, codec};
use arras_server::listener::Handler;
use std::sync::{Arc, Mutex, PoisonError};

/// A request and its reply, as encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Of which protocol.
    pub protocol: ProtocolId,
    /// What was asked.
    pub request: Vec<u8>,
    /// What was answered.
    pub reply: Vec<u8>,
}

impl Exchange {
    /// Both messages, if they are of protocol `P`.
    #[must_use]
    pub fn of<P: Protocol>(&self) -> Option<(P::Request, P::Response)> {
        if self.protocol != P::ID {
            return None;
        }
        Some((codec::decode(&self.request).ok()?, codec::decode(&self.reply).ok()?))
    }
}

/// What has passed and was not taken yet.
#[derive(Clone, Debug, Default)]
pub struct Tape(Arc<Mutex<Vec<Exchange>>>);

impl Tape {
    /// Takes what has passed, in order.
    #[must_use]
    pub fn take(&self) -> Vec<Exchange> {
        // Nothing panics while it is held.
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A server that is watched. Refused requests are not kept.
pub struct Recorder {
    server: Arc<dyn Handler>,
    tape: Tape,
}

impl std::fmt::Debug for Recorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Recorder(..)")
    }
}

impl Recorder {
    /// Watches `server`.
    #[must_use]
    pub fn new(server: Arc<dyn Handler>) -> Self {
        Self { server, tape: Tape::default() }
    }

    /// What passes, now and later.
    #[must_use]
    pub fn tape(&self) -> Tape {
        self.tape.clone()
    }
}

impl Handler for Recorder {
    fn handle(&self, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        let reply = self.server.handle(protocol, body)?;
        let exchange = Exchange { protocol, request: body.to_vec(), reply: reply.clone() };
        self.tape.0.lock().unwrap_or_else(PoisonError::into_inner).push(exchange);
        Ok(reply)
    }
}
