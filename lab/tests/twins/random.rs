//! Two random databases under one random workload, drawn anew in each run: what is stated to show is drawn for both, contents for each.
//! `ARRAS_TEST_SEED` repeats a run.

use super::observed::RandomBytes;
use super::twins::{self, ALL_TOP, Running, Twin, index};
use arras_lab::seed::{below, prg};
use bson::{Document, doc};
use std::thread;

/// Values of the equality index that are searched; all others are not.
const SEARCHED: u64 = 3;
/// Places in the order of the range index, of which each row has its own.
const PLACES: u64 = 500;
/// Rows before the first step: enough that their names say something of how they are drawn.
const ROWS_FIRST: u64 = 130;

/// What both twins' servers may see of a row: which searched value it has, if any, its place in the order, and how many elements
/// its array has.
#[derive(Clone, Copy, Debug)]
struct Row {
    id: i32,
    searched: Option<u64>,
    place: usize,
    elements: u64,
    /// The version that its array is of.
    written: u64,
    /// How often it was written, and its value in the equality index.
    version: u64,
    turn: u64,
}

/// A step of the workload.
#[derive(Debug)]
enum Step {
    Insert(Vec<Row>),
    /// Of this row, which fields: the searched value or another, the unique one, the place.
    Update(Row, &'static [&'static str]),
    Delete(Vec<i32>),
    Searched(u64),
    Several(Vec<Row>),
    Unique(Row),
    Id(i32),
    /// One of the elements of this row.
    Element(Row, u64),
    Between(usize, usize),
    /// The same, from one end or the other and no more than so many.
    Sorted(usize, usize, i32, i64),
    /// All, from one end or the other.
    Ordered(i32, i64),
    /// Sums over what is between.
    Summed(usize, usize),
    /// Any so many.
    Some(i64),
    Counted(usize, usize),
}

/// The workload: steps, drawn one by one beside what is there.
struct Workload {
    prg: arras_primitives::prg::Prg,
    rows: Vec<Row>,
    next: i32,
    /// Places that no row has had.
    places: Vec<usize>,
}

impl Workload {
    fn new(seed: u64) -> Self {
        let mut prg = prg(seed, "random twins");
        let mut places: Vec<usize> = (0..PLACES as usize).collect();
        for at in (1..places.len()).rev() {
            places.swap(at, below(&mut prg, at as u64 + 1) as usize);
        }
        Self { prg, rows: Vec::new(), next: 0, places }
    }

    fn below(&mut self, bound: u64) -> u64 {
        below(&mut self.prg, bound)
    }

    fn searched(&mut self) -> Option<u64> {
        Some(self.below(2 * SEARCHED)).filter(|value| *value < SEARCHED)
    }

    fn one(&mut self) -> Option<Row> {
        let at = self.below(self.rows.len() as u64) as usize;
        self.rows.get(at).copied()
    }

    fn insert(&mut self, number: u64) -> Step {
        let mut new = Vec::new();
        for _ in 0..number {
            // Entries of one value in one write are in an order of coins, which shows when some of them go.
            let searched = self.searched().filter(|_| number == 1);
            let elements = self.below(4);
            let Some(place) = self.places.pop() else { break };
            new.push(Row { id: self.next, searched, place, elements, written: 0, version: 0, turn: 0 });
            self.next += 1;
        }
        self.rows.extend(&new);
        Step::Insert(new)
    }

    fn update(&mut self) -> Option<Step> {
        let at = self.below(self.rows.len() as u64) as usize;
        let fields: &[&[&str]] =
            &[&["e"], &["u"], &["r"], &["a"], &["e", "r"], &["a", "u"], &["a", "e", "u", "r"]];
        let fields = fields[self.below(fields.len() as u64) as usize];
        let elements = self.below(4);
        let (searched, place) = (self.searched(), fields.contains(&"r").then(|| self.places.pop()).flatten());
        if fields.contains(&"r") && place.is_none() {
            return None;
        }
        let row = self.rows.get_mut(at)?;
        row.version += 1;
        if fields.contains(&"e") {
            // The same searched value again would be no change.
            row.turn += 1;
            row.searched = searched.filter(|value| Some(*value) != row.searched);
        }
        row.place = place.unwrap_or(row.place);
        if fields.contains(&"a") {
            row.elements = elements;
            row.written = row.version;
        }
        Some(Step::Update(*row, fields))
    }

