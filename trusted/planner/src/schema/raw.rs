//! Reads the schema file: the text's own shape, with positions, and the checks that need them.

use super::text::{RawText, TextSchema};
use super::{
    CollectionSchema, FieldSchema, FieldType, Operation, OrderKey, QueryPattern, ScanPolicy, Schema,
    SchemaError,
};
use crate::adversary::Adversary;
use crate::indexes::needs;
use crate::kinds::{Need, OrderChoice, OrderProtocol, obstacle};
use crate::physical::KeyWidth;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSchema {
    #[serde(default)]
    adversary: Adversary,
    #[serde(default)]
    collections: BTreeMap<Spanned<String>, RawCollection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCollection {
    adversary: Option<Adversary>,
    #[serde(default)]
    scan: ScanPolicy,
    leakage_ratio: Option<Spanned<u32>>,
    #[serde(default)]
    fields: BTreeMap<Spanned<String>, RawField>,
    #[serde(default)]
    indexes: Vec<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    patterns: Vec<RawPattern>,
    text: Option<RawText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawField {
    #[serde(default = "yes")]
    sensitive: bool,
    #[serde(default)]
    unique: bool,
    #[serde(rename = "type")]
    kind: Option<FieldType>,
    max_bytes: Option<Spanned<u32>>,
    #[serde(default)]
    operations: Vec<Spanned<Operation>>,
    width_bits: Option<Spanned<u32>>,
    order: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawPattern {
    name: Option<String>,
    text: Option<Spanned<bool>>,
    #[serde(default)]
    eq: Vec<Spanned<String>>,
    #[serde(default)]
    range: Vec<Spanned<String>>,
    #[serde(default)]
    order: Vec<Spanned<String>>,
    #[serde(default)]
    limit: Option<Spanned<bool>>,
    #[serde(default)]
    count: bool,
    #[serde(default)]
    sum: Vec<Spanned<String>>,
    #[serde(default)]
    average: Vec<Spanned<String>>,
}

fn yes() -> bool {
    true
}

/// A mistake and the bytes of the text it is in.
pub(super) struct Mistake {
    span: Range<usize>,
    message: String,
}

pub(super) fn mistake<T>(span: Range<usize>, message: impl Into<String>) -> Result<T, Mistake> {
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

fn read(text: &str) -> Result<Schema, Mistake> {
    let raw: RawSchema = toml::from_str(text).map_err(|error| Mistake {
        span: error.span().unwrap_or(0..0),
        message: first_line(error.message()),
    })?;
    let mut collections = BTreeMap::new();
    for (name, collection) in raw.collections {
        let two_parts =
            name.as_ref().split_once('.').is_some_and(|(left, right)| !left.is_empty() && !right.is_empty());
        if !two_parts {
            return mistake(
                name.span(),
                format!(
                    "'{}' names no collection; write [collections.\"database.collection\"]",
                    name.as_ref()
                ),
            );
        }
        collections.insert(name.into_inner(), read_collection(collection, raw.adversary)?);
    }
    Ok(Schema { adversary: raw.adversary, collections })
}

fn first_line(message: &str) -> String {
    let line = message.lines().collect::<Vec<_>>().join("; ");
    if line.contains("unknown field") && line.contains("`sensitive`") {
        // `fields.a.b = {…}` is a table in a table for TOML, so `b` looks like a property of field `a`.
        return format!("{line} (a dotted path is quoted: \"a.b\" = {{ … }})");
    }
    line
}

fn read_collection(raw: RawCollection, adversary: Adversary) -> Result<CollectionSchema, Mistake> {
    let (mut fields, mut orders) = (BTreeMap::new(), Vec::new());
    for (name, field) in raw.fields {
        let path = read_path(&name)?;
        orders.extend(field.order.as_ref().map(|order| (path.clone(), order.span())));
        fields.insert(path, read_field(field)?);
    }
    let mut indexes = Vec::with_capacity(raw.indexes.len());
    for index in raw.indexes {
        if index.as_ref().is_empty() {
            return mistake(
                index.span(),
                "an entry of 'indexes' has no field; write indexes = [[\"a\", \"b\"], [\"c\"]]",
            );
        }
        indexes.push(read_paths(index.as_ref(), "index")?);
    }
    let mut patterns = Vec::with_capacity(raw.patterns.len());
    let text = raw.text.map(TextSchema::read).transpose()?;
    for pattern in raw.patterns {
        if let (None, Some(asked)) = (&text, pattern.text.as_ref().filter(|text| *text.as_ref())) {
            return mistake(
                asked.span(),
                "text = true needs the fields that $text is to find: text.fields = { title = 1 }",
            );
        }
        patterns.push(read_pattern(pattern, &fields)?);
    }
    let leakage_ratio = match raw.leakage_ratio {
        Some(ratio) if *ratio.as_ref() == 0 => {
            return mistake(
                ratio.span(),
                "leakage_ratio = 0: it is at least 1, which always takes the plan that reads fewest documents",
            );
        }
        ratio => ratio.map(Spanned::into_inner),
    };
    let adversary = raw.adversary.unwrap_or(adversary);
    let schema =
        CollectionSchema { adversary, scan: raw.scan, leakage_ratio, fields, indexes, patterns, text };
    for (path, span) in orders {
        check_order(&schema, &path, span)?;
    }
    Ok(schema)
}

/// Can the protocol that a field is declared with serve it, and what the patterns need of it?
fn check_order(schema: &CollectionSchema, path: &str, span: Range<usize>) -> Result<(), Mistake> {
    let OrderChoice::Protocol(protocol) = schema.order(path) else {
        return Ok(());
    };
    let declared = schema.fields.get(path).and_then(|field| field.width);
    let alone = Need { width: declared, ..Need::new(vec![path.to_owned()], schema.key_width(path)) };
    let needs = needs(schema).into_iter().filter(|need| need.fields.last().is_some_and(|last| last == path));
    match std::iter::once(alone).chain(needs).find_map(|need| obstacle(protocol.kind(), &need)) {
        None => Ok(()),
        Some(why) => mistake(span, format!("'{path}' cannot have order = \"{}\": {why}", protocol.name())),
    }
}

fn read_order(name: &Spanned<String>) -> Result<OrderChoice, Mistake> {
    if name.as_ref() == OrderChoice::Auto.name() {
        return Ok(OrderChoice::Auto);
    }
    OrderProtocol::named(name.as_ref())
        .map(OrderChoice::Protocol)
        .or_else(|error| mistake(name.span(), format!("{error}, and \"auto\" for the one that leaks least")))
}

fn read_field(raw: RawField) -> Result<FieldSchema, Mistake> {
    let width = match raw.width_bits {
        None => None,
        Some(bits) => match KeyWidth::from_bits(*bits.as_ref()) {
            Some(width) => Some(width),
            None => {
                return mistake(
                    bits.span(),
                    format!("width_bits = {}: allowed are 32, 64 and 128", bits.as_ref()),
                );
            }
        },
    };
    if let Some(bytes) = &raw.max_bytes
        && !matches!(raw.kind, Some(FieldType::String | FieldType::Binary))
    {
        return mistake(bytes.span(), "max_bytes is for fields of type \"string\" or \"binary\" only");
    }
    for operation in &raw.operations {
        let sums = matches!(operation.as_ref(), Operation::Sum | Operation::Average);
        if sums && raw.kind.is_some_and(|kind| !kind.is_number()) {
            return mistake(
                operation.span(),
                "only numbers have sums and averages: type = \"int32\", \"int64\", \"double\" or \"decimal\"",
            );
        }
    }
    let order = raw.order.as_ref().map(read_order).transpose()?.unwrap_or_default();
    Ok(FieldSchema {
        sensitive: raw.sensitive,
        unique: raw.unique,
        kind: raw.kind,
        max_bytes: raw.max_bytes.map(Spanned::into_inner),
        operations: raw.operations.into_iter().map(Spanned::into_inner).collect(),
        width,
        order,
    })
}

fn read_pattern(raw: RawPattern, fields: &BTreeMap<String, FieldSchema>) -> Result<QueryPattern, Mistake> {
    let eq = read_paths(&raw.eq, "eq")?;
    let range = read_paths(&raw.range, "range")?;
    if let Some(both) = raw.range.iter().find(|path| eq.contains(path.as_ref())) {
        return mistake(
            both.span(),
            format!("'{}' is in both eq and range; equality alone is enough", both.as_ref()),
        );
    }
    let mut order = Vec::with_capacity(raw.order.len());
    for key in &raw.order {
        let (path, descending) = match key.as_ref().strip_prefix('-') {
            Some(path) => (path, true),
            None => (key.as_ref().as_str(), false),
        };
        check_path(path, key.span())?;
        if order.iter().any(|earlier: &OrderKey| earlier.path == path) {
            return mistake(key.span(), format!("'{path}' is in order twice"));
        }
        order.push(OrderKey { path: path.to_owned(), descending });
    }
    for summed in raw.sum.iter().chain(&raw.average) {
        let kind = fields.get(summed.as_ref()).and_then(|field| field.kind);
        if kind.is_some_and(|kind| !kind.is_number()) {
            return mistake(
                summed.span(),
                format!("'{}' is declared with a type that has no sums and averages", summed.as_ref()),
            );
        }
    }
    let mut pattern = QueryPattern {
        name: String::new(),
        text: raw.text.is_some_and(Spanned::into_inner),
        limit: raw.limit.is_some_and(Spanned::into_inner),
        count: raw.count,
        sum: read_paths(&raw.sum, "sum")?,
        average: read_paths(&raw.average, "average")?,
        eq,
        range,
        order,
    };
    pattern.name = raw.name.unwrap_or_else(|| pattern.to_string());
    Ok(pattern)
}

fn read_paths(raw: &[Spanned<String>], place: &str) -> Result<Vec<String>, Mistake> {
    let mut paths: Vec<String> = Vec::with_capacity(raw.len());
    for name in raw {
        let path = read_path(name)?;
        if paths.contains(&path) {
            return mistake(name.span(), format!("'{path}' is in {place} twice"));
        }
        paths.push(path);
    }
    Ok(paths)
}

fn read_path(name: &Spanned<String>) -> Result<String, Mistake> {
    check_path(name.as_ref(), name.span())?;
    Ok(name.as_ref().clone())
}

pub(super) fn check_path(path: &str, span: Range<usize>) -> Result<(), Mistake> {
    let bad = path.split('.').any(|part| part.is_empty() || part.starts_with('$') || part.contains('\0'));
    let direction = path.starts_with('-') || path.ends_with(" desc") || path.ends_with(" asc");
    if direction {
        return mistake(
            span,
            format!(
                "'{path}' names no field: write the name alone; only 'order' has directions, as in order = [\"-age\"]"
            ),
        );
    }
    if bad {
        return mistake(
            span,
            format!("'{path}' is no field path; write names joined by dots, such as \"address.zip\""),
        );
    }
    Ok(())
}
