//! The parts of a session's task. Each is polled when it was woken itself, not when another was: there are two for what comes and
//! some for what hardly ever comes, and a message of one side is no business of the others.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// A part of a task.
pub(super) type Part<'a, T> = Pin<&'a mut (dyn Future<Output = T> + Send + 'a)>;

/// Which parts of a task are to be polled.
struct Woken {
    /// A bit for each.
    parts: AtomicU8,
    /// What wakes the task.
    task: Mutex<Waker>,
}

/// What wakes one of them.
struct PartWaker {
    woken: Arc<Woken>,
    bit: u8,
}

impl Wake for PartWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let before = self.woken.parts.fetch_or(self.bit, Ordering::AcqRel);
        // Else the task was woken, by this or another, and has not looked since.
        if before == 0 {
            self.woken.task.lock().unwrap_or_else(PoisonError::into_inner).wake_by_ref();
        }
    }
}

/// Runs the parts, eight at most, until one is done; of several at a time the first in their order.
pub(super) async fn first_of<const N: usize, T>(mut parts: [Part<'_, T>; N]) -> T {
    const { assert!(N <= 8) };
    let woken = Arc::new(Woken { parts: AtomicU8::new(u8::MAX), task: Mutex::new(Waker::noop().clone()) });
    let wakers: [Waker; N] = std::array::from_fn(|place| {
        Waker::from(Arc::new(PartWaker { woken: Arc::clone(&woken), bit: 1 << place }))
    });
    poll_fn(move |context| {
        woken.task.lock().unwrap_or_else(PoisonError::into_inner).clone_from(context.waker());
        let bits = woken.parts.swap(0, Ordering::AcqRel);
        for (place, (part, waker)) in parts.iter_mut().zip(&wakers).enumerate() {
            if bits & (1 << place) == 0 {
                continue;
            }
            let done = part.as_mut().poll(&mut Context::from_waker(waker));
            if done.is_ready() {
                return done;
            }
        }
        Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::sync::atomic::AtomicUsize;
    use tokio::sync::Notify;

    /// Comes to an end at the second word; counts how often it is polled.
    async fn heard_twice(word: &Notify, polls: &AtomicUsize) -> u8 {
        let mut heard = pin!(async {
            word.notified().await;
            word.notified().await;
            1
        });
        poll_fn(|context| {
            polls.fetch_add(1, Ordering::Relaxed);
            heard.as_mut().poll(context)
        })
        .await
    }

    #[tokio::test]
    async fn what_is_not_woken_is_not_polled() {
        let words = [const { Notify::const_new() }; 2];
        let polls = [const { AtomicUsize::new(0) }; 2];
        let counts = || polls.each_ref().map(|polls| polls.load(Ordering::Relaxed));
        let (first, second) =
            (pin!(heard_twice(&words[0], &polls[0])), pin!(heard_twice(&words[1], &polls[1])));
        let mut all = pin!(first_of([first as Part<'_, u8>, second]));
        let mut look = || all.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(look().is_pending() && counts() == [1, 1]);
        assert!(look().is_pending() && counts() == [1, 1], "nobody was woken");
        words[1].notify_one();
        assert!(look().is_pending() && counts() == [1, 2]);
        words[0].notify_one();
        assert!(look().is_pending() && counts() == [2, 2]);
        words[1].notify_one();
        assert!(look().is_ready() && counts() == [2, 3]);
    }

    #[tokio::test]
    async fn a_part_wakes_the_task_and_the_first_that_is_done_is_taken() {
        let word = Arc::new(Notify::new());
        let told = Arc::clone(&word);
        tokio::spawn(async move { told.notify_waiters() });
        let silent = pin!(std::future::pending());
        let one = |number| {
            let word = &word;
            async move {
                word.notified().await;
                number
            }
        };
        let (first, second) = (pin!(one(1)), pin!(one(2)));
        assert_eq!(first_of([silent as Part<'_, i32>, first, second]).await, 1);
    }
}
