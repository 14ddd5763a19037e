//! A server in memory whose writes can be set back, a channel to it that can fail, and clients.

use crate::auditor::Auditor;
use arras_keys::Key;
use arras_numbers::{Number, NumberSum};
use arras_primitives::prg::Prg;
use arras_protocol::arx_range::{ArxRange as Protocol, Request, Response};
use arras_protocol::write::{self, Write};
use arras_protocol::{Channel, ChannelError, IndexId, OperationId, ProtocolId, Refusal, RowId, codec};
use arras_schemes::IndexError;
use arras_schemes::arx_range::{ArxRange, ArxRangeParameters, Epochs, RangeEntry, Standalone};
use arras_server::Backend;
use arras_storage::Memory;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) const INDEX: IndexId = IndexId([7; 8]);

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It does not arrive.
    LostRequest,
    /// It arrives; the answer does not.
    LostReply,
    /// It arrives after the next call, the caller hears nothing. Calls that are not relaxed writes are lost.
    Late,
    /// The server crashes after it, losing what it may, and is up again at once.
    Crash,
}

struct State {
    backend: Backend<Memory>,
    /// Applied writes, and how many of them a crash cannot take back.
    log: Vec<write::Request>,
    durable: usize,
    faults: VecDeque<(u64, Fault)>,
    late: Vec<write::Request>,
    calls: u64,
    transcript: Vec<(usize, usize)>,
    sent: Vec<u8>,
    /// Changes replies, for a hostile server.
    tamper: Option<Tamper>,
}

/// A hostile server: sees requests, changes replies.
pub(crate) type Tamper = Box<dyn FnMut(&Request, &mut Response) + Send>;

/// The server as a channel.
pub(crate) struct World {
    state: Mutex<State>,
    pub(crate) auditor: Auditor,
}

fn fresh() -> Backend<Memory> {
    Backend::open(Memory::new(), [1; 16]).expect("memory does not fail")
}

