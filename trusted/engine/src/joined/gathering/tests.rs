use super::*;
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;

const MOST: usize = 64;

/// True if it is over without waiting.
async fn is_over(mut gathering: Pin<&mut impl Future<Output = ()>>) -> bool {
    poll_fn(|context| Poll::Ready(gathering.as_mut().poll(context).is_ready())).await
}

#[tokio::test]
async fn a_writer_without_company_waits_for_nobody() {
    let gathering = Gathering::default();
    assert!(is_over(pin!(gathering.gather(MOST, || 1))).await);
    gathering.note_crowd(1);
    assert!(is_over(pin!(gathering.gather(MOST, || 1))).await);
    // As many as there were are there.
    gathering.note_crowd(3);
    assert!(is_over(pin!(gathering.gather(MOST, || 3))).await);
    assert!(is_over(pin!(gathering.gather(2, || 2))).await, "more than one joined write takes");
}

#[tokio::test]
async fn a_crowd_is_waited_for_and_no_longer_than_until_it_is_there() {
    let (gathering, waiting) = (Gathering::default(), Cell::new(1));
    gathering.note_crowd(3);
    let mut gather = pin!(gathering.gather(MOST, || waiting.get()));
    assert!(!is_over(gather.as_mut()).await);
    waiting.set(2);
    gathering.note_arrival(2);
    assert!(!is_over(gather.as_mut()).await, "one is missing");
    waiting.set(3);
    gathering.note_arrival(3);
    assert!(is_over(gather.as_mut()).await);
}

#[tokio::test]
async fn those_who_do_not_come_are_waited_for_less_and_less() {
    let gathering = Gathering::default();
    gathering.note_crowd(2);
    let mut waits = Vec::new();
    for number in 0..10_000_u32 {
        let mut gather = pin!(gathering.gather(MOST, || 1));
        if !is_over(gather.as_mut()).await {
            waits.push(number);
            gather.await;
        }
    }
    let apart: Vec<u32> = waits.windows(2).map(|pair| pair[1] - pair[0] - 1).collect();
    assert_eq!(apart[..8], [16, 32, 64, 128, 256, 512, 1024, 1024]);
}
