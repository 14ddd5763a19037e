//! Two databases whose texts have different words and the same stated leakage: what the server sees, what goes between
//! proxy and host, and what both have stored is the same.
//!
//! *The same in both*: how many documents there are, how many keywords each has, the lengths of values; for each word that is searched, which
//! writes it was in. *Different*: words, their order and their lengths in queries, how often words are that nobody searches for,
//! what is denied, weights.

use super::observed::{self, Call};
use super::searching::Texts;
use super::stored;
use super::system::Making;
use super::twins::{Twin, compare_calls, compare_lengths};
use arras_lab::wire_client::WireClient;
use bson::{Document, doc};
use std::thread;

/// Documents.
const DOCUMENTS: usize = 40;
/// In which the proxy connects to the host.
const FIRST: &str = "making the index";

/// A system, and how much of what was seen has been compared.
struct Running {
    twin: Twin,
    texts: Texts,
    /// Bytes of the server's transcript.
    passed: u64,
    /// Bytes between proxy and host, both ways.
    tapped: usize,
}

/// Eight letters that say a number.
fn word(beginning: &str, number: usize) -> String {
    let letter = |place: u32| char::from(b"bcdfghjklm"[number / 10_usize.pow(place) % 10]);
    format!("{beginning}{}", (0..6).rev().map(letter).collect::<String>())
}

impl Twin {
    /// One of five words that are searched, and in the same documents in both.
    fn sought(self, number: usize) -> String {
        word(self.pick("qa", "wo"), self.pick(number % 5, 900 - 7 * (number % 5)))
    }

    /// One of a document's other words: left, all documents have the same; right, each its own.
    fn other(self, number: usize, of: usize) -> String {
        word(self.pick("zu", "xe"), self.pick(of, 10 * number + of))
    }

    fn texts(self, number: usize) -> Document {
        let mut words =
            vec![self.sought(number), self.sought(number / 5), word(self.pick("ta", "ti"), number)];
        // Two keywords, or three.
        words.dedup();
        words.extend((0..4).map(|of| self.other(number, of)));
        if self == Self::Right {
            words.reverse();
        }
        doc! { "_id": number as i32, "title": words.pop(), "body": words.join(" ") }
    }
}

impl Running {
    fn start(twin: Twin) -> Self {
        let making = Making { transcript: true, tap: true, ..Making::default() };
        Self { twin, texts: Texts::made(making), passed: 0, tapped: 0 }
    }

    fn client(&self) -> WireClient {
        self.texts.system.client()
    }

    fn run(&self, command: Document) {
        let mut command = command;
        command.insert("$db", "test");
        self.client().command(&command).unwrap();
    }

    fn insert(&self, numbers: impl Iterator<Item = usize>) {
        let documents: Vec<Document> = numbers.map(|number| self.twin.texts(number)).collect();
        self.run(doc! { "insert": "t", "documents": documents });
    }

    /// How many documents a `$text` finds.
    fn found(&self, search: &str) -> usize {
        let find = doc! { "find": "t", "filter": { "$text": { "$search": search } }, "$db": "test" };
        self.client().query(&find).unwrap().len()
    }

    /// What the server saw since this was last called, and how much went between proxy and host.
    fn seen(&mut self) -> (Vec<Call>, usize) {
        let calls = observed::read_on(&self.texts.system.transcript(), &mut self.passed);
        let tapped = self.texts.search.tapped().len();
        (calls, tapped - std::mem::replace(&mut self.tapped, tapped))
    }

    /// The lengths of all that server and host have stored.
    fn stored(mut self) -> [stored::Lengths; 2] {
        self.texts.system.kill_proxy();
        self.texts.system.server.take().unwrap().kill();
        self.texts.kill_host();
        let path = |name| self.texts.system.path(name);
        [stored::lengths(&path("server"), &stored::SERVER), stored::lengths(&path("search"), &stored::HOST)]
    }
}

fn searches(running: &Running) {
    let twin = running.twin;
    let count = running.found(&twin.sought(1));
    assert!(count > 7, "{count}");
    // The same word and another, in another order; a word that nothing has is denied.
    let [one, two] = [twin.sought(2), twin.sought(3)];
    let both = twin.pick(format!("{one} {two}"), format!("{two}   {one} -nothingatallhasthisword"));
    assert!(running.found(&both) > count);
    // Both words, in quotes or each once more.
    assert_eq!(running.found(twin.pick("absent", "\"another word that is absent\"")), 0);
}

fn changes(running: &Running) {
    let twin = running.twin;
    for number in [3, 17, 29] {
        let mut changed = twin.texts(number);
        // Left, a word that all have goes; right, one that is nowhere else.
        let body = changed.get_str("body").unwrap().replace(&twin.other(number, 1), &word("mi", number));
        changed.insert("body", body);
        let update = doc! { "q": { "_id": number as i32 }, "u": changed };
        running.run(doc! { "update": "t", "updates": [update] });
    }
    running.run(doc! { "delete": "t", "deletes": [{ "q": { "_id": { "$in": [4, 11, 30] } }, "limit": 0 }] });
}

#[test]
fn equal_leakage_of_texts_looks_equal() {
    let right = thread::spawn(|| Running::start(Twin::Right));
    let mut twins = [Running::start(Twin::Left), right.join().unwrap()];
    let mut failures = Vec::new();
    let mut phase = |what: &str, act: &(dyn Fn(&Running) + Sync)| {
        thread::scope(|scope| twins.iter().for_each(|running| drop(scope.spawn(|| act(running)))));
        let [(left, left_bytes), (right, right_bytes)] = twins.each_mut().map(Running::seen);
        compare_calls(what, &[left, right], &mut failures);
        // Signatures in the handshake before have a byte more or less.
        if what != FIRST && left_bytes != right_bytes {
            failures.push(format!("{what}: {left_bytes} and {right_bytes} bytes between proxy and host"));
        }
    };
    phase(FIRST, &|running| {
        let weights = running.twin.pick(doc! { "title": 9 }, doc! { "body": 100_000 });
        let key = doc! { "title": "text", "body": "text" };
        let index = doc! { "key": key, "name": "words", "weights": weights, "default_language": "none" };
        running.run(doc! { "createIndexes": "t", "indexes": [index] });
    });
    phase("single inserts", &|running| (0..10).for_each(|number| running.insert(number..=number)));
    phase("a bulk insert", &|running| running.insert(10..DOCUMENTS));
    phase("searches", &searches);
    phase("changes", &changes);
    phase("searches after changes", &searches);
    let [[left, left_host], [right, right_host]] = twins.map(Running::stored);
    compare_lengths(&[left, right], &mut failures);
    compare_lengths(&[left_host, right_host], &mut failures);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
