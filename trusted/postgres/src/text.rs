//! The tokens of a client's text and where they are: what a rewriting replaces, and leaves alone.

use crate::error::{SqlError, sqlstate};
use sqlparser::dialect::PostgreSqlDialect;
use sqlparser::tokenizer::{
    Location, Span, Token, TokenWithSpan, Tokenizer, TokenizerError, Whitespace, Word,
};
use std::ops::Range;

/// PostgreSQL cuts longer names to this.
pub(crate) const NAME_BYTES: usize = 63;

/// A token and its bytes in the text.
#[derive(Clone, Debug)]
pub(crate) struct Lexeme {
    pub(crate) token: TokenWithSpan,
    pub(crate) bytes: Range<usize>,
}

/// The tokens of one statement, without blanks and comments.
#[derive(Clone, Debug)]
pub(crate) struct Lexemes {
    pub(crate) list: Vec<Lexeme>,
}

/// Splits a text into its statements, empty ones left out.
///
/// # Errors
/// The text has no tokens: a quote that does not end, a character that begins nothing.
pub(crate) fn statements(text: &str) -> Result<Vec<Lexemes>, SqlError> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text)
        .tokenize_with_location()
        .map_err(|error| tokenizer_error(text, &error))?;
    let mut places = Places { text, line: 1, column: 1, byte: 0 };
    let (mut found, mut list) = (Vec::new(), Vec::new());
    for token in tokens {
        let bytes = places.byte_of(token.span.start)..places.byte_of(token.span.end);
        match token.token {
            Token::SemiColon => found.push(std::mem::take(&mut list)),
            Token::Whitespace(_) | Token::EOF => {}
            _ => push(text, &mut list, Lexeme { token, bytes })?,
        }
    }
    found.push(list);
    Ok(found.into_iter().filter(|list| !list.is_empty()).map(|list| Lexemes { list }).collect())
}

/// Adds a token; a string that continues the one before it (`'a'` and behind a line's end `'b'`) is part of that.
fn push(text: &str, list: &mut Vec<Lexeme>, lexeme: Lexeme) -> Result<(), SqlError> {
    let (Some(last), Token::SingleQuotedString(more)) = (list.last_mut(), &lexeme.token.token) else {
        list.push(lexeme);
        return Ok(());
    };
    let between = text.get(last.bytes.end..lexeme.bytes.start).unwrap_or_default();
    let has_escapes =
        matches!(last.token.token, Token::EscapedStringLiteral(_) | Token::UnicodeStringLiteral(_));
    let string = match &mut last.token.token {
        Token::SingleQuotedString(string)
        | Token::EscapedStringLiteral(string)
        | Token::UnicodeStringLiteral(string)
        | Token::NationalStringLiteral(string)
            if continues(between) =>
        {
            string
        }
        _ => {
            list.push(lexeme);
            return Ok(());
        }
    };
    // It ends where a quote is not escaped, which these tokens do not know.
    if has_escapes && text.get(lexeme.bytes.clone()).is_none_or(|part| part.contains('\\')) {
        let message = "a string with escapes that goes on behind a line's end has escapes there, too";
        return Err(SqlError::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
            .hint("Write it as one string.")
            .at(text, lexeme.bytes.start));
    }
    string.push_str(more);
    last.token.span.end = lexeme.token.span.end;
    last.bytes.end = lexeme.bytes.end;
    Ok(())
}

/// Does a string go on behind this: blanks and comments to a line's end, one line at least?
fn continues(between: &str) -> bool {
    let (mut rest, mut has_line) = (between, false);
    while let Some(character) = rest.chars().next() {
        rest = match character {
            '-' if rest.starts_with("--") => rest.get(rest.find(['\n', '\r']).unwrap_or(rest.len())..),
            '\n' | '\r' => {
                has_line = true;
                rest.get(1..)
            }
            ' ' | '\t' | '\u{c}' => rest.get(1..),
            _ => return false,
        }
        .unwrap_or_default();
    }
    has_line
}

