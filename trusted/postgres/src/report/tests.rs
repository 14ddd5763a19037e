#![allow(clippy::unwrap_used)]

use super::*;

const SCHEMA: &str = r#"
[tables."public.accounts"]
balance = { id = "5f0c9d3e21b7a846", type = "numeric(12,2)", operations = ["equality", "order", "sum"] }
opened  = { id = "0a4477c1d2e8f693", type = "date", operations = ["order"], order = "stope" }

[tables."public.payments"]
memo    = { id = "3e1f5b6c7d809a2b", type = "text" }
"#;

#[test]
fn each_column_says_what_stands_beside_it_and_what_that_shows() {
    let schema = Schema::parse(SCHEMA, "schema.toml").unwrap();
    let reports = report(&schema);
    let [balance, opened, memo] = reports.as_slice() else { panic!("{reports:?}") };
    let names = |report: &ColumnReport| report.terms.iter().map(|term| term.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(balance), ["balance", "balance$eq", "balance$ord"]);
    assert!(names(opened).contains(&"opened$ord".to_owned()));
    assert_eq!(names(memo), ["memo"]);
    assert!(balance.shown(|leakage| leakage.snapshot).contains(&Pattern::Order));
    assert_eq!(memo.shown(|leakage| leakage.snapshot).into_iter().collect::<Vec<_>>(), [Pattern::Size]);
    assert!(memo.attacks().is_empty());
}

#[test]
fn the_text_names_columns_leakage_and_attacks_and_fits_a_terminal() {
    let schema = Schema::parse(SCHEMA, "schema.toml").unwrap();
    let text = text(&report(&schema));
    assert!(text.starts_with("3 encrypted columns\n"), "{text}");
    for part in [
        "accounts.balance  numeric(12,2)",
        "stOPE",
        "the order of all stored values",
        "nkw_sorting:",
        "by a write",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= COLUMNS), "{text}");
}
