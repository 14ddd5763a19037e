//! Text that a peer wrote: shown on one line of bounded length, or not at all.
//!
//! A peer's words reach terminals, logs and error messages. A line break in them would forge a line of ours, an escape
//! sequence would command the terminal, a turn of the writing direction would show other words than were written. So
//! such text is made harmless where it is decoded, and nothing behind that has to think of it.

use serde::Deserializer;
use serde::de::{Error, Visitor};
use std::fmt;

/// Longest text of a peer, in characters.
pub const CHARACTERS_MAX: usize = 240;

/// Stands for a character that is not shown.
const REPLACEMENT: char = '\u{fffd}';

/// Stands for what was cut off.
const ELLIPSIS: char = '…';

/// `text` on one line: control and invisible formatting characters are replaced, and what is over
/// [`CHARACTERS_MAX`] characters is cut off. A line stays as it is.
#[must_use]
pub fn line(text: &str) -> String {
    let mut line: String = text.chars().take(CHARACTERS_MAX).map(shown).collect();
    if text.chars().nth(CHARACTERS_MAX).is_some() {
        line.pop();
        line.push(ELLIPSIS);
    }
    line
}

/// `text` on one line as by [`line()`], however long it is: a name that must be whole to be of use, as a file's.
#[must_use]
pub fn name(text: &str) -> String {
    text.chars().map(shown).collect()
}

fn shown(character: char) -> char {
    if is_shown(character) { character } else { REPLACEMENT }
}

/// False for what commands a terminal, breaks a line, turns the direction of writing, or is invisible.
fn is_shown(character: char) -> bool {
    !character.is_control()
        && !matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// Decodes a peer's text as a [`line()`]: for `#[serde(deserialize_with)]`.
///
/// # Errors
/// What the deserializer finds wrong.
pub fn decode_line<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    deserializer.deserialize_str(Line)
}

struct Line;

impl Visitor<'_> for Line {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<String, E> {
        Ok(line(text))
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "a test may fail")]
mod tests {
    use super::*;
    use crate::{Refusal, codec, hello};

    const FORGED: &str =
        "memory\nok    keyring: all is well\r\u{1b}[2K\u{9b}31m\u{202e}drawkcab\u{2028}\u{7}\u{e0041}";

    #[test]
    fn a_line_is_one_line_of_bounded_length_and_stays_as_it_is() {
        let harmless = line(FORGED);
        assert!(!harmless.chars().any(|character| !is_shown(character)), "{harmless:?}");
        assert!(harmless.starts_with("memory\u{fffd}ok    keyring"));
        assert_eq!(line(&harmless), harmless);
        let long = line(&"é".repeat(CHARACTERS_MAX + 1));
        assert_eq!(long.chars().count(), CHARACTERS_MAX);
        assert!(long.ends_with('…'));
        assert_eq!(line(&long), long);
        let longest = "é".repeat(CHARACTERS_MAX);
        assert_eq!(line(&longest), longest);
    }

    #[test]
    fn every_text_of_a_message_is_decoded_as_a_line() {
        let long = FORGED.repeat(100);
        let refusals: [fn(String) -> Refusal; 6] = [
            Refusal::Malformed,
            Refusal::Limit,
            Refusal::Damaged,
            Refusal::Storage,
            Refusal::Undecided,
            Refusal::Full,
        ];
        for refusal in refusals {
            let decoded: Refusal = codec::decode(&codec::encode(&refusal(long.clone()))).expect("decodes");
            assert_eq!(decoded, refusal(line(&long)));
        }
        let greeting = hello::Response {
            protocol_version: 1,
            database: [1; 16],
            incarnation: 1,
            setbacks: 0,
            engine: long.clone(),
            newest: None,
            commits: 0,
            generation: 1,
        };
        let decoded: hello::Response = codec::decode(&codec::encode(&greeting)).expect("decodes");
        assert_eq!(decoded.engine, line(&long));
    }
}