impl World {
    pub(crate) fn new() -> Arc<Self> {
        let state = State {
            backend: fresh(),
            log: Vec::new(),
            durable: 0,
            faults: VecDeque::new(),
            late: Vec::new(),
            calls: 0,
            transcript: Vec::new(),
            sent: Vec::new(),
            tamper: None,
        };
        Arc::new(Self { state: Mutex::new(state), auditor: Auditor::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no test panicked here")
    }

    /// Plans a fault for the call after `passing` further ones.
    pub(crate) fn fail_after(&self, passing: u64, fault: Fault) {
        let mut state = self.state();
        let call = state.calls + passing;
        state.faults.push_back((call, fault));
    }

    pub(crate) fn heal(&self) {
        self.state().faults.clear();
    }

    pub(crate) fn calls(&self) -> u64 {
        self.state().calls
    }

    pub(crate) fn set_tamper(&self, tamper: Option<Tamper>) {
        self.state().tamper = tamper;
    }

    /// Sizes of requests and replies since last asked.
    pub(crate) fn take_transcript(&self) -> Vec<(usize, usize)> {
        std::mem::take(&mut self.state().transcript)
    }

    /// Crashes the server: of the writes that are not durable, the last `lost` are gone (as far as there are any).
    pub(crate) fn crash(&self, lost: usize) {
        self.state().crash(lost);
    }

    /// All keys and value lengths in the store.
    pub(crate) fn stored(&self) -> Vec<(&'static str, Vec<u8>, usize)> {
        use arras_storage::{Direction, Read, Storage, Table};
        use std::ops::{Bound, ControlFlow};
        let state = self.state();
        let reader = state.backend.store().read().expect("memory does not fail");
        let tables = [
            "arx_range_heads",
            "arx_range_top",
            "arx_range_nodes",
            "arx_range_buckets",
            "arx_range_circuits",
        ];
        let mut found = Vec::new();
        for table in tables {
            reader
                .scan(
                    Table(table),
                    (Bound::Unbounded, Bound::Unbounded),
                    Direction::Ascending,
                    &mut |name, value| {
                        found.push((table, name.to_vec(), value.len()));
                        ControlFlow::Continue(())
                    },
                )
                .expect("memory does not fail");
        }
        found
    }

    /// Sends raw bytes to the server.
    pub(crate) fn raw(&self, protocol: ProtocolId, body: &[u8]) -> Result<Vec<u8>, Refusal> {
        self.state().backend.handle(protocol, body)
    }
}

impl State {
    fn crash(&mut self, lost: usize) {
        let keep = self.log.len().saturating_sub(lost).max(self.durable);
        self.log.truncate(keep);
        self.backend = fresh();
        for request in &self.log {
            handle::<Write>(&self.backend, request).expect("what was applied applies again");
        }
    }

    fn apply(&mut self, request: &write::Request) -> Result<write::Response, ChannelError> {
        let response = handle::<Write>(&self.backend, request)?;
        self.log.push(request.clone());
        if request.operation.is_some() {
            self.durable = self.log.len();
        }
        Ok(response)
    }

    /// Counts a call; the fault it meets, if any. What was late arrives first.
    fn arrive(&mut self) -> Option<Fault> {
        for request in std::mem::take(&mut self.late) {
            // A late repair may be refused: it was overtaken.
            let _ = self.apply(&request);
        }
        let call = self.calls;
        self.calls += 1;
        let fault = self.faults.front().filter(|(at, _)| *at <= call).map(|(_, fault)| *fault);
        if fault.is_some() {
            self.faults.pop_front();
        }
        fault
    }
}

fn handle<P: arras_protocol::Protocol>(
    backend: &Backend<Memory>,
    request: &P::Request,
) -> Result<P::Response, ChannelError> {
    let reply = backend.handle(P::ID, &codec::encode(request))?;
    codec::decode(&reply).map_err(|error| ChannelError::Malformed(error.to_string()))
}

fn lost<T>() -> Result<T, ChannelError> {
    Err(ChannelError::Lost("the test's channel".into()))
}

impl Channel<Protocol> for World {
    async fn call(&self, request: Request) -> Result<Response, ChannelError> {
        self.auditor.search(&request);
        let mut state = self.state();
        let fault = state.arrive();
        if matches!(fault, Some(Fault::LostRequest | Fault::Late)) {
            return lost();
        }
        let answer = handle::<Protocol>(&state.backend, &request);
        match fault {
            Some(Fault::LostReply) => return lost(),
            Some(Fault::Crash) => {
                state.crash(usize::MAX);
                return lost();
            }
            _ => {}
        }
        let mut answer = answer?;
        let sent = codec::encode(&request);
        let sizes = (sent.len(), codec::encode(&answer).len());
        state.sent.extend(sent);
        state.transcript.push(sizes);
        if let Some(tamper) = &mut state.tamper {
            tamper(&request, &mut answer);
        }
        Ok(answer)
    }
}

impl Channel<Write> for World {
    async fn call(&self, request: write::Request) -> Result<write::Response, ChannelError> {
        self.auditor.write(&request);
        let mut state = self.state();
        match state.arrive() {
            None => {}
            Some(Fault::Late) if request.operation.is_none() => {
                state.late.push(request);
                return lost();
            }
            Some(Fault::LostRequest | Fault::Late) => return lost(),
            Some(Fault::LostReply) => {
                let _ = state.apply(&request);
                return lost();
            }
            Some(Fault::Crash) => {
                let _ = state.apply(&request);
                state.crash(usize::MAX);
                return lost();
            }
        }
        let sent = codec::encode(&request);
        let sizes = (sent.len(), 1);
        state.sent.extend(sent);
        state.transcript.push(sizes);
        state.apply(&request)
    }
}

/// A client, and what it was started with.
pub(crate) struct Client {
    pub(crate) world: Arc<World>,
    pub(crate) parameters: ArxRangeParameters,
    pub(crate) epoch: u64,
    pub(crate) own: Standalone<World>,
}

pub(crate) fn keys() -> Key {
    Key::take_from(&mut [3; 32])
}

pub(crate) fn parameters(bucket_factor: u64, top_nodes: usize, sums: usize) -> ArxRangeParameters {
    ArxRangeParameters { key_bytes: 2, bucket_factor, top_nodes, sums, aggregates: sums > 0 }
}

impl Client {
    /// Makes the index and opens it.
    pub(crate) async fn create(world: &Arc<World>, parameters: ArxRangeParameters) -> Self {
        let steps = ArxRange::<World>::create(INDEX, &keys(), parameters, &mut Prg::new(&[9; 16]));
        let operation = OperationId { epoch: 0, sequence: 0 };
        let request =
            write::Request { operation: Some(operation), finished_below: operation, acknowledged: 0, steps };
        Channel::<Write>::call(&**world, request).await.expect("no fault is planned");
        Self::open(world, parameters, 1).await.expect("no fault is planned")
    }

    /// Opens the index as a process of its own.
    pub(crate) async fn open(
        world: &Arc<World>,
        parameters: ArxRangeParameters,
        epoch: u64,
    ) -> Result<Self, IndexError> {
        Self::open_seeded(world, parameters, epoch, epoch).await
    }

    /// The same, with randomness of the caller's choice.
    pub(crate) async fn open_seeded(
        world: &Arc<World>,
        parameters: ArxRangeParameters,
        epoch: u64,
        seed_number: u64,
    ) -> Result<Self, IndexError> {
        let mut seed = [9; 16];
        seed[..8].copy_from_slice(&seed_number.to_be_bytes());
        let epochs = Arc::new(Epochs::new(epoch));
        let index =
            ArxRange::open(Arc::clone(world), INDEX, &keys(), parameters, epochs, &mut Prg::new(&seed))
                .await?;
        let own = Standalone::new(index, Arc::clone(world), epoch);
        Ok(Self { world: Arc::clone(world), parameters, epoch, own })
    }

    /// The next process.
    pub(crate) async fn restart(&mut self) -> Result<(), IndexError> {
        *self = Self::open(&self.world, self.parameters, self.epoch + 1).await?;
        Ok(())
    }
}

/// An entry with as many sums as the index has, all of `amount`.
pub(crate) fn entry(parameters: &ArxRangeParameters, key: u16, row: u8, amount: i32) -> RangeEntry {
    let mut sum = NumberSum::new();
    sum.add(Number::Int(amount));
    let mut id = [0; 16];
    id[0] = row;
    RangeEntry { value: key.to_be_bytes().to_vec(), row: RowId(id), sums: vec![sum; parameters.sums] }
}

/// Property tests of `default` cases, or as many as `PROPTEST_CASES` says.
pub(crate) fn cases(default: u32) -> proptest::test_runner::Config {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(default);
    // Histories are replayed from the seed that a failure prints.
    proptest::test_runner::Config { cases, failure_persistence: None, ..Default::default() }
}

pub(crate) fn run<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

impl World {
    /// The index's structure with every name replaced by its bucket's rank: equal for equal shapes.
    pub(crate) async fn shape(&self) -> String {
        use arras_protocol::NodeId;
        use arras_protocol::arx_range::FoundBucket;
        use std::collections::BTreeMap;
        use std::fmt::Write as _;
        let bucket = async |node| {
            let asked = Request::Buckets { index: INDEX, nodes: vec![node] };
            match Channel::<Protocol>::call(self, asked).await.expect("the list hangs together") {
                Response::Buckets(mut found) => found.remove(0),
                _ => panic!("not a bucket"),
            }
        };
        let (mut ranks, mut shape) = (BTreeMap::new(), String::new());
        let (mut node, mut previous) = (Some(NodeId::HEAD), None);
        while let Some(at) = node {
            let FoundBucket { bucket, .. } = bucket(at).await;
            assert_eq!(bucket.previous, previous, "back pointers");
            assert!(ranks.insert(at, ranks.len()).is_none(), "no cycle");
            writeln!(shape, "bucket {} bytes", bucket.sealed.len()).expect("a string");
            (previous, node) = (Some(at), bucket.next);
        }
        let rank = |node: Option<NodeId>| node.map(|node| ranks[&node]);
        let asked = Request::LoadTop { index: INDEX, after: None };
        let top = Channel::<Protocol>::call(self, asked).await.expect("the directory is there");
        let Response::Top { head_gap, head_sealed, nodes, more: false } = top else {
            panic!("not a directory")
        };
        writeln!(shape, "head {:?} {} bytes", rank(head_gap), head_sealed.len()).expect("a string");
        let mut lines = Vec::new();
        let mut open: Vec<NodeId> = head_gap.into_iter().collect();
        for (node, top) in &nodes {
            lines.push((ranks[node], format!("top {:?} {} bytes", rank(top.gap), top.sealed.len())));
            open.extend(top.gap);
        }
        let mut count = nodes.len() + 1;
        while let Some(root) = open.pop() {
            let asked = Request::LoadTrees { index: INDEX, roots: vec![root], depth: 1 };
            let Ok(Response::Trees(found)) = Channel::<Protocol>::call(self, asked).await else {
                panic!("a tree node is missing")
            };
            let record = &found[0].1;
            let line = format!("{:?} {:?} {}", rank(record.left), rank(record.right), record.sealed.len());
            lines.push((ranks[&root], line));
            open.extend(record.left.into_iter().chain(record.right));
            count += 1;
        }
        assert_eq!(count, ranks.len(), "every bucket has a node");
        let stored = self.stored();
        let rows = |table| stored.iter().filter(|(other, ..)| *other == table).count();
        // Without what was added beside them.
        let buckets =
            stored.iter().filter(|(table, name, _)| *table == "arx_range_buckets" && name.len() == 24);
        let kept = rows("arx_range_nodes") + rows("arx_range_top") + 1;
        assert_eq!(kept, buckets.count(), "nothing is left behind");
        assert_eq!(kept, ranks.len(), "nothing is left behind");
        assert!(rows("arx_range_circuits") <= 2 * rows("arx_range_nodes"), "nothing is left behind");
        lines.sort();
        for (rank, line) in lines {
            writeln!(shape, "{rank}: {line}").expect("a string");
        }
        shape
    }

    /// Every byte sent to the server.
    pub(crate) fn everything_sent(&self) -> Vec<u8> {
        self.state().sent.clone()
    }

    /// Every stored key and value.
    pub(crate) fn everything_stored(&self) -> Vec<u8> {
        use arras_storage::{Direction, Read, Storage, Table};
        use std::ops::{Bound, ControlFlow};
        let mut all = Vec::new();
        let tables: Vec<_> = self.stored().into_iter().map(|(table, ..)| table).collect();
        let state = self.state();
        let reader = state.backend.store().read().expect("memory does not fail");
        for table in std::collections::BTreeSet::from_iter(tables) {
            let everything = (Bound::Unbounded, Bound::Unbounded);
            reader
                .scan(Table(table), everything, Direction::Ascending, &mut |name, value| {
                    all.extend_from_slice(name);
                    all.extend_from_slice(value);
                    ControlFlow::Continue(())
                })
                .expect("memory does not fail");
        }
        all
    }
}
