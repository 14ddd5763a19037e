#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use super::*;
use crate::pace::TooSlow;
use arras_protocol::ProtocolId;
use arras_protocol::frame::FrameKind;
use arras_protocol::limits::FRAME_BYTES_MAX;
use proptest::prelude::*;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep};

const PATIENCE: Duration = Duration::from_secs(30);

const PACE: Pace = Pace::AtLeast { stall: PATIENCE, bytes_per_second: 64 * 1024 };

/// Reads the rest of a frame.
async fn finish<R: AsyncRead + Unpin>(
    begun: Begun,
    stream: &mut R,
) -> Result<(FrameHeader, Vec<u8>), ReadError> {
    let announced = begun.header(stream).await?;
    Ok((announced.header, announced.body(stream).await?))
}

/// Reads all frames of a stream.
fn read_all(mut bytes: &[u8]) -> Result<Vec<(FrameHeader, Vec<u8>)>, ReadError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let mut frames = Vec::new();
        while let Some(frame) = read(&mut bytes, PACE).await? {
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
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let mut stream = Vec::new();
        for (header, body) in &frames {
            runtime.block_on(write(&mut stream, PACE, *header, body)).unwrap();
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
    let read = read_all(&announced().to_bytes());
    assert!(matches!(read, Err(ReadError::Truncated)), "{read:?}");
}

/// The header of a frame with the largest body.
fn announced() -> FrameHeader {
    let body_bytes = u32::try_from(FRAME_BYTES_MAX).unwrap();
    FrameHeader { call: 1, kind: FrameKind::Request, protocol: ProtocolId(1), deadline_ms: 0, body_bytes }
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_trickles_is_given_up_hardly_later_than_one_that_stands_still() {
    let (mut near, mut far) = tokio::io::duplex(4096);
    tokio::spawn(async move {
        // The pause before a frame may be of any length.
        sleep(PATIENCE * 100).await;
        let header = announced().to_bytes();
        for byte in header.into_iter().chain([0; 1000]) {
            if far.write_all(&[byte]).await.is_err() {
                return;
            }
            sleep(PATIENCE - Duration::from_secs(1)).await;
        }
    });
    let begun = begin(&mut near, PACE).await.unwrap().unwrap();
    let began = Instant::now();
    let read = finish(begun, &mut near).await;
    assert!(matches!(&read, Err(ReadError::Stream(error)) if TooSlow::is_in(error)), "{read:?}");
    assert!(began.elapsed() < PATIENCE + Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_had_to_wait_for_its_turn_is_not_given_up_for_that() {
    let (mut near, mut far) = tokio::io::duplex(4096);
    let frame = FrameHeader { body_bytes: 1, ..announced() };
    far.write_all(&frame.to_bytes()).await.unwrap();
    let mut begun = begin(&mut near, PACE).await.unwrap().unwrap().header(&mut near).await.unwrap();
    begun.after(sleep(PATIENCE * 10)).await;
    tokio::spawn(async move {
        sleep(PATIENCE / 2).await;
        far.write_all(&[9]).await.unwrap();
    });
    assert_eq!(begun.body(&mut near).await.unwrap(), [9]);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_taken_byte_by_byte_is_given_up() {
    let (mut near, mut far) = tokio::io::duplex(4096);
    tokio::spawn(async move {
        for _ in 0..1000 {
            sleep(PATIENCE - Duration::from_secs(1)).await;
            if !matches!(far.read(&mut [0]).await, Ok(1)) {
                return;
            }
        }
    });
    let began = Instant::now();
    let reply = vec![0; 1 << 20];
    let header = FrameHeader { body_bytes: 1 << 20, ..announced() };
    let written = write(&mut near, PACE, header, &reply).await;
    assert!(TooSlow::is_in(&written.unwrap_err()));
    assert!(began.elapsed() < PATIENCE + Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_slow_line_gets_the_time_that_its_bytes_take() {
    let (mut near, mut far) = tokio::io::duplex(4096);
    tokio::spawn(async move {
        far.write_all(&announced().to_bytes()).await.unwrap();
        for _ in 0..FRAME_BYTES_MAX / 4096 {
            sleep(Duration::from_millis(62)).await;
            far.write_all(&[1; 4096]).await.unwrap();
        }
    });
    let began = Instant::now();
    let begun = begin(&mut near, PACE).await.unwrap().unwrap();
    let (header, body) = finish(begun, &mut near).await.unwrap();
    assert_eq!((header, body.len()), (announced(), FRAME_BYTES_MAX));
    assert!(began.elapsed() > 2 * PATIENCE, "slower than the patience alone: {:?}", began.elapsed());
}
