//! Columns by their places, and tables in the course of a text.

use super::catalog;
use crate::catalog::{Catalog, Tables};
use crate::plan::{Action, Planned};
use crate::rewrite::plan;

/// What the last statement of a text becomes.
fn last(text: &str, catalog: &Catalog) -> String {
    let Some(Planned { action, .. }) = plan(text, catalog).unwrap().pop() else { panic!("{text}") };
    match action {
        Action::Unchanged => "unchanged".into(),
        Action::Rewritten(rewritten) => super::text_of(&rewritten),
        Action::Program(_) => "a program".into(),
        Action::Refused(error) => format!("{}: {}", error.sqlstate, error.message),
    }
}

const UNKNOWN: &str = "0A000: which columns \"accounts\" has, and in which order, is not known here";

fn doubted() -> Catalog {
    let mut catalog = catalog();
    catalog.doubt(Tables::Of(["accounts".to_owned()].into()));
    catalog
}

#[test]
fn what_is_taken_by_its_place_is_refused_where_places_are_not_known() {
    for text in [
        "INSERT INTO accounts VALUES (1, 'a')",
        "INSERT INTO public.accounts AS a VALUES (1, 'a')",
        "INSERT INTO accounts SELECT 1, 'a'",
        "INSERT INTO accounts SELECT id, body FROM notes",
        "INSERT INTO accounts SELECT * FROM (VALUES (1, 'a')) v",
        "WITH w AS (INSERT INTO accounts VALUES (1, 'a') RETURNING id) SELECT id FROM w",
        "COPY accounts FROM STDIN",
        "COPY accounts TO STDOUT",
        "SELECT * FROM accounts",
        "SELECT a.* FROM accounts a, notes",
        "SELECT * FROM (SELECT * FROM accounts) s",
        "COPY (SELECT * FROM accounts) TO STDOUT",
        "INSERT INTO accounts (id) VALUES (1) RETURNING *",
        "PREPARE p AS INSERT INTO accounts VALUES (1, 'a')",
        "EXPLAIN INSERT INTO accounts VALUES (1, 'a')",
    ] {
        assert_eq!(last(text, &doubted()), UNKNOWN, "{text}");
        assert!(!last(text, &catalog()).starts_with("0A000"), "{text}");
    }
    for text in [
        "INSERT INTO accounts (id, owner) VALUES (1, 'a')",
        "INSERT INTO accounts DEFAULT VALUES",
        "INSERT INTO payments VALUES (1, 'a')",
        "COPY accounts (id, owner) FROM STDIN",
        "SELECT id, owner FROM accounts",
        "SELECT count(*) FROM accounts WHERE EXISTS (SELECT * FROM accounts)",
        "SELECT * FROM payments WHERE payer IN (SELECT owner FROM accounts)",
        "UPDATE accounts SET extra = 1 WHERE owner = 'x' AND more = 2",
        "INSERT INTO accounts (id, owner, extra) VALUES (1, 'x', 2)",
        "COPY accounts (id, owner, extra) FROM STDIN",
    ] {
        assert!(!last(text, &doubted()).starts_with(['0', '4']), "{text}: {}", last(text, &doubted()));
    }
    // One that is declared, without an encrypted column so far.
    let mut bare = Catalog::new(
        std::sync::Arc::new(catalog().schema().clone()),
        [super::plain("accounts", &["id", "note"])],
    );
    assert_eq!(last("INSERT INTO accounts VALUES (1, 'a')", &bare), "INSERT INTO accounts VALUES (1, 'a')");
    bare.doubt(Tables::All);
    for text in ["INSERT INTO accounts VALUES (1, 'a')", "COPY accounts FROM STDIN", "SELECT * FROM accounts"]
    {
        assert_eq!(last(text, &bare), UNKNOWN, "{text}");
    }
    // Of a plain one in doubt PostgreSQL tells the columns.
    let mut plain = catalog();
    plain.doubt(Tables::Of(["notes".to_owned()].into()));
    assert!(last("SELECT * FROM accounts a, notes n", &plain).contains("\"n\".* FROM"));
}

