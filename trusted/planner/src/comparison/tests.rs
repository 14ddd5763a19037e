#![allow(clippy::unwrap_used)]

use super::*;

fn clinic() -> Vec<Comparison> {
    let schema = Schema::parse(include_str!("../../golden/clinic.toml"), "clinic.toml").unwrap();
    compare(&schema, (Tuning::default(), &Statistics::default()))
}

#[test]
fn every_needed_order_is_compared_with_every_protocol() {
    let comparisons = clinic();
    let fields: Vec<String> =
        comparisons.iter().map(|one| format!("{} {}", one.namespace, one.need.fields.join("+"))).collect();
    assert_eq!(fields, ["clinic.log at", "clinic.patients admitted", "clinic.patients doctor+admitted"]);
    for comparison in &comparisons {
        assert_eq!(comparison.taken.map(OrderProtocol::name), Some("arx_range"));
        let names: Vec<&str> = comparison.candidates.iter().map(|one| one.protocol.name()).collect();
        let all: Vec<&str> = crate::kinds::of_orders().map(OrderProtocol::name).collect();
        assert_eq!(names, all);
    }
}

#[test]
fn the_text_says_of_each_what_it_leaks_costs_and_gives_away() {
    let text = text(&clinic());
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let of = |name: &str| {
        let begin = text.find(&format!("\n  {name}")).unwrap_or_else(|| panic!("{name}: {text}"));
        text[begin..].split("\n\n").next().unwrap().to_owned()
    };
    for name in ["arx_range (taken)", "pope", "bplus_bclo", "bplus_clww", "bplus_lewi_wu", "bplus_fh_ope"] {
        let part = of(name);
        for word in
            ["snapshot", "search", "update", "query", "insertion", "round trip", "uniform: ", "rand_income: "]
        {
            assert!(part.contains(word), "{word}: {part}");
        }
    }
    assert!(of("path_oram").contains("transaction of a document"));
}

#[test]
fn the_document_holds_the_same_and_every_rate() {
    let document = clinic()[0].to_document();
    assert_eq!(document.get_str("taken").unwrap(), "arx_range");
    let candidates = document.get_array("candidates").unwrap();
    let of = |name: &str| {
        candidates
            .iter()
            .filter_map(Bson::as_document)
            .find(|one| one.get_str("protocol").unwrap() == name)
            .unwrap()
    };
    let clww = of("bplus_clww");
    let recovered: Vec<&Document> =
        clww.get_array("recovered").unwrap().iter().filter_map(Bson::as_document).collect();
    assert!(recovered.iter().any(|one| {
        one.get_str("attack").unwrap() == "grubbs_clww"
            && one.get_f64("exact").unwrap() > one.get_f64("guessExact").unwrap()
    }));
    assert!(clww.get_document("insertion").unwrap().get_i64("sentBytes").unwrap() > 0);
    assert_eq!(clww.get_array("searches").unwrap().len(), 2, "a range and an order with a limit");
    assert!(of("arx_range").get_bool("taken").unwrap() && !clww.get_bool("taken").unwrap());
}

#[test]
fn a_declared_order_is_compared_though_no_pattern_needs_it() {
    let text = "[collections.\"a.b\".fields]\nx = { order = \"arx_range\", type = \"int32\" }\ny = {}\n";
    let comparisons =
        compare(&Schema::parse(text, "s.toml").unwrap(), (Tuning::default(), &Statistics::default()));
    assert_eq!(comparisons.len(), 1);
    assert_eq!((comparisons[0].field(), comparisons[0].order.name()), ("x", "arx_range"));
}
