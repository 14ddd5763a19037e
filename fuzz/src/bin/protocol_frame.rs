//! Frame headers: what parses is written back as it was read.
#![no_main]

use arras_fuzz::seed;
use arras_protocol::ProtocolId;
use arras_protocol::frame::{FrameHeader, FrameKind, HEADER_BYTES};
use arras_protocol::limits::FRAME_BYTES_MAX;
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let header = |kind, body_bytes| FrameHeader {
        call: 7,
        kind,
        protocol: ProtocolId(3),
        deadline_ms: 30_000,
        body_bytes,
    };
    let headers = [
        header(FrameKind::Request, 0),
        header(FrameKind::Response, 48 << 20),
        header(FrameKind::Refusal, u32::MAX),
    ];
    headers.into_iter().map(|header| header.to_bytes().to_vec()).collect()
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else { return };
    if let Ok(header) = FrameHeader::from_bytes(bytes) {
        assert!(header.body_bytes as usize <= FRAME_BYTES_MAX);
        assert_eq!(&header.to_bytes(), bytes);
    }
});
