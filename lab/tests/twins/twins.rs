//! Two databases with different contents and the same stated leakage, through the same workload.
//!
//! *The same in both*: number of documents, of fields, and the lengths of values; which `_id` is asked for and which
//! unique values come back; for each value that is searched, which writes it was in; ranks of the entries of a range
//! index and of the bounds asked for. *Different*: values, how common those are that nobody searches for, ranks of
//! unique values, sums and their magnitudes, how often the proxy was started before.

use super::observed::{self, Call, RandomBytes};
use super::statistics::{judge_bytes, judge_pair};
use super::stored;
use super::system::{Making, SMALL_TREES, System};
use arras_lab::wire_client::WireClient;
use arras_protocol::write::Write;
use bson::{Bson, Document, doc};
use std::thread;

/// Every entry is a separator and every separator a top node: the structure of a range index is a function of the ranks.
pub(super) const ALL_TOP: &str = "\n[range_indexes]\nbucket_factor = 1\ntop_nodes = 100000\n";
/// One bucket, the head's.
const ONE_BUCKET: &str = "\n[range_indexes]\nbucket_factor = 1099511627776\ntop_nodes = 4\n";

/// Documents of the collection, in all.
const DOCUMENTS: i32 = 360;
/// Documents inserted one by one before the others.
const FIRST: i32 = 30;
/// Those inserted before the last.
const BATCH_END: i32 = 350;

/// One of the two.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Twin {
    Left,
    Right,
}

/// A permutation of the documents' numbers.
fn permuted(number: i32, factor: i32) -> i32 {
    number * factor % 367
}

impl Twin {
    pub(super) fn pick<T>(self, left: T, right: T) -> T {
        match self {
            Self::Left => left,
            Self::Right => right,
        }
    }

    /// A value that some documents have in both, and which is searched.
    pub(super) fn searched(self) -> &'static str {
        self.pick("common", "rarely")
    }

    /// Left, all other documents have one value; right, each has its own.
    fn equal(self, number: i32) -> String {
        match number % 7 {
            3 => self.searched().to_owned(),
            _ => self.pick("always".to_owned(), format!("v{number:05}")),
        }
    }

    fn unique(self, number: i32) -> String {
        format!("u{:07}", self.pick(number, permuted(number, 101) * 13))
    }

    /// Of the same rank in both, and far apart in one.
    fn ranged(self, rank: i32) -> i32 {
        self.pick(rank, rank * 1_000_003 - 180_000_000)
    }

    fn prefix(self, rank: i32) -> &'static str {
        if rank < DOCUMENTS / 2 { "aa" } else { self.pick("aa", "zz") }
    }

    fn summed(self, number: i32) -> i64 {
        self.pick(i64::from(number % 3), i64::MAX / 1000 - i64::from(number))
    }

    /// Three values each; left they are shared by many, and in another order.
    fn tags(self, number: i32) -> Vec<String> {
        let tag = |of: i32| match self {
            Self::Left => format!("t{:04}", (number + of * 5) % 20),
            Self::Right => format!("t{:04}", number * 3 + 2 - of),
        };
        (0..3).map(tag).collect()
    }

    fn document(self, number: i32) -> Document {
        let rank = permuted(number, 29);
        doc! {
            "_id": number,
            "e": self.equal(number),
            "u": self.unique(number),
            "k": self.prefix(rank),
            "r": self.ranged(rank),
            "s": self.summed(number),
            "tags": self.tags(number),
        }
    }
}

/// A twin's system.
pub(super) struct Running {
    pub(super) twin: Twin,
    pub(super) system: System,
    /// Bytes of the transcript that were compared, or cannot be.
    passed: u64,
}

/// An index; `arras` says what it is to serve.
pub(super) fn index(name: &str, key: Document, unique: bool, arras: Document) -> Document {
    doc! { "name": name, "key": key, "unique": unique, "storageEngine": { "arras": arras } }
}

impl Running {
    fn start(twin: Twin, configuration: &'static str) -> Self {
        let system = System::start(Making { transcript: true, configuration, ..Making::default() });
        Self { twin, system, passed: 0 }
    }

    fn client(&self) -> WireClient {
        self.system.client()
    }

    pub(super) fn run(&self, command: Document) -> Document {
        let mut command = command;
        command.insert("$db", "test");
        self.client().command(&command).unwrap()
    }

