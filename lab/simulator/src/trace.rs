//! What happened in a run: a sum of all of it, and the lines of it where somebody wants to read them.

use arras_protocol::ProtocolId;
use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::time::Instant;

#[derive(Debug)]
struct State {
    sum: DefaultHasher,
    lines: Option<String>,
    began: Option<Instant>,
}

/// The trace of a run.
#[derive(Debug)]
pub struct Trace(Mutex<State>);

impl Trace {
    /// Begins a trace; `lines`: it is to be read.
    #[must_use]
    pub fn new(lines: bool) -> Self {
        let lines = lines.then(String::new);
        Self(Mutex::new(State { sum: DefaultHasher::new(), lines, began: None }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes something that happened now.
    pub fn note(&self, what: impl FnOnce() -> String) {
        let mut state = self.state();
        let now = Instant::now();
        let began = *state.began.get_or_insert(now);
        let ms = now.duration_since(began).as_millis();
        let what = what();
        (ms, &what).hash(&mut state.sum);
        if let Some(lines) = &mut state.lines {
            let _ = writeln!(lines, "{ms:>7} ms  {what}");
        }
    }

    /// Notes a message, byte for byte, and what was answered; no answer: a refusal.
    pub(crate) fn message(&self, link: u64, protocol: ProtocolId, body: &[u8], reply: Option<&[u8]>) {
        let mut state = self.state();
        let now = Instant::now();
        let began = *state.began.get_or_insert(now);
        let ms = now.duration_since(began).as_millis();
        (ms, link, protocol.0, body, reply).hash(&mut state.sum);
        if let Some(lines) = &mut state.lines {
            let reply = reply.map_or("a refusal".to_owned(), |reply| format!("{} bytes", reply.len()));
            let what = crate::watch::described(protocol, body);
            let _ = writeln!(lines, "{ms:>7} ms      [{link}] {what}, {} bytes: {reply}", body.len());
        }
    }

    /// A number that is the same for the same run, byte for byte.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.state().sum.finish()
    }

    /// The lines, if they were kept.
    #[must_use]
    pub fn lines(&self) -> String {
        self.state().lines.clone().unwrap_or_default()
    }
}
