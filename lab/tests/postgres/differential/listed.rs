//! Statements that mappers write: rows listed in `VALUES` or arrays, new values by `CASE`, queries among results.

use super::Choices;
use super::parameters::marked;
use super::schema::{Column, Operations, RandomSchema, Table};
use super::statements::{KEYS, condition, constant, returning};

/// A constant of a column's type, cast to it, or NULL.
fn cast(choices: &mut Choices, column: &Column) -> String {
    if choices.percent(10) {
        return "NULL".into();
    }
    format!("CAST({} AS {})", constant(choices, column), column.ty.name)
}

/// What becomes of a row that is there.
fn conflict(choices: &mut Choices, table: &Table) -> String {
    match choices.below(4) {
        0 => " ON CONFLICT DO NOTHING".into(),
        1 => {
            let column = choices.one(&table.columns);
            format!(" ON CONFLICT (id) DO UPDATE SET {0} = EXCLUDED.{0}", column.name)
        }
        _ => String::new(),
    }
}

/// The columns of a table but some.
fn given<'t>(choices: &mut Choices, table: &'t Table) -> Vec<&'t Column> {
    let omitted = choices.below(2 * table.columns.len());
    table.columns.iter().enumerate().filter(|(at, _)| *at != omitted).map(|(_, column)| column).collect()
}

/// As SQLAlchemy inserts many rows.
pub(super) fn values(choices: &mut Choices, table: &Table) -> String {
    let given = given(choices, table);
    let names: Vec<&str> = given.iter().map(|column| column.name.as_str()).collect();
    let places: Vec<String> = (0..given.len()).map(|place| format!("p{place}")).collect();
    let selected: Vec<String> =
        given.iter().zip(&places).map(|(column, place)| format!("{place}::{}", column.ty.name)).collect();
    let rows: Vec<String> = (0..1 + choices.below(4))
        .map(|row| {
            let values: Vec<String> = given.iter().map(|column| cast(choices, column)).collect();
            format!("({}, {}, {row})", choices.below(KEYS), values.join(", "))
        })
        .collect();
    format!(
        "INSERT INTO {} (id, {}) SELECT key, {} FROM (VALUES {}) AS imp_sen(key, {}, sen_counter) ORDER BY sen_counter",
        table.name,
        names.join(", "),
        selected.join(", "),
        rows.join(", "),
        places.join(", ")
    ) + &conflict(choices, table)
        + returning(choices)
}

/// A member of an array, as its text has it.
fn member(choices: &mut Choices, column: &Column) -> String {
    if choices.percent(10) {
        return "NULL".into();
    }
    let value: &&str = choices.one(column.ty.values);
    let inside = value.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    let inside = inside.unwrap_or(value).replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{inside}\"")
}

/// As Django inserts many rows.
pub(super) fn arrays(choices: &mut Choices, table: &Table) -> String {
    let rows = choices.below(5);
    let keys: Vec<String> = (0..rows).map(|_| choices.below(KEYS).to_string()).collect();
    let mut arrays = vec![format!("{}::integer[]", marked(&format!("'{{{}}}'", keys.join(","))))];
    for column in &table.columns {
        let members: Vec<String> = (0..rows).map(|_| member(choices, column)).collect();
        let array = marked(&format!("'{{{}}}'", members.join(",")));
        arrays.push(format!("({array})::{}[]", column.ty.name));
    }
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    format!(
        "INSERT INTO {} (id, {}) SELECT * FROM UNNEST({})",
        table.name,
        names.join(", "),
        arrays.join(", ")
    ) + &conflict(choices, table)
        + returning(choices)
}

/// As Django updates many rows.
pub(super) fn update(choices: &mut Choices, table: &Table) -> String {
    let column = choices.one(&table.columns);
    // Which of two rows has a unique value first is a matter of their order in the table.
    let several = if column.is_unique { 1 } else { 3 };
    let keys: Vec<usize> = (0..1 + choices.below(several)).map(|_| choices.below(KEYS)).collect();
    let whens: Vec<String> = keys
        .iter()
        .map(|key| format!("WHEN ({}.id = {key}) THEN {}", table.name, cast(choices, column)))
        .collect();
    let otherwise = if choices.percent(50) { "NULL".to_owned() } else { column.name.clone() };
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    format!(
        "UPDATE {0} SET {1} = (CASE {2} ELSE {otherwise} END)::{3} WHERE {0}.id IN ({4}){5}",
        table.name,
        column.name,
        whens.join(" "),
        column.ty.name,
        keys.join(", "),
        returning(choices)
    )
}

/// Queries of one value among results, and in conditions.
pub(super) fn scalar(choices: &mut Choices, schema: &RandomSchema) -> String {
    let (one, other) = (choices.one(&schema.tables), choices.one(&schema.tables));
    let column = choices.one(&other.columns);
    let name = &column.name;
    let is_ordered = column.has_extremes() && column.is_sorted();
    let filter = condition(choices, other, 1);
    match choices.below(5) {
        0 if column.is_ranked() => {
            format!("SELECT id, (SELECT max({name}) FROM {}) AS most FROM {}", other.name, one.name)
        }
        1 if column.ty.is_number && column.operations != Operations::Stored => format!(
            "SELECT a.id, (SELECT sum(b.{name}) FROM {} b WHERE b.id <= a.id) FROM {} a WHERE a.id < {}",
            other.name,
            one.name,
            choices.below(KEYS)
        ),
        2 if column.is_grouped() => {
            format!("SELECT id FROM {0} WHERE {name} IN (SELECT {name} FROM {0} WHERE {filter})", other.name)
        }
        3 if is_ordered => {
            format!(
                "SELECT id, {name} FROM {0} WHERE {name} = (SELECT min({name}) FROM {0} WHERE {filter})",
                other.name
            )
        }
        _ => format!(
            "SELECT a.id, (SELECT b.{name} FROM {} b WHERE b.id = a.id) FROM {} a",
            other.name, one.name
        ),
    }
}
