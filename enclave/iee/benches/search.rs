//! What updates, searches and ranking cost in one thread, with a host in memory: `cargo bench -p arras-iee --bench search`.
//!
//! Behind that, the same for a vocabulary of which tables of counters hold a part, beside tables that hold it all.
//!
//! Text analysis is not in it: words are numbers. Times are the thread's own, of enclave and host together.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use arras_iee::{Channels, Iee, SPILLED_MAX};
use arras_keys::Key;
use arras_primitives::prg::Prg;
use arras_protocol::Blob;
use arras_protocol::iee::{
    ConnectionId, ENTRY_BYTES, Incoming, LABEL_BYTES, Outgoing, SEALED_BYTES, StateName, counter_value,
};
use arras_schemes::bisen::channel::Plain;
use arras_schemes::bisen::message::{Answer, Ask, Reply, Request, Settings};
use arras_schemes::bisen::query::{Padding, Ranking, Search, Step};
use arras_schemes::bisen::update::{DocumentAction, Facts, PAIRS_MAX, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

/// Labels are random: their first bytes are their hash.
#[derive(Default)]
struct First(u64);

impl Hasher for First {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        if let Some(first) = bytes.first_chunk::<8>().filter(|_| bytes.len() == LABEL_BYTES) {
            self.0 = u64::from_le_bytes(*first);
        }
    }
}

type Entries = HashMap<[u8; LABEL_BYTES], [u8; SEALED_BYTES], BuildHasherDefault<First>>;

struct Host {
    iee: Iee,
    entries: Entries,
    state: HashMap<StateName, Blob>,
    /// Bytes of pieces that were loaded.
    loaded: usize,
    queue: VecDeque<Incoming>,
    channel: Plain,
    reply: Option<Reply>,
    /// Seconds in the storage.
    storage: f64,
}

const CLIENT: ConnectionId = ConnectionId(1);

fn seconds() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

impl Host {
    /// One whose enclave has no more than so many keywords in tables.
    fn new(counters_max: usize) -> Self {
        let iee =
            Iee::new(Key::generate(), Channels::Other(Plain::enclave)).with_bounds(counters_max, SPILLED_MAX);
        let queue = VecDeque::new();
        let mut host = Self {
            iee,
            entries: Entries::default(),
            state: HashMap::new(),
            loaded: 0,
            queue,
            channel: Plain::default(),
            reply: None,
            storage: 0.0,
        };
        host.queue.push_back(Incoming::Launch {
            memory_bytes: 1 << 30,
            administrator: "ada".into(),
            authority: Vec::new().into(),
        });
        host.run();
        host.queue.push_back(Incoming::Connected { connection: CLIENT, seconds: 0 });
        host.queue.push_back(Incoming::FromClient { connection: CLIENT, bytes: Blob(Plain::greet("ada")) });
        host.run();
        host
    }

    fn call(&mut self, request: Request) -> Reply {
        let bytes = self.channel.wrap(&Ask { number: 1, request }.encode());
        self.queue.push_back(Incoming::FromClient { connection: CLIENT, bytes: Blob(bytes) });
        self.run();
        self.reply.take().unwrap()
    }

    fn run(&mut self) {
        while let Some(incoming) = self.queue.pop_front() {
            for message in self.iee.receive(incoming).unwrap() {
                self.take(message);
            }
        }
    }

