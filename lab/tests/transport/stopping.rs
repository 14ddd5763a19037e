//! Servers that stop, die, come back, or are others.

use crate::world::*;
use arras_protocol::{Channel, ChannelError, Refusal};
use arras_proxy::connection::{ConnectError, Connection, Settings};
use arras_server::listener::Limits;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

async fn call(connection: &Connection, ask: Ask) -> Result<Answer, ChannelError> {
    Channel::<Script>::call(connection, ask).await
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_in_flight_fail_at_once_when_the_server_dies_and_the_next_one_connects_again() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let limits = Limits { workers: 64, ..Limits::default() };
    let served = world.serve(&handler, limits).await;
    let address = served.address;
    let connection = world.connect(&served).await;
    let mut incarnation = connection.incarnation();
    assert_eq!(*incarnation.borrow_and_update(), 1);
    let mut calls = JoinSet::new();
    for tag in 0..20 {
        let connection = connection.clone();
        calls.spawn(async move { call(&connection, gated(tag)).await });
    }
    until(|| handler.waiting.load(Ordering::SeqCst) == 20).await;
    served.kill().await;
    while let Some(ended) = calls.join_next().await {
        let ended = ended.unwrap();
        assert!(matches!(ended, Err(ChannelError::Lost(_))), "{ended:?}");
    }
    handler.open_gate();
    assert!(matches!(call(&connection, ask(1)).await, Err(ChannelError::Lost(_))), "nobody listens");

    let second = Arc::new(Scripted::new(2));
    let _served = world.serve_at(address, &second, Limits::default()).await;
    assert_eq!(call(&connection, ask(2)).await.unwrap().tag, 2);
    assert!(incarnation.has_changed().unwrap());
    assert_eq!(*incarnation.borrow_and_update(), 2);
    assert_eq!(connection.server().incarnation, 2);
    assert_eq!(handler.handled.load(Ordering::SeqCst) + second.handled.load(Ordering::SeqCst), 21);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_while_nothing_is_in_flight_goes_unnoticed_by_the_next_call() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let address = served.address;
    let connection = world.connect(&served).await;
    call(&connection, ask(1)).await.unwrap();
    served.kill().await;
    let _served = world.serve_at(address, &handler, Limits::default()).await;
    // Until the proxy has seen the old connection end, a call may be lost with it.
    while let Err(error) = call(&connection, ask(2)).await {
        assert!(matches!(error, ChannelError::Lost(_)), "{error}");
    }
    assert!(!connection.incarnation().has_changed().unwrap(), "the incarnation is the same");
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_from_after_a_setback_of_the_store_is_answered_on_a_connection_from_before() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let connection = world.connect(&served).await;
    let mut incarnation = connection.incarnation();
    incarnation.borrow_and_update();
    call(&connection, ask(1)).await.unwrap();
    handler.setbacks.fetch_add(1, Ordering::SeqCst);
    let lost = call(&connection, ask(2)).await;
    assert!(matches!(lost, Err(ChannelError::Lost(_))), "{lost:?}");
    assert_eq!(call(&connection, ask(3)).await.unwrap().tag, 3);
    assert!(incarnation.has_changed().unwrap(), "the proxy was not told");
    assert_eq!(connection.server().setbacks, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_answers_what_is_under_way_and_refuses_the_rest() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let mut served = world.serve(&handler, Limits { stop_grace: AMPLE, ..Limits::default() }).await;
    let connection = world.connect(&served).await;
    let idle = world.connect(&served).await;
    let under_way = tokio::spawn({
        let connection = connection.clone();
        async move { call(&connection, gated(1)).await }
    });
    until(|| handler.waiting.load(Ordering::SeqCst) == 1).await;
    served.stop();
    // Answered until the stop has reached the connection, refused from then on.
    loop {
        match call(&connection, ask(2)).await {
            Ok(_) => {}
            Err(ChannelError::Refused(Refusal::Stopping)) => break,
            Err(other) => panic!("{other}"),
        }
    }
    assert!(!served.task.is_finished());
    handler.open_gate();
    assert_eq!(under_way.await.unwrap().unwrap().tag, 1);
    served.task.await.unwrap();
    for connection in [connection, idle] {
        assert!(matches!(call(&connection, ask(3)).await, Err(ChannelError::Lost(_))));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_does_not_wait_for_ever() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let limits = Limits { stop_grace: Duration::from_millis(50), ..Limits::default() };
    let mut served = world.serve(&handler, limits).await;
    let connection = world.connect(&served).await;
    let under_way = tokio::spawn(async move { call(&connection, gated(1)).await });
    until(|| handler.waiting.load(Ordering::SeqCst) == 1).await;
    served.stop();
    served.task.await.unwrap();
    assert!(matches!(under_way.await.unwrap(), Err(ChannelError::Lost(_))));
    handler.open_gate();
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_wait_for_the_same_attempt_share_its_failure() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let address = served.address;
    let connection = world.connect(&served).await;
    served.kill().await;
    while call(&connection, ask(0)).await.is_ok() {}
    // Something takes connections there and drops them.
    let listener = TcpListener::bind(address).await.unwrap();
    let attempts = Arc::new(AtomicUsize::new(0));
    let counting = tokio::spawn({
        let attempts = Arc::clone(&attempts);
        async move {
            loop {
                let taken = listener.accept().await.unwrap();
                attempts.fetch_add(1, Ordering::SeqCst);
                drop(taken);
            }
        }
    });
    let mut calls = JoinSet::new();
    for tag in 0..100 {
        let connection = connection.clone();
        calls.spawn(async move { call(&connection, ask(tag)).await });
    }
    while let Some(ended) = calls.join_next().await {
        let ended = ended.unwrap();
        assert!(matches!(ended, Err(ChannelError::Lost(_))), "{ended:?}");
    }
    let attempts = attempts.load(Ordering::SeqCst);
    assert!((1..50).contains(&attempts), "{attempts} attempts for 100 calls");
    counting.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_database_is_refused() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits::default()).await;
    let expecting = Settings { database: Some([8; 16]), ..world.settings(served.address) };
    let refused = Connection::open(expecting).await;
    assert!(matches!(refused, Err(ConnectError::OtherDatabase { .. })), "{refused:?}");

    let connection = world.connect(&served).await;
    let address = served.address;
    served.kill().await;
    let other = Arc::new(Scripted { database: [9; 16], ..Scripted::new(2) });
    let _served = world.serve_at(address, &other, Limits::default()).await;
    let why = loop {
        match call(&connection, ask(1)).await {
            Err(ChannelError::Lost(why)) if why.contains("another database") => break why,
            Err(ChannelError::Lost(_)) => {}
            other => panic!("{other:?}"),
        }
    };
    assert!(why.contains("--data-dir"), "{why}");
    assert_eq!(other.handled.load(Ordering::SeqCst), 0);
    assert!(!connection.incarnation().has_changed().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_version_is_refused_by_name() {
    let world = World::new();
    let handler = Arc::new(Scripted { version: 999, ..Scripted::new(1) });
    let served = world.serve(&handler, Limits::default()).await;
    let refused = Connection::open(world.settings(served.address)).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Version { theirs: 999, .. }), "{refused}");
    assert!(refused.to_string().contains("999"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_over_the_limit_takes_the_place_of_an_idle_one_and_of_no_other() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let served = world.serve(&handler, Limits { connections_max: 1, ..Limits::default() }).await;
    let mut idle = world.raw(served.address).await;
    idle.write_all(&hello_frame()).await.unwrap();
    read_frame(&mut idle).await.unwrap();
    let first = world.connect(&served).await;
    assert!(read_frame(&mut idle).await.is_err(), "the idle one was closed");
    let under_way = tokio::spawn(async move { (call(&first, gated(1)).await, first) });
    until(|| handler.waiting.load(Ordering::SeqCst) == 1).await;
    let second = Connection::open(world.settings(served.address)).await;
    assert!(matches!(second, Err(ConnectError::Interrupted { .. })), "{second:?}");
    handler.open_gate();
    let (answered, _first) = under_way.await.unwrap();
    answered.unwrap();
    while Connection::open(world.settings(served.address)).await.is_err() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_waits_for_a_server_that_is_not_there_yet_and_for_no_other_reason() {
    let (world, handler) = (World::new(), Arc::new(Scripted::new(1)));
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let waiting = tokio::spawn(Connection::open_when_there(world.settings(free)));
    logged_about(free, "waiting for the server").await;
    let _served = world.serve_at(free, &handler, Limits::default()).await;
    let connection = waiting.await.unwrap().unwrap();
    call(&connection, ask(1)).await.unwrap();
    // A certificate of another deployment does not mend itself.
    let stranger = World::new();
    let refused = Connection::open_when_there(stranger.settings(free)).await;
    assert!(matches!(refused, Err(ConnectError::Tls { .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_listens_the_error_says_so() {
    let world = World::new();
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let error = Connection::open(world.settings(free)).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&free.to_string()), "{error}");

    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut settings = world.settings(silent.local_addr().unwrap());
    settings.connect = Duration::from_millis(50);
    let error = Connection::open(settings).await.unwrap_err();
    assert!(matches!(error, ConnectError::Silent { limit_ms: 50, .. }), "{error}");
}
