//! Random schemas and commands.
//!
//! Where MongoDB leaves open what happens, nothing is asked: which documents a multi-update has changed before it
//! fails, or which of several a single update takes.

use arras_service::store::IndexDefinition;
use bson::{Bson, DateTime, Document, doc};

/// Documents that there are, about.
const IDS: u64 = 60;
/// Fields that are searched. Arrays are in `a` and `c` alone, and no index has both.
const FIELDS: [&str; 5] = ["a", "b", "c", "d.e", "u"];
const COMPOUND: [[&str; 2]; 5] = [["a", "b"], ["b", "a"], ["b", "d.e"], ["c", "b"], ["d.e", "b"]];

#[derive(Clone, Debug, Default)]
pub(super) struct Find {
    pub(super) filter: Document,
    pub(super) sort: Document,
    pub(super) skip: u64,
    pub(super) limit: Option<u64>,
    /// Which of the indexes there are, if so many.
    pub(super) hint: Option<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Command {
    Find(Find),
    Count(Find),
    Aggregate {
        filter: Document,
        field: String,
    },
    Insert(Vec<Document>),
    Update {
        filter: Document,
        change: Document,
        multi: bool,
        upsert: bool,
    },
    Delete {
        filter: Document,
    },
    FindAndModify {
        find: Find,
        change: Document,
    },
    CreateIndex(IndexDefinition),
    /// Which of those there are.
    DropIndex(usize),
}

/// Random numbers that a seed repeats (SplitMix64), and what is made of them.
pub(super) struct Generator(u64);

impl Generator {
    pub(super) fn new(seed: u64, stream: u64) -> Self {
        Self(seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03))
    }

    fn below(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % sides
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        let at = self.below(of.len() as u64) as usize;
        of.get(at).expect("some are given").clone()
    }

    fn small(&mut self) -> i32 {
        self.below(9) as i32 - 2
    }