    /// All that a command with a cursor returns.
    pub(super) fn query(&self, command: Document) -> Vec<Document> {
        let mut command = command;
        command.insert("$db", "test");
        self.client().query(&command).unwrap()
    }

    pub(super) fn create_index(&self, index: Document) {
        self.run(doc! { "createIndexes": "t", "indexes": [index] });
    }

    pub(super) fn insert(&self, numbers: impl Iterator<Item = i32>) {
        let documents: Vec<Document> = numbers.map(|number| self.twin.document(number)).collect();
        self.run(doc! { "insert": "t", "documents": documents });
    }

    pub(super) fn find(&self, filter: Document) -> Vec<Document> {
        self.query(doc! { "find": "t", "filter": filter })
    }

    fn update(&self, filter: Document, set: Document, multi: bool) {
        let update = doc! { "q": filter, "u": { "$set": set }, "multi": multi };
        self.run(doc! { "update": "t", "updates": [update] });
    }

    fn delete(&self, filter: Document) {
        self.run(doc! { "delete": "t", "deletes": [{ "q": filter, "limit": 0 }] });
    }

    fn restart_proxy(&mut self) {
        self.system.kill_proxy();
        self.system.start_proxy();
    }

    /// What the server saw since this was last called.
    pub(super) fn seen(&mut self) -> Vec<Call> {
        observed::read_on(&self.system.transcript(), &mut self.passed)
    }
}

pub(super) fn both(configuration: &'static str) -> [Running; 2] {
    let right = thread::spawn(move || Running::start(Twin::Right, configuration));
    [Running::start(Twin::Left, configuration), right.join().unwrap()]
}

/// The shapes of some calls. Between two writes, requests go side by side and come in any order.
pub(super) fn shapes(calls: &[Call]) -> Vec<String> {
    let is_write = |call: &Call| observed::request::<Write>(call).is_some();
    let runs = calls.chunk_by(|left, right| !is_write(left) && !is_write(right));
    let sorted = |run: &[Call]| {
        let mut shapes: Vec<String> = run.iter().map(observed::shape).collect();
        shapes.sort_unstable();
        shapes
    };
    runs.flat_map(sorted).collect()
}

/// Compares what two servers saw and saves the bytes that should be random.
pub(super) fn compare(
    what: &str,
    twins: &mut [Running; 2],
    random: &mut [RandomBytes; 2],
    failures: &mut Vec<String>,
) {
    let seen = twins.each_mut().map(Running::seen);
    for (calls, random) in seen.iter().zip(random) {
        calls.iter().for_each(|call| observed::take_random(call, random));
    }
    compare_calls(what, &seen, failures);
}

/// Compares the shapes of calls.
pub(super) fn compare_calls(what: &str, seen: &[Vec<Call>; 2], failures: &mut Vec<String>) {
    let [left, right] = seen.each_ref().map(|calls| shapes(calls));
    let differ = |at: &usize| left.get(*at) != right.get(*at);
    if let Some(at) = (0..left.len().max(right.len())).find(differ) {
        let [left, right] =
            [left, right].map(|shapes| shapes.into_iter().skip(at).take(3).collect::<Vec<String>>());
        failures.push(format!(
            "{what}: the server sees a difference from request {at} on:\n  {}\n and\n  {}",
            left.join("\n  "),
            right.join("\n  ")
        ));
    }
}

/// Everything that differs must look random.
pub(super) fn judge(random: &[RandomBytes; 2], failures: &mut Vec<String>) {
    let [left, right] = random;
    for (what, left) in left {
        // Whether a forest of trees has top nodes is a matter of its random shape.
        let Some(right) = right.get(what) else { continue };
        judge_bytes(what, left, failures);
        judge_bytes(what, right, failures);
        judge_pair(what, left, right, failures);
    }
}

pub(super) fn stored_alike(twins: [Running; 2], failures: &mut Vec<String>) {
    let lengths = twins.map(|mut running| {
        let server = running.system.server.take().unwrap();
        running.system.kill_proxy();
        server.kill();
        stored::lengths(&running.system.path("server"), &stored::SERVER)
    });
    compare_lengths(&lengths, failures);
}

pub(super) fn compare_lengths([left, right]: &[stored::Lengths; 2], failures: &mut Vec<String>) {
    for key in left.keys().chain(right.keys()) {
        if left.get(key) != right.get(key) {
            failures.push(format!("stored {key:?}: {:?} and {:?}", left.get(key), right.get(key)));
        }
    }
}

