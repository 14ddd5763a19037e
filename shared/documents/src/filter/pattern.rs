//! Regular expressions.

use crate::QueryError;
use bson::Bson;
use regex::Regex;

/// A compiled regular expression.
#[derive(Clone, Debug)]
pub struct Pattern {
    source: String,
    options: String,
    regex: Regex,
}
impl Pattern {
    /// Compiles `pattern` with options of `imsx`.
    ///
    /// # Errors
    /// 51091 for an invalid pattern or one with constructs of PCRE that a linear-time engine does not have.
    pub fn new(pattern: &str, options: &str) -> Result<Self, QueryError> {
        let regex = Regex::new(pattern).map_err(|e| QueryError::bad_value(e.to_string()))?;
        Ok(Pattern {
            source: pattern.to_owned(),
            options: options.to_owned(),
            regex,
        })
    }

    /// The pattern as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The options as written.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// True for a string or symbol that it matches and for the same regular expression.
    pub fn matches(&self, value: &Bson) -> bool {
        match value {
            Bson::String(text) | Bson::Symbol(text) => self.regex.is_match(text),
            _ => false,
        }
    }
}
