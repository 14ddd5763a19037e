//! What is left of PostgreSQL's messages when random bytes are taken for what they are: kinds, lengths, counts, orders, texts;
//! and of bytes, which of them are equal to which.

use super::relay::Recorded;
use std::collections::HashMap;
use std::fmt::Write;

/// From so many bytes on, a value is one that is encrypted, or a part of a tree.
const RANDOM_BYTES: usize = 16;
/// What the proxy does by the clock, not by what is asked of it; and its mark, whose number is random.
const BY_THE_CLOCK: [&[u8]; 2] = [b"arras.mope_unused", b"arras.mark"];
/// What the connection alone says that raises the mark, and does nothing else.
const MARKING: &[u8] = b"synchronous_commit";
/// What the proxy's connection that changes trees executes.
const CHANGING: &[u8] = b"arras.mope_commit";

/// Connections in an order that no clock has a part in: the application's as it made them, then the proxy's own, which reads
/// trees, and the one that changes them. What is done by the clock may open either of these before the application's.
pub(crate) fn in_order(mut connections: Vec<Recorded>) -> Vec<Recorded> {
    connections.retain(|recorded| !holds(&recorded.sent, MARKING));
    connections.sort_by_key(|recorded| {
        let sent: Vec<(u8, Vec<u8>)> = exchanges(&recorded.sent, true).into_iter().flatten().collect();
        let changing = sent.iter().find(|(kind, body)| *kind == b'P' && holds(body, CHANGING));
        let Some((_, prepared)) = changing else { return 0 };
        let name = Reader(prepared).string();
        let executes = |(kind, body): &(u8, Vec<u8>)| {
            // Behind the portal's name.
            *kind == b'B' && body.split(|byte| *byte == 0).nth(1) == Some(name)
        };
        if sent.iter().any(executes) { 2 } else { 1 }
    });
    connections
}

fn holds(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|some| some == part)
}

/// Bytes by when they came first.
#[derive(Default)]
pub(crate) struct Shapes {
    known: HashMap<Vec<u8>, usize>,
}

impl Shapes {
    fn of_bytes(&mut self, bytes: &[u8]) -> String {
        let next = self.known.len();
        let number = *self.known.entry(bytes.to_vec()).or_insert(next);
        format!("{}*{number}", bytes.len())
    }

