//! A server over a store that can fail, and a wire to it that can lie and lose.

use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::{Channel, ChannelError, IndexId, Protocol, codec};
use arras_schemes::IndexError;
use arras_server::Backend;
use arras_storage::{Embedded, Failing, Faults, Memory, Storage};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

/// The index's name in every test.
#[allow(dead_code, reason = "for the protocols' files")]
pub(crate) const INDEX: IndexId = IndexId([7; 8]);

/// The index's key in every test.
#[allow(dead_code, reason = "for the protocols' files")]
pub(crate) fn key() -> Key {
    Key::take_from(&mut [3; 32])
}

/// Replayable randomness.
pub(crate) fn prg(seed: u64) -> Prg {
    let mut bytes = [9; 16];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    Prg::new(&bytes)
}

/// Calls after which an operation is taken to loop for ever.
const CALLS_MAX: u64 = 50_000;

/// What becomes of an encoded reply.
pub(crate) type Tamper = Box<dyn FnMut(Vec<u8>) -> Reply + Send>;

/// What arrives.
pub(crate) enum Reply {
    /// These bytes.
    Bytes(Vec<u8>),
    /// Nothing: the connection is lost after the server acted.
    Lost,
}

#[derive(Default)]
struct State {
    calls: u64,
    tamper: Option<Tamper>,
    /// Requests since somebody listens.
    heard: Option<Vec<Vec<u8>>>,
}

/// A channel to the server. Without a tamper it is an honest one.
pub(crate) struct Wire<S> {
    backend: Arc<Backend<S>>,
    state: Arc<Mutex<State>>,
}

impl<S> Clone for Wire<S> {
    fn clone(&self) -> Self {
        Self { backend: Arc::clone(&self.backend), state: Arc::clone(&self.state) }
    }
}

impl<S> Wire<S> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panicked here")
    }

    /// Sets what becomes of replies from now on.
    pub(crate) fn set_tamper(&self, tamper: Option<Tamper>) {
        *self.state() = State { calls: 0, tamper, heard: None };
    }

    /// Keeps requests from now on.
    #[allow(dead_code, reason = "for the protocols' files")]
    pub(crate) fn listen(&self) {
        self.state().heard = Some(Vec::new());
    }

    /// The requests since then, encoded.
    #[allow(dead_code, reason = "for the protocols' files")]
    pub(crate) fn heard(&self) -> Vec<Vec<u8>> {
        self.state().heard.take().unwrap_or_default()
    }

    /// Calls since the tamper was set.
    pub(crate) fn calls(&self) -> u64 {
        self.state().calls
    }

    /// The server.
    #[allow(dead_code, reason = "for the protocols' files")]
    pub(crate) fn backend(&self) -> &Backend<S> {
        &self.backend
    }
}

impl<S: Storage> Wire<S> {
    fn answer<P: Protocol>(&self, request: &P::Request) -> Result<P::Response, ChannelError> {
        let mut state = self.state();
        state.calls += 1;
        assert!(state.calls < CALLS_MAX, "the client half asks for ever");
        let request = codec::encode(request);
        let mut reply = self.backend.handle(P::ID, &request)?;
        if let Some(heard) = &mut state.heard {
            heard.push(request);
        }
        if let Some(tamper) = &mut state.tamper {
            match tamper(reply) {
                Reply::Bytes(bytes) => reply = bytes,
                Reply::Lost => return Err(ChannelError::Lost("the test's wire".into())),
            }
        }
        codec::decode(&reply).map_err(|_| ChannelError::Malformed(format!("not a response of {}", P::NAME)))
    }
}

impl<P: Protocol, S: Storage> Channel<P> for Wire<S> {
    async fn call(&self, request: P::Request) -> Result<P::Response, ChannelError> {
        self.answer::<P>(&request)
    }
}

/// A server and the faults of its store.
pub(crate) struct World<S> {
    pub(crate) wire: Wire<S>,
    pub(crate) faults: Faults,
}

fn over<S: Storage>(store: S) -> World<Failing<S>> {
    let store = Failing::new(store);
    let faults = store.faults();
    let backend = Arc::new(Backend::open(store, [1; 16]).expect("no fault is planned"));
    World { wire: Wire { backend, state: Arc::default() }, faults }
}

/// In memory.
pub(crate) fn memory() -> World<Failing<Memory>> {
    over(Memory::new())
}

/// On the disk.
pub(crate) fn embedded(directory: &Path) -> World<Failing<Embedded>> {
    over(Embedded::open(directory).expect("the directory is ours"))
}

/// Property tests of `default` cases, or as many as `PROPTEST_CASES` says.
pub(crate) fn cases(default: u32) -> proptest::test_runner::Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default);
    proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() }
}

pub(crate) fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

/// Whether a client half blames the caller.
pub(crate) fn blames_caller<T>(result: &Result<T, IndexError>) -> bool {
    matches!(result, Err(IndexError::Caller(_)))
}
