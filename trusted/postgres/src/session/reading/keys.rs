//! What the database says of keys and rows that it does not take, as the client knows them: without terms and sealed values.

use super::{Reading, error_fields};
use crate::catalog::SUFFIXES;
use crate::plan::hexadecimal;
use crate::replies;
use crate::schema::Schema;
use crate::text::quoted;

/// What a statement stores under terms of equality: each term, and the value as text. Not all of a long statement's.
#[derive(Default)]
pub(in crate::session) struct Stored(pub(in crate::session) Vec<(Vec<u8>, String)>);

impl Stored {
    /// About what they take.
    pub(in crate::session) fn bytes(&self) -> usize {
        self.0.iter().map(|(term, text)| 64 + term.len() + text.len()).sum()
    }
}

/// How what an error says of a key goes on behind the key's value.
const ENDS: [&str; 4] = [
    ") already exists.",
    ") is not present in table ",
    ") is still referenced from table ",
    ") conflicts with existing key ",
];

/// Hexadecimal digits of a term, and of no shorter value.
const TERM_DIGITS: usize = 32;

/// The values that a message stores, as far as they are kept.
pub(in crate::session) fn stored_by(reading: &Reading) -> Option<&Stored> {
    match reading {
        Reading::Query(query) => Some(&query.stored),
        Reading::Portal(portal) => Some(&portal.stored),
        Reading::Step(step) => Some(&step.stored),
        Reading::Returning(returning) => Some(&returning.stored),
        Reading::CopyRow(row) => Some(&row.stored),
        Reading::Plain
        | Reading::Refused(_)
        | Reading::Statement(_)
        | Reading::Cursor(_)
        | Reading::Hidden
        | Reading::Holding(_)
        | Reading::Kept(..)
        | Reading::Closed(_)
        | Reading::Silent
        | Reading::Shape(_)
        | Reading::Emit(_)
        | Reading::EmitShape(_)
        | Reading::EmitWritten(..)
        | Reading::CopyOut(_)
        | Reading::Own(_) => None,
    }
}

/// An `ErrorResponse` about a declared table, with a detail that the client can read or without one; none if it stays as
/// it is.
pub(in crate::session) fn shown_error(
    frame: &[u8],
    schema: &Schema,
    stored: Option<&Stored>,
) -> Option<Vec<u8>> {
    let fields = error_fields(frame)?;
    let text = |wanted: u8| {
        let found = fields.iter().find(|(kind, _)| *kind == wanted);
        found.and_then(|(_, text)| std::str::from_utf8(text).ok())
    };
    let table = (text(b's')?.to_owned(), text(b't')?.to_owned());
    if !schema.tables.contains_key(&table) {
        return None;
    }
    let detail = text(b'D')?;
    let shown = match detail.starts_with("Failing row contains (") {
        true => None,
        false => shown_key(detail, stored)?,
    };
    let mut out = Vec::with_capacity(frame.len());
    replies::message(&mut out, b'E', |out| {
        for (kind, text) in &fields {
            let text = match (kind, &shown) {
                (b'D', None) => continue,
                (b'D', Some(shown)) => shown.as_bytes(),
                _ => text,
            };
            out.push(*kind);
            replies::string(out, text);
        }
        out.push(0);
    });
    Some(out)
}

/// What is said of a key, by its columns' names and the values that the client gave; as PostgreSQL says it to who may not
/// see the key where the values are not known, with an inner none if that is nothing. None if the key has no terms.
fn shown_key(detail: &str, stored: Option<&Stored>) -> Option<Option<String>> {
    let (names, rest) = detail.strip_prefix("Key (")?.split_once(")=(")?;
    let (end, place) = ENDS.iter().find_map(|end| rest.rfind(end).map(|place| (end, place)))?;
    let (values, behind) = rest.split_at(place);
    // Of a foreign key they are written as they are, of another as identifiers.
    let base = |name: &str| {
        let inside = name.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let stored = inside.unwrap_or(name);
        let column = SUFFIXES.iter().find_map(|suffix| stored.strip_suffix(suffix))?;
        Some(inside.map_or_else(|| column.to_owned(), |_| shown_name(&column.replace("\"\"", "\""))))
    };
    if names.split(", ").all(|name| base(name).is_none()) {
        return None;
    }
    let names: Vec<String> =
        names.split(", ").map(|name| base(name).unwrap_or_else(|| name.to_owned())).collect();
    let mut values = values.to_owned();
    for (term, text) in stored.iter().flat_map(|stored| &stored.0) {
        values = values.replace(&format!("\\x{}", hexadecimal(term)), text);
    }
    if !has_term(&values) {
        return Some(Some(format!("Key ({})=({values}{behind}", names.join(", "))));
    }
    let without = behind.strip_prefix(')').filter(|_| *end != ENDS[0] && *end != ENDS[3]);
    Some(without.map(|rest| format!("Key{rest}")))
}

/// Is there a term in it still?
fn has_term(values: &str) -> bool {
    values.split("\\x").skip(1).any(|rest| {
        let digits = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        digits >= TERM_DIGITS
    })
}

/// A name as PostgreSQL writes it: in quotes where it needs them.
fn shown_name(name: &str) -> String {
    let mut bytes = name.bytes();
    let first = bytes.next().is_some_and(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let plain = first && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    if plain { name.to_owned() } else { quoted(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_told_by_what_the_client_gave() {
        let term = vec![0xab; 32];
        let hex = hexadecimal(&term);
        let stored = Stored(vec![(term, "Ann (x), y".into())]);
        let said = |detail: &str| shown_key(&detail.replace('#', &hex), Some(&stored));
        assert_eq!(said("Key (id)=(5) already exists."), None);
        assert_eq!(
            said("Key (\"owner$eq\")=(\\x#) already exists."),
            Some(Some("Key (owner)=(Ann (x), y) already exists.".into()))
        );
        assert_eq!(
            said("Key (id, \"Own \"\"er$eq\")=(5, \\x#) is not present in table \"accounts\"."),
            Some(Some(
                "Key (id, \"Own \"\"er\")=(5, Ann (x), y) is not present in table \"accounts\".".into()
            ))
        );
        assert_eq!(
            said("Key (Own er$eq)=(\\x#) is not present in table \"accounts\"."),
            Some(Some("Key (Own er)=(Ann (x), y) is not present in table \"accounts\".".into()))
        );
        // A value of another statement is not known.
        let other = |detail: &str| shown_key(&detail.replace('#', &hex.replace('a', "c")), Some(&stored));
        assert_eq!(other("Key (\"owner$eq\")=(\\x#) already exists."), Some(None));
        assert_eq!(
            other("Key (\"owner$eq\")=(\\x#) is still referenced from table \"payments\"."),
            Some(Some("Key is still referenced from table \"payments\".".into()))
        );
    }
}
