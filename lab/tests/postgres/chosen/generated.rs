//! Statements that choose, from a seed.

use crate::differential::Choices;
use tokio_postgres::types::Type;

/// An encrypted column.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: &'static str,
    kind: &'static str,
    /// What the schema says beside its type.
    says: &'static str,
    /// Texts of values of it.
    values: &'static [&'static str],
    /// Types that it is cast to.
    casts: &'static [&'static str],
}

impl Column {
    pub(super) fn has(&self, operation: &str) -> bool {
        self.says.contains(operation)
    }
}

const NUMBERS: &[&str] = &[
    "smallint",
    "int",
    "bigint",
    "numeric",
    "numeric(4,1)",
    "numeric(12,2)",
    "numeric(3)",
    "real",
    "float8",
    "text",
    "varchar(2)",
];
const TEXTS: &[&str] =
    &["text", "varchar", "varchar(3)", "varchar(8)", "char(4)", "bpchar", "varchar(20)", "int", "name"];
const TIMES: &[&str] = &["date", "timestamp", "timestamptz", "timestamp(0)", "text"];
const OTHERS: &[&str] = &["uuid", "boolean", "bytea", "json", "jsonb", "text", "int"];
const WHOLE: &[&str] = &[
    "1",
    "-7",
    "0",
    "42",
    "32767",
    "32768",
    "70000",
    "2147483648",
    "2.5",
    "-1.5",
    "0.49",
    "1e3",
    "99999999999",
    "9223372036854775808",
    "3.0",
];
const EXACT: &[&str] = &["1", "2.555", "-0.005", "12.34", "123456", "99999999", "1e-3", "1.20", "NaN", "0.0"];
const DOUBLES: &[&str] = &["1.5", "0.1", "1e10", "-2.25", "1e300", "NaN", "Infinity", "16777217", "1e-46"];
const WORDS: &[&str] =
    &["a", "abcdef", "abcdefghijkl", "", " x ", "O''Neil", "abc   ", "12", "2.5", "ünïcödé", "true"];
const DAYS: &[&str] = &[
    "2020-01-05",
    "2020-01-05 10:11:12.6",
    "1999-12-31",
    "infinity",
    "2020-01-05 23:59:59.9999995",
    "2020-01-05 10:00:00+02",
    "January 8, 1999",
    "0044-03-15 BC",
];

