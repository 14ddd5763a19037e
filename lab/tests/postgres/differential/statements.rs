//! Random statements that the declared operations allow.

use super::parameters::{self, Parameter};
use super::schema::{Column, Operations, RandomSchema, Table};
use super::{Choices, Reply, forms, listed, wider};

/// Keys that rows are given: few, so that statements meet.
pub(super) const KEYS: usize = 40;

/// A statement, and whether the order of its rows is determined.
#[derive(Debug)]
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) is_ordered: bool,
    /// By the extended protocol, with these for its parameters.
    pub(crate) bound: Option<Vec<Parameter>>,
}

impl Statement {
    /// Does it meet rows of a table in the order that they happen to have there? `COPY` looks at what must not be NULL of rows that
    /// come together before it looks into an index for any.
    pub(crate) fn meets_rows_in_any_order(&self) -> bool {
        self.text.starts_with("UPDATE ")
            || self.text.starts_with("COPY ")
            || self.text.starts_with("INSERT ") && self.text.contains(" SELECT id + ")
    }

    /// All rows of a table.
    pub(crate) fn whole(table: &Table) -> Self {
        Self { text: format!("SELECT * FROM {} ORDER BY id", table.name), is_ordered: true, bound: None }
    }

    /// Ends a transaction, if there is one.
    pub(crate) fn rollback() -> Self {
        Self { text: "ROLLBACK".into(), is_ordered: false, bound: None }
    }
}

/// A connection as the generator sees it.
#[derive(Default)]
pub(crate) struct Connection {
    in_transaction: bool,
    savepoints: usize,
    pending: Option<bool>,
    /// The transaction has failed: nothing runs in it any more.
    failed: bool,
}

impl Connection {
    /// What the last statement came to.
    pub(crate) fn saw(&mut self, reply: &Reply) {
        let ended = self.pending.take();
        if let (Some(begins), false) = (ended, reply.is_error()) {
            self.in_transaction = begins;
            self.savepoints = 0;
            self.failed = false;
        }
        self.failed |= self.in_transaction && reply.is_error();
    }

    /// The next statement.
    pub(crate) fn next(&mut self, choices: &mut Choices, schema: &RandomSchema) -> Statement {
        if self.failed && choices.percent(40) {
            self.pending = Some(false);
            return unordered("ROLLBACK".to_owned());
        }
        let table = choices.one(&schema.tables);
        let (text, is_ordered) = match choices.below(142) {
            0..=19 => (insert(choices, table), false),
            20..=33 => (update(choices, table), false),
            34..=39 => (delete(choices, table), false),
            40..=47 => return self.control(choices),
            48..=53 => (join(choices, schema), false),
            54..=63 => (grouped(choices, table), false),
            64..=72 => (select(choices, table), false),
            73..=81 => (ordered_select(choices, table), true),
            82..=87 => (forms::insert_select(choices, table), false),
            88..=91 => (forms::computed(choices, table), true),
            92..=94 => (forms::nested(choices, schema), false),
            // Several statements and what has parameters of its own go as one text.
            95 | 96 => return forms::cursor(choices, table),
            97 => return forms::prepared(choices, table),
            98..=100 => (listed::values(choices, table), false),
            101..=103 => (listed::arrays(choices, table), false),
            104..=106 => (listed::update(choices, table), false),
            107..=109 => (listed::scalar(choices, schema), false),
            110..=139 => return wider::statement(choices, schema),
            _ => {
                let several = format!("{}; {}", update(choices, table), ordered_select(choices, table));
                return Statement { text: parameters::as_text(&several), is_ordered: false, bound: None };
            }
        };
        parameters::statement(choices, &text, is_ordered)
    }

    fn control(&mut self, choices: &mut Choices) -> Statement {
        let text = if !self.in_transaction {
            self.pending = Some(true);
            *choices.one(&["BEGIN", "START TRANSACTION", "BEGIN ISOLATION LEVEL REPEATABLE READ"])
        } else if choices.percent(40) {
            self.savepoints += 1;
            *choices.one(&["SAVEPOINT s", "SAVEPOINT s", "ROLLBACK TO SAVEPOINT s", "RELEASE s"])
        } else {
            self.pending = Some(false);
            *choices.one(&["COMMIT", "COMMIT", "ROLLBACK", "END"])
        };
        unordered(text.to_owned())
    }
}

fn unordered(text: String) -> Statement {
    Statement { text, is_ordered: false, bound: None }
}

