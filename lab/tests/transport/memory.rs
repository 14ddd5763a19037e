//! What all connections together may have the server hold.

use crate::world::*;
use arras_protocol::Channel;
use arras_protocol::frame::FrameKind;
use arras_proxy::connection::Connection;
use arras_server::listener::Limits;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;

const CONNECTIONS: u64 = 32;
const REQUESTS: u64 = 32;
const MIB: usize = 1 << 20;
const BUDGET_BYTES: usize = 64 * MIB;

fn limits() -> Limits {
    Limits { memory_bytes: BUDGET_BYTES, workers: 4, stall: AMPLE, handshake: AMPLE, ..Limits::default() }
}

fn within_budget(served: &Served) {
    let (requests, replies) = served.memory.peaks();
    assert!(requests <= BUDGET_BYTES / 2 && replies <= BUDGET_BYTES / 2, "{requests} and {replies} bytes");
}

/// Every connection asks for more than it ever reads, with large messages both ways.
#[tokio::test(flavor = "multi_thread")]
async fn connections_that_send_and_do_not_read_hold_no_more_than_the_budget_and_others_get_their_turn() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, limits()).await;
    let mut streams = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = world.raw(served.address).await;
        stream.write_all(&hello_frame()).await.unwrap();
        read_frame(&mut stream).await.unwrap();
        streams.push(stream);
    }
    let mut crowd = JoinSet::new();
    for mut stream in streams {
        crowd.spawn(async move {
            for call in 1..=REQUESTS {
                let large = Ask { payload: vec![1; MIB].into(), reply_bytes: MIB, ..ask(call) };
                stream.write_all(&script_frame(call, &large)).await.unwrap();
            }
            stream.flush().await.unwrap();
            std::future::pending::<()>().await;
        });
    }
    // Far more is asked for than sockets and the budget hold: if there is one, all come to wait for it.
    let (all, crowded) = (CONNECTIONS * REQUESTS, usize::try_from(CONNECTIONS).unwrap());
    until(|| served.memory.waiting() >= crowded || handler.handled.load(Ordering::SeqCst) == all).await;
    within_budget(&served);
    let settings = world.settings(served.address);
    let late = tokio::spawn(async move {
        let connection = Connection::open(settings).await.unwrap();
        Channel::<Script>::call(&connection, Ask { reply_bytes: MIB, ..ask(1) }).await.unwrap().filler.len()
    });
    crowd.shutdown().await;
    assert_eq!(late.await.unwrap(), MIB);
    within_budget(&served);
}

/// The same crowd reads in the end: all are answered, whoever waited for whom.
#[tokio::test(flavor = "multi_thread")]
async fn all_that_waited_for_room_are_answered_in_the_end() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let budget = Limits { memory_bytes: 4 * MIB, in_flight_max: 4, ..limits() };
    let served = world.serve(&handler, budget).await;
    let mut crowd = JoinSet::new();
    for number in 0..CONNECTIONS {
        let mut stream = world.raw(served.address).await;
        stream.write_all(&hello_frame()).await.unwrap();
        read_frame(&mut stream).await.unwrap();
        let (mut reader, mut writer) = tokio::io::split(stream);
        crowd.spawn(async move {
            for call in 1..=8 {
                // Every eighth connection's are larger than the budget.
                let bytes = if number % 8 == 0 { 5 * MIB } else { 100_000 };
                let large = Ask { payload: vec![1; bytes].into(), reply_bytes: bytes, ..ask(call) };
                writer.write_all(&script_frame(call, &large)).await.unwrap();
            }
            writer.flush().await.unwrap();
            0
        });
        crowd.spawn(async move {
            let mut answered = 0;
            for _ in 1..=8 {
                let (header, _) = read_frame(&mut reader).await.unwrap();
                assert_eq!(header.kind, FrameKind::Response);
                answered += 1;
            }
            answered
        });
    }
    assert_eq!(crowd.join_all().await.iter().sum::<u64>(), CONNECTIONS * 8);
}

/// As a large write that comes in parts does while they are applied.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_held_beside_messages_is_part_of_the_budget_and_who_needs_it_all_has_it_alone() {
    const CALLS: usize = 8;
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits { workers: CALLS, ..limits() }).await;
    let mut connections = Vec::new();
    // Each on a connection of its own, opened before: behind a call that waits for room, nothing more is read.
    for _ in 0..CALLS {
        connections.push(world.connect(&served).await);
    }
    let mut calls = JoinSet::new();
    for (tag, connection) in (0..).zip(connections) {
        let holding = Ask { act: Act::WaitForGateHolding(BUDGET_BYTES), ..ask(tag) };
        calls.spawn(async move { Channel::<Script>::call(&connection, holding).await.map(drop) });
    }
    let at_work = || handler.waiting.load(Ordering::SeqCst);
    until(|| at_work() == CALLS || (at_work() == 1 && served.memory.waiting() == CALLS - 1)).await;
    let together = at_work();
    handler.open_gate();
    assert_eq!(together, 1, "each of them needs the whole of it");
    while let Some(answered) = calls.join_next().await {
        answered.unwrap().unwrap();
    }
    assert!(served.memory.peaks().0 < 2 * BUDGET_BYTES);
}
