//! Relations that a text may mean and that are not declared: one may be a part of a declared table, which the database knows.

use super::mention::is_reserved;
use super::relations::{Relation, may_name_unknown};
use crate::catalog::Catalog;
use crate::error::SqlError;
use crate::text::{Lexemes, name_of, statements};
use sqlparser::tokenizer::Token;
use std::collections::BTreeSet;

/// First words of statements that are searched quickly for names of relations.
const PLACED: [&str; 8] = ["select", "insert", "update", "delete", "with", "values", "table", "copy"];

/// First words of statements that hold no value of a column.
const WITHOUT_VALUES: [&[&str]; 33] = [
    &["set"],
    &["reset"],
    &["show"],
    &["begin"],
    &["start"],
    &["commit"],
    &["end"],
    &["rollback"],
    &["abort"],
    &["savepoint"],
    &["release"],
    &["fetch"],
    &["move"],
    &["close"],
    &["deallocate"],
    &["discard"],
    &["listen"],
    &["notify"],
    &["unlisten"],
    &["prepare", "transaction"],
    &["vacuum"],
    &["analyze"],
    &["analyse"],
    &["cluster"],
    &["reindex"],
    &["lock"],
    &["drop", "table"],
    &["drop", "view"],
    &["drop", "materialized", "view"],
    &["drop", "index"],
    &["refresh", "materialized", "view"],
    &["grant"],
    &["revoke"],
];

/// What a text may mean.
#[derive(Default)]
pub(crate) struct Means {
    /// Relations that are not declared.
    pub(crate) relations: BTreeSet<Relation>,
    /// Prepared statements that it executes.
    pub(crate) executes: BTreeSet<String>,
    /// Names that it prepares statements under.
    pub(crate) prepares: BTreeSet<String>,
}

/// Quickly: may a text mean a relation that is not declared?
pub(crate) fn may_mean(text: &str, catalog: &Catalog) -> bool {
    let text = text.trim();
    let text = text.strip_suffix(';').unwrap_or(text);
    let first = text.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default();
    let is_placed = PLACED.iter().any(|word| first.eq_ignore_ascii_case(word));
    if is_placed && !text.contains(';') {
        return may_name_unknown(text, |schema, name| catalog.declares_in(schema, name));
    }
    !text.is_empty()
}

/// The relations that a text may mean.
///
/// # Errors
/// It is not made of tokens.
pub(crate) fn means(text: &str, catalog: &Catalog) -> Result<Means, SqlError> {
    let mut means = Means::default();
    for statement in statements(text)? {
        let begins = |words: &&[&str]| words.iter().enumerate().all(|(at, word)| statement.is_word(at, word));
        if WITHOUT_VALUES.iter().any(begins) {
            continue;
        }
        let found = every(&statement);
        let is_declared = |(schema, name): &Relation| catalog.declares_in(schema.as_deref(), name);
        means.relations.extend(found.into_iter().filter(|relation| !is_declared(relation)));
        let behind = |at: usize, word: &str| match statement.token(at + 1) {
            Some(Token::Word(name)) if statement.is_word(at, word) => Some(name_of(name)),
            _ => None,
        };
        means.executes.extend((0..statement.list.len()).filter_map(|at| behind(at, "execute")));
        means.prepares.extend(behind(0, "prepare"));
    }
    Ok(means)
}

/// Every name in a statement, as that of a relation, whatever it seems to name; of two joined by a period both together, too.
fn every(statement: &Lexemes) -> BTreeSet<Relation> {
    let name = |at: usize| match statement.token(at) {
        Some(Token::Word(word)) if word.quote_style.is_some() || !is_reserved(statement, at) => {
            Some(name_of(word)).filter(|name| !name.is_empty())
        }
        _ => None,
    };
    let mut found = BTreeSet::new();
    for at in 1..statement.list.len() {
        let Some(last) = name(at) else { continue };
        let is_qualified = matches!(statement.token(at - 1), Some(Token::Period));
        let schema = at.checked_sub(2).filter(|_| is_qualified).and_then(name);
        if schema.is_some() {
            found.insert((schema, last));
        } else {
            found.insert((None, last));
        }
    }
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let catalog = crate::rewrite::tests::catalog();
        assert!(may_mean(text, &catalog), "{text}");
        let means = means(text, &catalog).unwrap();
        let name =
            |(schema, name): Relation| schema.map_or(name.clone(), |schema| format!("{schema}.{name}"));
        means.relations.into_iter().map(name).collect()
    }

    #[test]
    fn relations_that_are_not_declared_are_found_wherever_they_stand() {
        for text in [
            "INSERT INTO part (id, memo) VALUES (1, 'secret')",
            "INSERT INTO/* so */ \"part\" SELECT 1, 'secret'",
            "SELECT owner FROM accounts, part WHERE memo = 'secret'",
            "WITH part AS (SELECT 1) INSERT INTO part VALUES (1)",
        ] {
            let found = names(text);
            assert!(found.contains(&"part".to_owned()), "{text}: {found:?}");
            assert!(!found.iter().any(|name| name.contains("secret")), "{text}");
        }
        for text in ["UPDATE t.kept.part SET memo = 'x'", "COPY kept.part FROM STDIN"] {
            assert!(names(text).contains(&"kept.part".to_owned()), "{text}");
        }
        for text in [
            "CREATE INDEX ON part (id) WHERE memo = 'secret'",
            "CREATE RULE r AS ON INSERT TO part DO NOTHING",
            "ALTER TABLE IF EXISTS ONLY part ADD CHECK (memo = 'x')",
            "EXPLAIN UPDATE part SET memo = 'x'",
            "PREPARE p AS INSERT INTO part VALUES ($1)",
            "COMMENT ON TABLE part IS 'secret'",
            "MERGE INTO part USING accounts a ON true WHEN MATCHED THEN DELETE",
        ] {
            let found = names(text);
            assert!(found.contains(&"part".to_owned()), "{text}: {found:?}");
            assert!(!found.iter().any(|name| name.contains("secret")), "{text}");
        }
        assert!(names("INSERT INTO other.accounts VALUES (1)").contains(&"other.accounts".to_owned()));
    }

    #[test]
    fn what_names_declared_tables_alone_is_not_asked_about() {
        let catalog = crate::rewrite::tests::catalog();
        for text in [
            "SELECT owner FROM accounts WHERE balance = 5",
            "INSERT INTO accounts (id, owner) VALUES (1, 'FROM part');",
            "UPDATE public.accounts SET owner = 'x' WHERE id = 1",
            "SELECT 1",
            "",
        ] {
            assert!(!may_mean(text, &catalog), "{text}");
        }
        for text in [
            "BEGIN",
            "ROLLBACK TO s",
            "SET search_path = part",
            "DROP TABLE part",
            "PREPARE TRANSACTION 'part'",
        ] {
            let means = means(text, &catalog).unwrap();
            assert!(means.relations.is_empty(), "{text}");
        }
        let means = means("EXPLAIN EXECUTE p (1); PREPARE q AS SELECT 1", &catalog).unwrap();
        assert!(means.executes.contains("p") && means.prepares.contains("q"));
    }
}