#[test]
fn tables_are_followed_through_a_text() {
    let star = "SELECT * FROM accounts";
    let make = "CREATE TABLE accounts (id int, memo text, owner text)";
    for (text, columns) in [
        (format!("DROP TABLE accounts; {make}"), "\"id\", \"accounts\".\"memo\", \"accounts\".\"owner\""),
        (
            format!("BEGIN; DROP TABLE accounts CASCADE; {make}; ALTER TABLE accounts ADD zz int"),
            "\"owner\", \"accounts\".\"zz\"",
        ),
        (
            format!("BEGIN; DROP TABLE accounts; {make}; ALTER TABLE accounts ALTER owner SET NOT NULL"),
            "\"memo\", \"accounts\".\"owner\" FROM",
        ),
        (
            format!("DO $$ BEGIN NULL; END $$; DROP TABLE accounts; {make}"),
            "\"memo\", \"accounts\".\"owner\" FROM",
        ),
        (format!("DO $$ BEGIN NULL; END $$; {make}"), "\"memo\", \"accounts\".\"owner\" FROM"),
        ("ALTER TABLE accounts DROP owner, ADD owner text".into(), "\"closed\", \"accounts\".\"owner\" FROM"),
        ("ALTER TABLE accounts ADD owner text, DROP owner".into(), "\"closed\", \"accounts\".\"owner\" FROM"),
        ("ALTER TABLE accounts DROP id".into(), "SELECT \"accounts\".\"owner\""),
        ("ALTER TABLE accounts RENAME id TO n".into(), "SELECT \"accounts\".\"n\""),
        ("BEGIN; ALTER TABLE accounts DROP id; ROLLBACK".into(), "SELECT \"accounts\".\"id\""),
        ("ALTER TABLE accounts DROP id; ABORT WORK".into(), "SELECT \"accounts\".\"id\""),
        ("ALTER TABLE accounts DROP id; COMMIT; ROLLBACK".into(), "SELECT \"accounts\".\"owner\""),
        (
            "SAVEPOINT s; ALTER TABLE accounts DROP id; SAVEPOINT t; ROLLBACK TO SAVEPOINT s".into(),
            "SELECT \"accounts\".\"id\"",
        ),
        (
            "ALTER TABLE accounts DROP id; SAVEPOINT s; ROLLBACK WORK TO s".into(),
            "SELECT \"accounts\".\"owner\"",
        ),
        (
            "SAVEPOINT s; ALTER TABLE accounts DROP id; SAVEPOINT s; RELEASE s; ROLLBACK TO s".into(),
            "SELECT \"accounts\".\"id\"",
        ),
        ("ALTER TABLE accounts DROP id; ROLLBACK TO before".into(), "SELECT \"accounts\".\"id\""),
        // Of others' changes nothing follows.
        (
            "CREATE TABLE of_accounts (id int, owner text REFERENCES accounts (owner))".into(),
            "SELECT \"accounts\".\"id\"",
        ),
        (
            "CREATE INDEX ON accounts (id); CREATE TABLE IF NOT EXISTS accounts (id int)".into(),
            "SELECT \"accounts\".\"id\"",
        ),
        (
            "CREATE TEMP TABLE other AS SELECT 1 AS accounts; DROP TABLE other".into(),
            "SELECT \"accounts\".\"id\"",
        ),
        (
            "ALTER TABLE accounts ADD CHECK (id > 0); ALTER TABLE accounts OWNER TO me".into(),
            "SELECT \"accounts\".\"id\"",
        ),
        ("ROLLBACK".into(), "SELECT \"accounts\".\"id\""),
    ] {
        let found = last(&format!("{text}; {star}"), &catalog());
        assert!(found.contains(columns), "{text}: {found}");
    }
}

#[test]
fn tables_that_a_text_may_have_changed_are_not_known() {
    let star = "SELECT * FROM accounts";
    for text in [
        "DO $$ BEGIN NULL; END $$",
        "DROP SCHEMA other CASCADE",
        "DROP TYPE mood CASCADE",
        "ALTER TABLE accounts ATTACH PARTITION p DEFAULT",
        "PREPARE TRANSACTION 'x'",
    ] {
        let found = last(&format!("{text}; {star}"), &catalog());
        assert!(
            found == UNKNOWN
                || plan(text, &catalog()).unwrap().iter().any(|one| matches!(one.action, Action::Refused(_))),
            "{text}: {found}"
        );
    }
    assert_eq!(
        last("DROP TABLE accounts; SELECT id FROM accounts WHERE owner = 'x'", &catalog()),
        "42P01: relation \"accounts\" does not exist"
    );
    // The transaction began before the text, and has changed tables.
    let planned =
        crate::rewrite::plan_in(&format!("ROLLBACK; {star}"), &catalog(), (&Default::default(), true))
            .unwrap();
    assert!(matches!(&planned[1].action, Action::Refused(error) if error.sqlstate == "0A000"));
}

/// As PostgreSQL has a table that is made like another, or by a query behind `WITH`.
#[test]
fn what_is_not_wholly_foreseen_is_not_said_to_be_missing() {
    for text in [
        "DROP TABLE accounts; CREATE TABLE accounts (owner text, LIKE notes); SELECT body FROM accounts WHERE owner = 'x'",
        "DROP TABLE accounts; CREATE TABLE accounts (id int, LIKE notes, owner text); UPDATE accounts SET body = 'x' WHERE owner = 'x'",
        "WITH q AS (SELECT 1 AS y) SELECT y INTO TEMP notes FROM q; UPDATE accounts SET id = 5 FROM notes WHERE y = 1 AND accounts.owner = 'zz'",
        "DO $$ BEGIN ALTER TABLE notes ADD yy int; END $$; UPDATE accounts SET id = 5 FROM notes WHERE yy = 1 AND accounts.owner = 'zz'",
        "EXPLAIN ANALYZE SELECT 1 AS y INTO notes; UPDATE accounts SET id = 5 FROM notes WHERE y = 1 AND accounts.owner = 'zz'",
    ] {
        for planned in plan(text, &catalog()).unwrap() {
            assert!(!matches!(&planned.action, Action::Refused(_)), "{text}: {planned:?}");
        }
    }
    let like = "DROP TABLE accounts; CREATE TABLE accounts (owner text, note text CHECK (note LIKE 'a%'), PRIMARY KEY (note)); SELECT * FROM accounts";
    let found = last(like, &catalog());
    assert!(found.contains("\"owner\", \"accounts\".\"note\" FROM"), "{found}");
}
