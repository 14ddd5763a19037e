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
    /// Encrypted: compared and sorted, by an order of a name.
    Order(&'static str),
    /// Encrypted: compared by a function, or by places that equal values do not share; what is sorted by it is not sorted by more.
    Compared(&'static str),
}

impl Operations {
    /// By any of the orders that a schema file names.
    const ORDERS: [Self; 6] = [
        Self::Order("mope"),
        Self::Order("stope"),
        Self::Order("bclo"),
        Self::Compared("fh_ope"),
        Self::Compared("clww"),
        Self::Compared("lewi_wu"),
    ];

    fn draw(choices: &mut Choices, ty: &Type) -> Self {
        let drawn = match choices.below(10) {
            0 => Self::Plain,
            1 => Self::Stored,
            2 => Self::Equality,
            _ => *choices.one(&Self::ORDERS),
        };
        match (ty.name, drawn) {
            // The proxy keeps its text as it was sent.
            ("jsonb", drawn) if drawn != Self::Plain => Self::Stored,
            // Of no longest key.
            ("numeric", Self::Order(_) | Self::Compared(_)) => Self::Equality,
            (_, Self::Order("bclo") | Self::Compared("clww" | "lewi_wu")) if !ty.is_short => {
                Self::Order("mope")
            }
            (_, drawn) => drawn,
        }
    }
}

/// A type, and values of it that meet one another and the type's ends.
pub(crate) struct Type {
    pub(crate) name: &'static str,
    /// Constants as SQL has them.
    pub(crate) values: &'static [&'static str],
    pub(crate) is_number: bool,
    /// No value is longer: what texts and bytes are ordered by.
    max_bytes: Option<u16>,
    /// Orders whose keys have 8 bytes at most are kept of it, too.
    is_short: bool,
}

impl Type {
    const fn number(name: &'static str, values: &'static [&'static str]) -> Self {
        Self { name, values, is_number: true, max_bytes: None, is_short: true }
    }

    const fn scalar(name: &'static str, values: &'static [&'static str]) -> Self {
        Self { name, values, is_number: false, max_bytes: None, is_short: true }
    }

    const fn bytes(name: &'static str, max_bytes: u16, values: &'static [&'static str]) -> Self {
        Self { name, values, is_number: false, max_bytes: Some(max_bytes), is_short: max_bytes <= 6 }
    }

    const fn long(self) -> Self {
        Self { is_short: false, ..self }
    }
}

pub(crate) const TYPES: [Type; 18] = [
    Type::number("smallint", &["0", "1", "-1", "7", "7", "32767", "-32768", "12"]),
    Type::number("integer", &["0", "1", "-1", "7", "8", "2147483647", "-2147483648", "100", "100"]),
    Type::number(
        "bigint",
        &["0", "5", "-5", "9223372036854775807", "-9223372036854775808", "6", "10000000000"],
    ),
    Type::scalar(
        "double precision",
        &["0", "-0.5", "1.5", "1e300", "-1e-300", "3", "3", "'Infinity'", "'NaN'"],
    ),
    Type::number(
        "numeric(12,2)",
        &["0", "0.01", "-0.01", "12.30", "12.3", "9999999999.99", "-9999999999.99", "100"],
    ),
    Type::bytes(
        "text",
        48,
        &[
            "''",
            "'a'",
            "'A'",
            "'ab'",
            "'b'",
            "'straße'",
            "'it''s'",
            "'a very long text of more than a few words'",
        ],
    ),
    Type::scalar(
        "date",
        &["'2020-02-29'", "'1999-12-31'", "'2000-01-01'", "'0001-01-01'", "'2020-03-01'", "'infinity'"],
    ),
    Type::scalar(
        "timestamp",
        &[
            "'2020-02-29 12:00:00'",
            "'1999-12-31 23:59:59.999999'",
            "'2000-01-01'",
            "'2020-02-29 12:00:00.000001'",
        ],
    ),
    Type::scalar("boolean", &["true", "false"]),
    Type::scalar("real", &["0", "-0.5", "1.5", "'1e30'", "'0.1'", "3", "3", "'-Infinity'", "'NaN'"]),
    // Equal values of different digits.
    Type::number(
        "numeric",
        &["0", "1", "1.0", "1.00", "-3.14159", "1e20", "12345678901234567890.125", "'NaN'", "0.1"],
    ),
    Type::bytes("varchar(12)", 13, &["''", "'a'", "'A'", "'ab '", "'ab'", "'straße'"]),
    Type::scalar(
        "uuid",
        &[
            "'00000000-0000-0000-0000-000000000000'",
            "'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF'",
            "'{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}'",
            "'a0eebc999c0b4ef8bb6d6bb9bd380a11'",
            "'00000000-0000-0000-0000-000000000001'",
        ],
    )
    .long(),
    Type::scalar(
        "timestamptz",
        &[
            "'2020-02-29 12:00:00+00'",
            "'2020-02-29 13:00:00+01'",
            "'1999-12-31 23:59:59.999999-05'",
            "'2000-01-01 00:00:00Z'",
            "'infinity'",
        ],
    ),
    Type::bytes("bytea", 4, &["'\\x'", "'\\x00'", "'\\xff00'", "'abc'", "'\\x616263'", "'\\xFF00'"]),
    Type::scalar("jsonb", &["'{}'", "'{\"a\": 1}'", "'[1, 2, {\"b\": null}]'", "'null'", "'1.0'", "'1'"]),
    Type::number(
        "numeric(30,4)",
        &["0", "0.0001", "-0.0001", "12.5", "12.50", "99999999999999999999999999.9999", "-7", "100"],
    )
    .long(),
    Type::bytes("varchar(4)", 6, &["''", "'a'", "'A'", "'ab '", "'aß'", "'zzzz'", "'zz'"]),
];

/// What is said of an encrypted column where rows would share a place.
const SHARED: [&str; 2] = [
    " with order = \"fh_ope\", where each row has a term of its own: ",
    ": it is set to a constant, a parameter, or what ",
];

/// A column of a random table.
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) ty: &'static Type,
    pub(crate) operations: Operations,
    /// Is equality declared beside the order?
    has_equality: bool,
    pub(crate) is_unique: bool,
    pub(crate) not_null: bool,
    pub(crate) default: Option<&'static str>,
}

impl Column {
    /// Has PostgreSQL a `min` and a `max` of the type? The proxy has them of more.
    pub(crate) fn has_extremes(&self) -> bool {
        !matches!(self.ty.name, "boolean" | "uuid" | "bytea" | "jsonb") && self.is_told_by_value()
    }

