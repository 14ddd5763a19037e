//! Random histories against sets of words by document.

use super::host::{ADMINISTRATOR, Disk, Host};
use arras_protocol::iee::ConnectionId;
use arras_schemes::bisen::message::{Reply, Request};
use arras_schemes::bisen::query::{Filter, PhraseWord, Ranking, Search, Step};
use arras_schemes::bisen::update::{DocumentAction, Facts, Fence, Field, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const WORDS: u8 = 6;
const GROUPS: u32 = 3;

fn word(number: u8) -> KeywordHash {
    KeywordHash([number + 1; 16])
}

fn name(number: u8) -> DocumentName {
    DocumentName([number; 16])
}

/// A document: its words by position, and a field.
#[derive(Clone, Debug, Default)]
struct Text {
    words: Vec<u8>,
    /// Words that were deleted from it afterwards.
    deleted: BTreeSet<u8>,
    field: i64,
}

impl Text {
    fn has(&self, word: u8) -> bool {
        !self.deleted.contains(&word) && self.words.contains(&word)
    }

    fn positions(&self, word: u8) -> Vec<u32> {
        let here = self.words.iter().zip(0..).filter(|(other, _)| **other == word);
        here.map(|(_, at)| at).filter(|_| self.has(word)).collect()
    }
}

#[derive(Clone, Debug)]
enum Event {
    Put { document: u8, words: Vec<u8>, field: i64 },
    Draft { document: u8, words: Vec<u8> },
    Delete { document: u8, word: u8 },
    Retire { document: u8 },
    Compact,
    Restart,
    Crash { after: usize, document: u8, words: Vec<u8> },
}

fn words() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(0..WORDS, 0..24)
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => (0..8_u8, words(), -3..3_i64).prop_map(|(document, words, field)| Event::Put { document, words, field }),
        1 => (0..8_u8, words()).prop_map(|(document, words)| Event::Draft { document, words }),
        2 => (0..8_u8, 0..WORDS).prop_map(|(document, word)| Event::Delete { document, word }),
        1 => (0..8_u8).prop_map(|document| Event::Retire { document }),
        1 => Just(Event::Compact),
        1 => Just(Event::Restart),
        1 => (0..32_usize, 0..8_u8, words()).prop_map(|(after, document, words)| Event::Crash { after, document, words }),
    ]
}

#[derive(Clone, Debug)]
enum Formula {
    Word(u8),
    Phrase(Vec<u8>),
    All,
    Not(Box<Self>),
    And(Box<Self>, Box<Self>),
    Or(Box<Self>, Box<Self>),
}

fn formula() -> impl Strategy<Value = Formula> {
    let leaf = prop_oneof![
        4 => (0..WORDS).prop_map(Formula::Word),
        2 => prop::collection::vec(0..WORDS, 1..4).prop_map(Formula::Phrase),
        1 => Just(Formula::All),
    ];
    leaf.prop_recursive(4, 16, 2, |inner| {
        let (one, other) = (inner.clone().prop_map(Box::new), inner.clone().prop_map(Box::new));
        let (first, second) = (inner.clone().prop_map(Box::new), inner.clone().prop_map(Box::new));
        prop_oneof![
            inner.prop_map(|inner| Formula::Not(Box::new(inner))),
            (one, other).prop_map(|(one, other)| Formula::And(one, other)),
            (first, second).prop_map(|(one, other)| Formula::Or(one, other)),
        ]
    })
}

impl Formula {
    fn holds(&self, text: &Text) -> bool {
        match self {
            Self::Word(word) => text.has(*word),
            Self::Phrase(words) => {
                let at = |start: u32| {
                    words.iter().zip(start..).all(|(word, at)| text.positions(*word).contains(&at))
                };
                (0..30).any(at)
            }
            Self::All => true,
            Self::Not(inner) => !inner.holds(text),
            Self::And(one, other) => one.holds(text) && other.holds(text),
            Self::Or(one, other) => one.holds(text) || other.holds(text),
        }
    }

