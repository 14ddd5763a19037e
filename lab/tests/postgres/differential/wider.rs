//! Statements beside the usual ones: ends in either order, whole tables, columns that are set together, upserts that count, `DISTINCT
//! ON`, groups with conditions, queries within others, common table expressions that write, lists of mixed constants, `COPY`.

use super::parameters::as_text;
use super::schema::{Column, Operations, RandomSchema, Table};
use super::statements::{KEYS, condition, constant, returning};
use super::{Choices, Statement, parameters};

/// One of them.
pub(super) fn statement(choices: &mut Choices, schema: &RandomSchema) -> Statement {
    let table = choices.one(&schema.tables);
    let (text, is_ordered) = match choices.below(13) {
        0 => (symmetric(choices, table), false),
        1 => (whole(choices, table), true),
        2 => (together(choices, table), false),
        3 => (counting(choices, table), false),
        4 => (distinct_on(choices, table), true),
        5 => (having(choices, table), false),
        6 => (among(choices, table), false),
        7 => (writing(choices, table), false),
        8 => (defaults(choices, table), false),
        9 => (mixed(choices, table), false),
        10 => (filtered(choices, table), false),
        11 => (locked(choices, table), true),
        _ => return copy(choices, table),
    };
    parameters::statement(choices, &text, is_ordered)
}

/// A column that is ordered, by the server or by a function.
fn compared<'t>(choices: &mut Choices, table: &'t Table) -> Option<&'t Column> {
    let columns: Vec<&Column> = table.columns.iter().filter(|column| column.is_compared()).collect();
    (!columns.is_empty()).then(|| *choices.one(&columns))
}

/// A column that the server sorts by as PostgreSQL sorts its values.
fn sorted<'t>(choices: &mut Choices, table: &'t Table) -> Option<&'t Column> {
    let columns: Vec<&Column> = table
        .columns
        .iter()
        .filter(|column| column.is_sorted())
        .filter(|column| column.is_told_by_value())
        .collect();
    (!columns.is_empty()).then(|| *choices.one(&columns))
}

fn symmetric(choices: &mut Choices, table: &Table) -> String {
    let Some(column) = compared(choices, table) else { return whole(choices, table) };
    let (one, other) = (constant(choices, column), constant(choices, column));
    let not = choices.one(&["", " NOT"]);
    format!("SELECT id FROM {} * WHERE {}{not} BETWEEN SYMMETRIC {one} AND {other}", table.name, column.name)
}

fn whole(choices: &mut Choices, table: &Table) -> String {
    let heirs = choices.one(&["", " *"]);
    let rest = match choices.below(4) {
        0 => format!(" LIMIT {}", choices.below(6)),
        1 => format!(" OFFSET {} FETCH FIRST {} ROWS ONLY", choices.below(6), choices.below(6)),
        2 => format!(" FETCH NEXT ROW ONLY OFFSET {}", choices.below(6)),
        _ => String::new(),
    };
    match choices.below(3) {
        0 => format!("TABLE {}{heirs} ORDER BY id{rest}", table.name),
        1 => format!("WITH w AS (TABLE {}{heirs}) TABLE w ORDER BY id{rest}", table.name),
        _ => format!("SELECT s.* FROM (TABLE {}{heirs}) s ORDER BY s.id{rest}", table.name),
    }
}

/// What a column is set to, its default or NULL now and then.
fn value(choices: &mut Choices, column: &Column) -> String {
    match choices.below(12) {
        0 => "NULL".into(),
        1 => "DEFAULT".into(),
        _ => constant(choices, column),
    }
}

fn together(choices: &mut Choices, table: &Table) -> String {
    let first = choices.below(table.columns.len());
    let count = 1 + choices.below(table.columns.len() - first);
    let set: Vec<&Column> = table.columns.iter().skip(first).take(count).collect();
    let names: Vec<&str> = set.iter().map(|column| column.name.as_str()).collect();
    let values: Vec<String> = set.iter().map(|column| value(choices, column)).collect();
    let row = if count == 1 { "ROW" } else { *choices.one(&["", "ROW"]) };
    format!(
        "UPDATE {} SET ({}) = {row}({}) WHERE {}{}",
        table.name,
        names.join(", "),
        values.join(", "),
        condition(choices, table, 1),
        returning(choices)
    )
}

