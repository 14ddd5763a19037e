//! Runs protocols on data and queries, measures each, and checks every answer against the sorted records.

mod drive;
mod environment;
mod request;
mod result;
#[cfg(test)]
mod tests;

pub use environment::environment;
pub use request::{
    ALL_PROTOCOLS, ChannelKind, FieldError, PAGE_BYTES_MAX, Plan, QUERIES_MAX, RECORDS_MAX,
    ROUND_TRIP_US_MAX, RunRequest, StoreKind,
};
pub use result::{
    Cost, Ending, Environment, LeakageInWords, PrimitiveCalls, ProtocolResult, QueryTrace, RunResult, Stage,
    StageResult, primitive_calls,
};

use crate::protocols::ProtocolEntry;
use std::sync::atomic::{AtomicBool, Ordering};

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Which protocol.
    pub protocol: &'static str,
    /// Which part of its run.
    pub stage: Stage,
    /// Operations done in this part.
    pub done: usize,
    /// Operations it has.
    pub of: usize,
}

/// Who looks on: is told of progress a few times a second, and can have the run stopped.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    progress: &'a (dyn Fn(&Progress) + Sync),
    stop: &'a AtomicBool,
}

impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Watch(stopped: {})", self.stopped())
    }
}

impl<'a> Watch<'a> {
    /// Calls `progress` from the thread that runs; the run ends soon after `stop` is set.
    pub fn new(progress: &'a (dyn Fn(&Progress) + Sync), stop: &'a AtomicBool) -> Self {
        Self { progress, stop }
    }

    fn report(&self, progress: &Progress) {
        (self.progress)(progress);
    }

    /// Whether the run is to stop.
    #[must_use]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs one protocol of a plan on a thread of its own. What goes wrong is in the result.
#[must_use]
pub fn run_protocol(plan: &Plan, protocol: &'static ProtocolEntry, watch: &Watch<'_>) -> ProtocolResult {
    std::thread::scope(|scope| {
        let running = scope.spawn(|| drive::run_protocol(plan, protocol, watch));
        running.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Runs the protocols of a plan one after the other. A stopped run has what it finished, the protocol it was
/// stopped in among it; a protocol that fails does not keep the next from running.
#[must_use]
pub fn run(plan: &Plan, watch: &Watch<'_>) -> RunResult {
    let mut protocols = Vec::new();
    for protocol in &plan.protocols {
        if watch.stopped() {
            break;
        }
        protocols.push(run_protocol(plan, protocol, watch));
    }
    RunResult { environment: environment(), request: plan.request.clone(), protocols }
}
