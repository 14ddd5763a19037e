//! Random histories in pairs: what `docs/bisen.md` says is learned is equal in both, and all else is drawn apart. What the host sees
//! is then equal, but for labels and sealed bytes, which look uniform, and for orders, which are random.

use super::host::{ADMINISTRATOR, Disk, Host};
use arras_primitives::prg::Prg;
use arras_primitives::uniform::{shuffle, uniform};
use arras_protocol::Blob;
use arras_protocol::iee::{ConnectionId, StateName};
use arras_schemes::bisen::message::{Ask, Groups, Reply, Request, Rights, Settings};
use arras_schemes::bisen::query::{Filter, Padding, PhraseWord, Ranking, Search, Step};
use arras_schemes::bisen::update::{DocumentAction, Facts, Fence, Field, Metadata, Operation, Pair, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash};
use proptest::prelude::*;
use std::collections::{BTreeSet, HashMap};

/// Keywords come in groups, of which searches ask for all: that shows the entries of the group, and not of which keyword each is.
const GROUPS: usize = 4;
const WORDS: usize = 3;

/// What is equal in both.
#[derive(Clone, Debug)]
enum Event {
    /// A call: how many documents it has, and of which group each pair is.
    Update {
        documents: usize,
        groups: Vec<usize>,
    },
    /// A call that retires a document of each of these groups, if there is one.
    Retire {
        groups: Vec<usize>,
    },
    Search {
        groups: Vec<usize>,
    },
    /// A search for keywords that nothing has: how many, of how many words each phrase is, and of what kind each filter.
    LongSearch {
        keywords: usize,
        phrases: Vec<usize>,
        filters: Vec<usize>,
    },
    /// A right to documents of so many groups.
    Grant {
        groups: usize,
    },
    Compact,
    Restart,
}

/// Everything that the host sees.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    shape: Vec<(String, usize)>,
    /// Lengths of what clients say.
    said: Vec<usize>,
    /// In which put the labels of each put were first, and those of each question, in no order.
    put: Vec<Vec<usize>>,
    asked: Vec<Vec<usize>>,
    states: Vec<(StateName, usize)>,
    entries: usize,
}

struct Twin {
    host: Host,
    client: ConnectionId,
    draw: Prg,
    words: Vec<[KeywordHash; WORDS]>,
    /// Documents that are there, each with the group of its pair if it has one alone.
    documents: Vec<(DocumentName, Option<usize>)>,
    seen: Seen,
    firsts: HashMap<[u8; 16], usize>,
    /// Whether each document has one pair, so that what a compaction leaves is equal, too.
    single: bool,
}

impl Twin {
    fn new(seed: u8, single: bool) -> Self {
        let mut draw = Prg::new(&[seed; 16]);
        let mut hash = || {
            let mut bytes = [0; 16];
            draw.fill(&mut bytes);
            KeywordHash(bytes)
        };
        let words = (0..GROUPS).map(|_| [(); WORDS].map(|()| hash())).collect();
        let mut host = Host::started(Disk::default());
        let client = host.connect(1, ADMINISTRATOR);
        let (documents, seen, firsts) = (Vec::new(), Seen::default(), HashMap::new());
        let mut twin = Self { host, client, draw, words, documents, seen, firsts, single };
        let settings = Settings { fields: 2, padding: Padding::Fixed(50), profile: Blob::default() };
        twin.say(Request::Create { name: "mail".into(), settings });
        twin
    }

    /// A number below a bound.
    fn below(&mut self, bound: usize) -> usize {
        uniform(bound as u128 - 1, &mut self.draw) as usize
    }

    fn number(&mut self) -> u64 {
        let bits = self.below(65);
        if bits == 0 { 0 } else { self.draw.next_u64() >> (64 - bits) }
    }

    fn say(&mut self, request: Request) -> Reply {
        self.seen.said.push(Ask { number: 0, request: request.clone() }.encode().len());
        self.host.call(self.client, request)
    }