fn counting(choices: &mut Choices, table: &Table) -> String {
    let counts = |column: &&Column| {
        column.ty.is_number
            && !column.is_unique
            && !matches!(column.operations, Operations::Stored | Operations::Compared("fh_ope"))
    };
    let columns: Vec<&Column> = table.columns.iter().filter(counts).collect();
    if columns.is_empty() {
        return together(choices, table);
    }
    let column = choices.one(&columns);
    let name = &column.name;
    let new = match choices.below(3) {
        0 => format!("{}.{name} + EXCLUDED.{name}", table.name),
        1 => format!("coalesce({}.{name}, 0) + 1", table.name),
        _ => format!("{}.{name} - 2", table.name),
    };
    let of = choices.one(&["", " WHERE id >= 0"]);
    format!(
        "INSERT INTO {} (id, {name}) VALUES ({}, {}) ON CONFLICT (id){of} DO UPDATE SET {name} = {new}{}",
        table.name,
        choices.below(KEYS),
        constant(choices, column),
        returning(choices)
    )
}

fn distinct_on(choices: &mut Choices, table: &Table) -> String {
    let Some(column) = sorted(choices, table) else { return whole(choices, table) };
    let (name, other) = (&column.name, &choices.one(&table.columns).name);
    let direction = choices.one(&["", " DESC", " NULLS FIRST"]);
    format!(
        "SELECT DISTINCT ON ({name}) {name}, id, {other} AS other FROM {} ORDER BY {name}{direction}, id",
        table.name
    )
}

fn having(choices: &mut Choices, table: &Table) -> String {
    let (Some(by), Some(of)) = (sorted(choices, table), sorted(choices, table)) else {
        return filtered(choices, table);
    };
    if !of.has_extremes() {
        return filtered(choices, table);
    }
    let (by, name) = (&by.name, &of.name);
    let held = match choices.below(3) {
        0 => format!("count(*) >= {}", choices.below(4)),
        1 => format!("max({name}) > {}", constant(choices, of)),
        _ => format!("min({name}) <= {} AND count({name}) > 0", constant(choices, of)),
    };
    format!("SELECT {by}, count(*), max({name}) FROM {} GROUP BY {by} HAVING {held}", table.name)
}

fn among(choices: &mut Choices, table: &Table) -> String {
    let Some(column) = sorted(choices, table) else { return whole(choices, table) };
    let (name, inner) = (&column.name, condition(choices, table, 1));
    match choices.below(3) {
        0 => format!(
            "SELECT id, {name} FROM {0} WHERE {name} IN (SELECT {name} FROM {0} WHERE {inner})",
            table.name
        ),
        1 if column.has_extremes() => {
            format!(
                "SELECT id FROM {0} WHERE {name} = (SELECT max({name}) FROM {0} WHERE {inner})",
                table.name
            )
        }
        _ => format!(
            "SELECT id, (SELECT b.{name} FROM {0} b WHERE b.id = a.id) FROM {0} a WHERE id IN (SELECT id FROM {0} WHERE {inner})",
            table.name
        ),
    }
}

fn writing(choices: &mut Choices, table: &Table) -> String {
    let column = choices.one(&table.columns);
    let (key, name) = (choices.below(KEYS), &column.name);
    let changes = match choices.below(3) {
        0 => format!("DELETE FROM {} WHERE id = {key}", table.name),
        1 => format!("UPDATE {} SET {name} = {} WHERE id = {key}", table.name, constant(choices, column)),
        _ => format!("INSERT INTO {} (id, {name}) VALUES ({key}, {})", table.name, constant(choices, column)),
    };
    format!("WITH w AS ({changes} RETURNING id, {name}) SELECT w.{name}, w.id FROM w")
}

