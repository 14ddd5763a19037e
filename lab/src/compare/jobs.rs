//! Runs of several data sets and protocols, some at a time.

use crate::run::{FieldError, Plan, ProtocolResult, RunRequest, RunResult, Watch, environment, run_protocol};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// Is told what was done, of how much, and what was just finished.
pub type Tell<'a> = &'a (dyn Fn(usize, usize, &str) + Sync);

/// How jobs are run.
#[derive(Clone, Copy)]
pub struct Jobs<'a> {
    /// So many at once.
    pub workers: usize,
    /// Told of every job that ended.
    pub tell: Tell<'a>,
    /// Ends all soon after it is set.
    pub stop: &'a AtomicBool,
}

impl std::fmt::Debug for Jobs<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Jobs({} workers)", self.workers)
    }
}

impl Jobs<'_> {
    /// Runs every protocol of every request. Results are in the order of the requests, and of the protocols in
    /// each; what a stop kept from running is not there.
    ///
    /// # Errors
    /// What cannot be run, by field, before anything is run.
    pub fn run(&self, requests: Vec<RunRequest>) -> Result<Vec<RunResult>, Vec<FieldError>> {
        let plans: Vec<Plan> = requests.into_iter().map(RunRequest::plan).collect::<Result<_, _>>()?;
        let mut jobs: Vec<(usize, usize)> = plans
            .iter()
            .enumerate()
            .flat_map(|(plan, of)| (0..of.protocols.len()).map(move |at| (plan, at)))
            .collect();
        // Workers take the last: those that take longest, so that no worker is left with one at the end.
        jobs.reverse();
        jobs.sort_by_key(|(plan, at)| plans[*plan].protocols[*at].work);
        let count = jobs.len();
        let queue = Mutex::new(jobs);
        let results: Mutex<Vec<((usize, usize), ProtocolResult)>> = Mutex::new(Vec::new());
        let work = || {
            let watch = Watch::new(&|_| {}, self.stop);
            while !watch.stopped() {
                let Some(job) = queue.lock().unwrap_or_else(PoisonError::into_inner).pop() else { break };
                let plan = &plans[job.0];
                let result = run_protocol(plan, plan.protocols[job.1], &watch);
                let what = format!("{} on {}", result.protocol, plan.request.dataset.name());
                let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                results.push((job, result));
                (self.tell)(results.len(), count, &what);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..self.workers.max(1) {
                scope.spawn(work);
            }
        });
        let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        results.sort_by_key(|(job, _)| *job);
        let mut runs: Vec<RunResult> = plans
            .iter()
            .map(|plan| RunResult {
                environment: environment(),
                request: plan.request.clone(),
                protocols: Vec::new(),
            })
            .collect();
        for ((plan, _), result) in results {
            runs[plan].protocols.push(result);
        }
        Ok(runs)
    }
}
