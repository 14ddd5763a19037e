//! Calls that go well, and their bounds.

use crate::world::*;
use arras_protocol::limits::{FRAME_BYTES_MAX, IN_FLIGHT_MAX};
use arras_protocol::{Channel, ChannelError, Refusal};
use arras_proxy::connection::Connection;
use arras_server::listener::Limits;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

async fn call(connection: &Connection, ask: Ask) -> Result<Answer, ChannelError> {
    Channel::<Script>::call(connection, ask).await
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_interleave_and_each_gets_its_own_reply() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let connection = world.connect(&served).await;
    let mut calls = JoinSet::new();
    for tag in 0..2_000u64 {
        let connection = connection.clone();
        calls.spawn(async move {
            let (sent, wanted) = ((tag * 7_919) as usize % 30_000, (tag * 104_729) as usize % 30_000);
            let ask = Ask { payload: vec![1; sent].into(), reply_bytes: wanted, ..ask(tag) };
            let answer = call(&connection, ask).await.unwrap();
            assert_eq!((answer.tag, answer.received_bytes, answer.filler.len()), (tag, sent, wanted));
        });
    }
    while let Some(done) = calls.join_next().await {
        done.unwrap();
    }
    assert_eq!(handler.handled.load(Ordering::SeqCst), 2_000);
    assert_eq!(handler.greetings.load(Ordering::SeqCst), 1, "one connection carried them all");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_call_holds_no_other_up() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let connection = world.connect(&served).await;
    let slow = tokio::spawn({
        let connection = connection.clone();
        async move { call(&connection, gated(1)).await }
    });
    until(|| handler.waiting.load(Ordering::SeqCst) == 1).await;
    assert_eq!(call(&connection, ask(2)).await.unwrap().tag, 2);
    assert!(!slow.is_finished());
    handler.open_gate();
    assert_eq!(slow.await.unwrap().unwrap().tag, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_calls_are_in_flight_than_agreed() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let limits = Limits { workers: IN_FLIGHT_MAX * 2, ..Limits::default() };
    let served = world.serve(&handler, limits).await;
    let connection = world.connect(&served).await;
    let mut calls = JoinSet::new();
    for tag in 0..(IN_FLIGHT_MAX as u64 + 20) {
        let connection = connection.clone();
        calls.spawn(async move { call(&connection, gated(tag)).await.map(|_| ()) });
    }
    until(|| handler.waiting.load(Ordering::SeqCst) == IN_FLIGHT_MAX).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(handler.waiting.load(Ordering::SeqCst), IN_FLIGHT_MAX);
    handler.open_gate();
    while let Some(done) = calls.join_next().await {
        done.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_ends_by_its_deadline_and_its_late_reply_is_dropped() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let connection = world.connect(&served).await;
    let hasty = connection.with_deadline(Duration::from_millis(50));
    let late = call(&hasty, gated(1)).await;
    assert!(matches!(late, Err(ChannelError::Deadline(50))), "{late:?}");
    handler.open_gate();
    for tag in 2..50 {
        assert_eq!(call(&connection, ask(tag)).await.unwrap().tag, tag);
    }
    assert_eq!(handler.greetings.load(Ordering::SeqCst), 1, "the connection was kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_drops_requests_whose_deadline_is_over() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits { workers: 1, ..Limits::default() }).await;
    let connection = world.connect(&served).await;
    let blocking = tokio::spawn({
        let connection = connection.clone();
        async move { call(&connection, gated(1)).await }
    });
    until(|| handler.waiting.load(Ordering::SeqCst) == 1).await;
    let hasty = connection.with_deadline(Duration::from_millis(20));
    assert!(matches!(call(&hasty, ask(2)).await, Err(ChannelError::Deadline(20))));
    tokio::time::sleep(Duration::from_millis(50)).await;
    handler.open_gate();
    blocking.await.unwrap().unwrap();
    call(&connection, ask(3)).await.unwrap();
    assert_eq!(handler.handled.load(Ordering::SeqCst), 2, "the second call was never begun");
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_and_panics_reach_the_caller_and_spare_the_connection() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let connection = world.connect(&served).await;
    let refused = call(&connection, Ask { act: Act::Refuse, ..ask(1) }).await;
    assert!(matches!(refused, Err(ChannelError::Refused(Refusal::Conflict { step: 3 }))), "{refused:?}");
    let panicked = call(&connection, Ask { act: Act::Panic, ..ask(2) }).await;
    assert!(matches!(panicked, Err(ChannelError::Refused(Refusal::Storage(_)))), "{panicked:?}");
    call(&connection, ask(3)).await.unwrap();
    assert_eq!(handler.greetings.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_up_to_the_limit_pass_and_larger_ones_do_not() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let connection = world.connect(&served).await;
    let large = FRAME_BYTES_MAX - 64;
    let answer =
        call(&connection, Ask { payload: vec![1; large].into(), reply_bytes: large, ..ask(1) }).await;
    let answer = answer.unwrap();
    assert_eq!((answer.received_bytes, answer.filler.len()), (large, large));

    let request = call(&connection, Ask { payload: vec![1; FRAME_BYTES_MAX].into(), ..ask(2) }).await;
    assert!(matches!(request, Err(ChannelError::TooLarge { .. })), "{request:?}");
    let reply = call(&connection, Ask { reply_bytes: FRAME_BYTES_MAX, ..ask(3) }).await;
    assert!(matches!(reply, Err(ChannelError::Refused(Refusal::Limit(_)))), "{reply:?}");
    call(&connection, ask(4)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_does_not_read_stops_its_own_requests_only() {
    const MIB: usize = 1024 * 1024;
    const REQUESTS: u64 = 200;
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let limits = Limits { in_flight_max: 8, held_bytes_max: 4 * MIB, ..Limits::default() };
    let served = world.serve(&handler, limits).await;
    let mut stream = world.raw(served.address).await;
    stream.write_all(&hello_frame()).await.unwrap();
    read_frame(&mut stream).await.unwrap();
    let (mut reader, mut writer) = tokio::io::split(stream);
    let writing = tokio::spawn(async move {
        for call in 1..=REQUESTS {
            writer.write_all(&script_frame(call, &Ask { reply_bytes: MIB, ..ask(call) })).await.unwrap();
            writer.flush().await.unwrap();
        }
        writer
    });
    // Others are served meanwhile.
    let connection = world.connect(&served).await;
    for tag in 1_000..1_100 {
        call(&connection, ask(tag)).await.unwrap();
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let handled = handler.handled.load(Ordering::SeqCst) - 100;
    // What is in flight, and what the sockets' buffers swallow.
    assert!(handled < 40, "{handled} replies of 1 MiB were made for a peer that reads none");

    let mut seen: Vec<u64> = Vec::new();
    for _ in 0..REQUESTS {
        seen.push(read_frame(&mut reader).await.unwrap().0.call);
    }
    writing.await.unwrap();
    seen.sort_unstable();
    assert_eq!(seen, (1..=REQUESTS).collect::<Vec<_>>(), "and in the end all are answered");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stalls_too_long_is_cut_off() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let limits =
        Limits { stall: Duration::from_millis(100), bytes_per_second: u64::MAX, ..Limits::default() };
    let served = world.serve(&handler, limits).await;
    let mut stream = world.raw(served.address).await;
    let peer = stream.get_ref().0.local_addr().unwrap();
    stream.write_all(&hello_frame()).await.unwrap();
    for call in 1..=20 {
        let wanted = Ask { reply_bytes: 4 * 1024 * 1024, ..ask(call) };
        stream.write_all(&script_frame(call, &wanted)).await.unwrap();
    }
    stream.flush().await.unwrap();
    logged_about(peer, "the peer is too slow within a message").await;
    logged_about(peer, "connection closed").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_nobody_waits_for_any_more_are_not_sent() {
    let world = World::new();
    let server = RawServer::new(&world).await;
    let connecting = Connection::open(world.settings(server.address));
    let (connection, mut stream) = tokio::join!(connecting, server.greeted());
    let hasty = connection.unwrap().with_deadline(Duration::from_millis(300));
    // The server reads nothing: the first few fill the sockets, the rest wait, and all give up.
    let mut calls = JoinSet::new();
    for tag in 0..100 {
        let hasty = hasty.clone();
        calls.spawn(
            async move { call(&hasty, Ask { payload: vec![1; 1024 * 1024].into(), ..ask(tag) }).await },
        );
    }
    while let Some(ended) = calls.join_next().await {
        assert!(matches!(ended.unwrap(), Err(ChannelError::Deadline(300))));
    }
    drop(hasty);
    let mut sent = 0;
    while read_frame(&mut stream).await.is_ok() {
        sent += 1;
    }
    assert!(sent < 50, "{sent} of 100 requests were sent after their callers had left");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_message_is_logged() {
    const CANARY: &str = "canary-7f3a9";
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let connection = world.connect(&served).await;
    for act in [Act::Answer, Act::Refuse, Act::Panic] {
        let _ = call(&connection, Ask { payload: CANARY.as_bytes().to_vec().into(), act, ..ask(1) }).await;
    }
    drop(connection);
    until(|| log().contains("connection closed")).await;
    assert!(log().contains("request answered") && !log().contains(CANARY));
    let bytes: Vec<String> = CANARY.bytes().map(|byte| byte.to_string()).collect();
    assert!(!log().contains(&bytes.join(", ")));
}
