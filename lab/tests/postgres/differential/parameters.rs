//! Constants of a statement as parameters of the extended protocol, in text or binary.

use super::{Choices, Statement};
use bytes::{BufMut, BytesMut};
use std::error::Error;
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type, to_sql_checked};

/// Around constants that may become parameters.
const MARKS: [char; 2] = ['\u{1}', '\u{2}'];

/// A constant of SQL, marked.
pub(super) fn marked(constant: &str) -> String {
    format!("{}{constant}{}", MARKS[0], MARKS[1])
}

/// A text with its constants as they are.
pub(super) fn as_text(text: &str) -> String {
    text.replace(MARKS, "")
}

/// A value, in the text format of its type.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    text: String,
    binary: bool,
}

/// A text with marked constants as a statement: some go by the extended protocol.
pub(super) fn statement(choices: &mut Choices, text: &str, is_ordered: bool) -> Statement {
    if choices.percent(60) {
        return Statement { text: as_text(text), is_ordered, bound: None };
    }
    let mut parts = text.split(MARKS);
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    let mut bound = Vec::new();
    // Constants and what is between them take turns.
    while let (Some(constant), Some(between)) = (parts.next(), parts.next()) {
        let inside = constant.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
        let value = inside.map_or_else(|| constant.to_owned(), |inside| inside.replace("''", "'"));
        if choices.percent(80) {
            bound.push(Parameter { text: value, binary: choices.percent(50) });
            replaced += &format!("${}", bound.len());
        } else {
            replaced += constant;
        }
        replaced += between;
    }
    Statement { text: replaced, is_ordered, bound: Some(bound) }
}

/// Writes a value in the binary format of its type, of those that are so written here; others as text.
pub(crate) fn put_binary(
    text: &str,
    ty: &Type,
    out: &mut BytesMut,
) -> Result<(), Box<dyn Error + Sync + Send>> {
    match *ty {
        Type::INT2 => out.put_i16(text.parse()?),
        Type::INT4 => out.put_i32(text.parse()?),
        Type::INT8 => out.put_i64(text.parse()?),
        Type::FLOAT8 => out.put_f64(text.parse()?),
        Type::BOOL => out.put_u8(u8::from(text == "true")),
        _ => out.put_slice(text.as_bytes()),
    }
    Ok(())
}

impl Parameter {
    fn is_binary(&self, ty: &Type) -> bool {
        let known = [Type::INT2, Type::INT4, Type::INT8, Type::FLOAT8, Type::TEXT, Type::BOOL];
        self.binary && known.contains(ty)
    }
}

impl ToSql for Parameter {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        let text = self.text.as_str();
        match self.is_binary(ty) {
            true => put_binary(text, ty, out)?,
            false => out.put_slice(text.as_bytes()),
        }
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn encode_format(&self, ty: &Type) -> Format {
        if self.is_binary(ty) { Format::Binary } else { Format::Text }
    }

    to_sql_checked!();
}

/// A value of a row as it came, in hexadecimal digits.
pub(super) struct Raw(pub(super) String);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
