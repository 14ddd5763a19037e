#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use super::*;
use arras_protocol::ProtocolId;
use arras_protocol::frame::FrameKind;
use arras_protocol::limits::FRAME_BYTES_MAX;
use proptest::prelude::*;

/// Reads all frames of a stream.
fn read_all(mut bytes: &[u8]) -> Result<Vec<(FrameHeader, Vec<u8>)>, ReadError> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let mut frames = Vec::new();
        while let Some(frame) = read(&mut bytes).await? {
            frames.push(frame);
        }
        Ok(frames)
    })
}

fn frame_strategy() -> impl Strategy<Value = (FrameHeader, Vec<u8>)> {
    let kind = prop_oneof![Just(FrameKind::Request), Just(FrameKind::Response), Just(FrameKind::Refusal)];
    let body = prop::collection::vec(any::<u8>(), 0..200);
    (any::<u64>(), kind, any::<u8>(), any::<u32>(), body).prop_map(
        |(call, kind, protocol, deadline_ms, body)| {
            let body_bytes = u32::try_from(body.len()).unwrap();
            (FrameHeader { call, kind, protocol: ProtocolId(protocol), deadline_ms, body_bytes }, body)
        },
    )
}

proptest! {
    #[test]
    fn frames_come_back_as_written(frames in prop::collection::vec(frame_strategy(), 0..8)) {
        let mut stream = Vec::new();
        for (header, body) in &frames {
            stream.extend_from_slice(&header.to_bytes());
            stream.extend_from_slice(body);
        }
        prop_assert_eq!(read_all(&stream).unwrap(), frames);
    }

    #[test]
    fn a_truncated_frame_is_never_a_frame((header, body) in frame_strategy(), cut in any::<prop::sample::Index>()) {
        let mut stream = header.to_bytes().to_vec();
        stream.extend_from_slice(&body);
        let len = cut.index(stream.len());
        let read = read_all(&stream[..len]);
        if len == 0 {
            prop_assert!(read.unwrap().is_empty());
        } else {
            prop_assert!(matches!(read, Err(ReadError::Truncated)));
        }
    }

    #[test]
    fn garbage_gives_frames_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        // Whatever is read accounts for every byte.
        if let Ok(frames) = read_all(&bytes) {
            let total: usize = frames.iter().map(|(_, body)| HEADER_BYTES + body.len()).sum();
            prop_assert_eq!(total, bytes.len());
        }
    }
}

#[test]
fn an_oversize_header_is_refused_before_its_body() {
    let header = FrameHeader {
        call: 1,
        kind: FrameKind::Request,
        protocol: ProtocolId(1),
        deadline_ms: 0,
        body_bytes: u32::try_from(FRAME_BYTES_MAX).unwrap() + 1,
    };
    let read = read_all(&header.to_bytes());
    assert!(matches!(read, Err(ReadError::Frame(FrameError::TooLarge(_)))), "{read:?}");
}

#[test]
fn a_promise_of_a_large_body_allocates_little() {
    let body_bytes = u32::try_from(FRAME_BYTES_MAX).unwrap();
    let header = FrameHeader {
        call: 1,
        kind: FrameKind::Request,
        protocol: ProtocolId(1),
        deadline_ms: 0,
        body_bytes,
    };
    let read = read_all(&header.to_bytes());
    assert!(matches!(read, Err(ReadError::Truncated)), "{read:?}");
}