/// A text without the blanks and comments that it begins with; nothing if one of these does not end.
pub(crate) fn behind_comments(text: &str) -> &str {
    let mut rest = text.trim_start();
    loop {
        let behind = if rest.starts_with("--") {
            rest.find(['\n', '\r']).and_then(|end| rest.get(end..))
        } else if rest.starts_with("/*") {
            end_of_block(rest).and_then(|end| rest.get(end..))
        } else {
            return rest;
        };
        rest = behind.unwrap_or_default().trim_start();
    }
}

/// The byte behind a block's comment, in which there may be others.
fn end_of_block(text: &str) -> Option<usize> {
    let (bytes, mut at, mut depth) = (text.as_bytes(), 0, 0_usize);
    loop {
        match bytes.get(at..at + 2)? {
            b"/*" => depth += 1,
            b"*/" => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return Some(at);
        }
    }
}

/// Where a text has comments, in bytes; none if it has no tokens.
pub(crate) fn comments(text: &str) -> Vec<Range<usize>> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().unwrap_or_default();
    let mut places = Places { text, line: 1, column: 1, byte: 0 };
    let is_comment = |token: &Token| {
        let Token::Whitespace(blank) = token else { return false };
        matches!(blank, Whitespace::SingleLineComment { .. } | Whitespace::MultiLineComment(_))
    };
    let comments = tokens.into_iter().filter(|token| is_comment(&token.token));
    comments.map(|token| places.byte_of(token.span.start)..places.byte_of(token.span.end)).collect()
}

/// The bytes of the first parameter of a text, `$1` and the like, and its number.
pub(crate) fn parameter(text: &str) -> Option<(usize, String)> {
    let tokens = Tokenizer::new(&PostgreSqlDialect {}, text).tokenize_with_location().ok()?;
    let mut places = Places { text, line: 1, column: 1, byte: 0 };
    tokens.into_iter().find_map(|token| match token.token {
        Token::Placeholder(name) => Some((places.byte_of(token.span.start), name)),
        _ => None,
    })
}

fn tokenizer_error(text: &str, error: &TokenizerError) -> SqlError {
    let byte = Places { text, line: 1, column: 1, byte: 0 }.byte_of(error.location);
    SqlError::new(sqlstate::SYNTAX_ERROR, error.message.clone()).at(text, byte)
}

/// Finds the bytes of places that come in their order.
struct Places<'a> {
    text: &'a str,
    line: u64,
    column: u64,
    byte: usize,
}

impl Places<'_> {
    fn byte_of(&mut self, place: Location) -> usize {
        for character in self.text.get(self.byte..).unwrap_or_default().chars() {
            if (self.line, self.column) >= (place.line, place.column) {
                break;
            }
            self.byte += character.len_utf8();
            (self.line, self.column) =
                if character == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        }
        self.byte
    }
}

impl Lexemes {
    /// The bytes from the first token to the last.
    pub(crate) fn span(&self) -> Range<usize> {
        let start = self.list.first().map_or(0, |lexeme| lexeme.bytes.start);
        start..self.list.last().map_or(start, |lexeme| lexeme.bytes.end)
    }

    /// The position of the token that begins where a span of the tree does.
    pub(crate) fn position_of(&self, span: Span) -> Option<usize> {
        self.list.binary_search_by(|lexeme| lexeme.token.span.start.cmp(&span.start)).ok()
    }

    /// The token of a position.
    pub(crate) fn token(&self, position: usize) -> Option<&Token> {
        self.list.get(position).map(|lexeme| &lexeme.token.token)
    }

    /// The bytes of the token of a position; those of the end of the text if there is none.
    pub(crate) fn bytes(&self, position: usize) -> Range<usize> {
        self.list
            .get(position)
            .map_or_else(|| self.span().end..self.span().end, |lexeme| lexeme.bytes.clone())
    }

    /// The tokens as the parser takes them.
    pub(crate) fn tokens(&self) -> Vec<TokenWithSpan> {
        self.list.iter().map(|lexeme| lexeme.token.clone()).collect()
    }

    /// The position behind the parenthesis that closes the one at a position.
    pub(crate) fn after_parentheses(&self, start: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for (at, lexeme) in self.list.iter().enumerate().skip(start) {
            match lexeme.token.token {
                Token::LParen | Token::LBracket => depth += 1,
                Token::RParen | Token::RBracket => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                return (at > start).then_some(at + 1);
            }
        }
        None
    }

