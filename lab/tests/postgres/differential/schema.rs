//! Random tables: types, operations and which columns are encrypted.

use super::Choices;
use std::fmt::Write as _;

/// What can be asked of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operations {
    /// Not encrypted: anything.
    Plain,
    /// Encrypted, returned only.
    Stored,
    /// Encrypted: equality, grouping, joins.
    Equality,
    /// Encrypted: equality and order.
    Order,
    /// Encrypted: equality, and comparisons that a function makes; nothing is sorted by it.
    Compared(&'static str),
}

/// A type, and values of it that meet one another and the type's ends.
pub(crate) struct Type {
    pub(crate) name: &'static str,
    /// Constants as SQL has them.
    pub(crate) values: &'static [&'static str],
    pub(crate) is_number: bool,
}

pub(crate) const TYPES: [Type; 16] = [
    Type { name: "smallint", values: &["0", "1", "-1", "7", "7", "32767", "-32768", "12"], is_number: true },
    Type {
        name: "integer",
        values: &["0", "1", "-1", "7", "8", "2147483647", "-2147483648", "100", "100"],
        is_number: true,
    },
    Type {
        name: "bigint",
        values: &["0", "5", "-5", "9223372036854775807", "-9223372036854775808", "6", "10000000000"],
        is_number: true,
    },
    Type {
        name: "double precision",
        values: &["0", "-0.5", "1.5", "1e300", "-1e-300", "3", "3", "'Infinity'", "'NaN'"],
        is_number: false,
    },
    Type {
        name: "numeric(12,2)",
        values: &["0", "0.01", "-0.01", "12.30", "12.3", "9999999999.99", "-9999999999.99", "100"],
        is_number: true,
    },
    Type {
        name: "text",
        values: &[
            "''",
            "'a'",
            "'A'",
            "'ab'",
            "'b'",
            "'straße'",
            "'it''s'",
            "'a very long text of more than a few words'",
        ],
        is_number: false,
    },
    Type {
        name: "date",
        values: &[
            "'2020-02-29'",
            "'1999-12-31'",
            "'2000-01-01'",
            "'0001-01-01'",
            "'2020-03-01'",
            "'infinity'",
        ],
        is_number: false,
    },
    Type {
        name: "timestamp",
        values: &[
            "'2020-02-29 12:00:00'",
            "'1999-12-31 23:59:59.999999'",
            "'2000-01-01'",
            "'2020-02-29 12:00:00.000001'",
        ],
        is_number: false,
    },
    Type { name: "boolean", values: &["true", "false"], is_number: false },
    Type {
        name: "real",
        values: &["0", "-0.5", "1.5", "'1e30'", "'0.1'", "3", "3", "'-Infinity'", "'NaN'"],
        is_number: false,
    },
    // Equal values of different digits.
    Type {
        name: "numeric",
        values: &["0", "1", "1.0", "1.00", "-3.14159", "1e20", "12345678901234567890.125", "'NaN'", "0.1"],
        is_number: true,
    },
    Type {
        name: "varchar(12)",
        values: &["''", "'a'", "'A'", "'ab '", "'ab'", "'straße'"],
        is_number: false,
    },
    Type {
        name: "uuid",
        values: &[
            "'00000000-0000-0000-0000-000000000000'",
            "'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF'",
            "'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'",
            "'a0eebc999c0b4ef8bb6d6bb9bd380a11'",
            "'00000000-0000-0000-0000-000000000001'",
        ],
        is_number: false,
    },
    Type {
        name: "timestamptz",
        values: &[
            "'2020-02-29 12:00:00+00'",
            "'2020-02-29 13:00:00+01'",
            "'1999-12-31 23:59:59.999999-05'",
            "'2000-01-01 00:00:00Z'",
            "'infinity'",
        ],
        is_number: false,
    },
    Type {
        name: "bytea",
        values: &["'\\x'", "'\\x00'", "'\\xff00'", "'abc'", "'\\x616263'", "'\\xFF00'"],
        is_number: false,
    },
    Type {
        name: "jsonb",
        values: &["'{}'", "'{\"a\": 1}'", "'[1, 2, {\"b\": null}]'", "'null'", "'1.0'", "'1'"],
        is_number: false,
    },
];

/// A column of a random table.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) ty: &'static Type,
    pub(crate) operations: Operations,
    pub(crate) is_unique: bool,
    pub(crate) not_null: bool,
    pub(crate) default: Option<&'static str>,
}

impl Column {
    /// Has PostgreSQL a `min` and a `max` of the type? The proxy has them of more.
    pub(crate) fn has_extremes(&self) -> bool {
        !matches!(self.ty.name, "boolean" | "uuid" | "bytea" | "jsonb") && self.is_told_by_value()
    }

