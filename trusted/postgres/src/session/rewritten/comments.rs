//! Comments of texts that may be about encrypted data: what a person or a tool wrote there is no business of the database.

use super::Requests;
use crate::fields::{self, Parse};
use crate::frames::HEAD_BYTES;
use crate::rewriting::Rewriting;
use crate::text::comments;
use std::ops::Range;

impl Requests<'_> {
    /// A message as it goes on if its text may be about encrypted data and has comments: these have as many characters, and say
    /// nothing.
    pub(super) async fn without_comments(&mut self, kind: u8, message: &[u8]) -> Option<Vec<u8>> {
        let body = message.get(HEAD_BYTES..)?;
        let text = match kind {
            b'Q' => fields::query(body)?,
            b'P' => Parse::read(body)?.text,
            _ => return None,
        };
        let may_have_some = text.windows(2).any(|pair| matches!(pair, b"--" | b"/*"));
        let text = std::str::from_utf8(text).ok().filter(|_| may_have_some)?;
        // Where strings are not what they seem, nothing is: what touches encrypted data is refused as it stands.
        self.shared.state().settings.require_readable().ok()?;
        // What cannot be looked up is said of the statement itself.
        let catalog = self.catalog().await.ok()?;
        if !catalog.sensitive().may_be_in(text, false) {
            return None;
        }
        let _room = if Rewriting::may_count(text) { self.rewriting.read(text).await.ok()? } else { None };
        let mut masked = text.to_owned();
        for comment in comments(text).into_iter().rev() {
            masked.replace_range(comment.clone(), &mask(text, &comment));
        }
        let start = (text.as_ptr() as usize).checked_sub(message.as_ptr() as usize)?;
        let mut whole =
            [message.get(..start)?, masked.as_bytes(), message.get(start + text.len()..)?].concat();
        let length = u32::try_from(whole.len() - 1).ok()?;
        whole.get_mut(1..HEAD_BYTES)?.copy_from_slice(&length.to_be_bytes());
        Some(whole)
    }
}

/// A comment of as many characters: places in the text stay what they are.
fn mask(text: &str, comment: &Range<usize>) -> String {
    let text = text.get(comment.clone()).unwrap_or_default();
    let last = text.chars().count().saturating_sub(2);
    let is_block = text.starts_with("/*");
    let mask = |(place, character): (usize, char)| match character {
        _ if place < 2 || (is_block && place >= last) => character,
        '\n' | '\r' => character,
        // Letters are one word, however many.
        _ => 'x',
    };
    text.chars().enumerate().map(mask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_comments_is_masked_and_nothing_moves() {
        let text = "SELECT '-- a' /* Ann /* é€𝄞 */ b */, 1 -- Bob's, é\n, $$/* c */$$--\r\n;--";
        let mut whole = text.to_owned();
        for comment in comments(text).into_iter().rev() {
            whole.replace_range(comment.clone(), &mask(text, &comment));
        }
        assert_eq!(whole, "SELECT '-- a' /*xxxxxxxxxxxxxxxxx*/, 1 --xxxxxxxxx\n, $$/* c */$$--\r\n;--");
        assert_eq!(whole.chars().count(), text.chars().count());
        assert!(comments("SELECT 'open").is_empty());
    }
}
