//! `$text`: words looked for in the fields that a text index is over. What is a word, and in which fields, the store says that
//! has the index: it gives the condition its [`TextMatch`] before the first document is looked at.

use crate::QueryError;
use crate::filter::{Expr, Test};
use bson::{Bson, Document};
use std::fmt;
use std::sync::{Arc, OnceLock};

/// Whether a document has what a `$text` asks for.
pub trait TextMatch: fmt::Debug + Send + Sync {
    /// MongoDB's `textScore` of a document; none if it does not match.
    fn score(&self, document: &Document) -> Option<f64>;
}

/// A parsed `$text`. Clones share what it is bound to.
#[derive(Clone, Debug)]
pub struct TextCondition {
    /// `$search`.
    pub search: String,
    /// `$language`, if one is named.
    pub language: Option<String>,
    bound: Arc<OnceLock<Arc<dyn TextMatch>>>,
}

impl PartialEq for TextCondition {
    fn eq(&self, other: &Self) -> bool {
        (&self.search, &self.language) == (&other.search, &other.language)
    }
}

impl Eq for TextCondition {}

impl TextCondition {
    /// One that looks for words, in the index's language.
    #[must_use]
    pub fn words(search: &str) -> Self {
        Self { search: search.to_owned(), language: None, bound: Arc::default() }
    }

    /// Reads the argument of `$text`.
    pub(crate) fn parse(argument: &Bson) -> Result<Self, QueryError> {
        let Bson::Document(fields) = argument else {
            return Err(QueryError::bad_value("$text expects an object"));
        };
        let (mut search, mut language) = (None, None);
        for (name, value) in fields {
            match (name.as_str(), value) {
                ("$search", Bson::String(text)) => search = Some(text.clone()),
                ("$language", Bson::String(name)) => language = Some(name.clone()),
                ("$caseSensitive" | "$diacriticSensitive", Bson::Boolean(false)) => {}
                ("$caseSensitive" | "$diacriticSensitive", Bson::Boolean(true)) => {
                    return Err(QueryError::unsupported(format!("{name}: true in $text")));
                }
                ("$search" | "$language", _) => return Err(wrong_type(name, "string", value)),
                ("$caseSensitive" | "$diacriticSensitive", _) => return Err(wrong_type(name, "bool", value)),
                _ => return Err(QueryError::bad_value("extra fields in $text")),
            }
        }
        let missing = || QueryError::new(4, "NoSuchKey", "Missing expected field \"$search\"");
        let search = search.ok_or_else(missing)?;
        Ok(Self { search, language, bound: Arc::default() })
    }

    /// Says what it means; the first time counts.
    pub fn bind(&self, meaning: Arc<dyn TextMatch>) {
        let _ = self.bound.set(meaning);
    }

    /// True once [`Self::bind`] was called.
    #[must_use]
    pub fn is_bound(&self) -> bool {
        self.bound.get().is_some()
    }

    /// A document's score; none if it does not match.
    ///
    /// # Errors
    /// 27 if no index says what it means.
    pub fn score(&self, document: &Document) -> Result<Option<f64>, QueryError> {
        let meaning = self.bound.get().ok_or_else(no_index)?;
        Ok(meaning.score(document))
    }
}

/// A document names a language that is not known.
#[must_use]
pub fn unknown_language(name: &str) -> QueryError {
    crate::error::location!(17262, "language override unsupported: {name}")
}

/// A document names its language by something that is no text.
#[must_use]
pub fn language_of_another_type() -> QueryError {
    crate::error::location!(17261, "found language override field in document with non-string type")
}

/// A document has texts of several languages.
#[must_use]
pub fn several_languages() -> QueryError {
    QueryError::unsupported("texts of several languages in one document")
}

/// There is no text index.
fn no_index() -> QueryError {
    QueryError::new(27, "IndexNotFound", "text index required for $text query")
}

/// The score is asked for where no `$text` gives one.
pub(crate) fn no_score() -> QueryError {
    crate::error::location!(40218, "query requires text score metadata, but it is not available")
}

fn wrong_type(name: &str, expected: &str, value: &Bson) -> QueryError {
    let found = crate::order::type_name(value);
    QueryError::type_mismatch(format!("\"{name}\" had the wrong type. Expected {expected}, found {found}"))
}

/// True for `{$meta: "textScore"}`.
///
/// # Errors
/// 238 for other metadata.
pub(crate) fn is_score(value: &Bson) -> Result<bool, QueryError> {
    let Some(meta) = value.as_document().filter(|fields| fields.len() == 1).and_then(|it| it.get("$meta"))
    else {
        return Ok(false);
    };
    match meta.as_str() {
        Some("textScore") => Ok(true),
        _ => Err(QueryError::unsupported(format!("$meta: {meta}"))),
    }
}

/// Checks that at most one `$text` stands in a filter, and where all that passes must meet it.
pub(crate) fn check_place(expr: &Expr) -> Result<(), QueryError> {
    let mut met = 0;
    place(expr, true, &mut met)
}

fn place(expr: &Expr, required: bool, met: &mut usize) -> Result<(), QueryError> {
    match expr {
        Expr::Always | Expr::Never | Expr::Expression(_) => Ok(()),
        Expr::Text(_) if !required => Err(QueryError::unsupported("$text under $or, $nor or $elemMatch")),
        Expr::Text(_) => {
            *met += 1;
            if *met > 1 { Err(QueryError::bad_value("Too many text expressions")) } else { Ok(()) }
        }
        Expr::And(inner) => inner.iter().try_for_each(|expr| place(expr, required, met)),
        Expr::Or(inner) | Expr::Nor(inner) => inner.iter().try_for_each(|expr| place(expr, false, met)),
        Expr::Field { test, .. } => within(test, met),
    }
}