    fn word(&mut self, group: usize) -> KeywordHash {
        let word = self.below(WORDS);
        self.words[group][word]
    }

    fn facts(&mut self) -> Facts {
        let fields = [(); 4].map(|()| Field(self.number() as i64));
        Facts { length: self.number() as u32, visibility: self.number() as u32, fields }
    }

    fn fresh(&mut self) -> DocumentName {
        let mut name = [0; 16];
        self.draw.fill(&mut name);
        DocumentName(name)
    }

    fn update(&mut self, documents: usize, groups: &[usize]) {
        let mut update = Update::new(0);
        let documents = if self.single { groups.len() } else { documents };
        let mut there = self.documents.clone();
        shuffle(&mut there, &mut self.draw);
        let mut slots = Vec::new();
        for document in 0..documents {
            let facts = self.facts();
            let of = groups.get(document).copied().filter(|_| self.single);
            // The first one takes pairs.
            let choices = if document == 0 { 2 } else { 4 };
            let choice = if self.single { 0 } else { self.below(choices) };
            let (action, name) = match (choice, there.pop()) {
                (1, Some((name, _))) => (DocumentAction::Existing, name),
                (2, Some((name, _))) => {
                    self.documents.retain(|(other, _)| *other != name);
                    (DocumentAction::Retire, name)
                }
                (3, _) => (DocumentAction::New, self.fresh()),
                _ => (DocumentAction::NewPublished, self.fresh()),
            };
            if action == DocumentAction::NewPublished {
                self.documents.push((name, of));
            }
            let slot = update.document(action, name, facts).unwrap();
            if action != DocumentAction::Retire {
                slots.push(slot);
            }
        }
        for (at, group) in groups.iter().enumerate() {
            let keyword = self.word(*group);
            let operations = [Operation::Add, Operation::Continue, Operation::Delete];
            let operation = if self.single { Operation::Add } else { operations[self.below(3)] };
            let slot = if self.single { slots[at] } else { slots[self.below(slots.len())] };
            let mut metadata = [0; 12];
            self.draw.fill(&mut metadata);
            update.pair(&Pair { operation, keyword, slot, metadata: Metadata(metadata) }).unwrap();
        }
        assert_eq!(self.say(Request::Update(update)), Reply::Updated);
    }

    fn retire(&mut self, groups: &[usize]) {
        let mut update = Update::new(0);
        for group in groups {
            shuffle(&mut self.documents, &mut self.draw);
            let of_group = |(_, of): &(DocumentName, Option<usize>)| *of == Some(*group);
            if let Some(at) = self.documents.iter().position(of_group) {
                let (name, _) = self.documents.swap_remove(at);
                let facts = self.facts();
                update.document(DocumentAction::Retire, name, facts).unwrap();
            }
        }
        assert_eq!(self.say(Request::Update(update)), Reply::Updated);
    }

    fn search(&mut self, groups: &[usize]) {
        let mut search = Search::new(0);
        search.keywords = groups.iter().flat_map(|group| self.words[*group]).collect();
        shuffle(&mut search.keywords, &mut self.draw);
        let keywords = search.keywords.len();
        let operand = |twin: &mut Self| match (twin.below(4), keywords) {
            (0, _) | (_, 0) => Step::All,
            (1, _) => Step::Phrase([0, 1].map(|at| PhraseWord(twin.below(keywords) as u16, at)).to_vec()),
            _ => Step::Keyword(twin.below(keywords) as u16),
        };
        search.formula.push(operand(self));
        for _ in 0..self.below(12) {
            match self.below(3) {
                0 => search.formula.push(Step::Not),
                one => {
                    search.formula.push(operand(self));
                    search.formula.push(if one == 1 { Step::And } else { Step::Or });
                }
            }
        }
        for _ in 0..self.below(4) {
            let (value, field) = (self.number() as i64, self.below(2) as u8);
            search.filters.push(match self.below(4) {
                0 => Filter::field(field, value, value),
                1 => Filter::field(field, value, i64::MAX),
                2 => Filter::visibility(value as u32),
                _ => Filter::length(value as u32),
            });
        }
        let ranking = [Ranking::None, Ranking::TfIdf, Ranking::Bm25][self.below(3)];
        search = search.ranked_by(ranking);
        search.top = self.below(100) as u32;
        let reply = self.say(Request::Search(search));
        assert!(matches!(reply, Reply::Found(_)), "{reply:?}");
    }