fn defaults(choices: &mut Choices, table: &Table) -> String {
    let key = choices.below(KEYS);
    match choices.below(3) {
        0 => format!("INSERT INTO {} (id) VALUES ({key}){}", table.name, returning(choices)),
        1 => {
            let given = choices.below(table.columns.len() + 1);
            let values: Vec<String> = table
                .columns
                .iter()
                .take(given)
                .map(|column| format!(", {}", value(choices, column)))
                .collect();
            format!("INSERT INTO {} VALUES ({key}{}){}", table.name, values.concat(), returning(choices))
        }
        _ => format!("INSERT INTO {} DEFAULT VALUES{}", table.name, returning(choices)),
    }
}

/// Members of a list are of one type, whatever they are written as.
fn mixed(choices: &mut Choices, table: &Table) -> String {
    // Ciphertexts of a bigint have no key between two of its values.
    let mixes = |column: &&Column| match (column.ty.name, column.operations) {
        (_, Operations::Stored)
        | ("bigint", Operations::Order("bclo") | Operations::Compared("clww" | "lewi_wu")) => false,
        (name, _) => ["integer", "bigint", "smallint"].contains(&name),
    };
    let columns: Vec<&Column> = table.columns.iter().filter(mixes).collect();
    if columns.is_empty() {
        return filtered(choices, table);
    }
    let column = choices.one(&columns);
    let spelled = ["7", "'7'", "7.0", "'1'", "1.5", "'8.0'", "100", "'-1'", "NULL", "-1", "12.0"];
    let list: Vec<&str> = (0..1 + choices.below(4)).map(|_| *choices.one(&spelled)).collect();
    let not = choices.one(&["", " NOT"]);
    format!("SELECT id FROM {} WHERE {}{not} IN ({})", table.name, column.name, list.join(", "))
}

fn filtered(choices: &mut Choices, table: &Table) -> String {
    let (one, other) = (condition(choices, table, 1), condition(choices, table, 1));
    format!(
        "SELECT count(*) FILTER (WHERE {one}), nullif(count(*), {}) FROM {} WHERE {other}",
        choices.below(9),
        table.name
    )
}

fn locked(choices: &mut Choices, table: &Table) -> String {
    let lock = choices.one(&["UPDATE", "NO KEY UPDATE", "SHARE", "KEY SHARE"]);
    let name = &choices.one(&table.columns).name;
    format!(
        "SELECT id, {name} FROM {} WHERE {} ORDER BY id FOR {lock}",
        table.name,
        condition(choices, table, 1)
    )
}

/// A constant of SQL as a value of `COPY`.
fn copied(constant: &str) -> String {
    let inside = constant.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    inside.unwrap_or(constant).replace("''", "'").replace('\\', "\\\\")
}

/// Rows that come or go by `COPY`; those that come are behind the statement's line.
fn copy(choices: &mut Choices, table: &Table) -> Statement {
    let some = choices.below(table.columns.len() + 1);
    let columns: Vec<&Column> = table.columns.iter().take(some).collect();
    let names: String = columns.iter().map(|column| format!(", {}", column.name)).collect();
    let (text, is_ordered) = match choices.below(5) {
        0 => (format!("COPY {} (id{names}) TO STDOUT", table.name), false),
        2 => (
            format!("COPY (SELECT id{names} FROM {} ORDER BY id) TO STDOUT (FORMAT binary)", table.name),
            true,
        ),
        1 => (format!("COPY (SELECT id{names} FROM {} ORDER BY id) TO STDOUT CSV", table.name), true),
        _ => {
            let rows: Vec<String> = (0..1 + choices.below(3))
                .map(|_| {
                    let values: String = columns
                        .iter()
                        .map(|column| match choices.percent(10) {
                            true => "\t\\N".to_owned(),
                            false => format!("\t{}", copied(&as_text(&constant(choices, column)))),
                        })
                        .collect();
                    format!("{}{values}", choices.below(KEYS))
                })
                .collect();
            (format!("COPY {} (id{names}) FROM STDIN\n{}", table.name, rows.join("\n")), false)
        }
    };
    Statement { text, is_ordered, bound: None }
}