/// A constant for a column, NULL or its default now and then.
fn value(choices: &mut Choices, column: &Column) -> String {
    match choices.below(20) {
        0 => "NULL".into(),
        1 => "DEFAULT".into(),
        _ => constant(choices, column),
    }
}

/// A constant, marked as one that may become a parameter.
pub(super) fn constant(choices: &mut Choices, column: &Column) -> String {
    let constant: &&str = choices.one(column.ty.values);
    parameters::marked(constant)
}

fn insert(choices: &mut Choices, table: &Table) -> String {
    // What is not named has its default.
    let omitted = choices.below(2 * table.columns.len());
    let given =
        || table.columns.iter().enumerate().filter(|(at, _)| *at != omitted).map(|(_, column)| column);
    let names: Vec<&str> = given().map(|column| column.name.as_str()).collect();
    let rows: Vec<String> = (0..1 + choices.below(3))
        .map(|_| {
            let values: Vec<String> = given().map(|column| value(choices, column)).collect();
            format!("({}, {})", choices.below(KEYS), values.join(", "))
        })
        .collect();
    let mut text =
        format!("INSERT INTO {} (id, {}) VALUES {}", table.name, names.join(", "), rows.join(", "));
    match choices.below(4) {
        0 => text += " ON CONFLICT DO NOTHING",
        1 => {
            let column = choices.one(&table.columns);
            text += &format!(" ON CONFLICT (id) DO UPDATE SET {0} = EXCLUDED.{0}", column.name);
        }
        _ => {}
    }
    text + returning(choices)
}

pub(super) fn returning(choices: &mut Choices) -> &'static str {
    if choices.percent(25) { " RETURNING *" } else { "" }
}

fn update(choices: &mut Choices, table: &Table) -> String {
    let column = choices.one(&table.columns);
    // Which of two unique values is raised first is a matter of the rows' order in the table.
    let computes = column.ty.is_number && column.operations != Operations::Stored && !column.is_unique;
    let new = if computes && choices.percent(30) {
        format!("{} {} {}", column.name, choices.one(&["+", "-"]), choices.below(5))
    } else {
        value(choices, column)
    };
    format!(
        "UPDATE {} SET {} = {new} WHERE {}{}",
        table.name,
        column.name,
        condition(choices, table, 2),
        returning(choices)
    )
}

fn delete(choices: &mut Choices, table: &Table) -> String {
    format!(
        "DELETE FROM {} WHERE id = {} AND {}",
        table.name,
        choices.below(KEYS),
        condition(choices, table, 1)
    ) + returning(choices)
}

/// A condition of a nesting depth.
pub(super) fn condition(choices: &mut Choices, table: &Table, depth: usize) -> String {
    if depth > 0 && choices.percent(40) {
        let (one, other) = (condition(choices, table, depth - 1), condition(choices, table, depth - 1));
        return match choices.below(3) {
            0 => format!("({one} OR {other})"),
            1 => format!("({one} AND {other})"),
            _ => format!("NOT ({one})"),
        };
    }
    if choices.percent(25) {
        return format!("id {} {}", choices.one(&["=", "<", ">="]), choices.below(KEYS));
    }
    compare(choices, &table.columns)
}

/// A comparison that one of the columns allows.
fn compare(choices: &mut Choices, columns: &[Column]) -> String {
    let column = choices.one(columns);
    let name = &column.name;
    let equality = |choices: &mut Choices| {
        let (one, other) = (constant(choices, column), constant(choices, column));
        match choices.below(5) {
            0 => format!("{name} <> {one}"),
            1 => format!("{name} IN ({one}, {other})"),
            2 => format!("{one} = {name}"),
            3 => format!("{name} NOT IN ({one}, {other})"),
            _ => format!("{name} = {one}"),
        }
    };
    let null =
        |choices: &mut Choices| format!("{name} IS {}NULL", if choices.percent(50) { "NOT " } else { "" });
    match column.operations {
        Operations::Stored => null(choices),
        _ if choices.percent(10) => null(choices),
        Operations::Equality => equality(choices),
        Operations::Plain | Operations::Order(_) | Operations::Compared(_)
            if column.ty.name == "boolean" || choices.percent(30) =>
        {
            equality(choices)
        }
        Operations::Plain | Operations::Order(_) | Operations::Compared(_) => {
            let (one, other) = (constant(choices, column), constant(choices, column));
            match choices.below(7) {
                0 => format!("{name} < {one}"),
                1 => format!("{name} <= {one}"),
                2 => format!("{name} > {one}"),
                3 => format!("{name} >= {one}"),
                4 => format!("{one} < {name}"),
                5 => format!("{name} NOT BETWEEN {one} AND {other}"),
                _ => format!("{name} BETWEEN {one} AND {other}"),
            }
        }
    }
}

