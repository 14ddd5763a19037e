#![allow(clippy::unwrap_used)]

use super::*;

fn clinic() -> Vec<CollectionReport> {
    let schema = Schema::parse(include_str!("../../golden/clinic.toml"), "clinic.toml").unwrap();
    report(&schema, &Statistics::default())
}

/// The text as it should be is `golden/clinic.txt`: read the difference before you replace it.
#[test]
fn the_report_of_a_schema_reads_as_expected() {
    let text = clinic().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
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
