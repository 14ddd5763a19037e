//! Text indexes: what `createIndexes` may ask of one, in the form in which MongoDB lists it.
//!
//! `{title: "text", body: "text"}` becomes `{_fts: "text", _ftsx: 1}` with the fields under `weights`. The entries of such an
//! index are kept by the enclave of boolean search, so it has no encrypted index on the server.

use crate::request::RequestError;
use arras_service::store::IndexDefinition;
use bson::{Bson, Document, doc};

/// MongoDB's version of the format in which an index is listed.
const VERSION: i32 = 3;
/// Weights are below.
const WEIGHT_MAX: f64 = 1e9;
/// The field whose value names a document's language, unless another is named.
const OVERRIDE: &str = "language";
/// The language of documents that name none, unless another is named.
const LANGUAGE: &str = "english";
/// All fields.
pub const EVERY_FIELD: &str = "$**";

/// What a text index is over.
#[derive(Clone, Debug, PartialEq)]
pub struct TextDefinition {
    /// Fields and their weights; [`EVERY_FIELD`] stands for all strings of a document.
    pub weights: Vec<(String, f64)>,
    /// Language of documents that name none.
    pub default_language: String,
    /// The field that names a document's language.
    pub language_override: String,
}

/// True for a request in the form in which MongoDB lists it.
#[must_use]
pub fn is_text(request: &IndexDefinition) -> bool {
    request.key.get_str("_fts").is_ok_and(|kind| kind == "text")
}

/// True if a request asks for a text index.
pub(crate) fn asks_for_text(request: &IndexDefinition) -> bool {
    request.key.values().any(|kind| kind.as_str() == Some("text"))
}

/// What an index in the form in which MongoDB lists it is over.
#[must_use]
pub fn definition(request: &IndexDefinition) -> TextDefinition {
    let options = &request.options;
    let text = |name: &str| options.get_str(name).unwrap_or_default().to_owned();
    let weights = options.get_document("weights").into_iter().flatten();
    TextDefinition {
        weights: weights.filter_map(|(field, weight)| Some((field.clone(), number(weight)?))).collect(),
        default_language: text("default_language"),
        language_override: text("language_override"),
    }
}

/// A request for a text index as MongoDB lists it.
///
/// # Errors
/// [`RequestError`] for other fields beside, options that would change results, and weights out of bounds.
pub(crate) fn normalised(request: IndexDefinition) -> Result<IndexDefinition, RequestError> {
    let refused = |option, what| RequestError::Option { name: request.name.clone(), option, what };
    if request.unique {
        let what = "is of kind \"text\", and text indexes cannot be unique";
        return Err(RequestError::Key { name: request.name.clone(), what });
    }
    let mut weights = Document::new();
    for (field, kind) in &request.key {
        match (field.as_str(), kind) {
            ("_fts", _) | ("_ftsx", Bson::Int32(1) | Bson::Int64(1) | Bson::Double(1.0)) => {}
            (field, Bson::String(kind)) if kind == "text" && is_path(field) => {
                weights.insert(field, 1);
            }
            _ => {
                let what = "has other fields beside those of kind \"text\", which is not supported over encrypted data";
                return Err(RequestError::Key { name: request.name.clone(), what });
            }
        }
    }
    if let Some(given) = request.options.get("weights") {
        let given = given.as_document().ok_or_else(|| refused("weights", "is not a document"))?;
        for (field, weight) in given {
            let weight =
                checked(weight).ok_or_else(|| refused("weights", "has a weight not in (0, 1000000000)"))?;
            if !is_path(field) {
                return Err(refused("weights", "has a malformed field path"));
            }
            weights.insert(field, weight);
        }
    }
    if weights.is_empty() {
        return Err(RequestError::Key { name: request.name.clone(), what: "has no field" });
    }
    if request
        .options
        .get("textIndexVersion")
        .is_some_and(|version| number(version) != Some(f64::from(VERSION)))
    {
        return Err(refused("textIndexVersion", "is not 3"));
    }
    let text = |option: &'static str, default: &str| match request.options.get(option) {
        None => Ok(default.to_owned()),
        Some(Bson::String(text)) if !text.is_empty() => Ok(text.clone()),
        Some(_) => Err(refused(option, "is not a string")),
    };
    let (language, field) = (text("default_language", LANGUAGE)?, text("language_override", OVERRIDE)?);
    if field.contains('.') || field.starts_with('$') {
        return Err(refused("language_override", "is not the name of a field of the document itself"));
    }
    // Fields are listed in the order of their names.
    let mut sorted: Vec<(String, Bson)> = weights.into_iter().collect();
    sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
    let options = doc! {
        "weights": sorted.into_iter().collect::<Document>(),
        "default_language": language,
        "language_override": field,
        "textIndexVersion": VERSION,
    };
    Ok(IndexDefinition { key: doc! { "_fts": "text", "_ftsx": 1 }, options, ..request })
}

fn is_path(field: &str) -> bool {
    field == EVERY_FIELD || !field.split('.').any(|part| part.is_empty() || part.starts_with('$'))
}

fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => Some(*number as f64),
        Bson::Double(number) => Some(*number),
        _ => None,
    }
}

/// A weight as it is listed.
fn checked(weight: &Bson) -> Option<Bson> {
    let value = number(weight).filter(|value| *value > 0.0 && *value < WEIGHT_MAX)?;
    Some(if value.fract() == 0.0 { Bson::Int32(value as i32) } else { Bson::Double(value) })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn request(key: Document, options: Document) -> IndexDefinition {
        IndexDefinition { name: "words".into(), key, unique: false, sparse: false, options }
    }

    #[test]
    fn it_is_listed_as_mongodb_lists_it_and_stays_so() {
        let key = doc! { "title": "text", "body": "text" };
        let asked = request(key, doc! { "weights": { "title": 10, "note": 2.0 } });
        assert!(asks_for_text(&asked));
        let listed = normalised(asked).unwrap();
        assert!(is_text(&listed));
        let options = doc! {
            "weights": { "body": 1, "note": 2, "title": 10 },
            "default_language": "english",
            "language_override": "language",
            "textIndexVersion": 3,
        };
        assert_eq!(listed.options, options);
        assert_eq!(normalised(listed.clone()).unwrap(), listed, "what a dump says is taken back");
        let weights =
            [("body", 1.0), ("note", 2.0), ("title", 10.0)].map(|(field, it)| (field.to_owned(), it));
        assert_eq!(definition(&listed).weights, weights);
    }

    #[test]
    fn what_would_change_results_is_refused() {
        let text = || doc! { "a": "text" };
        for (key, options) in [
            (doc! { "a": "text", "b": 1 }, doc! {}),
            (doc! { "a": "text", "b": "hashed" }, doc! {}),
            (doc! { "a..b": "text" }, doc! {}),
            (text(), doc! { "weights": { "a": 0 } }),
            (text(), doc! { "weights": { "a": 1e10 } }),
            (text(), doc! { "weights": 3 }),
            (text(), doc! { "textIndexVersion": 2 }),
            (text(), doc! { "default_language": 3 }),
            (text(), doc! { "language_override": "a.b" }),
        ] {
            assert!(normalised(request(key.clone(), options.clone())).is_err(), "{key} {options}");
        }
        assert!(normalised(IndexDefinition { unique: true, ..request(text(), doc! {}) }).is_err());
    }
}