    fn take(&mut self, message: Outgoing) {
        let begun = seconds();
        let (ask, bytes) = match message {
            Outgoing::Get { ask, labels } => {
                let (labels, _) = labels.as_slice().as_chunks::<LABEL_BYTES>();
                let mut entries = Vec::with_capacity(labels.len() * SEALED_BYTES);
                labels.iter().for_each(|label| entries.extend_from_slice(&self.entries[label]));
                (ask, Some(Blob(entries)))
            }
            Outgoing::Put { ask, entries } => {
                for entry in entries.as_slice().as_chunks::<ENTRY_BYTES>().0 {
                    let (label, sealed) = entry.split_first_chunk::<LABEL_BYTES>().unwrap();
                    self.entries.insert(*label, sealed.try_into().unwrap());
                }
                (ask, None)
            }
            Outgoing::Remove { ask, .. } => (ask, None),
            Outgoing::Save { ask, name, state } => {
                self.state.insert(name, state);
                (ask, None)
            }
            Outgoing::Forget { ask, until } => {
                self.state.retain(|name, _| match name {
                    StateName::Head => true,
                    StateName::Log(number) => *number > until,
                    StateName::Checkpoint { generation, .. } => *generation >= until,
                });
                (ask, None)
            }
            Outgoing::Load { ask, name } => {
                let state = self.state.get(&name).cloned();
                self.loaded += state.as_ref().map_or(0, Blob::len);
                (ask, state)
            }
            Outgoing::ReadCounter(ask) => (ask, counter_value(0)),
            Outgoing::RaiseCounter { ask, from, .. } => (ask, counter_value(from)),
            Outgoing::Attest { .. } => panic!("nothing is attested on plain channels"),
            Outgoing::Again => return self.queue.push_back(Incoming::Again),
            Outgoing::ToClient { bytes, .. } => {
                self.reply = Some(Answer::decode(self.channel.unwrap(&bytes.0).unwrap()).unwrap().reply);
                return;
            }
            Outgoing::Part { .. } => panic!("no search has more than a page"),
            Outgoing::Ready | Outgoing::Opened(_) | Outgoing::Close(_) => return,
        };
        self.storage += seconds() - begun;
        self.queue.push_back(Incoming::Answer { ask, bytes });
    }
}

fn word(number: u32) -> KeywordHash {
    let mut bytes = [0x5a; 16];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    KeywordHash(bytes)
}

