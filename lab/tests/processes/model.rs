//! A collection as it must be: a model in memory, random writes with what each makes of it, and questions through
//! every index that its answers are compared with.

use super::dice::Dice;
use arras_lab::wire_client::{ClientError, WireClient};
use bson::{Bson, Document, doc};
use std::collections::BTreeMap;

pub(crate) const DATABASE: &str = "crash";

/// Values of `a` and of `b`: few, so that they repeat.
const A_VALUES: i32 = 8;
const B_VALUES: i32 = 4;
/// Documents kept, about.
const DOCUMENTS: usize = 90;

/// MongoDB's code for a duplicate key.
pub(crate) const DUPLICATE: i32 = 11000;

/// Documents by `_id`, each as a map: the order of fields is not the question here.
pub(crate) type State = BTreeMap<i32, BTreeMap<String, Bson>>;

/// A write, and what it must make of the state.
pub(crate) struct Operation {
    pub(crate) command: Document,
    pub(crate) after: State,
    /// It must be answered with a duplicate-key error.
    pub(crate) duplicate: bool,
}

/// A collection and its model.
pub(crate) struct Model {
    pub(crate) collection: String,
    pub(crate) state: State,
    dice: Dice,
    next: i32,
}

fn as_map(document: &Document) -> (i32, BTreeMap<String, Bson>) {
    let id = document.get_i32("_id").expect("documents of this test have numbers as ids");
    (id, document.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// What a query returned, as a state; fails if a document came twice.
fn as_state(documents: &[Document]) -> State {
    let state: State = documents.iter().map(as_map).collect();
    assert_eq!(state.len(), documents.len(), "a document is returned twice");
    state
}

fn number(fields: &BTreeMap<String, Bson>, name: &str) -> i32 {
    fields.get(name).and_then(Bson::as_i32).expect("a number")
}

impl Model {
    pub(crate) fn new(collection: &str, seed: u64) -> Self {
        Self { collection: collection.to_owned(), state: State::new(), dice: Dice::new(seed), next: 0 }
    }

    /// Makes the collection's indexes.
    pub(crate) fn create_indexes(&self, client: &mut WireClient) {
        let only = |operations: &[&str]| doc! { "arras": { "operations": operations, "widthBits": 32 } };
        let mut summed = only(&["eq", "range", "order"]);
        summed.get_document_mut("arras").unwrap().insert("sums", vec!["v"]);
        let indexes = vec![
            doc! { "key": { "u": 1 }, "name": "u", "unique": true, "storageEngine": only(&["eq"]) },
            doc! { "key": { "a": 1 }, "name": "a", "storageEngine": summed },
            doc! { "key": { "b": 1, "t": 1 }, "name": "b_t", "storageEngine": only(&["eq", "range"]) },
        ];
        let command = doc! { "createIndexes": &self.collection, "indexes": indexes, "$db": DATABASE };
        client.command(&command).unwrap();
    }

    fn document(&mut self) -> Document {
        let id = self.next;
        self.next += 1;
        let v: Bson = match self.dice.below(3) {
            0 => Bson::Int32(self.dice.roll(1000) - 500),
            1 => Bson::Int64(i64::from(self.dice.roll(1000)) << 33),
            // Halves: their sums are exact.
            _ => Bson::Double(f64::from(self.dice.roll(1000)) / 2.0),
        };
        doc! {
            "_id": id,
            "u": format!("u{id}"),
            "a": self.dice.roll(A_VALUES),
            "b": self.dice.roll(B_VALUES),
            "t": self.dice.roll(1000),
            "v": v,
            "n": 0,
        }
    }

    fn some_id(&mut self) -> i32 {
        let offset = self.dice.below(self.state.len().max(1) as u64);
        let id = self.state.keys().nth(usize::try_from(offset).unwrap());
        id.copied().unwrap_or(-1)
    }

    /// A random write. Not applied to the model yet.
    pub(crate) fn operation(&mut self) -> Operation {
        let full = self.state.len() > DOCUMENTS;
        match self.dice.below(12) {
            0 if full => self.delete_many(),
            0..=2 if !full => self.insert(1),
            3 => {
                let count = 2 + self.dice.below(6);
                self.insert(count)
            }
            4 => self.insert_with_duplicate(),
            5 | 6 => self.update_one(),
            7 => self.update_many(),
            8 => self.upsert(),
            9 => self.find_and_modify(),
            10 if self.dice.below(3) == 0 => self.delete_many(),
            _ => self.delete_one(),
        }
    }

    fn insert(&mut self, count: u64) -> Operation {
        let documents: Vec<Document> = (0..count).map(|_| self.document()).collect();
        let mut after = self.state.clone();
        after.extend(documents.iter().map(as_map));
        let command = doc! { "insert": &self.collection, "documents": documents, "$db": DATABASE };
        Operation { command, after, duplicate: false }
    }

    /// Three documents of which the second has a unique value that is taken; the others go in.
    fn insert_with_duplicate(&mut self) -> Operation {
        let mut documents: Vec<Document> = (0..3).map(|_| self.document()).collect();
        let taken = self.some_id();
        let taken = self.state.get(&taken).and_then(|fields| fields.get("u")).cloned();
        let duplicate = taken.is_some();
        let mut after = self.state.clone();
        after.extend(
            documents.iter().enumerate().filter(|(at, _)| !duplicate || *at != 1).map(|(_, d)| as_map(d)),
        );
        if let Some(taken) = taken {
            documents[1].insert("u", taken);
        }
        let command =
            doc! { "insert": &self.collection, "documents": documents, "ordered": false, "$db": DATABASE };
        Operation { command, after, duplicate }
    }

    fn update(&self, after: State, statement: Document) -> Operation {
        let command = doc! { "update": &self.collection, "updates": [statement], "$db": DATABASE };
        Operation { command, after, duplicate: false }
    }

    /// Changes every indexed field of a document.
    fn update_one(&mut self) -> Operation {
        let id = self.some_id();
        let fresh = self.document();
        let mut after = self.state.clone();
        let mut set = Document::new();
        for name in ["u", "a", "b", "t", "v"] {
            let value = fresh.get(name).unwrap().clone();
            if let Some(fields) = after.get_mut(&id) {
                fields.insert(name.to_owned(), value.clone());
            }
            set.insert(name, value);
        }
        if let Some(fields) = after.get_mut(&id) {
            let n = number(fields, "n");
            fields.insert("n".to_owned(), Bson::Int32(n + 1));
        }
        self.update(after, doc! { "q": { "_id": id }, "u": { "$set": set, "$inc": { "n": 1 } } })
    }

    /// Moves all documents of one value to another, and along a range.
    fn update_many(&mut self) -> Operation {
        let (from, to) = (self.dice.roll(A_VALUES), self.dice.roll(A_VALUES));
        let mut after = self.state.clone();
        for fields in after.values_mut().filter(|fields| number(fields, "a") == from) {
            let t = number(fields, "t");
            fields.insert("a".to_owned(), Bson::Int32(to));
            fields.insert("t".to_owned(), Bson::Int32(t + 1));
        }
        let update = doc! { "$set": { "a": to }, "$inc": { "t": 1 } };
        self.update(after, doc! { "q": { "a": from }, "u": update, "multi": true })
    }

    /// Of a document that is there, or of a new one.
    fn upsert(&mut self) -> Operation {
        let mut fresh = self.document();
        let id = if self.dice.below(2) == 0 { self.some_id() } else { fresh.get_i32("_id").unwrap() };
        fresh.remove("_id");
        let mut after = self.state.clone();
        let fields = after.entry(id).or_default();
        fields.insert("_id".to_owned(), Bson::Int32(id));
        fields.extend(fresh.iter().map(|(name, value)| (name.clone(), value.clone())));
        self.update(after, doc! { "q": { "_id": id }, "u": { "$set": fresh }, "upsert": true })
    }

    fn find_and_modify(&mut self) -> Operation {
        let (a, t) = (self.dice.roll(A_VALUES), self.dice.roll(1000));
        let mut after = self.state.clone();
        let matching = after.values_mut().filter(|fields| number(fields, "a") == a);
        if let Some(fields) = matching.min_by_key(|fields| (number(fields, "t"), number(fields, "_id"))) {
            fields.insert("t".to_owned(), Bson::Int32(t));
        }
        let command = doc! {
            "findAndModify": &self.collection,
            "query": { "a": a },
            "sort": { "t": 1, "_id": 1 },
            "update": { "$set": { "t": t } },
            "$db": DATABASE,
        };
        Operation { command, after, duplicate: false }
    }

    fn delete(&self, after: State, filter: Document, limit: i32) -> Operation {
        let statement = doc! { "q": filter, "limit": limit };
        let command = doc! { "delete": &self.collection, "deletes": [statement], "$db": DATABASE };
        Operation { command, after, duplicate: false }
    }

    fn delete_one(&mut self) -> Operation {
        let id = self.some_id();
        let mut after = self.state.clone();
        after.remove(&id);
        self.delete(after, doc! { "_id": id }, 1)
    }

    fn delete_many(&mut self) -> Operation {
        let (a, b) = (self.dice.roll(A_VALUES), self.dice.roll(B_VALUES));
        let mut after = self.state.clone();
        after.retain(|_, fields| (number(fields, "a"), number(fields, "b")) != (a, b));
        self.delete(after, doc! { "a": a, "b": b }, 0)
    }

    fn find(&self, client: &mut WireClient, more: Document) -> Result<Vec<Document>, ClientError> {
        let mut command = doc! { "find": &self.collection };
        command.extend(more);
        command.insert("$db", DATABASE);
        client.query(&command)
    }

    /// The collection as a scan finds it.
    pub(crate) fn scan(&self, client: &mut WireClient) -> Result<State, ClientError> {
        Ok(as_state(&self.find(client, doc! { "filter": {}, "hint": { "$natural": 1 } })?))
    }

    fn matching(&self, holds: impl Fn(&BTreeMap<String, Bson>) -> bool) -> State {
        let matching = self.state.iter().filter(|(_, fields)| holds(fields));
        matching.map(|(id, fields)| (*id, fields.clone())).collect()
    }

    /// Compares what every index answers with the model.
    pub(crate) fn check(&mut self, client: &mut WireClient) -> Result<(), ClientError> {
        assert_eq!(self.scan(client)?, self.state, "by scan");
        for a in 0..A_VALUES {
            let found = as_state(&self.find(client, doc! { "filter": { "a": a } })?);
            assert_eq!(found, self.matching(|fields| number(fields, "a") == a), "equality, a = {a}");
        }
        for b in 0..B_VALUES {
            let found = as_state(&self.find(client, doc! { "filter": { "b": b } })?);
            assert_eq!(found, self.matching(|fields| number(fields, "b") == b), "equality, b = {b}");
        }
        self.check_unique(client)?;
        for _ in 0..3 {
            self.check_range(client)?;
        }
        self.check_order(client)?;
        self.check_sums(client)
    }

    /// Every unique value finds its document, and no other document can take it.
    fn check_unique(&mut self, client: &mut WireClient) -> Result<(), ClientError> {
        let values: Vec<Bson> = self.state.values().map(|fields| fields["u"].clone()).collect();
        for chunk in values.chunks(20) {
            let found = as_state(&self.find(client, doc! { "filter": { "u": { "$in": chunk.to_vec() } } })?);
            assert_eq!(found, self.matching(|fields| chunk.contains(&fields["u"])), "by unique value");
        }
        let free = format!("u{}", self.next + 1_000_000);
        assert_eq!(self.find(client, doc! { "filter": { "u": free } })?, [], "a value nobody has");
        if let Some(taken) = values.last() {
            let mut document = self.document();
            document.insert("u", taken.clone());
            let insert = doc! { "insert": &self.collection, "documents": [document], "$db": DATABASE };
            let refused = client.command(&insert).expect_err("a unique value is taken twice");
            if refused.code() != Some(DUPLICATE) {
                return Err(refused);
            }
        }
        Ok(())
    }

    fn check_range(&mut self, client: &mut WireClient) -> Result<(), ClientError> {
        let (one, other) = (self.dice.roll(A_VALUES), self.dice.roll(A_VALUES));
        let (low, high) = (one.min(other), one.max(other));
        let found = as_state(&self.find(client, doc! { "filter": { "a": { "$gte": low, "$lte": high } } })?);
        let expected = self.matching(|fields| (low..=high).contains(&number(fields, "a")));
        assert_eq!(found, expected, "range, a in {low}..={high}");
        let (b, t) = (self.dice.roll(B_VALUES), self.dice.roll(1000));
        let found = as_state(&self.find(client, doc! { "filter": of_one_range(b, t) })?);
        let expected = self.matching(|fields| number(fields, "b") == b && number(fields, "t") < t);
        assert_eq!(found, expected, "range, b = {b}, t < {t}");
        Ok(())
    }

    /// The first documents in an index's order, from either end.
    fn check_order(&mut self, client: &mut WireClient) -> Result<(), ClientError> {
        let limit = 1 + self.dice.roll(30);
        for direction in [1, -1] {
            let order = doc! { "filter": {}, "sort": { "a": direction, "_id": 1 }, "limit": limit };
            let found = self.find(client, order)?;
            let mut expected: Vec<_> = self.state.values().cloned().collect();
            expected.sort_by_key(|fields| (direction * number(fields, "a"), number(fields, "_id")));
            expected.truncate(usize::try_from(limit).unwrap());
            let found: Vec<_> = found.iter().map(|document| as_map(document).1).collect();
            assert_eq!(found, expected, "first {limit} by a, direction {direction}");
        }
        Ok(())
    }

    /// Sums and counts that an index answers without documents, against those of the documents.
    fn check_sums(&mut self, client: &mut WireClient) -> Result<(), ClientError> {
        let low = self.dice.roll(A_VALUES);
        let pipeline = vec![
            doc! { "$match": { "a": { "$gte": low } } },
            doc! { "$group": { "_id": null, "sum": { "$sum": "$v" }, "count": { "$sum": 1 } } },
        ];
        let command =
            doc! { "aggregate": &self.collection, "pipeline": pipeline, "cursor": {}, "$db": DATABASE };
        let found = client.query(&command)?;
        let matching = self.matching(|fields| number(fields, "a") >= low);
        let total: f64 = matching.values().map(|fields| as_f64(&fields["v"])).sum();
        let expected = (!matching.is_empty()).then_some((total, matching.len()));
        let of_group = |group: &Document| {
            (as_f64(group.get("sum").unwrap()), usize::try_from(group.get_i32("count").unwrap()).unwrap())
        };
        assert_eq!(found.first().map(of_group), expected, "sum and count, a >= {low}");
        Ok(())
    }

    /// Fails unless the questions of [`Self::check`] go through the indexes they are meant for.
    pub(crate) fn check_plans(&self, client: &mut WireClient) {
        let collection = self.collection.as_str();
        let find = |filter: Document| doc! { "find": collection, "filter": filter };
        let group = doc! { "$group": { "_id": null, "sum": { "$sum": "$v" }, "count": { "$sum": 1 } } };
        let pipeline = vec![doc! { "$match": { "a": { "$gte": 1 } } }, group];
        let plans = [
            (find(doc! { "a": 1 }), "ArxEq(a)"),
            (find(doc! { "b": 1 }), "ArxEq(b)"),
            (find(doc! { "u": { "$in": ["x"] } }), "EQunique(u)"),
            (find(doc! { "a": { "$gte": 1, "$lte": 2 } }), "ArxRange(a)"),
            (find(of_one_range(1, 5)), "ArxRange(b, t)"),
            (doc! { "find": collection, "sort": { "a": 1, "_id": 1 }, "limit": 5 }, "ArxRange(a)"),
            (doc! { "aggregate": collection, "pipeline": pipeline, "cursor": {} }, "no document is read"),
        ];
        for (command, expected) in plans {
            let reply = client.command(&doc! { "explain": command.clone(), "$db": DATABASE }).unwrap();
            let explained = reply.get_document("arras").unwrap().to_string();
            assert!(explained.contains(expected), "{command} does not go by {expected}: {explained}");
        }
    }
}

/// The documents of one `b` and a lower `t`, asked for so that the range index alone serves: the entries of a single
/// value of `b` the proxy may look up by equality instead.
fn of_one_range(b: i32, t: i32) -> Document {
    doc! { "b": { "$gte": b, "$lte": b }, "t": { "$lt": t } }
}

fn as_f64(value: &Bson) -> f64 {
    match value {
        Bson::Int32(value) => f64::from(*value),
        #[expect(clippy::cast_precision_loss, reason = "multiples of 2^33 below 2^43")]
        Bson::Int64(value) => *value as f64,
        Bson::Double(value) => *value,
        other => panic!("{other} is not a number of this test"),
    }
}
