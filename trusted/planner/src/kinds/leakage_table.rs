//! The table of THREATS.md, from the values that the planner compares: what each kind of index shows.

use super::{ALL, Shape, Tuning};
use arras_protocol::leakage::{Leakage, Pattern, SCAN};

/// What stands before the table in THREATS.md.
const BEGIN: &str =
    "<!-- leakage: begin; from the values in the code, see trusted/planner/src/kinds/leakage_table.rs -->\n";
/// What stands after it.
const END: &str = "<!-- leakage: end -->\n";

/// The table, as Markdown.
#[must_use]
pub fn leakage_table() -> String {
    let mut table = String::from(
        "| | name | snapshot | persistent, from each search | persistent, from each write |\n|---|---|---|---|---|\n",
    );
    table.push_str(&row("scan, documents", SCAN.protocol, &SCAN));
    for kind in ALL {
        let shape = Shape { key_bytes: 8, tuning: Tuning::default() };
        table.push_str(&row(kind.title, kind.name, &(kind.leakage)(&shape)));
    }
    table
}

fn row(title: &str, name: &str, leakage: &Leakage) -> String {
    let words = |patterns: &[Pattern]| {
        let mut patterns = patterns.to_vec();
        patterns.sort();
        let words: Vec<&str> = patterns.iter().map(|pattern| pattern.describe()).collect();
        if words.is_empty() { "nothing more".to_owned() } else { words.join("; ") }
    };
    let Leakage { snapshot, search, update, .. } = leakage;
    format!("| {title} | `{name}` | {} | {} | {} |\n", words(snapshot), words(search), words(update))
}

/// A text with the table in its place; `None` if it has no place for it.
#[must_use]
pub fn with_leakage_table(text: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{}{END}{after}", leakage_table()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::path::Path;

    /// `ARRAS_WRITE_TABLES=1 cargo test -p arras-planner --lib leakage_table` writes it anew.
    #[test]
    fn the_table_of_the_documentation_is_what_the_code_says() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../THREATS.md");
        let text = std::fs::read_to_string(&path).unwrap();
        let expected = with_leakage_table(&text).unwrap();
        if std::env::var_os("ARRAS_WRITE_TABLES").is_some() {
            std::fs::write(&path, &expected).unwrap();
            return;
        }
        assert!(
            text == expected,
            "THREATS.md does not say what the code does of leakage; write its table anew:\n\
             ARRAS_WRITE_TABLES=1 cargo test -p arras-planner --lib leakage_table"
        );
    }

    #[test]
    fn a_changed_cell_is_noticed() {
        let text = format!("a\n{BEGIN}{}{END}b\n", leakage_table());
        assert_eq!(with_leakage_table(&text).unwrap(), text);
        let changed = text.replacen(Pattern::Order.describe(), "nothing", 1);
        assert_ne!(changed, text);
        assert_eq!(with_leakage_table(&changed).unwrap(), text);
        assert_eq!(with_leakage_table("no place"), None);
    }

    #[test]
    fn every_kind_has_a_line_with_all_its_patterns() {
        let table = leakage_table();
        let shape = Shape { key_bytes: 8, tuning: Tuning::default() };
        assert_eq!(table.lines().count(), ALL.len() + 3);
        for kind in ALL {
            let line = table.lines().find(|line| line.starts_with(&format!("| {} |", kind.title))).unwrap();
            let leakage = (kind.leakage)(&shape);
            for pattern in leakage.snapshot.iter().chain(leakage.search).chain(leakage.update) {
                assert!(line.contains(pattern.describe()), "{pattern:?} is not in: {line}");
            }
        }
    }
}
