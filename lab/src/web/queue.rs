//! Runs: waiting, one under way, ended.

use super::Limits;
use crate::run::{self, Ending, Plan, Progress, RunRequest, RunResult, Watch};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// How far the protocol under way is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Step {
    /// The protocol's title.
    protocol: &'static str,
    /// Its place among the run's protocols, from 1.
    place: usize,
    /// The part of its run.
    stage: &'static str,
    done: usize,
    of: usize,
}

/// Where a run is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "phase", rename_all = "snake_case")]
pub(super) enum Phase {
    /// It waits for this many others.
    Queued { ahead: usize },
    /// It is under way.
    Running { step: Option<Step>, protocols: usize },
    /// It has ended; `note` says why, if not because everything was done.
    Ended { finished: bool, note: Option<String> },
}

/// A run.
pub(super) struct Job {
    pub(super) id: u64,
    /// What was asked for, without its data.
    pub(super) request: RunRequest,
    plan: Mutex<Option<Plan>>,
    stop: AtomicBool,
    phase: watch::Sender<Phase>,
    result: Mutex<Option<Arc<RunResult>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change under a lock here is one assignment.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    /// Tells of every change of the phase.
    pub(super) fn watch(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Where it is.
    pub(super) fn phase(&self) -> Phase {
        self.phase.borrow().clone()
    }

    /// What it found, once it has ended.
    pub(super) fn result(&self) -> Option<Arc<RunResult>> {
        lock(&self.result).clone()
    }

    fn ended(&self) -> bool {
        matches!(*self.phase.borrow(), Phase::Ended { .. })
    }
}

#[derive(Default)]
struct Inner {
    jobs: BTreeMap<u64, Arc<Job>>,
    waiting: VecDeque<Arc<Job>>,
    under_way: Option<Arc<Job>>,
    last: u64,
    closed: bool,
}

/// The runs of this process.
pub(super) struct Queue {
    inner: Arc<(Mutex<Inner>, Condvar)>,
    pub(super) limits: Limits,
}

impl Queue {
    /// Starts the thread that runs.
    pub(super) fn start(limits: Limits) -> io::Result<Self> {
        let inner: Arc<(Mutex<Inner>, Condvar)> = Arc::default();
        let shared = Arc::clone(&inner);
        std::thread::Builder::new().name("lab runs".into()).spawn(move || work(&shared, limits))?;
        Ok(Self { inner, limits })
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.inner.0)
    }

    /// Puts a run at the end of the queue; `None` if the queue is full.
    pub(super) fn add(&self, plan: Plan) -> Option<Arc<Job>> {
        let mut inner = self.lock();
        if inner.closed || inner.waiting.len() >= self.limits.queue_max {
            return None;
        }
        inner.last += 1;
        let job = Arc::new(Job {
            id: inner.last,
            request: plan.request.clone(),
            plan: Mutex::new(Some(plan)),
            stop: AtomicBool::new(false),
            phase: watch::Sender::new(Phase::Queued { ahead: 0 }),
            result: Mutex::default(),
        });
        inner.jobs.insert(job.id, Arc::clone(&job));
        inner.waiting.push_back(Arc::clone(&job));
        forget_oldest(&mut inner, self.limits.kept_max);
        tell_places(&inner);
        self.inner.1.notify_one();
        Some(job)
    }

    /// The run of that number.
    pub(super) fn job(&self, id: u64) -> Option<Arc<Job>> {
        self.lock().jobs.get(&id).cloned()
    }

    /// All runs, the newest first.
    pub(super) fn jobs(&self) -> Vec<Arc<Job>> {
        self.lock().jobs.values().rev().cloned().collect()
    }

    /// Stops a run: one under way soon ends with what it has, one that waits ends with nothing.
    pub(super) fn stop(&self, job: &Job) {
        job.stop.store(true, Ordering::Relaxed);
        let mut inner = self.lock();
        if let Some(place) = inner.waiting.iter().position(|waiting| waiting.id == job.id) {
            inner.waiting.remove(place);
            job.phase
                .send_replace(Phase::Ended { finished: false, note: Some("stopped while it waited".into()) });
            tell_places(&inner);
        }
    }