fn searches(running: &Running) {
    let twin = running.twin;
    let searched = running.find(doc! { "e": twin.searched() });
    assert!(searched.iter().all(|found| found.get_str("e").unwrap() == twin.searched()));
    assert!(searched.len() > 40);
    for number in [5, 120, 222] {
        assert_eq!(running.find(doc! { "u": twin.unique(number) }).len(), 1);
    }
    let several: Vec<String> = (40..64).map(|number| twin.unique(number)).collect();
    assert_eq!(running.find(doc! { "u": { "$in": several } }).len(), 24);
    let with_absent = [twin.searched(), "none 1", twin.pick("a none", "z none")];
    assert_eq!(running.find(doc! { "e": { "$in": with_absent.to_vec() } }).len(), searched.len());
    let between = |from, to| doc! { "k": "aa", "r": { "$gte": twin.ranged(from), "$lte": twin.ranged(to) } };
    assert!(!running.find(between(20, 60)).is_empty());
    let sum = doc! { "$group": { "_id": Bson::Null, "sum": { "$sum": "$s" } } };
    running.run(doc! { "aggregate": "t", "pipeline": [{ "$match": between(10, 150) }, sum], "cursor": {} });
    assert_eq!(running.find(doc! { "_id": 17 }).len(), 1);
}

fn changes(running: &Running) {
    let twin = running.twin;
    // A value of its own instead of one that many have, or that no other has.
    running.update(doc! { "_id": 200 }, doc! { "e": twin.pick("singly", "always") }, false);
    running.update(doc! { "_id": 201 }, doc! { "u": twin.pick("u9999999", "u0000001") }, false);
    running.update(doc! { "_id": 202 }, doc! { "s": twin.pick(0_i64, i64::MIN) }, false);
    running.update(
        doc! { "_id": 203 },
        doc! { "tags": [twin.pick("t0000", "t9999"), "x0000", "y0000"] },
        false,
    );
    running.update(doc! { "e": twin.searched() }, doc! { "s": twin.pick(7_i64, -1_i64) }, true);
    // Few enough of one value that it does not matter in which order they go.
    running.delete(doc! { "_id": { "$in": (60..90).collect::<Vec<i32>>() } });
    running.delete(doc! { "e": twin.searched(), "_id": { "$gt": 330 } });
}

