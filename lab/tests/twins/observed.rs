//! What the server saw: its transcript, message by message, as shapes (what is left when random bytes are taken for
//! what they are) and as the bytes that were left out.

use arras_protocol::documents::SealedDocument;
use arras_protocol::write::{self, Step};
use arras_protocol::{Protocol, arx_eq, arx_range, codec, documents, hello, unique};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::io::{Seek, SeekFrom};
use std::path::Path;

/// One line of a transcript.
#[derive(Deserialize)]
struct Line {
    protocol: u8,
    request: String,
    response: String,
    refused: Option<String>,
}

/// A request and its reply.
pub(crate) struct Call {
    pub(crate) protocol: u8,
    pub(crate) request: Vec<u8>,
    pub(crate) response: Vec<u8>,
}

/// Bytes that should be random, by what they are.
pub(crate) type RandomBytes = BTreeMap<&'static str, Vec<u8>>;

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digit = |character: u8| u8::try_from(char::from(character).to_digit(16).unwrap()).unwrap();
    hexadecimal.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// What a transcript has from byte `passed` on, but for the greetings of connections; `passed` is then its length.
pub(crate) fn read_on(path: &Path, passed: &mut u64) -> Vec<Call> {
    let mut file = std::fs::File::open(path).unwrap();
    file.seek(SeekFrom::Start(*passed)).unwrap();
    let text = std::io::read_to_string(file).unwrap();
    *passed += u64::try_from(text.len()).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Line>(line).unwrap());
    let calls = lines.filter(|line| line.protocol != hello::Hello::ID.0).map(|line| {
        assert_eq!(line.refused, None, "the server refused a request");
        Call { protocol: line.protocol, request: bytes(&line.request), response: bytes(&line.response) }
    });
    calls.collect()
}

/// The request, if it is of protocol `P`.
pub(crate) fn request<P: Protocol>(call: &Call) -> Option<P::Request> {
    (call.protocol == P::ID.0).then(|| codec::decode(&call.request).expect("of the protocol"))
}

fn response<P: Protocol>(call: &Call) -> P::Response {
    codec::decode(&call.response).expect("of the protocol")
}

/// The writes among some calls.
pub(crate) fn writes(calls: &[Call]) -> Vec<write::Request> {
    calls.iter().filter_map(request::<write::Write>).collect()
}

/// A message without its random bytes: names and labels are in its debug form as lists of numbers or in hexadecimal,
/// sealed bytes as their length.
fn blanked(message: &impl Debug) -> String {
    let text = format!("{message:?}");
    let mut shape = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(start) = rest.find(['[', '(']) {
        let (before, from) = rest.split_at(start);
        let end = from.find([']', ')']).unwrap_or(from.len() - 1);
        let inside = &from[1..end];
        let numbers = inside.split(", ").filter(|number| number.parse::<u8>().is_ok()).count();
        let is_bytes = numbers == 16 && inside.split(", ").count() == 16;
        let is_name = inside.len() >= 16 && inside.bytes().all(|byte| byte.is_ascii_hexdigit());
        shape.push_str(before);
        if is_bytes || is_name {
            shape.push('*');
            rest = &from[end + 1..];
        } else {
            shape.push_str(&from[..1]);
            rest = &from[1..];
        }
    }
    shape + rest
}

fn document_shape(document: &SealedDocument) -> String {
    format!("document: header {}, values {}", document.header.len(), document.values.len())
}

fn step_shape(step: &Step) -> String {
    match step {
        Step::Documents(documents::Change::Put { document, insert, .. }) => {
            format!("put {insert} {}", document_shape(document))
        }
        Step::Documents(change) => blanked(change),
        Step::Unique(change) => format!("unique {}", blanked(change)),
        Step::ArxEq(change) => format!("equality {}", blanked(change)),
        Step::ArxRange(change) => format!("range {}", blanked(change)),
        Step::Bplus(change) => format!("B+ tree {}", blanked(change)),
        Step::Pope(change) => format!("POPE {}", blanked(change)),
        Step::Mope(change) => format!("order-preserving encoding {}", blanked(change)),
        Step::Upload { .. } | Step::Parts { .. } => blanked(step),
    }
}