    /// Is the token of a position that word, not in quotes? In capitals.
    pub(crate) fn is_word(&self, position: usize, word: &str) -> bool {
        match self.token(position) {
            Some(Token::Word(found)) => found.quote_style.is_none() && found.value.eq_ignore_ascii_case(word),
            _ => false,
        }
    }
}

/// The name that a word means: folded to small letters unless in quotes, and cut.
pub(crate) fn name_of(word: &Word) -> String {
    fold(&word.value, word.quote_style.is_some())
}

/// The name that an identifier means. PostgreSQL folds letters of ASCII alone, where a letter may take several bytes.
pub(crate) fn fold(value: &str, quoted: bool) -> String {
    let mut name = if quoted { value.to_owned() } else { value.to_ascii_lowercase() };
    if name.len() > NAME_BYTES {
        let end = (0..=NAME_BYTES).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
        name.truncate(end);
    }
    name
}

/// A name as an identifier of SQL.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{behind_comments, fold, statements};

    #[test]
    fn what_a_text_begins_with_stands_behind_comments() {
        for (text, expected) in [
            (" -- a; /* b\n\t/* b /* c /* d */ -- */ e */ DO 1 -- f", "DO 1 -- f"),
            ("/**/x", "x"),
            ("/*/ x */ y", "y"),
            ("- 1", "- 1"),
            ("-- a", ""),
            ("/* a /* b */", ""),
            ("/* \u{e9} */ \u{e9}", "\u{e9}"),
        ] {
            assert_eq!(behind_comments(text), expected, "{text}");
        }
    }

    #[test]
    fn tokens_are_where_they_are_in_the_text() {
        let text = "SELECT 'é;', \"a\"\"b\" /* ; */\r\n , $1::int -- ;\n; ;\nUPDATE täble SET x = E'\\n;';";
        let found = statements(text).unwrap();
        let parts: Vec<Vec<&str>> = found
            .iter()
            .map(|statement| statement.list.iter().map(|lexeme| &text[lexeme.bytes.clone()]).collect())
            .collect();
        assert_eq!(parts.len(), 2);
        assert_eq!(parts[0], ["SELECT", "'é;'", ",", "\"a\"\"b\"", ",", "$1", "::", "int"]);
        assert_eq!(parts[1], ["UPDATE", "täble", "SET", "x", "=", "E'\\n;'"]);
        assert_eq!(&text[found[1].span()], "UPDATE täble SET x = E'\\n;'");
    }

    #[test]
    fn a_string_goes_on_behind_a_line_s_end() {
        let strings = |text: &str| -> Vec<String> {
            let list = statements(text).unwrap().into_iter().flat_map(|statement| statement.list);
            list.map(|lexeme| format!("{}={}", &text[lexeme.bytes], lexeme.token.token)).collect()
        };
        assert_eq!(strings("'a'\n'b' \t\n 'c''d'"), ["'a'\n'b' \t\n 'c''d'='abc'd'"]);
        assert_eq!(strings("E'a\\n' -- it's\r\n'b'"), ["E'a\\n' -- it's\r\n'b'=E'a\nb'"]);
        for apart in ["'a' 'b'", "'a' /*\n*/ 'b'", "'a'\n/* */'b'", "'a'\nE'b'", "$$a$$\n'b'"] {
            assert_eq!(strings(apart).len(), 2, "{apart}");
        }
        for unclear in ["E'a'\n'b\\'c'", "E'a'\n'\\x62'"] {
            let refused = statements(unclear).unwrap_err();
            assert!(["0A000", "42601"].contains(&refused.sqlstate), "{unclear}: {refused}");
        }
    }

    #[test]
    fn a_text_without_tokens_is_an_error_at_its_place() {
        let error = statements("SELECT é, 'open").unwrap_err();
        assert_eq!((error.sqlstate, error.position), ("42601", Some(11)));
    }

    #[test]
    fn a_name_is_folded_and_cut_as_postgresql_does() {
        assert_eq!(fold("ABc", false), "abc");
        assert_eq!(fold("ABc", true), "ABc");
        assert_eq!(fold(&"é".repeat(40), true).len(), 62);
    }
}
