//! Messages of an mbox: each begins behind a line `From `, at the beginning or after an empty line, that a header follows.
//!
//! Where a `From ` line in a message is not quoted by `>` and a colon is in the line behind it, two messages are seen: the format has
//! no way to tell. The empty line before `From ` is the separator's, and so is one at the end. One `>` of a quoted `From ` line is taken away.

use super::HELD_BYTES_MAX;
use std::io::{self, BufRead, Read};

/// Bytes of a line that are looked at to tell what it is.
const LINE_BYTES_MAX: u64 = 64 << 10;

/// Whether a file that begins so is an mbox.
pub(super) fn is_mbox(beginning: &[u8]) -> bool {
    let mut lines = beginning.split(|byte| *byte == b'\n');
    lines.next().is_some_and(begins) && lines.next().is_some_and(is_header)
}

fn begins(line: &[u8]) -> bool {
    line.starts_with(b"From ")
}

fn is_header(line: &[u8]) -> bool {
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    let in_name = |byte: &u8| (b'!'..=b'~').contains(byte);
    // mutt and others put `>From ` lines of earlier hops between.
    line.starts_with(b">From ") || (name.len() < line.len() && !name.is_empty() && name.iter().all(in_name))
}

/// Reads an mbox to its end; `each` is given every message, cut to [`HELD_BYTES_MAX`], and how many bytes were read.
///
/// # Errors
/// What reading or `each` returns.
pub(super) fn messages<E: From<io::Error>>(
    mut file: impl BufRead,
    mut each: impl FnMut(&[u8], u64) -> Result<(), E>,
) -> Result<(), E> {
    let (mut message, mut line, mut held) = (Vec::new(), Vec::new(), Vec::new());
    let (mut in_message, mut after_empty, mut read) = (false, true, 0);
    // An empty line, which is the message's if more of it follows.
    let mut empty = Vec::new();
    loop {
        line.clear();
        line.append(&mut held);
        if line.is_empty() {
            read += read_line(&mut file, &mut line)?;
        }
        if line.is_empty() {
            break;
        }
        if after_empty && begins(&line) {
            // What is behind it tells whether a message begins here.
            read += read_line(&mut file, &mut held)?;
            if is_header(&held) || !in_message {
                if in_message {
                    each(&message, read)?;
                }
                message.clear();
                empty.clear();
                in_message = true;
                after_empty = false;
                continue;
            }
        }
        add(&mut message, &empty);
        empty.clear();
        after_empty = line == b"\n" || line == b"\r\n";
        if after_empty {
            empty.append(&mut line);
            continue;
        }
        let quotes = line.iter().take_while(|byte| **byte == b'>').count();
        let from = usize::from(quotes > 0 && begins(&line[quotes..]));
        add(&mut message, &line[from..]);
    }
    if in_message {
        each(&message, read)?;
    }
    Ok(())
}

/// Adds to a message what there is room for.
fn add(message: &mut Vec<u8>, line: &[u8]) {
    let room = HELD_BYTES_MAX - message.len();
    message.extend_from_slice(&line[..line.len().min(room)]);
}

/// A line, or of a very long one a part; how many bytes.
fn read_line(file: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', line).map(|bytes| bytes as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{HELD_BYTES_MAX, is_mbox, messages};
    use std::io;

    fn read(mbox: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        let each = |message: &[u8], _| -> io::Result<()> {
            found.push(String::from_utf8_lossy(message).into_owned());
            Ok(())
        };
        messages(mbox, each).unwrap();
        found
    }

    #[test]
    fn messages_begin_where_a_header_follows() {
        let mbox = b"From a@b Mon\nSubject: one\n\nFrom here to there\nno header\n>From quoted\n\n\
            From c@d Tue\r\nSubject: two\r\n\r\nbody\r\n\r\nFrom e@f\nX: y\n\n>>From twice\nFrom in a paragraph\nA: b\n";
        assert!(is_mbox(mbox));
        let found = read(mbox);
        assert_eq!(found.len(), 3, "{found:?}");
        assert_eq!(found[0], "Subject: one\n\nFrom here to there\nno header\nFrom quoted\n");
        assert_eq!(found[1], "Subject: two\r\n\r\nbody\r\n");
        assert_eq!(found[2], "X: y\n\n>From twice\nFrom in a paragraph\nA: b\n");
    }

    #[test]
    fn an_empty_line_is_the_messages_if_more_of_it_follows() {
        let mbox = b"From a@b\nA: b\n\none\n\n\ntwo\n\n\nFrom c@d\nA: b\n\nbody\n\n";
        assert_eq!(read(mbox), ["A: b\n\none\n\n\ntwo\n\n", "A: b\n\nbody\n"]);
        // Without a text, the empty line behind the headers is the separator, too.
        assert_eq!(read(b"From a@b\nA: b\n\nFrom c@d\nA: b"), ["A: b\n", "A: b"]);
    }

    #[test]
    fn what_is_no_mailbox_is_text() {
        for text in [&b"From here on\nwe walk: slowly"[..], b"Dear all\n", b"", b"From x"] {
            assert!(!is_mbox(text));
        }
        assert_eq!(read(b""), Vec::<String>::new());
        assert_eq!(read(b"From a@b\n"), [""]);
    }

    #[test]
    fn a_message_is_held_up_to_its_bound() {
        let mut mbox = b"From a@b\nSubject: long\n\n".to_vec();
        mbox.resize(HELD_BYTES_MAX + 1_000_000, b'x');
        mbox.extend_from_slice(b"\n\nFrom c@d\nSubject: next\n\n");
        let mut lengths = Vec::new();
        messages(mbox.as_slice(), |message, _| -> io::Result<()> {
            lengths.push(message.len());
            Ok(())
        })
        .unwrap();
        assert_eq!(lengths, [HELD_BYTES_MAX, 14]);
    }
}