    /// Are equal values written alike, so that it does not matter which of them a group shows?
    pub(crate) fn is_told_by_value(&self) -> bool {
        self.ty.name != "numeric"
    }
}

/// A random table; each has a plain key `id` besides its columns.
pub(crate) struct Table {
    pub(crate) name: String,
    pub(crate) columns: Vec<Column>,
}

/// Random tables.
pub(crate) struct RandomSchema {
    pub(crate) tables: Vec<Table>,
}

impl RandomSchema {
    /// Two tables.
    pub(crate) fn draw(choices: &mut Choices) -> Self {
        let tables = (0..2).map(|number| Table::draw(choices, number)).collect();
        Self { tables }
    }

    /// Has a column in which each row has a place of its own: statements that would give several rows one are refused.
    pub(crate) fn hides_frequency(&self) -> bool {
        let mut columns = self.tables.iter().flat_map(|table| &table.columns);
        columns.any(|column| column.operations == Operations::Compared("fh_ope"))
    }

    /// Statements that make the tables.
    pub(crate) fn create(&self) -> Vec<String> {
        self.tables.iter().map(Table::create).collect()
    }

    /// What an administrator declares: the proxy's schema file.
    pub(crate) fn declared(&self) -> String {
        let mut text = String::new();
        for (table, of) in self.tables.iter().zip(0_u64..) {
            let _ = writeln!(text, "[tables.\"public.{}\"]", table.name);
            for (column, number) in table.columns.iter().zip(1_u64..) {
                let mut operations = match column.operations {
                    Operations::Plain => continue,
                    Operations::Stored => vec![],
                    Operations::Equality => vec!["equality"],
                    Operations::Order | Operations::Compared(_) => vec!["equality", "order"],
                };
                if column.ty.is_number {
                    operations.push("sum");
                }
                if column.is_unique {
                    operations.push("unique");
                }
                let order = match (column.operations, number % 4) {
                    (Operations::Compared(order), _) => format!(", order = \"{order}\""),
                    (Operations::Order, 0) => ", order = \"stope\"".into(),
                    // Of 8 bytes at most.
                    (Operations::Order, 1 | 3) if column.ty.name != "uuid" => ", order = \"bclo\"".into(),
                    (_, _) => String::new(),
                };
                let id = (of << 8) + number;
                let _ = writeln!(
                    text,
                    "{} = {{ id = \"{id:016x}\", type = \"{}\", operations = {operations:?}{order} }}",
                    column.name, column.ty.name
                );
            }
        }
        text
    }
}

impl Table {
    fn draw(choices: &mut Choices, number: usize) -> Self {
        let count = 3 + choices.below(3);
        let columns = (0..count)
            .map(|at| {
                let ty = &TYPES[choices.below(TYPES.len())];
                let drawn = *choices.one(&[
                    Operations::Plain,
                    Operations::Stored,
                    Operations::Equality,
                    Operations::Order,
                    Operations::Order,
                    Operations::Compared("clww"),
                    Operations::Compared("lewi_wu"),
                    Operations::Compared("fh_ope"),
                ]);
                // Two values have no order worth a tree; texts are ordered by the database's collation, which no term has.
                let operations = match (ty.name, drawn) {
                    // Of 8 bytes at most, too.
                    ("uuid", Operations::Compared("clww" | "lewi_wu")) => Operations::Order,
                    // The proxy keeps its text as it was sent.
                    ("jsonb", drawn) if drawn != Operations::Plain => Operations::Stored,
                    (
                        "boolean" | "text" | "varchar(12)" | "bytea" | "jsonb" | "numeric",
                        Operations::Order | Operations::Compared(_),
                    ) => Operations::Equality,
                    (_, drawn) => drawn,
                };
                let comparable = !matches!(operations, Operations::Stored) && ty.values.len() > 2;
                Column {
                    name: format!("c{at}"),
                    ty,
                    operations,
                    is_unique: comparable && choices.percent(10),
                    not_null: choices.percent(20),
                    default: choices.percent(25).then(|| *choices.one(ty.values)),
                }
            })
            .collect();
        Self { name: format!("t{number}"), columns }
    }

    fn create(&self) -> String {
        let mut text = format!("CREATE TABLE {} (id integer PRIMARY KEY", self.name);
        for column in &self.columns {
            let unique = if column.is_unique { " UNIQUE" } else { "" };
            let not_null = if column.not_null { " NOT NULL" } else { "" };
            let default = column.default.map(|value| format!(" DEFAULT {value}")).unwrap_or_default();
            let _ = write!(text, ", {} {}{not_null}{unique}{default}", column.name, column.ty.name);
        }
        text.push(')');
        text
    }
}
