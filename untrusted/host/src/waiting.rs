//! Waiting for what others have to do: the log says what is waited for, and it is not waited for ever.

use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::time::timeout;
use tracing::warn;

/// So often the log says it before the time is over.
const WORDS: u32 = 5;

/// What work comes to.
///
/// # Errors
/// [`io::ErrorKind::TimedOut`], which says what was waited for, if it does not come in time.
pub(crate) async fn awaited<T>(
    what: &str,
    patience: Duration,
    work: impl Future<Output = T>,
) -> io::Result<T> {
    let mut work = pin!(work);
    for word in 1..=WORDS {
        if let Ok(done) = timeout(patience / WORDS, &mut work).await {
            return Ok(done);
        }
        if word < WORDS {
            let (since, most) = ((patience / WORDS * word).as_secs(), patience.as_secs());
            warn!("{what} has not come in {since} s; it is waited for {most} s");
        }
    }
    let words = format!("{what} has not come in {} s", patience.as_secs());
    Err(io::Error::new(io::ErrorKind::TimedOut, words))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use tokio::time::{Instant, sleep};

    const PATIENCE: Duration = Duration::from_secs(300);

    #[tokio::test(start_paused = true)]
    async fn what_comes_in_time_is_had_and_what_does_not_is_an_error_with_its_name() {
        let comes = async |seconds: u64| {
            let work = sleep(Duration::from_secs(seconds));
            awaited("the quote", PATIENCE, work).await.map_err(|error| error.to_string())
        };
        let begun = Instant::now();
        assert_eq!(comes(299).await, Ok(()));
        assert_eq!(begun.elapsed().as_secs(), 299);
        assert_eq!(comes(301).await, Err("the quote has not come in 300 s".into()));
        assert_eq!(begun.elapsed().as_secs(), 599);
    }
}
