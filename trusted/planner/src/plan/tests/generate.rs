//! Random documents, filters and indexes. A case draws all its values from a palette of a few, so that documents,
//! bounds and each other's elements often meet.

use super::super::IndexState;
use crate::kinds::OrderProtocol;
use crate::physical::{KeyWidth, PhysicalIndex};
use crate::schema::FieldType;
use arras_protocol::IndexId;
use bson::{Bson, Document, doc};
use proptest::prelude::*;

/// Paths documents, filters and indexes share; some more often than others.
pub(super) const PATHS: [&str; 11] = ["a", "a", "a", "b", "c", "c.d", "c.d", "c.0", "c.d.e", "c.e", "c.0.d"];

/// Documents, a filter, and indexes over them.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) documents: Vec<Document>,
    pub(super) filter: Document,
    pub(super) indexes: Vec<IndexState>,
}

/// Cases with arrays and documents as values, or without any array; over all fields, or mostly about one.
pub(super) fn case(arrays: bool) -> impl Strategy<Value = Case> {
    let path = prop::sample::select(vec!["a", "a", "c", "c.d", "c.0", "c.e", "c.0.e", ""]);
    (palette(arrays), path).prop_flat_map(move |(palette, path)| {
        let document = if arrays { document(&palette).boxed() } else { plain_document(&palette).boxed() };
        let documents = prop::collection::vec(document, 1..8).prop_map(numbered);
        let (asked, indexed) = match path.split('.').next() {
            None | Some("") => (PATHS.to_vec(), PATHS.to_vec()),
            // Fields of one element, or of two.
            _ if path == "c.e" => (vec!["c.d", "c.e"], vec!["c.d", "c.e", "b"]),
            _ if path == "c.0.e" => (vec!["c.0.d", "c.0.e"], vec!["c.0.d", "c.0.e"]),
            Some(root) => (vec![path, path, root, "b"], vec![path, path, "b"]),
        };
        (documents, filter(&palette, &asked), indexes(indexed))
            .prop_map(|(documents, filter, indexes)| Case { documents, filter, indexes })
    })
}

/// Sorts by the fields of an index, mostly in its order.
pub(super) fn sort(indexes: &[IndexState]) -> impl Strategy<Value = Document> + use<> {
    let fields: Vec<Vec<String>> = indexes.iter().map(|state| super::names(&state.index.fields())).collect();
    let skipped = prop_oneof![4 => Just(0_usize), 1 => Just(1_usize)];
    let same = prop::collection::vec(prop::bool::weighted(0.7), 3);
    (prop::sample::select(fields), skipped, same, any::<bool>()).prop_map(|(fields, skipped, same, up)| {
        let direction = |same: bool| Bson::Int32(if same == up { 1 } else { -1 });
        let keys = fields.into_iter().skip(skipped).zip(same);
        let sort: Document = keys.map(|(field, same)| (field, direction(same))).collect();
        if sort.is_empty() {
            doc! {"a": 1}
        } else {
            sort
        }
    })
}

/// Values of one family, or of all.
fn palette(arrays: bool) -> impl Strategy<Value = Vec<Bson>> {
    let all = if arrays { value().boxed() } else { scalar().boxed() };
    let small = (0..4_i32).prop_map(Bson::Int32);
    prop_oneof![
        prop::collection::vec(small, 2..4),
        prop::collection::vec(prop::sample::select(numbers()), 2..6),
        prop::collection::vec(prop::sample::select(strings()), 2..6),
        prop::collection::vec(all, 2..6),
    ]
}

fn numbered(documents: Vec<Document>) -> Vec<Document> {
    let with_id = |(number, document): (usize, Document)| {
        let mut numbered = doc! {"_id": number as i32};
        numbered.extend(document);
        numbered
    };
    documents.into_iter().enumerate().map(with_id).collect()
}

fn numbers() -> Vec<Bson> {
    let decimal = |text: &str| Bson::Decimal128(text.parse().unwrap());
    let big = 1_i64 << 53;
    let mut all: Vec<Bson> = vec![Bson::Int32(0), Bson::Int32(1), Bson::Int32(2)];
    all.extend([big - 1, big, big + 1, i64::MIN, i64::MAX].map(Bson::Int64));
    let doubles = [-0.0, 0.5, 1.0, big as f64, f64::NAN, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324];
    all.extend(doubles.map(Bson::Double));
    all.extend(["1", "1.00", "1.5", "1.0000000000000000000000001", "NaN", "-Infinity"].map(decimal));
    all
}