    fn steps(&self, steps: &mut Vec<Step>) {
        match self {
            Self::Word(word) => steps.push(Step::Keyword(u16::from(*word))),
            Self::Phrase(words) => {
                steps.push(Step::Phrase(
                    words.iter().zip(0..).map(|(word, at)| PhraseWord(u16::from(*word), at)).collect(),
                ));
            }
            Self::All => steps.push(Step::All),
            Self::Not(inner) => {
                inner.steps(steps);
                steps.push(Step::Not);
            }
            Self::And(one, other) | Self::Or(one, other) => {
                one.steps(steps);
                other.steps(steps);
                steps.push(if matches!(self, Self::And(..)) { Step::And } else { Step::Or });
            }
        }
    }
}

/// A filter.
#[derive(Clone, Debug)]
enum Within {
    Range(i64, i64),
    Frequency(u8, u32),
    Group(u32),
    Length(u32),
}

fn within() -> impl Strategy<Value = Within> {
    prop_oneof![
        2 => (-3..3_i64, -3..3_i64).prop_map(|(from, until)| Within::Range(from, until)),
        1 => (-3..3_i64).prop_map(|value| Within::Range(value, value)),
        2 => (0..WORDS, 1..4_u32).prop_map(|(word, least)| Within::Frequency(word, least)),
        1 => (0..GROUPS).prop_map(Within::Group),
        1 => (0..24_u32).prop_map(Within::Length),
    ]
}

impl Within {
    fn holds(&self, text: &Text) -> bool {
        match self {
            Self::Range(from, until) => (*from..=*until).contains(&text.field),
            Self::Frequency(word, least) => text.positions(*word).len() >= *least as usize,
            Self::Group(number) => group(&text.words) == *number,
            Self::Length(least) => text.words.len() >= *least as usize,
        }
    }

    fn filter(&self) -> Filter {
        match *self {
            Self::Range(from, until) => Filter::field(0, from, until),
            Self::Frequency(word, at_least) => Filter::frequency(u16::from(word), at_least),
            Self::Group(number) => Filter::visibility(number),
            Self::Length(least) => Filter::length(least),
        }
    }
}

/// The group that may see a document.
fn group(words: &[u8]) -> u32 {
    words.len() as u32 % GROUPS
}

fn put(update: &mut Update, action: DocumentAction, document: u8, words: &[u8], field: i64) {
    let facts =
        Facts { length: words.len() as u32, visibility: group(words), fields: [field, 0, 0, 0].map(Field) };
    let slot = update.document(action, name(document), facts).unwrap();
    for number in 0..WORDS {
        let text = Text { words: words.to_vec(), ..Text::default() };
        let positions = text.positions(number);
        if !positions.is_empty() {
            update.occurrences(slot, word(number), &positions).unwrap();
        }
    }
}

struct World {
    host: Host,
    client: ConnectionId,
    collection: u32,
    texts: BTreeMap<u8, Text>,
    crashes: i64,
    /// Most keywords in tables: what is beyond is spilled.
    counters_max: usize,
}

impl World {
    fn new(counters_max: usize) -> Self {
        let mut host = Host::with_counters(Disk::default(), counters_max).start();
        let client = host.connect(1, ADMINISTRATOR);
        let collection = host.create(client, "mail", 1).collection;
        Self { host, client, collection, texts: BTreeMap::new(), crashes: 0, counters_max }
    }

    fn restart(&mut self) {
        let disk = std::mem::take(&mut self.host.disk);
        self.host = Host::with_counters(disk, self.counters_max).start();
        self.client = self.host.connect(1, ADMINISTRATOR);
        let reply = self.host.call(self.client, Request::Open("mail".into()));
        assert!(matches!(reply, Reply::Opened(_)), "{reply:?}");
    }

    fn update(&mut self, fill: impl FnOnce(&mut Update)) {
        let mut update = Update::new(self.collection);
        fill(&mut update);
        assert_eq!(self.host.call(self.client, Request::Update(update)), Reply::Updated);
    }