    /// A value of a message.
    fn of_value(&mut self, value: &[u8]) -> String {
        match std::str::from_utf8(value) {
            Ok(text)
                if text.len() >= 2 * RANDOM_BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit()) =>
            {
                self.of_bytes(value)
            }
            Ok(text) if text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t') => self.of_text(text),
            _ if value.len() >= RANDOM_BYTES => self.of_bytes(value),
            _ => format!("{value:02x?}"),
        }
    }

    /// A text, in which bytes are written in hexadecimal.
    pub(crate) fn of_text(&mut self, text: &str) -> String {
        let mut shape = String::new();
        let mut rest = text;
        let begins = ["\\x", "decode('"];
        while let Some((at, begin)) = begins.iter().filter_map(|begin| Some((rest.find(begin)?, begin))).min()
        {
            let (before, behind) = (&rest[..at], &rest[at + begin.len()..]);
            let end = behind.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(behind.len());
            let (digits, after) = behind.split_at(end);
            let bytes: Vec<u8> = digits
                .as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect();
            let shown =
                if bytes.len() >= RANDOM_BYTES { self.of_bytes(&bytes) } else { format!("{bytes:02x?}") };
            let _ = write!(shape, "{before}{begin}{shown}");
            rest = after;
        }
        shape + rest
    }

    /// A connection's exchanges: what was sent up to a point at which the database answers, and the answer.
    pub(crate) fn of_connection(&mut self, recorded: &Recorded) -> Vec<String> {
        let sent = exchanges(&recorded.sent, true);
        let answered = exchanges(&recorded.answered, false);
        let mut names = HashMap::new();
        let (mut shapes, mut unseen) = (Vec::new(), Vec::new());
        for (at, exchange) in sent.iter().enumerate() {
            let by_the_clock = |(kind, body): &(u8, Vec<u8>)| {
                let named = body
                    .split(|byte| *byte == 0)
                    .take(2)
                    .any(|name| unseen.iter().any(|other: &Vec<u8>| other == name));
                BY_THE_CLOCK.iter().any(|what| holds(body, what))
                    || (matches!(kind, b'B' | b'D' | b'C') && named)
                    || (*kind == b'C'
                        && unseen.iter().any(|other| body.get(1..body.len() - 1) == Some(&other[..])))
            };
            if exchange.iter().any(by_the_clock) {
                let made = exchange.iter().filter(|(kind, _)| *kind == b'P');
                unseen.extend(made.map(|(_, body)| body.split(|byte| *byte == 0).next().unwrap().to_vec()));
                continue;
            }
            let mut shape = String::new();
            for (kind, body) in exchange {
                let _ = writeln!(shape, "> {}", self.request(*kind, body, &mut names));
            }
            for (kind, body) in answered.get(at).into_iter().flatten() {
                if let Some(text) = self.reply(*kind, body) {
                    let _ = writeln!(shape, "< {text}");
                }
            }
            shapes.push(shape);
        }
        shapes
    }

    fn request(&mut self, kind: u8, body: &[u8], names: &mut HashMap<Vec<u8>, usize>) -> String {
        let mut name = |name: &[u8]| {
            let next = names.len();
            if name.is_empty() {
                "unnamed".to_owned()
            } else {
                format!("name {}", names.entry(name.to_vec()).or_insert(next))
            }
        };
        let (head, rest) = (char::from(kind), &mut Reader(body));
        match kind {
            b'Q' => format!("{head} {}", self.of_value(rest.string())),
            b'P' => format!("{head} {} {} {:?}", name(rest.string()), self.of_value(rest.string()), rest.0),
            b'D' | b'C' => format!("{head} {:?} {}", rest.take(1), name(rest.string())),
            b'E' => format!("{head} {} {:?}", name(rest.string()), rest.0),
            b'B' => {
                let mut shape = format!("{head} {} {}", name(rest.string()), name(rest.string()));
                let formats = rest.number();
                let _ = write!(shape, " {:?}", rest.take(2 * formats));
                for _ in 0..rest.number() {
                    let _ = write!(
                        shape,
                        ", {}",
                        rest.value().map_or("NULL".into(), |value| self.of_value(value))
                    );
                }
                shape + &format!(" {:?}", rest.0)
            }
            _ => format!("{head} {}", self.of_value(body)),
        }
    }

    fn reply(&mut self, kind: u8, body: &[u8]) -> Option<String> {
        let (head, rest) = (char::from(kind), &mut Reader(body));
        match kind {
            // Who is connected, and its settings.
            b'R' | b'K' | b'S' | b'A' => None,
            b'T' => {
                // Numbers of tables differ from one installation to another.
                let columns = (0..rest.number())
                    .map(|_| (rest.string().to_vec(), rest.take(6).len(), rest.take(12).to_vec()));
                Some(format!(
                    "{head} {:?}",
                    columns
                        .map(|(name, _, kind)| (String::from_utf8(name).unwrap(), kind))
                        .collect::<Vec<_>>()
                ))
            }
            b'D' => {
                let values: Vec<String> = (0..rest.number())
                    .map(|_| rest.value().map_or("NULL".into(), |value| self.of_value(value)))
                    .collect();
                Some(format!("{head} {}", values.join(" | ")))
            }
            b'E' | b'N' => {
                let fields = body
                    .split(|byte| *byte == 0)
                    .filter(|field| !matches!(field.first(), None | Some(b'P' | b'p' | b'F' | b'L' | b'R')));
                Some(format!(
                    "{head} {}",
                    fields.map(|field| self.of_value(field)).collect::<Vec<_>>().join("; ")
                ))
            }
            _ => Some(format!("{head} {}", self.of_value(body))),
        }
    }
}

/// Reads a message's body.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count);
        self.0 = rest;
        taken
    }

    fn string(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap();
        let text = self.take(end);
        self.take(1);
        text
    }

    fn number(&mut self) -> usize {
        usize::from(u16::from_be_bytes(self.take(2).try_into().unwrap()))
    }

    fn value(&mut self) -> Option<&'a [u8]> {
        let length = i32::from_be_bytes(self.take(4).try_into().unwrap());
        usize::try_from(length).ok().map(|length| self.take(length))
    }
}

/// Messages, kinds and bodies, up to each `Sync` or query, or each `ReadyForQuery`; what is not ended is left out.
fn exchanges(bytes: &[u8], sent: bool) -> Vec<Vec<(u8, Vec<u8>)>> {
    let mut rest = Reader(bytes);
    let (mut found, mut list) = (Vec::new(), Vec::new());
    if sent && bytes.len() >= 4 {
        // The first message has no kind.
        let length = u32::from_be_bytes(rest.take(4).try_into().unwrap()) as usize;
        rest.take(length - 4);
        found.push(Vec::new());
    }
    while rest.0.len() >= 5 {
        let length = u32::from_be_bytes(rest.0[1..5].try_into().unwrap()) as usize;
        if rest.0.len() <= length {
            break;
        }
        let kind = rest.take(1)[0];
        let body = rest.take(length)[4..].to_vec();
        let ends = if sent { matches!(kind, b'S' | b'Q') } else { kind == b'Z' };
        list.push((kind, body));
        if ends {
            found.push(std::mem::take(&mut list));
        }
    }
    found
}