fn strings() -> Vec<Bson> {
    let texts =
        ["", "a", "ab", "abc", "b", "a\0", "a long string, 1", "a long string, 2", "a long string, 3"];
    let mut all: Vec<Bson> = texts.map(|text| Bson::String(text.to_owned())).to_vec();
    let regex =
        |pattern: &str| bson::Regex { pattern: pattern.try_into().unwrap(), options: "".try_into().unwrap() };
    all.push(Bson::Symbol("ab".to_owned()));
    all.extend([regex("^a"), regex("^ab")].map(Bson::RegularExpression));
    all
}

fn others() -> Vec<Bson> {
    let mut all = vec![Bson::Boolean(false), Bson::Boolean(true), Bson::MinKey, Bson::MaxKey];
    all.extend([0, 1, -1].map(|millis| Bson::DateTime(bson::DateTime::from_millis(millis))));
    all.extend([1, 2].map(|byte| Bson::ObjectId(bson::oid::ObjectId::from_bytes([byte; 12]))));
    let binary =
        |bytes: &[u8]| bson::Binary { subtype: bson::spec::BinarySubtype::Generic, bytes: bytes.to_vec() };
    all.extend([binary(&[1]), binary(&[1, 0]), binary(&[2; 20])].map(Bson::Binary));
    all.push(Bson::Timestamp(bson::Timestamp { time: 1, increment: 2 }));
    all
}

fn scalar() -> impl Strategy<Value = Bson> {
    prop_oneof![
        4 => (0..4_i32).prop_map(Bson::Int32),
        3 => prop::sample::select(numbers()),
        2 => prop::sample::select(strings()),
        2 => prop::sample::select(others()),
        2 => Just(Bson::Null),
        1 => Just(Bson::Undefined),
    ]
}

/// A value: mostly a scalar, at times a document or an array.
fn value() -> impl Strategy<Value = Bson> {
    scalar().prop_recursive(2, 6, 3, |inner| {
        let elements = prop::collection::vec(inner.clone(), 0..3).prop_map(Bson::Array);
        let field = prop::sample::select(vec!["d", "e", "0"]);
        let documents = prop::collection::vec((field, inner), 0..3).prop_map(|fields| {
            Bson::Document(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
        });
        prop_oneof![2 => elements, 1 => documents]
    })
}

fn of(palette: &[Bson]) -> impl Strategy<Value = Bson> + Clone + use<> {
    prop::sample::select(palette.to_vec())
}

fn list(palette: &[Bson]) -> impl Strategy<Value = Bson> + use<> {
    prop::collection::vec(of(palette), 0..4).prop_map(Bson::Array)
}

fn with_fields(fields: Vec<(&str, Option<Bson>)>) -> Document {
    fields.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), value))).collect()
}

fn document(palette: &[Bson]) -> impl Strategy<Value = Document> + use<> {
    let field = |palette| prop::option::weighted(0.8, prop_oneof![2 => of(palette), 1 => list(palette)]);
    let deep = prop::collection::vec(element(palette), 0..4).prop_map(Bson::Array);
    let single = of(palette).prop_map(|inner| Bson::from(doc! {"d": inner}));
    let rich = prop_oneof![1 => of(palette), 1 => single, 3 => deep];
    (field(palette), field(palette), prop::option::weighted(0.9, rich))
        .prop_map(|(a, b, c)| with_fields(vec![("a", a), ("b", b), ("c", c)]))
}

/// An element of an array whose documents, and nested arrays, filters look into.
fn element(palette: &[Bson]) -> impl Strategy<Value = Bson> + use<> {
    (of(palette), of(palette), 0..10_u8).prop_map(|(inner, other, shape)| match shape {
        0 | 1 => Bson::from(doc! {"d": inner}),
        2 => Bson::from(doc! {"d": {"e": inner}}),
        3 => Bson::from(doc! {"d": [{"e": inner}, {}]}),
        4 => Bson::Array(vec![inner]),
        5 => Bson::from(doc! {"e": inner}),
        6..=8 => Bson::from(doc! {"d": inner, "e": other}),
        _ => inner,
    })
}

/// A document without arrays, as most collections hold.
fn plain_document(palette: &[Bson]) -> impl Strategy<Value = Document> + use<> {
    let field = || prop::option::weighted(0.8, of(palette));
    (field(), field(), field()).prop_map(|(a, b, d)| {
        let c = d.map(|d| Bson::from(doc! {"d": d}));
        with_fields(vec![("a", a), ("b", b), ("c", c)])
    })
}

fn comparison(palette: &[Bson]) -> impl Strategy<Value = Document> + use<> {
    let operator = prop::sample::select(vec!["$eq", "$gt", "$gte", "$lt", "$lte", "$ne"]);
    (operator, of(palette)).prop_map(|(operator, value)| doc! {operator: value})
}

