//! In which order what belongs together reaches the server. The test plays an attacker who has learned, from later
//! searches for single values, which label or row is whose, and looks whether earlier requests name them in an order
//! that says something: of the values, of the request, or of insertion.

use super::observed::{self, Call};
use super::statistics::{judge_order, judge_share};
use super::system::{Making, System};
use arras_lab::wire_client::WireClient;
use arras_planner::kinds::{self, Availability, OrderProtocol};
use arras_primitives::ggm;
use arras_protocol::write::{self, Step};
use arras_protocol::{RowId, arx_eq, documents, unique};
use bson::{Document, doc};
use std::collections::{HashMap, HashSet};

/// Values of the array and of the set asked for.
const VALUES: i32 = 40;
/// Values of the equality index: the `n`-th has `n` documents, by which a search of it is known.
const COUNTED: i32 = 24;
/// Documents inserted at once and of which two writes are needed to change them all.
const MANY: i32 = 4400;

struct Attacked {
    system: System,
    client: WireClient,
}

impl Attacked {
    fn run(&mut self, command: Document) {
        let mut command = command;
        command.insert("$db", "test");
        self.client.command(&command).unwrap();
    }

    /// The calls a piece of work makes.
    fn watch(&mut self, work: impl FnOnce(&mut Self)) -> Vec<Call> {
        let mut passed = std::fs::metadata(self.system.transcript()).unwrap().len();
        work(self);
        observed::read_on(&self.system.transcript(), &mut passed)
    }

    fn find(&mut self, collection: &str, filter: Document) -> Vec<Call> {
        let query = doc! { "find": collection, "filter": filter, "$db": "test" };
        self.watch(|attacked| drop(attacked.client.query(&query).unwrap()))
    }

    fn insert(&mut self, collection: &str, documents: Vec<Document>) -> Vec<Call> {
        self.watch(|attacked| attacked.run(doc! { "insert": collection, "documents": documents }))
    }

    /// The label of a value in a unique index, as a search for it alone shows.
    fn unique_label(&mut self, collection: &str, value: &str) -> unique::Label {
        let calls = self.find(collection, doc! { "u": value });
        let labels = calls.iter().filter_map(observed::request::<unique::Unique>).flat_map(|r| r.labels);
        labels.last().unwrap()
    }

    /// The labels of a value's entries in an equality index, as a search for it alone shows.
    fn entry_labels(&mut self, collection: &str, field: &str, value: &str) -> Vec<arx_eq::Label> {
        let calls = self.find(collection, doc! { field: value });
        let requests = calls.iter().filter_map(observed::request::<arx_eq::ArxEq>);
        let tokens = requests.flat_map(|request| request.values).flatten();
        let leaves = tokens.flat_map(|token| ggm::expand(&token.node, token.height, 1 << token.height));
        leaves.map(|leaf| arx_eq::Label(ggm::leaf_label(&leaf))).collect()
    }

    fn row(&mut self, collection: &str, id: i32) -> RowId {
        let calls = self.find(collection, doc! { "_id": id });
        rows_read(&calls)[0]
    }
}

fn rows_read(calls: &[Call]) -> Vec<RowId> {
    let rows = |request| match request {
        documents::Request::Read { rows, .. } | documents::Request::Exist { rows, .. } => rows,
        documents::Request::Count { .. } | documents::Request::Scan { .. } => Vec::new(),
    };
    calls.iter().filter_map(observed::request::<documents::Documents>).flat_map(rows).collect()
}

fn unique_inserts(writes: &[write::Request]) -> Vec<unique::Label> {
    let label = |step: &Step| match step {
        Step::Unique(unique::Change::Insert { label, .. }) => Some(*label),
        _ => None,
    };
    writes.iter().flat_map(|write| &write.steps).filter_map(label).collect()
}

fn equality_inserts(writes: &[write::Request]) -> Vec<arx_eq::Label> {
    let label = |step: &Step| match step {
        Step::ArxEq(arx_eq::Change::Insert { label, .. }) => Some(*label),
        _ => None,
    };
    writes.iter().flat_map(|write| &write.steps).filter_map(label).collect()
}

