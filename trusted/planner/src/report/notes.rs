//! Things to know about what a schema declares of a collection: above all what of it builds nothing.

use crate::cost::Statistics;
use crate::indexes::{needs, per_query};
use crate::kinds::OrderChoice;
use crate::physical::{KeyWidth, PhysicalIndex};
use crate::schema::{CollectionSchema, FieldType, Operation, QueryPattern};

pub(super) fn of(
    schema: &CollectionSchema,
    builds: &[PhysicalIndex],
    statistics: &Statistics,
) -> Vec<String> {
    let (count, bytes) = (statistics.document_count, statistics.document_bytes);
    let mut notes = vec![format!("costs are estimates for {count} documents of {bytes} B")];
    notes.extend(nonsensitive(schema));
    notes.extend(schema.patterns.iter().filter_map(several_ranges));
    notes.extend(unused_indexes(schema));
    notes.extend(schema.patterns.iter().filter_map(|pattern| without_index(schema, pattern)));
    notes.extend(schema.patterns.iter().filter_map(order_without_limit));
    notes.extend(sums_of_nothing(schema));
    notes.extend(orders_of_nothing(schema));
    notes.extend(cut_indexes(schema, builds));
    notes.extend(narrow_keys(schema));
    notes
}

fn nonsensitive(schema: &CollectionSchema) -> Option<String> {
    let open: Vec<&str> =
        schema.fields.iter().filter(|(_, field)| !field.sensitive).map(|(path, _)| path.as_str()).collect();
    (!open.is_empty()).then(|| {
        format!(
            "declared nonsensitive: {}; this version seals them all the same, and indexes them like the others",
            open.join(", ")
        )
    })
}

fn several_ranges(pattern: &QueryPattern) -> Option<String> {
    (pattern.range.len() > 1).then(|| {
        format!(
            "'{}' ranges over {}: an index serves one of them, the proxy the rest (Arx §2.5)",
            pattern.name,
            pattern.range.join(", ")
        )
    })
}

/// Regular indexes that no query could use.
fn unused_indexes(schema: &CollectionSchema) -> Vec<String> {
    let patterns = schema.all_patterns();
    let used = |index: &Vec<String>| {
        let one = std::slice::from_ref(index);
        patterns.iter().any(|pattern| !per_query(pattern, one, &|_| false).is_empty())
    };
    let unused = schema.indexes.iter().filter(|index| !used(index));
    unused
        .map(|index| {
            format!(
                "indexes: [{}] builds nothing, as no pattern and no field's operations use it; say under patterns which \
                 queries it is for",
                quoted(index)
            )
        })
        .collect()
}

/// A pattern that compares fields no index of the schema is on.
fn without_index(schema: &CollectionSchema, pattern: &QueryPattern) -> Option<String> {
    let fields: Vec<String> = pattern.eq.iter().chain(&pattern.range).cloned().collect();
    let unique = pattern.eq.iter().any(|field| schema.is_unique(field));
    if pattern.text
        || fields.is_empty()
        || unique
        || !per_query(pattern, &schema.all_indexes(), &|_| true).is_empty()
    {
        return None;
    }
    Some(format!("'{}' builds no index; to serve it add indexes = [[{}]]", pattern.name, quoted(&fields)))
}

fn order_without_limit(pattern: &QueryPattern) -> Option<String> {
    let keys: Vec<&str> = pattern.order.iter().map(|key| key.path.as_str()).collect();
    (!keys.is_empty() && !pattern.limit).then(|| {
        format!(
            "'{}': an order without limit = true asks for no index; the proxy sorts what it finds by {}",
            pattern.name,
            keys.join(", ")
        )
    })
}

/// Sums that no range index carries.
fn sums_of_nothing(schema: &CollectionSchema) -> Vec<String> {
    let sums = |operation: &Operation| matches!(operation, Operation::Sum | Operation::Average);
    let ranged = schema.all_patterns().iter().any(|pattern| !pattern.range.is_empty() || pattern.limit);
    let fields = schema.fields.iter().filter(|(_, field)| field.operations.iter().any(sums) && !ranged);
    fields
        .map(|(path, _)| {
            format!(
                "'{path}': sums are kept beside a range index, and no pattern or operation here makes one"
            )
        })
        .collect()
}

/// Protocols named for fields of which no index keeps an order.
fn orders_of_nothing(schema: &CollectionSchema) -> Vec<String> {
    let needs = needs(schema);
    let ordered = |path: &String| needs.iter().any(|need| need.fields.last() == Some(path));
    let named = schema.fields.iter().filter_map(|(path, field)| match field.order {
        OrderChoice::Protocol(protocol) if !ordered(path) => Some((path, protocol)),
        OrderChoice::Protocol(_) | OrderChoice::Auto => None,
    });
    named
        .map(|(path, protocol)| {
            format!(
                "'{path}': order = \"{}\" builds nothing, as no pattern and no operation of the field asks for its order",
                protocol.name()
            )
        })
        .collect()
}

/// Range indexes on fewer fields than were asked for: the longest key has room for no more.
fn cut_indexes(schema: &CollectionSchema, builds: &[PhysicalIndex]) -> Vec<String> {
    let ranges = builds.iter().filter(|index| matches!(index, PhysicalIndex::Range { .. }));
    let mut notes = Vec::new();
    for index in ranges {
        let fields = index.fields();
        let longer = schema.indexes.iter().find(|regular| {
            regular.len() > fields.len() && regular.iter().zip(&fields).all(|(left, right)| left == right)
        });
        let room = index.layout().map_or(0, |layout| {
            (arras_protocol::limits::KEY_BYTES_MAX - crate::physical::TIE_BREAK_BYTES) / layout.part_bytes
        });
        if let Some(regular) = longer.filter(|_| fields.len() == room) {
            notes.push(format!(
                "{index} is on {} of the {} fields of [{}]: a key has room for no more; the proxy checks the rest",
                fields.len(),
                regular.len(),
                quoted(regular)
            ));
        }
    }
    notes
}

/// Widths of keys in which values that differ a little are one.
fn narrow_keys(schema: &CollectionSchema) -> Vec<String> {
    let narrow = schema.fields.iter().filter_map(|(path, field)| {
        let width = field.width.filter(|_| field.order == OrderChoice::Auto)?;
        let (what, needed) = match field.kind? {
            FieldType::Int32 => ("32-bit integers", KeyWidth::Bits64),
            FieldType::Date => ("dates", KeyWidth::Bits128),
            FieldType::Int64 => ("64-bit integers", KeyWidth::Bits128),
            FieldType::Double => ("doubles", KeyWidth::Bits128),
            FieldType::Binary
            | FieldType::Bool
            | FieldType::Decimal
            | FieldType::ObjectId
            | FieldType::String => return None,
        };
        (width < needed).then(|| {
            let kept = width.component_bytes() - 1;
            format!(
                "'{path}': a key of {} bits keeps {kept} bytes of a value; {what} that differ in the rest are one key, \
                 which the proxy tells apart after reading them all",
                u32::from(width.component_bytes()) * 8
            )
        })
    });
    narrow.collect()
}

fn quoted(fields: &[String]) -> String {
    fields.iter().map(|field| format!("\"{field}\"")).collect::<Vec<_>>().join(", ")
}
