//! Canonical bytes of a value.

use super::{class, number, pointer_bytes};
use crate::decimal::{self, Decimal};
use bson::{Bson, Document};

/// An encoding under which two values have equal bytes exactly if they compare equal: for grouping, unique
/// labels and equality tokens. Prefix free. Not order preserving (see [`crate::keys`] for that).
pub fn canonical(value: &Bson) -> Vec<u8> {
    let mut out = Vec::new();
    write(value, &mut out);
    out
}

fn write(value: &Bson, out: &mut Vec<u8>) {
    out.push(class(value) as u8);
    match value {
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => write_number(value, out),
        Bson::String(text) | Bson::Symbol(text) | Bson::JavaScriptCode(text) => {
            write_bytes(text.as_bytes(), out)
        }
        Bson::Document(document) => write_document(document, out),
        Bson::Array(values) => {
            write_length(values.len(), out);
            values.iter().for_each(|value| write(value, out));
        }
        Bson::Binary(binary) => {
            out.push(binary.subtype.into());
            write_bytes(&binary.bytes, out);
        }
        Bson::ObjectId(id) => out.extend_from_slice(&id.bytes()),
        Bson::Boolean(flag) => out.push(u8::from(*flag)),
        Bson::DateTime(date) => out.extend_from_slice(&date.timestamp_millis().to_be_bytes()),
        Bson::Timestamp(timestamp) => {
            out.extend_from_slice(&timestamp.time.to_be_bytes());
            out.extend_from_slice(&timestamp.increment.to_be_bytes());
        }
        Bson::RegularExpression(regex) => {
            write_bytes(regex.pattern.as_str().as_bytes(), out);
            write_bytes(regex.options.as_str().as_bytes(), out);
        }
        Bson::JavaScriptCodeWithScope(code) => {
            write_bytes(code.code.as_bytes(), out);
            write_document(&code.scope, out);
        }
        Bson::DbPointer(pointer) => write_bytes(&pointer_bytes(pointer), out),
        Bson::Null | Bson::Undefined | Bson::MinKey | Bson::MaxKey => {}
    }
}

fn write_document(document: &Document, out: &mut Vec<u8>) {
    write_length(document.len(), out);
    for (name, value) in document {
        write_bytes(name.as_bytes(), out);
        write(value, out);
    }
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

const NAN: u8 = 0;
const ZERO: u8 = 1;
const PLUS_INFINITY: u8 = 2;
const MINUS_INFINITY: u8 = 3;
const PLUS: u8 = 4;
const MINUS: u8 = 5;

fn write_number(value: &Bson, out: &mut Vec<u8>) {
    match value {
        Bson::Double(double) => write_double(*double, out),
        Bson::Decimal128(decimal) => match decimal::of(*decimal) {
            Decimal::NaN => out.push(NAN),
            Decimal::Infinity { negative } => out.push(if negative { MINUS_INFINITY } else { PLUS_INFINITY }),
            Decimal::Finite { negative, coefficient, exponent } => {
                write_factored(negative, coefficient, exponent, exponent, out);
            }
        },
        integer => {
            let integer = number::as_exact_i64(integer).unwrap_or(0);
            write_factored(integer < 0, u128::from(integer.unsigned_abs()), 0, 0, out);
        }
    }
}

fn write_double(double: f64, out: &mut Vec<u8>) {
    if double.is_nan() {
        out.push(NAN);
    } else if double.is_infinite() {
        out.push(if double < 0.0 { MINUS_INFINITY } else { PLUS_INFINITY });
    } else {
        let (mantissa, exponent) = arras_numbers::split(double.abs());
        write_factored(double < 0.0, u128::from(mantissa), exponent, 0, out);
    }
}

/// Writes `magnitude * 2^twos * 5^fives` with all twos and fives moved to the exponents, which makes it unique.
fn write_factored(negative: bool, magnitude: u128, twos: i32, fives: i32, out: &mut Vec<u8>) {
    if magnitude == 0 {
        out.push(ZERO);
        return;
    }
    let shift = magnitude.trailing_zeros();
    let mut magnitude = magnitude >> shift;
    let twos = twos + i32::try_from(shift).unwrap_or(0);
    let mut fives = fives;
    while magnitude.is_multiple_of(5) {
        magnitude /= 5;
        fives += 1;
    }
    out.push(if negative { MINUS } else { PLUS });
    // Exponents of decimals lie within +-6300, of doubles within +-1100.
    out.extend_from_slice(&i16::try_from(twos).unwrap_or(i16::MAX).to_be_bytes());
    out.extend_from_slice(&i16::try_from(fives).unwrap_or(i16::MAX).to_be_bytes());
    out.extend_from_slice(&magnitude.to_be_bytes());
}
