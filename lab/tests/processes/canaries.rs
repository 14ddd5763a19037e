//! What to look for, and where it could hide: every 8 bytes in a row of every canary, in bytes as they are, in runs of
//! hexadecimal digits, and in lists of numbers as programmers print them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Bytes in a row that betray a canary. A canary has at least so many.
const WINDOW: usize = 8;

/// Who may see a canary.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Value or key: nobody.
    Secret,
    /// Name of a database, collection or field: the proxy's log.
    Name,
}

struct Canary {
    name: String,
    kind: Kind,
    /// To be found as a whole only.
    whole: Option<Vec<u8>>,
}

/// Canaries, by every window of theirs.
#[derive(Default)]
pub(crate) struct Canaries {
    canaries: Vec<Canary>,
    windows: HashMap<u64, usize>,
    /// Windows by their first two bytes: most of a haystack is passed over at the price of one look.
    first: Vec<bool>,
}

fn key(window: &[u8]) -> u64 {
    u64::from_le_bytes(window.try_into().unwrap())
}

impl Canaries {
    /// Adds a canary under a name of its own, to be found in this byte order and in the opposite one.
    pub(crate) fn add(&mut self, name: &str, kind: Kind, bytes: &[u8]) {
        assert!(bytes.len() >= WINDOW, "{name} is too short to be recognised");
        self.canaries.push(Canary { name: name.to_owned(), kind, whole: None });
        let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
        for window in bytes.windows(WINDOW).chain(reversed.windows(WINDOW)) {
            self.add_window(window);
        }
    }

    /// Adds a canary of digits, of which a few in a row mean nothing.
    pub(crate) fn add_digits(&mut self, name: &str, kind: Kind, digits: &str) {
        let whole = Some(digits.as_bytes().to_vec());
        self.canaries.push(Canary { name: name.to_owned(), kind, whole });
        self.add_window(&digits.as_bytes()[..WINDOW]);
    }

    fn add_window(&mut self, window: &[u8]) {
        self.windows.insert(key(window), self.canaries.len() - 1);
        self.first.resize(1 << 16, false);
        self.first[usize::from(u16::from_le_bytes([window[0], window[1]]))] = true;
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.canaries.iter().map(|canary| canary.name.as_str())
    }

    /// The canaries of a kind that are in a haystack, in whatever form, and at which byte of that form first.
    pub(crate) fn find(&self, haystack: &[u8], kinds: &[Kind]) -> BTreeMap<&str, usize> {
        let mut found = BTreeMap::new();
        for form in [
            haystack.to_vec(),
            from_hexadecimal(haystack, 0),
            from_hexadecimal(haystack, 1),
            from_list(haystack),
        ] {
            for (offset, window) in form.windows(WINDOW).enumerate() {
                if !self.first[usize::from(u16::from_le_bytes([window[0], window[1]]))] {
                    continue;
                }
                if let Some(canary) = self.windows.get(&key(window)) {
                    let Canary { name, kind, whole } = &self.canaries[*canary];
                    let is_whole = whole.as_ref().is_none_or(|whole| form[offset..].starts_with(whole));
                    if kinds.contains(kind) && is_whole {
                        found.entry(name.as_str()).or_insert(offset);
                    }
                }
            }
        }
        found
    }

    /// Those in none of the haystacks.
    pub(crate) fn missing(&self, haystack: &[u8]) -> BTreeSet<&str> {
        let found = self.find(haystack, &[Kind::Secret, Kind::Name]);
        self.names().filter(|name| !found.contains_key(name)).collect()
    }
}

/// Runs of hexadecimal digits as bytes, pairing digits from the first or the second of a run; what is between runs is
/// a zero byte.
fn from_hexadecimal(text: &[u8], skip: usize) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for run in text.split(|byte| digit(byte).is_none()) {
        let digits: Vec<u8> = run.iter().skip(skip).filter_map(digit).collect();
        bytes.extend(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]));
        bytes.push(0);
    }
    bytes
}

/// Lists like `[12, 7, 255]` as bytes.
fn from_list(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in text.split(|byte| !byte.is_ascii_digit()).filter(|word| !word.is_empty()) {
        let number = std::str::from_utf8(word).ok().and_then(|word| word.parse::<u8>().ok());
        bytes.push(number.unwrap_or_default());
    }
    bytes
}

#[test]
fn digits_are_found_as_a_whole() {
    let mut canaries = Canaries::default();
    canaries.add_digits("number", Kind::Secret, "123456789012");
    assert!(canaries.missing(b"value: 123456789012!").is_empty());
    assert_eq!(canaries.missing(b"value: 123456789011!").len(), 1);
}

#[test]
fn a_canary_is_found_in_every_form() {
    let mut canaries = Canaries::default();
    let bytes: [u8; 12] = [200, 3, 77, 9, 255, 14, 180, 66, 91, 5, 6, 130];
    canaries.add("canary", Kind::Secret, &bytes);
    let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
    let part = &bytes[2..10];
    let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
    let forms: [Vec<u8>; 6] = [
        [b"before".as_slice(), &bytes, b"after"].concat(),
        [b"x".as_slice(), part, b"y"].concat(),
        reversed,
        format!("blob={hexadecimal};").into_bytes(),
        format!("blob=0{hexadecimal};").into_bytes(),
        format!("{bytes:?}").into_bytes(),
    ];
    for form in forms {
        assert!(canaries.missing(&form).is_empty(), "not found in {form:?}");
    }
    for other in [b"nothing of the kind in here".as_slice(), &bytes[..7], &[]] {
        assert_eq!(canaries.find(other, &[Kind::Secret]).len(), 0);
        assert_eq!(canaries.missing(other).len(), 1);
    }
}
