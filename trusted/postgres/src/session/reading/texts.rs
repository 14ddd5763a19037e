//! Places in what was sent, as places in what the client sent.

use super::error_fields;
use crate::replies;
use std::ops::Range;

/// The client's text and what was sent in its place.
#[derive(Debug, Default)]
pub(in crate::session) struct Texts {
    pub(in crate::session) client: String,
    /// The bytes of the client's text that it is in place of.
    pub(in crate::session) span: Range<usize>,
    pub(in crate::session) sent: String,
}

impl Texts {
    /// An error of what was sent, for who sent the other text: its position is where the two agree, or is left out.
    pub(super) fn error(&self, frame: &[u8], out: &mut Vec<u8>) {
        let Some(fields) = error_fields(frame) else {
            out.extend_from_slice(frame);
            return;
        };
        let missing = self.missing(&fields);
        replies::message(out, b'E', |out| {
            for (kind, text) in fields {
                let said = match kind {
                    b'P' => match self.position(text) {
                        None => continue,
                        moved => moved,
                    },
                    b'M' => missing.clone(),
                    _ => None,
                };
                out.push(kind);
                replies::string(out, said.as_deref().map_or(text, str::as_bytes));
            }
            out.push(0);
        });
    }

    /// The message about a table that is not there, by the name that the client wrote: without the schema that was written before it.
    fn missing(&self, fields: &[(u8, &[u8])]) -> Option<String> {
        let text = |wanted: u8| fields.iter().find(|(kind, _)| *kind == wanted).map(|(_, text)| *text);
        // What a function of the client's names, it named so itself.
        if text(b'C') != Some(b"42P01") || text(b'W').or(text(b'q')).is_some() {
            return None;
        }
        let message = std::str::from_utf8(text(b'M')?).ok()?;
        let (before, rest) = message.split_once('"')?;
        let (schema, name) = rest.split_once('.')?;
        let client = self.client.to_lowercase();
        let written = [format!("{schema}."), format!("{schema}\".")].map(|form| form.to_lowercase());
        let is_own = written.iter().any(|form| client.contains(form));
        (!is_own && !schema.contains('"')).then(|| format!("{before}\"{name}"))
    }

    /// The place in the client's text of one in what was sent, both counted from 1: where the two agree from the beginning, or from the
    /// end.
    fn position(&self, sent_at: &[u8]) -> Option<String> {
        let place: usize = std::str::from_utf8(sent_at).ok()?.parse().ok()?;
        let before = self.client.get(..self.span.start)?.chars().count();
        let client: Vec<char> = self.client.get(self.span.clone())?.chars().collect();
        let sent: Vec<char> = self.sent.chars().collect();
        let found = from_beginning(&client, &sent, place).or_else(|| from_end(&client, &sent, place));
        found.map(|found| (before + found).to_string())
    }
}

/// Letters of the schema, in quotes and with its period, that was written before a name which follows it.
fn schema_before(sent: &[char]) -> Option<usize> {
    let rest = sent.strip_prefix(&['"'])?;
    let inside = closing(rest)?;
    (rest.get(inside + 1) == Some(&'.')).then_some(inside + 3)
}

/// The place of the quote that ends a name, doubled ones left out.
fn closing(rest: &[char]) -> Option<usize> {
    let mut at = 0;
    loop {
        match (rest.get(at)?, rest.get(at + 1)) {
            ('"', Some('"')) => at += 2,
            ('"', _) => return Some(at),
            _ => at += 1,
        }
    }
}

/// The same of a schema that the letters end with.
fn schema_at_end(sent: &[char]) -> Option<usize> {
    let begins = |start: &usize| sent.get(*start..).and_then(schema_before) == Some(sent.len() - start);
    sent.ends_with(&['"', '.']).then(|| (0..sent.len()).rev().find(begins))?.map(|start| sent.len() - start)
}

