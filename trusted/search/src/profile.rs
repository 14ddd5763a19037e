//! What the clients of a collection agree on: how its texts become keywords, and which of its numbers are what.

use crate::analysis::Analyzer;
use crate::formula::Number;
use crate::language::{Language, UnknownLanguage};
use arras_protocol::Blob;
use arras_schemes::bisen::message::Settings;
use arras_schemes::bisen::query::Padding;
use serde::{Deserialize, Serialize};

/// Raised when a profile is written in another way.
const VERSION: u8 = 1;

/// How a collection's texts are analysed. The enclave keeps it and does not read it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Profile {
    /// The language of the texts.
    pub language: Language,
    /// Of the analysis it was made with: see [`Analyzer::fingerprint`].
    pub fingerprint: [u8; 8],
}

/// A profile in the enclave.
#[derive(Serialize, Deserialize)]
struct Written {
    version: u8,
    language: String,
    fingerprint: [u8; 8],
}

/// Why a collection cannot be used with this analysis.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ProfileError {
    /// No profile of ours.
    #[error("the collection was not made by arras search, or by a newer release")]
    Unreadable,
    /// A language that there is not.
    #[error("the collection was made by a newer release: {0}")]
    Language(#[from] UnknownLanguage),
    /// Another language.
    #[error("the index is of texts in {found}, not in {wanted}: use --language {found}, or another --store")]
    OtherLanguage {
        /// The collection's.
        found: Language,
        /// The one that was asked for.
        wanted: Language,
    },
    /// The same language, by another release's stemmer or list of words.
    #[error(
        "the index was made by a release that finds other word stems in {0}: what it finds now would be wrong. Index anew, into \
         another --store"
    )]
    OtherAnalysis(Language),
}

impl Profile {
    /// How many numbers of a document are declared: [`Number::ALL`].
    pub const FIELDS: u8 = Number::ALL.len() as u8;

    /// The profile of this build's analysis of a language.
    #[must_use]
    pub fn new(language: Language) -> Self {
        Self { language, fingerprint: Analyzer::new(language).fingerprint() }
    }

    /// As the enclave keeps it.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let language = self.language.name().into();
        let written = Written { version: VERSION, language, fingerprint: self.fingerprint };
        // Encoding into memory does not fail.
        postcard::to_stdvec(&written).unwrap_or_default()
    }

    /// From how the enclave keeps it.
    ///
    /// # Errors
    /// If it is no profile, or of a language that there is not.
    pub fn decode(bytes: &[u8]) -> Result<Self, ProfileError> {
        let written: Written = postcard::from_bytes(bytes).map_err(|_| ProfileError::Unreadable)?;
        if written.version != VERSION {
            return Err(ProfileError::Unreadable);
        }
        Ok(Self { language: written.language.parse()?, fingerprint: written.fingerprint })
    }

    /// The settings of a collection whose texts are analysed so.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings { fields: Self::FIELDS, padding: Padding::None, profile: Blob(self.encode()) }
    }

    /// Whether a collection was made for texts that are analysed so.
    ///
    /// # Errors
    /// It was made for others.
    pub fn check(&self, settings: &Settings) -> Result<(), ProfileError> {
        Self::decode(settings.profile.as_slice())?.check_same(self)
    }

    /// Whether it is the one that is wanted.
    pub(crate) fn check_same(&self, wanted: &Self) -> Result<(), ProfileError> {
        if self.language != wanted.language {
            return Err(ProfileError::OtherLanguage { found: self.language, wanted: wanted.language });
        }
        if self.fingerprint == wanted.fingerprint {
            Ok(())
        } else {
            Err(ProfileError::OtherAnalysis(self.language))
        }
    }

    /// Whether it is that of this build's analysis.
    pub(crate) fn check_current(&self) -> Result<(), ProfileError> {
        self.check_same(&Self::new(self.language))
    }
}
