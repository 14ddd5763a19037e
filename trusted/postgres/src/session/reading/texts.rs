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
        replies::message(out, b'E', |out| {
            for (kind, text) in fields {
                let moved = (kind == b'P').then(|| self.position(text));
                let text = match &moved {
                    None => text,
                    Some(None) => continue,
                    Some(Some(moved)) => moved.as_bytes(),
                };
                out.push(kind);
                replies::string(out, text);
            }
            out.push(0);
        });
    }

    fn position(&self, sent: &[u8]) -> Option<String> {
        let sent: usize = std::str::from_utf8(sent).ok()?.parse().ok()?;
        let before = self.client.get(..self.span.start)?.chars().count();
        let client = self.client.get(self.span.clone())?;
        let same = client.chars().zip(self.sent.chars()).take_while(|(a, b)| a == b).count();
        let (client_count, sent_count) = (client.chars().count(), self.sent.chars().count());
        let behind = client.chars().rev().zip(self.sent.chars().rev()).take_while(|(a, b)| a == b).count();
        // Positions are counted from 1.
        let from_end = (sent_count + 1).checked_sub(sent)?;
        if sent <= same {
            Some((before + sent).to_string())
        } else if from_end <= behind {
            Some((before + client_count + 1 - from_end).to_string())
        } else {
            None
        }
    }
}