fn sorted(mut shapes: Vec<String>) -> String {
    shapes.sort_unstable();
    shapes.join("\n    ")
}

/// A call's shape: lengths, counts, and structure. Within a set, where the order is random or pseudorandom, parts are
/// sorted.
pub(crate) fn shape(call: &Call) -> String {
    let mut shape = format!("protocol {}: {} bytes, ", call.protocol, call.request.len());
    write!(shape, "{} back\n    ", call.response.len()).unwrap();
    if let Some(request) = request::<write::Write>(call) {
        write!(shape, "durable {}\n    ", request.operation.is_some()).unwrap();
        shape += &sorted(request.steps.iter().map(step_shape).collect());
    } else if let Some(request) = request::<documents::Documents>(call) {
        shape += &blanked(&request);
        if let documents::Response::Documents { documents, more, served } =
            response::<documents::Documents>(call)
        {
            write!(shape, "\n    {more} {served}\n    ").unwrap();
            shape += &sorted(documents.iter().map(document_shape).collect());
        }
    } else if let Some(request) = request::<unique::Unique>(call) {
        let found = response::<unique::Unique>(call).rows.iter().flatten().count();
        write!(shape, "{}, {found} found", blanked(&request)).unwrap();
    } else if let Some(request) = request::<arx_eq::ArxEq>(call) {
        let found = response::<arx_eq::ArxEq>(call);
        let values = request.values.iter().zip(found.values);
        shape += &sorted(values.map(|value| blanked(&value)).collect());
    } else if let Some(request) = request::<arx_range::ArxRange>(call) {
        shape += &blanked(&request);
        shape += "\n    ";
        shape += &blanked(&response::<arx_range::ArxRange>(call));
    } else {
        panic!("protocol {}", call.protocol);
    }
    shape
}

/// Takes up what of a call should be random.
pub(crate) fn take_random(call: &Call, random: &mut RandomBytes) {
    let mut take = |what, bytes: &[u8]| random.entry(what).or_default().extend_from_slice(bytes);
    for step in request::<write::Write>(call).into_iter().flat_map(|request| request.steps) {
        match step {
            Step::Documents(documents::Change::Put { document, insert, .. }) => {
                // Drawn once: a row that is written often would count as often.
                if insert {
                    take("rows", document.row.as_bytes());
                }
                take("headers", document.header.as_slice());
                take("values", document.values.as_slice());
            }
            Step::Unique(unique::Change::Insert { label, .. }) => take("labels", &label.0),
            Step::ArxEq(arx_eq::Change::Insert { label, row, .. }) => {
                take("labels", &label.0);
                take("masked rows", &row.0);
            }
            Step::ArxRange(change) => take_random_of_range(change, &mut take),
            Step::Documents(_)
            | Step::Unique(_)
            | Step::ArxEq(_)
            | Step::Bplus(_)
            | Step::Pope(_)
            | Step::Mope(_)
            | Step::Upload { .. }
            | Step::Parts { .. } => {}
        }
    }
    for token in request::<arx_eq::ArxEq>(call).into_iter().flat_map(|request| request.values).flatten() {
        take("labels", &token.node);
    }
}

fn take_random_of_range(change: arx_range::Change, take: &mut impl FnMut(&'static str, &[u8])) {
    use arx_range::Change;
    match change {
        Change::PutHead { sealed, .. } => take("heads", sealed.as_slice()),
        Change::PutTop { record, .. } => take("top nodes", record.sealed.as_slice()),
        Change::PutNode { record, .. } => take("tree nodes", record.sealed.as_slice()),
        Change::PutBucket { sealed, .. } => take("buckets", sealed.as_slice()),
        Change::AddEntries { sealed, .. } => take("added entries", sealed.as_slice()),
        Change::PutCircuit { circuit, .. } => {
            take("circuits", circuit.gates.as_slice());
            for transition in circuit.left.iter().chain(&circuit.right) {
                take("circuits", transition.rows.as_slice());
            }
        }
        Change::CreateIndex { .. }
        | Change::DropIndex { .. }
        | Change::RemoveNode { .. }
        | Change::LinkBuckets { .. } => {}
    }
}
