//! Reads the schema file: the text's own shape, with positions, and the checks that need them.

use super::{Schema, SchemaError};
use crate::catalog::{CIPHERTEXT_KEY_BYTES, Encryption, Order, Origin, SUFFIXES, TEXT_SUFFIX};
use crate::column_type::ColumnType;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use toml::Spanned;

/// Longest key of an order, in bytes: what texts may be ordered by.
const MAX_ORDERED_BYTES: u16 = 255;
/// Digits of a decimal whose order is kept.
const MAX_ORDERED_DIGITS: u16 = 38;
/// Longest name that PostgreSQL does not cut.
const NAME_BYTES: usize = 63;

/// PostgreSQL's configurations of text search that there is an analysis for; the first where none is named, as `initdb` does.
const LANGUAGES: [&str; 16] = [
    "english",
    "simple",
    "danish",
    "dutch",
    "finnish",
    "french",
    "german",
    "hungarian",
    "italian",
    "norwegian",
    "portuguese",
    "romanian",
    "russian",
    "spanish",
    "swedish",
    "turkish",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSchema {
    #[serde(default)]
    tables: BTreeMap<Spanned<String>, BTreeMap<Spanned<String>, RawColumn>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawColumn {
    id: Spanned<String>,
    #[serde(rename = "type")]
    kind: Spanned<String>,
    #[serde(default)]
    operations: Vec<Spanned<Operation>>,
    order: Option<Spanned<String>>,
    join: Option<Spanned<String>>,
    max_bytes: Option<Spanned<u16>>,
    language: Option<Spanned<String>>,
}

#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Operation {
    #[serde(alias = "eq")]
    Equality,
    Unique,
    Order,
    Sum,
    Text,
}

/// A mistake and the bytes of the text it is in.
struct Mistake {
    span: Range<usize>,
    message: String,
}

fn mistake<T>(span: Range<usize>, message: impl Into<String>) -> Result<T, Mistake> {
    Err(Mistake { span, message: message.into() })
}

pub(super) fn parse(text: &str, file: &str) -> Result<Schema, SchemaError> {
    read(text).map_err(|mistake| {
        let before = text.get(..mistake.span.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        SchemaError {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).unwrap_or("").chars().count() + 1,
            message: mistake.message,
        }
    })
}

/// What is declared of one column, and where its key of equality comes from.
struct Declared {
    encryption: Encryption,
    join: Option<Spanned<String>>,
}

fn read(text: &str) -> Result<Schema, Mistake> {
    let raw: RawSchema = toml::from_str(text).map_err(|error| Mistake {
        span: error.span().unwrap_or(0..0),
        message: error.message().lines().collect::<Vec<_>>().join("; "),
    })?;
    let mut tables = BTreeMap::new();
    let mut ids: BTreeMap<[u8; 8], String> = BTreeMap::new();
    for (name, columns) in raw.tables {
        let table = table_name(&name)?;
        let mut declared = BTreeMap::new();
        for (column, raw) in columns {
            check_column_name(&column, &raw)?;
            let span = raw.id.span();
            let read = read_column(&format!("{}.{}", table.1, column.as_ref()), raw)?;
            let label = format!("{}.{}.{}", table.0, table.1, column.as_ref());
            if let Some(other) = ids.insert(read.encryption.id, label) {
                return mistake(span, format!("the id is {other}'s; every column has its own"));
            }
            declared.insert(column.into_inner(), read);
        }
        if tables.insert(table, declared).is_some() {
            return mistake(name.span(), format!("the table '{}' is declared twice", name.as_ref()));
        }
    }
    join(tables)
}

/// Gives columns that are joined with another one that one's key.
fn join(tables: BTreeMap<(String, String), BTreeMap<String, Declared>>) -> Result<Schema, Mistake> {
    let mut schema = Schema::default();
    for (table, columns) in &tables {
        let mut joined = BTreeMap::new();
        for (column, declared) in columns {
            let mut encryption = declared.encryption.clone();
            if let Some(join) = &declared.join {
                encryption.equality = Some(joined_with(&tables, &declared.encryption, join)?);
            }
            joined.insert(column.clone(), Arc::new(encryption));
        }
        schema.tables.insert(table.clone(), joined);
    }
    Ok(schema)
}

fn joined_with(
    tables: &BTreeMap<(String, String), BTreeMap<String, Declared>>,
    from: &Encryption,
    join: &Spanned<String>,
) -> Result<[u8; 8], Mistake> {
    let parts: Vec<&str> = join.as_ref().split('.').collect();
    let found = match *parts {
        [table, column] => tables.get(&("public".into(), table.into())).and_then(|table| table.get(column)),
        [schema, table, column] => {
            tables.get(&(schema.into(), table.into())).and_then(|table| table.get(column))
        }
        _ => None,
    };
    let Some(found) = found else {
        let names = tables.iter().flat_map(|((schema, table), columns)| {
            columns.keys().map(move |column| format!("{schema}.{table}.{column}"))
        });
        let names = names.collect::<Vec<_>>().join(", ");
        return mistake(join.span(), format!("no declared column is '{}'; there are {names}", join.as_ref()));
    };
    if found.join.is_some() {
        return mistake(join.span(), "that column is joined with another one itself; name that one");
    }
    if std::mem::discriminant(&found.encryption.kind) != std::mem::discriminant(&from.kind) {
        let (left, right) = (from.kind.name(), found.encryption.kind.name());
        return mistake(
            join.span(),
            format!("columns of {left} and of {right} have no equal values; use one type"),
        );
    }
    match found.encryption.equality {
        Some(id) => Ok(id),
        None => mistake(join.span(), "that column has no \"equality\" or \"unique\" among its operations"),
    }
}

fn table_name(name: &Spanned<String>) -> Result<(String, String), Mistake> {
    let text = name.as_ref();
    let (schema, table) = text.split_once('.').unwrap_or(("public", text));
    let plain = |part: &str| !part.is_empty() && !part.contains(['.', '"', '\0']) && part.len() <= NAME_BYTES;
    if plain(schema) && plain(table) {
        Ok((schema.to_owned(), table.to_owned()))
    } else {
        mistake(name.span(), format!("'{text}' names no table; write [tables.\"schema.table\"]"))
    }
}

fn check_column_name(name: &Spanned<String>, raw: &RawColumn) -> Result<(), Mistake> {
    let text = name.as_ref();
    let has_words = raw.operations.iter().any(|operation| *operation.as_ref() == Operation::Text);
    let terms = SUFFIXES.iter().filter(|suffix| has_words || **suffix != TEXT_SUFFIX);
    let longest = terms.map(|suffix| suffix.len()).max().unwrap_or(0);
    if text.is_empty() || text.contains(['"', '\0']) {
        return mistake(name.span(), format!("'{text}' names no column"));
    }
    if text.len() + longest > NAME_BYTES {
        let most = NAME_BYTES - longest;
        return mistake(
            name.span(),
            format!("a name of {} bytes; an encrypted column's has {most} at most", text.len()),
        );
    }
    if let Some(suffix) = SUFFIXES.iter().find(|suffix| text.ends_with(*suffix)) {
        return mistake(name.span(), format!("names that end in '{suffix}' are the terms'"));
    }
    Ok(())
}

fn read_id(id: &Spanned<String>) -> Result<[u8; 8], Mistake> {
    let digits = id.as_ref();
    let number = (digits.len() == 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
        .then(|| u64::from_str_radix(digits, 16).ok())
        .flatten();
    match number {
        Some(number) => Ok(number.to_be_bytes()),
        None => mistake(
            id.span(),
            format!("'{digits}' is not 16 hexadecimal digits, as openssl rand -hex 8 makes"),
        ),
    }
}

fn read_column(label: &str, raw: RawColumn) -> Result<Declared, Mistake> {
    let id = read_id(&raw.id)?;
    let Some(kind) = ColumnType::parse(raw.kind.as_ref()) else {
        return mistake(
            raw.kind.span(),
            format!(
                "'{}' is no type that is encrypted; there are smallint, integer, bigint, real, double precision, \
                 numeric(p,s), text, varchar(n), date, timestamp, timestamptz, uuid, boolean, bytea, json, jsonb",
                raw.kind.as_ref()
            ),
        );
    };
    let has = |operation| raw.operations.iter().find(|entry| *entry.as_ref() == operation);
    let wants_equality = has(Operation::Equality).or(has(Operation::Unique));
    if let (Some(entry), ColumnType::Json | ColumnType::Jsonb) = (raw.operations.first(), kind) {
        return mistake(entry.span(), format!("{} is stored only: it has no operations", kind.name()));
    }
    let named = raw.order.as_ref().map(order_named).transpose()?;
    let order = match (has(Operation::Order), &raw.order) {
        (None, Some(name)) => {
            return mistake(name.span(), "an order without \"order\" among the operations");
        }
        (None, None) => None,
        (Some(entry), _) => {
            check_order(kind, raw.max_bytes.as_ref(), entry.span())?;
            Some(named.unwrap_or_default())
        }
    };
    if let Some(entry) = has(Operation::Sum).filter(|_| !is_number(kind)) {
        return mistake(entry.span(), format!("{} is no number", kind.name()));
    }
    let max_bytes = raw.max_bytes.as_ref().map(|bytes| *bytes.as_ref());
    let equality = wants_equality.map(|_| id);
    let sum = has(Operation::Sum).is_some();
    let text = language_of(kind, has(Operation::Text), raw.language.as_ref())?;
    let encryption = Encryption {
        id,
        label: label.to_owned(),
        kind,
        max_bytes,
        equality,
        order,
        sum,
        text,
        check: None,
        origin: Origin::Stored,
    };
    if let (Some(order), Some(name)) = (order, &raw.order) {
        check_key(&encryption, order, name.span())?;
    }
    Ok(Declared { encryption, join: raw.join })
}

/// PostgreSQL's configuration that the words of a column are read by.
fn language_of(
    kind: ColumnType,
    operation: Option<&Spanned<Operation>>,
    language: Option<&Spanned<String>>,
) -> Result<Option<&'static str>, Mistake> {
    match (operation, language) {
        (None, None) => Ok(None),
        (None, Some(language)) => {
            mistake(language.span(), "a language without \"text\" among the operations")
        }
        (Some(entry), _) if !kind.is_text() => {
            mistake(entry.span(), format!("{} has no words: \"text\" is for text and varchar", kind.name()))
        }
        (Some(_), None) => Ok(Some(LANGUAGES[0])),
        (Some(_), Some(language)) => {
            let found = LANGUAGES.into_iter().find(|name| name == language.as_ref());
            let unknown = || Mistake {
                span: language.span(),
                message: format!(
                    "there is no analysis for the language '{}'; there is {}",
                    language.as_ref(),
                    LANGUAGES.join(", ")
                ),
            };
            found.map(Some).ok_or_else(unknown)
        }
    }
}

/// The order of a name, if this program has it.
fn order_named(name: &Spanned<String>) -> Result<Order, Mistake> {
    let Some(order) = Order::ALL.into_iter().find(|order| order.name() == name.as_ref()) else {
        let names = Order::ALL.map(|order| format!("\"{}\"", order.name())).join(", ");
        return mistake(name.span(), format!("'{}' is no order; there are {names}", name.as_ref()));
    };
    match order.left_out() {
        None => Ok(order),
        Some(feature) => mistake(
            name.span(),
            format!(
                "this program was built without \"{feature}\": build it with --features {feature}, or write {}",
                any_key()
            ),
        ),
    }
}

/// The setting of the order that every build has, of keys of any length.
fn any_key() -> String {
    format!("order = \"{}\"", Order::default().name())
}

/// Whether a scheme makes ciphertexts of keys as long as the column's.
fn check_key(encryption: &Encryption, order: Order, span: Range<usize>) -> Result<(), Mistake> {
    let bytes = encryption.order_key_bytes();
    if order.labels().is_some() || bytes <= CIPHERTEXT_KEY_BYTES {
        return Ok(());
    }
    let (name, kind) = (order.name(), encryption.kind.name());
    let fix = match encryption.kind {
        ColumnType::Numeric(_) => "declare 18 digits at most, or write ",
        ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Bytea => {
            "declare max_bytes = 6 at most, or write "
        }
        _ => "write ",
    };
    let other = any_key();
    mistake(
        span,
        format!(
            "\"{name}\" orders values by {CIPHERTEXT_KEY_BYTES} bytes at most, and those of {kind} take {bytes} here: {fix}{other}"
        ),
    )
}

fn is_number(kind: ColumnType) -> bool {
    match kind {
        ColumnType::SmallInt
        | ColumnType::Integer
        | ColumnType::BigInt
        | ColumnType::Real
        | ColumnType::DoublePrecision
        | ColumnType::Numeric(_) => true,
        ColumnType::Text
        | ColumnType::Varchar(_)
        | ColumnType::Date
        | ColumnType::Timestamp(_)
        | ColumnType::TimestampTz(_)
        | ColumnType::Uuid
        | ColumnType::Boolean
        | ColumnType::Bytea
        | ColumnType::Json
        | ColumnType::Jsonb => false,
    }
}

/// Whether an order can be kept of the type: its keys have one length, which says nothing of the value.
fn check_order(
    kind: ColumnType,
    max_bytes: Option<&Spanned<u16>>,
    span: Range<usize>,
) -> Result<(), Mistake> {
    match kind {
        ColumnType::Numeric(None) => {
            mistake(span, "an order needs the digits: numeric(precision,scale) with 38 digits at most")
        }
        ColumnType::Numeric(Some((precision, _))) if precision > MAX_ORDERED_DIGITS => mistake(
            span,
            format!("an order is kept of {MAX_ORDERED_DIGITS} digits at most, not of {precision}"),
        ),
        ColumnType::Text | ColumnType::Varchar(_) | ColumnType::Bytea => match max_bytes {
            None => mistake(
                span,
                "an order needs max_bytes, the length of the longest value (and is by bytes: \"C\")",
            ),
            Some(bytes) if !(1..=MAX_ORDERED_BYTES).contains(bytes.as_ref()) => {
                mistake(bytes.span(), format!("an order is kept of 1 to {MAX_ORDERED_BYTES} bytes"))
            }
            Some(_) => Ok(()),
        },
        ColumnType::SmallInt
        | ColumnType::Integer
        | ColumnType::BigInt
        | ColumnType::Real
        | ColumnType::DoublePrecision
        | ColumnType::Numeric(Some(_))
        | ColumnType::Date
        | ColumnType::Timestamp(_)
        | ColumnType::TimestampTz(_)
        | ColumnType::Uuid
        | ColumnType::Boolean
        | ColumnType::Json
        | ColumnType::Jsonb => Ok(()),
    }
}
