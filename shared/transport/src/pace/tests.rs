#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use super::*;
use std::cell::Cell;
use tokio::time::sleep;

const STALL: Duration = Duration::from_secs(30);
const PACE: Pace = Pace::AtLeast { stall: STALL, bytes_per_second: 64 * 1024 };
const MESSAGE_BYTES: usize = 8 << 20;
/// What a pipe between the two sides holds.
const PIPE_BYTES: usize = 4096;

/// Sends a byte and takes one, if there is one, again and again, until the other side is gone, or until it has been so
/// slow for hours.
async fn trickle(peer: impl AsyncRead + AsyncWrite, pause: Duration) {
    let (mut from, mut to) = tokio::io::split(peer);
    for _ in 0..1000 {
        sleep(pause).await;
        let mut byte = [0];
        let taken = timeout_at(Instant::now(), from.read(&mut byte)).await;
        if matches!(taken, Ok(Ok(0) | Err(_))) || to.write_all(&[1]).await.is_err() {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_message_that_trickles_is_given_up_hardly_later_than_one_that_stands_still() {
    let began = Instant::now();
    let (mut near, far) = tokio::io::duplex(PIPE_BYTES);
    tokio::spawn(trickle(far, Duration::from_secs(29)));
    let filled = PACE.begin().fill(&mut near, &mut Vec::new(), MESSAGE_BYTES, |_| ()).await;
    let error = filled.unwrap_err();
    assert!(TooSlow::is_in(&error) && error.to_string().contains(": 1 bytes"), "{error}");
    assert!(began.elapsed() < STALL + Duration::from_secs(1), "{:?}", began.elapsed());

    let began = Instant::now();
    let (mut near, far) = tokio::io::duplex(PIPE_BYTES);
    tokio::spawn(trickle(far, Duration::from_secs(29)));
    let sent = PACE.begin().write(&mut near, &vec![7; MESSAGE_BYTES], || ()).await;
    assert!(TooSlow::is_in(&sent.unwrap_err()));
    assert!(began.elapsed() < STALL + Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_slow_line_gets_the_time_that_its_bytes_take_and_its_progress_is_told() {
    let began = Instant::now();
    let (mut near, mut far) = tokio::io::duplex(PIPE_BYTES);
    tokio::spawn(async move {
        for _ in 0..MESSAGE_BYTES / PIPE_BYTES {
            sleep(Duration::from_millis(62)).await;
            far.write_all(&[3; PIPE_BYTES]).await.unwrap();
        }
    });
    let (mut buffer, told) = (Vec::new(), Cell::new(0));
    let progress = |_| told.set(told.get() + 1);
    PACE.begin().fill(&mut near, &mut buffer, MESSAGE_BYTES, progress).await.unwrap();
    assert_eq!(buffer.len(), MESSAGE_BYTES);
    assert!(told.get() >= MESSAGE_BYTES / PIPE_BYTES - 1, "{}", told.get());
    assert!(began.elapsed() > 2 * STALL, "slower than the patience alone: {:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn where_nothing_is_asked_a_message_takes_the_time_it_takes() {
    let (mut near, far) = tokio::io::duplex(PIPE_BYTES);
    tokio::spawn(trickle(far, STALL * 100));
    let mut buffer = Vec::new();
    Pace::Any.begin().fill(&mut near, &mut buffer, 10, |_| ()).await.unwrap();
    assert_eq!(buffer, [1; 10]);
}
