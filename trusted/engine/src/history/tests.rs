#![allow(clippy::unwrap_used)]

use super::*;

fn operation(sequence: u64) -> OperationId {
    OperationId { epoch: 3, sequence }
}

fn server(newest: u64, commits: u64) -> hello::Response {
    hello::Response {
        protocol_version: 1,
        database: [7; 16],
        incarnation: 1,
        engine: "scripted".into(),
        newest: Some(operation(newest)),
        commits,
        setbacks: 0,
        generation: 5,
    }
}

fn taken_up() -> History {
    let history = History::new(false);
    history.take_up(Some([7; 16]), Some(operation(9)), 10, &server(9, 10)).unwrap();
    history
}

#[test]
fn a_server_with_all_that_was_acknowledged_goes_on() {
    let history = taken_up();
    history.recorded(operation(10));
    assert_eq!(history.greeted(&server(9, 10)), Ok(()));
    // Applied, and its acknowledgement lost.
    assert_eq!(history.greeted(&server(10, 11)), Ok(()));
    assert_eq!(history.halted(), None);
}

#[test]
fn a_server_that_lacks_one_acknowledged_write_halts_the_proxy_for_good() {
    let history = taken_up();
    history.recorded(operation(10));
    history.recorded(operation(11));
    // Of two under way at a time, the later came first: the newest of all is known there, the other is not.
    assert_eq!(history.acknowledged(12), 12);
    assert_eq!(history.acknowledged(11), 12);
    assert_eq!(history.greeted(&server(11, 11)), Err(Halt::ServerBehind));
    assert_eq!(history.greeted(&server(11, 12)), Ok(()), "compared, though it does not go on");
    assert_eq!(history.halted(), Some(Halt::ServerBehind));
}

#[test]
fn a_server_with_writes_of_another_proxy_halts() {
    assert_eq!(taken_up().greeted(&server(10, 11)), Err(Halt::ProxyBehind));
    let other = hello::Response { database: [8; 16], ..server(9, 10) };
    assert_eq!(taken_up().greeted(&other), Err(Halt::OtherDatabase));
    let history = History::new(false);
    assert_eq!(history.greeted(&server(9, 10)), Ok(()), "nothing to compare yet");
    let behind = history.take_up(Some([7; 16]), Some(operation(8)), 9, &server(9, 10));
    assert_eq!(behind, Err(Halt::ProxyBehind));
}

#[test]
fn the_lease_is_taken_over_once_and_then_only_kept() {
    let history = History::new(true);
    let Purpose::Hold { instance, generation: None, take_over: true } = history.purpose() else {
        panic!("{:?}", history.purpose());
    };
    history.greeted(&server(9, 10)).unwrap();
    let kept = Purpose::Hold { instance, generation: Some(5), take_over: false };
    assert_eq!(history.purpose(), kept);
    assert_eq!(history.refused(&Refusal::Fenced), Some(Halt::Fenced));
    assert_eq!(history.refused(&Refusal::SetBack), Some(Halt::Fenced), "the first reason stays");
    assert_eq!(History::observer().purpose(), Purpose::Observe);
}
