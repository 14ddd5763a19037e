//! Work that keeps a processor busy, off the threads that serve connections and a slice at a time, so that nobody
//! waits longer for a processor than a few slices of others take.

use super::{aside, error};
use arras_service::store::Turn;
use arras_service::{Fault, ServiceError};
use std::sync::LazyLock;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// A slice ends with the first item after so long.
const SLICE: Duration = Duration::from_millis(4);
/// Work that is over so soon is done where it is asked for: handing it to another thread would take longer.
const AT_ONCE: Duration = Duration::from_micros(500);

/// One permit a processor. Its queue is first come, first served, and an operation queues again for each slice: so
/// those that have much to do take turns.
static PROCESSORS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)));

/// What `each` makes of the items, without those of which it makes nothing. Dropped, it ends after the slice under
/// way.
pub(super) async fn run<T, R>(
    items: Vec<T>,
    mut each: impl FnMut(T) -> Result<Option<R>, ServiceError> + Send + 'static,
) -> Result<Vec<R>, ServiceError>
where
    T: Send + 'static,
    R: Send + 'static,
{
    let done = Vec::with_capacity(items.len());
    fold(items, done, move |done: &mut Vec<R>, item| {
        done.extend(each(item)?);
        Ok(())
    })
    .await
}

/// What becomes of a state by which `each` takes the items, one after the other.
pub(super) async fn fold<T, S>(
    items: Vec<T>,
    state: S,
    mut each: impl FnMut(&mut S, T) -> Result<(), ServiceError> + Send + 'static,
) -> Result<S, ServiceError>
where
    T: Send + 'static,
    S: Send + 'static,
{
    let step = move |(left, state): &mut (std::vec::IntoIter<T>, S)| match left.next() {
        Some(item) => each(state, item).map(|()| left.len() > 0),
        None => Ok(false),
    };
    Ok(steps((items.into_iter(), state), step).await?.1)
}

/// What becomes of a state by steps, the last of which says that there is no more to be done. Dropped, it ends after the slice
/// under way.
pub(super) async fn steps<S: Send + 'static>(
    state: S,
    step: impl FnMut(&mut S) -> Result<bool, ServiceError> + Send + 'static,
) -> Result<S, ServiceError> {
    let mut slice = Slice { more: true, state, step };
    slice.advance(AT_ONCE)?;
    while slice.more {
        let _processor = PROCESSORS.acquire().await.map_err(|closed| failed(&closed.to_string()))?;
        let advanced = aside::run(move || {
            slice.advance(SLICE)?;
            Ok::<_, ServiceError>(slice)
        });
        slice = advanced.await.map_err(|error| failed(&error.to_string()))??;
    }
    Ok(slice.state)
}

/// A turn, for work that cuts itself into slices.
pub(super) async fn turn() -> Option<Turn> {
    // It is never closed.
    PROCESSORS.acquire().await.ok().map(Turn::new)
}

fn failed(why: &str) -> ServiceError {
    error::of(Fault::Internal, why)
}

struct Slice<S, F> {
    more: bool,
    state: S,
    step: F,
}

impl<S, F: FnMut(&mut S) -> Result<bool, ServiceError>> Slice<S, F> {
    /// Goes on until everything is done or so much time is over.
    fn advance(&mut self, within: Duration) -> Result<(), ServiceError> {
        let began = Instant::now();
        while self.more {
            self.more = (self.step)(&mut self.state)?;
            if began.elapsed() >= within {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// Spins, so that a clock that stands still has it end all the same.
    fn work(item: u64) -> Result<Option<u64>, ServiceError> {
        let began = std::time::Instant::now();
        while began.elapsed() < Duration::from_micros(800) {
            std::hint::spin_loop();
        }
        Ok(Some(item))
    }

    #[test]
    fn work_of_few_items_and_of_many_gives_way_to_others_on_the_thread() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            for items in [8, 200] {
                let turns = std::sync::Arc::new(AtomicUsize::new(0));
                let other = tokio::spawn({
                    let turns = std::sync::Arc::clone(&turns);
                    async move {
                        loop {
                            turns.fetch_add(1, Ordering::SeqCst);
                            tokio::task::yield_now().await;
                        }
                    }
                });
                let done = run((0..items).collect(), work).await.expect("work");
                assert_eq!(done, (0..items).collect::<Vec<u64>>());
                // At the least once for each slice: none is longer than a few items are.
                let turns = turns.load(Ordering::SeqCst);
                assert!(turns >= items as usize / 8, "{turns} for {items}");
                other.abort();
            }
        });
    }

    #[test]
    fn an_error_ends_it_and_little_is_done_at_once() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime").block_on(async {
            let failing = |number: u64| if number == 3 { Err(failed("three")) } else { Ok(Some(number)) };
            assert!(run((0..10).collect(), failing).await.is_err());
            let odd = |number: u64| Ok((number % 2 == 1).then_some(number));
            assert_eq!(run((0..6).collect(), odd).await.expect("work"), [1, 3, 5]);
        });
    }
}