    /// Numbers are all small in one search and all large in another, so that their lengths would add up.
    fn long_search(&mut self, keywords: usize, phrases: &[usize], filters: &[usize]) {
        let mut search = Search::new(0);
        search.keywords = (0..keywords).map(|_| KeywordHash(self.fresh().0)).collect();
        let (keyword, distance) = (self.below(keywords) as u16, self.number() as u16);
        search.formula = vec![Step::Keyword(keyword); keywords];
        search.formula.extend(phrases.iter().map(|words| {
            let mut words = vec![PhraseWord(keyword, distance); *words];
            words[0].1 = 0;
            Step::Phrase(words)
        }));
        search.formula = search.formula.into_iter().flat_map(|step| [step, Step::Or]).collect();
        search.formula.remove(1);
        let (value, field) = (self.number(), self.below(2) as u8);
        search.filters = filters.iter().map(|kind| filter(*kind, keyword, field, value)).collect();
        search.top = self.below(10_000) as u32;
        search.padding = Padding::Fixed(50);
        let reply = self.say(Request::Search(search));
        assert!(matches!(reply, Reply::Found(_)), "{reply:?}");
    }

    fn grant(&mut self, groups: usize) {
        let bits = 9 + self.below(24);
        let mut named = BTreeSet::new();
        while named.len() < groups {
            named.insert(self.draw.next_u64() as u32 >> (32 - bits));
        }
        let [search, update, rank] = [(); 3].map(|()| self.below(2) == 0);
        let (search, fields) = (search || !update, self.below(256) as u8);
        let rights = Rights { search, update, rank, fields, groups: Groups::only(named) };
        let grant = Request::Grant { identity: "bob".into(), collection: "mail".into(), rights };
        assert_eq!(self.say(grant), Reply::Done);
    }

    /// Notes what the host has seen since the last time.
    fn note(&mut self) {
        self.seen.shape.append(&mut self.host.shape);
        for labels in self.host.puts.drain(..) {
            let put = self.seen.put.len();
            let mut firsts: Vec<usize> =
                labels.iter().map(|label| *self.firsts.entry(*label).or_insert(put)).collect();
            firsts.sort_unstable();
            self.seen.put.push(firsts);
        }
        for labels in self.host.gets.drain(..) {
            let mut firsts: Vec<usize> = labels.iter().map(|label| self.firsts[label]).collect();
            firsts.sort_unstable();
            self.seen.asked.push(firsts);
        }
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Update { documents, groups } => self.update(*documents, groups),
            Event::Retire { groups } if self.single => self.retire(groups),
            Event::Search { groups } => self.search(groups),
            Event::LongSearch { keywords, phrases, filters } => self.long_search(*keywords, phrases, filters),
            Event::Grant { groups } => self.grant(*groups),
            Event::Compact if self.single => {
                let reply = self.say(Request::Compact { collection: 0, from: None, fence: Fence::default() });
                assert!(matches!(reply, Reply::Compacted { next: None, .. }), "{reply:?}");
            }
            Event::Retire { .. } | Event::Compact => {}
            Event::Restart => {
                self.note();
                self.host = Host::started(std::mem::take(&mut self.host.disk));
                self.client = self.host.connect(1, ADMINISTRATOR);
            }
        }
        self.note();
    }

    fn end(mut self) -> (Seen, Disk) {
        self.seen.states = self.host.disk.state.iter().map(|(name, state)| (*name, state.len())).collect();
        self.seen.entries = self.host.disk.entries.len();
        (self.seen, self.host.disk)
    }
}

