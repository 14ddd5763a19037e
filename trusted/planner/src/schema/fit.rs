//! Does a document fit what is declared of its fields?
//!
//! Drivers choose among BSON's numbers by themselves, so the types of numbers are ranges of values: a field of `int64`
//! takes 5 as an int32, an int64, a double or a decimal. All other types are BSON's. The elements of an array are values
//! of its field one by one, as they are for an index; a field that is absent fits. Null is a value of no declared type.

use super::{CollectionSchema, FieldSchema, FieldType};
use arras_documents::order;
use arras_documents::path::{self, LeafArray};
use bson::{Bson, Document, doc};
use std::fmt;

/// Doubles hold whole numbers exactly up to this one.
const DOUBLE_EXACT: i64 = 1 << 53;

/// What is declared of a field and does not hold for a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The path of the field, with dots.
    pub field: String,
    /// What is declared.
    pub declared: Declared,
    /// What the document has there: BSON's name of the type.
    pub found: &'static str,
}

/// What is declared of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declared {
    /// All are of one type.
    Type(FieldType),
    /// Their length, in bytes.
    MaxBytes(u32),
}

impl fmt::Display for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Type(kind) => write!(f, "type = \"{}\"", kind.name()),
            Self::MaxBytes(bytes) => write!(f, "max_bytes = {bytes}"),
        }
    }
}

impl fmt::Display for Misfit {
    /// One line; no value of the document is in it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.declared {
            Declared::Type(_) => {
                write!(
                    f,
                    "the schema declares {} of '{}', which is of type {}",
                    self.declared, self.field, self.found
                )
            }
            Declared::MaxBytes(_) => {
                write!(f, "the schema declares {} of '{}', which is longer", self.declared, self.field)
            }
        }
    }
}

impl Misfit {
    /// As MongoDB reports what a validator found, in the form of its `$jsonSchema`; without the value.
    #[must_use]
    pub fn details(&self) -> Document {
        let reason = match self.declared {
            Declared::Type(kind) => doc! {
                "operatorName": "bsonType",
                "specifiedAs": { "bsonType": kind.name() },
                "reason": "type did not match",
                "consideredType": self.found,
            },
            Declared::MaxBytes(bytes) => doc! {
                "operatorName": "maxLength",
                "specifiedAs": { "max_bytes": i64::from(bytes) },
                "reason": "specified length was not satisfied",
                "consideredType": self.found,
            },
        };
        doc! {
            "operatorName": "$jsonSchema",
            "schemaRulesNotSatisfied": [{
                "operatorName": "properties",
                "propertiesNotSatisfied": [{ "propertyName": &self.field, "details": [reason] }],
            }],
        }
    }
}

impl CollectionSchema {
    /// The first of the declared fields whose values in a document are not as declared; none if all are.
    #[must_use]
    pub fn misfit(&self, document: &Document) -> Option<Misfit> {
        self.fields.iter().find_map(|(field, declared)| {
            let mut misfit = None;
            path::any(document, field, LeafArray::Whole, &mut |found| {
                let mut check = |value: &Bson| {
                    misfit = declared.broken_by(value).map(|declared| (declared, order::type_name(value)));
                    misfit.is_some()
                };
                match found.value {
                    None => false,
                    Some(Bson::Array(elements)) => elements.iter().any(check),
                    Some(value) => check(value),
                }
            });
            misfit.map(|(declared, found)| Misfit { field: field.clone(), declared, found })
        })
    }
}

impl FieldSchema {
    fn broken_by(&self, value: &Bson) -> Option<Declared> {
        let kind = self.kind?;
        if !kind.holds(value) {
            return Some(Declared::Type(kind));
        }
        let bytes = match value {
            Bson::String(text) => text.len(),
            Bson::Binary(binary) => binary.bytes.len(),
            _ => 0,
        };
        self.max_bytes.filter(|most| bytes > *most as usize).map(Declared::MaxBytes)
    }
}

