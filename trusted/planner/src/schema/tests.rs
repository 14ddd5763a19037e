#![allow(clippy::unwrap_used)]

use super::*;
use arras_service::store::IndexDefinition;
use bson::doc;

const CLINIC: &str = r#"
[collections."clinic.patients"]
scan = "refuse"
indexes = [["doctor", "age"], ["ssn"]]

[collections."clinic.patients".fields]
ssn = { unique = true, type = "string", max_bytes = 11 }
age = { type = "int32" }
ward = { sensitive = false }
cost = { type = "double", operations = ["sum"] }
"address.zip" = { operations = ["eq", "range"], width_bits = 64 }

[[collections."clinic.patients".patterns]]
name = "by age"
eq = ["doctor"]
range = ["age"]
order = ["-age"]
limit = true
"#;

#[test]
fn reads_everything_a_schema_may_say() {
    let schema = Schema::parse(CLINIC, "clinic.toml").unwrap();
    let patients = schema.collection("clinic", "patients").unwrap();
    assert_eq!(patients.scan, ScanPolicy::Refuse);
    assert!(patients.is_unique("ssn") && patients.is_unique("_id") && !patients.is_unique("age"));
    assert!(!patients.is_sensitive("ward") && patients.is_sensitive("never named"));
    assert_eq!(patients.key_width("age"), KeyWidth::Bits64, "an int32 and its tag fit 64 bits");
    assert_eq!(patients.key_width("address.zip"), KeyWidth::Bits64);
    assert_eq!(patients.key_width("ssn"), KeyWidth::Bits128);
    assert_eq!(patients.patterns[0].to_string(), "doctor=, age>, order by -age limit");
    let names: Vec<String> = patients.all_patterns().into_iter().map(|pattern| pattern.name).collect();
    assert_eq!(names, ["by age", "address.zip equals", "range of address.zip"]);
    assert!(patients.all_indexes().contains(&vec!["address.zip".to_owned()]));
    assert!(!patients.all_indexes().contains(&vec!["cost".to_owned()]), "a summed field is not searched");
}

#[test]
fn a_collection_is_planned_against_its_own_adversary_or_the_schemas() {
    let text = "adversary = \"snapshot\"\n[collections.\"a.b\"]\n[collections.\"a.c\"]\nadversary = \"persistent\"\n";
    let schema = Schema::parse(text, "s.toml").unwrap();
    let of = |name| schema.collection("a", name).unwrap().adversary;
    assert_eq!(
        (schema.adversary, of("b"), of("c")),
        (Adversary::Snapshot, Adversary::Snapshot, Adversary::Persistent)
    );
    assert_eq!(Schema::default().adversary, Adversary::Persistent);
}

#[test]
fn an_order_is_auto_unless_a_protocol_is_named() {
    let text =
        "[collections.\"a.b\".fields]\nx = { order = \"arx_range\" }\ny = { order = \"auto\" }\nz = {}\n";
    let schema = Schema::parse(text, "s.toml").unwrap();
    let orders = ["x", "y", "z", "w"].map(|path| schema.collection("a", "b").unwrap().order(path).name());
    assert_eq!(orders, ["arx_range", "auto", "auto", "auto"]);
}

#[test]
fn an_empty_schema_declares_nothing() {
    let schema = Schema::parse("", "empty.toml").unwrap();
    assert_eq!(schema, Schema::default());
    assert!(schema.collection("a", "b").is_none());
}

