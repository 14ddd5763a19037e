//! What a service does not answer now is asked again.

use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The pauses between: each twice the one before, from the first to the longest.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(2)];

/// Sends a request until it is answered, or is refused for good, or no more time is left for another try; one that has begun by
/// then comes to its end. For requests that set or read what they name, whatever was there: sent twice is as sent once.
pub(super) async fn patiently<T, E, F>(
    patience: Duration,
    is_passing: impl Fn(&E) -> bool,
    request: impl Fn() -> F,
) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
{
    let end = Instant::now() + patience;
    let [mut pause, longest] = PAUSES;
    loop {
        match request().await {
            Err(error) if is_passing(&error) && Instant::now() + pause < end => {
                sleep(pause).await;
                pause = longest.min(2 * pause);
            }
            ended => return ended,
        }
    }
}