fn from_beginning(client: &[char], sent: &[char], place: usize) -> Option<usize> {
    let (mut at, mut other) = (0, 0);
    while other < place {
        if client.get(at) == sent.get(other) && at < client.len() {
            (at, other) = (at + 1, other + 1);
            continue;
        }
        // A name in quotes begins as the schema before it does.
        let back =
            usize::from(at > 0 && client.get(at - 1) == Some(&'"') && sent.get(other - 1) == Some(&'"'));
        (at, other) = (at - back, other - back);
        let skipped = sent.get(other..).and_then(schema_before)?;
        (client.get(at)? == sent.get(other + skipped)?).then_some(())?;
        other += skipped;
        if other >= place {
            return Some(at + 1);
        }
    }
    Some(at)
}

fn from_end(client: &[char], sent: &[char], place: usize) -> Option<usize> {
    let (mut at, mut other) = (client.len(), sent.len());
    // An end of the text is a place, too.
    while other + 1 > place {
        match (client.get(..at)?.last(), sent.get(..other)?.last()) {
            (Some(one), Some(same)) if one == same => (at, other) = (at - 1, other - 1),
            _ => {
                let skipped = sent.get(..other).and_then(schema_at_end)?;
                other -= skipped;
                (client.get(..at)?.last() == sent.get(..other)?.last()).then_some(())?;
            }
        }
    }
    Some(at + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The place, in the client's text, of what is at a text's first place in what is sent.
    fn told(client: &str, sent: &str, at: &str) -> Option<usize> {
        let texts = Texts { client: client.into(), span: 0..client.len(), sent: sent.into() };
        let place = sent.find(at).map(|byte| sent.get(..byte).unwrap_or_default().chars().count() + 1);
        texts.position(place?.to_string().as_bytes())?.parse().ok()
    }

    #[test]
    fn a_table_that_is_not_there_has_the_name_that_the_client_wrote() {
        let said = |client: &str, message: &str, more: Option<(u8, &[u8])>| {
            let texts = Texts { client: client.into(), span: 0..client.len(), sent: String::new() };
            let fields = [(b'C', &b"42P01"[..]), (b'M', message.as_bytes())];
            texts.missing(&fields.into_iter().chain(more).collect::<Vec<_>>())
        };
        let message = "relation \"public.t\" does not exist";
        let bare = Some("relation \"t\" does not exist".to_owned());
        assert_eq!(said("SELECT c FROM t", message, None), bare);
        assert_eq!(said("EXECUTE p", message, None), bare);
        for own in ["SELECT c FROM Public.t", "SELECT c FROM \"public\".t"] {
            assert_eq!(said(own, message, None), None, "{own}");
        }
        assert_eq!(said("SELECT f()", message, Some((b'W', b"PL/pgSQL function f()"))), None);
        assert_eq!(said("SELECT c FROM t", "relation \"t\" does not exist", None), None);
    }

    #[test]
    fn places_are_those_of_the_client_s_text() {
        let client = "DELETE FROM tä WHERE id = 'one' AND c = 'x' RETURNING no";
        let sent = "DELETE FROM \"s \"\"1\".tä WHERE id = 'one' AND \"c$eq\" = $1 RETURNING no";
        for (at, expected) in [
            ("DELETE", Some(1)),
            ("\"s \"\"1\"", Some(13)),
            ("tä", Some(13)),
            ("'one'", Some(27)),
            ("RETURNING", Some(45)),
            ("no", Some(55)),
            ("$1", None),
        ] {
            assert_eq!(told(client, sent, at), expected, "{at}");
        }
        let (client, sent) =
            ("SELECT 1 FROM \"t\" x, u WHERE a", "SELECT 1 FROM \"s\".\"t\" x, \"s\".u WHERE a");
        for at in ["\"t\"", "x,", "u", "WHERE", "a"] {
            assert_eq!(told(client, sent, at), client.find(at).map(|at| at + 1), "{at}");
        }
        let (client, sent) =
            ("SELECT c, no FROM t JOIN u USING (id)", "SELECT d, no FROM \"s\".t JOIN \"s\".u USING (id)");
        for at in ["no", "FROM", "t JOIN", "u USING", "(id)"] {
            assert_eq!(told(client, sent, at), client.find(at).map(|at| at + 1), "{at}");
        }
        let texts = Texts { client: "SELECT".into(), span: 0..6, sent: "SELECT".into() };
        assert_eq!(texts.position(b"7").as_deref(), Some("7"), "behind the last letter");
    }
}