impl FieldType {
    /// As a schema names it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Bool => "bool",
            Self::Date => "date",
            Self::Decimal => "decimal",
            Self::Double => "double",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::ObjectId => "object_id",
            Self::String => "string",
        }
    }

    /// The one of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let all = [
            Self::Binary,
            Self::Bool,
            Self::Date,
            Self::Decimal,
            Self::Double,
            Self::Int32,
            Self::Int64,
            Self::ObjectId,
            Self::String,
        ];
        all.into_iter().find(|kind| kind.name() == name)
    }

    fn holds(self, value: &Bson) -> bool {
        match self {
            Self::Binary => matches!(value, Bson::Binary(_)),
            Self::Bool => matches!(value, Bson::Boolean(_)),
            Self::Date => matches!(value, Bson::DateTime(_)),
            Self::Decimal => {
                matches!(value, Bson::Decimal128(_) | Bson::Double(_) | Bson::Int32(_) | Bson::Int64(_))
            }
            Self::Double => match value {
                Bson::Double(_) | Bson::Int32(_) => true,
                Bson::Int64(number) => (-DOUBLE_EXACT..=DOUBLE_EXACT).contains(number),
                _ => false,
            },
            Self::Int32 => order::as_exact_i64(value).is_some_and(|number| i32::try_from(number).is_ok()),
            Self::Int64 => order::as_exact_i64(value).is_some(),
            Self::ObjectId => matches!(value, Bson::ObjectId(_)),
            Self::String => matches!(value, Bson::String(_)),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Schema;
    use super::*;
    use bson::{DateTime, Decimal128};

    const TEXT: &str = r#"
        [collections."d.c".fields]
        i = { type = "int32" }
        l = { type = "int64" }
        d = { type = "double" }
        m = { type = "decimal" }
        t = { type = "date" }
        s = { type = "string", max_bytes = 3 }
        "a.b" = { type = "bool" }
        free = { operations = ["eq"] }
    "#;

    fn misfit(document: Document) -> Option<Misfit> {
        Schema::parse(TEXT, "schema.toml").unwrap().collection("d", "c").unwrap().misfit(&document)
    }

    #[test]
    fn what_is_declared_holds_or_is_named() {
        let decimal: Decimal128 = "5".parse().unwrap();
        for fits in [
            doc! {},
            doc! { "i": 5, "l": 5, "d": 5, "m": 5, "s": "abc", "t": DateTime::now() },
            doc! { "i": 5.0, "l": 5.0, "d": 5_i64, "m": decimal },
            doc! { "i": 5_i64, "l": i64::MAX, "d": f64::NAN, "m": 0.5 },
            doc! { "s": ["a", "b"], "a": [{ "b": true }, { "c": 1 }], "i": [] },
            doc! { "free": Bson::Null, "a": 1 },
        ] {
            assert_eq!(misfit(fits.clone()), None, "{fits}");
        }
        for (document, field, declared, found) in [
            (doc! { "i": "5" }, "i", "type = \"int32\"", "string"),
            (doc! { "i": 1_i64 << 31 }, "i", "type = \"int32\"", "long"),
            (doc! { "i": 0.5 }, "i", "type = \"int32\"", "double"),
            (doc! { "l": 1e300 }, "l", "type = \"int64\"", "double"),
            (doc! { "d": (1_i64 << 53) + 1 }, "d", "type = \"double\"", "long"),
            (doc! { "t": 5 }, "t", "type = \"date\"", "int"),
            (doc! { "s": "abcd" }, "s", "max_bytes = 3", "string"),
            (doc! { "s": ["abc", "äöü"] }, "s", "max_bytes = 3", "string"),
            (doc! { "s": Bson::Null }, "s", "type = \"string\"", "null"),
            (doc! { "a": [{ "b": true }, { "b": 1 }] }, "a.b", "type = \"bool\"", "int"),
        ] {
            let misfit = misfit(document.clone()).unwrap_or_else(|| panic!("{document}"));
            let named = (misfit.field.as_str(), misfit.declared.to_string(), misfit.found);
            assert_eq!(named, (field, declared.to_owned(), found), "{document}");
        }
    }
}
