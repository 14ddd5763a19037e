#![allow(clippy::unwrap_used)]

use super::*;
use arras_protocol::frame::HEADER_BYTES;
use arras_protocol::hello::{Hello, Request};
use arras_protocol::limits::PROTOCOL_VERSION;
use arras_storage::Memory;
use std::time::{Duration, Instant};

fn link() -> Link {
    Link::Direct(Arc::new(Backend::open(Memory::new(), [7; 16]).unwrap()), ServerMeter::default())
}

fn hello(protocol_version: u16) -> Request {
    Request { protocol_version, purpose: arras_protocol::hello::Purpose::Observe }
}

#[tokio::test]
async fn calls_are_counted_as_they_are_encoded() {
    let channel = Counting::new(link());
    let response = Channel::<Hello>::call(&channel, hello(PROTOCOL_VERSION)).await.unwrap();
    let traffic = channel.tally().traffic();
    assert_eq!((traffic.messages, traffic.rounds), (2, 1));
    let sent = HEADER_BYTES + codec::encode(&hello(PROTOCOL_VERSION)).len();
    assert_eq!(traffic.sent_bytes, sent as u64);
    assert_eq!(traffic.received_bytes, (HEADER_BYTES + codec::encode(&response).len()) as u64);
    assert_eq!(traffic.overhead_bytes(), traffic.sent_bytes + traffic.received_bytes);
}

#[tokio::test]
async fn a_refusal_is_a_message() {
    let channel = Counting::new(link());
    Channel::<Hello>::call(&channel, hello(PROTOCOL_VERSION + 1)).await.unwrap_err();
    let traffic = channel.tally().traffic();
    assert_eq!((traffic.messages, traffic.rounds), (2, 1));
    assert!(traffic.received_bytes > HEADER_BYTES as u64);
}

#[tokio::test]
async fn calls_under_way_together_are_one_round() {
    let channel = Counting::new(Delaying::new(link(), Duration::from_millis(5)));
    let began = Instant::now();
    let call = || Channel::<Hello>::call(&channel, hello(PROTOCOL_VERSION));
    let (one, other) = tokio::join!(call(), call());
    assert_eq!(one.unwrap(), other.unwrap());
    call().await.unwrap();
    assert!(began.elapsed() >= Duration::from_millis(10));
    let traffic = channel.tally().traffic();
    assert_eq!((traffic.messages, traffic.rounds), (6, 2));
}
