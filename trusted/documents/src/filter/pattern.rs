//! Regular expressions: MongoDB's dialect is PCRE, ours a linear-time engine.
//!
//! A pattern is rewritten so that what both engines accept means the same; what cannot be is refused.

use crate::QueryError;
use crate::error::location;
use bson::Bson;
use regex::{Regex, RegexBuilder};

/// Most bytes of a compiled pattern.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    source: String,
    options: String,
    regex: Regex,
}

impl Pattern {
    /// Compiles `pattern` with options of `imsx` (`u` is accepted and changes nothing).
    ///
    /// # Errors
    /// 51091 for an invalid pattern or one with constructs of PCRE that a linear-time engine lacks (look-around,
    /// back references, possessive and atomic groups); 51108 for an unknown option.
    pub fn new(pattern: &str, options: &str) -> Result<Self, QueryError> {
        if let Some(option) = options.chars().find(|option| !"imsxu".contains(*option)) {
            return Err(location!(51108, "invalid flag in regex options: {option}"));
        }
        let has = |option: char| options.contains(option);
        let translated = Translator::new(pattern, has('x'), has('m')).run().map_err(|what| {
            location!(51091, "Regular expression is invalid: Arras does not support {what}")
        })?;
        let regex = RegexBuilder::new(&translated)
            .case_insensitive(has('i'))
            .multi_line(has('m'))
            .dot_matches_new_line(has('s'))
            .ignore_whitespace(has('x'))
            .size_limit(COMPILED_BYTES_MAX)
            .build()
            .map_err(|error| {
                let last = error.to_string().lines().last().unwrap_or("invalid").to_owned();
                location!(51091, "Regular expression is invalid: {last}")
            })?;
        Ok(Pattern { source: pattern.to_owned(), options: options.to_owned(), regex })
    }

    /// The pattern as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The options as written.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// Text that every matching string starts with, if the pattern is anchored and case counts.
    pub fn literal_prefix(&self) -> Option<String> {
        // An alternative could match without the prefix, and the options change what characters mean.
        if self.source.contains('|') || self.options.chars().any(|option| option != 's') {
            return None;
        }
        let mut prefix: String = String::new();
        let mut rest = self.source.strip_prefix('^')?.chars();
        for character in rest.by_ref() {
            match character {
                // A quantifier makes the last character optional.
                '*' | '?' | '{' => {
                    prefix.pop();
                    break;
                }
                '\\' | '^' | '$' | '.' | '[' | ']' | '(' | ')' | '+' | '}' => break,
                literal => prefix.push(literal),
            }
        }
        (!prefix.is_empty()).then_some(prefix)
    }

    /// True for a string or symbol that it matches, and for the same regular expression.
    pub fn matches(&self, value: &Bson) -> bool {
        match value {
            Bson::String(text) | Bson::Symbol(text) => self.regex.is_match(text),
            Bson::RegularExpression(regex) => {
                regex.pattern.as_str() == self.source && regex.options.as_str() == self.options
            }
            _ => false,
        }
    }

    /// The compiled form.
    pub(crate) fn regex(&self) -> &Regex {
        &self.regex
    }
}

/// Rewrites PCRE syntax to the syntax of the `regex` crate.
struct Translator<'p> {
    rest: std::iter::Peekable<std::str::Chars<'p>>,
    out: String,
    verbose: bool,
    /// `$` matches at every line end already: by option or by an inline flag.
    multi_line: bool,
    /// The last item written is a quantifier (then `+` makes it possessive).
    after_quantifier: bool,
}

impl<'p> Translator<'p> {
    fn new(pattern: &'p str, verbose: bool, multi_line: bool) -> Self {
        let out = String::with_capacity(pattern.len() + 8);
        Translator { rest: pattern.chars().peekable(), out, verbose, multi_line, after_quantifier: false }
    }

    fn run(mut self) -> Result<String, String> {
        while let Some(character) = self.rest.next() {
            let after_quantifier = std::mem::take(&mut self.after_quantifier);
            match character {
                '\\' => self.escape()?,
                '[' => self.class()?,
                '(' => self.group()?,
                '$' if !self.multi_line => self.end_of_text()?,
                '#' if self.verbose => self.comment(),
                '*' | '+' | '?' => {
                    if after_quantifier && character == '+' {
                        return Err("a possessive quantifier".into());
                    }
                    if after_quantifier && character == '*' {
                        return Err("a quantifier of a quantifier".into());
                    }
                    self.out.push(character);
                    self.after_quantifier = !after_quantifier;
                }
                '{' => self.repetition()?,
                other => self.out.push(other),
            }
        }
        Ok(self.out)
    }

