//! Documents.

use super::{Value, is_nullish, type_of};
use crate::QueryError;
use crate::error::location;
use bson::{Bson, Document, doc};

fn operand(values: &[Value], offset: usize) -> Option<&Bson> {
    values.get(offset).and_then(Option::as_ref)
}

pub(super) fn merge(values: &[Value]) -> Result<Value, QueryError> {
    let mut merged = Document::new();
    let mut absorb = |value: &Value| match value {
        Some(Bson::Document(document)) => {
            merged.extend(document.clone());
            Ok(())
        }
        value if is_nullish(value) => Ok(()),
        other => Err(location!(
            40400,
            "$mergeObjects requires object inputs, but input is of type {}",
            type_of(other)
        )),
    };
    match values {
        // A single array stands for its elements.
        [Some(Bson::Array(array))] => array.iter().try_for_each(|value| absorb(&Some(value.clone())))?,
        _ => values.iter().try_for_each(absorb)?,
    }
    Ok(Some(Bson::Document(merged)))
}

pub(super) fn to_array(values: &[Value]) -> Result<Value, QueryError> {
    match operand(values, 0) {
        Some(Bson::Document(document)) => {
            let entries =
                document.iter().map(|(name, value)| Bson::Document(doc! { "k": name, "v": value.clone() }));
            Ok(Some(Bson::Array(entries.collect())))
        }
        other if is_nullish(&other.cloned()) => Ok(Some(Bson::Null)),
        other => Err(location!(
            40390,
            "$objectToArray requires a document input, found: {}",
            type_of(&other.cloned())
        )),
    }
}

pub(super) fn from_array(values: &[Value]) -> Result<Value, QueryError> {
    let array = match operand(values, 0) {
        Some(Bson::Array(array)) => array,
        other if is_nullish(&other.cloned()) => return Ok(Some(Bson::Null)),
        other => {
            return Err(location!(
                40386,
                "$arrayToObject requires an array input, found: {}",
                type_of(&other.cloned())
            ));
        }
    };
    let mut document = Document::new();
    for entry in array {
        let (name, value) = match entry {
            Bson::Document(pair) if pair.len() == 2 => (pair.get("k"), pair.get("v")),
            Bson::Array(pair) if pair.len() == 2 => (pair.first(), pair.get(1)),
            _ => (None, None),
        };
        let (Some(Bson::String(name)), Some(value)) = (name, value) else {
            return Err(location!(
                40392,
                "$arrayToObject requires objects with fields 'k' and 'v', or arrays of a key and a value"
            ));
        };
        check_name(name)?;
        document.insert(name.clone(), value.clone());
    }
    Ok(Some(Bson::Document(document)))
}

/// A NUL byte cannot be encoded in a field name.
fn check_name(name: &str) -> Result<(), QueryError> {
    if name.contains('\0') {
        return Err(location!(4940400, "Key field cannot contain an embedded null byte"));
    }
    Ok(())
}

fn field_name<'v>(operator: &str, values: &'v [Value]) -> Result<&'v str, QueryError> {
    match operand(values, 0) {
        Some(Bson::String(name)) => {
            check_name(name)?;
            Ok(name)
        }
        other => Err(location!(
            5654602,
            "{operator} requires 'field' to evaluate to type String, but got {}",
            type_of(&other.cloned())
        )),
    }
}

pub(super) fn get_field(values: &[Value]) -> Result<Value, QueryError> {
    let name = field_name("$getField", values)?;
    match operand(values, 1) {
        Some(Bson::Document(document)) => Ok(document.get(name).cloned()),
        Some(Bson::Null | Bson::Undefined) => Ok(Some(Bson::Null)),
        _ => Ok(None),
    }
}

fn input<'v>(operator: &str, values: &'v [Value]) -> Result<Option<&'v Document>, QueryError> {
    match operand(values, 1) {
        Some(Bson::Document(document)) => Ok(Some(document)),
        other if is_nullish(&other.cloned()) => Ok(None),
        other => Err(location!(
            4161105,
            "{operator} requires 'input' to evaluate to type Object, but got {}",
            type_of(&other.cloned())
        )),
    }
}

pub(super) fn set_field(values: &[Value]) -> Result<Value, QueryError> {
    let name = field_name("$setField", values)?;
    let Some(document) = input("$setField", values)? else {
        return Ok(Some(Bson::Null));
    };
    let mut document = document.clone();
    match operand(values, 2) {
        Some(value) => document.insert(name, value.clone()),
        None => document.remove(name),
    };
    Ok(Some(Bson::Document(document)))
}

pub(super) fn unset_field(values: &[Value]) -> Result<Value, QueryError> {
    let name = field_name("$unsetField", values)?;
    let Some(document) = input("$unsetField", values)? else {
        return Ok(Some(Bson::Null));
    };
    let mut document = document.clone();
    document.remove(name);
    Ok(Some(Bson::Document(document)))
}