    fn compact(&mut self) {
        let mut from = None;
        loop {
            let request = Request::Compact { collection: self.collection, from, fence: Fence::default() };
            match self.host.call(self.client, request) {
                Reply::Compacted { next: None, .. } => return,
                Reply::Compacted { next, .. } => from = next,
                other => panic!("{other:?}"),
            }
        }
    }

    fn take(&mut self, event: &Event) {
        match event {
            Event::Put { document, words, field } => {
                self.update(|update| put(update, DocumentAction::NewPublished, *document, words, *field));
                let text = Text { words: words.clone(), field: *field, ..Text::default() };
                self.texts.insert(*document, text);
            }
            // A draft that nobody publishes is as if it were not there.
            Event::Draft { document, words } => {
                self.update(|update| put(update, DocumentAction::New, *document, words, 0));
            }
            Event::Delete { document, word: number } => {
                if let Some(text) = self.texts.get_mut(document) {
                    text.deleted.insert(*number);
                    self.update(|update| {
                        let action = DocumentAction::Existing;
                        let slot = update.document(action, name(*document), Facts::default()).unwrap();
                        update.delete(slot, word(*number)).unwrap();
                    });
                }
            }
            Event::Retire { document } => {
                self.texts.remove(document);
                self.update(|update| {
                    update.document(DocumentAction::Retire, name(*document), Facts::default()).unwrap();
                });
            }
            Event::Compact => self.compact(),
            Event::Restart => self.restart(),
            Event::Crash { after, document, words } => self.crash(*after, *document, words),
        }
    }

    /// The enclave ends in the middle of an update: afterwards it is there whole, or not at all.
    fn crash(&mut self, after: usize, document: u8, words: &[u8]) {
        self.crashes += 1;
        // A field that no other document has says which.
        let field = 1000 + self.crashes;
        let mut update = Update::new(self.collection);
        put(&mut update, DocumentAction::NewPublished, document, words, field);
        self.host.crash_after = Some(after);
        let number = self.host.send(self.client, Request::Update(update));
        self.host.run().unwrap();
        let answered = self.host.answer(self.client, number).is_some();
        self.restart();
        let is_there = !self.find(&Formula::All, &[Within::Range(field, field)]).is_empty();
        assert!(is_there || !answered, "what was answered is there");
        if is_there {
            self.texts.insert(document, Text { words: words.to_vec(), field, ..Text::default() });
        }
        for word in 0..WORDS {
            let with = self.texts.iter().filter(|(_, text)| text.has(word));
            let expected: BTreeSet<u8> = with.map(|(document, _)| *document).collect();
            assert_eq!(self.find(&Formula::Word(word), &[]), expected);
        }
    }

