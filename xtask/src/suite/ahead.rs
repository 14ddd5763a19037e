//! A build that a later step needs, made while tests run: those of several processes wait most of the time.

use super::{Context, process};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Ahead(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// Nothing is to be built, or it is built.
    #[default]
    Idle,
    Planned(Box<Command>, PathBuf),
    Running(JoinHandle<()>),
}

impl Ahead {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is to be built once there is time, and the name of its log.
    pub(super) fn plan(&self, context: &Context, build: &Command, log: &str) {
        // What else runs goes first, at once.
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(build.get_program()).args(build.get_args());
        for (name, value) in build.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir(&context.root);
        *self.state() = State::Planned(Box::new(command), context.log(log));
    }

    /// Begins with what is planned.
    pub(super) fn begin(&self) {
        let mut state = self.state();
        *state = match std::mem::take(&mut *state) {
            State::Planned(mut command, log) => State::Running(std::thread::spawn(move || {
                // The step that needs it builds it again, finds it built, or says why it cannot be.
                let _ = process::finish(&mut command, &log);
            })),
            other => other,
        };
    }

    /// Waits for what was begun.
    pub(super) fn wait(&self) {
        let begun = std::mem::take(&mut *self.state());
        if let State::Running(build) = begun {
            // As above.
            let _ = build.join();
        }
    }
}