    /// Are rows of equal values found together: by groups, joins, and what is distinct?
    pub(crate) fn is_grouped(&self) -> bool {
        match self.operations {
            Operations::Stored => false,
            Operations::Compared("fh_ope" | "lewi_wu") => self.has_equality,
            _ => true,
        }
    }

    /// Has the server an order of all rows by it, and the values' own?
    pub(crate) fn is_sorted(&self) -> bool {
        matches!(self.operations, Operations::Plain | Operations::Order(_)) && self.ty.name != "boolean"
    }

    /// Are two values compared by `<`?
    pub(crate) fn is_compared(&self) -> bool {
        let has_order =
            matches!(self.operations, Operations::Plain | Operations::Order(_) | Operations::Compared(_));
        has_order && self.ty.name != "boolean"
    }

    /// Has it a least value and a greatest one?
    pub(crate) fn is_ranked(&self) -> bool {
        self.has_extremes()
            && (self.is_sorted() || matches!(self.operations, Operations::Compared("clww" | "fh_ope")))
    }

    /// Are equal values written alike, so that it does not matter which of them a group shows?
    pub(crate) fn is_told_by_value(&self) -> bool {
        !matches!(self.ty.name, "numeric" | "jsonb")
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

    /// Does a message refuse what would store one value in several rows of a column where each has a place of its own?
    pub(crate) fn allows_refusal(&self, message: &str) -> bool {
        let hides = |column: &&Column| column.operations == Operations::Compared("fh_ope");
        let is_of = |table: &Table| {
            let mut columns = table.columns.iter().filter(hides);
            columns.any(|column| {
                let said =
                    message.strip_prefix(&format!("column {}.{} is encrypted", table.name, column.name));
                said.is_some_and(|said| SHARED.iter().any(|shared| said.starts_with(shared)))
            })
        };
        self.tables.iter().any(is_of)
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
                    Operations::Order(_) | Operations::Compared(_) => vec!["order"],
                };
                if column.has_equality && !operations.contains(&"equality") {
                    operations.push("equality");
                }
                if column.ty.is_number {
                    operations.push("sum");
                }
                if column.is_unique {
                    operations.push("unique");
                }
                let order = match column.operations {
                    Operations::Order(order) | Operations::Compared(order) => {
                        format!(", order = \"{order}\"")
                    }
                    Operations::Plain | Operations::Stored | Operations::Equality => String::new(),
                };
                let max_bytes = column.ty.max_bytes.map(|bytes| format!(", max_bytes = {bytes}"));
                let id = (of << 8) + number;
                let _ = writeln!(
                    text,
                    "{} = {{ id = \"{id:016x}\", type = \"{}\", operations = {operations:?}{order}{} }}",
                    column.name,
                    column.ty.name,
                    max_bytes.unwrap_or_default()
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
                let operations = Operations::draw(choices, ty);
                let comparable = operations != Operations::Stored && ty.values.len() > 2;
                let is_unique = comparable && choices.percent(10);
                Column {
                    name: format!("c{at}"),
                    ty,
                    operations,
                    has_equality: is_unique || operations != Operations::Stored && choices.percent(50),
                    is_unique,
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
