//! Keywords and values: `host=/run/postgresql dbname=shop password='it\\'s'`.

use super::{AddressError, wrong};
use std::iter::Peekable;
use std::str::Chars;

/// Reads pairs of a keyword and its value. A value with blanks is in quotes; a backslash takes the next letter as it is.
pub(super) fn read(text: &str) -> Result<Vec<(String, String)>, AddressError> {
    let mut rest = text.chars().peekable();
    let mut pairs = Vec::new();
    loop {
        skip_blanks(&mut rest);
        let mut name = String::new();
        while let Some(letter) = rest.next_if(|letter| *letter != '=' && !letter.is_whitespace()) {
            name.push(letter);
        }
        if name.is_empty() && rest.peek().is_none() {
            return Ok(pairs);
        }
        skip_blanks(&mut rest);
        if rest.next() != Some('=') || name.is_empty() {
            return wrong("a keyword of it has no value");
        }
        skip_blanks(&mut rest);
        pairs.push((name, value(&mut rest)?));
    }
}

fn skip_blanks(rest: &mut Peekable<Chars<'_>>) {
    while rest.next_if(|letter| letter.is_whitespace()).is_some() {}
}

fn value(rest: &mut Peekable<Chars<'_>>) -> Result<String, AddressError> {
    let is_quoted = rest.next_if_eq(&'\'').is_some();
    let mut value = String::new();
    while let Some(letter) = rest.next_if(|letter| is_quoted || !letter.is_whitespace()) {
        match letter {
            '\'' if is_quoted => return Ok(value),
            '\\' => value.extend(rest.next()),
            other => value.push(other),
        }
    }
    if is_quoted { wrong("a quote in it is not closed") } else { Ok(value) }
}
