//! The catalog beside a plain map.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::index::tests::{eq_of, range_of, unique_of};
use crate::tests::randomly;
use arras_keys::Key;
use arras_storage::{Durability, Memory};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};
use std::collections::BTreeMap;

/// A request with whatever the wire can bring.
fn request(rng: &mut StdRng) -> IndexDefinition {
    let name = ["a_1", "über\0", "", "_id_"][rng.random_range(0..4)].to_owned();
    let key = doc! { "a": 1, "b.c": -1.0, "text": "hashed" };
    let options = match rng.random_range(0..3) {
        0 => Document::new(),
        1 => doc! { "storageEngine": { "arras": { "widthBits": 32_i64 } }, "unique": "an option, too" },
        _ => doc! { "text": { "id": 1 } },
    };
    IndexDefinition { name, key, unique: rng.random(), sparse: rng.random(), options }
}

fn part(rng: &mut StdRng) -> IndexPartRecord {
    let physical = match rng.random_range(0..4) {
        0 => unique_of(&["a"]),
        1 => eq_of(&["b", "a"]),
        2 => range_of(&["a", "b.c"]),
        _ => {
            let PhysicalIndex::Range { protocol, equal, range, width, .. } = range_of(&["x"]) else {
                unreachable!()
            };
            let aggregates = Some(vec!["sum".to_owned()]);
            let typed = arras_planner::schema::FieldType::named("int32");
            PhysicalIndex::Range { protocol, equal, range, width, typed, aggregates }
        }
    };
    let mut id = [0; 8];
    rng.fill_bytes(&mut id);
    IndexPartRecord { id: IndexId(id), physical, sparse: rng.random(), bucket_factor: rng.random() }
}

fn collection(rng: &mut StdRng, ns: &Namespace) -> CollectionRecord {
    let mut index = |_| {
        let parts = (0..rng.random_range(0..3)).map(|_| part(rng)).collect();
        let mut record = IndexRecord::new(&request(rng), parts);
        record.ready = rng.random();
        record
    };
    let indexes = (0..3).map(&mut index).collect();
    let mut id = [0; 8];
    rng.fill_bytes(&mut id);
    CollectionRecord {
        database: ns.database.clone(),
        collection: ns.collection.clone(),
        id: CollectionId(id),
        key_version: rng.random(),
        indexes,
    }
}

/// All that is said of a collection.
fn told(record: &CollectionRecord) -> String {
    let index =
        |index: &IndexRecord| format!("{:?} {:?} {}", index.request().unwrap(), index.parts, index.ready);
    let indexes: Vec<String> = record.indexes.iter().map(index).collect();
    format!("{:?} {:?} {} {indexes:?}", record.namespace(), record.id, record.key_version)
}

fn all_told(records: Vec<CollectionRecord>) -> Vec<String> {
    let mut told: Vec<String> = records.iter().map(told).collect();
    told.sort();
    told
}

#[test]
fn collections_are_read_as_they_were_recorded_last_and_those_set_aside_apart_from_them() {
    let mut rng = randomly();
    let local = LocalStore::open(Memory::new(), &Key::generate()).unwrap();
    // Names that are one where nothing stands between them.
    let names = [("a", "bc"), ("ab", "c"), ("a", "b.c"), ("a.b", "c"), ("a", ""), ("ä", "c")];
    let mut model = [BTreeMap::new(), BTreeMap::new()];
    for _ in 0..200 {
        let (database, name) = names[rng.random_range(0..names.len())];
        let ns = Namespace { database: database.into(), collection: name.into() };
        let record = collection(&mut rng, &ns);
        let (aside, stays) = (rng.random::<bool>(), rng.random_range(0..3) > 0);
        let change = match (stays, aside) {
            (false, false) => forget(&local, &ns),
            (false, true) => forget_aside(&local, &ns),
            (true, false) => super::record(&local, &record),
            (true, true) => keep_aside(&local, &record),
        };
        local.apply(&[change], Durability::Relaxed).unwrap();
        model[usize::from(aside)].remove(&ns);
        if stays {
            model[usize::from(aside)].insert(ns, told(&record));
        }
        let expected = |aside: usize| {
            let mut told: Vec<String> = model[aside].values().cloned().collect();
            told.sort();
            told
        };
        assert_eq!(all_told(all(&local).unwrap()), expected(0));
        assert_eq!(all_told(set_aside(&local).unwrap()), expected(1));
    }
}

#[test]
fn a_request_is_read_as_it_came() {
    let mut rng = randomly();
    for _ in 0..100 {
        let request = request(&mut rng);
        let record = IndexRecord::new(&request, Vec::new());
        assert!(!record.ready, "nothing is filled when it is recorded");
        assert_eq!((record.request().unwrap(), record.text()), (request.clone(), None));
        // Beside what is said of a text index, it is the same.
        let text = TextRecord { id: rng.random(), fingerprint: rng.random() };
        let record = record.with_text(Some(text));
        assert_eq!((record.request().unwrap(), record.text()), (request.clone(), Some(text)));
        let record = record.with_text(None);
        assert_eq!(
            (record.request().unwrap(), record.text()),
            (request, Some(text)),
            "nothing is taken away"
        );
    }
}

#[test]
fn a_request_that_does_not_parse_is_damage_and_no_request() {
    let whole = IndexRecord::new(&request(&mut randomly()), Vec::new()).request;
    for length in 0..whole.len() {
        let cut = IndexRecord { request: whole[..length].to_vec(), parts: Vec::new(), ready: true };
        assert!(matches!(cut.request(), Err(LocalError::Damaged(_))), "{length} of {}", whole.len());
    }
    for lacking in [doc! { "key": { "a": 1 } }, doc! { "name": "a" }, doc! { "name": 1, "key": { "a": 1 } }] {
        let request = lacking.to_vec().unwrap();
        let record = IndexRecord { request, parts: Vec::new(), ready: true };
        assert!(matches!(record.request(), Err(LocalError::Damaged(_))), "{lacking}");
    }
}
