#![allow(clippy::unwrap_used)]

use super::*;
use crate::adversary::Adversary;
use crate::schema::Schema;
use bson::doc;

fn request(key: Document, unique: bool, options: Document) -> IndexDefinition {
    IndexDefinition { name: "an_index".to_owned(), key, unique, sparse: false, options }
}

fn built(request: &IndexDefinition) -> Vec<String> {
    indexes_for(request, None).unwrap().iter().map(|index| format!("{index:#}")).collect()
}

#[test]
fn without_a_schema_the_whole_promise_is_kept() {
    let none = Document::new;
    assert_eq!(built(&request(doc! {"a": 1}, false, none())), ["ArxEq(a)", "ArxRange(a)"]);
    assert_eq!(built(&request(doc! {"a": -1}, true, none())), ["EQunique(a)", "ArxRange(a)"]);
    assert_eq!(
        built(&request(doc! {"a": 1, "b": -1}, false, none())),
        ["ArxEq(a)", "ArxEq(a, b)", "ArxRange(a, b)"]
    );
    assert_eq!(
        built(&request(doc! {"a": 1, "b.c": 1.0}, true, none())),
        ["EQunique(a, b.c)", "ArxEq(a)", "ArxRange(a, b.c)"]
    );
    assert_eq!(built(&request(doc! {"a": "hashed"}, false, none())), ["ArxEq(a)"]);
    assert_eq!(built(&request(doc! {"_id": 1}, false, none())), ["ArxRange(_id)"]);
    assert_eq!(built(&request(doc! {"_id": "hashed"}, false, none())), [""; 0]);
}

#[test]
fn the_storage_engine_option_narrows_and_adds_sums() {
    let arras = |own: Document| request(doc! {"a": 1}, false, doc! {"storageEngine": {"arras": own}});
    assert_eq!(built(&arras(doc! {"operations": ["eq"]})), ["ArxEq(a)"]);
    assert_eq!(built(&arras(doc! {"operations": ["order"]})), ["ArxRange(a)"]);
    assert_eq!(
        built(&arras(doc! {"operations": ["range"], "sums": ["x", "y"]})),
        ["ArxRange(a) with counts and sums of x, y"]
    );
    assert_eq!(built(&arras(doc! {"operations": ["range"], "count": true})), ["ArxRange(a) with counts"]);
    let narrow = indexes_for(&arras(doc! {"operations": ["range"], "widthBits": 64_i64}), None).unwrap();
    assert_eq!(narrow[0].key_bytes(), Some(8));
    for wrong in [
        doc! {"operations": ["like"]},
        doc! {"operations": "eq"},
        doc! {"sums": [1]},
        doc! {"widthBits": 48},
        doc! {"count": 1},
        doc! {"speed": true},
        doc! {"order": 1},
    ] {
        let error = indexes_for(&arras(wrong.clone()), None).unwrap_err();
        assert!(matches!(error, RequestError::Option { option: "storageEngine", .. }), "{wrong}: {error}");
    }
    assert_eq!(built(&arras(doc! {"order": "arx_range"})), ["ArxEq(a)", "ArxRange(a)"]);
    assert_eq!(built(&arras(doc! {"order": "auto", "operations": ["range"]})), ["ArxRange(a)"]);
    for (own, why) in [
        (doc! {"order": "by_hand"}, "\"arx_range\", "),
        (doc! {"order": "path_oram"}, "transaction of a document"),
        (doc! {"order": "bplus_clww", "sums": ["x"]}, "counts and sums"),
        (doc! {"order": "bplus_clww", "widthBits": 128}, "32 or 64 bits"),
        (doc! {"order": "arx_range", "operations": ["eq"]}, "equality alone"),
    ] {
        let error = indexes_for(&arras(own.clone()), None).unwrap_err();
        assert!(matches!(error, RequestError::Order { .. }), "{own}: {error}");
        assert!(error.to_string().contains(why), "{why} is not in: {error}");
    }
    let others = request(doc! {"a": 1}, false, doc! {"storageEngine": {"wiredTiger": {}}});
    assert_eq!(built(&others).len(), 2);
}

#[test]
fn what_has_no_encrypted_form_is_refused_by_name() {
    let cases = [
        (request(doc! {"a": "text"}, false, doc! {}), Fault::CannotCreateIndex, "\"text\""),
        (request(doc! {"a": "2dsphere"}, false, doc! {}), Fault::CannotCreateIndex, "'a'"),
        (request(doc! {"$**": 1}, false, doc! {}), Fault::CannotCreateIndex, "wildcard"),
        (request(doc! {"a": 0}, false, doc! {}), Fault::CannotCreateIndex, "kind 0"),
        (request(doc! {}, false, doc! {}), Fault::CannotCreateIndex, "no field"),
        (request(doc! {"a..b": 1}, false, doc! {}), Fault::CannotCreateIndex, "path"),
        (request(doc! {"a": "hashed"}, true, doc! {}), Fault::CannotCreateIndex, "unique"),
        (
            request(doc! {"a": 1}, false, doc! {"collation": {"locale": "fr"}}),
            Fault::InvalidOptions,
            "collation",
        ),
        (
            request(doc! {"a": 1}, true, doc! {"partialFilterExpression": {"b": 1}}),
            Fault::InvalidOptions,
            "partialFilterExpression",
        ),
    ];
    for (wrong, fault, word) in cases {
        let error = ServiceError::from(indexes_for(&wrong, None).unwrap_err());
        assert_eq!(error.fault, fault, "{error}");
        assert!(error.message.contains(word) && error.message.contains("an_index"), "{error}");
    }
    let simple = request(doc! {"a": 1}, false, doc! {"collation": {"locale": "simple"}});
    assert_eq!(built(&simple).len(), 2);
}

