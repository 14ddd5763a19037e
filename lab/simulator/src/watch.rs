//! What must never come twice with another content: names of writes, labels of equality entries, nonces, circuits. Seen
//! where the server sees it.

use crate::protocols;
use arras_protocol::write::{self, Step, Write};
use arras_protocol::{IndexId, Protocol, ProtocolId, arx_range, codec};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// A thing that must be used once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Once {
    Operation(u64, u64, Option<u32>),
    Label(Vec<u8>),
    Nonce(Vec<u8>),
    Circuit([u8; 16]),
    Opened([u8; 16]),
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Sums of contents. Never walked, so that its order does not matter.
    once: HashMap<Once, u64>,
    /// Bytes of an element of an index whose elements are of one length.
    pub(crate) lengths: HashMap<IndexId, usize>,
    wrong: Option<String>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Watch(Mutex<Seen>);

fn sum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

impl Watch {
    /// What was used twice, if anything was.
    #[must_use]
    pub fn wrong(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).wrong.clone()
    }

    /// Looks at a request.
    pub(crate) fn request(&self, protocol: ProtocolId, body: &[u8]) {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if protocol == Write::ID {
            if let Ok(request) = codec::decode_expanding::<write::Request>(body, Write::REQUEST_EXPANSION) {
                seen.write(&request);
            }
        } else if protocol == arx_range::ArxRange::ID
            && let Ok(arx_range::Request::Search { lower, upper, .. }) = codec::decode(body)
        {
            for bound in [Some(lower), upper].into_iter().flatten() {
                if let arx_range::Bound::Walk(walk) = bound {
                    seen.note(Once::Opened(walk.nonce.0), &walk.labels.0, "a circuit is opened");
                }
            }
        }
    }
}

impl Seen {
    pub(crate) fn note(&mut self, once: Once, content: &[u8], what: &str) {
        let now = sum(content);
        let before = *self.once.entry(once.clone()).or_insert(now);
        if before != now && self.wrong.is_none() {
            self.wrong = Some(format!("{what} twice with different content: {once:?}"));
        }
    }

    fn write(&mut self, request: &write::Request) {
        if let Some(operation) = request.operation {
            let name = Once::Operation(operation.epoch, operation.sequence, None);
            self.note(name, &codec::encode(&request.steps), "the name of a write is used");
        }
        self.steps(&request.steps);
    }

    fn steps(&mut self, steps: &[Step]) {
        steps.iter().for_each(|step| protocols::used_once(step, self));
    }

    /// Something sealed: its first bytes are its nonce.
    pub(crate) fn sealed(&mut self, of: &[u8], sealed: &[u8]) {
        if let Some((nonce, _)) = sealed.split_first_chunk::<12>() {
            self.note(Once::Nonce([of, nonce].concat()), sealed, "a nonce is used");
        }
    }
}

/// A request in a few words.
pub(crate) fn described(protocol: ProtocolId, body: &[u8]) -> String {
    if protocol == Write::ID {
        return match codec::decode_expanding::<write::Request>(body, Write::REQUEST_EXPANSION) {
            Ok(write::Request { operation: Some(name), steps, .. }) => {
                format!("write {}/{} of {} steps", name.epoch, name.sequence, steps.len())
            }
            Ok(write::Request { operation: None, steps, .. }) => {
                format!("relaxed write of {} steps", steps.len())
            }
            Err(_) => "a malformed write".into(),
        };
    }
    format!("protocol {}", protocol.0)
}