    fn comment(&mut self) {
        for character in self.rest.by_ref() {
            if character == '\n' {
                break;
            }
        }
    }

    /// `$` also matches before a newline at the very end.
    fn end_of_text(&mut self) -> Result<(), String> {
        match self.rest.peek() {
            None | Some(')' | '|') => {
                self.out.push_str(r"(?:\n?\z)");
                Ok(())
            }
            Some(_) => Err("'$' before the end of an alternative".into()),
        }
    }

    /// `{2}`, `{2,}` and `{2,3}` repeat; any other brace is a literal.
    fn repetition(&mut self) -> Result<(), String> {
        let body: String = self.rest.clone().take_while(|character| *character != '}').collect();
        let (low, high) = body.split_once(',').unwrap_or((&body, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let closed = self.rest.clone().nth(body.chars().count()) == Some('}');
        if closed && !low.is_empty() && digits(low) && digits(high) {
            self.out.push('{');
            self.out.push_str(&body);
            self.out.push('}');
            self.rest.nth(body.chars().count());
            self.after_quantifier = true;
        } else {
            self.out.push_str(r"\{");
        }
        Ok(())
    }

    fn group(&mut self) -> Result<(), String> {
        self.out.push('(');
        if self.rest.peek() == Some(&'*') {
            return Err("a verb such as (*UCP)".into());
        }
        if self.rest.peek() != Some(&'?') {
            return Ok(());
        }
        let mut ahead = self.rest.clone();
        ahead.next();
        let flags: String = ahead.take_while(|character| !")<>:=!#|P'&+".contains(*character)).collect();
        let on = flags.split('-').next().unwrap_or_default();
        if flags.contains('x') || flags.contains('U') || flags.contains('J') || flags.contains('u') {
            return Err(format!("the inline option '(?{flags})'"));
        }
        if flags.contains('m') {
            // Only at the very start does it hold for every `$` of the pattern.
            let whole = self.out == "(" && on == flags && self.rest.clone().nth(1 + flags.len()) == Some(')');
            if !whole {
                return Err(format!("the inline option '(?{flags})' past the start"));
            }
            self.multi_line = true;
        }
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        let Some(character) = self.rest.next() else {
            return Err("a trailing backslash".into());
        };
        match character {
            'd' => self.out.push_str("[0-9]"),
            'D' => self.out.push_str("[^0-9]"),
            'w' => self.out.push_str("(?-i:[0-9A-Za-z_])"),
            'W' => self.out.push_str("(?-i:[^0-9A-Za-z_])"),
            's' => self.out.push_str(r"[\t\n\x0B\f\r\x20]"),
            'S' => self.out.push_str(r"[^\t\n\x0B\f\r\x20]"),
            'h' => {
                self.out.push_str(r"[\t\x20\xA0\u{1680}\u{180E}\u{2000}-\u{200A}\u{202F}\u{205F}\u{3000}]")
            }
            'b' => self.out.push_str(r"(?-u:\b)"),
            'Z' => self.out.push_str(r"(?:\n?\z)"),
            'A' | 'z' | 'n' | 'r' | 't' | 'f' | 'p' | 'P' => {
                self.out.push('\\');
                self.out.push(character);
            }
            'x' => self.hexadecimal()?,
            'a' => self.out.push_str(r"\x07"),
            'e' => self.out.push_str(r"\x1B"),
            'v' => self.out.push_str(r"[\n\x0B\f\r\x85\u{2028}\u{2029}]"),
            'R' => self.out.push_str(r"(?:\r\n|[\n\x0B\f\r\x85\u{2028}\u{2029}])"),
            'Q' => self.quoted(),
            'E' => {}
            other if other.is_ascii_alphanumeric() => return Err(format!("the escape '\\{other}'")),
            other => self.literal(other),
        }
        Ok(())
    }

    fn literal(&mut self, character: char) {
        // White space must stay a literal under the verbose option.
        if character.is_whitespace() {
            self.out.push_str(&format!("\\x{{{:x}}}", u32::from(character)));
        } else {
            self.out.push_str(&regex::escape(&character.to_string()));
        }
    }

    /// `\xhh` with at most two digits, or `\x{h...}`.
    fn hexadecimal(&mut self) -> Result<(), String> {
        let braced = self.rest.next_if_eq(&'{').is_some();
        let mut digits = String::new();
        while digits.len() < if braced { 8 } else { 2 } {
            match self.rest.next_if(char::is_ascii_hexdigit) {
                Some(digit) => digits.push(digit),
                None => break,
            }
        }
        if braced && self.rest.next() != Some('}') {
            return Err("an unfinished \\x{...}".into());
        }
        let code = if digits.is_empty() { "0" } else { digits.as_str() };
        self.out.push_str(&format!("\\x{{{code}}}"));
        Ok(())
    }

    fn quoted(&mut self) {
        while let Some(character) = self.rest.next() {
            if character == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            self.literal(character);
        }
    }

    /// A bracketed class. Brackets, `&`, `~` and white space inside are literals in PCRE.
    fn class(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        if self.rest.next_if_eq(&']').is_some() {
            self.out.push_str(r"\]");
        }
        while let Some(character) = self.rest.next() {
            match character {
                ']' => {
                    self.out.push(']');
                    return Ok(());
                }
                '[' if self.rest.peek() == Some(&':') => self.posix_class()?,
                '\\' => self.class_escape()?,
                '-' => self.class_hyphen(),
                '[' | '&' | '~' | '^' | '#' => {
                    self.out.push('\\');
                    self.out.push(character);
                }
                ' ' => self.out.push_str(r"\x20"),
                space if space.is_whitespace() => {
                    self.out.push_str(&format!("\\x{{{:x}}}", u32::from(space)));
                }
                other => self.out.push(other),
            }
        }
        Err("a class without an end".into())
    }

    /// A hyphen makes a range unless it comes first or last; two in a row would be a difference of sets.
    fn class_hyphen(&mut self) {
        let first = self.out.ends_with('[') || self.out.ends_with("[^");
        let last = self.rest.peek() == Some(&']');
        let after_range = self.rest.peek() == Some(&'-') || self.out.ends_with('-');
        self.out.push_str(if first || last || after_range { r"\-" } else { "-" });
    }

    fn posix_class(&mut self) -> Result<(), String> {
        let body: String = self.rest.clone().take_while(|character| *character != ']').collect();
        if body.len() < 3 || !body.ends_with(':') {
            self.out.push_str(r"\[");
            return Ok(());
        }
        self.rest.nth(body.chars().count());
        self.out.push_str(&format!("[{body}]"));
        Ok(())
    }

    fn class_escape(&mut self) -> Result<(), String> {
        let Some(character) = self.rest.next() else {
            return Err("a trailing backslash".into());
        };
        match character {
            'd' => self.out.push_str("0-9"),
            'D' => self.out.push_str("[^0-9]"),
            'w' => self.out.push_str("0-9A-Za-z_"),
            'W' => self.out.push_str("[^0-9A-Za-z_]"),
            's' => self.out.push_str(r"\t\n\x0B\f\r\x20"),
            'S' => self.out.push_str(r"[^\t\n\x0B\f\r\x20]"),
            'h' => self.out.push_str(r"\t\x20\xA0\u{1680}\u{180E}\u{2000}-\u{200A}\u{202F}\u{205F}\u{3000}"),
            'b' => self.out.push_str(r"\x08"),
            'n' | 'r' | 't' | 'f' | 'p' | 'P' => {
                self.out.push('\\');
                self.out.push(character);
            }
            'v' => self.out.push_str(r"\n\x0B\f\r\x85\u{2028}\u{2029}"),
            'a' => self.out.push_str(r"\x07"),
            'e' => self.out.push_str(r"\x1B"),
            'x' => self.hexadecimal()?,
            other if other.is_ascii_alphanumeric() => {
                return Err(format!("the escape '\\{other}' in a class"));
            }
            '-' => self.out.push_str(r"\-"),
            other => self.literal(other),
        }
        Ok(())
    }
}