#[test]
fn a_schema_narrows_to_what_its_queries_need() {
    let text = r#"
        [collections."a.b"]
        [collections."a.b".fields]
        age = { type = "int32" }
        name = { operations = ["eq"] }
        [[collections."a.b".patterns]]
        eq = ["doctor"]
        range = ["age"]
    "#;
    let schema = Schema::parse(text, "schema.toml").unwrap();
    let collection = schema.collection("a", "b");
    let build = |key: Document, unique: bool| -> Vec<String> {
        let indexes = indexes_for(&request(key, unique, doc! {}), collection).unwrap();
        indexes.iter().map(|index| format!("{index:#}")).collect()
    };
    assert_eq!(build(doc! {"name": 1}, false), ["ArxEq(name)"]);
    assert_eq!(build(doc! {"doctor": 1, "age": 1}, false), ["ArxRange(doctor, age)"]);
    let asked_for = ["ArxEq(never queried)", "ArxRange(never queried)"];
    assert_eq!(build(doc! {"never queried": 1}, false), asked_for, "no query of the schema's could use it");
    assert_eq!(build(doc! {"email": 1}, true), ["EQunique(email)"], "a constraint holds whatever is queried");
    let types_only =
        Schema::parse("[collections.\"a.b\".fields]\nage = { type = \"int32\" }\n", "s").unwrap();
    let indexes =
        indexes_for(&request(doc! {"age": 1}, false, doc! {}), types_only.collection("a", "b")).unwrap();
    assert_eq!(indexes.len(), 2, "types alone declare no queries");
    assert_eq!(indexes[1].key_bytes(), Some(8));
}

#[test]
fn only_what_is_there_stands_for_what_is_wanted() {
    let wanted = || indexes_for(&request(doc! {"ssn": 1}, true, doc! {}), None).unwrap();
    let names = |indexes: Vec<PhysicalIndex>| indexes.iter().map(ToString::to_string).collect::<Vec<_>>();
    let unique = PhysicalIndex::Unique { fields: vec!["ssn".into()] };
    let range = PhysicalIndex::range(&["ssn".into()], KeyWidth::Bits128, None).unwrap();
    let equality = PhysicalIndex::Eq { fields: vec!["ssn".into()] };
    let left =
        |there: &[(&PhysicalIndex, bool)], sparse| names(missing(wanted(), sparse, there.iter().copied()));
    assert_eq!(left(&[], false), ["EQunique(ssn)", "ArxRange(ssn)"]);
    assert_eq!(
        left(&[(&equality, false)], false),
        ["EQunique(ssn)", "ArxRange(ssn)"],
        "equality enforces nothing"
    );
    assert_eq!(left(&[(&unique, false), (&range, false)], false), [""; 0]);
    let plain = indexes_for(&request(doc! {"ssn": "hashed"}, false, doc! {}), None).unwrap();
    let there = [(&unique, false)];
    assert_eq!(names(missing(plain, false, there.iter().copied())), ["ArxEq(ssn)"], "it constrains nothing");
    assert_eq!(left(&[(&unique, true), (&range, true)], false), ["EQunique(ssn)", "ArxRange(ssn)"]);
    assert_eq!(
        left(&[(&unique, false), (&range, false)], true),
        ["EQunique(ssn)"],
        "too strict for a sparse one"
    );
}

#[test]
fn another_protocol_of_the_same_fields_is_refused_with_the_way_to_it() {
    let by = |name: &str, field: &str| PhysicalIndex::Range {
        protocol: OrderProtocol::named(name).unwrap(),
        equal: Vec::new(),
        range: field.to_owned(),
        width: KeyWidth::Bits64,
        typed: None,
        aggregates: None,
    };
    let eq = PhysicalIndex::Eq { fields: vec!["a".to_owned()] };
    let wanted = [eq.clone(), by("pope", "a")];
    let change = changed_protocol(&wanted, &by("arx_range", "a")).unwrap();
    let refusal = change.refusal("a_1");
    for word in ["'a'", "by arx_range", "\"pope\"", "dropIndex(\"a_1\")", "create it again"] {
        assert!(refusal.contains(word), "{word} is not in: {refusal}");
    }
    for there in [by("pope", "a"), by("arx_range", "b"), eq] {
        assert_eq!(changed_protocol(&wanted, &there), None, "{there}");
    }
    // Neither stands for the other.
    assert!(
        !by("pope", "a").implies(&by("arx_range", "a")) && !by("arx_range", "a").implies(&by("pope", "a"))
    );
}

#[test]
fn who_is_not_to_learn_is_said_of_collections_that_are_not_declared_too() {
    let schema = |text: &str| Schema::parse(text, "schema.toml").unwrap();
    let narrow = doc! {"storageEngine": {"arras": {"operations": ["range"], "widthBits": 32}}};
    let request = request(doc! {"a": 1}, false, narrow);
    let made = |schema: &Schema| {
        let made = indexes_for(&request, Some(&schema.undeclared())).unwrap();
        assert_eq!(Some(&made), indexes_for(&request, schema.collection("a", "b")).ok().as_ref());
        made
    };
    assert_eq!(made(&schema("[collections.\"a.b\"]\n")).len(), 1);
    let snapshot = schema("adversary = \"snapshot\"\n[collections.\"a.b\"]\n");
    assert_eq!(made(&snapshot).len(), 1);
    assert_eq!(snapshot.undeclared().adversary, Adversary::Snapshot);
}
