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
/// So little work is done where it is asked for: handing it to another thread would take longer.
const AT_ONCE: usize = 32;

/// One permit a processor. Its queue is first come, first served, and an operation queues again for each slice: so
/// those that have much to do take turns.
static PROCESSORS: LazyLock<Semaphore> =
    LazyLock::new(|| Semaphore::new(std::thread::available_parallelism().map_or(1, usize::from)));

/// What `each` makes of the items, without those of which it makes nothing. Dropped, it ends after the slice under
/// way.
pub(super) async fn run<T, R>(
    items: Vec<T>,
    each: impl FnMut(T) -> Result<Option<R>, ServiceError> + Send + 'static,
) -> Result<Vec<R>, ServiceError>
where
    T: Send + 'static,
    R: Send + 'static,
{
    let mut slice = Slice { done: Vec::with_capacity(items.len()), left: items.into_iter(), each };
    if slice.left.len() <= AT_ONCE {
        slice.advance(None)?;
        return Ok(slice.done);
    }
    while slice.left.len() > 0 {
        let _processor = PROCESSORS.acquire().await.map_err(|closed| failed(&closed.to_string()))?;
        let advanced = aside::run(move || {
            slice.advance(Some(Instant::now()))?;
            Ok::<_, ServiceError>(slice)
        });
        slice = advanced.await.map_err(|error| failed(&error.to_string()))??;
    }
    Ok(slice.done)
}

/// The same for work that is one piece.
pub(super) async fn whole<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, ServiceError> + Send + 'static,
) -> Result<R, ServiceError> {
    let _processor = PROCESSORS.acquire().await.map_err(|closed| failed(&closed.to_string()))?;
    aside::run(work).await.map_err(|error| failed(&error.to_string()))?
}

/// A turn, for work that cuts itself into slices.
pub(super) async fn turn() -> Option<Turn> {
    // It is never closed.
    PROCESSORS.acquire().await.ok().map(Turn::new)
}

fn failed(why: &str) -> ServiceError {
    error::of(Fault::Internal, why)
}

struct Slice<T, R, F> {
    left: std::vec::IntoIter<T>,
    done: Vec<R>,
    each: F,
}

impl<T, R, F: FnMut(T) -> Result<Option<R>, ServiceError>> Slice<T, R, F> {
    /// Goes on until everything is done or, from `began`, the slice is over.
    fn advance(&mut self, began: Option<Instant>) -> Result<(), ServiceError> {
        for item in self.left.by_ref() {
            self.done.extend((self.each)(item)?);
            if began.is_some_and(|began| began.elapsed() >= SLICE) {
                break;
            }
        }
        Ok(())
    }
}
