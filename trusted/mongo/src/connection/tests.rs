#![allow(clippy::unwrap_used)]

use super::*;
use crate::roster::Roster;
use crate::wire::MESSAGE_BYTES_MAX;
use arras_transport::pace::TooSlow;
use tokio::io::{AsyncWriteExt, DuplexStream};
use tokio::time::sleep;

const IDLE: Duration = Duration::from_secs(3600);
/// Too many for what a connection may hold uncounted.
const COUNTED_BYTES: usize = 100 * 1024;

/// A message of so many bytes, all of it but the header zeros.
fn message(bytes: usize) -> Vec<u8> {
    let mut message = vec![0; bytes];
    message[..4].copy_from_slice(&i32::try_from(bytes).unwrap().to_le_bytes());
    message
}

/// Announces the largest message there is, and sends a byte of it now and then for as long as it is listened to, hours at
/// most.
async fn trickle(mut stream: DuplexStream) {
    if stream.write_all(&message(MESSAGE_BYTES_MAX)[..HEADER_BYTES]).await.is_err() {
        return;
    }
    for _ in 0..1000 {
        if stream.write_all(&[0]).await.is_err() {
            return;
        }
        sleep(Duration::from_secs(29)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn those_who_trickle_do_not_keep_the_memory_from_others() {
    // Room for two of the largest messages.
    let (memory, roster) = (Memory::new(0), Roster::new(9));
    let places: Vec<Place<'_>> = (0..3).map(|number| roster.admit(number).unwrap()).collect();
    let slow = |place| {
        let (mut near, far) = tokio::io::duplex(4096);
        tokio::spawn(trickle(far));
        let memory = &memory;
        async move {
            let read = read_whole((memory, place), IDLE, &mut near).await;
            assert!(matches!(&read, Err(ConnectionFailure::Io(error)) if TooSlow::is_in(error)), "{read:?}");
        }
    };
    let other = async {
        // The slow ones hold it all by now.
        sleep(Duration::from_secs(1)).await;
        let whole = message(COUNTED_BYTES);
        let began = tokio::time::Instant::now();
        let read = read_whole((&memory, &places[2]), IDLE, &mut whole.as_slice()).await.unwrap();
        assert_eq!(read.unwrap().0, whole);
        began.elapsed()
    };
    let ((), (), waited) = tokio::join!(slow(&places[0]), slow(&places[1]), other);
    assert!(waited < Duration::from_secs(60), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn who_is_sending_does_not_give_way_to_a_newcomer_before_who_is_not() {
    let (memory, roster) = (Memory::new(0), Roster::new(2));
    let (sender, idle) = (roster.admit(1).unwrap(), roster.admit(2).unwrap());
    for place in [&sender, &idle] {
        assert!(place.work());
        place.wait();
    }
    let (mut near, mut far) = tokio::io::duplex(4096);
    let upload = async {
        let whole = message(COUNTED_BYTES);
        far.write_all(&whole[..COUNTED_BYTES / 2]).await.unwrap();
        let newcomer = roster.admit(3).unwrap();
        far.write_all(&whole[COUNTED_BYTES / 2..]).await.unwrap();
        newcomer
    };
    let (read, _newcomer) = tokio::join!(read_whole((&memory, &sender), IDLE, &mut near), upload);
    assert!(read.unwrap().is_some());
    assert!(sender.work(), "it has been sending all the time");
    assert!(!idle.work());
}

/// Who connects again whenever it is thrown out, and each time announces the largest message and sends what is read before any
/// of it counts.
async fn announce(memory: &'static Memory, place: &'static Place<'static>) {
    loop {
        let (mut near, mut far) = tokio::io::duplex(4096);
        let sent = async {
            far.write_all(&message(MESSAGE_BYTES_MAX)[..UNCOUNTED_BYTES + 1000]).await.ok();
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = read_whole((memory, place), IDLE, &mut near) => {}
            () = sent => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_message_does_not_come_after_all_who_only_announced_one() {
    let memory: &Memory = Box::leak(Box::new(Memory::new(0)));
    let roster: &Roster = Box::leak(Box::new(Roster::new(101)));
    let place = |number| -> &'static Place<'static> { Box::leak(Box::new(roster.admit(number).unwrap())) };
    for number in 0..100 {
        tokio::spawn(announce(memory, place(number)));
    }
    sleep(Duration::from_secs(5)).await;
    let whole = message(5 << 20);
    let began = tokio::time::Instant::now();
    let read = read_whole((memory, place(100)), IDLE, &mut whole.as_slice()).await.unwrap();
    assert_eq!(read.unwrap().0, whole);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}

/// A stream that says how often it was read.
struct Counted {
    bytes: &'static [u8],
    reads: usize,
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<io::Result<()>> {
        self.reads += 1;
        let (now, later) = self.bytes.split_at(self.bytes.len().min(buffer.remaining()));
        buffer.put_slice(now);
        self.bytes = later;
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::test(start_paused = true)]
async fn a_small_message_is_read_at_once_and_what_follows_it_is_kept() {
    let (memory, roster) = (Memory::new(0), Roster::new(1));
    let place = roster.admit(1).unwrap();
    let sizes = [100, 17, 3000, HEADER_BYTES, 80];
    let bytes: Vec<u8> = sizes.iter().flat_map(|size| message(*size)).collect();
    let mut stream = Counted { bytes: bytes.leak(), reads: 0 };
    let mut ahead = Vec::new();
    for (size, reads) in sizes.into_iter().zip([1, 1, 2, 3, 3]) {
        let read = read_message((&memory, &place), IDLE, &mut ahead, &mut stream).await.unwrap();
        assert_eq!(read.unwrap().0, message(size));
        assert_eq!(stream.reads, reads, "after {size}");
    }
    let end = read_message((&memory, &place), IDLE, &mut ahead, &mut stream).await;
    assert!(end.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn nothing_may_be_sent_for_as_long_as_a_connection_may_be_idle() {
    let (memory, roster) = (Memory::new(0), Roster::new(1));
    let place = roster.admit(1).unwrap();
    let (mut near, mut far) = tokio::io::duplex(4096);
    let whole = message(HEADER_BYTES);
    let send = async {
        sleep(IDLE - Duration::from_secs(1)).await;
        far.write_all(&whole).await.unwrap();
    };
    let (read, ()) = tokio::join!(read_whole((&memory, &place), IDLE, &mut near), send);
    assert!(read.unwrap().is_some());
    let read = read_whole((&memory, &place), IDLE, &mut near).await;
    assert!(matches!(read, Err(ConnectionFailure::Idle(_))), "{read:?}");
}
