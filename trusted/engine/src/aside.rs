//! Work that keeps a thread for a while, beside the tasks that wait for it. The one place that knows of threads: where a
//! runtime has no other than the one it runs on, the work takes its turn there as a task, so that a run of a simulation
//! depends on no scheduler but the runtime's own.

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::JoinHandle;

/// True if the runtime has threads besides the caller's.
pub(crate) fn has_threads() -> bool {
    Handle::current().runtime_flavor() != RuntimeFlavor::CurrentThread
}

/// Begins `work` on a thread of its own, or behind the tasks that are ready where there is none.
pub fn run<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    if has_threads() { tokio::task::spawn_blocking(work) } else { tokio::spawn(async move { work() }) }
}

/// Does `work` here and now, while others take over this thread's tasks. Only where [`has_threads`].
pub(crate) fn here<R>(work: impl FnOnce() -> R) -> R {
    tokio::task::block_in_place(work)
}
