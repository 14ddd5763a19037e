//! DER (ITU-T X.690), as far as it is read here: the name in a client's certificate.

use arras_protocol::iee::IDENTITY_BYTES_MAX;

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const IDENTIFIER: u8 = 0x06;
const UTF8: u8 = 0x0c;
const PRINTABLE: u8 = 0x13;

/// `id-at-commonName`.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// The one common name of a certificate's subject (the content of its sequence); none if it has none or several, or one that is empty or too
/// long.
pub(crate) fn common_name(mut subject: &[u8]) -> Option<String> {
    let mut found = None;
    while !subject.is_empty() {
        let mut set = take(&mut subject, SET)?;
        while !set.is_empty() {
            let mut part = take(&mut set, SEQUENCE)?;
            if take(&mut part, IDENTIFIER)? != COMMON_NAME {
                continue;
            }
            let tag = *part.first()?;
            let name = std::str::from_utf8(take(&mut part, tag)?).ok()?;
            let fits = [UTF8, PRINTABLE].contains(&tag) && (1..=IDENTITY_BYTES_MAX).contains(&name.len());
            if !fits || found.replace(name.to_owned()).is_some() {
                return None;
            }
        }
    }
    found
}

/// The content of the element that comes next, of a tag and less than 64 KiB.
fn take<'d>(der: &mut &'d [u8], tag: u8) -> Option<&'d [u8]> {
    let (&[found, first], rest) = der.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        0x81 => rest.split_first_chunk::<1>().map(|(length, rest)| (usize::from(length[0]), rest))?,
        0x82 => {
            rest.split_first_chunk::<2>().map(|(length, rest)| (u16::from_be_bytes(*length).into(), rest))?
        }
        0x80.. => return None,
        _ => (usize::from(first), rest),
    };
    let (content, rest) = rest.split_at_checked(length)?;
    *der = rest;
    (found == tag).then_some(content)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// An element of a tag with a content.
    fn element(tag: u8, content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        let length = content.len().to_be_bytes();
        let digits = &length[length.iter().take_while(|byte| **byte == 0).count().min(length.len() - 1)..];
        let mut bytes = vec![tag];
        if content.len() >= 0x80 {
            bytes.push(0x80 | digits.len() as u8);
        }
        bytes.extend_from_slice(digits);
        bytes.extend_from_slice(&content);
        bytes
    }

    fn sequence(content: &[&[u8]]) -> Vec<u8> {
        element(SEQUENCE, content)
    }

    /// A whole name that is one common name.
    fn name_of(name: &str) -> Vec<u8> {
        let part = sequence(&[&element(IDENTIFIER, &[COMMON_NAME]), &element(UTF8, &[name.as_bytes()])]);
        sequence(&[&element(SET, &[&part])])
    }

    fn content(name: &[u8]) -> &[u8] {
        let mut rest = name;
        take(&mut rest, SEQUENCE).unwrap()
    }

    #[test]
    fn the_one_common_name_is_read() {
        for length in [1, 100, 127, 128, 255, 256] {
            let name = "n".repeat(length);
            assert_eq!(common_name(content(&name_of(&name))).unwrap(), name);
        }
        let (one, two) = (name_of("ada"), name_of("eve"));
        let organisation = sequence(&[&element(IDENTIFIER, &[&[0x55, 4, 10]]), &element(UTF8, &[b"eve"])]);
        let organisation = element(SET, &[&organisation]);
        assert_eq!(common_name(&[&organisation, content(&one)].concat()).unwrap(), "ada");
        let wrong = [
            [content(&one), content(&two)].concat(),
            content(&name_of("")).to_vec(),
            content(&name_of(&"n".repeat(IDENTITY_BYTES_MAX + 1))).to_vec(),
            content(&one)[..8].to_vec(),
            organisation,
            vec![],
        ];
        for wrong in wrong {
            assert_eq!(common_name(&wrong), None, "{wrong:?}");
        }
    }
}
