//! Runs one protocol: inserts the records, asks the queries, checks every answer, and reads the counters.

use super::request::{ChannelKind, Plan, StoreKind};
use super::result::{
    Cost, Ending, LeakageInWords, ProtocolResult, QueryTrace, Stage, StageResult, primitive_calls,
};
use super::{Progress, Watch};
use crate::channel::{
    Counting, Delaying, LabChannel, Link, NetworkError, ServerMeter, ServerProcess, Traffic, TrafficTally,
};
use crate::pages::{PageCounts, PageSettings, PageSettingsError, PageTally, Paged};
use crate::protocols::{Answer, Construction, Made, Making, ProtocolEntry, SchemeCalls};
use crate::queries::RangeQuery;
use arras_primitives::meter::{self, Reading};
use arras_protocol::RowId;
use arras_protocol::leakage::{Leakage, Pattern};
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::error::IndexError;
use arras_server::Backend;
use arras_storage::{Embedded, Memory, Storage, StorageError};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest time between two reports of progress.
const REPORT: Duration = Duration::from_millis(50);

/// Why a protocol's run ended early.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Index(#[from] IndexError),
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error(transparent)]
    Pages(#[from] PageSettingsError),
    #[error(transparent)]
    Scratch(#[from] std::io::Error),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("stopped")]
    Stopped,
    #[error("a wrong answer to {}..={}: {what}", query.lower, query.upper)]
    WrongAnswer { query: RangeQuery, what: String },
}

/// A server, and what can be counted at it.
struct Server {
    link: Link,
    pages: Option<PageTally>,
    meter: Option<ServerMeter>,
    stored_bytes: Box<dyn Fn() -> Result<Option<u64>, StorageError>>,
    /// Ended and removed after everything else.
    _held: (Option<ServerProcess>, Option<tempfile::TempDir>),
}

impl Server {
    async fn start(plan: &Plan) -> Result<Self, Failure> {
        match (plan.request.channel, plan.request.store) {
            (ChannelKind::Network, _) => {
                let process = ServerProcess::start()?;
                let link = Link::Network(process.connect().await?);
                let stored_bytes = Box::new(|| Ok(None));
                Ok(Self { link, pages: None, meter: None, stored_bytes, _held: (Some(process), None) })
            }
            (ChannelKind::Direct, StoreKind::Memory) => Self::here(plan, Memory::new(), None),
            (ChannelKind::Direct, StoreKind::Embedded) => {
                let directory = tempfile::tempdir()?;
                let store = Embedded::open(&directory.path().join("store"))?;
                Self::here(plan, store, Some(directory))
            }
        }
    }

    fn here<S: Storage>(
        plan: &Plan,
        store: S,
        directory: Option<tempfile::TempDir>,
    ) -> Result<Self, Failure> {
        let settings = PageSettings {
            page_bytes: plan.request.page_bytes,
            cache_pages: plan.request.cache_pages,
            policy: plan.request.cache_policy,
        };
        let store = Paged::new(store, settings)?;
        let pages = store.tally();
        let backend = Arc::new(Backend::open(store, [7; 16])?);
        let meter = ServerMeter::default();
        let link = Link::Direct(Arc::clone(&backend) as Arc<_>, meter.clone());
        let stored_bytes = Box::new(move || backend.store().stored_bytes().map(Some));
        Ok(Self { link, pages: Some(pages), meter: Some(meter), stored_bytes, _held: (None, directory) })
    }
}

/// Everything that is counted.
struct Gauges {
    pages: Option<PageTally>,
    server: Option<ServerMeter>,
    traffic: TrafficTally,
    scheme: Option<crate::protocols::SchemeTally>,
}

/// What the gauges show.
#[derive(Clone, Copy)]
struct Shown {
    pages: Option<PageCounts>,
    server: Option<Reading>,
    all: Reading,
    traffic: Traffic,
    scheme: Option<SchemeCalls>,
    at: Instant,
}

impl Gauges {
    fn read(&self) -> Shown {
        Shown {
            pages: self.pages.as_ref().map(PageTally::counts),
            server: self.server.as_ref().map(ServerMeter::reading),
            all: meter::reading(),
            traffic: self.traffic.traffic(),
            scheme: self.scheme.as_ref().map(crate::protocols::SchemeTally::calls),
            at: Instant::now(),
        }
    }

    fn trace_since(&self, before: &(PageCounts, Traffic, Instant), results: usize) -> QueryTrace {
        let (pages, traffic, _) = self.brief();
        let pages = pages - before.0;
        let traffic = traffic - before.1;
        QueryTrace {
            page_io: pages.reads + pages.writes,
            messages: traffic.messages,
            bytes: traffic.overhead_bytes(),
            results: results as u64,
            elapsed_ns: nanoseconds(before.2.elapsed()),
        }
    }

    fn brief(&self) -> (PageCounts, Traffic, Instant) {
        let pages = self.pages.as_ref().map(PageTally::counts).unwrap_or_default();
        (pages, self.traffic.traffic(), Instant::now())
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl Shown {
    fn since(&self, before: &Self) -> Cost {
        let all = self.all - before.all;
        let server = self.server.zip(before.server).map(|(now, before)| now - before);
        Cost {
            pages: self.pages.zip(before.pages).map(|(now, before)| now - before),
            traffic: self.traffic - before.traffic,
            client_primitives: primitive_calls(&(all - server.unwrap_or_default())),
            server_primitives: server.as_ref().map(primitive_calls),
            scheme: self.scheme.zip(before.scheme).map(|(now, before)| now - before),
            elapsed_ns: nanoseconds(self.at - before.at),
        }
    }
}

/// A protocol's run under way.
struct Drive<'a> {
    plan: &'a Plan,
    protocol: &'static ProtocolEntry,
    watch: &'a Watch<'a>,
    reported: Instant,
    result: ProtocolResult,
}

/// Runs one protocol on this thread, which must have no asynchronous runtime. What goes wrong is in the result.
pub(super) fn run_protocol(
    plan: &Plan,
    protocol: &'static ProtocolEntry,
    watch: &Watch<'_>,
) -> ProtocolResult {
    let result = ProtocolResult {
        protocol: protocol.name.to_owned(),
        title: protocol.title.to_owned(),
        leakage: leakage_in_words(&(protocol.leakage)(plan.request.numbers.domain().width)),
        stages: Vec::new(),
        queries: Vec::new(),
        stored_bytes: None,
        ciphertext_bytes: None,
        state_bytes: 0,
        ending: Ending::Finished,
    };
    let mut drive = Drive { plan, protocol, watch, reported: Instant::now(), result };
    let ran = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::from)
        .and_then(|runtime| runtime.block_on(drive.run()));
    drive.result.ending = match ran {
        Ok(()) => Ending::Finished,
        Err(Failure::Stopped) => Ending::Stopped,
        Err(failure) => Ending::Failed(failure.to_string()),
    };
    drive.result
}

fn leakage_in_words(leakage: &Leakage) -> LeakageInWords {
    let words = |patterns: &[Pattern]| patterns.iter().map(|pattern| pattern.describe().to_owned()).collect();
    LeakageInWords {
        snapshot: words(leakage.snapshot),
        search: words(leakage.search),
        update: words(leakage.update),
        attacks: leakage.attacks.iter().map(|attack| (*attack).to_owned()).collect(),
    }
}

impl Drive<'_> {
    async fn run(&mut self) -> Result<(), Failure> {
        let server = Server::start(self.plan).await?;
        let channel: LabChannel = Counting::new(Delaying::new(server.link.clone(), self.plan.round_trip()));
        let traffic = channel.tally();
        let making = Making {
            channel: Arc::new(channel),
            width: self.plan.request.numbers.domain().width,
            page_bytes: self.plan.request.page_bytes,
            records: self.plan.values.len(),
            seed: self.plan.request.seed,
        };
        let made = self.protocol.make(making).await?;
        let gauges = Gauges {
            pages: server.pages.clone(),
            server: server.meter.clone(),
            traffic,
            scheme: made.scheme.clone(),
        };
        let ran = self.stages(&made, &gauges).await;
        self.result.state_bytes = (made.state_bytes)().await;
        self.result.ciphertext_bytes = made.ciphertext_bytes;
        self.result.stored_bytes = (server.stored_bytes)()?;
        ran
    }

    async fn stages(&mut self, made: &Made, gauges: &Gauges) -> Result<(), Failure> {
        let before = gauges.read();
        let mut inserted = 0;
        let ran = self.construct(made, &mut inserted).await;
        self.finish(Stage::Construction, inserted, 0, &before, gauges);
        ran?;
        let records = Records::new(self.plan);
        let (first, others) = self.plan.queries.split_at(self.plan.queries.len().min(1));
        for (stage, queries) in [(Stage::FirstQuery, first), (Stage::Queries, others)] {
            if queries.is_empty() {
                continue;
            }
            let before = gauges.read();
            let answered = self.result.queries.len();
            let ran = self.ask(stage, made, queries, &records, gauges).await;
            let traces = &self.result.queries[answered..];
            let (operations, results) = (traces.len() as u64, traces.iter().map(|trace| trace.results).sum());
            self.finish(stage, operations, results, &before, gauges);
            ran?;
        }
        Ok(())
    }

    fn finish(&mut self, stage: Stage, operations: u64, results: u64, before: &Shown, gauges: &Gauges) {
        let cost = gauges.read().since(before);
        self.result.stages.push(StageResult { stage, operations, results, cost });
    }

    fn step(&mut self, stage: Stage, done: usize, of: usize) -> Result<(), Failure> {
        let now = Instant::now();
        if done == 0 || done == of || now - self.reported >= REPORT {
            self.reported = now;
            self.watch.report(&Progress { protocol: self.protocol.name, stage, done, of });
        }
        if self.watch.stopped() { Err(Failure::Stopped) } else { Ok(()) }
    }

    async fn construct(&mut self, made: &Made, inserted: &mut u64) -> Result<(), Failure> {
        let values = &self.plan.values;
        let domain = self.plan.request.numbers.domain();
        let entry = |(at, value): (usize, &i64)| RangeEntry {
            // The plan has no value outside its domain.
            value: domain.key(domain.plaintext(i128::from(*value)).unwrap_or_default()),
            row: row(at),
            sums: Vec::new(),
        };
        self.step(Stage::Construction, 0, values.len())?;
        match self.protocol.construction {
            Construction::Bulk => {
                made.index.insert(values.iter().enumerate().map(entry).collect()).await?;
                *inserted = values.len() as u64;
            }
            Construction::OneByOne => {
                for numbered in values.iter().enumerate() {
                    made.index.insert(vec![entry(numbered)]).await?;
                    *inserted += 1;
                    self.step(Stage::Construction, numbered.0 + 1, values.len())?;
                }
            }
        }
        self.step(Stage::Construction, values.len(), values.len())
    }

    async fn ask(
        &mut self,
        stage: Stage,
        made: &Made,
        queries: &[RangeQuery],
        records: &Records,
        gauges: &Gauges,
    ) -> Result<(), Failure> {
        self.step(stage, 0, queries.len())?;
        for (at, query) in queries.iter().enumerate() {
            let (lower, upper) = (records.key(query.lower), records.key(query.upper));
            let before = gauges.brief();
            let answer = made.index.search(lower, upper).await?;
            self.result.queries.push(gauges.trace_since(&before, answer.len()));
            records.check(*query, &answer).map_err(|what| Failure::WrongAnswer { query: *query, what })?;
            self.step(stage, at + 1, queries.len())?;
        }
        Ok(())
    }
}

