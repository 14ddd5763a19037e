//! Languages of texts: which words say nothing, and what the stem of a word is.

use frostem::{Algorithm, Stemmer};
use std::fmt;
use std::str::FromStr;

/// The language that a collection of texts is analysed by: those of MongoDB's text indexes.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
pub enum Language {
    /// No stemming, and every word counts.
    #[default]
    None,
    /// Danish.
    Danish,
    /// Dutch.
    Dutch,
    /// English.
    English,
    /// Finnish.
    Finnish,
    /// French.
    French,
    /// German.
    German,
    /// Hungarian.
    Hungarian,
    /// Italian.
    Italian,
    /// Norwegian.
    Norwegian,
    /// Portuguese.
    Portuguese,
    /// Romanian.
    Romanian,
    /// Russian.
    Russian,
    /// Spanish.
    Spanish,
    /// Swedish.
    Swedish,
    /// Turkish: its dotless i is a letter of its own.
    Turkish,
}

/// A language's names and what knows it.
struct Row {
    language: Language,
    name: &'static str,
    /// ISO 639-1, as MongoDB has it.
    code: &'static str,
    /// Its list of stop words.
    list: &'static str,
    algorithm: Option<Algorithm>,
}

const fn row(
    language: Language,
    name: &'static str,
    codes: [&'static str; 2],
    algorithm: Option<Algorithm>,
) -> Row {
    Row { language, name, code: codes[0], list: codes[1], algorithm }
}

const TABLE: [Row; 16] = [
    row(Language::None, "none", ["none", ""], None),
    row(Language::Danish, "danish", ["da", "da"], Some(Algorithm::Danish)),
    row(Language::Dutch, "dutch", ["nl", "nl"], Some(Algorithm::Dutch)),
    row(Language::English, "english", ["en", "en"], Some(Algorithm::English)),
    row(Language::Finnish, "finnish", ["fi", "fi"], Some(Algorithm::Finnish)),
    row(Language::French, "french", ["fr", "fr"], Some(Algorithm::French)),
    row(Language::German, "german", ["de", "de"], Some(Algorithm::German)),
    row(Language::Hungarian, "hungarian", ["hu", "hu"], Some(Algorithm::Hungarian)),
    row(Language::Italian, "italian", ["it", "it"], Some(Algorithm::Italian)),
    row(Language::Norwegian, "norwegian", ["nb", "no"], Some(Algorithm::Norwegian)),
    row(Language::Portuguese, "portuguese", ["pt", "pt"], Some(Algorithm::Portuguese)),
    row(Language::Romanian, "romanian", ["ro", "ro"], Some(Algorithm::Romanian)),
    row(Language::Russian, "russian", ["ru", "ru"], Some(Algorithm::Russian)),
    row(Language::Spanish, "spanish", ["es", "es"], Some(Algorithm::Spanish)),
    row(Language::Swedish, "swedish", ["sv", "sv"], Some(Algorithm::Swedish)),
    row(Language::Turkish, "turkish", ["tr", "tr"], Some(Algorithm::Turkish)),
];

/// A name that is no language's here.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("there is no analysis for the language {0:?}; there is {list}", list = names())]
pub struct UnknownLanguage(pub String);

fn names() -> String {
    TABLE.iter().map(|row| row.name).collect::<Vec<_>>().join(", ")
}

impl Language {
    /// Every language.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLE.iter().map(|row| row.language)
    }

    fn row(self) -> &'static Row {
        // The table is in the order of the variants, as a test sees to.
        &TABLE[self as usize]
    }

    /// Its English name in lower case.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Words, as its list writes them, that are in so many texts that they say nothing of one.
    pub(crate) fn stop_words(self) -> &'static [&'static str] {
        stop_words::lookup(self.row().list).unwrap_or(&[])
    }

    pub(crate) fn stemmer(self) -> Option<Stemmer> {
        self.row().algorithm.map(Stemmer::new)
    }
}

impl FromStr for Language {
    type Err = UnknownLanguage;

    /// By name or two-letter code, in either case.
    fn from_str(name: &str) -> Result<Self, UnknownLanguage> {
        let wanted = name.to_ascii_lowercase();
        let found = TABLE.iter().find(|row| row.name == wanted || row.code == wanted);
        found.map(|row| row.language).ok_or_else(|| UnknownLanguage(name.into()))
    }
}

impl fmt::Display for Language {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{Language, TABLE};

    #[test]
    fn every_language_is_found_by_its_names_and_has_its_words_and_stems() {
        for (place, row) in TABLE.iter().enumerate() {
            assert_eq!(row.language as usize, place);
            assert_eq!(row.name.to_uppercase().parse::<Language>().unwrap(), row.language);
            assert_eq!(row.code.parse::<Language>().unwrap(), row.language);
            let has_analysis = row.language != Language::None;
            assert_eq!(row.language.stop_words().len() > 20, has_analysis, "{}", row.name);
            assert_eq!(row.language.stemmer().is_some(), has_analysis);
        }
        let error = "klingon".parse::<Language>().unwrap_err().to_string();
        assert!(error.contains("klingon") && error.contains("turkish"), "{error}");
    }
}
