//! Statements that read no column, and which table a name means in them.

use super::catalog;
use crate::plan::Action;
use crate::rewrite::plan;

#[test]
fn a_declared_name_means_the_declared_table_where_tables_are_changed_locked_or_dropped() {
    for (statement, expected) in [
        ("TRUNCATE accounts", "TRUNCATE \"public\".accounts"),
        (
            "TRUNCATE TABLE ONLY Accounts , notes, visits CASCADE",
            "TRUNCATE TABLE ONLY \"public\".Accounts , notes, \"public\".visits CASCADE",
        ),
        (
            "TRUNCATE ONLY (accounts), ONLY( visits )",
            "TRUNCATE ONLY (\"public\".accounts), ONLY( \"public\".visits )",
        ),
        ("LOCK accounts IN SHARE MODE", "LOCK \"public\".accounts IN SHARE MODE"),
        (
            "lock table only accounts *, other.visits nowait",
            "lock table only \"public\".accounts *, other.visits nowait",
        ),
        (
            "DROP TABLE IF EXISTS notes, \"accounts\" RESTRICT",
            "DROP TABLE IF EXISTS notes, \"public\".\"accounts\" RESTRICT",
        ),
        ("ALTER TABLE accounts ADD COLUMN note text", "ALTER TABLE \"public\".accounts ADD COLUMN note text"),
        (
            "ALTER TABLE IF EXISTS ONLY accounts OWNER TO app",
            "ALTER TABLE IF EXISTS ONLY \"public\".accounts OWNER TO app",
        ),
    ] {
        let planned = plan(statement, &catalog()).unwrap();
        let Action::Rewritten(rewritten) = &planned[0].action else {
            panic!("{statement}: {:?}", planned[0].action)
        };
        assert_eq!(rewritten.extended_text(), expected);
    }
    for statement in [
        "TRUNCATE other.accounts",
        "DROP TABLE accounts.accounts",
        "VACUUM accounts",
        "DROP TABLE public.visits",
    ] {
        let planned = plan(statement, &catalog()).unwrap();
        assert!(matches!(planned[0].action, Action::Unchanged), "{statement}");
    }
}
