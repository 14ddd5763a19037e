//! What `arras plan` says of a SQL schema: how each column is laid out, what works on it, and what that shows.

#[cfg(test)]
mod tests;

use crate::catalog::{EQUALITY_SUFFIX, Encryption, ORDER_SUFFIX, TEXT_SUFFIX};
use crate::schema::Schema;
use arras_protocol::leakage::sql::{EQUALITY_TERM, NAMED_TEXT, SEALED_COLUMN};
use arras_protocol::leakage::{Leakage, Pattern};
use std::collections::BTreeSet;
use std::fmt::Write;
use textwrap::Options;

/// Columns of the text.
const COLUMNS: usize = 100;
/// Columns before the text of a line.
const LABEL: usize = 14;

/// A physical column, and what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Its name in the table.
    pub name: String,
    /// PostgreSQL's type.
    pub kind: &'static str,
    /// What it holds.
    pub holds: String,
    /// What works by it.
    pub serves: &'static str,
    /// What it shows.
    pub leakage: Leakage,
}

/// How an encrypted column is laid out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnReport {
    /// Table and column.
    pub label: String,
    /// The type that the application sees.
    pub kind: String,
    /// The sealed value, then the terms.
    pub terms: Vec<Term>,
}

/// The layout of each encrypted column, by name.
#[must_use]
pub fn report(schema: &Schema) -> Vec<ColumnReport> {
    let columns = schema.tables.values().flatten();
    columns.map(|(name, column)| ColumnReport::of(name, column)).collect()
}

impl ColumnReport {
    fn of(name: &str, column: &Encryption) -> Self {
        let mut terms = vec![Term {
            name: name.to_owned(),
            kind: "bytea",
            holds: "the value, sealed".into(),
            serves: if column.sum {
                "SELECT, IS NULL; sums and averages, in the proxy"
            } else {
                "SELECT, IS NULL"
            },
            leakage: SEALED_COLUMN,
        }];
        if let Some(key) = column.equality {
            let own =
                if key == column.id { "of this column" } else { "shared with the columns it is joined with" };
            terms.push(Term {
                name: format!("{name}{EQUALITY_SUFFIX}"),
                kind: "bytea",
                holds: format!("16 bytes under a key {own}; equal values have equal ones"),
                serves: "=, <>, IN, ANY, GROUP BY, DISTINCT, COUNT DISTINCT, joins",
                leakage: EQUALITY_TERM,
            });
        }
        if let Some(order) = column.order {
            terms.push(Term {
                name: format!("{name}{ORDER_SUFFIX}"),
                kind: order.kind(),
                holds: order.holds(column),
                serves: order.serves(),
                leakage: order.leakage(),
            });
        }
        if let Some(language) = column.text {
            terms.push(Term {
                name: format!("{name}{TEXT_SUFFIX}"),
                kind: "bytea",
                holds: format!("16 random bytes, under which the words of the text (\"{language}\") are kept by an enclave"),
                serves: "@@ with to_tsquery and the like",
                leakage: NAMED_TEXT,
            });
        }
        Self { label: column.label.clone(), kind: column.kind.name(), terms }
    }

    /// What the terms together show, without what is only ever shown of it all.
    fn shown(&self, of: fn(&Leakage) -> &'static [Pattern]) -> BTreeSet<Pattern> {
        self.terms.iter().flat_map(|term| of(&term.leakage)).copied().collect()
    }

    /// Published attacks on the column.
    fn attacks(&self) -> BTreeSet<&'static str> {
        self.terms.iter().flat_map(|term| term.leakage.attacks).copied().collect()
    }
}

/// The report as text for a terminal.
#[must_use]
pub fn text(reports: &[ColumnReport]) -> String {
    let mut out = match reports {
        [_] => "1 encrypted column\n".to_owned(),
        _ => format!("{} encrypted columns\n", reports.len()),
    };
    let attacks: Vec<&str> =
        reports.iter().flat_map(ColumnReport::attacks).collect::<BTreeSet<_>>().into_iter().collect();
    for column in reports {
        // Writing to a string does not fail.
        let _ = write!(out, "\n{}  {}\n", column.label, column.kind);
        for term in &column.terms {
            line(&mut out, &term.name, &format!("{}, {}; for {}", term.kind, term.holds, term.serves));
        }
        line(&mut out, "  in a copy", &words(&column.shown(|leakage| leakage.snapshot)));
        line(&mut out, "  by a search", &words(&column.shown(|leakage| leakage.search)));
        line(&mut out, "  by a write", &words(&column.shown(|leakage| leakage.update)));
        let own = column.attacks();
        let numbers = (1..).zip(&attacks).filter(|(_, attack)| own.contains(*attack));
        let numbers: Vec<String> = numbers.map(|(number, _)| number.to_string()).collect();
        if !numbers.is_empty() {
            line(&mut out, "  attacks", &numbers.join(", "));
        }
    }
    out.push_str("\nBeside all of this, the database sees which rows a statement touches, and which values are NULL.\n");
    for (number, attack) in (1..).zip(&attacks) {
        line(&mut out, &format!("  {number}"), attack);
    }
    out
}

/// Patterns in words.
fn words(patterns: &BTreeSet<Pattern>) -> String {
    if patterns.is_empty() {
        return "nothing".into();
    }
    patterns.iter().map(|pattern| pattern.describe()).collect::<Vec<_>>().join("; ")
}

/// A label and its text, wrapped under itself.
fn line(out: &mut String, label: &str, text: &str) {
    let first = format!("  {label:<LABEL$} ");
    let rest = " ".repeat(LABEL + 3);
    let options = Options::new(COLUMNS).initial_indent(&first).subsequent_indent(&rest);
    out.push_str(&textwrap::fill(text, options));
    out.push('\n');
}
