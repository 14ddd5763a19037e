#![allow(clippy::unwrap_used)]

use super::*;

fn clinic() -> Vec<CollectionReport> {
    let schema = Schema::parse(include_str!("../../golden/clinic.toml"), "clinic.toml").unwrap();
    report(&schema, Tuning::default(), &Statistics::default())
}

/// The text as it should be is `golden/clinic.txt`: read the difference before you replace it.
#[test]
fn the_report_of_a_schema_reads_as_expected() {
    let text = text(&clinic());
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert_eq!(text, include_str!("../../golden/clinic.txt"), "\n{text}");
}

#[test]
fn an_explanation_is_a_document_too() {
    let clinic = clinic();
    let patients = clinic.iter().find(|collection| collection.namespace == "clinic.patients").unwrap();
    let latest =
        patients.patterns.iter().find(|pattern| pattern.name == "a doctor's latest patients").unwrap();
    let document = latest.outcome.as_ref().unwrap().to_document();
    let used = document.get_array("indexes").unwrap()[0].as_document().unwrap();
    assert!(used.get_str("index").unwrap().starts_with("ArxRange(doctor, admitted)"));
    let leakage = document.get_document("leakage").unwrap();
    let search: Vec<&str> = leakage.get_array("search").unwrap().iter().filter_map(Bson::as_str).collect();
    assert!(search.contains(&"the limit asked for") && search.contains(&"bucket ranks of the bounds"));
    assert_eq!(document.get_document("estimatedCost").unwrap().get_i64("documents").unwrap(), 100);
    assert!(!document.get_bool("collectionScan").unwrap());
    let blood = patients.patterns.iter().find(|pattern| pattern.name == "by blood group").unwrap();
    assert!(matches!(&blood.outcome, Err(PlanError::NoIndex { field, .. }) if field == "blood"));
}

fn notes(schema: &str) -> Vec<String> {
    let schema = Schema::parse(&format!("[collections.\"a.b\"]\n{schema}"), "s").unwrap();
    let reports = report(&schema, Tuning::default(), &Statistics::default());
    reports[0].notes[1..].to_vec()
}

#[test]
fn what_builds_nothing_or_less_is_said() {
    let cases = [
        ("indexes = [[\"x\"]]", "indexes: [\"x\"] builds nothing"),
        ("patterns = [{eq = [\"x\"]}]", "'x=' builds no index; to serve it add indexes = [[\"x\"]]"),
        (
            "indexes = [[\"x\"]]\npatterns = [{eq = [\"x\"], order = [\"y\"]}]",
            "an order without limit = true asks for no index",
        ),
        (
            "fields.x = {type = \"int32\", order = \"bplus_clww\", operations = [\"equality\"]}",
            "'x': order = \"bplus_clww\" builds nothing",
        ),
        ("fields.x = {operations = [\"sum\"]}", "'x': sums are kept beside a range index"),
        (
            "fields.x = {type = \"date\", width_bits = 32, operations = [\"range\"]}",
            "a key of 32 bits keeps 3 bytes",
        ),
        (
            "indexes = [[\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\", \"j\"]]\n\
             patterns = [{eq = [\"a\", \"b\", \"c\", \"d\", \"e\", \"f\", \"g\", \"h\", \"i\"], range = [\"j\"]}]",
            "on 7 of the 10 fields",
        ),
    ];
    for (schema, expected) in cases {
        let notes = notes(schema);
        assert!(notes.iter().any(|note| note.contains(expected)), "{schema}: {notes:#?}");
    }
    let ordered = "fields.x = {type = \"int32\", order = \"bplus_clww\", operations = [\"range\"]}";
    for served in ["indexes = [[\"x\"]]\npatterns = [{eq = [\"x\"]}]", ordered] {
        assert_eq!(notes(served), [""; 0]);
    }
}