fn between(palette: &[Bson]) -> impl Strategy<Value = Document> + use<> {
    (of(palette), of(palette), any::<bool>()).prop_map(|(low, high, equal)| match equal {
        true => doc! {"$gte": low, "$lte": high},
        false => doc! {"$gt": low, "$lt": high},
    })
}

fn test(palette: &[Bson]) -> impl Strategy<Value = Bson> + use<> {
    let member = (prop::sample::select(vec!["$in", "$in", "$nin", "$all"]), list(palette))
        .prop_map(|(operator, values)| doc! {operator: values});
    let pattern =
        prop::sample::select(vec!["^a", "^a", "^ab", "a", "^a|b", "^ab?", "^a\\x00", "^", "^a long"]);
    let regex = pattern.prop_map(|pattern| doc! {"$regex": pattern});
    let element =
        prop_oneof![comparison(palette), between(palette)].prop_map(|tests| doc! {"$elemMatch": tests});
    let name = prop::sample::select(vec!["d", "d", "0", "d.e", "e"]);
    let inside = prop::collection::vec((name, comparison(palette)), 1..3).prop_map(|tests| {
        let tests: Document = tests.into_iter().map(|(path, test)| (path.to_owned(), test.into())).collect();
        doc! {"$elemMatch": tests}
    });
    let other = prop_oneof![
        any::<bool>().prop_map(|exists| doc! {"$exists": exists}),
        (0..3_i32).prop_map(|size| doc! {"$size": size}),
        of(palette).prop_map(|value| doc! {"$not": {"$lt": value}}),
    ];
    let equal = (of(palette), list(palette), any::<bool>())
        .prop_map(|(value, list, whole)| doc! {"$eq": if whole { list } else { value }});
    let operators = prop_oneof![
        6 => comparison(palette), 4 => between(palette), 3 => equal, 3 => member, 2 => regex, 2 => element,
        3 => inside, 1 => other
    ];
    operators.prop_map(Bson::from)
}

/// A filter: conditions on a path or two, perhaps an `$or` or `$and` of such.
fn filter(palette: &[Bson], paths: &[&'static str]) -> impl Strategy<Value = Document> + use<> {
    let conditions = |palette| {
        prop::collection::vec((prop::sample::select(paths.to_vec()), test(palette)), 0..3).prop_map(|tests| {
            tests.into_iter().map(|(path, test)| (path.to_owned(), test)).collect::<Document>()
        })
    };
    let several = prop::collection::vec(conditions(palette), 1..4);
    let operator = prop::sample::select(vec!["$or", "$or", "$and", "$and", "$nor"]);
    (conditions(palette), prop::option::weighted(0.4, (operator, several))).prop_map(|(mut filter, more)| {
        if let Some((operator, several)) = more {
            filter.insert(operator, several);
        }
        filter
    })
}

fn indexes(paths: Vec<&'static str>) -> impl Strategy<Value = Vec<IndexState>> {
    let several = prop::collection::vec(prop::sample::select(paths.clone()), 0..3);
    let several = prop::option::weighted(0.5, several);
    let fields = (prop::sample::select(paths), several).prop_map(|(first, several)| {
        let mut fields = vec![first];
        for field in several.unwrap_or_default() {
            if !fields.contains(&field) {
                fields.push(field);
            }
        }
        fields
    });
    let width =
        prop::sample::select(vec![KeyWidth::Bits32, KeyWidth::Bits64, KeyWidth::Bits128, KeyWidth::Bits128]);
    let typed = prop::sample::select(vec![
        None,
        Some(FieldType::Date),
        Some(FieldType::Double),
        Some(FieldType::Int32),
        Some(FieldType::Int64),
        Some(FieldType::String),
    ]);
    let index = (fields, 0..9_u8, width, typed, prop::bool::weighted(0.2)).prop_map(
        |(fields, kind, width, typed, sparse)| {
            let fields = super::names(&fields);
            let index = match kind {
                0 => PhysicalIndex::Unique { fields },
                1 | 2 => PhysicalIndex::Eq { fields },
                3 | 4 => PhysicalIndex::Range {
                    protocol: OrderProtocol::named("pope").unwrap(),
                    equal: Vec::new(),
                    range: fields[0].clone(),
                    width: width.min(KeyWidth::Bits64),
                    typed,
                    aggregates: None,
                },
                _ => PhysicalIndex::range(&fields, width, Some(Vec::new())).unwrap(),
            };
            (index, sparse)
        },
    );
    prop::collection::vec(index, 1..5).prop_map(|indexes| {
        let state = |(number, (index, sparse)): (usize, (PhysicalIndex, bool))| IndexState {
            sparse,
            ..IndexState::new(IndexId([number as u8; 8]), index.to_string(), index)
        };
        indexes.into_iter().enumerate().map(state).collect()
    })
}