    fn is(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    /// A value that is no array.
    fn scalar(&mut self) -> Bson {
        let small = self.small();
        match self.below(14) {
            0..=5 => Bson::Int32(small),
            6 => Bson::Int64(i64::from(small)),
            7 => Bson::Double(f64::from(small) / 2.0),
            8 => Bson::Int64((1 << 53) + i64::from(small)),
            9 => Bson::String("x".repeat(small.unsigned_abs() as usize)),
            10 => Bson::String(format!("a long string of which keys hold the first bytes {small}")),
            11 => Bson::DateTime(DateTime::from_millis(i64::from(small) * 1_000_000)),
            12 => self.one(&[Bson::Null, Bson::Boolean(true), Bson::Boolean(false)]),
            _ => self.one(&[
                Bson::Double(f64::NAN),
                Bson::Double(-0.0),
                Bson::Double(f64::INFINITY),
                Bson::Document(doc! { "e": small }),
                Bson::Document(doc! {}),
            ]),
        }
    }

    fn value(&mut self, field: &str) -> Bson {
        if (field == "a" || field == "c") && self.is(8) {
            let length = self.below(4);
            return Bson::Array((0..length).map(|_| self.scalar()).collect());
        }
        match field {
            "u" => Bson::Int32(self.below(4 * IDS) as i32),
            // Halves, whose sums are exact.
            "v" => Bson::Double(f64::from(self.small()) / 2.0),
            _ => self.scalar(),
        }
    }

    fn document(&mut self) -> Document {
        let mut document = doc! { "_id": self.below(IDS) as i32 };
        for field in ["a", "b", "c", "u", "v"] {
            if !self.is(6) || field == "u" {
                document.insert(field, self.value(field));
            }
        }
        if self.is(2) {
            document.insert("d", doc! { "e": self.scalar() });
        }
        document
    }

    /// A schema of the collection `lab.things`, or none.
    pub(super) fn schema(&mut self) -> String {
        if self.is(4) {
            return String::new();
        }
        let mut text = "[collections.\"lab.things\"]\n".to_owned();
        if self.is(6) {
            text.push_str("scan = \"refuse\"\n");
        }
        let ratio = self.one(&["", "leakage_ratio = 1\n", "leakage_ratio = 50\n"]);
        text.push_str(ratio);
        let [first, second] = self.one(&COMPOUND);
        text.push_str(&format!("indexes = [[\"{first}\", \"{second}\"]]\n"));
        text.push_str("[collections.\"lab.things\".fields]\n");
        for field in ["a", "b", "c", "d.e"] {
            if self.is(2) {
                let all = ["\"eq\"", "\"range\"", "\"order\""];
                let operations: Vec<&str> = all.into_iter().filter(|_| self.is(2)).collect();
                let width = self.one(&["", ", width_bits = 32", ", width_bits = 64"]);
                text.push_str(&format!(
                    "\"{field}\" = {{ operations = [{}]{width} }}\n",
                    operations.join(", ")
                ));
            }
        }
        if self.is(2) {
            text.push_str("u = { unique = true }\n");
        }
        if self.is(2) {
            text.push_str("v = { type = \"double\", operations = [\"sum\"] }\n");
        }
        if self.is(2) {
            text.push_str("[[collections.\"lab.things\".patterns]]\nname = \"p\"\n");
            text.push_str(&format!("eq = [\"{first}\"]\n"));
            text.push_str(&self.one(&[
                format!("range = [\"{second}\"]\n"),
                format!("order = [\"{second}\"]\nlimit = true\n"),
                format!("range = [\"{second}\"]\ncount = true\n"),
            ]));
        }
        text
    }

    /// A condition on a field.
    fn condition(&mut self, field: &str) -> Bson {
        let value = self.value(field);
        let other = self.value(field);
        Bson::Document(match self.below(16) {
            0..=4 => return value,
            5 | 6 => doc! { "$gte": value },
            7 => doc! { "$lt": value },
            8 => doc! { "$gt": value, "$lte": other },
            9 => doc! { "$gte": value, "$lt": other },
            10 | 11 => {
                let count = if self.is(6) { 70 } else { 3 };
                doc! { "$in": (0..count).map(|_| self.value(field)).collect::<Vec<_>>() }
            }
            12 => doc! { "$ne": value },
            13 => doc! { "$exists": self.is(2) },
            14 => doc! { "$elemMatch": { "$gte": value, "$lt": other } },
            _ => self.one(&[
                doc! { "$gt": Bson::MinKey },
                doc! { "$lt": Bson::MinKey },
                doc! { "$gte": Bson::Null },
                doc! { "$type": "number" },
                doc! { "$size": 2 },
            ]),
        })
    }

    fn conjunction(&mut self) -> Document {
        let mut filter = Document::new();
        for _ in 0..1 + self.below(3) {
            let field = if self.is(10) { "_id" } else { self.one(&FIELDS) };
            let condition = match field {
                "_id" => Bson::Int32(self.below(IDS) as i32),
                _ => self.condition(field),
            };
            filter.insert(field, condition);
        }
        filter
    }

    fn filter(&mut self) -> Document {
        match self.below(12) {
            0 => Document::new(),
            1 | 2 => {
                let branches = 1 + self.below(3);
                doc! { "$or": (0..branches).map(|_| self.conjunction()).collect::<Vec<_>>() }
            }
            3 => {
                let mut filter = self.conjunction();
                filter.insert("$or", vec![self.conjunction(), self.conjunction()]);
                filter
            }
            4 => doc! { "$and": [self.conjunction(), self.conjunction()] },
            5 => doc! { "$nor": [self.conjunction()] },
            _ => self.conjunction(),
        }
    }

    fn find(&mut self) -> Find {
        let mut sort = Document::new();
        for _ in 0..self.below(3) {
            let direction = self.one(&[1, -1]);
            sort.insert(self.one(&["a", "b", "c", "d.e", "u", "_id"]), direction);
        }
        let skip = if self.is(5) { self.below(10) } else { 0 };
        let limit = if self.is(2) { Some(1 + self.below(20)) } else { None };
        let hint = if self.is(12) { Some(self.below(4) as usize) } else { None };
        Find { filter: self.filter(), sort, skip, limit, hint }
    }

    /// A change that fails of no document, and touches no constraint.
    fn change(&mut self) -> Document {
        let field = self.one(&["a", "b", "c", "v", "w"]);
        match self.below(4) {
            0 => doc! { "$unset": { field: "" } },
            1 => doc! { "$set": { "d": { "e": self.scalar() } } },
            _ => doc! { "$set": { field: self.value(field) } },
        }
    }

    fn index(&mut self) -> IndexDefinition {
        let fields: Vec<&str> = match self.below(4) {
            0 => self.one(&COMPOUND).to_vec(),
            _ => vec![self.one(&FIELDS)],
        };
        let unique = fields == ["u"];
        let key: Document = fields.iter().map(|field| ((*field).to_owned(), Bson::Int32(1))).collect();
        let mut own = Document::new();
        if self.is(3) {
            own.insert("sums", vec!["v"]);
        }
        if self.is(3) {
            own.insert("widthBits", self.one(&[32, 64, 128]));
        }
        let mut options = Document::new();
        if !own.is_empty() && !unique {
            options.insert("storageEngine", doc! { "arras": own });
        }
        // A name for each request, so that none conflicts with another.
        let name = format!("{}_{}", fields.join("_"), self.below(1 << 40));
        IndexDefinition { name, key, unique, sparse: false, options }
    }

    pub(super) fn command(&mut self) -> Command {
        match self.below(40) {
            0..=5 => {
                let count = 1 + self.below(5);
                Command::Insert((0..count).map(|_| self.document()).collect())
            }
            6..=8 => {
                let change = self.change();
                Command::Update { filter: self.filter(), change, multi: true, upsert: false }
            }
            9 | 10 => {
                let upsert = self.is(3);
                let mut change = self.document();
                let filter = doc! { "_id": change.remove("_id").expect("it has one") };
                Command::Update { filter, change: doc! { "$set": change }, multi: false, upsert }
            }
            11 => Command::Delete { filter: self.conjunction() },
            12 => {
                let mut find = self.find();
                find.sort.insert("_id", 1);
                find.hint = None;
                find.skip = 0;
                find.limit = None;
                Command::FindAndModify { find, change: self.change() }
            }
            13 | 14 => Command::CreateIndex(self.index()),
            15 => Command::DropIndex(self.below(8) as usize),
            16..=19 => {
                let (sort, hint) = (Document::new(), None);
                Command::Count(Find { sort, hint, ..self.find() })
            }
            20 | 21 => {
                let field = self.one(&FIELDS);
                let filter = doc! { field: self.condition(field) };
                Command::Aggregate { filter, field: "v".to_owned() }
            }
            _ => Command::Find(self.find()),
        }
    }
}
