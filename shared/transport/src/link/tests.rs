#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use arras_protocol::frame::HEADER_BYTES;
use std::pin::Pin;
use std::task::{Context, Poll};

fn pending(calls: &[u64]) -> (Pending, Vec<oneshot::Receiver<Result<Reply, ChannelError>>>) {
    let (mut waiting, mut replies) = (HashMap::new(), Vec::new());
    for call in calls {
        let (reply, replied) = oneshot::channel();
        waiting.insert(*call, Waiting { protocol: ProtocolId(3), reply });
        replies.push(replied);
    }
    let next = AtomicU64::new(calls.iter().max().map_or(1, |last| last + 1));
    (Pending { calls: Mutex::new(Calls::Open(waiting)), next }, replies)
}

fn header(call: u64, kind: FrameKind, protocol: u8) -> FrameHeader {
    FrameHeader { call, kind, protocol: ProtocolId(protocol), deadline_ms: 0, body_bytes: 0 }
}

#[test]
fn replies_find_their_calls_in_any_order() {
    let (pending, mut replies) = pending(&[1, 2]);
    pending.deliver(header(2, FrameKind::Refusal, 3), vec![2]).unwrap();
    pending.deliver(header(1, FrameKind::Response, 3), vec![1]).unwrap();
    let second = replies.pop().unwrap().blocking_recv().unwrap().unwrap();
    let first = replies.pop().unwrap().blocking_recv().unwrap().unwrap();
    assert_eq!((first, second), ((FrameKind::Response, vec![1]), (FrameKind::Refusal, vec![2])));
}

#[test]
fn a_late_reply_is_dropped_and_an_invented_one_breaks_the_connection() {
    let (pending, replies) = pending(&[1, 2]);
    drop(Registered { pending: &pending, call: 1 });
    assert!(!pending.is_waited_for(1) && pending.is_waited_for(2));
    pending.deliver(header(1, FrameKind::Response, 3), vec![]).unwrap();
    assert!(pending.deliver(header(3, FrameKind::Response, 3), vec![]).is_err());
    assert!(pending.deliver(header(0, FrameKind::Response, 3), vec![]).is_err());
    assert!(pending.deliver(header(2, FrameKind::Request, 3), vec![]).is_err());
    drop(replies);
}

#[test]
fn a_reply_of_another_protocol_breaks_the_connection() {
    let (pending, mut replies) = pending(&[1]);
    assert!(pending.deliver(header(1, FrameKind::Response, 4), vec![]).is_err());
    let outcome = replies.pop().unwrap().blocking_recv().unwrap();
    assert!(matches!(outcome, Err(ChannelError::Malformed(_))));
}

#[test]
fn closing_fails_every_call_in_flight() {
    let (pending, replies) = pending(&[1, 2, 3]);
    pending.close("cut".into());
    for replied in replies {
        let outcome = replied.blocking_recv().unwrap();
        assert!(matches!(outcome, Err(ChannelError::Lost(why)) if why == "cut"));
    }
    assert_eq!(pending.why_closed(), "cut");
}

/// What a peer was written, a string for each write.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<Vec<u8>>>>);

impl AsyncWrite for Written {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().unwrap().push(bytes.to_vec());
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A request that comes while the writer is about to write another goes out with it.
#[tokio::test(flavor = "current_thread")]
async fn requests_that_wait_share_a_write() {
    let (pending, _replies) = pending(&[1, 2]);
    let (outgoing, queue) = mpsc::channel(QUEUE);
    let written = Written::default();
    let writer = tokio::spawn(write_requests(written.clone(), queue, Arc::new(pending)));
    let request = |call| Outgoing {
        call,
        protocol: ProtocolId(3),
        body: vec![9; 5],
        until: Instant::now() + std::time::Duration::from_secs(60),
        _room: None,
    };
    // The writer waits for something to write.
    yield_now().await;
    let (first, second) = (request(1), request(2));
    let asking = tokio::spawn(async move {
        assert!(outgoing.send(first).await.is_ok());
        // Behind the writer, which is to run by now.
        tokio::spawn(async move { assert!(outgoing.send(second).await.is_ok()) }).await.unwrap();
    });
    asking.await.unwrap();
    writer.await.unwrap().unwrap();
    let lengths: Vec<usize> = written.0.lock().unwrap().iter().map(Vec::len).collect();
    assert_eq!(lengths, [2 * (HEADER_BYTES + 5)]);
}