fn rows_put(write: &write::Request) -> Vec<RowId> {
    let row = |step: &Step| match step {
        Step::Documents(documents::Change::Put { document, .. }) => Some(document.row),
        _ => None,
    };
    write.steps.iter().filter_map(row).collect()
}

/// The ranks the attacker gives to what was named; what they have not learned is passed over.
fn ranks<T: std::hash::Hash + Eq>(named: &[T], learned: &HashMap<T, usize>) -> Vec<usize> {
    named.iter().filter_map(|name| learned.get(name).copied()).collect()
}

/// Permutes the numbers below a prime less one.
fn scattered(number: i32) -> i32 {
    (number + 1) * 17 % 41
}

fn index(field: &str, unique: bool) -> Document {
    let serves = doc! { "operations": ["eq"] };
    doc! { "name": field, "key": { field: 1 }, "unique": unique, "storageEngine": { "arras": serves } }
}

fn start() -> Attacked {
    let system = System::start(Making { transcript: true, ..Making::default() });
    let client = system.client();
    Attacked { system, client }
}

/// Values of one search, of an equality index and of a unique one.
#[test]
fn values_of_a_search_come_in_no_order() {
    let (mut attacked, mut failures) = (start(), Vec::new());
    attacked.run(doc! { "createIndexes": "s", "indexes": [index("u", true), index("e", false)] });
    let mut documents = Vec::new();
    for value in 0..COUNTED {
        for _ in 0..=value {
            let number = i32::try_from(documents.len()).unwrap();
            documents.push(doc! { "_id": number, "u": format!("u{number:04}"), "e": format!("e{value:04}") });
        }
    }
    attacked.insert("s", documents);

    let asked: Vec<i32> = (0..VALUES).map(scattered).collect();
    let values: Vec<String> = asked.iter().map(|value| format!("u{value:04}")).collect();
    let learned: HashMap<unique::Label, usize> =
        values.iter().enumerate().map(|(at, value)| (attacked.unique_label("s", value), at)).collect();
    let calls = attacked.find("s", doc! { "u": { "$in": values } });
    let request = calls.iter().find_map(observed::request::<unique::Unique>).unwrap();
    let by_request = ranks(&request.labels, &learned);
    let by_value: Vec<usize> = by_request.iter().map(|at| asked[*at] as usize).collect();
    judge_order("unique values in the order of the request", &by_request, &mut failures);
    judge_order("unique values in their own order", &by_value, &mut failures);
    let rows: HashMap<RowId, usize> = (0..VALUES).map(|id| (attacked.row("s", id), id as usize)).collect();
    judge_order("rows of unique values", &ranks(&rows_read(&calls), &rows), &mut failures);

    let values: Vec<String> = (0..COUNTED).map(|value| format!("e{value:04}")).collect();
    let counts = |calls: &[Call]| -> Vec<usize> {
        let requests = calls.iter().filter_map(observed::request::<arx_eq::ArxEq>);
        let values = requests.flat_map(|request| request.values);
        values.map(|tokens| tokens.iter().map(|token| 1_usize << token.height).sum()).collect()
    };
    let calls = attacked.find("s", doc! { "e": { "$in": values.clone() } });
    judge_order("values of an equality search", &counts(&calls), &mut failures);
    let branches: Vec<Document> = values.iter().map(|value| doc! { "e": value }).collect();
    let calls = attacked.find("s", doc! { "$or": branches });
    judge_order("branches of a search", &counts(&calls), &mut failures);
    let calls = attacked.find("s", doc! { "_id": { "$in": (0..VALUES).collect::<Vec<i32>>() } });
    judge_order("rows of a search by _id", &ranks(&rows_read(&calls), &rows), &mut failures);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Elements of an array, of an equality index and of a unique one.
#[test]
fn elements_of_an_array_come_in_no_order() {
    let (mut attacked, mut failures) = (start(), Vec::new());
    attacked.run(doc! { "createIndexes": "a", "indexes": [index("u", true), index("e", false)] });
    let values =
        |kind: &str| -> Vec<String> { (0..VALUES).map(|value| format!("{kind}{value:04}")).collect() };
    let document = doc! { "_id": 1, "u": values("u"), "e": values("e") };
    let made = attacked.insert("a", vec![document]);
    let kept: Vec<String> = values("e").into_iter().take(2).collect();
    let update = doc! { "q": { "_id": 1 }, "u": { "$set": { "u": [], "e": kept } } };
    let mut unique_labels = HashMap::new();
    let mut equality_labels = HashMap::new();
    for (at, value) in values("u").iter().enumerate() {
        unique_labels.insert(attacked.unique_label("a", value), at);
    }
    for (at, value) in values("e").iter().enumerate() {
        equality_labels.extend(attacked.entry_labels("a", "e", value).into_iter().map(|label| (label, at)));
    }
    let changed = attacked.watch(|attacked| attacked.run(doc! { "update": "a", "updates": [update] }));

    let writes = observed::writes(&made);
    let checked: Vec<unique::Label> =
        made.iter().filter_map(observed::request::<unique::Unique>).flat_map(|r| r.labels).collect();
    judge_order("unique labels checked", &ranks(&checked, &unique_labels), &mut failures);
    judge_order("unique elements entered", &ranks(&unique_inserts(&writes), &unique_labels), &mut failures);
    judge_order("elements entered", &ranks(&equality_inserts(&writes), &equality_labels), &mut failures);
    let (mut freed, mut removed) = (Vec::new(), Vec::new());
    for step in observed::writes(&changed).iter().flat_map(|write| &write.steps) {
        match step {
            Step::Unique(unique::Change::Remove { label, .. }) => freed.push(*label),
            Step::ArxEq(arx_eq::Change::Remove { label, .. }) => removed.push(*label),
            _ => {}
        }
    }
    judge_order("unique elements freed", &ranks(&freed, &unique_labels), &mut failures);
    judge_order("elements removed", &ranks(&removed, &equality_labels), &mut failures);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Documents of one command, and what is entered for them.
#[test]
fn documents_of_a_command_come_in_no_order() {
    let (mut attacked, mut failures) = (start(), Vec::new());
    attacked.run(doc! { "createIndexes": "d", "indexes": [index("u", true), index("e", false)] });
    let document =
        |number: i32| doc! { "_id": number, "u": format!("u{number:04}"), "e": format!("e{}", number % 2) };
    // The attacker knows the first ones by name.
    let made = attacked.insert("d", (0..VALUES).map(document).collect());
    let rows: HashMap<RowId, usize> = (0..VALUES).map(|id| (attacked.row("d", id), id as usize)).collect();
    let labels: HashMap<unique::Label, usize> = (0..VALUES)
        .map(|number| (attacked.unique_label("d", &format!("u{number:04}")), number as usize))
        .collect();
    let writes = observed::writes(&made);
    judge_order("rows looked for", &ranks(&rows_read(&made), &rows), &mut failures);
    judge_order("unique values of documents", &ranks(&unique_inserts(&writes), &labels), &mut failures);
    let put: Vec<RowId> = writes.iter().flat_map(rows_put).collect();
    judge_order("documents", &ranks(&put, &rows), &mut failures);

    attacked.run(doc! { "createIndexes": "m", "indexes": [index("e", false)] });
    attacked.insert("m", (0..MANY).map(document).collect());
    // The older half, as the attacker knows it from having watched it come.
    let half = usize::try_from(MANY / 2).unwrap();
    let old = attacked.find("m", doc! { "_id": { "$in": (0..MANY / 2).collect::<Vec<i32>>() } });
    let old: HashSet<RowId> = rows_read(&old).into_iter().collect();
    assert_eq!(old.len(), half);
    let update = doc! { "q": { "_id": { "$gte": 0 } }, "u": { "$set": { "x": 1 } }, "multi": true };
    let calls = attacked.watch(|attacked| attacked.run(doc! { "update": "m", "updates": [update] }));
    let writes = observed::writes(&calls);
    assert!(writes.len() >= 2, "one write of {MANY} documents shows nothing");
    let first = rows_put(&writes[0]);
    let older = first.iter().filter(|row| old.contains(*row)).count();
    judge_share(
        "older documents in the first write of an update",
        [2 * half, half, first.len()],
        older,
        &mut failures,
    );
    let deleted = attacked.watch(|attacked| {
        let delete = doc! { "q": { "x": 1 }, "limit": 0 };
        attacked.run(doc! { "delete": "m", "deletes": [delete] });
    });
    let gone = |write: &write::Request| -> Vec<RowId> {
        let row = |step: &Step| match step {
            Step::Documents(documents::Change::Delete { row, .. }) => Some(*row),
            _ => None,
        };
        write.steps.iter().filter_map(row).collect()
    };
    let first = gone(&observed::writes(&deleted)[0]);
    let older = first.iter().filter(|row| old.contains(*row)).count();
    judge_share(
        "older documents in the first write of a removal",
        [2 * half, half, first.len()],
        older,
        &mut failures,
    );
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Documents of two values of an equality index, more than are read at once: the reads must not tell them apart.
#[test]
fn rows_of_values_are_read_in_no_order() {
    let (mut attacked, mut failures) = (start(), Vec::new());
    attacked.run(doc! { "createIndexes": "d", "indexes": [index("e", false)] });
    let many = 2400;
    let document = |number: i32| doc! { "_id": number, "e": format!("e{}", number % 2) };
    attacked.insert("d", (0..many).map(document).collect());
    let one: HashSet<RowId> = rows_read(&attacked.find("d", doc! { "e": "e0" })).into_iter().collect();
    let calls = attacked.find("d", doc! { "e": { "$in": ["e0", "e1"] } });
    let rows = rows_read(&calls);
    let half = usize::try_from(many / 2).unwrap();
    assert_eq!((one.len(), rows.len()), (half, 2 * half));
    let found = rows[..half].iter().filter(|row| one.contains(*row)).count();
    judge_share("rows of one value among the first read", [2 * half, half, half], found, &mut failures);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// `THREATS.md` and the values of leakage say of every protocol alike that who watches knows which entry is which document's: both
/// are steps of one write. A kind of index for which that is not so would be worth more than is said of it, or less.
#[test]
fn an_entry_comes_and_goes_in_one_write_with_its_document() {
    let mut attacked = start();
    let mut indexes = vec![
        ("of_equality".to_owned(), doc! { "key": { "a": "hashed" } }),
        ("of_unique".to_owned(), doc! { "key": { "a": 1 }, "unique": true }),
    ];
    let shipped = |order: &OrderProtocol| order.kind().availability == Availability::Available;
    for order in kinds::of_orders().filter(shipped) {
        let options = doc! { "arras": { "order": order.name() } };
        indexes.push((format!("of_{}", order.name()), doc! { "key": { "a": 1 }, "storageEngine": options }));
    }
    assert!(indexes.len() > 6, "{indexes:?}");
    for (collection, mut index) in indexes {
        index.insert("name", "index");
        attacked.run(doc! { "createIndexes": &collection, "indexes": [index] });
        let inserted = attacked.insert(&collection, vec![doc! { "_id": 1, "a": 5_i64 }]);
        let removal = doc! { "delete": &collection, "deletes": [{ "q": { "_id": 1 }, "limit": 1 }] };
        let removed = attacked.watch(|attacked| attacked.run(removal));
        for (what, calls) in [("inserted", inserted), ("removed", removed)] {
            let writes = observed::writes(&calls);
            let is_document = |step: &Step| matches!(step, Step::Documents(_));
            let whole = writes.iter().filter(|write| write.steps.iter().any(is_document));
            let own = |step: &Step| match (collection.as_str(), step) {
                ("of_equality", step) => matches!(step, Step::ArxEq(_)),
                ("of_unique", step) => matches!(step, Step::Unique(_)),
                (_, step) => !matches!(step, Step::Documents(_) | Step::Unique(_) | Step::ArxEq(_)),
            };
            let of_index: Vec<usize> =
                whole.map(|write| write.steps.iter().filter(|step| own(step)).count()).collect();
            let [steps] = of_index[..] else { panic!("{collection}: {what} in {} writes", of_index.len()) };
            assert!(steps > 0, "{collection}: {what} with {steps} steps of the index");
        }
    }
}
