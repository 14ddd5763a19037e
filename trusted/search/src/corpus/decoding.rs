//! Bytes to text.

/// Decodes UTF-8 that comes by pieces.
#[derive(Default)]
pub(super) struct Decoder {
    /// The beginning of a letter whose end has not come.
    begun: Vec<u8>,
}

impl Decoder {
    /// Takes bytes and passes on their text.
    pub(super) fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(&str)) {
        while !self.begun.is_empty()
            && let Some((byte, after)) = bytes.split_first()
        {
            bytes = after;
            self.begun.push(*byte);
            let begun = std::mem::take(&mut self.begun);
            self.decode(&begun, &mut each);
        }
        self.decode(bytes, &mut each);
    }

    /// Decodes, and keeps the beginning of a letter at the end.
    fn decode(&mut self, mut bytes: &[u8], each: &mut impl FnMut(&str)) {
        while !bytes.is_empty() {
            let (valid, wrong) = match std::str::from_utf8(bytes) {
                Ok(text) => (text, Some(0)),
                Err(error) => {
                    let valid = std::str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
                    (valid, error.error_len())
                }
            };
            each(valid);
            let rest = &bytes[valid.len()..];
            let Some(wrong) = wrong else {
                self.begun.extend_from_slice(rest);
                return;
            };
            latin(&rest[..wrong], each);
            bytes = &rest[wrong..];
        }
    }

    /// The bytes have ended.
    pub(super) fn end(&mut self, mut each: impl FnMut(&str)) {
        latin(&std::mem::take(&mut self.begun), &mut each);
    }
}

/// Bytes that are no UTF-8 as ISO 8859-1.
fn latin(bytes: &[u8], each: &mut impl FnMut(&str)) {
    for byte in bytes {
        each(char::from(*byte).encode_utf8(&mut [0; 4]));
    }
}

/// Bytes that are held whole.
pub(super) fn text(bytes: &[u8]) -> String {
    let (mut text, mut decoder) = (String::with_capacity(bytes.len()), Decoder::default());
    decoder.feed(bytes, |piece| text.push_str(piece));
    decoder.end(|piece| text.push_str(piece));
    text
}

#[cfg(test)]
mod tests {
    use super::{Decoder, text};
    use proptest::prelude::*;

    #[test]
    fn what_is_no_utf8_is_latin() {
        assert_eq!(text("größe 日".as_bytes()), "größe 日");
        assert_eq!(text(b"gr\xf6\xdfe"), "größe");
        assert_eq!(text(b"caf\xe9"), "café");
        assert_eq!(text(b"\xe2\x82"), "â\u{82}");
    }

    proptest! {
        #[test]
        fn where_bytes_are_cut_changes_nothing(
            bytes in proptest::collection::vec(prop_oneof![Just(b'a'), Just(0xc3), Just(0xa9), Just(0xf0), Just(0x9f), any::<u8>()], 0..40),
            cuts in proptest::collection::vec(0..6_usize, 0..20),
        ) {
            let (mut pieces, mut decoder, mut rest) = (String::new(), Decoder::default(), bytes.as_slice());
            for cut in cuts {
                let (piece, after) = rest.split_at(cut.min(rest.len()));
                decoder.feed(piece, |piece| pieces.push_str(piece));
                rest = after;
            }
            decoder.feed(rest, |piece| pieces.push_str(piece));
            decoder.end(|piece| pieces.push_str(piece));
            prop_assert_eq!(pieces, text(&bytes));
        }
    }
}
