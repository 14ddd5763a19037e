#![allow(clippy::unwrap_used)]

use super::owned::DEPTH_MAX;
use super::*;
use bson::{Bson, doc};
use proptest::prelude::*;

/// Builds an `OP_MSG` by hand, so that a mistake in the encoder cannot hide one in the parser.
struct Builder {
    flags: u32,
    sections: Vec<u8>,
}

impl Builder {
    fn new() -> Self {
        Self { flags: 0, sections: Vec::new() }
    }

    fn flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }

    fn raw(mut self, bytes: &[u8]) -> Self {
        self.sections.extend_from_slice(bytes);
        self
    }

    fn body(self, document: &Document) -> Self {
        let bytes = document.to_vec().unwrap();
        self.raw(&[0]).raw(&bytes)
    }

    fn sequence(self, identifier: &str, documents: &[Document]) -> Self {
        let mut inside = identifier.as_bytes().to_vec();
        inside.push(0);
        for document in documents {
            inside.extend(document.to_vec().unwrap());
        }
        let length = i32::try_from(inside.len() + 4).unwrap();
        self.raw(&[1]).raw(&length.to_le_bytes()).raw(&inside)
    }

    fn build(self) -> Vec<u8> {
        let checksummed = self.flags & CHECKSUM_PRESENT != 0;
        let length = 20 + self.sections.len() + if checksummed { 4 } else { 0 };
        let mut bytes = Vec::new();
        for field in [i32::try_from(length).unwrap(), 7, 0, OP_MSG, self.flags.cast_signed()] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&self.sections);
        if checksummed {
            let sum = crc32c::crc32c(&bytes);
            bytes.extend_from_slice(&sum.to_le_bytes());
        }
        bytes
    }
}

fn query(namespace: &str, document: &Document) -> Vec<u8> {
    let mut rest = 0_i32.to_le_bytes().to_vec();
    rest.extend_from_slice(namespace.as_bytes());
    rest.push(0);
    rest.extend_from_slice(&0_i32.to_le_bytes());
    rest.extend_from_slice(&(-1_i32).to_le_bytes());
    rest.extend(document.to_vec().unwrap());
    framed(OP_QUERY, &rest)
}

fn framed(opcode: i32, rest: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for field in [i32::try_from(16 + rest.len()).unwrap(), 7, 0, opcode] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes.extend_from_slice(rest);
    bytes
}

fn is_broken(bytes: &[u8]) -> bool {
    matches!(parse_message(bytes), Err(WireError::Broken(_)))
}

