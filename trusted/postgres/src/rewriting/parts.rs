//! How much of a statement there is to read, before it is.

/// How many parts a text has at most: each is a sign, or letters or digits that follow one another, and what is between quotes is one.
/// Behind a comment or a dollar's quote, where a quote may be something else than it seems, all counts.
pub(super) fn parts(text: &str) -> usize {
    let bytes = text.as_bytes();
    let at = |position: usize| bytes.get(position).copied().unwrap_or_default();
    let (mut parts, mut before, mut is_certain) = (0, None, true);
    let mut next = 0;
    while let Some(byte) = bytes.get(next).copied() {
        let is_digit = byte.is_ascii_digit();
        let run = (is_digit || byte.is_ascii_alphabetic() || !byte.is_ascii()).then_some(is_digit);
        parts += usize::from(run.is_none() || run != before);
        is_certain &= match byte {
            b'-' => at(next + 1) != b'-',
            b'/' => at(next + 1) != b'*',
            // Behind a word, it may end a tag.
            b'$' => at(next + 1).is_ascii_digit() && before.is_none(),
            b'\'' => Quotes::before(bytes, next) != Quotes::Unknown,
            _ => true,
        };
        before = run;
        let is_quote = is_certain && matches!(byte, b'\'' | b'"');
        next = if is_quote { behind_quotes(bytes, next) } else { next + 1 };
    }
    parts
}

/// What quotes are by what stands before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quotes {
    Usual,
    /// A backslash takes the next sign as it is.
    Escaping,
    /// The end of a word, or what begins such quotes.
    Unknown,
}

impl Quotes {
    fn before(bytes: &[u8], open: usize) -> Self {
        let at = |back: usize| open.checked_sub(back).and_then(|position| bytes.get(position)).copied();
        let is_word =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || !byte.is_ascii();
        match (at(2), at(1)) {
            (Some(before), Some(b'e' | b'E')) if is_word(before) => Self::Unknown,
            (_, Some(b'e' | b'E')) => Self::Escaping,
            (_, Some(b'&' | b'x' | b'X')) => Self::Unknown,
            _ => Self::Usual,
        }
    }
}

/// Behind the quotes that open at a position. What is doubled in them is one sign.
fn behind_quotes(bytes: &[u8], open: usize) -> usize {
    let quote = bytes.get(open).copied().unwrap_or_default();
    let escapes = quote == b'\'' && Quotes::before(bytes, open) == Quotes::Escaping;
    let mut next = open + 1;
    while let Some(byte) = bytes.get(next).copied() {
        next += 1;
        match byte {
            b'\\' if escapes => next += 1,
            byte if byte == quote && bytes.get(next) == Some(&quote) => next += 1,
            byte if byte == quote => return next,
            _ => {}
        }
    }
    bytes.len()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::text::statements;
    use proptest::prelude::*;

    #[test]
    fn what_is_between_quotes_is_one_part_wherever_that_is_certain() {
        assert_eq!(parts("SELECT 'a, b, c' , \"d e\" FROM t"), 11);
        let bytes = format!("INSERT INTO t VALUES ('\\x{}'), ('-- /* $$ \\')", "a1".repeat(1000));
        assert!(parts(&bytes) < 30);
        let many = "1, ".repeat(1000);
        let doubled = ["SELECT E'''", "\\", "'', ", &many, "1"].concat();
        assert!(parts(&doubled) >= 2000, "doubled, and taken as it is");
        let quoted = format!("SELECT '{}'", "a, ".repeat(1000));
        assert!(parts(&quoted) < 8);
        for hidden in [
            "X'\\' ', ",
            "$1$1' $1$1, ",
            "1e'\\'', ",
            "U&'\\'', ",
            "$$'$$, ",
            "-- '\n, ",
            "/*'*/, ",
            "$a$\"$a$, ",
        ] {
            let text = format!("SELECT {hidden}{}'", "1, ".repeat(1000));
            assert!(parts(&text) >= 2000, "{hidden}");
        }
    }

    proptest! {
        #[test]
        fn there_are_no_fewer_parts_than_tokens(text in "[a-cExuN&1 ,'\"$\\\\()é*/\n-]{0,40}") {
            let text = text + &"1,".repeat(60);
            if let Ok(statements) = statements(&text) {
                let tokens: usize = statements.iter().map(|lexemes| lexemes.tokens().len()).sum();
                prop_assert!(parts(&text) >= tokens, "{tokens} tokens, {} parts", parts(&text));
            }
        }
    }
}