    fn delete(&mut self) -> Step {
        let mut gone = Vec::new();
        for _ in 0..=self.below(5) {
            let at = self.below(self.rows.len() as u64) as usize;
            if at < self.rows.len() {
                gone.push(self.rows.swap_remove(at).id);
            }
        }
        Step::Delete(gone)
    }

    fn step(&mut self) -> Option<Step> {
        let (from, limit) = (self.below(PLACES) as usize, 1 + self.below(30) as i64);
        let until = from + self.below(60) as usize;
        let direction = if self.below(2) == 0 { 1 } else { -1 };
        Some(match self.below(18) {
            0 => {
                let number = 1 + self.below(20);
                self.insert(number)
            }
            1 | 2 => self.insert(1),
            3..=5 => self.update()?,
            6 => self.delete(),
            7 => Step::Searched(self.below(SEARCHED)),
            8 => Step::Several((0..1 + self.below(6)).filter_map(|_| self.one()).collect()),
            9 => Step::Unique(self.one()?),
            10 => Step::Id(self.one()?.id),
            11 => Step::Sorted(from, until, direction, limit),
            12 => Step::Ordered(direction, limit),
            13 => Step::Summed(from, until),
            14 => Step::Some(limit),
            15 => Step::Counted(from, until),
            16 => {
                let row = self.one().filter(|row| row.elements > 0)?;
                Step::Element(row, self.below(row.elements))
            }
            _ => Step::Between(from, until),
        })
    }
}

/// What a twin has in place of what shows.
struct Contents {
    seed: u64,
    /// How many values the equality index has that nobody searches for.
    others: u64,
    /// Rising.
    ranged: Vec<i32>,
}

impl Contents {
    fn new(seed: u64, twin: Twin) -> Self {
        let seed = seed ^ twin.pick(0x5eed_1ef7, 0x0005_eed2_1947);
        let mut prg = prg(seed, "contents");
        let others = 1 + below(&mut prg, twin.pick(3, 400));
        let steps = twin.pick(3, 8_000_000);
        let mut at = -1_900_000_000_i64;
        let mut next = || {
            at += 1 + i64::try_from(below(&mut prg, steps)).unwrap();
            i32::try_from(at).unwrap()
        };
        let ranged = (0..PLACES + 100).map(|_| next()).collect();
        Self { seed, others, ranged }
    }

    fn drawn(&self, usage: &str, of: u64, bound: u64) -> u64 {
        below(&mut prg(self.seed ^ (of << 20), usage), bound)
    }

    fn searched(&self, value: u64) -> String {
        format!("s{value}{:06}", self.drawn("searched", value, 1_000_000))
    }

    fn field(&self, row: &Row, field: &str) -> bson::Bson {
        let of = u64::try_from(row.id).unwrap() << 12 | row.version;
        match (field, row.searched) {
            ("e", Some(value)) => self.searched(value).into(),
            // Another than the one before: each second one is of another half.
            ("e", None) => format!("o{}{:06}", row.turn % 2, self.drawn("other", of, self.others)).into(),
            // Of each row and version one, in an order that says nothing.
            ("u", _) => format!("{:04}{of:010}", self.drawn("unique", of, 10_000)).into(),
            ("a", _) => {
                let elements: Vec<_> = (0..row.elements).map(|element| self.element(row, element)).collect();
                elements.into()
            }
            _ => self.ranged[row.place].into(),
        }
    }

    /// An element of a row's array: of each row, version and place one.
    fn element(&self, row: &Row, element: u64) -> bson::Bson {
        let of = u64::try_from(row.id).unwrap() << 14 | row.written << 2 | element;
        format!("{:04}{of:010}", self.drawn("element", of, 10_000)).into()
    }

    /// What is between two places.
    fn between(&self, from: usize, to: usize) -> Document {
        doc! { "r": { "$gte": self.ranged[from], "$lte": self.ranged[to] } }
    }

    fn document(&self, row: &Row) -> Document {
        doc! { "_id": row.id, "e": self.field(row, "e"), "u": self.field(row, "u"), "r": self.field(row, "r"), "a": self.field(row, "a") }
    }