#[test]
fn equal_leakage_looks_equal() {
    let mut twins = both(ALL_TOP);
    let (mut random, mut failures) = (Default::default(), Vec::new());
    let mut phase = |what: &str, twins: &mut [Running; 2], act: &(dyn Fn(&Running) + Sync)| {
        thread::scope(|scope| twins.iter().for_each(|running| drop(scope.spawn(|| act(running)))));
        compare(what, twins, &mut random, &mut failures);
    };
    phase("making indexes", &mut twins, &|running| {
        let serves = |operation: &str| doc! { "operations": [operation] };
        running.create_index(index("e", doc! { "e": 1 }, false, serves("eq")));
        running.create_index(index("u", doc! { "u": 1 }, true, serves("eq")));
        let sums = doc! { "operations": ["range"], "sums": ["s"] };
        running.create_index(index("k_r", doc! { "k": 1, "r": 1 }, false, sums));
        running.create_index(index("tags", doc! { "tags": 1 }, false, serves("eq")));
    });
    phase("single inserts", &mut twins, &|running| {
        (0..FIRST).for_each(|number| running.insert([number].into_iter()))
    });
    (0..4).for_each(|_| twins[1].restart_proxy());
    twins.iter_mut().for_each(|running| drop(running.seen()));
    phase("a bulk insert", &mut twins, &|running| running.insert(FIRST..BATCH_END));
    phase("later inserts", &mut twins, &|running| {
        (BATCH_END..DOCUMENTS).for_each(|number| running.insert([number].into_iter()));
    });
    phase("searches", &mut twins, &searches);
    phase("changes", &mut twins, &changes);
    phase("searches after changes", &mut twins, &|running| {
        let found = running.find(doc! { "e": running.twin.searched() });
        assert!(found.len() > 20);
        running.insert([363].into_iter());
    });
    judge(&random, &mut failures);
    stored_alike(twins, &mut failures);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// A bucket shows its number of entries in steps, also where they carry sums.
#[test]
fn buckets_hide_a_few_entries_and_their_sums() {
    hides_a_few_entries(&doc! { "operations": ["range"], "sums": ["s", "t"] });
}

/// So do the records that go beside a bucket where there are no sums.
#[test]
fn records_beside_buckets_hide_a_few_entries() {
    let records = hides_a_few_entries(&doc! { "operations": ["range"] });
    assert_eq!(records.map(|records| records > 0), [true, true], "none was added");
}

/// How many records each server was sent to go beside a bucket.
fn hides_a_few_entries(arras: &Document) -> [usize; 2] {
    let mut twins = both(ONE_BUCKET);
    let (mut random, mut failures) = <([RandomBytes; 2], Vec<String>)>::default();
    let act = |running: &Running| {
        running.create_index(index("r", doc! { "r": 1 }, false, arras.clone()));
        // In arrays of five elements: 12 values left and 15 right, and after each document a bucket of as many steps.
        for (number, values) in (0..4).zip(running.twin.pick([3, 3, 3, 3], [4, 3, 4, 4])) {
            let elements: Vec<i32> = (0..5).map(|element| number * 10 + element.min(values - 1)).collect();
            let sum = Bson::Int64(running.twin.summed(number));
            let document = doc! { "_id": number, "r": elements, "s": sum.clone(), "t": sum };
            running.run(doc! { "insert": "t", "documents": [document] });
        }
        assert_eq!(running.find(doc! { "r": { "$lt": 50 } }).len(), 4);
        running.update(doc! { "_id": 1 }, doc! { "s": running.twin.pick(2_i64, i64::MAX) }, false);
    };
    thread::scope(|scope| twins.iter().for_each(|running| drop(scope.spawn(|| act(running)))));
    compare("one bucket", &mut twins, &mut random, &mut failures);
    stored_alike(twins, &mut failures);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    random.map(|random| random.get("added entries").map_or(0, Vec::len))
}

/// Where trees of circuits are, their shape is random: what can be compared is each kind of record, and of request.
#[test]
fn records_and_circuits_of_trees_are_of_one_length() {
    use arras_protocol::arx_range::{self, Bound, Change};
    use arras_protocol::write::Step;
    use std::collections::BTreeSet;
    let mut twins = both(SMALL_TREES);
    let act = |running: &Running| {
        let sums = doc! { "operations": ["range"], "sums": ["s"] };
        running.create_index(index("r", doc! { "r": 1 }, false, sums));
        running.insert(0..200);
        (200..230).for_each(|number| running.insert([number].into_iter()));
        for rank in (0..200).step_by(10) {
            let [from, to] = [rank, rank + 20].map(|rank| running.twin.ranged(rank));
            assert!(!running.find(doc! { "r": { "$gte": from, "$lte": to } }).is_empty());
        }
    };
    thread::scope(|scope| twins.iter().for_each(|running| drop(scope.spawn(|| act(running)))));
    let mut random = [RandomBytes::new(), RandomBytes::new()];
    let lengths = [0, 1].map(|side| {
        let mut lengths: BTreeSet<(&str, usize)> = BTreeSet::new();
        let calls = twins[side].seen();
        calls.iter().for_each(|call| observed::take_random(call, &mut random[side]));
        for call in &calls {
            if let Some(arx_range::Request::Search { lower, upper, .. }) =
                observed::request::<arx_range::ArxRange>(call)
            {
                for bound in [Some(lower), upper].into_iter().flatten() {
                    if let Bound::Walk(walk) = bound {
                        lengths.insert(("labels of a walk", walk.labels.len()));
                    }
                }
            }
        }
        for step in observed::writes(&calls).into_iter().flat_map(|request| request.steps) {
            let length = match step {
                Step::ArxRange(Change::PutHead { sealed, .. }) => ("head", sealed.len()),
                Step::ArxRange(Change::PutTop { record, .. }) => ("top node", record.sealed.len()),
                Step::ArxRange(Change::PutNode { record, .. }) => ("tree node", record.sealed.len()),
                Step::ArxRange(Change::PutCircuit { circuit, .. }) => ("circuit", circuit.gates.len()),
                _ => continue,
            };
            lengths.insert(length);
        }
        lengths
    });
    let mut failures = Vec::new();
    judge(&random, &mut failures);
    let both: BTreeSet<&(&str, usize)> = lengths.iter().flatten().collect();
    let kinds: BTreeSet<&str> = both.iter().map(|(kind, _)| *kind).collect();
    assert!(["labels of a walk", "head", "tree node", "circuit"].iter().all(|kind| kinds.contains(kind)));
    assert_eq!(both.len(), kinds.len(), "one length each: {both:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