/// One of each kind; those of a kind have one length.
fn filter(kind: usize, keyword: u16, field: u8, value: u64) -> Filter {
    match kind {
        0 => Filter::field(field, value as i64, value as i64),
        1 => Filter::frequency(keyword, value as u32),
        2 => Filter::visibility(value as u32),
        _ => Filter::length(value as u32),
    }
}

fn event() -> impl Strategy<Value = Event> {
    let groups = |most| prop::collection::vec(0..GROUPS, 0..most);
    prop_oneof![
        6 => (1..6_usize, groups(40)).prop_map(|(documents, groups)| Event::Update { documents, groups }),
        2 => groups(5).prop_map(|groups| Event::Retire { groups }),
        3 => prop::sample::subsequence((0..GROUPS).collect::<Vec<_>>(), 0..=GROUPS).prop_map(|groups| Event::Search { groups }),
        2 => (1..=256_usize, prop::collection::vec(1..=32_usize, 0..16), prop::collection::vec(0..4_usize, 0..=16))
            .prop_map(|(keywords, phrases, filters)| Event::LongSearch { keywords, phrases, filters }),
        1 => (0..=256_usize).prop_map(|groups| Event::Grant { groups }),
        1 => Just(Event::Compact),
        1 => Just(Event::Restart),
    ]
}

/// Ones among all bits are half of them, within seven standard deviations.
fn looks_uniform(bytes: impl Iterator<Item = u8>) -> bool {
    let (mut ones, mut bits) = (0.0, 0.0);
    for byte in bytes {
        ones += f64::from(byte.count_ones());
        bits += 8.0;
    }
    (ones - bits / 2.0).abs() <= 3.5 * f64::sqrt(bits) + 1.0
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn twins_of_equal_leakage_are_seen_alike(
        events in prop::collection::vec(event(), 1..16),
        seeds in (0..=255_u8, 0..=255_u8),
        single: bool,
    ) {
        let run = |seed| {
            let mut twin = Twin::new(seed, single);
            events.iter().for_each(|event| twin.take(event));
            twin.end()
        };
        let ((one, first), (other, second)) = (run(seeds.0), run(seeds.1));
        prop_assert_eq!(one, other);
        for disk in [&first, &second] {
            let entries = disk.entries.iter().flat_map(|(label, sealed)| label.iter().chain(sealed).copied());
            prop_assert!(looks_uniform(entries));
            prop_assert!(looks_uniform(disk.state.values().flatten().copied()));
        }
    }
}

/// Of two entries that a call puts and a search asks for together, each is the first one half of the time.
#[test]
fn orders_are_those_of_coins() {
    let mut twin = Twin::new(1, true);
    let [one, other, _] = twin.words[0];
    for _ in 0..400 {
        let mut update = Update::new(0);
        for keyword in [one, other] {
            let name = twin.fresh();
            let slot = update.document(DocumentAction::NewPublished, name, Facts::default()).unwrap();
            update.occurrences(slot, keyword, &[0]).unwrap();
        }
        twin.say(Request::Update(update));
    }
    let search = |keywords: Vec<KeywordHash>| {
        Request::Search(Search { keywords, formula: vec![Step::Keyword(0)], ..Search::new(0) })
    };
    twin.say(search(vec![one]));
    let of_one = twin.host.gets.pop().unwrap();
    assert_eq!(of_one.len(), 400);
    let firsts = twin.host.puts.iter().filter(|put| put.len() == 2 && of_one.contains(&put[0])).count();
    // Seven standard deviations of ten.
    assert!((130..=270).contains(&firsts), "{firsts} of 400 puts");
    twin.say(search(vec![one, other]));
    let both = twin.host.gets.pop().unwrap();
    assert_eq!(both.len(), 800);
    let early = both[..400].iter().filter(|label| of_one.contains(label)).count();
    assert!((130..=270).contains(&early), "{early} of the first 400 asked for");
}
