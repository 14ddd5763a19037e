//! What must never come twice with another content: names of writes, labels of equality entries, nonces, circuits. Seen
//! where the server sees it.

use arras_protocol::write::{self, Step, Write};
use arras_protocol::{Protocol, ProtocolId, arx_eq, arx_range, codec, documents, unique};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

/// A thing that must be used once.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Once {
    Operation(u64, u64, Option<u32>),
    Label(Vec<u8>),
    Nonce(Vec<u8>),
    Circuit([u8; 16]),
    Opened([u8; 16]),
}

#[derive(Debug, Default)]
struct Seen {
    /// Sums of contents. Never walked, so that its order does not matter.
    once: HashMap<Once, u64>,
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
    fn note(&mut self, once: Once, content: &[u8], what: &str) {
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
        for step in steps {
            match step {
                Step::Documents(documents::Change::Put { document, .. }) => {
                    self.sealed(document.row.as_bytes(), &document.header.0);
                    self.sealed(document.row.as_bytes(), &document.values.0);
                }
                Step::Documents(documents::Change::PutHeader { row, header, .. }) => {
                    self.sealed(row.as_bytes(), &header.0);
                }
                Step::ArxEq(arx_eq::Change::Insert { index, label, row }) => {
                    let name = Once::Label(codec::encode(&(index, label)));
                    self.note(name, &codec::encode(row), "a counter of an equality index is used");
                }
                Step::ArxRange(change) => self.range(change),
                Step::Upload { operation, part, steps } => {
                    let name = Once::Operation(operation.epoch, operation.sequence, Some(*part));
                    self.note(name, &steps.0, "a part of a write comes");
                    if let Ok(steps) =
                        codec::decode_expanding::<Vec<Step>>(&steps.0, Write::REQUEST_EXPANSION)
                    {
                        self.steps(&steps);
                    }
                }
                Step::Documents(
                    documents::Change::CreateCollection { .. }
                    | documents::Change::DropCollection { .. }
                    | documents::Change::Delete { .. },
                )
                | Step::Unique(
                    unique::Change::CreateIndex { .. }
                    | unique::Change::DropIndex { .. }
                    | unique::Change::Insert { .. }
                    | unique::Change::Remove { .. },
                )
                | Step::ArxEq(
                    arx_eq::Change::CreateIndex { .. }
                    | arx_eq::Change::DropIndex { .. }
                    | arx_eq::Change::Remove { .. },
                )
                | Step::Bplus(_)
                | Step::Pope(_)
                | Step::Mope(_)
                | Step::Parts { .. } => {}
            }
        }
    }

    fn range(&mut self, change: &arx_range::Change) {
        use arx_range::Change;
        match change {
            Change::CreateIndex { index, head_bucket, head_sealed, .. } => {
                self.sealed(index.as_bytes(), &head_bucket.0);
                self.sealed(index.as_bytes(), &head_sealed.0);
            }
            Change::PutHead { index, sealed, .. }
            | Change::PutBucket { index, sealed, .. }
            | Change::AddEntries { index, sealed, .. } => self.sealed(index.as_bytes(), &sealed.0),
            Change::PutTop { index, record, .. } => self.sealed(index.as_bytes(), &record.sealed.0),
            Change::PutNode { index, record, .. } => self.sealed(index.as_bytes(), &record.sealed.0),
            Change::PutCircuit { circuit, .. } => {
                self.note(Once::Circuit(circuit.nonce.0), &codec::encode(circuit), "a circuit is made");
            }
            Change::DropIndex { .. } | Change::RemoveNode { .. } | Change::LinkBuckets { .. } => {}
        }
    }

    /// Something sealed: its first bytes are its nonce.
    fn sealed(&mut self, of: &[u8], sealed: &[u8]) {
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