    /// Carries a step out; how many documents it is about.
    fn act(&self, running: &Running, step: &Step) -> usize {
        match step {
            Step::Insert(rows) => {
                let documents: Vec<Document> = rows.iter().map(|row| self.document(row)).collect();
                if !documents.is_empty() {
                    running.run(doc! { "insert": "t", "documents": documents });
                }
                rows.len()
            }
            Step::Update(row, fields) => {
                let set: Document =
                    fields.iter().map(|field| ((*field).to_owned(), self.field(row, field))).collect();
                let update = doc! { "q": { "_id": row.id }, "u": { "$set": set } };
                running.run(doc! { "update": "t", "updates": [update] });
                1
            }
            Step::Delete(ids) => {
                let delete = doc! { "q": { "_id": { "$in": ids.clone() } }, "limit": 0 };
                running.run(doc! { "delete": "t", "deletes": [delete] });
                ids.len()
            }
            Step::Searched(value) => running.find(doc! { "e": self.searched(*value) }).len(),
            Step::Several(rows) => {
                let values: Vec<_> = rows.iter().map(|row| self.field(row, "u")).collect();
                running.find(doc! { "u": { "$in": values } }).len()
            }
            Step::Unique(row) => running.find(doc! { "u": self.field(row, "u") }).len(),
            Step::Id(id) => running.find(doc! { "_id": id }).len(),
            Step::Element(row, element) => running.find(doc! { "a": self.element(row, *element) }).len(),
            Step::Between(from, to) => running.find(self.between(*from, *to)).len(),
            Step::Sorted(from, to, direction, limit) => {
                let filter = self.between(*from, *to);
                let find = doc! { "find": "t", "filter": filter, "sort": { "r": direction }, "limit": limit };
                running.query(find).len()
            }
            Step::Ordered(direction, limit) => {
                running.query(doc! { "find": "t", "sort": { "r": direction }, "limit": limit }).len()
            }
            Step::Some(limit) => running.query(doc! { "find": "t", "limit": limit }).len(),
            Step::Summed(from, to) => {
                let group =
                    doc! { "$group": { "_id": null, "sum": { "$sum": "$r" }, "count": { "$sum": 1 } } };
                let pipeline = vec![doc! { "$match": self.between(*from, *to) }, group];
                running.query(doc! { "aggregate": "t", "pipeline": pipeline, "cursor": {} }).len()
            }
            Step::Counted(from, to) => {
                let reply = running.run(doc! { "count": "t", "query": self.between(*from, *to) });
                usize::try_from(reply.get_i32("n").unwrap()).unwrap()
            }
        }
    }
}

#[test]
fn a_random_workload_on_two_random_databases_looks_equal() {
    let fresh = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let seed = std::env::var("ARRAS_TEST_SEED").map_or_else(|_| fresh(), |seed| seed.parse().unwrap());
    eprintln!("ARRAS_TEST_SEED={seed}");
    let mut twins = twins::both(ALL_TOP);
    let contents = [Twin::Left, Twin::Right].map(|twin| Contents::new(seed, twin));
    let (mut random, mut failures) = <([RandomBytes; 2], Vec<String>)>::default();
    let serves = |operation: &str| doc! { "operations": [operation] };
    for running in &twins {
        running.create_index(index("e", doc! { "e": 1 }, false, serves("eq")));
        running.create_index(index("u", doc! { "u": 1 }, true, serves("eq")));
        running.create_index(index("r", doc! { "r": 1 }, false, serves("range")));
        running.create_index(index("a", doc! { "a": 1 }, false, serves("eq")));
    }
    twins::compare("making indexes", &mut twins, &mut random, &mut failures);
    let mut workload = Workload::new(seed);
    let mut steps = vec![workload.insert(ROWS_FIRST)];
    steps.extend((0..150).filter_map(|_| workload.step()));
    for (number, step) in steps.iter().enumerate() {
        let found = thread::scope(|scope| {
            let acting = twins.each_ref().map(|running| {
                let contents = &contents[running.twin.pick(0, 1)];
                scope.spawn(move || contents.act(running, step))
            });
            acting.map(|acting| acting.join().unwrap())
        });
        assert_eq!(found[0], found[1], "seed {seed}, step {number}: not one workload");
        twins::compare(
            &format!("seed {seed}, step {number}, {step:?}"),
            &mut twins,
            &mut random,
            &mut failures,
        );
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
    twins::judge(&random, &mut failures);
    twins::stored_alike(twins, &mut failures);
    assert!(failures.is_empty(), "seed {seed}: {}", failures.join("\n"));
}