/// A document of 64 words: each of five common ones with its own chance, the others as Zipf has them, about.
fn document(prg: &mut Prg, number: u32, update: &mut Update) {
    let mut name = [0; 16];
    name[..4].copy_from_slice(&number.to_le_bytes());
    let facts = Facts { length: 120, ..Facts::default() };
    let slot = update.document(DocumentAction::NewPublished, DocumentName(name), facts).unwrap();
    let mut words: Vec<u32> =
        (0..5).filter(|common| prg.next_u64() % 10 < 8 - common).map(|at| at as u32).collect();
    while words.len() < 64 {
        let uniform = (prg.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        words.push(5 + (200_000_f64.powf(uniform) as u32));
    }
    words.sort_unstable();
    words.dedup();
    for number in words {
        update.occurrences(slot, word(number), &[number % 100, number % 90 + 200]).unwrap();
    }
}

fn search(host: &mut Host, ranking: Ranking) -> (f64, f64) {
    let mut search = Search::new(0);
    search.keywords = (0..5).map(word).collect();
    search.formula = (0..5).map(Step::Keyword).chain(vec![Step::And; 4]).collect();
    search.top = if ranking == Ranking::None { 0 } else { 100 };
    search.padding = Padding::Fixed(100);
    search = search.ranked_by(ranking);
    let (begun, storage) = (seconds(), host.storage);
    let reply = host.call(Request::Search(search));
    let taken = seconds() - begun;
    let Reply::Found(page) = reply else { panic!("{reply:?}") };
    assert!(page.matches() > 0);
    (taken, host.storage - storage)
}

/// Updates of documents of 64 words, half of them new about, and searches of one word; pairs a second, seconds a search, bytes that each read.
fn vocabulary(counters_max: usize) -> [f64; 3] {
    const DOCUMENTS: u32 = 60_000;
    let mut host = Host::new(counters_max);
    let settings = Settings { fields: 0, padding: Padding::None, profile: Blob::default() };
    host.call(Request::Create { name: "bench".into(), settings });
    let mut prg = Prg::new(&[4; 16]);
    let (mut pairs, mut taken, mut next) = (0, 0.0, 0);
    while next < DOCUMENTS {
        let mut update = Update::new(0);
        for number in next..DOCUMENTS.min(next + 512) {
            let mut name = [1; 16];
            name[..4].copy_from_slice(&number.to_le_bytes());
            let facts = Facts { length: 64, ..Facts::default() };
            let slot = update.document(DocumentAction::NewPublished, DocumentName(name), facts).unwrap();
            for at in 0..64 {
                let common = 1e5_f64.powf((prg.next_u64() >> 11) as f64 / (1_u64 << 53) as f64) as u32;
                let of = if at % 2 == 0 { word(common) } else { word((1 << 24) + number * 64 + at) };
                update.occurrences(slot, of, &[at]).unwrap();
            }
        }
        next += 512;
        pairs += update.pair_count();
        let begun = seconds();
        assert_eq!(host.call(Request::Update(update)), Reply::Updated);
        taken += seconds() - begun;
    }
    let (begun, loaded, searches) = (seconds(), host.loaded, 20);
    for at in 0..searches {
        let keywords = vec![word((1 << 24) + at * 64 * 1000 + 1)];
        let search = Search { keywords, formula: vec![Step::Keyword(0)], ..Search::new(0) };
        let Reply::Found(page) = host.call(Request::Search(search)) else { panic!("refused") };
        assert_eq!(page.matches(), 1);
    }
    let each = (seconds() - begun) / f64::from(searches);
    [pairs as f64 / taken, each, (host.loaded - loaded) as f64 / f64::from(searches)]
}

fn spilled() {
    println!("2,000,000 keywords               in memory, then with tables of 200,000");
    let rounds: Vec<[[f64; 3]; 2]> = (0..3).map(|_| [vocabulary(usize::MAX), vocabulary(200_000)]).collect();
    for (name, column, scale) in
        [("updates, pairs a second", 0, 1.0), ("a search, milliseconds", 1, 1e3), ("  reads, KB", 2, 1e-3)]
    {
        let median = |side: usize| {
            let mut values: Vec<f64> = rounds.iter().map(|round| round[side][column] * scale).collect();
            values.sort_by(f64::total_cmp);
            values[1]
        };
        println!("{name:32} {:.3}, {:.3}", median(0), median(1));
    }
}

fn main() {
    spilled();
    let documents: u32 = 330_000;
    let mut host = Host::new(usize::MAX);
    let settings = Settings { fields: 0, padding: Padding::None, profile: Blob::default() };
    host.call(Request::Create { name: "bench".into(), settings });
    let mut prg = Prg::new(&[3; 16]);
    let (mut pairs, mut taken) = (0, 0.0);
    let mut next = 0;
    while next < documents {
        let mut update = Update::new(0);
        while next < documents && update.pair_count() + 64 <= PAIRS_MAX && update.document_count() < 1024 {
            document(&mut prg, next, &mut update);
            next += 1;
        }
        pairs += update.pair_count();
        let begun = seconds();
        assert_eq!(host.call(Request::Update(update)), Reply::Updated);
        taken += seconds() - begun;
    }
    let stored = host.entries.len();
    println!("documents                        {documents}");
    println!("pairs                            {pairs}");
    println!("stored bytes a pair              {}", stored * ENTRY_BYTES / pairs);
    println!("updates, pairs a second          {:.0}", pairs as f64 / taken);
    println!("  without the storage's time     {:.0}", pairs as f64 / (taken - host.storage));
    let postings: u64 = (0..5).map(|common| u64::from(documents) * (8 - common) / 10).sum();
    println!("conjunction of 5, postings about {postings}");
    let rounds: Vec<[f64; 4]> = (0..9)
        .map(|_| {
            let (exact, exact_storage) = search(&mut host, Ranking::None);
            let (ranked, _) = search(&mut host, Ranking::Bm25);
            [exact, exact_storage, ranked, ranked / exact]
        })
        .collect();
    let median = |column: usize| {
        let mut values: Vec<f64> = rounds.iter().map(|round| round[column]).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    println!("exact match, seconds             {:.3}", median(0));
    println!("  of that in the storage         {:.3}", median(1));
    println!("  a million postings             {:.3}", median(0) * 1e6 / postings as f64);
    println!("ranked, top 100, seconds         {:.3}", median(2));
    println!("  times exact match              {:.2}", median(3));
}