/// Each type, and each kind of operation.
pub(super) const COLUMNS: &[Column] = &[
    Column {
        name: "s",
        kind: "smallint",
        says: r#"operations = ["equality", "sum"]"#,
        values: WHOLE,
        casts: NUMBERS,
    },
    Column {
        name: "i",
        kind: "integer",
        says: r#"operations = ["equality", "order", "sum"]"#,
        values: WHOLE,
        casts: NUMBERS,
    },
    Column { name: "b", kind: "bigint", says: r#"operations = ["order"]"#, values: WHOLE, casts: NUMBERS },
    Column {
        name: "f",
        kind: "integer",
        says: r#"operations = ["order"], order = "fh_ope""#,
        values: WHOLE,
        casts: NUMBERS,
    },
    Column {
        name: "p",
        kind: "numeric(8,2)",
        says: r#"operations = ["equality", "order", "sum"]"#,
        values: EXACT,
        casts: NUMBERS,
    },
    Column { name: "u", kind: "numeric", says: r#"operations = ["sum"]"#, values: EXACT, casts: NUMBERS },
    Column { name: "r", kind: "real", says: "", values: DOUBLES, casts: NUMBERS },
    Column {
        name: "d",
        kind: "double precision",
        says: r#"operations = ["order"]"#,
        values: DOUBLES,
        casts: NUMBERS,
    },
    Column { name: "t", kind: "text", says: r#"operations = ["equality"]"#, values: WORDS, casts: TEXTS },
    Column {
        name: "v",
        kind: "varchar(8)",
        says: r#"operations = ["equality", "order"], max_bytes = 32"#,
        values: WORDS,
        casts: TEXTS,
    },
    Column { name: "w", kind: "varchar(3)", says: "", values: WORDS, casts: TEXTS },
    Column {
        name: "dt",
        kind: "date",
        says: r#"operations = ["order"], order = "stope""#,
        values: DAYS,
        casts: TIMES,
    },
    Column {
        name: "ts",
        kind: "timestamp",
        says: r#"operations = ["equality", "order"]"#,
        values: DAYS,
        casts: TIMES,
    },
    Column { name: "tz", kind: "timestamptz", says: r#"operations = ["order"]"#, values: DAYS, casts: TIMES },
    Column {
        name: "uu",
        kind: "uuid",
        says: r#"operations = ["equality"]"#,
        values: &["c0ffee42-7a1e-4bad-9cab-1e5ca1ab1e77", "C0FFEE427A1E4BAD9CAB1E5CA1AB1E78"],
        casts: OTHERS,
    },
    Column {
        name: "bo",
        kind: "boolean",
        says: r#"operations = ["equality"]"#,
        values: &["true", "false", "t", "off"],
        casts: OTHERS,
    },
    Column { name: "j", kind: "json", says: "", values: &["{\"a\": 1}", "[1, 2]", "3"], casts: OTHERS },
    Column { name: "jb", kind: "jsonb", says: "", values: &["{\"a\": 1}", "[1, 2]", "3"], casts: OTHERS },
    Column {
        name: "by",
        kind: "bytea",
        says: r#"operations = ["equality"]"#,
        values: &["\\x0102", "\\x", "abc"],
        casts: OTHERS,
    },
];

/// The schema file.
pub(super) fn schema() -> String {
    let line = |(at, column): (usize, &Column)| {
        let comma = if column.says.is_empty() { "" } else { ", " };
        format!(
            "{} = {{ id = \"7a1b2c3d4e5f{:04x}\", type = \"{}\"{comma}{} }}\n",
            column.name,
            0xa100 + at,
            column.kind,
            column.says
        )
    };
    let lines: String = COLUMNS.iter().enumerate().map(line).collect();
    format!("[tables.\"public.t\"]\n{lines}")
}

/// Its table, with rows.
pub(super) fn create() -> String {
    let columns: Vec<_> = COLUMNS.iter().map(|column| format!("{} {}", column.name, column.kind)).collect();
    let names: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
    format!(
        "CREATE TABLE t (id int PRIMARY KEY, k int, x text, n int, {}); \
         INSERT INTO t (id, k, x, n, {}) VALUES \
         (1, 10, 'x', NULL, 3, 7, 9000000000, 5, 12.34, 1.5, 0.5, 2.25, 'Ann', 'Bern', 'abc', '2020-01-05', '2020-01-05 10:11:12.5', \
          '2020-01-05 10:11:12.5+00', 'c0ffee42-7a1e-4bad-9cab-1e5ca1ab1e77', true, '{{\"a\": 1}}', '{{\"a\": 1}}', '\\x0102'), \
         (2, 20, NULL, 4, -4, -2, 5, 5, -0.01, 2.250, 1.5, -4.5, 'Bob ''s', 'Osloosl', '', '1999-12-31', '1999-12-31', '1999-12-31 12:00+00', \
          'c0ffee42-7a1e-4bad-9cab-1e5ca1ab1e78', false, '[]', '[]', '\\x'), \
         (3, 30, '5', 5, {}), \
         (4, NULL, 'w', NULL, 32767, 2147483647, 9223372036854775807, 9, 999999.99, 1e20, 3e38, 1e308, 'ann', 'Z', 'x', 'infinity', 'infinity', \
          'infinity', NULL, NULL, '1', '1', '\\xff')",
        columns.join(", "),
        names.join(", "),
        vec!["NULL"; names.len()].join(", ")
    )
}

/// A parameter, as text; none is NULL.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) text: Option<String>,
    pub(super) binary: bool,
}

/// A statement with its parameters.
#[derive(Debug, Default)]
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) given: Vec<Given>,
    /// Of the first parameters; those of the rest are not said.
    pub(super) types: Vec<Type>,
    /// The columns that it stores in.
    pub(super) targets: Vec<&'static Column>,
}

/// What a statement is drawn with.
struct Draw<'a> {
    choices: &'a mut Choices,
    given: Vec<Given>,
    has_parameters: bool,
    /// What stands before a column's name.
    of: &'static [&'static str],
}

