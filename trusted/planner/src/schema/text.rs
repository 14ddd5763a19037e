//! What `$text` is to find: the text index that a schema declares of a collection.

use super::raw::{Mistake, check_path, mistake};
use crate::text;
use arras_service::store::IndexDefinition;
use bson::{Document, doc};
use serde::Deserialize;
use std::collections::BTreeMap;
use toml::Spanned;

/// Name of a text index that a schema declares.
pub const TEXT_INDEX: &str = "arras_text";

/// A collection's text index as its schema has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextSchema {
    /// Fields and their weights; [`text::EVERY_FIELD`] stands for all strings of a document.
    pub weights: BTreeMap<String, u32>,
    /// Language of documents that name none; English if it is not said.
    pub default_language: Option<String>,
    /// The field that names a document's language; `language` if it is not said.
    pub language_override: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawText {
    fields: Spanned<BTreeMap<Spanned<String>, u32>>,
    default_language: Option<String>,
    language_override: Option<String>,
}

impl TextSchema {
    pub(super) fn read(raw: RawText) -> Result<Self, Mistake> {
        let span = raw.fields.span();
        let mut weights = BTreeMap::new();
        for (field, weight) in raw.fields.into_inner() {
            if field.as_ref() != text::EVERY_FIELD {
                check_path(field.as_ref(), field.span())?;
            }
            weights.insert(field.into_inner(), weight);
        }
        let read = Self {
            weights,
            default_language: raw.default_language,
            language_override: raw.language_override,
        };
        match text::normalised(read.asked()) {
            Ok(_) => Ok(read),
            Err(error) => mistake(span, error.to_string()),
        }
    }

    fn asked(&self) -> IndexDefinition {
        let weights = self.weights.iter().map(|(field, weight)| (field.clone(), i64::from(*weight).into()));
        let mut options = doc! { "weights": weights.collect::<Document>() };
        options.extend(self.default_language.iter().map(|name| ("default_language".into(), name.into())));
        options.extend(self.language_override.iter().map(|name| ("language_override".into(), name.into())));
        let key = self.weights.keys().map(|field| (field.clone(), "text".into())).collect();
        IndexDefinition { name: TEXT_INDEX.into(), key, unique: false, sparse: false, options }
    }

    /// The index, as an application would ask for it.
    #[must_use]
    pub fn request(&self) -> IndexDefinition {
        let asked = self.asked();
        // What was read is in order.
        text::normalised(asked.clone()).unwrap_or(asked)
    }
}

impl std::fmt::Display for TextSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields: Vec<&str> = self.weights.keys().map(String::as_str).collect();
        write!(f, "BISEN({})", fields.join(", "))
    }
}
