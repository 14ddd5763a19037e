//! Whether a text is JSON (RFC 8259), as PostgreSQL takes it: read once, without recursion, whatever its depth.

/// Is it one JSON value?
pub(super) fn is_json(text: &str) -> bool {
    let mut scanner = Scanner { rest: text.as_bytes() };
    scanner.document().is_some() && scanner.rest.is_empty()
}

/// What may come next.
#[derive(Clone, Copy, PartialEq)]
enum Next {
    Value,
    /// A value, or the end of an array that has just begun.
    ValueOrEnd,
    /// A key, or the end of an object that has just begun.
    KeyOrEnd,
    Key,
    /// A comma or the end of what is open.
    More,
}

struct Scanner<'a> {
    rest: &'a [u8],
}

impl Scanner<'_> {
    fn document(&mut self) -> Option<()> {
        // What is open: `]` or `}` ends it.
        let mut open = Vec::new();
        let mut next = Next::Value;
        loop {
            self.blanks();
            if next == Next::More && open.is_empty() {
                return Some(());
            }
            let byte = self.byte()?;
            next = match (next, byte) {
                (Next::ValueOrEnd, b']') | (Next::KeyOrEnd, b'}') => {
                    open.pop();
                    Next::More
                }
                (Next::More, b',') if open.last() == Some(&b'}') => Next::Key,
                (Next::More, b',') => Next::Value,
                (Next::More, byte) if open.pop() == Some(byte) => Next::More,
                (Next::Key | Next::KeyOrEnd, b'"') => {
                    self.string()?;
                    self.blanks();
                    (self.byte()? == b':').then_some(Next::Value)?
                }
                (Next::Value | Next::ValueOrEnd, b'[') => {
                    open.push(b']');
                    Next::ValueOrEnd
                }
                (Next::Value | Next::ValueOrEnd, b'{') => {
                    open.push(b'}');
                    Next::KeyOrEnd
                }
                (Next::Value | Next::ValueOrEnd, first) => {
                    self.scalar(first)?;
                    Next::More
                }
                (Next::More | Next::Key | Next::KeyOrEnd, _) => return None,
            };
        }
    }

    fn blanks(&mut self) {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn scalar(&mut self, first: u8) -> Option<()> {
        match first {
            b'"' => self.string(),
            b't' => self.word(b"rue"),
            b'f' => self.word(b"alse"),
            b'n' => self.word(b"ull"),
            b'-' => {
                let digit = self.byte()?;
                self.number(digit)
            }
            digit => self.number(digit),
        }
    }

    fn word(&mut self, word: &[u8]) -> Option<()> {
        self.rest = self.rest.strip_prefix(word)?;
        Some(())
    }

    fn digits(&mut self) -> usize {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.rest = self.rest.get(digits..).unwrap_or_default();
        digits
    }

    fn number(&mut self, first: u8) -> Option<()> {
        match first {
            b'0' => {}
            b'1'..=b'9' => {
                self.digits();
            }
            _ => return None,
        }
        if let [b'.', rest @ ..] = self.rest {
            self.rest = rest;
            (self.digits() > 0).then_some(())?;
        }
        if let [b'e' | b'E', rest @ ..] = self.rest {
            self.rest = if let [b'+' | b'-', rest @ ..] = rest { rest } else { rest };
            (self.digits() > 0).then_some(())?;
        }
        Some(())
    }

    /// The rest of a string, behind its first quote.
    fn string(&mut self) -> Option<()> {
        loop {
            match self.byte()? {
                b'"' => return Some(()),
                0..=0x1f => return None,
                b'\\' => match self.byte()? {
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                    b'u' => {
                        let digits = self.rest.get(..4)?;
                        digits.iter().all(u8::is_ascii_hexdigit).then_some(())?;
                        self.rest = self.rest.get(4..)?;
                    }
                    _ => return None,
                },
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_json;

    #[test]
    fn json_is_told_from_what_is_not() {
        for text in [
            "1",
            " -0.5e+10 ",
            "0",
            "\"\"",
            r#""a\u00e4\n\"""#,
            "null",
            "true",
            "[]",
            "[1, [2], {}]",
            "{}",
            r#"{"a": [1, null], "b": {"c": "d"}, "a": 1E5}"#,
            "\"日本語 🎈\"",
        ] {
            assert!(is_json(text), "{text}");
        }
        for text in [
            "",
            " ",
            "{",
            "]",
            "[1,]",
            "[1 2]",
            "{\"a\"}",
            "{\"a\":}",
            "{a: 1}",
            "{\"a\": 1,}",
            "01",
            "1.",
            ".5",
            "1e",
            "-",
            "+1",
            "nul",
            "nulll",
            "\"",
            "\"\t\"",
            r#""\x""#,
            r#""\u12""#,
            "[}",
            "{]",
            "1 1",
            "[1]]",
            "'a'",
        ] {
            assert!(!is_json(text), "{text}");
        }
        // Deeper than any stack.
        let deep = 1_000_000;
        assert!(is_json(&("[".repeat(deep) + &"]".repeat(deep))));
        assert!(!is_json(&"[".repeat(deep)));
    }
}