impl Statement {
    pub(super) fn draw(choices: &mut Choices) -> Self {
        let has_parameters = choices.percent(30);
        let mut draw = Draw { choices, given: Vec::new(), has_parameters, of: &[""] };
        let column = draw.choices.one(COLUMNS);
        let mut targets = vec![column];
        let text = match draw.choices.below(20) {
            0..=7 => format!("UPDATE t SET {} = {}{}", column.name, draw.chosen(column, 2), draw.which()),
            8..=9 => {
                let other = draw.choices.one(COLUMNS);
                if other.name != column.name {
                    targets.push(other);
                }
                let one = draw.chosen(column, 2);
                let second = match targets.len() {
                    2 => format!(", {} = {}", other.name, draw.value(other, 1)),
                    _ => ", k = 3".into(),
                };
                format!("UPDATE t SET {} = {one}{second}{}", column.name, draw.which())
            }
            10..=12 => {
                let id = draw.choices.below(6);
                let new = draw.constant(column);
                draw.of = &["t.", "EXCLUDED."];
                let chosen = draw.chosen(column, 2).replace("WHEN id", "WHEN t.id");
                let name = column.name;
                format!(
                    "INSERT INTO t (id, {name}) VALUES ({id}, {new}) ON CONFLICT (id) DO UPDATE SET {name} = {chosen}"
                )
            }
            13 => format!("INSERT INTO t (id, {}) VALUES (9, {})", column.name, draw.chosen(column, 1)),
            14 => format!(
                "INSERT INTO t (id, {}) SELECT id + 20, {} FROM t",
                column.name,
                draw.chosen(column, 2)
            ),
            15 => {
                let (chosen, constant) = (draw.chosen(column, 1), draw.constant(column));
                let sign = draw.choices.one(&["=", "<", "<>", ">="]);
                format!("SELECT id FROM t WHERE {chosen} {sign} {constant} ORDER BY id")
            }
            _ => format!("SELECT id, {} AS c FROM t{} ORDER BY id", draw.chosen(column, 2), draw.which()),
        };
        let types = draw.types();
        Self { text, given: draw.given, types, targets }
    }
}