fn select(choices: &mut Choices, table: &Table) -> String {
    let column = choices.one(&table.columns);
    let (list, columns) = match choices.below(4) {
        0 => ("*".to_owned(), ""),
        1 => (format!("id, {} AS renamed", column.name), ""),
        2 => (format!("count(*), count({})", column.name), ""),
        _ => (format!("t.id, t.{}", column.name), " t"),
    };
    format!("SELECT {list} FROM {}{columns} WHERE {}", table.name, condition(choices, table, 3))
}

/// Values in their order, of which nothing tells equal ones apart: also where each row has a place of its own.
fn ordered_values(choices: &mut Choices, table: &Table) -> Option<String> {
    let is_ordered = |column: &&Column| {
        let hides_frequency = column.operations == Operations::Compared("fh_ope");
        (column.is_sorted() || hides_frequency) && column.is_told_by_value()
    };
    let columns: Vec<&Column> = table.columns.iter().filter(is_ordered).collect();
    let name = &choices.some(&columns)?.name;
    let direction = choices.one(&["", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST"]);
    let filter = condition(choices, table, 2);
    let limit = if choices.percent(70) { format!(" LIMIT {}", choices.below(8)) } else { String::new() };
    Some(format!("SELECT {name} FROM {} WHERE {filter} ORDER BY {name}{direction}{limit}", table.name))
}

/// Its order is total: the key is the last term.
pub(super) fn ordered_select(choices: &mut Choices, table: &Table) -> String {
    if choices.percent(20)
        && let Some(values) = ordered_values(choices, table)
    {
        return values;
    }
    let ordered: Vec<&Column> = table.columns.iter().filter(|column| column.is_sorted()).collect();
    let mut terms = Vec::new();
    if !ordered.is_empty() && choices.percent(80) {
        let direction = choices.one(&["", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST"]);
        terms.push(format!("{}{direction}", choices.one(&ordered).name));
    }
    terms.push("id".into());
    let limit = if choices.percent(60) { format!(" LIMIT {}", choices.below(8)) } else { String::new() };
    let offset = if choices.percent(20) { format!(" OFFSET {}", choices.below(4)) } else { String::new() };
    let filter =
        if choices.percent(60) { format!(" WHERE {}", condition(choices, table, 2)) } else { String::new() };
    format!("SELECT * FROM {}{filter} ORDER BY {}{limit}{offset}", table.name, terms.join(", "))
}

fn grouped(choices: &mut Choices, table: &Table) -> String {
    let column = choices.one(&table.columns);
    let name = &column.name;
    let filter = condition(choices, table, 1);
    let from = format!("FROM {} WHERE {filter}", table.name);
    if column.is_ranked() && choices.percent(25) {
        return format!("SELECT min({name}), max({name}) {from}");
    }
    if column.ty.is_number && column.operations != Operations::Stored && choices.percent(20) {
        return format!("SELECT sum({name}), avg({name}) {from}");
    }
    if !column.is_grouped() {
        return format!("SELECT count({name}) {from}");
    }
    if !column.is_told_by_value() {
        return format!("SELECT count(DISTINCT {name}) {from}");
    }
    match choices.below(4) {
        0 => format!("SELECT {name}, count(*) {from} GROUP BY {name} HAVING count(*) > 1"),
        1 => format!("SELECT {name}, count(*) {from} GROUP BY {name}"),
        2 => format!("SELECT DISTINCT {name} {from}"),
        _ => format!("SELECT count(DISTINCT {name}) {from}"),
    }
}

/// The tables joined by their keys, with a condition on one of them.
fn join(choices: &mut Choices, schema: &RandomSchema) -> String {
    let [one, other] = [&schema.tables[0], &schema.tables[1]];
    let kind = choices.one(&["JOIN", "LEFT JOIN"]);
    let (left, right) = (&choices.one(&one.columns).name, &choices.one(&other.columns).name);
    format!(
        "SELECT a.id, a.{left}, b.{right} FROM {} a {kind} {} b ON a.id = b.id WHERE a.id < {}",
        one.name,
        other.name,
        choices.below(KEYS)
    )
}
