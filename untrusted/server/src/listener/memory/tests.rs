#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use super::*;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

/// What a future comes to, if it is done; looked at once.
fn done<F: Future>(future: Pin<&mut F>) -> Option<F::Output> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

#[test]
fn room_is_granted_in_turn_and_comes_back_also_from_who_has_gone() {
    let half = Half::new(100);
    let first = done(pin!(half.take(0, 60))).unwrap();
    let (mut large, mut gone) = (Box::pin(half.take(0, 80)), Box::pin(half.take(0, 10)));
    let mut small = pin!(half.take(0, 10));
    assert!(done(large.as_mut()).is_none(), "there are 40");
    assert!(done(gone.as_mut()).is_none() && done(small.as_mut()).is_none(), "and it came first");
    drop(gone);
    drop(first);
    let large = done(large.as_mut()).unwrap();
    let small = done(small.as_mut()).unwrap();
    assert_eq!(half.state().held, 90);
    // Granted, and gone before it looked.
    let mut late = Box::pin(half.take(0, 50));
    assert!(done(late.as_mut()).is_none());
    drop(large);
    assert_eq!(half.state().held, 60);
    drop(late);
    assert_eq!(half.state().held, 10);
    drop(small);
    let state = half.state();
    assert_eq!((state.held, state.peak, state.waiting.len()), (0, 90, 0));
}

#[test]
fn who_gives_up_its_turn_lets_the_next_one_have_it() {
    let half = Half::new(100);
    let _first = done(pin!(half.take(0, 60))).unwrap();
    let mut large = Box::pin(half.take(0, 80));
    let mut small = pin!(half.take(0, 10));
    assert!(done(large.as_mut()).is_none() && done(small.as_mut()).is_none());
    drop(large);
    assert!(done(small.as_mut()).is_some());
}

#[test]
fn what_came_to_more_is_counted_and_holds_the_next_up() {
    let half = Half::new(100);
    let mut reply = done(pin!(half.take(0, 30))).unwrap();
    reply.resize(200);
    let (mut next, mut nothing) = (pin!(half.take(0, 1)), pin!(half.take(0, 0)));
    assert!(done(next.as_mut()).is_none() && done(nothing.as_mut()).is_none());
    reply.resize(99);
    assert!(done(next.as_mut()).is_some() && done(nothing.as_mut()).is_some());
    drop(reply);
}

#[test]
fn who_asks_for_more_than_there_is_has_it_alone() {
    let half = Half::new(100);
    let small = done(pin!(half.take(0, 1))).unwrap();
    let (mut huge, mut after) = (pin!(half.take(0, 1000)), pin!(half.take(0, 1)));
    assert!(done(huge.as_mut()).is_none() && done(after.as_mut()).is_none());
    drop(small);
    let huge = done(huge.as_mut()).unwrap();
    assert!(done(after.as_mut()).is_none());
    drop(huge);
    assert!(done(after.as_mut()).is_some());
}

#[test]
fn those_who_have_some_and_wait_for_more_have_it_one_after_the_other() {
    let half = Half::new(100);
    let mut rooms: Vec<Room> = (0..5).map(|_| done(pin!(half.take(0, 10))).unwrap()).collect();
    let other = rooms.pop().unwrap();
    let mut growing: Vec<_> = rooms.iter_mut().map(|room| Box::pin(room.grow(200))).collect();
    assert!(growing.iter_mut().all(|room| done(room.as_mut()).is_none()), "somebody is at work");
    drop(other);
    assert!(done(growing[0].as_mut()).is_some(), "the others only wait, like this one did");
    assert!(growing[1..].iter_mut().all(|room| done(room.as_mut()).is_none()));
    drop(growing);
    assert_eq!(half.state().held, 240);
    drop(rooms);
    assert_eq!(half.state().held, 0);
}

#[test]
fn the_last_at_work_to_wait_for_more_keeps_nobody_waiting() {
    let half = Half::new(100);
    let (mut one, mut two) = (done(pin!(half.take(0, 10))).unwrap(), done(pin!(half.take(0, 10))).unwrap());
    let (mut first, mut second) = (pin!(one.grow(200)), pin!(two.grow(200)));
    assert!(done(first.as_mut()).is_none(), "the other is at work");
    assert!(done(second.as_mut()).is_none());
    assert!(done(first.as_mut()).is_some(), "now it waits as well");
}

#[test]
fn as_many_replies_can_be_built_as_are_worked_on() {
    for workers in [1, 8, 512, 1 << 30] {
        let memory = Memory::new(256 << 20, workers);
        let rooms: Vec<Room> = (0..workers.min(600)).map(|_| done(pin!(memory.reply())).unwrap()).collect();
        drop(rooms);
        assert!(memory.peaks().1 <= 128 << 20);
    }
}