fn refusal(bytes: &[u8]) -> (i32, ReplyForm) {
    match parse_message(bytes) {
        Err(WireError::Refused { code, reply, .. }) => (code, reply),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn command_with_body_and_sequences() {
    let command = doc! { "insert": "c", "$db": "d", "ordered": true };
    let documents = [doc! { "_id": 1, "name": "Åsa" }, doc! { "_id": 2 }];
    let expected = Message {
        request_id: 7,
        body: MessageBody::Command {
            command: command.clone(),
            sequences: vec![Sequence { identifier: "documents".into(), documents: documents.to_vec() }],
            unacknowledged: false,
        },
    };
    let body_first = Builder::new().body(&command).sequence("documents", &documents).build();
    assert_eq!(parse_message(&body_first).unwrap(), expected);
    let body_last = Builder::new().sequence("documents", &documents).body(&command).build();
    assert_eq!(parse_message(&body_last).unwrap(), expected);
}

#[test]
fn flags() {
    let command = doc! { "ping": 1, "$db": "d" };
    let unacknowledged = |flags| match parse_message(&Builder::new().flags(flags).body(&command).build()) {
        Ok(Message { body: MessageBody::Command { unacknowledged, .. }, .. }) => unacknowledged,
        other => panic!("{other:?}"),
    };
    assert!(!unacknowledged(0));
    assert!(unacknowledged(MORE_TO_COME));
    assert!(!unacknowledged(EXHAUST_ALLOWED));
    assert!(!unacknowledged(CHECKSUM_PRESENT));
    assert!(!unacknowledged(1 << 20), "unknown optional flags are ignored");
    assert!(
        is_broken(&Builder::new().flags(1 << 2).body(&command).build()),
        "unknown required flags are not"
    );
}

#[test]
fn checksum_is_checked() {
    // Castagnoli's polynomial: the check value of the catalogue of CRCs.
    assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
    let command = doc! { "ping": 1, "$db": "d" };
    let mut bytes = Builder::new().flags(CHECKSUM_PRESENT).body(&command).build();
    assert!(parse_message(&bytes).is_ok());
    *bytes.last_mut().unwrap() ^= 1;
    assert!(is_broken(&bytes));
    // Too short to hold the checksum it announces.
    assert!(is_broken(&framed(OP_MSG, &CHECKSUM_PRESENT.to_le_bytes())));
}

#[test]
fn every_truncation_is_an_error() {
    let documents = [doc! { "_id": 1 }];
    let whole = Builder::new().body(&doc! { "insert": "c" }).sequence("documents", &documents).build();
    let legacy = query("admin.$cmd", &doc! { "isMaster": 1 });
    for bytes in [whole, legacy] {
        assert!(parse_message(&bytes).is_ok());
        for length in 0..bytes.len() {
            let mut cut = bytes[..length].to_vec();
            assert!(is_broken(&cut), "length field says more than there is");
            if length >= HEADER_BYTES {
                cut[..4].copy_from_slice(&i32::try_from(length).unwrap().to_le_bytes());
                // A message cut between its body and its sequence is whole again.
                let is_prefix = parse_message(&cut).is_ok();
                assert!(!is_prefix || length == 20 + 1 + doc! { "insert": "c" }.to_vec().unwrap().len());
            }
        }
    }
}

#[test]
fn impossible_lengths() {
    for length in [i32::MIN, -1, 0, 15, 48_000_001, i32::MAX] {
        let mut head = [0; HEADER_BYTES];
        head[..4].copy_from_slice(&length.to_le_bytes());
        assert!(matches!(parse_header(&head), Err(WireError::Broken(_))), "{length}");
    }
    let mut head = [0; HEADER_BYTES];
    head[..4].copy_from_slice(&48_000_000_i32.to_le_bytes());
    assert_eq!(parse_header(&head).unwrap().message_bytes, MESSAGE_BYTES_MAX);
    for length in [-1_i32, 0, 3, 1000] {
        let section = Builder::new().raw(&[1]).raw(&length.to_le_bytes()).raw(b"documents\0").build();
        assert!(is_broken(&section), "sequence length {length}");
        let body = Builder::new().raw(&[0]).raw(&length.to_le_bytes()).raw(&[0; 8]).build();
        assert!(parse_message(&body).is_err(), "document length {length}");
    }
}

#[test]
fn unknown_opcodes_close_the_connection() {
    for opcode in [0, OP_REPLY, 2001, 2002, 2005, 2006, 2007, OP_COMPRESSED, -1] {
        assert!(is_broken(&framed(opcode, &[0; 32])), "{opcode}");
    }
    let internal_section = Builder::new().body(&doc! { "ping": 1 }).raw(&[2, 0, 0, 0, 0]).build();
    assert!(is_broken(&internal_section));
}

#[test]
fn sections_that_contradict_are_refused() {
    let body = doc! { "ping": 1 };
    assert_eq!(refusal(&Builder::new().body(&body).body(&body).build()), (40430, ReplyForm::Message));
    assert_eq!(refusal(&Builder::new().build()), (40587, ReplyForm::Message));
    let twice = Builder::new().body(&body).sequence("a", &[]).sequence("a", &[]).build();
    assert_eq!(refusal(&twice), (40431, ReplyForm::Message));
}

#[test]
fn bad_documents_are_refused_with_the_form_of_their_request() {
    // {"": <unknown type 0x77>}
    let bad = [7, 0, 0, 0, 0x77, 0, 0];
    assert_eq!(refusal(&Builder::new().raw(&[0]).raw(&bad).build()), (22, ReplyForm::Message));
    let silent = Builder::new().flags(MORE_TO_COME).raw(&[0]).raw(&bad).build();
    assert_eq!(refusal(&silent), (22, ReplyForm::Silent));
    let mut legacy = query("admin.$cmd", &doc! {});
    legacy.truncate(legacy.len() - 5);
    legacy.extend_from_slice(&bad);
    let length = i32::try_from(legacy.len()).unwrap();
    legacy[..4].copy_from_slice(&length.to_le_bytes());
    assert_eq!(refusal(&legacy), (22, ReplyForm::Legacy));
}

#[test]
fn nested_as_deep_as_allowed_and_one_deeper() {
    let nested = |levels: usize| (1..levels).fold(doc! {}, |inner, _| doc! { "a": inner });
    assert!(parse_message(&Builder::new().body(&nested(DEPTH_MAX)).build()).is_ok());
    assert_eq!(refusal(&Builder::new().body(&nested(DEPTH_MAX + 1)).build()).0, 15);
    // Far deeper than any stack would take; built as bytes, since the encoder itself recurses.
    let levels = 1_000_000;
    let mut bytes = vec![0; 8 * levels];
    for level in 0..levels {
        let length = i32::try_from(8 * (levels - level)).unwrap();
        bytes[7 * level..7 * level + 4].copy_from_slice(&length.to_le_bytes());
        bytes[7 * level + 4..7 * level + 7].copy_from_slice(&[3, b'a', 0]);
    }
    assert_eq!(refusal(&Builder::new().raw(&[0]).raw(&bytes).build()).0, 15);
}

#[test]
fn duplicate_fields_are_refused_not_dropped() {
    let mut bytes = doc! { "a": 1, "b": 2 }.to_vec().unwrap();
    let second = bytes.iter().position(|byte| *byte == b'b').unwrap();
    bytes[second] = b'a';
    assert_eq!(refusal(&Builder::new().raw(&[0]).raw(&bytes).build()).0, 2);
}

#[test]
fn oversized_documents_are_refused() {
    let filler = |bytes: usize| doc! { "a": "x".repeat(bytes - 13) };
    let largest = filler(BODY_BYTES_MAX);
    assert_eq!(largest.to_vec().unwrap().len(), BODY_BYTES_MAX);
    assert!(parse_message(&Builder::new().body(&largest).build()).is_ok());
    assert_eq!(refusal(&Builder::new().body(&filler(BODY_BYTES_MAX + 1)).build()).0, 10334);
}

#[test]
fn legacy_queries_only_on_command_collections() {
    let hello = doc! { "isMaster": 1, "helloOk": true };
    let expected = MessageBody::LegacyCommand { database: "admin".into(), command: hello.clone() };
    assert_eq!(parse_message(&query("admin.$cmd", &hello)).unwrap().body, expected);
    assert_eq!(refusal(&query("test.users", &doc! { "a": 1 })), (352, ReplyForm::Legacy));
    assert_eq!(refusal(&query(".$cmd", &hello)), (352, ReplyForm::Legacy));
}

#[test]
fn legacy_reply_layout() {
    let bytes = encode_legacy_reply(3, 9, &doc! { "ok": 1.0 }).unwrap();
    let expected_prefix: Vec<u8> = [bytes.len() as i32, 3, 9, OP_REPLY, 8, 0, 0, 0, 1]
        .iter()
        .flat_map(|field| field.to_le_bytes())
        .collect();
    assert_eq!(bytes[..36], expected_prefix);
    assert_eq!(bytes[36..], doc! { "ok": 1.0 }.to_vec().unwrap());
}

#[test]
fn replies_too_long_for_a_message_are_errors() {
    let long = doc! { "a": "x".repeat(MESSAGE_BYTES_MAX) };
    assert!(encode_reply(1, 1, &long).is_err());
}

fn leaf() -> impl Strategy<Value = Bson> {
    prop_oneof![
        any::<i32>().prop_map(Bson::Int32),
        any::<i64>().prop_map(Bson::Int64),
        any::<f64>().prop_filter("NaN is not equal to itself", |x| !x.is_nan()).prop_map(Bson::Double),
        any::<bool>().prop_map(Bson::Boolean),
        ".{0,12}".prop_map(Bson::String),
        any::<[u8; 12]>().prop_map(|id| Bson::ObjectId(id.into())),
        any::<i64>().prop_map(|at| Bson::DateTime(bson::DateTime::from_millis(at))),
        Just(Bson::Null),
        Just(Bson::Undefined),
        Just(Bson::MinKey),
        Just(Bson::MaxKey),
        Just(Bson::Timestamp(bson::Timestamp { time: 1, increment: 2 })),
        Just(Bson::Symbol("s".into())),
        Just(Bson::JavaScriptCode("f()".into())),
        any::<[u8; 16]>().prop_map(|bytes| Bson::Decimal128(bson::Decimal128::from_bytes(bytes))),
        prop::collection::vec(any::<u8>(), 0..9).prop_map(|bytes| {
            Bson::Binary(bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes })
        }),
    ]
}

fn document() -> impl Strategy<Value = Document> {
    let value = leaf().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Bson::Array),
            prop::collection::vec(("[a-z$.]{0,6}", inner), 0..4)
                .prop_map(|fields| Bson::Document(fields.into_iter().collect())),
        ]
    });
    prop::collection::vec(("[a-zA-Z$._]{1,8}", value), 0..6).prop_map(|fields| fields.into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_encoded_is_parsed_back(document in document(), id: i32) {
        let bytes = encode_command(id, &document).unwrap();
        let expected = MessageBody::Command { command: document, sequences: vec![], unacknowledged: false };
        prop_assert_eq!(parse_message(&bytes).unwrap(), Message { request_id: id, body: expected });
    }

    #[test]
    fn damage_never_panics(document in document(), at: prop::sample::Index, with: u8, cut: prop::sample::Index) {
        let mut bytes = Builder::new().body(&document).sequence("documents", &[document]).build();
        let position = at.index(bytes.len());
        bytes[position] = with;
        let _ = parse_message(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        let _ = parse_message(&bytes);
    }

    #[test]
    fn garbage_never_panics(opcode in prop_oneof![Just(OP_MSG), Just(OP_QUERY), any::<i32>()],
                            rest in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_message(&rest);
        let _ = parse_message(&framed(opcode, &rest));
    }
}