    fn find(&mut self, formula: &Formula, filters: &[Within]) -> BTreeSet<u8> {
        let mut search = Search::new(self.collection);
        search.keywords = (0..WORDS).map(word).collect();
        formula.steps(&mut search.formula);
        search.filters.extend(filters.iter().map(Within::filter));
        let found = |host: &mut Host, client, search| {
            let pages = host.search(client, search).unwrap();
            pages.iter().flat_map(|page| page.hits().map(|hit| hit.name.0[0]).collect::<Vec<_>>()).collect()
        };
        let exact: BTreeSet<u8> = found(&mut self.host, self.client, search.clone());
        for ranking in [Ranking::TfIdf, Ranking::Bm25] {
            let search = search.clone().ranked_by(ranking);
            assert_eq!(found(&mut self.host, self.client, search), exact, "ranking leaves nothing out");
        }
        exact
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn searches_find_what_a_model_finds(
        events in prop::collection::vec(event(), 1..24),
        formulas in prop::collection::vec((formula(), prop::collection::vec(within(), 0..3)), 1..8),
        counters_max in prop_oneof![Just(usize::MAX), 1..9_usize],
    ) {
        let mut world = World::new(counters_max);
        for (at, event) in events.iter().enumerate() {
            world.take(event);
            let (formula, filters) = &formulas[at % formulas.len()];
            let within = |text: &Text| filters.iter().all(|filter| filter.holds(text));
            let expected: BTreeSet<u8> = world
                .texts
                .iter()
                .filter(|(_, text)| formula.holds(text) && within(text))
                .map(|(document, _)| *document)
                .collect();
            prop_assert_eq!(world.find(formula, filters), expected, "{:?} {:?}", formula, filters);
        }
    }
}

#[test]
fn compaction_leaves_what_is_live_and_frees_the_rest() {
    for counters_max in [usize::MAX, 20, 3, 1] {
        compacted(counters_max);
    }
}

fn compacted(counters_max: usize) {
    let mut world = World::new(counters_max);
    for document in 0..8 {
        for version in 0..5 {
            world.take(&Event::Put { document, words: vec![0, version, document % WORDS], field: 0 });
        }
    }
    let before = world.host.disk.entries.len();
    let live: usize = world.texts.values().map(|text| text.words.iter().collect::<BTreeSet<_>>().len()).sum();
    assert!(before > 4 * live, "{before} {live}");
    world.compact();
    assert_eq!(world.host.disk.entries.len(), live);
    world.restart();
    assert_eq!(world.find(&Formula::Word(4), &[]).len(), 8);
}

#[test]
fn scores_are_those_of_the_formulas() {
    let mut world = World::new(usize::MAX);
    let texts = [vec![0, 0, 0, 1], vec![0, 2, 2, 2, 2, 2], vec![1], vec![0, 1, 0]];
    for (document, words) in texts.iter().enumerate() {
        world.take(&Event::Put { document: document as u8, words: words.clone(), field: 0 });
    }
    let average = texts.iter().map(Vec::len).sum::<usize>() as f32 / 4.0;
    let times = |text: &[u8], word: u8| text.iter().filter(|other| **other == word).count() as f32;
    let frequency = |word: u8| texts.iter().filter(|text| text.contains(&word)).count() as f32;
    let okapi = |text: &[u8], word: u8| {
        let (tf, df) = (times(text, word), frequency(word));
        let idf = (1.0 + (4.0 - df + 0.5) / (df + 0.5)).ln();
        idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * text.len() as f32 / average))
    };
    let tf_idf = |text: &[u8], word: u8| match times(text, word) {
        0.0 => 0.0,
        tf => (1.0 + tf.ln()) * (4.0 / frequency(word)).ln(),
    };
    type Score<'a> = &'a dyn Fn(&[u8], u8) -> f32;
    let scores: [(Ranking, Score<'_>); 2] = [(Ranking::Bm25, &okapi), (Ranking::TfIdf, &tf_idf)];
    for (ranking, score) in scores {
        let mut search = Search::new(world.collection);
        search.keywords = vec![word(0), word(1), word(2)];
        // What is negated does not count.
        search.formula =
            vec![Step::Keyword(0), Step::Keyword(1), Step::Or, Step::Keyword(2), Step::Not, Step::And];
        search.top = 2;
        let pages = world.host.search(world.client, search.ranked_by(ranking)).unwrap();
        let mut expected: Vec<(f32, u8)> = [0_u8, 2, 3]
            .into_iter()
            .map(|document| {
                let text = &texts[usize::from(document)];
                (score(text, 0) + score(text, 1), document)
            })
            .collect();
        expected.sort_by(|one, other| other.0.total_cmp(&one.0));
        assert_eq!(pages[0].matches(), 3);
        let hits: Vec<_> = pages[0].hits().collect();
        assert_eq!(hits.len(), 2);
        for (hit, (score, document)) in hits.iter().zip(&expected) {
            assert_eq!(hit.name, name(*document));
            assert!((hit.score - score).abs() < 1e-5, "{} {score}", hit.score);
        }
    }
}