/// An element match may hold any condition, and a `$not` or `$all` an element match.
fn within(test: &Test, met: &mut usize) -> Result<(), QueryError> {
    match test {
        Test::ElemMatch(inner) => place(inner, false, met),
        Test::All(tests) | Test::AnyOf(tests) | Test::ElemMatchValue(tests) | Test::Not(tests) => {
            tests.iter().try_for_each(|test| within(test, met))
        }
        Test::Bits { .. }
        | Test::Eq(_)
        | Test::Exists(_)
        | Test::Gt(_)
        | Test::Gte(_)
        | Test::In(_)
        | Test::Lt(_)
        | Test::Lte(_)
        | Test::Mod { .. }
        | Test::Ne(_)
        | Test::Nin(_)
        | Test::Regex(_)
        | Test::Size(_)
        | Test::Type(_) => Ok(()),
    }
}

/// The `$text` of a filter.
pub(crate) fn of(expr: &Expr) -> Option<&TextCondition> {
    match expr {
        Expr::Text(condition) => Some(condition),
        Expr::And(inner) => inner.iter().find_map(of),
        Expr::Always
        | Expr::Never
        | Expr::Or(_)
        | Expr::Nor(_)
        | Expr::Field { .. }
        | Expr::Expression(_) => None,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::filter::Filter;
    use crate::projection::Projection;
    use crate::sort::Sort;
    use bson::doc;

    /// Counts an `a` in the field `t`.
    #[derive(Debug)]
    struct Letters;

    impl TextMatch for Letters {
        fn score(&self, document: &Document) -> Option<f64> {
            let count = document.get_str("t").ok()?.matches('a').count();
            (count > 0).then_some(count as f64)
        }
    }

    fn filter(document: Document) -> Result<Filter, QueryError> {
        Filter::parse(&document)
    }

    #[test]
    fn it_is_read_and_refused_as_mongodb_does() {
        let text = |argument: Bson| filter(doc! { "$text": argument }).map(drop).map_err(|error| error.code);
        assert_eq!(text(Bson::Document(doc! { "$search": "a", "$language": "none" })), Ok(()));
        assert_eq!(text(Bson::Document(doc! { "$search": "a", "$caseSensitive": false })), Ok(()));
        assert_eq!(text(Bson::Document(doc! { "$search": "a", "$caseSensitive": true })), Err(238));
        assert_eq!(text(Bson::Document(doc! { "$search": 7 })), Err(14));
        assert_eq!(text(Bson::Document(doc! { "$search": "a", "$other": 7 })), Err(2));
        assert_eq!(text(Bson::Document(doc! {})), Err(4));
        assert_eq!(text(Bson::String("a".into())), Err(2));
        let word = doc! { "$text": { "$search": "a" } };
        let code = |document| filter(document).unwrap_err().code;
        assert_eq!(code(doc! { "$and": [word.clone(), word.clone()] }), 2);
        assert_eq!(code(doc! { "$or": [word.clone(), { "b": 1 }] }), 238);
        assert_eq!(code(doc! { "$nor": [word.clone()] }), 238);
        assert_eq!(code(doc! { "a": { "$elemMatch": word.clone() } }), 2, "no field of an element");
        assert_eq!(code(doc! { "a": { "$elemMatch": { "$and": [word] } } }), 238);
    }

    #[test]
    fn a_filter_a_sort_and_a_projection_go_by_what_it_is_bound_to() {
        let filter = filter(doc! { "n": 1, "$text": { "$search": "whatever" } }).unwrap();
        let condition = filter.text().unwrap();
        let first = doc! { "_id": 1, "n": 1, "t": "banana" };
        let second = doc! { "_id": 2, "n": 1, "t": "and" };
        assert_eq!(filter.matches(&first).unwrap_err().code, 27, "nothing says what it means");
        let score = doc! { "s": { "$meta": "textScore" } };
        let sort = Sort::parse(&score).unwrap().scored_by(Some(condition)).unwrap();
        let projection = Projection::parse(&score).unwrap().scored_by(Some(condition)).unwrap();
        condition.bind(Arc::new(Letters));
        assert!(filter.matches(&first).unwrap());
        assert!(!filter.matches(&doc! { "n": 2, "t": "banana" }).unwrap());
        assert!(!filter.matches(&doc! { "n": 1, "t": "xyz" }).unwrap());
        assert!(sort.compare(&first, &second).is_lt(), "the best first");
        let projected = projection.apply(&first, None).unwrap();
        assert_eq!(projected, doc! { "_id": 1, "n": 1, "t": "banana", "s": 3.0 });
    }

    #[test]
    fn a_score_needs_a_text_condition() {
        let score = doc! { "s": { "$meta": "textScore" } };
        assert_eq!(Sort::parse(&score).unwrap().scored_by(None).unwrap_err().code, 40218);
        assert_eq!(Projection::parse(&score).unwrap().scored_by(None).unwrap_err().code, 40218);
        assert_eq!(Sort::parse(&doc! { "s": { "$meta": "indexKey" } }).unwrap_err().code, 238);
        assert!(Sort::parse(&doc! { "s": 1 }).unwrap().scored_by(None).is_ok());
    }
}