    /// Takes no more runs and stops those there are.
    pub(super) fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        for job in inner.under_way.iter().chain(&inner.waiting) {
            job.stop.store(true, Ordering::Relaxed);
        }
        inner.waiting.clear();
        self.inner.1.notify_one();
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.close();
    }
}

/// Tells every waiting run how many are before it.
fn tell_places(inner: &Inner) {
    for (place, job) in inner.waiting.iter().enumerate() {
        job.phase.send_replace(Phase::Queued { ahead: place + usize::from(inner.under_way.is_some()) });
    }
}

fn forget_oldest(inner: &mut Inner, kept_max: usize) {
    let ended: Vec<u64> = inner.jobs.values().filter(|job| job.ended()).map(|job| job.id).collect();
    for id in ended.iter().take(ended.len().saturating_sub(kept_max)) {
        inner.jobs.remove(id);
    }
}

fn work(shared: &(Mutex<Inner>, Condvar), limits: Limits) {
    loop {
        let job = {
            let mut inner = lock(&shared.0);
            loop {
                if inner.closed {
                    return;
                }
                if let Some(job) = inner.waiting.pop_front() {
                    inner.under_way = Some(Arc::clone(&job));
                    tell_places(&inner);
                    break job;
                }
                inner = shared.1.wait(inner).unwrap_or_else(PoisonError::into_inner);
            }
        };
        let ended = catch_unwind(AssertUnwindSafe(|| run_job(&job, limits)))
            .unwrap_or_else(|_| Phase::Ended { finished: false, note: Some("the run failed inside".into()) });
        lock(&shared.0).under_way = None;
        job.phase.send_replace(ended);
    }
}

/// Runs a job on this thread; the phase it ends in.
fn run_job(job: &Job, limits: Limits) -> Phase {
    let Some(plan) = lock(&job.plan).take() else {
        return Phase::Ended { finished: false, note: Some("it ran before".into()) };
    };
    let protocols = plan.protocols.len();
    job.phase.send_replace(Phase::Running { step: None, protocols });
    let late = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        let (_ended, time) = mpsc::channel::<()>();
        scope.spawn(|| {
            let time = time;
            if time.recv_timeout(limits.run_time_max) == Err(RecvTimeoutError::Timeout) {
                late.store(true, Ordering::Relaxed);
                job.stop.store(true, Ordering::Relaxed);
            }
        });
        let result = run_plan(job, &plan);
        drop(_ended);
        result
    });
    let phase = describe_end(&result, late.load(Ordering::Relaxed), limits);
    *lock(&job.result) = Some(Arc::new(result));
    phase
}

fn run_plan(job: &Job, plan: &Plan) -> RunResult {
    let report = |progress: &Progress| {
        let place =
            plan.protocols.iter().position(|protocol| protocol.name == progress.protocol).unwrap_or(0);
        let step = Step {
            protocol: plan.protocols[place].title,
            place: place + 1,
            stage: progress.stage.title(),
            done: progress.done,
            of: progress.of,
        };
        job.phase.send_replace(Phase::Running { step: Some(step), protocols: plan.protocols.len() });
    };
    run::run(plan, &Watch::new(&report, &job.stop))
}

fn describe_end(result: &RunResult, late: bool, limits: Limits) -> Phase {
    let failed = result.protocols.iter().find_map(|protocol| match &protocol.ending {
        Ending::Failed(why) => Some(format!("{}: {why}", protocol.title)),
        Ending::Finished | Ending::Stopped => None,
    });
    let stopped = result.protocols.len() < result.request.protocols.len()
        || result.protocols.iter().any(|protocol| protocol.ending == Ending::Stopped);
    let note = match failed {
        Some(why) => Some(why),
        None if late => {
            Some(format!("stopped after {} s, the longest a run may take", limits.run_time_max.as_secs()))
        }
        None if stopped => Some("stopped; what was finished is here".to_owned()),
        None => None,
    };
    Phase::Ended { finished: note.is_none(), note }
}
