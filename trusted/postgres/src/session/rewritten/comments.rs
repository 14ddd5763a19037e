//! Comments of texts that may be about encrypted data: what a person or a tool wrote there is no business of the database.

use super::Requests;
use crate::fields::{self, Parse};
use crate::frames::HEAD_BYTES;
use crate::rewriting::Rewriting;
use crate::text::comments;
use std::ops::Range;

impl Requests<'_> {
    /// A message as it goes on if its text may be about encrypted data and has comments: these are as long, and say nothing.
    pub(super) async fn without_comments(&mut self, kind: u8, message: &[u8]) -> Option<Vec<u8>> {
        let body = message.get(HEAD_BYTES..)?;
        let text = match kind {
            b'Q' => fields::query(body)?,
            b'P' => Parse::read(body)?.text,
            _ => return None,
        };
        let may_have_some = text.windows(2).any(|pair| matches!(pair, b"--" | b"/*"));
        let text = std::str::from_utf8(text).ok().filter(|_| may_have_some)?;
        // What cannot be looked up is said of the statement itself.
        let catalog = self.catalog().await.ok()?;
        if !catalog.sensitive().may_be_in(text, false) {
            return None;
        }
        let _room = if Rewriting::may_count(text) { self.rewriting.read(text).await.ok()? } else { None };
        let found = comments(text);
        let start = (text.as_ptr() as usize).checked_sub(message.as_ptr() as usize)?;
        let mut blank = message.to_vec();
        for comment in found {
            let masked = masked(text, &comment);
            blank.get_mut(start + comment.start..start + comment.end)?.copy_from_slice(masked.as_bytes());
        }
        Some(blank)
    }
}

/// A comment of as many characters and bytes: places in the text stay what they are.
fn masked(text: &str, comment: &Range<usize>) -> String {
    let text = text.get(comment.clone()).unwrap_or_default();
    let last = text.chars().count().saturating_sub(2);
    let is_block = text.starts_with("/*");
    let mask = |(place, character): (usize, char)| match (character, character.len_utf8()) {
        _ if place < 2 || (is_block && place >= last) => character,
        ('\n' | '\r', _) => character,
        (_, 1) => '.',
        (_, 2) => '·',
        (_, 3) => '…',
        _ => '\u{10000}',
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
        for comment in comments(text) {
            whole.replace_range(comment.clone(), &masked(text, &comment));
        }
        assert_eq!(
            whole,
            "SELECT '-- a' /*........·…\u{10000}......*/, 1 --........·\n, $$/* c */$$--\r\n;--"
        );
        assert_eq!((whole.len(), whole.chars().count()), (text.len(), text.chars().count()));
        assert!(comments("SELECT 'open").is_empty());
    }
}
