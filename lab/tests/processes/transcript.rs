//! The server's transcript, read as one who keeps everything: what was said, and whether anything that must be used
//! once was used twice, over all starts of both sides.

use super::auditor::Auditor;
use arras_protocol::arx_range::{self, TopNode, TreeNode};
use arras_protocol::write::{self, Step};
use arras_protocol::{Blob, IndexId, OperationId, Protocol, arx_eq, codec, documents};
use serde::Deserialize;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// Bytes of the nonce every sealed blob begins with.
const NONCE_BYTES: usize = 12;
/// Bytes that sealing adds: nonce and tag.
const SEALED_BYTES_MIN: usize = 28;

/// One line.
#[derive(Deserialize)]
struct Line {
    protocol: u8,
    request_bytes: usize,
    request: String,
}

/// A request.
pub(crate) struct Call {
    pub(crate) protocol: u8,
    pub(crate) request: Vec<u8>,
}

fn bytes(hexadecimal: &str, expected: usize) -> Vec<u8> {
    let digit = |character: u8| u8::try_from(char::from(character).to_digit(16).unwrap()).unwrap();
    let bytes: Vec<u8> =
        hexadecimal.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect();
    assert_eq!(bytes.len(), expected, "the transcript is whole");
    bytes
}

/// Reads what a transcript has so far. A kill may have torn a line, which the next start has continued.
pub(crate) fn read(path: &Path) -> Vec<Call> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let whole = |line: &str| serde_json::from_str::<Line>(line).ok();
    let calls = text.lines().filter_map(|line| {
        whole(line).or_else(|| line.rfind("{\"protocol\"").and_then(|start| whole(&line[start..])))
    });
    calls
        .map(|line| Call { protocol: line.protocol, request: bytes(&line.request, line.request_bytes) })
        .collect()
}

/// What must not be used twice, and what it was used for.
#[derive(Default)]
pub(crate) struct Uses {
    circuits: Auditor,
    operations: HashMap<OperationId, u64>,
    entries: HashMap<(IndexId, arx_eq::Label), arx_eq::MaskedRow>,
    /// Nonces by what the key is for, with a digest of what was sealed.
    sealed: HashMap<(Vec<u8>, Vec<u8>), u64>,
    writes: u64,
}

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Uses {
    /// Writes seen.
    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    /// Circuits that whoever has the transcript can open.
    pub(crate) fn circuits_opened(&self) -> u64 {
        self.circuits.opened()
    }

    /// Sealed blobs seen.
    pub(crate) fn sealed(&self) -> usize {
        self.sealed.len()
    }

    /// Takes calls in; fails the test at the first second use.
    pub(crate) fn take(&mut self, calls: &[Call]) {
        for call in calls {
            if call.protocol == arx_range::ArxRange::ID.0 {
                let request = codec::decode(&call.request).expect("the proxy sends requests of the protocol");
                self.circuits.search(&request);
            } else if call.protocol == write::Write::ID.0 {
                let request: write::Request =
                    codec::decode(&call.request).expect("the proxy sends requests of the protocol");
                self.write(&request);
            }
        }
    }

    fn write(&mut self, request: &write::Request) {
        self.writes += 1;
        self.circuits.write(request);
        if let Some(operation) = request.operation {
            let digest = digest(&codec::encode(&request.steps));
            let before = self.operations.insert(operation, digest);
            assert!(before.is_none_or(|before| before == digest), "{operation:?} names two writes");
        }
        for step in &request.steps {
            if let Step::ArxEq(arx_eq::Change::Insert { index, label, row }) = step {
                let before = self.entries.insert((*index, *label), *row);
                assert!(before.is_none_or(|before| before == *row), "a counter serves two entries");
            }
            for (key, sealed) in sealed_under(step) {
                let nonce = sealed.as_slice()[..NONCE_BYTES].to_vec();
                let digest = digest(&sealed.as_slice());
                let before = self.sealed.insert((key, nonce), digest);
                assert!(before.is_none_or(|before| before == digest), "a nonce seals two plaintexts");
            }
        }
    }
}

/// The sealed blobs of a step.
pub(crate) fn sealed(step: &Step) -> Vec<&Blob> {
    sealed_under(step).into_iter().map(|(_, sealed)| sealed).collect()
}

/// The same, each with a name of the key it is sealed under.
fn sealed_under(step: &Step) -> Vec<(Vec<u8>, &Blob)> {
    use arx_range::Change;
    let found = match step {
        Step::Documents(documents::Change::Put { collection, document, .. }) => {
            let named = |name: &[u8]| [collection.as_bytes(), name].concat();
            vec![(named(b"values"), &document.values), (named(b"header"), &document.header)]
        }
        Step::Documents(documents::Change::PutHeader { collection, header, .. }) => {
            vec![([collection.as_bytes(), b"header".as_slice()].concat(), header)]
        }
        Step::ArxRange(
            Change::PutHead { index, sealed, .. }
            | Change::PutBucket { index, sealed, .. }
            | Change::AddEntries { index, sealed, .. }
            | Change::PutTop { index, record: TopNode { sealed, .. }, .. }
            | Change::PutNode { index, record: TreeNode { sealed, .. }, .. },
        ) => vec![(index.as_bytes().to_vec(), sealed)],
        // The two records of an empty index are sealed under one fixed nonce, and are the same in every start.
        _ => Vec::new(),
    };
    assert!(found.iter().all(|(_, sealed)| sealed.len() >= SEALED_BYTES_MIN), "not a sealed blob");
    found
}
