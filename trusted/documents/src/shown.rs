//! Values as MongoDB's messages show them: as its shell would take them, names without quotes.

use bson::{Bson, Document};
use std::fmt::Write;

/// A value in a message.
#[must_use]
pub fn shown(value: &Bson) -> String {
    let mut text = String::new();
    show(value, &mut text);
    text
}

/// A document in a message.
#[must_use]
pub fn shown_document(document: &Document) -> String {
    let mut text = String::new();
    fields(document, &mut text);
    text
}

fn fields(document: &Document, to: &mut String) {
    if document.is_empty() {
        to.push_str("{}");
        return;
    }
    let mut before = "{ ";
    for (name, value) in document {
        to.push_str(before);
        to.push_str(name);
        to.push_str(": ");
        show(value, to);
        before = ", ";
    }
    to.push_str(" }");
}

fn show(value: &Bson, to: &mut String) {
    // Writing to a text does not fail.
    let _ = match value {
        Bson::String(text) => write!(to, "\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")),
        Bson::Document(inner) => return fields(inner, to),
        Bson::Array(values) if values.is_empty() => write!(to, "[]"),
        Bson::Array(values) => {
            let mut before = "[ ";
            for value in values {
                to.push_str(before);
                show(value, to);
                before = ", ";
            }
            write!(to, " ]")
        }
        Bson::Double(number) if number.fract() == 0.0 && number.abs() < 1e15 => write!(to, "{number:.1}"),
        Bson::Double(number) => write!(to, "{number}"),
        Bson::DateTime(moment) => write!(to, "new Date({})", moment.timestamp_millis()),
        Bson::ObjectId(id) => write!(to, "ObjectId('{id}')"),
        Bson::Binary(binary) => {
            let hex: String = binary.bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            write!(to, "BinData({}, {hex})", u8::from(binary.subtype))
        }
        Bson::Decimal128(number) => write!(to, "{number}"),
        Bson::Timestamp(stamp) => write!(to, "Timestamp({}, {})", stamp.time, stamp.increment),
        Bson::RegularExpression(regex) => write!(to, "/{}/{}", regex.pattern, regex.options),
        Bson::Null => write!(to, "null"),
        Bson::Undefined => write!(to, "undefined"),
        Bson::MinKey => write!(to, "MinKey"),
        Bson::MaxKey => write!(to, "MaxKey"),
        Bson::Boolean(value) => write!(to, "{value}"),
        Bson::Int32(number) => write!(to, "{number}"),
        Bson::Int64(number) => write!(to, "{number}"),
        other => write!(to, "{other}"),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::doc;
    use bson::oid::ObjectId;

    #[test]
    fn values_are_shown_as_the_shell_writes_them() {
        let id = ObjectId::from_bytes([1; 12]);
        let document = doc! {
            "a": 1, "b": 2.0, "c": 2.5, "d": "x\"y", "e": [1, { "f": Bson::Null }], "g": {}, "h": [],
            "i": bson::DateTime::from_millis(5), "j": id, "k": true,
        };
        let expected = "{ a: 1, b: 2.0, c: 2.5, d: \"x\\\"y\", e: [ 1, { f: null } ], g: {}, h: [], \
                        i: new Date(5), j: ObjectId('010101010101010101010101'), k: true }";
        assert_eq!(shown_document(&document), expected);
    }
}