/// The text, then the line and column of the mistake and words its message has.
type WrongText = (&'static str, usize, usize, &'static [&'static str]);

const WRONG: &[WrongText] = &[
    ("[collections.patients]\n", 1, 14, &["patients", "database.collection"]),
    ("[collections.\"a.b\"]\nscan = \"maybe\"\n", 2, 8, &["maybe", "allow", "refuse"]),
    ("[collections.\"a.b\"]\nscam = \"allow\"\n", 2, 1, &["scam", "scan", "patterns"]),
    ("[collections.\"a.b\".fields]\nx = { width_bits = 48 }\n", 2, 20, &["48", "32, 64 and 128"]),
    ("[collections.\"a.b\".fields]\nx = { operations = [\"like\"] }\n", 2, 21, &["like", "range"]),
    ("[collections.\"a.b\".fields]\nx = { type = \"int\" }\n", 2, 14, &["int", "int32", "int64"]),
    ("[collections.\"a.b\".fields]\nx = { max_bytes = 4 }\n", 2, 19, &["string"]),
    (
        "[collections.\"a.b\".fields]\nx = { type = \"string\", operations = [\"eq\", \"sum\"] }\n",
        2,
        44,
        &["numbers"],
    ),
    ("[collections.\"a.b\".fields]\nx.y = { sensitive = true }\n", 2, 3, &["`y`", "quoted"]),
    ("[collections.\"a.b\"]\nindexes = [[\"x\", \"x\"]]\n", 2, 18, &["twice"]),
    ("[collections.\"a.b\"]\nindexes = [[\"x..y\"]]\n", 2, 13, &["path"]),
    ("[collections.\"a.b\"]\nindexes = [[\"-x\"]]\n", 2, 13, &["only 'order' has directions"]),
    ("[collections.\"a.b\"]\nindexes = [[\"x desc\"]]\n", 2, 13, &["only 'order' has directions"]),
    ("[collections.\"a.b\"]\nleakage_ratio = 0\n", 2, 17, &["at least 1"]),
    (
        "[collections.\"a.b\"]\nfields.x = { type = \"string\" }\npatterns = [{ sum = [\"x\"] }]\n",
        3,
        22,
        &["no sums"],
    ),
    ("[[collections.\"a.b\".patterns]]\neq = [\"x\"]\nrange = [\"x\"]\n", 3, 10, &["both"]),
    ("[collections.\"a.b\"\n", 1, 19, &[]),
    ("adversary = \"operator\"\n", 1, 13, &["operator", "snapshot", "persistent"]),
    ("[collections.\"a.b\"]\nadversary = \"thief\"\n", 2, 13, &["thief", "snapshot", "persistent"]),
    (
        "[collections.\"a.b\".fields]\nx = { order = \"by_hand\" }\n",
        2,
        15,
        &["\"by_hand\"", "\"arx_range\"", "\"auto\""],
    ),
    (
        "[collections.\"a.b\".fields]\nx = { order = \"arx_eq\" }\n",
        2,
        15,
        &["that gives an order", "\"arx_range\""],
    ),
    (
        "[collections.\"a.b\".fields]\nx = { order = \"path_oram\" }\n",
        2,
        15,
        &["'x'", "path_oram", "transaction of a document"],
    ),
    ("[collections.\"a.b\".fields]\nx = { order = \"kerschbaum_tueno\" }\n", 2, 15, &["rewrites its array"]),
    // It has keys for one field only, and no sums.
    (
        "[collections.\"a.b\"]\nindexes = [[\"y\", \"x\"]]\nfields.x = { order = \"bplus_clww\" }\npatterns = [{ eq = [\"y\"], range = [\"x\"] }]\n",
        3,
        22,
        &["'x' cannot have order = \"bplus_clww\"", "one field", "y, x"],
    ),
    (
        "[collections.\"a.b\"]\nfields.x = { order = \"bplus_lewi_wu\" }\npatterns = [{ range = [\"x\"], count = true }]\n",
        2,
        22,
        &["'x' cannot have order", "counts and sums"],
    ),
    (
        "[collections.\"a.b\".fields]\nx = { width_bits = 128, order = \"bplus_clww\" }\n",
        2,
        33,
        &["32 or 64 bits", "128"],
    ),
    ("[collections.\"a.b\".text]\nfields = { title = 0 }\n", 2, 10, &["weight"]),
    ("[collections.\"a.b\".text]\nfields = {}\n", 2, 10, &["no field"]),
    ("[collections.\"a.b\".text]\nfields = { \"a..b\" = 1 }\n", 2, 12, &["a..b"]),
    ("[collections.\"a.b\".text]\nlanguage = \"english\"\n", 2, 1, &["language", "default_language"]),
    ("[[collections.\"a.b\".patterns]]\ntext = true\n", 2, 8, &["text.fields = { title = 1 }"]),
];

#[test]
fn mistakes_name_file_line_column_and_what_is_allowed() {
    for (text, line, column, words) in WRONG {
        let error = Schema::parse(text, "wrong.toml").unwrap_err();
        assert_eq!((error.line, error.column), (*line, *column), "{text}\n{error}");
        assert!(error.to_string().starts_with(&format!("wrong.toml:{line}:{column}: ")), "{error}");
        for word in *words {
            assert!(error.message.contains(word), "'{word}' is not in: {error}");
        }
    }
}

#[test]
fn a_declared_text_is_what_createindexes_would_make() {
    let text = "[collections.\"a.b\"]\ntext.fields = { title = 3, \"note.body\" = 1 }\ntext.default_language = \"german\"\n";
    let schema = Schema::parse(text, "text.toml").unwrap();
    let collection = schema.collection("a", "b").unwrap();
    let declared = collection.text.as_ref().unwrap();
    assert_eq!(declared.to_string(), "BISEN(note.body, title)");
    let asked = IndexDefinition {
        name: TEXT_INDEX.into(),
        key: doc! { "title": "text", "note.body": "text" },
        unique: false,
        sparse: false,
        options: doc! { "weights": { "title": 3 }, "default_language": "german" },
    };
    assert_eq!(declared.request(), crate::request::normalised(asked).unwrap());
    let patterns = collection.all_patterns();
    assert_eq!(patterns.iter().map(ToString::to_string).collect::<Vec<_>>(), ["$text"]);
    assert!(crate::indexes::physical_indexes(collection).is_empty(), "nothing for the server to keep");
}

#[test]
fn the_examples_of_the_documentation_are_schemas_that_refuse_nothing() {
    let text = include_str!("../../../../docs/schema.md");
    let examples: Vec<&str> =
        text.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(examples.len(), 4);
    for example in examples {
        let schema = Schema::parse(example, "docs/schema.md").unwrap();
        for report in crate::report::report(&schema, Default::default(), &crate::cost::Statistics::default())
        {
            assert_eq!(report.notes.len(), 1, "{:?}", report.notes);
            let scans = |outcome: &Result<arras_service::explanation::Explanation, _>| {
                outcome.as_ref().map_or(true, |e| e.scan)
            };
            assert!(report.patterns.iter().all(|pattern| !scans(&pattern.outcome)), "{example}");
        }
    }
}
