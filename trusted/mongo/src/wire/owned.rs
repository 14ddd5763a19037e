//! From bytes a peer sent to owned BSON: one pass that bounds depth and refuses what would change meaning.

use arras_documents::limits;
use bson::raw::{RawArray, RawBsonRef, RawDocument};
use bson::{Bson, Document, JavaScriptCodeWithScope};

/// Deepest nesting of documents and arrays in a request: that of a stored document, and the command around it.
/// Bounds recursion here and in everything that later walks the value.
pub const DEPTH_MAX: usize = limits::DEPTH_MAX + 8;

/// Why bytes did not become a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unacceptable {
    /// Two fields of one name in one document. MongoDB keeps both; an owned document holds one of them, and
    /// dropping the other silently would lose data or a condition.
    #[error("duplicate field name '{0}' in a document")]
    Duplicate(String),
    /// Not BSON.
    #[error("invalid BSON: {0}")]
    Malformed(String),
    /// Nested deeper than [`DEPTH_MAX`].
    #[error("document exceeds maximum nested object depth: {DEPTH_MAX}")]
    TooDeep,
}

impl Unacceptable {
    /// MongoDB's error code.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self {
            Self::Duplicate(_) => 2,
            Self::Malformed(_) => 22,
            Self::TooDeep => 15,
        }
    }

    /// That of [`Self::code`] in MongoDB's table.
    #[must_use]
    pub fn code_name(&self) -> &'static str {
        match self {
            Self::Duplicate(_) => "BadValue",
            Self::Malformed(_) => "InvalidBSON",
            Self::TooDeep => "Overflow",
        }
    }
}

/// An owned copy of a document.
pub fn document(raw: &RawDocument) -> Result<Document, Unacceptable> {
    nested_document(raw, DEPTH_MAX)
}

fn nested_document(raw: &RawDocument, depth: usize) -> Result<Document, Unacceptable> {
    let depth = depth.checked_sub(1).ok_or(Unacceptable::TooDeep)?;
    let mut document = Document::new();
    for element in raw {
        let (name, raw_value) = element.map_err(|error| Unacceptable::Malformed(error.to_string()))?;
        if document.insert(name.as_str(), value(raw_value, depth)?).is_some() {
            return Err(Unacceptable::Duplicate(name.as_str().to_owned()));
        }
    }
    Ok(document)
}

fn nested_array(raw: &RawArray, depth: usize) -> Result<Vec<Bson>, Unacceptable> {
    let depth = depth.checked_sub(1).ok_or(Unacceptable::TooDeep)?;
    raw.into_iter()
        .map(|element| {
            let element = element.map_err(|error| Unacceptable::Malformed(error.to_string()))?;
            value(element, depth)
        })
        .collect()
}

fn value(raw: RawBsonRef<'_>, depth: usize) -> Result<Bson, Unacceptable> {
    match raw {
        RawBsonRef::Document(inner) => nested_document(inner, depth).map(Bson::Document),
        RawBsonRef::Array(inner) => nested_array(inner, depth).map(Bson::Array),
        RawBsonRef::JavaScriptCodeWithScope(inner) => {
            let scope = nested_document(inner.scope, depth)?;
            Ok(Bson::JavaScriptCodeWithScope(JavaScriptCodeWithScope { code: inner.code.to_owned(), scope }))
        }
        leaf => Bson::try_from(leaf).map_err(|error| Unacceptable::Malformed(error.to_string())),
    }
}