/// The row of the record at a place.
fn row(at: usize) -> RowId {
    let mut bytes = [0; RowId::BYTES];
    bytes[RowId::BYTES - 8..].copy_from_slice(&(at as u64).to_be_bytes());
    RowId(bytes)
}

/// The records in order: what every answer is compared with.
struct Records {
    sorted: Vec<(i64, RowId)>,
    domain: arras_schemes::ore::domain::Domain,
}

impl Records {
    fn new(plan: &Plan) -> Self {
        let mut sorted: Vec<_> =
            plan.values.iter().enumerate().map(|(at, value)| (*value, row(at))).collect();
        sorted.sort_unstable();
        Self { sorted, domain: plan.request.numbers.domain() }
    }

    fn key(&self, value: i64) -> Vec<u8> {
        self.domain.key(self.domain.plaintext(i128::from(value)).unwrap_or_default())
    }

    /// Whether an answer has exactly the records of the range, in order of their values; what is wrong if not.
    fn check(&self, query: RangeQuery, answer: &Answer) -> Result<(), String> {
        let from = self.sorted.partition_point(|(value, _)| *value < query.lower);
        let to = self.sorted.partition_point(|(value, _)| *value <= query.upper);
        let expected = &self.sorted[from..to.max(from)];
        if answer.len() != expected.len() {
            return Err(format!("{} records in place of {}", answer.len(), expected.len()));
        }
        if !answer.is_sorted_by_key(|(key, _)| key) {
            return Err("the records are not in order".to_owned());
        }
        let mut answer = answer.clone();
        answer.sort_unstable();
        let same =
            answer.iter().zip(expected).all(|(got, (value, row))| got.1 == *row && got.0 == self.key(*value));
        if same { Ok(()) } else { Err("other records".to_owned()) }
    }
}
