//! Forms of statements beside the plain ones: rows of queries, cursors, prepared statements, choices, windows, queries in
//! queries.

use super::parameters::as_text;
use super::schema::{Column, Operations, RandomSchema, Table};
use super::statements::{KEYS, condition, constant, ordered_select, returning};
use super::{Choices, Statement};

/// Rows of a table into itself, with other keys. They have an order, as of two that conflict the first is stored.
pub(super) fn insert_select(choices: &mut Choices, table: &Table) -> String {
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let given: Vec<String> = table
        .columns
        .iter()
        .map(|column| if choices.percent(15) { constant(choices, column) } else { column.name.clone() })
        .collect();
    let conflict = choices.one(&["", " ON CONFLICT DO NOTHING"]);
    format!(
        "INSERT INTO {0} (id, {1}) SELECT id + {2}, {3} FROM {0} WHERE {4} ORDER BY id{conflict}{5}",
        table.name,
        names.join(", "),
        choices.below(KEYS),
        given.join(", "),
        condition(choices, table, 1),
        returning(choices)
    )
}

/// Results that are chosen, and windows.
pub(super) fn computed(choices: &mut Choices, table: &Table) -> String {
    let column = choices.one(&table.columns);
    let name = &column.name;
    let by =
        table.columns.iter().find(|column| column.is_grouped()).map_or("id", |column| column.name.as_str());
    let along =
        table.columns.iter().find(|column| column.is_sorted()).map_or("id", |column| column.name.as_str());
    let item = match choices.below(9) {
        0 => format!("coalesce({name}, {})", constant(choices, column)),
        1 => format!("CASE WHEN {} THEN {name} END AS chosen", condition(choices, table, 1)),
        2 => format!(
            "CASE WHEN {} THEN {name} ELSE {} END AS chosen",
            condition(choices, table, 1),
            constant(choices, column)
        ),
        // What is chosen by encrypted columns, and is none.
        6 => format!("CASE WHEN {} THEN 'so' ELSE 'not so' END AS chosen", condition(choices, table, 1)),
        7 => format!(
            "CASE WHEN {} THEN 7 WHEN {} THEN 8 END",
            condition(choices, table, 0),
            condition(choices, table, 0)
        ),
        8 => format!("coalesce(s.{name}, {}) AS chosen", constant(choices, column)),
        3 => format!("row_number() OVER (ORDER BY {along}, id)"),
        4 => format!("rank() OVER (PARTITION BY {by} ORDER BY id)"),
        _ => format!("lag({name}) OVER (PARTITION BY {by} ORDER BY id)"),
    };
    let alias = if item.contains("(s.") { " s" } else { "" };
    format!("SELECT id, {item} FROM {}{alias} ORDER BY id", table.name)
}

/// Queries in queries.
pub(super) fn nested(choices: &mut Choices, schema: &RandomSchema) -> String {
    let [one, other] = [&schema.tables[0], &schema.tables[1]];
    let column = choices.one(&one.columns);
    let name = &column.name;
    let (inner, outer) = (condition(choices, other, 1), condition(choices, one, 1));
    match choices.below(5) {
        0 => format!(
            "SELECT id, {name} FROM {} WHERE id IN (SELECT id FROM {} WHERE {inner})",
            one.name, other.name
        ),
        1 => format!(
            "WITH w AS (SELECT id, {name} FROM {} WHERE {outer}) SELECT w.{name}, o.id FROM w JOIN {} o USING (id)",
            one.name, other.name
        ),
        2 => format!(
            "SELECT a.id FROM {} a WHERE EXISTS (SELECT 1 FROM {} b WHERE b.id = a.id AND {inner})",
            one.name, other.name
        ),
        3 => format!(
            "SELECT id, {name} FROM {} JOIN (SELECT id AS place FROM {}) o ON place = id WHERE {} AND {outer}",
            one.name,
            other.name,
            condition(choices, one, 0)
        ),
        _ => format!(
            "SELECT s.* FROM (SELECT id, {name} FROM {} WHERE {outer} ORDER BY id LIMIT 5) s",
            one.name
        ),
    }
}

/// A cursor that is read in pieces, in one text and so in one transaction.
pub(super) fn cursor(choices: &mut Choices, table: &Table) -> Statement {
    let query = as_text(&ordered_select(choices, table));
    let fetched =
        choices.one(&["FETCH 2 FROM k", "FETCH NEXT k; FETCH ALL IN k", "MOVE 1 k; FETCH FORWARD 3 k"]);
    let text = format!("DECLARE k CURSOR FOR {query}; {fetched}; CLOSE k");
    Statement { text, is_ordered: true, bound: None }
}

/// A statement that is prepared in SQL, run and given up.
pub(super) fn prepared(choices: &mut Choices, table: &Table) -> Statement {
    let comparable: Vec<&Column> =
        table.columns.iter().filter(|column| column.operations != Operations::Stored).collect();
    let name = format!("q{}", choices.below(1_000_000));
    let text = if comparable.is_empty() {
        format!(
            "PREPARE {name} AS SELECT id FROM {} WHERE id = $1; EXECUTE {name} (3); DEALLOCATE {name}",
            table.name
        )
    } else {
        let column = choices.one(&comparable);
        let given = as_text(&constant(choices, column));
        format!(
            "PREPARE {name} AS SELECT * FROM {} WHERE {} = $1 ORDER BY id; EXECUTE {name} ({given}); DEALLOCATE {name}",
            table.name, column.name
        )
    };
    Statement { text, is_ordered: true, bound: None }
}
