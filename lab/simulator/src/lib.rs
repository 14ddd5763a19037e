//! An engine, a server and several applications in one thread and from one seed, with all that can go wrong between them. In half of
//! the runs there are texts, too, and a host of boolean search with its enclave.
//!
//! A seed says everything ([`plan::Plan`]): settings, what each application asks, which messages are delayed, lost or cut
//! off, where which process is killed, when a disk is full, what the server lies about, whose disk is set back. Time is the
//! runtime's, which moves on when nothing is left to do; randomness is the seed's. So a seed repeats its run byte for
//! byte.
//!
//! *What is checked.* Every answer, against a model of the application's documents; after each round, that every
//! acknowledged write is there and those in doubt are wholly there or not at all, by questions through every index, and
//! every index against the documents; at every message that nothing that must be used once is used twice; that a lie or a
//! disk set back is noticed.
#![forbid(unsafe_code)]

pub mod application;
mod checks;
pub mod disk;
pub mod flag;
pub mod hosting;
pub mod indexes;
pub mod lies;
pub mod model;
pub mod network;
pub mod plan;
mod protocols;
pub mod setback;
pub mod shorten;
pub mod talking;
pub mod texts;
pub mod trace;
pub mod watch;
pub mod world;

use arras_engine::mutations::Mutation;
use plan::Plan;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use trace::Trace;
use world::World;

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What does not hold, if something does not.
    pub wrong: Option<String>,
    /// The same for the same run.
    pub sum: u64,
    /// What happened, where that was asked for.
    pub lines: String,
}

/// Runs a plan, with a defect of the engine switched on if one is named. `lines`: what happens is kept, line by line.
#[must_use]
pub fn run(plan: &Plan, mutation: Option<Mutation>, lines: bool) -> Outcome {
    let trace = Arc::new(Trace::new(lines));
    let world = World::new(plan.clone(), mutation, Arc::clone(&trace));
    let running = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        match runtime {
            Ok(runtime) => runtime.block_on(world.run()),
            Err(error) => Err(format!("no runtime: {error}")),
        }
    };
    let wrong = match catch_unwind(AssertUnwindSafe(running)) {
        Ok(outcome) => outcome.err(),
        Err(_) => Some("a panic".to_owned()),
    };
    Outcome { wrong, sum: trace.sum(), lines: trace.lines() }
}