impl Draw<'_> {
    fn types(&mut self) -> Vec<Type> {
        if self.choices.percent(60) {
            return Vec::new();
        }
        let known = [
            Type::INT2,
            Type::INT4,
            Type::INT8,
            Type::TEXT,
            Type::VARCHAR,
            Type::NUMERIC,
            Type::FLOAT8,
            Type::DATE,
            Type::TIMESTAMP,
        ];
        (0..self.given.len()).map(|_| self.choices.one(&known).clone()).collect()
    }

    fn which(&mut self) -> String {
        match self.choices.below(4) {
            0 => " WHERE id = 1".into(),
            1 => " WHERE id IN (2, 4)".into(),
            2 => format!(" WHERE {}", self.condition()),
            _ => String::new(),
        }
    }

    fn condition(&mut self) -> String {
        (*self.choices.one(&[
            "id = 1",
            "id < 3",
            "id > 1",
            "id = 99",
            "id IN (1, 4)",
            "id IS NULL",
            "id > 0",
            "id = 2",
        ]))
        .into()
    }

    /// A choice of values of a column, with casts or none.
    fn chosen(&mut self, column: &Column, depth: usize) -> String {
        let mut text = match self.choices.below(10) {
            0..=4 => self.case(column, depth),
            5 => {
                let mut text = "CASE id".to_owned();
                for _ in 0..=self.choices.below(2) {
                    let (key, value) = (1 + self.choices.below(4), self.value(column, depth));
                    text += &format!(" WHEN {key} THEN {value}");
                }
                if self.choices.percent(60) {
                    text += &format!(" ELSE {}", self.value(column, depth));
                }
                text.replace("CASE id", if self.of.len() > 1 { "CASE t.id" } else { "CASE id" }) + " END"
            }
            6..=8 => {
                let (one, two) = (self.value(column, depth), self.value(column, depth));
                format!("coalesce({one}, {two})")
            }
            _ => {
                let name = *self.choices.one(&["nullif", "greatest", "least", "coalesce"]);
                let (one, two) = (self.value(column, depth), self.value(column, depth));
                format!("{name}({one}, {two})")
            }
        };
        let casts = [0, 0, 1, 1, 1, 1, 2][self.choices.below(7)];
        for _ in 0..casts {
            text = self.cast(&format!("({text})"), column);
        }
        text
    }

    fn case(&mut self, column: &Column, depth: usize) -> String {
        let mut text = "CASE".to_owned();
        for _ in 0..=self.choices.below(2) {
            let (condition, value) = (self.condition(), self.value(column, depth));
            text += &format!(" WHEN {condition} THEN {value}");
        }
        if self.choices.percent(70) {
            text += &format!(" ELSE {}", self.value(column, depth));
        }
        text + " END"
    }

    fn cast(&mut self, text: &str, column: &Column) -> String {
        let kind = if self.choices.percent(25) { column.kind } else { self.choices.one(column.casts) };
        match self.choices.percent(70) {
            true => format!("{text}::{kind}"),
            false => format!("CAST({text} AS {kind})"),
        }
    }

    /// One of the values of a choice.
    fn value(&mut self, column: &Column, depth: usize) -> String {
        let name = format!("{}{}", self.choices.one(self.of), column.name);
        match self.choices.below(20) {
            0..=5 => name,
            6 if depth > 0 => format!("({})", self.chosen(column, depth - 1)),
            7 if depth > 0 => self.chosen(column, depth - 1),
            8 => match column.values {
                WORDS => format!("{name} || 'xyz'"),
                WHOLE | EXACT | DOUBLES => format!(
                    "{name} {} {}",
                    self.choices.one(&["+", "-", "*"]),
                    self.choices.one(&["1", "1.25", "'2'", name.as_str()])
                ),
                _ => name,
            },
            9 => "NULL".into(),
            10 if self.choices.percent(20) => {
                // Beside a `real` the proxy keeps more digits of a number than PostgreSQL.
                let other = self.choices.one(COLUMNS);
                let name = if other.kind == "real" { column.name } else { other.name };
                format!("{}{name}", self.choices.one(self.of))
            }
            10 if self.choices.percent(20) && self.of.len() == 1 => {
                (*self.choices.one(&["k", "x", "n"])).into()
            }
            11 if self.choices.percent(30) => self.cast(&name, column),
            _ => self.constant(column),
        }
    }

    fn constant(&mut self, column: &Column) -> String {
        let alien = self.choices.percent(8);
        let values = if alien { self.choices.one(COLUMNS).values } else { column.values };
        let value = *self.choices.one(values);
        if self.has_parameters && self.choices.percent(50) {
            let text = (!self.choices.percent(15)).then(|| value.replace("''", "'"));
            let binary = self.choices.percent(40);
            self.given.push(Given { text, binary });
            let number = format!("${}", self.given.len());
            return if self.choices.percent(25) { self.cast(&number, column) } else { number };
        }
        let is_number = value.parse::<f64>().is_ok_and(|number| number.is_finite());
        let text = match self.choices.below(10) {
            0..=5 if is_number => value.to_owned(),
            0..=5 if ["true", "false"].contains(&value) => value.to_owned(),
            _ => format!("'{value}'"),
        };
        let text = if text.starts_with('-') { format!("({text})") } else { text };
        if self.choices.percent(20) { self.cast(&text, column) } else { text }
    }
}
